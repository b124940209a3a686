#include "lattice/simd.h"

#include "lattice/simd_targets.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kaiju::lattice {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"scalar", "sse4", "avx2", "avx512"};

}  // namespace

std::string_view simd_name(Simd simd) {
    return kNames[static_cast<size_t>(simd)];
}

std::span<const Simd> available_simd() {
    static const std::vector<Simd> available = [] {
        // What was compiled and runs here. A build for one processor (-march=native) has the strongest only.
        const auto usable = HWY_TARGETS & (hwy::SupportedTargets() | HWY_STATIC_TARGET);
        std::vector<Simd> found;
        for (const auto& [simd, target] :
             {std::pair(Simd::scalar, HWY_SCALAR), std::pair(Simd::sse4, HWY_SSE4),
              std::pair(Simd::avx2, HWY_AVX2), std::pair(Simd::avx512, HWY_AVX3)}) {
            if ((usable & target) != 0) {
                found.push_back(simd);
            }
        }
        if (found.empty()) {
            found.push_back(
                Simd::scalar);  // another architecture: its vectors, under the name of the baseline
        }
        return found;
    }();
    return available;
}

Simd chosen_simd() {
    const auto available = available_simd();
    const char* forced = std::getenv("KAIJU_SIMD");
    if (forced == nullptr || *forced == '\0') {
        return available.back();
    }
    const auto named = std::find(kNames.begin(), kNames.end(), std::string_view(forced));
    if (named == kNames.end()) {
        throw Error(ErrorCode::usage,
                    fmt::format("KAIJU_SIMD='{}': choose one of {}", forced, fmt::join(kNames, ", ")));
    }
    const auto simd = static_cast<Simd>(named - kNames.begin());
    if (std::find(available.begin(), available.end(), simd) == available.end()) {
        throw Error(ErrorCode::usage,
                    fmt::format("KAIJU_SIMD={}: this processor or this build lacks it (strongest: {})",
                                forced, simd_name(available.back())));
    }
    return simd;
}

}  // namespace kaiju::lattice
