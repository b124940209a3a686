// KAIJU4 payloads: decoding any bytes that the header lets through is memory-safe, and what check() accepts
// is finite.
#include <cmath>
#include <vector>

#include "codec/kaiju4.h"
#include "fuzzer.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes payload) {
        const codec::kaiju4::TensorView view(payload);
        const codec::kaiju4::Layout& layout = view.layout();
        fuzz::promise(layout.payload_bytes() == payload.size());
        // A header may announce rows of 2^32 columns only if they are there: no limit is needed.
        std::vector<float> row(layout.cols);
        for (uint64_t r = 0; r < layout.rows; ++r) {
            view.decode_rows(r, 1, row.data());
        }
        view.check();
        for (uint64_t r = 0; r < layout.rows; ++r) {
            view.decode_rows(r, 1, row.data());
            for (const float weight : row) {
                fuzz::promise(std::isfinite(weight));
            }
        }
    });
}
