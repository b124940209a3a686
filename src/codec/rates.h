// How many bits each tensor gets where a wire has several rates and a size is given for all of them.
#pragma once

#include "codec/encode_plan.h"

namespace kaiju::codec {

/// Gives every KAIJU4 entry whose rate is free (PlanEntry::free_rate) one of the wire's rates, so that the
/// file fits what the options ask for: a target size, or an average of bits a weight. With Rates::uniform all
/// get the same; with Rates::measured a sample of each tensor's rows is encoded first, and bits go where they
/// save most of the sum over tensors of their relative excess (docs/kaiju4-design.md). Throws usage where the
/// target is below what the lowest rate takes, saying what that is, or the average is outside the wire.
void choose_rates(EncodePlan& plan);

}  // namespace kaiju::codec
