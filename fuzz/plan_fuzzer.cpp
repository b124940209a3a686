// Plans of jobs: what is read is written and read again to the same.
#include "zoo/plan.h"

#include "format/strict_json.h"
#include "fuzzer.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes file) {
        const zoo::Plan plan = zoo::plan_from(format::parse_strict_json(as_text(file)));
        const nlohmann::json written = zoo::to_json(plan);
        fuzz::promise(zoo::to_json(zoo::plan_from(written)) == written);
    });
}
