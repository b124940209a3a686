#include "eval/bits.h"

#include <algorithm>

#include "base/error.h"
#include "codec/scope.h"
#include "codec/tensor_decoder.h"

namespace kaiju::eval {

namespace {

double bits_per_weight(uint64_t bytes, uint64_t weights) {
    return weights == 0 ? 0 : 8 * static_cast<double>(bytes) / static_cast<double>(weights);
}

uint64_t size_of(const std::filesystem::path& file) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(file, error);
    if (error) {
        throw Error(ErrorCode::io, file.string() + ": " + error.message());
    }
    return size;
}

}  // namespace

Bits measure_bits(const format::ModelFile& model) {
    Bits bits;
    const auto tensors = model.tensors();
    const bool encoded = std::ranges::any_of(
        tensors, [](const format::TensorInfo& info) { return codec::is_kaiju_type(info.type); });
    uint64_t linear_bytes = 0;
    for (const format::TensorInfo& info : tensors) {
        bits.weights += info.weights();
        if (encoded ? codec::is_kaiju_type(info.type) : codec::is_linear_weight(info.name)) {
            bits.linear_weights += info.weights();
            linear_bytes += info.nbytes;
        }
    }
    for (const std::filesystem::path& file : model.files()) {
        bits.file_bytes += size_of(file);
    }
    bits.file = bits_per_weight(bits.file_bytes, bits.weights);
    if (bits.linear_weights > 0) {
        bits.linear = bits_per_weight(linear_bytes, bits.linear_weights);
    }
    return bits;
}

}  // namespace kaiju::eval
