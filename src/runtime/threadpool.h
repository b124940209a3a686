// The threads that graphs run on.
#pragma once

#include <ggml-cpu.h>

#include <algorithm>
#include <memory>

#include "base/parallel.h"

namespace kaiju::runtime {

inline int threads_or_default(int threads) {
    return threads > 0 ? threads : default_threads();
}

/// Threads of a graph. They wait for each other by spinning after every node: hundreds on a few processors
/// come to no end, and not even to the place where they notice an interrupt. A few too many do no harm.
inline int graph_threads(int threads) {
    constexpr int kAlways = 8;
    return std::min(threads_or_default(threads), std::max(default_threads(), kAlways));
}

struct ThreadpoolDeleter {
    void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
};
using ThreadpoolPtr = std::unique_ptr<ggml_threadpool, ThreadpoolDeleter>;

// ggml without OpenMP makes its threads anew for every graph unless it is given a pool: 40 us a graph instead
// of 0.3. No polling: between two graphs the processors belong to the caller, who computes softmax and
// divergence there.
inline ThreadpoolPtr make_threadpool(int threads) {
    ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    params.poll = 0;
    return ThreadpoolPtr(ggml_threadpool_new(&params));
}

}  // namespace kaiju::runtime
