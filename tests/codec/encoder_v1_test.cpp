#include "codec/encoder_v1.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/checksum.h"
#include "codec/encode_tensor.h"
#include "lattice/leech.h"
#include "matrix.h"

namespace kaiju::codec {
namespace {

std::vector<std::byte> encode(const Matrix& m, int threads, double hi_frac = 0.1,
                              EncodeStats* out_stats = nullptr,
                              lattice::CodebookMethod method = lattice::CodebookMethod::fast) {
    const lattice::CodebookSearch search(lattice::Parity::kept, method);
    const EncoderV1 encoder(kaiju1::Layout::for_matrix(m.rows, m.cols, hi_frac), m.importance, search);
    Monitor monitor;
    EncodeStats stats;
    auto payload = encode_tensor(MemoryRows(m), encoder, threads, monitor, stats);
    if (out_stats != nullptr) {
        *out_stats = stats;
    }
    return payload;
}

TEST(EncoderV1, BytesArePinned) {
    // For ever: a change here breaks the promise of the legacy encoder. The matrix has rows with every
    // multiplier.
    Matrix m = make_matrix(40, 200);
    for (uint32_t r = 0; r < m.rows; ++r) {
        for (uint32_t c = 0; c < m.cols; ++c) {
            m.weights[r * m.cols + c] *= std::ldexp(1.0F, static_cast<int>((r * 7 + c / 24 * 5) % 9) - 4);
        }
    }
    EncodeStats stats;
    const auto payload = encode(m, 1, 0.1, &stats);
    for (size_t q = 0; q < stats.multipliers.size(); ++q) {
        EXPECT_GT(stats.multipliers[q], 0U) << "multiplier " << q << " is not covered";
    }
    EXPECT_EQ(sha256(payload), "bd9a23dc45fa2c138d3b8b992e5ae8128a8170cef93cfc2d180060c16a41183c");
}

TEST(EncoderV1, SameBytesForEverySearchAndThreadCount) {
    const Matrix m = make_matrix(20, 173);
    EncodeStats one;
    const auto reference = encode(m, 1, 0.1, &one, lattice::CodebookMethod::exhaustive);
    for (const auto method : {lattice::CodebookMethod::pruned, lattice::CodebookMethod::fast}) {
        for (const int threads : {1, 2, 5}) {
            EncodeStats stats;
            EXPECT_EQ(encode(m, threads, 0.1, &stats, method), reference) << "threads " << threads;
            EXPECT_EQ(stats.diagonal_excess, one.diagonal_excess) << "sums must not depend on scheduling";
        }
    }
}

TEST(EncoderV1, EveryBlockIsAPointOfTheLattice) {
    const Matrix m = make_matrix(40, 120);
    const auto payload = encode(m, 1);
    const kaiju1::TensorView view{Bytes(payload)};
    for (uint32_t r = 0; r < m.rows; ++r) {
        for (uint32_t b = 0; b < view.layout().n_blocks; ++b) {
            std::array<int8_t, kaiju1::kBlock> x{};
            kaiju1::decode_block(view.row(r).codes + kaiju1::kCodeBytes * b, x.data());
            std::array<int32_t, kaiju1::kBlock> point{};
            std::copy(x.begin(), x.end(), point.begin());
            EXPECT_TRUE(lattice::is_lattice_point(point)) << "row " << r << ", block " << b;
        }
    }
}

TEST(EncoderV1, TelemetryIsWhatTheDecodedRowsSay) {
    const Matrix m = make_matrix(30, 150);
    EncodeStats stats;
    const auto payload = encode(m, 2, 0.1, &stats);
    const kaiju1::TensorView view{Bytes(payload)};
    view.check();
    std::vector<float> decoded(m.weights.size());
    view.decode_rows(0, m.rows, decoded.data());
    double excess = 0;
    double energy = 0;
    for (size_t i = 0; i < decoded.size(); ++i) {
        const double h = m.importance[i % m.cols];
        const double w = m.weights[i];
        excess += h * (decoded[i] - w) * (decoded[i] - w);
        energy += h * w * w;
    }
    EXPECT_NEAR(stats.diagonal_excess / excess, 1, 1e-5);
    EXPECT_NEAR(stats.diagonal_energy / energy, 1, 1e-9);
    EXPECT_EQ(stats.blocks, uint64_t{30} * view.layout().n_blocks);
    EXPECT_EQ(std::accumulate(stats.multipliers.begin(), stats.multipliers.end(), uint64_t{0}), stats.blocks);
    // Two-sided: far below would mean that the measure is wrong, above that the encoder is.
    EXPECT_GT(excess / energy, 0.02);
    EXPECT_LT(excess / energy, 0.12);
}

TEST(EncoderV1, SideBandHoldsTheMostImportantColumnsTiesToTheLowerIndex) {
    Matrix m = make_matrix(2, 48);
    std::fill(m.importance.begin(), m.importance.end(), 1.0F);
    m.importance[40] = 3;
    const auto payload = encode(m, 1, 0.5);
    const kaiju1::TensorView view{Bytes(payload)};
    ASSERT_EQ(view.layout().n_hi, 24U);
    const auto& columns = view.columns();
    std::vector<uint32_t> expected(23);
    std::iota(expected.begin(), expected.end(), 0U);
    expected.push_back(40);
    EXPECT_EQ(std::vector<uint32_t>(columns.begin(), columns.begin() + 24), expected);
}

TEST(EncoderV1, LegacyBlocksCarryNoWatermark) {
    const Matrix m = make_matrix(5, 96);
    const auto payload = encode(m, 1);
    const kaiju1::TensorView view{Bytes(payload)};
    for (uint32_t r = 0; r < m.rows; ++r) {
        for (uint32_t b = 0; b < view.layout().n_blocks; ++b) {
            EXPECT_FALSE(kaiju1::unpack(view.row(r).codes + kaiju1::kCodeBytes * b).watermark);
        }
    }
}

TEST(EncoderV1, ExtremeRowsStayFiniteAndValid) {
    Matrix m = make_matrix(8, 72);
    const auto scale_row = [&](uint32_t r, float by) {
        for (uint32_t c = 0; c < m.cols; ++c) {
            m.weights[r * m.cols + c] *= by;
        }
    };
    scale_row(0, 0.0F);    // zeros
    scale_row(1, 1e-44F);  // denormals
    scale_row(2, 1e30F);
    scale_row(3, 1e-30F);
    m.weights[4 * m.cols + 50] = 1e6F;  // one outlier
    for (uint32_t c = 0; c < m.cols; ++c) {
        m.weights[5 * m.cols + c] = 1.0F;  // constant
        m.weights[6 * m.cols + c] = c < 24 ? 1e-20F : 1.0F;
    }
    const auto payload = encode(m, 1, 0.0);
    const kaiju1::TensorView view{Bytes(payload)};
    view.check();
    std::vector<float> row(m.cols);
    view.decode_rows(0, 1, row.data());
    EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](float w) { return w == 0; }));
}

TEST(EncoderV1, RefusesImportanceThatMakesNoSense) {
    const lattice::CodebookSearch search(lattice::Parity::kept);
    const auto layout = kaiju1::Layout::for_matrix(2, 48, 0.1);
    std::vector<float> importance(48, 1.0F);
    EXPECT_THROW(EncoderV1(layout, std::span(importance).first(47), search), Error);
    importance[3] = -1;
    EXPECT_THROW(EncoderV1(layout, importance, search), Error);
    importance[3] = std::nanf("");
    EXPECT_THROW(EncoderV1(layout, importance, search), Error);
}

TEST(EncodeTensor, NamesTheWeightThatIsNotFinite) {
    Matrix m = make_matrix(100, 48);
    m.weights[77 * 48 + 5] = std::nanf("");
    try {
        (void)encode(m, 2);
        FAIL() << "a NaN weight passed";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_NE(std::string(error.what()).find("row 77, column 5"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace kaiju::codec
