#include "base/parallel.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kaiju {

namespace {

// The thread sanitizer does not see how TBB's library, which is not instrumented, hands work from thread to
// thread, and would report every range. There, plain threads take the ranges one after the other.
#ifdef __SANITIZE_THREAD__
constexpr bool kPlainThreads = true;
#else
constexpr bool kPlainThreads = false;
#endif

void on_plain_threads(size_t count, size_t grain, int threads,
                      const std::function<void(size_t, size_t)>& body) {
    std::atomic<size_t> next{0};
    std::mutex mutex;
    std::exception_ptr error;
    const auto work = [&] {
        try {
            for (size_t begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain)) {
                body(begin, std::min(begin + grain, count));
            }
        } catch (...) {
            next = count;
            const std::lock_guard lock(mutex);
            error = error ? error : std::current_exception();
        }
    };
    std::vector<std::thread> helpers;
    for (int n = 1; n < threads; ++n) {
        helpers.emplace_back(work);
    }
    work();
    for (std::thread& helper : helpers) {
        helper.join();
    }
    if (error) {
        std::rethrow_exception(error);
    }
}

}  // namespace

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
    if (kPlainThreads) {
        on_plain_threads(count, grain, threads, body);
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
