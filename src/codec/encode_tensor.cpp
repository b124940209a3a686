#include "codec/encode_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.h"

namespace kaiju::codec {

namespace {

/// Above this a reconstruction could leave the range of f32; no weight of a model is anywhere near.
constexpr float kLargestWeight = 1e37F;

void check_weights(const float* weights, size_t first_row, size_t rows, size_t cols) {
    const float* const end = weights + rows * cols;
    const float* const bad =
        std::find_if(weights, end, [](float w) { return !(std::fabs(w) <= kLargestWeight); });
    if (bad != end) {
        const auto at = static_cast<size_t>(bad - weights);
        throw Error(ErrorCode::bad_input,
                    fmt::format("weight in row {}, column {} is {}: the source is damaged",
                                first_row + at / cols, at % cols, *bad));
    }
}

}  // namespace

std::vector<std::byte> encode_tensor(const TensorDecoder& weights, const RowEncoder& encoder, int threads,
                                     Monitor& monitor, EncodeStats& stats) {
    const uint64_t rows = encoder.rows();
    const uint64_t cols = encoder.cols();
    std::vector<std::byte> payload = encoder.head();
    const size_t rows_at = payload.size();
    payload.resize(
        checked_add(rows_at, checked_mul(encoder.row_bytes(), rows, "rows x row_bytes"), "payload length"));
    std::vector<EncodeStats> row_stats(rows);
    parallel_for(rows, encoder.rows_per_piece(), threads, [&](size_t begin, size_t end) {
        monitor.check_cancelled();
        std::vector<float> piece((end - begin) * cols);
        weights.decode_rows(begin, end - begin, piece.data());
        check_weights(piece.data(), begin, end - begin, cols);
        encoder.encode_rows(piece.data(), end - begin, payload.data() + rows_at + begin * encoder.row_bytes(),
                            row_stats.data() + begin);
        monitor.advance(piece.size());
    });
    for (const EncodeStats& row : row_stats) {  // in row order: floating-point sums depend on it
        stats += row;
    }
    return payload;
}

}  // namespace kaiju::codec
