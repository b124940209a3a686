// How many bits each tensor gets where a wire has several rates and a size is given for all of them.
#pragma once

#include "codec/encode_plan.h"

namespace kaiju::codec {

/// Gives every entry whose size is free (PlanEntry::free_rate) one of those that its wire has, so that the
/// file fits what the options ask for.
/// KAIJU4: one of the rates; a target size, or an average of bits a weight. With a sensitivity bits go where
/// they save most of the divergence that it tells of. Without, all get the highest rate that they can have
/// together; with Rates::measured what is left of the size goes, a quarter of a bit each, to the tensors
/// whose excess over their energy, measured on a sample of their rows, is largest for their bytes.
/// KAIJU1: with a sensitivity the side-band, all together at most as large as with hi_frac of the columns
/// each; without, nothing.
/// Throws usage where the target is below what the lowest rate takes, saying what that is; bad_input where
/// the sensitivity does not know a tensor.
void choose_rates(EncodePlan& plan);

}  // namespace kaiju::codec
