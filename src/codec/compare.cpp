#include "codec/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "base/parallel.h"
#include "base/pieces.h"
#include "codec/tensor_decoder.h"

namespace kaiju::codec {

using format::ModelFile;
using format::TensorInfo;

namespace {

struct Sums {
    double max_abs = 0;
    double squares = 0;    ///< of the differences
    double reference = 0;  ///< of the first file's weights
};

bool same_bytes(Bytes a, Bytes b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// A NaN, which a weight on one side makes of a difference, is larger than every number, and stays.
double larger(double a, double b) {
    return std::isnan(a) || b <= a ? a : b;
}

/// One side of a comparison.
struct Side {
    Side(const ModelFile& model, size_t index)
        : place(fmt::format("{}: tensor {}", model.path().string(), model.tensors()[index].name)),
          decoder(within(
              place, [&] { return make_tensor_decoder(model.tensors()[index], model.payload(index)); })) {}
    void decode(uint64_t first, uint64_t count, float* out) const {
        within(place, [&] { decoder->decode_rows(first, count, out); });
    }

    std::string place;
    std::unique_ptr<TensorDecoder> decoder;
};

/// Differences of the decoded rows. Each piece of rows has sums of its own, added in order at the end.
Sums compare_rows(const Side& a, const Side& b, uint64_t rows, uint64_t cols, int threads) {
    constexpr uint64_t kWeightsAtATime = uint64_t{1} << 16;
    const uint64_t step = rows_of(kWeightsAtATime, cols);
    std::vector<Sums> pieces((rows + step - 1) / step);
    parallel_for(pieces.size(), 1, threads, [&](size_t begin, size_t end) {
        std::vector<float> left(step * cols);
        std::vector<float> right(step * cols);
        for (size_t piece = begin; piece < end; ++piece) {
            const uint64_t first = piece * step;
            const uint64_t count = std::min(step, rows - first);
            a.decode(first, count, left.data());
            b.decode(first, count, right.data());
            Sums& sums = pieces[piece];
            for (uint64_t i = 0; i < count * cols; ++i) {
                const double difference = static_cast<double>(left[i]) - right[i];
                sums.max_abs = larger(sums.max_abs, std::fabs(difference));
                sums.squares += difference * difference;
                sums.reference += static_cast<double>(left[i]) * left[i];
            }
        }
    });
    Sums total;
    for (const Sums& piece : pieces) {
        total.max_abs = larger(total.max_abs, piece.max_abs);
        total.squares += piece.squares;
        total.reference += piece.reference;
    }
    return total;
}

TensorDifference compare_tensor(const ModelFile& first, size_t i, const ModelFile& second, size_t j,
                                int threads) {
    const TensorInfo& a = first.tensors()[i];
    const TensorInfo& b = second.tensors()[j];
    TensorDifference difference{a.name, a, b, false, std::nullopt, std::nullopt};
    if (a.shape != b.shape) {
        return difference;
    }
    difference.bytes_equal = a.type == b.type && same_bytes(first.payload(i), second.payload(j));
    Sums sums;
    if (!difference.bytes_equal) {
        sums = compare_rows(Side(first, i), Side(second, j), a.rows(), a.cols(), threads);
    }
    difference.max_abs = sums.max_abs;
    difference.relative_rms = sums.squares == 0 ? 0 : std::sqrt(sums.squares / sums.reference);
    first.release(i);
    second.release(j);
    return difference;
}

}  // namespace

std::vector<TensorDifference> compare_models(const ModelFile& first, const ModelFile& second, int threads,
                                             Monitor& monitor) {
    std::vector<TensorDifference> differences;
    monitor.begin("compare", first.tensors().size(), "tensors");
    for (size_t i = 0; i < first.tensors().size(); ++i) {
        monitor.check_cancelled();
        const TensorInfo& info = first.tensors()[i];
        const std::optional<size_t> j = second.find(info.name);
        differences.push_back(
            j ? compare_tensor(first, i, second, *j, threads)
              : TensorDifference{info.name, info, std::nullopt, false, std::nullopt, std::nullopt});
        monitor.advance(1);
    }
    for (const TensorInfo& info : second.tensors()) {
        if (!first.find(info.name)) {
            differences.push_back({info.name, std::nullopt, info, false, std::nullopt, std::nullopt});
        }
    }
    monitor.end();
    return differences;
}

}  // namespace kaiju::codec
