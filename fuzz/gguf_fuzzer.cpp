// GGUF headers. What the walk accepts, ggml's reader must accept, and see alike.
#include <string>

#include "format/gguf_file.h"
#include "format/gguf_writer.h"
#include "format/key_values.h"
#include "fuzzer.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes file) {
        if (file.empty()) {
            return;  // no key-values, to KeyValues; no GGUF, to the header's reader
        }
        const format::KeyValues key_values(file);
        for (const format::GgufKeyValue& kv : key_values.all()) {
            try {
                if (kv.type == format::GgufType::array) {
                    static_cast<void>(key_values.find_strings(kv.key));
                } else {
                    static_cast<void>(key_values.find_i64(kv.key));
                }
            } catch (const Error& error) {
                fuzz::promise(error.code() == ErrorCode::bad_input);
            }
        }
        format::KeyValueWriter copy;
        copy.add_all(file);
        const std::vector<std::byte> again = copy.file();
        fuzz::promise(format::KeyValues(again).all().size() == key_values.all().size());
        try {
            static_cast<void>(format::read_gguf_header(file));
        } catch (const Error& error) {
            fuzz::promise(std::string_view(error.what()).find("truncated") != std::string_view::npos);
        }
    });
}
