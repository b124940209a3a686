// Encoding one matrix from any type that can be decoded.
#pragma once

#include <string_view>

#include "base/monitor.h"
#include "codec/row_encoder.h"
#include "codec/telemetry.h"
#include "codec/tensor_decoder.h"

namespace kaiju::codec {

/// A whole KAIJU1 payload. Pieces of rows go to threads; the bytes and the statistics do not depend on how
/// many. The monitor is advanced by weights. Throws bad_input naming row and column of a weight that is not
/// finite or above 1e37.
std::vector<std::byte> encode_tensor(const TensorDecoder& weights, const RowEncoder& encoder, int threads,
                                     Monitor& monitor, EncodeStats& stats);

}  // namespace kaiju::codec
