// KAIJU1 payloads with every field drawn at random, legal ones.
#pragma once

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "codec/kaiju1.h"

namespace kaiju::test {

struct RandomKaiju1 {
    codec::kaiju1::Layout layout;
    std::vector<std::byte> payload;
};

/// rows x (n_hi + 24 n_blocks) weights. perm_kind 1 lists the columns in random order. Scales span many
/// binades, and some rows are zero.
inline RandomKaiju1 random_kaiju1(uint64_t seed, uint32_t rows, uint32_t n_hi, uint32_t n_blocks,
                                  uint8_t perm_kind) {
    using namespace codec::kaiju1;
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t limit) { return random() % limit; };
    RandomKaiju1 made;
    Layout& layout = made.layout;
    layout.rows = rows;
    layout.cols = n_hi + 24 * n_blocks;
    layout.n_hi = n_hi;
    layout.n_blocks = n_blocks;
    layout.perm_kind = perm_kind;
    std::vector<uint32_t> columns(layout.cols);
    std::iota(columns.begin(), columns.end(), 0U);
    std::shuffle(columns.begin(), columns.end(), random);
    if (perm_kind == 0) {
        std::sort(columns.begin(), columns.begin() + n_hi);
    }
    columns.resize(layout.listed_columns());

    ByteWriter out;
    out.append("KJU1");
    for (const uint32_t field : {uint32_t{1}, layout.rows, layout.cols, layout.n_hi, layout.n_blocks}) {
        out.write(field);
    }
    out.write(perm_kind);
    out.write(static_cast<uint8_t>(layout.index_bytes()));
    for (int i = 0; i < 6; ++i) {
        out.write(static_cast<uint8_t>(below(256)));  // reserved: ignored
    }
    float multiplier = 0.1F + static_cast<float>(below(1000)) / 1000;
    for (size_t i = 0; i < kMultipliers; ++i) {
        out.write(multiplier);
        multiplier *= 1.05F + static_cast<float>(below(100)) / 200;
    }
    for (int i = 0; i < 32; ++i) {
        out.write(static_cast<uint8_t>(below(256)));
    }
    for (const uint32_t column : columns) {
        if (layout.index_bytes() == 2) {
            out.write(static_cast<uint16_t>(column));
        } else {
            out.write(column);
        }
    }
    const auto scale = [&] {
        return below(8) == 0
                   ? 0.0F
                   : std::ldexp(static_cast<float>(1 + below(1 << 23)), -23 - static_cast<int>(below(40)));
    };
    for (uint32_t r = 0; r < rows; ++r) {
        out.write(scale());
        out.write(scale());
        for (uint64_t i = 0; i < n_hi + layout.nibble_bytes(); ++i) {
            out.write(static_cast<uint8_t>(below(256)));
        }
        for (uint32_t b = 0; b < n_blocks; ++b) {
            out.write(static_cast<uint8_t>(below(256)));
            out.write(static_cast<uint8_t>(below(256)));  // unused, watermark and flip bits among them
            for (int i = 0; i < 4; ++i) {
                out.write(static_cast<uint8_t>(below(243)));
            }
            out.write(static_cast<uint8_t>(below(81)));
        }
    }
    made.payload = out.release();
    return made;
}

}  // namespace kaiju::test
