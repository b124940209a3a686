// Catalogues of the zoo: what is read has ids, size classes and keys that can be used.
#include "zoo/catalogue.h"

#include "fuzzer.h"
#include "zoo/store.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes file) {
        const zoo::Catalogue catalogue = zoo::parse_catalogue(as_text(file));
        fuzz::promise(!catalogue.models.empty());
        for (const zoo::Model& model : catalogue.models) {
            zoo::check_key(model.key("f16"));
            zoo::check_key(model.stem(1) + ".knot");
            fuzz::promise(model.limit_hours() > 0 && model.shards >= 1);
        }
    });
}
