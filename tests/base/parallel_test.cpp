#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/error.h"

namespace kaiju {
namespace {

TEST(ParallelFor, CoversEveryIndexOnceForAnyGrainAndThreads) {
    for (const int threads : {1, 2, 4}) {
        for (const size_t count : {0U, 1U, 7U, 1000U}) {
            for (const size_t grain : {0U, 1U, 3U, 5000U}) {
                std::vector<std::atomic<int>> seen(count);
                parallel_for(count, grain, threads, [&](size_t begin, size_t end) {
                    ASSERT_LE(end - begin, std::max<size_t>(grain, 1));
                    for (size_t i = begin; i < end; ++i) {
                        ++seen[i];
                    }
                });
                for (size_t i = 0; i < count; ++i) {
                    ASSERT_EQ(seen[i], 1)
                        << i << " of " << count << ", grain " << grain << ", threads " << threads;
                }
            }
        }
    }
}

TEST(ParallelFor, RethrowsAnErrorOfTheBody) {
    for (const int threads : {1, 3}) {
        EXPECT_THROW(parallel_for(100, 1, threads,
                                  [](size_t begin, size_t) {
                                      if (begin == 50) {
                                          throw Error(ErrorCode::bad_input, "row 50");
                                      }
                                  }),
                     Error);
    }
}

}  // namespace
}  // namespace kaiju
