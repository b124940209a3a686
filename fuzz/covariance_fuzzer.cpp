// Tables of full covariances. Length and checksum are put right first: behind them is where the parser is.
#include <vector>

#include "base/checksum.h"
#include "format/covariance.h"
#include "fuzzer.h"

using namespace kaiju;

namespace {

/// The table's end is where the parser says it is: the entries are walked as it walks them.
std::vector<std::byte> with_right_checksum(Bytes input) {
    constexpr size_t kTable = 24;
    std::vector<std::byte> file(input.begin(), input.end());
    if (file.size() < kTable + 8) {
        return file;
    }
    store(file.data() + 8, uint64_t{file.size()});
    uint64_t at = kTable + 8 + load<uint32_t>(file.data() + kTable);
    for (auto left = load<uint32_t>(file.data() + kTable + 4); left > 0 && fits(at, 2, file.size()); --left) {
        at += 2 + load<uint16_t>(file.data() + at) + 20;
    }
    if (at <= file.size()) {
        store(file.data() + 16, xxh3(Bytes(file).subspan(kTable, at - kTable)));
    }
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes input) {
        const std::vector<std::byte> file = with_right_checksum(input);
        for (const format::CovarianceEntry& entry : format::parse_covariances(file).entries) {
            fuzz::promise(fits(entry.offset, entry.packed() * sizeof(float), file.size()));
            fuzz::promise(entry.dim > 0 && entry.samples > 0);
        }
    });
}
