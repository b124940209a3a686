#include "base/parallel.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>

namespace kaiju {

int default_threads() {
    return tbb::info::default_concurrency();
}

void parallel_for(size_t count, size_t grain, int threads, const std::function<void(size_t, size_t)>& body) {
    grain = std::max<size_t>(grain, 1);
    if (threads <= 1) {
        for (size_t begin = 0; begin < count; begin += grain) {
            body(begin, std::min(begin + grain, count));
        }
        return;
    }
    // Without this, asking for more threads than there are processors makes the library print a warning.
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                    static_cast<size_t>(threads));
    tbb::task_arena arena(threads);
    arena.execute([&] {
        tbb::parallel_for(
            tbb::blocked_range<size_t>(0, count, grain),
            [&](const tbb::blocked_range<size_t>& range) { body(range.begin(), range.end()); },
            tbb::simple_partitioner());
    });
}

}  // namespace kaiju
