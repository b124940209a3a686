#include "codec/encoder_kaiju4.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/checksum.h"
#include "base/error.h"
#include "codec/encode_tensor.h"
#include "codec/tensor_encoder.h"
#include "matrix.h"

namespace kaiju::codec {
namespace {

std::vector<std::byte> encode(const Case& c, int index_bits, const V3Options& options, EncodeStats& stats,
                              int threads = 1) {
    const EncoderKaiju4 encoder(
        kaiju4::Layout::for_matrix(c.m.rows, c.m.cols, index_bits), c.m.importance,
        [&c, threads](const Rotation& rotation, size_t padding) {
            return rotated_covariance(c.covariance, rotation, padding, threads);
        },
        options);
    Monitor monitor;
    stats = {};
    return encode_tensor(MemoryRows(c.m), encoder, threads, monitor, stats);
}

double excess_with(const Case& c, int index_bits, const V3Options& options) {
    EncodeStats stats;
    return full_excess<kaiju4::TensorView>(c, encode(c, index_bits, options, stats));
}

TEST(EncoderKaiju4, TelemetryIsWhatTheDecodedRowsSay) {
    for (const uint32_t cols : {96U, 140U}) {  // 140: padded, in spans of 4
        const Case c = make_case(37, cols);
        EncodeStats stats;
        const auto payload = encode(c, 8, {}, stats);
        const double excess = full_excess<kaiju4::TensorView>(c, payload);
        EXPECT_NEAR(stats.full_excess, excess, 1e-3 * excess);
        EXPECT_GT(stats.full_energy, 30 * excess);
        double diagonal = 0;
        std::vector<float> decoded(size_t{c.m.rows} * cols);
        kaiju4::TensorView{Bytes(payload)}.decode_rows(0, c.m.rows, decoded.data());
        for (size_t i = 0; i < decoded.size(); ++i) {
            const double e = static_cast<double>(decoded[i]) - c.m.weights[i];
            diagonal += c.m.importance[i % cols] * e * e;
        }
        EXPECT_NEAR(stats.diagonal_excess, diagonal, 1e-3 * diagonal);
    }
}

TEST(EncoderKaiju4, EveryIngredientLowersTheExcess) {
    const Case c = make_case(64, 288);
    V3Options options{
        .fold = stats::Fold::none, .sweeps = 0, .candidates = 1, .descent = 0, .refit_scale = false};
    const double none = excess_with(c, 6, options);
    options.fold = stats::Fold::ldlq;
    const double ldlq = excess_with(c, 6, options);
    EXPECT_LT(ldlq, 0.6 * none);
    options.candidates = 4;
    const double compared = excess_with(c, 6, options);
    EXPECT_LT(compared, ldlq);
    options.descent = 4;
    const double descended = excess_with(c, 6, options);
    EXPECT_LT(descended, compared);
    options.refit_scale = true;
    options.sweeps = 1;
    EXPECT_LT(excess_with(c, 6, options), descended);
}

// A quarter of a bit is a factor of sqrt(2) of the error, whatever the rate.
TEST(EncoderKaiju4, ErrorFallsWithTheRateAsABallOfTheLatticeWould) {
    const Case c = make_case(32, 384);
    double before = 0;
    for (int g = lattice::kLeastIndexBits; g <= lattice::kMostIndexBits; ++g) {
        EncodeStats stats;
        (void)encode(c, g, {}, stats);
        if (before > 0) {
            EXPECT_NEAR(before / stats.full_excess, std::sqrt(2.0), 0.15) << g;
        }
        before = stats.full_excess;
    }
}

TEST(EncoderKaiju4, BytesDoNotDependOnThreadsAndNeighbours) {
    const Case c = make_case(70, 120);
    EncodeStats stats;
    const auto one = encode(c, 7, {}, stats, 1);
    EXPECT_EQ(encode(c, 7, {}, stats, 4), one);
    Case last = c;  // its last rows alone
    last.m.rows = 5;
    last.m.weights.assign(c.m.weights.end() - 5 * 120, c.m.weights.end());
    const auto few = encode(last, 7, {}, stats);
    const uint64_t row_bytes = kaiju4::Layout::for_matrix(5, 120, 7).row_bytes();
    EXPECT_TRUE(std::equal(few.begin() + kaiju4::kHeaderBytes, few.end(),
                           one.end() - static_cast<ptrdiff_t>(5 * row_bytes)));
}

TEST(EncoderKaiju4, RowsOfZerosAndHugeRowsAreRows) {
    Case c = make_case(16, 48);
    std::fill_n(c.m.weights.begin(), 48, 0.0F);
    std::transform(c.m.weights.begin() + 48, c.m.weights.begin() + 96, c.m.weights.begin() + 48,
                   [](float w) { return w * 1e20F; });
    EncodeStats stats;
    const auto payload = encode(c, 8, {}, stats);
    std::vector<float> decoded(96);
    kaiju4::TensorView{Bytes(payload)}.decode_rows(0, 2, decoded.data());
    for (size_t i = 0; i < 48; ++i) {
        EXPECT_EQ(decoded[i], 0.0F);
        EXPECT_NEAR(decoded[48 + i], c.m.weights[48 + i], 0.05F * 1e20F * 0.5F);
    }
}

// Pinned: what a rate makes of these inputs, on every machine and instruction set.
TEST(EncoderKaiju4, BytesArePinned) {
    const Case c = make_case(20, 140);
    const std::vector<std::string> pinned = {
        "6add9a7a2b3db9723bcb75477d5bb652b8f79fb7c42172ef397ba6db2c0c26f0",
        "66ce81563189d7a4a713561969e688a512d027a0d4e8bcf869a119fa229a2888",
        "e9ffc83d38bdf4bd08a09af6ca78d677228c3a59f5e5c16b7820e93e7f377ef7",
        "2f1d58f0664fb62bdfb04002da981ed53ac96af7474063296e64ab24b6afd5e0",
        "fbc3c15c775e050b0c28d9cf2ae70c07fa715af1538b9bb9807ca99e0e229866",
        "2f086bec1482eb1e71cfd07d90906bfa62d5a1f69b8832d250de912f886ad477",
        "3b008918750f332d40928525253ace939df96c0b53087443fb16b22832d785d1",
        "d60158fd605982802213278c8ad4faa99aa0a6dc1d1cd84c40a232f1b5b05519",
        "1e9a358ee06cd79f4ac7a464c27aa2a9a8f3e7cf0ce59b7ee8a4a0910b978b82",
        "333813d0c0d84adc0bc116d3c4b3a9553daab0dc06980cd9b183a95c0c02386f"};
    for (int g = lattice::kLeastIndexBits; g <= lattice::kMostIndexBits; ++g) {
        EncodeStats stats;
        EXPECT_EQ(sha256(encode(c, g, {}, stats)),
                  pinned.at(static_cast<size_t>(g - lattice::kLeastIndexBits)))
            << g;
    }
}

}  // namespace
}  // namespace kaiju::codec
