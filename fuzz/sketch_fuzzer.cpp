// Covariance sketches.
#include "format/sketch.h"
#include "fuzzer.h"

using namespace kaiju;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::one_input(data, size, [](Bytes file) {
        for (const format::SketchEntry& entry : format::parse_sketches(file).entries) {
            const format::Sketch sketch = entry.load();
            fuzz::promise(sketch.samples > 0 && sketch.dim() > 0 && sketch.k() <= sketch.dim());
            fuzz::promise(sketch.eigvec.size() == size_t{sketch.k()} * sketch.dim());
            for (const float square : sketch.diag) {
                fuzz::promise(square >= 0);
            }
        }
    });
}
