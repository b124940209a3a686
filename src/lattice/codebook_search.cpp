// Branch and bound as in pruned.cpp, over four halves (flip, m). Per coordinate and code bit the best of
// three values and what the best of the other parity costs more replace the closed forms of the infinite
// lattice: (v - 2k)^2 = v^2 + 4 k (k - v) with k = c + 2z, so with e = k (k - v) half the squared distance is
// Σ v^2 / 2 + Σ (e_0 + e_1) + Σ σ_i (e_0 - e_1), integers in grid steps; the trellis is the same.
#include "lattice/codebook_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "lattice/codebook_fast.h"
#include "lattice/golay.h"
#include "lattice/leech.h"
#include "lattice/turyn.h"

namespace kaiju::lattice {

namespace {

constexpr size_t kOctets = 3;
constexpr size_t kHalves = 4;  // 2 flip + m
constexpr int64_t kStep = 4 * int64_t{kGridUnit};
constexpr size_t kMostCandidates = 64;

/// The nearest allowed z of a coordinate at t = v - 2c, and the nearest of the other parity.
struct Trit {
    int nearest;
    int other;
};

Trit nearest_trit(int64_t t) {
    // Nearest multiple of 4, the smaller of two equally near, then clamped: distances grow away from it.
    const int64_t q = (t + kStep / 2 - 1) >> 18;
    const int z = static_cast<int>(std::clamp<int64_t>(q, -1, 1));
    return {z, z != 0 ? 0 : t > 0 ? 1 : -1};
}

/// Everything that is known of one half of one point. T holds sums: int32_t where the coordinates are small.
template <typename T>
struct Half {
    std::array<T, kDimension> s;                      ///< (cost of c = 0) - (cost of c = 1)
    std::array<std::array<T, kDimension>, 2> repair;  ///< by c: what the other parity costs more
    std::array<std::array<std::array<T, kPairs>, kClasses>, kOctets> sum;
    T constant;
    uint32_t odd;    ///< parity of Σ z of the word 0, against what m asks
    uint32_t turns;  ///< bit i: setting c_i changes the parity of z_i
};

template <typename T>
void prepare(const std::array<int64_t, kDimension>& y, bool flip, int m, Half<T>& half) {
    half.odd = static_cast<uint32_t>(m);
    half.turns = 0;
    half.constant = 0;
    for (size_t i = 0; i < kDimension; ++i) {
        const int64_t signed_y = flip ? -y[i] : y[i];
        const int64_t v = signed_y - int64_t{m} * kGridUnit;
        std::array<int64_t, 2> cost;
        std::array<Trit, 2> trit;
        for (int c = 0; c < 2; ++c) {
            const auto cost_of = [&](int z) { return (c + 2 * z) * ((c + 2 * z) * int64_t{kGridUnit} - v); };
            trit[c] = nearest_trit(v - 2 * c * int64_t{kGridUnit});
            cost[c] = cost_of(trit[c].nearest);
            half.repair[c][i] = static_cast<T>(2 * (cost_of(trit[c].other) - cost[c]));
        }
        half.s[i] = static_cast<T>(cost[0] - cost[1]);
        // v^2 / 2 - y^2 / 2 = m (m / 2 - y): the constant that tells the halves apart.
        half.constant += static_cast<T>(cost[0] + cost[1] + m * (kGridUnit / 2 - signed_y));
        half.odd ^= static_cast<uint32_t>(trit[0].nearest) & 1;
        half.turns |= (static_cast<uint32_t>(trit[0].nearest ^ trit[1].nearest) & 1) << i;
    }
    for (size_t o = 0; o < kOctets; ++o) {
        std::array<std::array<T, 16>, 2> nibble;
        for (size_t part = 0; part < 2; ++part) {
            const T* s = half.s.data() + 8 * o + 4 * part;
            auto& sums = nibble[part];
            sums[0] = s[0] + s[1] + s[2] + s[3];
            for (size_t i = 0; i < 4; ++i) {
                for (size_t p = 0; p < size_t{1} << i; ++p) {
                    sums[p | size_t{1} << i] = sums[p] - 2 * s[i];
                }
            }
        }
        for (size_t t = 0; t < kClasses; ++t) {
            for (size_t j = 0; j < kPairs; ++j) {
                const uint32_t octet = class_octet(t, o, j);
                half.sum[o][t][j] = nibble[0][octet & 15] + nibble[1][octet >> 4];
            }
        }
    }
}

/// A coset of the code book and the value of its best word.
template <typename T>
struct Candidate {
    T value;
    uint16_t half;  ///< 2 flip + m
    uint16_t word;

