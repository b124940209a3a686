// Encoding one matrix from any type that can be decoded.
#pragma once

#include <string_view>

#include "base/monitor.h"
#include "codec/encoder_v1.h"
#include "codec/telemetry.h"
#include "codec/tensor_decoder.h"

namespace kaiju::codec {

/// Rows that are encoded in one go: enough blocks for the batched search to run at full speed.
[[nodiscard]] size_t rows_per_piece(const kaiju1::Layout& layout);

/// Bytes in flight per thread while a matrix of this layout is encoded.
[[nodiscard]] uint64_t bytes_per_thread(const kaiju1::Layout& layout);

/// A whole KAIJU1 payload. Pieces of rows go to threads; the bytes and the statistics do not depend on how
/// many. The monitor is advanced by weights. Throws bad_input naming row and column of a weight that is not
/// finite or above 1e37.
std::vector<std::byte> encode_tensor(const TensorDecoder& weights, const EncoderV1& encoder, int threads,
                                     Monitor& monitor, EncodeStats& stats);

}  // namespace kaiju::codec
