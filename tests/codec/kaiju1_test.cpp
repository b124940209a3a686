#include "codec/kaiju1.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "lattice/golay.h"
#include "support/test_files.h"

namespace kaiju::codec::kaiju1 {
namespace {

Code code_from_hex(const std::string& hex) {
    Code code{};
    for (size_t i = 0; i < code.size(); ++i) {
        code[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    }
    return code;
}

TEST(Kaiju1Block, DecodesTheGoldenBlocks) {
    std::ifstream lines(test::golden_dir() / "blocks.jsonl");
    std::string line;
    size_t count = 0;
    while (std::getline(lines, line)) {
        const auto golden = nlohmann::json::parse(line);
        const Code code = code_from_hex(golden.at("code"));
        std::array<int8_t, kBlock> x{};
        decode_block(code.data(), x.data());
        EXPECT_EQ(std::vector<int>(x.begin(), x.end()), golden.at("x").get<std::vector<int>>()) << line;
        Code written = code;
        written[1] &= 0xDF;  // the unused bit, which encoders write 0
        EXPECT_EQ(pack(unpack(code.data())), written) << line;
        ++count;
    }
    EXPECT_GE(count, 100U);
}

TEST(Kaiju1Block, UnusedBitAndWatermarkDoNotChangeTheIntegers) {
    const Code code = pack({.word = 0xABC, .m = 1, .z = {1, -1, 1}});
    std::array<int8_t, kBlock> plain{};
    decode_block(code.data(), plain.data());
    for (const unsigned bit : {0x20U, 0x40U}) {
        Code marked = code;
        marked[1] = static_cast<uint8_t>(marked[1] | bit);
        std::array<int8_t, kBlock> x{};
        decode_block(marked.data(), x.data());
        EXPECT_EQ(x, plain);
    }
}

TEST(Kaiju1Block, EveryByteStringDecodesWithoutHarmAndBadTritsAreReported) {
    std::mt19937 random(7);
    for (int i = 0; i < 20000; ++i) {
        Code code{};
        for (auto& byte : code) {
            byte = static_cast<uint8_t>(random());
        }
        std::array<int8_t, kBlock> x{};
        decode_block(code.data(), x.data());
        for (const int8_t value : x) {
            ASSERT_LE(std::abs(value), 7);
        }
        const bool valid = code[2] < 243 && code[3] < 243 && code[4] < 243 && code[5] < 243 && code[6] < 81;
        ASSERT_EQ(valid_trits(code.data()), valid);
        if (!valid) {
            EXPECT_THROW((void)unpack(code.data()), Error);
        }
    }
}

TEST(Kaiju1Layout, SideBandIsRoundedUpUntilBlocksFit) {
    const auto layout = [](uint64_t cols, double fraction) { return Layout::for_matrix(3, cols, fraction); };
    EXPECT_EQ(layout(576, 0.1).n_hi, 72U);
    EXPECT_EQ(layout(1536, 0.1).n_hi, 168U);
    EXPECT_EQ(layout(576, 0).n_hi, 0U);
    EXPECT_EQ(layout(64, 0).n_hi, 16U);
    EXPECT_EQ(layout(64, 1).n_blocks, 0U);
    EXPECT_EQ(layout(5, 0.1).n_hi, 5U) << "fewer columns than a block: all of them are side-band";
    for (uint64_t cols = 1; cols < 200; ++cols) {
        const Layout l = layout(cols, 0.1);
        EXPECT_EQ(l.n_hi + 24 * l.n_blocks, cols);
        EXPECT_GE(l.n_hi, 0.1 * static_cast<double>(cols));
        EXPECT_TRUE(l.n_hi < 0.1 * static_cast<double>(cols) + 24);
    }
    EXPECT_THROW((void)layout(24, 1.5), Error);
    EXPECT_THROW((void)layout(24, std::nan("")), Error);
    EXPECT_THROW((void)Layout::for_matrix(0, 24, 0.1), Error);
    EXPECT_THROW((void)Layout::for_matrix(uint64_t{1} << 32, 24, 0.1), Error);
}

TEST(Kaiju1Layout, IndicesGrowAt65536Columns) {
    EXPECT_EQ(Layout::for_matrix(1, 65536, 0.1).index_bytes(), 2U);
    EXPECT_EQ(Layout::for_matrix(1, 65537, 0.1).index_bytes(), 4U);
}

TEST(Kaiju1Layout, PayloadSizeIsCheckedForOverflow) {
    const Layout layout{
        .rows = UINT32_MAX / 2, .cols = UINT32_MAX, .n_hi = UINT32_MAX, .n_blocks = 0, .perm_kind = 1};
    EXPECT_GT(layout.payload_bytes(), uint64_t{1} << 62);  // fits, just
    const Layout huge{.rows = UINT32_MAX, .cols = UINT32_MAX, .n_hi = UINT32_MAX, .n_blocks = UINT32_MAX};
    EXPECT_THROW((void)huge.payload_bytes(), Error);
}

/// A payload of random rows, perm_kind 1 where `permute`.
std::vector<std::byte> random_payload(uint32_t cols, bool permute) {
    std::mt19937 random(cols);
    Layout layout = Layout::for_matrix(4, cols, 0.1);
    Multipliers multipliers{};
    for (size_t i = 0; i < kMultipliers; ++i) {
        multipliers[i] = 0.5F + 0.25F * static_cast<float>(i);
    }
    layout.perm_kind = permute ? 1 : 0;
    std::vector<uint32_t> listed(cols);
    for (uint32_t i = 0; i < cols; ++i) {
        listed[i] = i;
    }
    if (permute) {
        std::shuffle(listed.begin(), listed.end(), random);
    }
    listed.resize(layout.listed_columns());
    std::vector<std::byte> payload = make_head(layout, multipliers, listed);
    for (uint32_t r = 0; r < layout.rows; ++r) {
        std::vector<uint8_t> record(layout.row_bytes());
        const RowFields fields(record.data(), layout);
        store(fields.scales, 0.01F);
        store(fields.scales + 4, 0.002F);
        for (uint32_t i = 0; i < layout.n_hi; ++i) {
            fields.hi[i] = static_cast<uint8_t>(random());
        }
        for (uint32_t b = 0; b < layout.n_blocks; ++b) {
            auto& nibbles = fields.nibbles[b / 2];
            nibbles = static_cast<uint8_t>(nibbles | (random() & 15) << (4 * (b & 1)));
            Block block{.word = static_cast<uint16_t>(random() & 4095),
                        .m = static_cast<uint8_t>(random() & 1),
                        .flip = (random() & 1) != 0};
            for (auto& z : block.z) {
                z = static_cast<int8_t>(static_cast<int>(random() % 3) - 1);
            }
            const Code code = pack(block);
            std::copy(code.begin(), code.end(), fields.codes + kCodeBytes * b);
        }
        const auto bytes = std::as_bytes(std::span(record));
        payload.insert(payload.end(), bytes.begin(), bytes.end());
    }
    return payload;
}

TEST(Kaiju1View, RowsDecodeAloneAsTheyDoTogether) {
    for (const uint32_t cols : {5U, 24U, 48U, 100U, 576U}) {
        for (const bool permute : {false, true}) {
            const auto payload = random_payload(cols, permute);
            const TensorView view(payload);
            view.check();
            std::vector<float> all(4 * cols);
            view.decode_rows(0, 4, all.data());
            for (uint32_t r = 0; r < 4; ++r) {
                std::vector<float> one(cols);
                view.decode_rows(r, 1, one.data());
                EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + r * cols))
                    << cols << ", row " << r;
            }
            EXPECT_THROW(view.decode_rows(3, 2, all.data()), Error);
        }
    }
}

TEST(Kaiju1View, EveryTruncationIsRefused) {
    const auto payload = random_payload(48, true);
    for (size_t length = 0; length < payload.size(); ++length) {
        EXPECT_THROW(TensorView(Bytes(payload).first(length)), Error) << length;
    }
    auto longer = payload;
    longer.push_back(std::byte{0});
    EXPECT_THROW(TensorView{Bytes(longer)}, Error);
}

TEST(Kaiju1View, EveryByteFlipEitherDecodesOrIsAnError) {
    const auto payload = random_payload(48, false);
    for (size_t at = 0; at < payload.size(); ++at) {
        for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
            auto damaged = payload;
            damaged[at] ^= static_cast<std::byte>(mask);
            try {
                const TensorView view{Bytes(damaged)};
                view.check();
                std::vector<float> rows(4 * 48);
                view.decode_rows(0, 4, rows.data());
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::bad_input);
            }
        }
    }
}

TEST(Kaiju1View, CheckNamesTheRowOfALateFault) {
    auto payload = random_payload(48, false);
    const TensorView good{Bytes(payload)};
    const size_t last_row = payload.size() - good.layout().row_bytes();
    store(payload.data() + last_row, std::nanf(""));
    try {
        TensorView(Bytes(payload)).check();
        FAIL() << "a NaN scale passed";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("row 3"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace kaiju::codec::kaiju1