    friend bool operator<(const Candidate& a, const Candidate& b) {
        return std::tie(a.value, a.half, a.word) < std::tie(b.value, b.half, b.word);
    }
};

/// The best code word of one coset.
void best_in_coset(const std::array<int64_t, kDimension>& y, uint16_t half, uint16_t index, Parity parity,
                   CodebookWord& out) {
    out.flip = (half & 2) != 0;
    out.m = half & 1;
    out.word = index;
    const uint32_t word = kGolay[index];
    uint32_t odd = out.m;
    size_t weakest = 0;
    int64_t least = 0;
    int weakest_z = 0;
    for (size_t i = 0; i < kDimension; ++i) {
        const int64_t t = (out.flip ? -y[i] : y[i]) - (out.m + 2 * int64_t{word >> i & 1}) * kGridUnit;
        const Trit trit = nearest_trit(t);
        out.z[i] = static_cast<int8_t>(trit.nearest);
        odd ^= static_cast<uint32_t>(trit.nearest) & 1;
        // (t - 4z)^2 - t^2 = 8 (2 z^2 - z t), over 8: what the other parity costs more.
        const auto cost_of = [t](int z) { return 2 * z * z * int64_t{kGridUnit} - z * t; };
        const int64_t more = cost_of(trit.other) - cost_of(trit.nearest);
        if (i == 0 || more < least) {
            least = more;
            weakest = i;
            weakest_z = trit.other;
        }
    }
    if (parity == Parity::kept && odd != 0) {
        out.z[weakest] = static_cast<int8_t>(weakest_z);
    }
    out.d2 = 0;
    for (size_t i = 0; i < kDimension; ++i) {
        const auto r = static_cast<double>(y[i] - int64_t{out.value(i)} * kGridUnit) * 0x1p-16;
        out.d2 += r * r;
    }
}

template <typename T>
class Search {
  public:
    Search(Parity parity, size_t count) : parity_(parity), count_(count) {}

    void run(const std::array<int64_t, kDimension>& y, std::span<CodebookWord> out) {
        y_ = &y;
        out_ = out;
        kept_ = 0;
        struct Branch {
            T bound;
            uint16_t half;
            uint16_t t;
        };
        std::array<Branch, kHalves * kClasses> branches;
        for (uint16_t h = 0; h < kHalves; ++h) {
            prepare(y, (h & 2) != 0, h & 1, halves_[h]);
            for (uint16_t t = 0; t < kClasses; ++t) {
                T bound = halves_[h].constant;
                for (size_t o = 0; o < kOctets; ++o) {
                    T largest = 0;
                    for (const T sum : halves_[h].sum[o][t]) {
                        largest = std::max(largest, std::abs(sum));
                    }
                    bound -= largest;
                }
                branches[h * kClasses + t] = {bound, h, t};
            }
        }
        std::sort(branches.begin(), branches.end(),
                  [](const Branch& a, const Branch& b) { return a.bound < b.bound; });
        for (const Branch& branch : branches) {
            if (full() && branch.bound > last().value) {
                break;
            }
            walk(branch.half, branch.t);
        }
    }

  private:
    [[nodiscard]] bool full() const { return kept_ == count_; }
    [[nodiscard]] const Candidate<T>& last() const { return best_[kept_ - 1]; }
    [[nodiscard]] bool too_far(T value) const { return full() && value > last().value; }

