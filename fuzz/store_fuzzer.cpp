// What object stores and their settings files say: XML of S3, INI of credentials.
#include <string>

#include "fuzzer.h"
#include "zoo/credentials.h"
#include "zoo/xml.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes file) {
        (void)zoo::ini_value(as_text(file), "default", "s3.endpoint_url");
        (void)zoo::xml_text(as_text(file), "Error/Code");
        size_t elements = 0;
        zoo::walk_xml(as_text(file), [&](const std::string& path, const std::string& /*text*/) {
            fuzz::promise(!path.empty());
            ++elements;
        });
        fuzz::promise(elements > 0);
    });
}
