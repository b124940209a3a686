// KAIJU4 payloads with every field drawn at random, legal ones.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "codec/kaiju4.h"

namespace kaiju::test {

/// Scales span many binades, and some rows are zero.
inline std::vector<std::byte> random_kaiju4(uint64_t seed, uint32_t rows, uint32_t cols, int index_bits) {
    using namespace codec::kaiju4;
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t limit) { return static_cast<uint16_t>(random() % limit); };
    const Layout layout = Layout::for_matrix(rows, cols, index_bits);
    Multipliers multipliers;
    float multiplier = 0.1F + static_cast<float>(below(1000)) / 1000;
    for (float& value : multipliers) {
        value = multiplier;
        multiplier *= 1.05F + static_cast<float>(below(100)) / 200;
    }
    std::vector<std::byte> payload = make_head(layout, seed, multipliers);
    payload.resize(layout.payload_bytes());
    auto* record = reinterpret_cast<uint8_t*>(payload.data()) + kHeaderBytes;
    for (uint32_t row = 0; row < rows; ++row, record += layout.row_bytes()) {
        const uint16_t scale =
            below(8) == 0 ? uint16_t{0}
                          : to_bf16(std::ldexp(1.0F + static_cast<float>(below(128)) / 128, -1 - below(40)));
        std::memcpy(record, &scale, sizeof(scale));
        for (uint64_t b = 0; b < layout.n_blocks(); ++b) {
            Block block;
            block.code.word = below(4096);
            block.code.m = static_cast<uint8_t>(below(2));
            block.code.sequence = below(lattice::kSequences);
            for (uint16_t& index : block.code.index) {
                index = below(uint64_t{1} << index_bits);
            }
            block.q = static_cast<uint8_t>(below(kMultipliers));
            put_block(record, layout, b, block);
        }
    }
    return payload;
}

}  // namespace kaiju::test
