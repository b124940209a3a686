// What the payloads of every wire must hold: decoding any bytes that the header lets through is memory-safe,
// and what check() accepts is finite.
#pragma once

#include <cmath>
#include <vector>

#include "fuzzer.h"

namespace kaiju::fuzz {

template <typename View>
int payload_input(const uint8_t* data, size_t size) {
    return one_input(data, size, [](Bytes payload) {
        const View view(payload);
        const auto& layout = view.layout();
        promise(layout.payload_bytes() == payload.size());
        // A header may announce rows of 2^32 columns only if they are there: no limit is needed.
        std::vector<float> row(layout.cols);
        for (uint64_t r = 0; r < layout.rows; ++r) {
            view.decode_rows(r, 1, row.data());
        }
        view.check();
        for (uint64_t r = 0; r < layout.rows; ++r) {
            view.decode_rows(r, 1, row.data());
            for (const float weight : row) {
                promise(std::isfinite(weight));
            }
        }
    });
}

}  // namespace kaiju::fuzz
