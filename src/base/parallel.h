// Parallel loops on a bounded number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace kaiju {

/// Number of threads to use when the user names none: the processors this process may run on.
[[nodiscard]] int default_threads();

/// Calls body(begin, end) on disjoint ranges that cover [0, count), each at most `grain` long, on up to
/// `threads` threads. Which thread runs which range is not fixed: results must not depend on it. The first
/// exception is rethrown after the loop has stopped.
void parallel_for(size_t count, size_t grain, int threads, const std::function<void(size_t, size_t)>& body);

}  // namespace kaiju