    void walk(uint16_t h, size_t t) {
        const Half<T>& half = halves_[h];
        const auto& a = half.sum[0][t];
        const auto& b = half.sum[1][t];
        const auto& c = half.sum[2][t];
        for (size_t i = 0; i < kPairs; ++i) {
            for (size_t j = 0; j < kPairs; ++j) {
                const size_t k = i ^ j;
                if (too_far(half.constant - std::abs(a[i]) - std::abs(b[j]) - std::abs(c[k]))) {
                    continue;
                }
                for (uint32_t flips = 0; flips < 8; ++flips) {
                    const T value = half.constant + ((flips & 1) != 0 ? -a[i] : a[i]) +
                                    ((flips & 2) != 0 ? -b[j] : b[j]) + ((flips & 4) != 0 ? -c[k] : c[k]);
                    if (!too_far(value)) {
                        consider(h, turyn_word(t, i, j, flips), value);
                    }
                }
            }
        }
    }

    void consider(uint16_t h, uint32_t word, T value) {
        const Half<T>& half = halves_[h];
        if (parity_ == Parity::kept &&
            (half.odd ^ (static_cast<uint32_t>(std::popcount(word & half.turns)) & 1)) != 0) {
            T repair = half.repair[word & 1][0];
            for (size_t i = 1; i < kDimension; ++i) {
                repair = std::min(repair, half.repair[word >> i & 1][i]);
            }
            value += repair;
        }
        const Candidate<T> candidate{value, h, static_cast<uint16_t>(golay_index(word))};
        if (full() && last() < candidate) {
            return;
        }
        CodebookWord found;
        best_in_coset(*y_, candidate.half, candidate.word, parity_, found);
        // The other flip may say the same: then it has the same distance.
        for (size_t k = 0; k < kept_; ++k) {
            if (best_[k].value == value && same_values(out_[k], found)) {
                if (candidate < best_[k]) {
                    std::move(out_.begin() + static_cast<ptrdiff_t>(k) + 1,
                              out_.begin() + static_cast<ptrdiff_t>(kept_),
                              out_.begin() + static_cast<ptrdiff_t>(k));
                    std::move(best_.begin() + static_cast<ptrdiff_t>(k) + 1,
                              best_.begin() + static_cast<ptrdiff_t>(kept_),
                              best_.begin() + static_cast<ptrdiff_t>(k));
                    --kept_;
                    break;
                }
                return;
            }
        }
        size_t at = std::min(kept_, count_ - 1);  // where there is no room the last one goes
        kept_ = at + 1;
        for (; at > 0 && candidate < best_[at - 1]; --at) {
            best_[at] = best_[at - 1];
            out_[at] = out_[at - 1];
        }
        best_[at] = candidate;
        out_[at] = found;
    }

    static bool same_values(const CodebookWord& a, const CodebookWord& b) {
        for (size_t i = 0; i < kDimension; ++i) {
            if (a.value(i) != b.value(i)) {
                return false;
            }
        }
        return true;
    }

    Parity parity_;
    size_t count_;
    size_t kept_ = 0;
    const std::array<int64_t, kDimension>* y_ = nullptr;
    std::span<CodebookWord> out_;
    std::array<Half<T>, kHalves> halves_;
    std::array<Candidate<T>, kMostCandidates> best_;
};

}  // namespace

namespace {

/// Throws unless y holds whole points with room for `count` candidates each, and finite values within 2^20.
void check_input(std::span<const float> y, size_t count, size_t room) {
    if (count < 1 || count > kMostCandidates || y.size() % kDimension != 0 ||
        room != y.size() / kDimension * count) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} values and room for {} answers do not fit {} candidates a point",
                                y.size(), room, count));
    }
    const auto bad = std::find_if(y.begin(), y.end(), [](float v) { return !(std::fabs(v) <= 0x1p20F); });
    if (bad != y.end()) {
        const auto at = static_cast<size_t>(bad - y.begin());
        throw Error(ErrorCode::bad_input,
                    fmt::format("point {}, coordinate {}: {} is {}", at / kDimension, at % kDimension, *bad,
                                std::isfinite(*bad) ? "outside [-2^20, 2^20]" : "not finite"));
    }
}

