#include "codec/encoder_v3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "codec/encode_tensor.h"
#include "codec/encoder_v1.h"
#include "codec/tensor_encoder.h"
#include "lattice/leech.h"
#include "matrix.h"

namespace kaiju::codec {
namespace {

EncoderV3 make_encoder(const Case& c, const lattice::CodebookSearch& search, const V3Options& options) {
    auto layout = kaiju1::Layout::for_matrix(c.m.rows, c.m.cols, 0.1);
    layout.perm_kind = options.activation_order ? 1 : 0;
    const auto energy = column_energy(MemoryRows(c.m), c.m.rows, c.m.cols, 1);
    return {layout,
            c.m.importance,
            energy,
            [&c](std::span<const uint32_t> order, size_t n_hi) {
                return stats::make_covariance(c.covariance, order, n_hi);
            },
            search,
            options};
}

std::vector<std::byte> encode(const Case& c, const V3Options& options, EncodeStats& stats, int threads = 1) {
    const lattice::CodebookSearch search(options.codebook);
    const EncoderV3 encoder = make_encoder(c, search, options);
    Monitor monitor;
    stats = {};
    return encode_tensor(MemoryRows(c.m), encoder, threads, monitor, stats);
}

double excess_with(const Case& c, const V3Options& options) {
    EncodeStats stats;
    return full_excess<kaiju1::TensorView>(c, encode(c, options, stats));
}

TEST(EncoderV3, TelemetryIsWhatTheDecodedRowsSay) {
    const Case c = make_case(37, 140);
    EncodeStats stats;
    const auto payload = encode(c, {}, stats);
    const double excess = full_excess<kaiju1::TensorView>(c, payload);
    EXPECT_NEAR(stats.full_excess, excess, 1e-3 * excess);
    EXPECT_GT(stats.full_energy, 10 * excess);
    EXPECT_EQ(stats.blocks, 37U * 5);
}

TEST(EncoderV3, EveryIngredientLowersTheExcess) {
    const Case c = make_case(64, 300);
    V3Options options{
        .fold = stats::Fold::none, .step_search = 1, .sweeps = 0, .descent = 0, .refit_scale = false};
    const double none = excess_with(c, options);
    options.fold = stats::Fold::ldlq;
    const double ldlq = excess_with(c, options);
    EXPECT_LT(ldlq, 0.6 * none);
    options.step_search = 4;
    const double searched = excess_with(c, options);
    EXPECT_LT(searched, ldlq);
    options.descent = 4;
    const double descended = excess_with(c, options);
    EXPECT_LT(descended, searched);
    options.refit_scale = true;
    const double refitted = excess_with(c, options);
    EXPECT_LT(refitted, descended);
    options.sweeps = 1;
    const double swept = excess_with(c, options);
    EXPECT_LT(swept, refitted);
    options.sweeps = 3;
    EXPECT_LT(excess_with(c, options), swept);
}

TEST(EncoderV3, ASideBandThatComesLastTakesUpErrors) {
    const Case c = make_case(48, 240);
    const double first = excess_with(c, {.side_band = stats::SideBand::first});
    EXPECT_LT(excess_with(c, {.side_band = stats::SideBand::last}), 0.97 * first);
}

TEST(EncoderV3, ThePublishedFoldIsWorseThanNone) {
    const Case c = make_case(32, 600);
    V3Options options{.fold = stats::Fold::none,
                      .comp_cap = 0,
                      .sweeps = 0,
                      .refit_scale = false,
                      .activation_order = false};
    const double none = excess_with(c, options);
    options.fold = stats::Fold::published;
    EXPECT_GT(excess_with(c, options), 1.5 * none);
}

TEST(EncoderV3, IsBetterThanV1) {
    const Case c = make_case(48, 240);
    EncodeStats stats;
    const auto v3 = encode(c, {.activation_order = false}, stats);
    const lattice::CodebookSearch search(lattice::Parity::kept);
    const EncoderV1 v1(kaiju1::Layout::for_matrix(c.m.rows, c.m.cols, 0.1), c.m.importance, search);
    Monitor monitor;
    EncodeStats v1_stats;
    const auto legacy = encode_tensor(MemoryRows(c.m), v1, 1, monitor, v1_stats);
    EXPECT_EQ(legacy.size(), v3.size());
    EXPECT_LT(full_excess<kaiju1::TensorView>(c, v3), 0.5 * full_excess<kaiju1::TensorView>(c, legacy));
}

TEST(EncoderV3, SameBytesForAnyThreadCountAndForRowsAlone) {
    const Case c = make_case(53, 140);
    EncodeStats one;
    EncodeStats four;
    const auto payload = encode(c, {}, one);
    EXPECT_EQ(encode(c, {}, four, 4), payload);
    EXPECT_EQ(one.full_excess, four.full_excess);

    const lattice::CodebookSearch search(lattice::Parity::free);
    const EncoderV3 encoder = make_encoder(c, search, {});
    const auto& layout = encoder.layout();
    std::vector<std::byte> record(layout.row_bytes());
    for (const uint32_t r : {0U, 17U, 52U}) {
        EncodeStats stats;
        encoder.encode_rows(c.m.weights.data() + size_t{r} * c.m.cols, 1, record.data(), &stats);
        EXPECT_TRUE(std::equal(
            record.begin(), record.end(),
            payload.begin() + static_cast<ptrdiff_t>(layout.rows_offset() + r * layout.row_bytes())))
            << "row " << r;
    }
}

TEST(EncoderV3, BlocksCarryTheWatermarkAndKeepTheParityWhereAsked) {
    const Case c = make_case(20, 120);
    EncodeStats stats;
    const auto payload = encode(c, {.codebook = lattice::Parity::kept}, stats);
    const kaiju1::TensorView view{Bytes(payload)};
    for (uint32_t r = 0; r < c.m.rows; ++r) {
        for (uint32_t b = 0; b < view.layout().n_blocks; ++b) {
            const uint8_t* const code = view.row(r).codes + kaiju1::kCodeBytes * b;
            EXPECT_TRUE(kaiju1::unpack(code).watermark);
            std::array<int8_t, kaiju1::kBlock> x{};
            kaiju1::decode_block(code, x.data());
            std::array<int32_t, kaiju1::kBlock> point{};
            std::copy(x.begin(), x.end(), point.begin());
            EXPECT_TRUE(lattice::is_lattice_point(point)) << "row " << r << ", block " << b;
        }
    }
}

TEST(EncoderV3, ColumnEnergyDoesNotDependOnThreads) {
    const Matrix m = make_matrix(150, 41);
    const auto one = column_energy(MemoryRows(m), m.rows, m.cols, 1);
    double first = 0;
    for (uint32_t r = 0; r < m.rows; ++r) {
        first += static_cast<double>(m.weights[r * m.cols]) * m.weights[r * m.cols];
    }
    EXPECT_NEAR(one[0], first, 1e-12);
    for (const int threads : {2, 3, 7}) {
        EXPECT_EQ(column_energy(MemoryRows(m), m.rows, m.cols, threads), one) << threads;
    }
}

TEST(EncoderV3, ActivationOrderListsAllColumns) {
    const Case c = make_case(20, 120);
    EncodeStats stats;
    const auto payload = encode(c, {.activation_order = true}, stats);
    const kaiju1::TensorView view{Bytes(payload)};
    EXPECT_EQ(view.layout().perm_kind, 1);
    const auto& columns = view.columns();
    for (size_t i = view.layout().n_hi + 1; i < columns.size(); ++i) {
        EXPECT_GE(c.m.importance[columns[i - 1]], c.m.importance[columns[i]]);
    }
    EXPECT_NEAR(stats.full_excess, full_excess<kaiju1::TensorView>(c, payload), 1e-3 * stats.full_excess);
}

TEST(EncoderV3, ZeroRowsAndExtremeRowsStayValid) {
    Case c = make_case(18, 120);
    for (uint32_t i = 0; i < c.m.cols; ++i) {
        c.m.weights[i] = 0;
        c.m.weights[c.m.cols + i] *= 1e-30F;
        c.m.weights[2 * c.m.cols + i] *= 1e15F;
        c.m.weights[3 * c.m.cols + i] = i == 40 ? 1.0F : 0.0F;
    }
    EncodeStats stats;
    const auto payload = encode(c, {}, stats);
    const kaiju1::TensorView view{Bytes(payload)};
    EXPECT_NO_THROW(view.check());
    std::vector<float> row(c.m.cols);
    view.decode_rows(0, 1, row.data());
    EXPECT_EQ(row, std::vector<float>(c.m.cols, 0.0F));
}

TEST(EncoderV3, DampsMoreWhereTheCovarianceIsNotPositiveDefinite) {
    Case c = make_case(8, 120);
    for (uint32_t i = 0; i < c.m.cols; ++i) {
        c.covariance[i * c.m.cols + i] -= 0.3F;  // more than the floor of its spectrum
    }
    const lattice::CodebookSearch search(lattice::Parity::free);
    const EncoderV3 encoder = make_encoder(c, search, {.damp = 0.0});
    EXPECT_GT(encoder.more_damp(), 0.0);
    EXPECT_LE(encoder.more_damp(), 1.0);
}

TEST(EncoderV3, DampsMoreWhereSamplesAreFew) {
    EXPECT_EQ(damp_of({}, 0, 0), 0.01);
    EXPECT_EQ(damp_of({}, 1000, 1000000), 0.01);
    EXPECT_DOUBLE_EQ(damp_of({}, 1000, 4000), 0.1);
    EXPECT_EQ(damp_of({}, 1000, 10), 1.0);
    EXPECT_EQ(damp_of({.damp = 0.0}, 1000, 10), 0.0);
}

TEST(EncoderV3, RefusesWhatIsDamaged) {
    Case c = make_case(8, 120);
    c.covariance[7 * c.m.cols + 3] = std::numeric_limits<float>::quiet_NaN();
    const lattice::CodebookSearch search(lattice::Parity::free);
    EXPECT_THROW(make_encoder(c, search, {}), Error);
    EXPECT_THROW(check({.step_search = 0}), Error);
    EXPECT_THROW(check({.step_search = 17}), Error);
    EXPECT_THROW(check({.damp = -1}), Error);
    EXPECT_THROW(check({.fold = stats::Fold::published, .sweeps = 1}), Error);
}

}  // namespace
}  // namespace kaiju::codec
