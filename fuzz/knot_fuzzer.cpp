// Whole knots. The checksum over table and metadata is put right first: behind it is where the parsers are.
#include <vector>

#include "base/checksum.h"
#include "codec/tensor_decoder.h"
#include "format/key_values.h"
#include "format/knot.h"
#include "fuzzer.h"

using namespace kaiju;

namespace {

std::vector<std::byte> with_right_checksum(Bytes file) {
    std::vector<std::byte> fixed(file.begin(), file.end());
    if (fixed.size() < format::KnotHeader::kBytes) {
        return fixed;
    }
    constexpr size_t kFileLength = 48;
    constexpr size_t kChecksum = 56;
    store(fixed.data() + kFileLength, uint64_t{fixed.size()});
    const auto meta_offset = load<uint64_t>(fixed.data() + 8);
    const auto meta_length = load<uint64_t>(fixed.data() + 16);
    const auto toc_offset = load<uint64_t>(fixed.data() + 24);
    const auto toc_length = load<uint64_t>(fixed.data() + 32);
    if (fits(meta_offset, meta_length, fixed.size()) && fits(toc_offset, toc_length, fixed.size())) {
        ByteWriter both;
        both.append(Bytes(fixed).subspan(toc_offset, toc_length));
        both.append(Bytes(fixed).subspan(meta_offset, meta_length));
        store(fixed.data() + kChecksum, xxh3(both.bytes()));
    }
    return fixed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes input) {
        const std::vector<std::byte> file = with_right_checksum(input);
        const format::KnotTable table = format::parse_knot(file);
        for (const format::KnotEntry& entry : table.entries) {
            fuzz::promise(fits(entry.offset, entry.info.nbytes, file.size()));
            const Bytes payload = Bytes(file).subspan(entry.offset, entry.info.nbytes);
            try {
                if (entry.info.type == format::kKeyValuesType) {
                    static_cast<void>(format::KeyValues(payload));
                    continue;
                }
                const auto decoder = codec::make_tensor_decoder(entry.info, payload);
                std::vector<float> row(entry.info.cols());
                decoder->decode_rows(entry.info.rows() - 1, 1, row.data());
                decoder->check();
            } catch (const Error& error) {
                fuzz::promise(error.code() == ErrorCode::bad_input);
            }
        }
    });
}