/// A point in grid steps, half to even.
std::array<int64_t, kDimension> on_grid(const float* y) {
    std::array<int64_t, kDimension> point;
    for (size_t i = 0; i < kDimension; ++i) {
        point[i] = static_cast<int64_t>(std::nearbyint(double{y[i]} * kGridUnit));
    }
    return point;
}

}  // namespace

int32_t CodebookWord::value(size_t i) const {
    const int32_t x = m + 2 * static_cast<int32_t>(kGolay[word] >> i & 1) + 4 * z[i];
    return flip ? -x : x;
}

CodebookMethod codebook_method(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, CodebookMethod>, 3> kNames = {
        {{"fast", CodebookMethod::fast},
         {"pruned", CodebookMethod::pruned},
         {"exhaustive", CodebookMethod::exhaustive}}};
    for (const auto& [known, method] : kNames) {
        if (name == known) {
            return method;
        }
    }
    throw Error(ErrorCode::usage,
                fmt::format("no decoder is called \"{}\"; fast, pruned and exhaustive are", name));
}

CodebookSearch::CodebookSearch(Parity parity, CodebookMethod method) : CodebookSearch(parity, chosen_simd()) {
    method_ = method;
}

CodebookSearch::CodebookSearch(Parity parity, Simd simd)
    : parity_(parity), kernels_(&codebook_kernels(simd)) {}

Simd CodebookSearch::simd() const {
    return kernels_->simd;
}

void CodebookSearch::nearest(std::span<const float> y, std::span<CodebookWord> out) const {
    if (method_ == CodebookMethod::pruned) {
        candidates(y, 1, out);
        return;
    }
    check_input(y, 1, out.size());
    if (method_ == CodebookMethod::exhaustive) {
        for (size_t p = 0; p < out.size(); ++p) {
            out[p] = try_all(y.subspan(p * kDimension, kDimension));
        }
        return;
    }
    const auto work = std::make_unique_for_overwrite<CodebookWorkspace>();
    for (size_t begin = 0; begin < out.size(); begin += kCodebookBlock) {
        const size_t n = std::min(kCodebookBlock, out.size() - begin);
        kernels_->search(y.data() + begin * kDimension, n, parity_, *work, out.data() + begin);
        for (size_t p = 0; p < n; ++p) {
            if (!work->usable[p]) {
                candidates(y.subspan((begin + p) * kDimension, kDimension), 1, out.subspan(begin + p, 1));
            }
        }
    }
}

CodebookWord CodebookSearch::try_all(std::span<const float> y) const {
    const std::array<int64_t, kDimension> point = on_grid(y.data());
    CodebookWord best;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (uint16_t half = 0; half < kHalves; ++half) {  // ascending, as ties are to fall: flip, m, word
        for (uint16_t index = 0; index < kGolayWords; ++index) {
            CodebookWord found;
            best_in_coset(point, half, index, parity_, found);
            int64_t value = 0;  // squared distance less |y|^2, in grid steps: exact for every legal y
            for (size_t i = 0; i < kDimension; ++i) {
                const int64_t x = found.value(i);
                value += x * (x * kGridUnit - 2 * point[i]);
            }
            if (value < least) {
                least = value;
                best = found;
            }
        }
    }
    return best;
}

void CodebookSearch::candidates(std::span<const float> y, size_t count, std::span<CodebookWord> out) const {
    check_input(y, count, out.size());
    Search<int32_t> small(parity_, count);
    Search<int64_t> large(parity_, count);
    for (size_t p = 0; p < y.size() / kDimension; ++p) {
        const std::array<int64_t, kDimension> point = on_grid(y.data() + p * kDimension);
        int64_t largest = 0;
        for (const int64_t v : point) {
            largest = std::max(largest, std::abs(v));
        }
        const auto found = out.subspan(p * count, count);
        // Sums of 24 terms, none above 16 |y| + 64 units: 31 bits hold them up to here.
        if (largest <= 64 * int64_t{kGridUnit}) {
            small.run(point, found);
        } else {
            large.run(point, found);
        }
    }
}

}  // namespace kaiju::lattice
