// Qspecs: what parses is written and parses again to the same.
#include <string>

#include "format/qspec.h"
#include "fuzzer.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes file) {
        const format::Qspec qspec = format::parse_qspec(as_text(file));
        const std::string text = format::to_json_text(qspec);
        fuzz::promise(format::to_json_text(format::parse_qspec(text)) == text);
        format::check_gate_ready(qspec, 49152);
    });
}
