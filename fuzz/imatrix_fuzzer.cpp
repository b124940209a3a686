// Importance matrices, both forms.
#include <cmath>

#include "format/imatrix.h"
#include "fuzzer.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes file) {
        const format::Imatrix imatrix = format::parse_imatrix(file);
        fuzz::promise(!imatrix.entries.empty());
        for (const auto& [name, entry] : imatrix.entries) {
            fuzz::promise(!entry.sum_of_squares.empty() && entry.count >= 0);
            for (const float mean : entry.mean_squares()) {
                fuzz::promise(mean >= 0);  // a tiny count may make it infinite: the encoder looks
            }
        }
    });
}
