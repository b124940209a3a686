#include "codec/tied_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "codec/tensor_decoder.h"
#include "format/taps.h"

namespace kaiju::codec {

namespace {

using format::kEmbedding;
using format::kHead;

[[noreturn]] void refuse(const format::ModelFile& file, std::string_view why) {
    throw Error(ErrorCode::usage, fmt::format("--tie-head: {}: {}", file.path().string(), why));
}

/// Energy of the difference over that of the head, on rows evenly chosen.
double relative_difference(const format::ModelFile& file, const TiedHead& tied) {
    constexpr uint64_t kRows = 256;
    const format::TensorInfo& info = file.tensors()[tied.head];
    const auto embedding = make_tensor_decoder(file.tensors()[tied.embedding], file.payload(tied.embedding));
    const auto head = make_tensor_decoder(info, file.payload(tied.head));
    const uint64_t rows = std::min(kRows, info.rows());
    std::vector<float> ours(info.cols());
    std::vector<float> theirs(info.cols());
    double difference = 0;
    double energy = 0;
    for (uint64_t n = 0; n < rows; ++n) {
        const uint64_t row = n * (info.rows() / rows);
        head->decode_rows(row, 1, ours.data());
        embedding->decode_rows(row, 1, theirs.data());
        for (size_t i = 0; i < ours.size(); ++i) {
            const double apart = static_cast<double>(ours[i]) - static_cast<double>(theirs[i]);
            difference += apart * apart;
            energy += static_cast<double>(ours[i]) * static_cast<double>(ours[i]);
        }
    }
    return energy > 0 ? difference / energy : 0;
}

}  // namespace

TiedHead find_head(const format::ModelFile& file) {
    const auto embedding = file.find(kEmbedding);
    const auto head = file.find(kHead);
    if (!embedding || !head) {
        refuse(file,
               fmt::format("has no {}: there are no two copies to store once", head ? kEmbedding : kHead));
    }
    return {*embedding, *head};
}

void require_tied(const format::ModelFile& file) {
    constexpr double kMost = 0.05;
    const TiedHead tied = find_head(file);
    if (file.tensors()[tied.embedding].shape != file.tensors()[tied.head].shape) {
        refuse(file,
               fmt::format("{} and {} have different shapes: they are two matrices", kEmbedding, kHead));
    }
    const double apart = relative_difference(file, tied);
    if (!(apart <= kMost)) {
        refuse(file, fmt::format("{} and {} differ by {:.3g} of their energy (at most {} is taken for two "
                                 "quantisations of one matrix): they are two matrices",
                                 kEmbedding, kHead, apart, kMost));
    }
}

}  // namespace kaiju::codec
