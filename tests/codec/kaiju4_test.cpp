#include "codec/kaiju4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/checksum.h"
#include "base/error.h"
#include "codec/verify.h"
#include "format/model_file.h"
#include "lattice/golay.h"
#include "support/test_files.h"

namespace kaiju::codec::kaiju4 {
namespace {

constexpr Multipliers kSteps = {0.5F, 0.575F, 0.66F, 0.76F};

Block random_block(std::mt19937& random, int index_bits) {
    Block block;
    block.code.word = static_cast<uint16_t>(random() % lattice::kGolayWords);
    block.code.m = static_cast<uint8_t>(random() % 2);
    block.code.sequence = static_cast<uint16_t>(random() % lattice::kSequences);
    for (auto& index : block.code.index) {
        index = static_cast<uint16_t>(random() % (1U << index_bits));
    }
    block.q = static_cast<uint8_t>(random() % kMultipliers);
    return block;
}

std::vector<std::byte> random_payload(const Layout& layout, uint64_t seed, std::vector<Block>& blocks) {
    std::mt19937 random(11);
    auto payload = make_head(layout, seed, kSteps);
    payload.resize(layout.payload_bytes());
    for (uint64_t r = 0; r < layout.rows; ++r) {
        auto* const record =
            reinterpret_cast<uint8_t*>(payload.data()) + kHeaderBytes + r * layout.row_bytes();
        store(record, to_bf16(0.01F * static_cast<float>(r + 1)));
        for (uint64_t b = 0; b < layout.n_blocks(); ++b) {
            blocks.push_back(random_block(random, layout.index_bits));
            put_block(record, layout, b, blocks.back());
        }
    }
    return payload;
}

TEST(Kaiju4Type, NamesAndIndexBitsAreInverse) {
    for (int g = lattice::kLeastIndexBits; g <= lattice::kMostIndexBits; ++g) {
        EXPECT_EQ(index_bits_of(type_name(g)), g);
    }
    EXPECT_EQ(type_name(8), "KAIJU4_3");
    EXPECT_EQ(type_name(6), "KAIJU4_2_5");
    EXPECT_FALSE(index_bits_of("KAIJU4_5").has_value());
    EXPECT_FALSE(index_bits_of("KAIJU1").has_value());
}

TEST(Kaiju4Payload, BlocksAreReadAsTheyWereWritten) {
    for (int g = lattice::kLeastIndexBits; g <= lattice::kMostIndexBits; ++g) {
        const Layout layout = Layout::for_matrix(3, 100, g);
        std::vector<Block> blocks;
        const auto payload = random_payload(layout, 1, blocks);
        const TensorView view{Bytes(payload)};
        for (uint64_t r = 0; r < layout.rows; ++r) {
            for (uint64_t b = 0; b < layout.n_blocks(); ++b) {
                EXPECT_EQ(get_block(view.row(r), view.layout(), b), blocks[r * layout.n_blocks() + b]);
            }
        }
    }
}

// By the definition of the page: a dense matrix, entry by entry.
TEST(Kaiju4Payload, WeightsAreTheRotatedCodeWords) {
    for (const uint32_t cols : {24U, 40U, 75U, 576U}) {
        const Layout layout = Layout::for_matrix(2, cols, 5);
        std::vector<Block> blocks;
        const auto payload = random_payload(layout, 77, blocks);
        const TensorView view{Bytes(payload)};
        std::vector<float> decoded(2 * size_t{cols});
        view.decode_rows(0, 2, decoded.data());
        const Rotation rotation(cols, 77);
        const uint32_t span = rotation.span();
        for (uint32_t r = 0; r < 2; ++r) {
            std::vector<double> value;
            for (uint64_t b = 0; b < layout.n_blocks(); ++b) {
                const Block& block = blocks[r * layout.n_blocks() + b];
                std::array<int8_t, kBlock> x{};
                view.book().values(block.code, x.data());
                for (const int8_t integer : x) {
                    value.push_back(static_cast<double>(view.row_scale(r)) * kSteps[block.q] * integer);
                }
            }
            for (uint32_t j = 0; j < cols; ++j) {
                double sum = 0;
                for (uint32_t i = 0; i < span; ++i) {
                    const double sign = (std::popcount(i & (j % span)) & 1) != 0 ? -1 : 1;
                    sum += sign * value[j / span * span + i];
                }
                const double expected = rotation.signs()[j] * sum / std::sqrt(static_cast<double>(span));
                EXPECT_NEAR(decoded[r * cols + j], expected, 1e-6 * std::fabs(expected) + 1e-12);
            }
        }
    }
}

TEST(Kaiju4Payload, RotationIsOrthogonalAndItsOwnInverseButForTheSigns) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    const Rotation rotation(1536, 9);
    EXPECT_EQ(rotation.span(), 512U);
    std::vector<double> x(1536);
    std::generate(x.begin(), x.end(), [&] { return normal(random); });
    auto y = x;
    rotation.rotate(y.data());
    EXPECT_NEAR(std::inner_product(x.begin(), x.end(), x.begin(), 0.0),
                std::inner_product(y.begin(), y.end(), y.begin(), 0.0), 1e-9);
    for (size_t begin = 0; begin < y.size(); begin += 512) {
        hadamard(y.data() + begin, 512);
    }
    for (size_t j = 0; j < y.size(); ++j) {
        EXPECT_NEAR(y[j] / std::sqrt(512.0) * rotation.signs()[j], x[j], 1e-12);
    }
    const auto minus = std::count(rotation.signs().begin(), rotation.signs().end(), -1.0F);
    EXPECT_NEAR(static_cast<double>(minus) / 1536, 0.5, 0.06);
}

TEST(Kaiju4Payload, RefusesDamagedHeadsAndScales) {
    const Layout layout = Layout::for_matrix(2, 48, 4);
    std::vector<Block> blocks;
    const auto good = random_payload(layout, 1, blocks);
    const auto refused = [&](size_t at, std::vector<uint8_t> bytes) {
        auto bad = good;
        std::transform(bytes.begin(), bytes.end(), bad.begin() + static_cast<ptrdiff_t>(at),
                       [](uint8_t byte) { return std::byte{byte}; });
        EXPECT_THROW(TensorView(Bytes(bad)).check(), Error) << "byte " << at;
    };
    refused(0, {'X'});
    refused(4, {2});
    refused(8, {0, 0, 0, 0});
    refused(8, {0xFF, 0xFF, 0xFF, 0xFF});
    refused(16, {3});
    refused(20, {2});
    refused(20, {13});
    refused(21, {5});
    refused(32, {0, 0, 0x80, 0x7F});  // infinite
    refused(32, {0, 0, 0x80, 0x3F});  // 1: not ascending
    refused(44, {0, 0, 0, 0x47});     // 32768: beyond 2^12 of the first
    refused(kHeaderBytes, {0x80, 0x7F});
    refused(kHeaderBytes, {0x80, 0xBF});
    refused(kHeaderBytes, {0, 0x7F});
    auto longer = good;
    longer.push_back(std::byte{0});
    EXPECT_THROW(TensorView(Bytes(longer)).check(), Error);
    TensorView(Bytes(good)).check();
}

nlohmann::json golden() {
    return nlohmann::json::parse(test::slurp(test::golden_dir() / "kaiju4.expected.json"));
}

// The tables of the independent decoder (tests/oracle/kaiju4_oracle.py), made from the page alone.
TEST(Kaiju4Golden, TablesAreThoseOfTheOracle) {
    const auto tables = golden().at("tables");
    for (int g = lattice::kLeastIndexBits; g <= lattice::kMostIndexBits; ++g) {
        const lattice::ShellBook& book = lattice::ShellBook::of(g);
        std::vector<int8_t> lists;
        for (unsigned m = 0; m < 2; ++m) {
            for (unsigned pattern = 0; pattern < 16; ++pattern) {
                for (size_t position = 0; position < (lattice::kRings << g); ++position) {
                    const auto x = book.vector(m, pattern, position);
                    lists.insert(lists.end(), x.begin(), x.end());
                }
            }
        }
        std::vector<uint8_t> sequences;
        for (size_t n = 0; n < lattice::kSequences; ++n) {
            sequences.insert(sequences.end(), book.rings(n).begin(), book.rings(n).end());
        }
        const auto& wanted = tables.at(std::to_string(g));
        EXPECT_EQ(sha256(std::as_bytes(std::span(lists))), wanted.at("lists")) << g;
        EXPECT_EQ(sha256(std::as_bytes(std::span(sequences))), wanted.at("sequences")) << g;
    }
}

TEST(Kaiju4Golden, DecodesEveryWeightBitForBit) {
    const auto expected = golden().at("tensors");
    const auto model = format::ModelFile::open(test::golden_dir() / "kaiju4.knot");
    size_t seen = 0;
    for (const auto& [name, wanted] : expected.items()) {
        const auto index = model->find(name);
        ASSERT_TRUE(index.has_value()) << name;
        const auto& info = model->tensors()[*index];
        std::vector<float> weights(info.weights());
        make_tensor_decoder(info, model->payload(*index))->decode_rows(0, info.rows(), weights.data());
        EXPECT_EQ(sha256(std::as_bytes(std::span(weights))), wanted.at("sha256")) << name;
        ++seen;
    }
    EXPECT_GE(seen, 13U);
    Monitor quiet;
    (void)verify(*model, 2, quiet);
}

TEST(Kaiju4Golden, RefusesEveryBadFileNamingTheTensor) {
    size_t seen = 0;
    for (const auto& file : std::filesystem::directory_iterator(test::golden_dir() / "bad4")) {
        SCOPED_TRACE(file.path().filename());
        Monitor quiet;
        try {
            (void)verify(*format::ModelFile::open(file.path()), 1, quiet);
            ADD_FAILURE() << "accepted";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
            EXPECT_NE(std::string(error.what()).find("bad.weight"), std::string::npos) << error.what();
        }
        ++seen;
    }
    EXPECT_GE(seen, 46U);
}

}  // namespace
}  // namespace kaiju::codec::kaiju4
