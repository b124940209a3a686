// Branch and bound over the code words, exact.
//
// Linear form: with t = y - m, r = |t - 4 round(t/4)| and s = r - 1, a coordinate with code bit c lies |1 + σ
// s| from its nearest value (σ = +1 for c = 0, -1 for c = 1). Squared distances are therefore const_m + 2 Σ
// σ_i s_i, plus 8 - 8 max σ_i s_i where the parity of Σ q is wrong; and const_0 - const_1 = Σ (2 |s⁰_i| - 1).
// Dropping constants and a factor of 2, all values are integers of grid steps below 2^23. The sum without the
// parity term bounds the true value from below and is a sum over octets, whose complement changes only its
// sign.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "lattice/decoders.h"
#include "lattice/golay.h"
#include "lattice/leech.h"
#include "lattice/turyn.h"

namespace kaiju::lattice {

namespace {

constexpr size_t kOctets = 3;

/// One half of the problem.
struct Half {
    std::array<int32_t, kDimension> s;
    std::array<std::array<int32_t, 256>, kOctets> sum;  ///< sum[o][p]: Σ σ_i s_i over octet o with pattern p
    uint32_t odd;                                       ///< parity of Σ q of the word 0, against what m asks
    uint32_t turns;                                     ///< bit i: setting c_i changes the parity of q_i
    int32_t offset;                                     ///< what the half's constant adds
};

void prepare(GridPoint y, uint8_t m, Half& half) {
    half.odd = m;
    half.turns = 0;
    int32_t total = 0;
    for (size_t i = 0; i < kDimension; ++i) {
        const int32_t v = y[i] - m * kGridUnit;
        const int32_t q = (v + 2 * kGridUnit - 1) >> 18;
        const int32_t q_set = (v - 1) >> 18;
        half.s[i] = std::abs(v - q * 4 * kGridUnit) - kGridUnit;
        half.odd ^= static_cast<uint32_t>(q) & 1;
        half.turns |= (static_cast<uint32_t>(q ^ q_set) & 1) << i;
        total += std::abs(half.s[i]) - kGridUnit / 2;
    }
    half.offset = m == 0 ? total : 0;
    for (size_t o = 0; o < kOctets; ++o) {
        auto& sum = half.sum[o];
        sum[0] = 0;
        for (size_t i = 0; i < 8; ++i) {
            sum[0] += half.s[8 * o + i];
        }
        for (size_t i = 0; i < 8; ++i) {
            const int32_t twice = 2 * half.s[8 * o + i];
            for (size_t p = 0; p < size_t{1} << i; ++p) {
                sum[p | size_t{1} << i] = sum[p] - twice;
            }
        }
    }
}

/// Where a search starts and how good it can get.
struct Branch {
    int32_t bound;
    uint8_t m;
    uint8_t t;
};

class Search {
  public:
    Coset run(GridPoint y) {
        std::array<Branch, 2 * kClasses> branches;
        for (uint8_t m = 0; m < 2; ++m) {
            prepare(y, m, halves_[m]);
            for (uint8_t t = 0; t < kClasses; ++t) {
                int32_t bound = halves_[m].offset;
                for (size_t o = 0; o < kOctets; ++o) {
                    int32_t largest = 0;
                    for (size_t j = 0; j < kPairs; ++j) {
                        largest = std::max(largest, std::abs(halves_[m].sum[o][class_octet(t, o, j)]));
                    }
                    bound -= largest;
                }
                branches[m * kClasses + t] = {bound, m, t};
            }
        }
        std::sort(branches.begin(), branches.end(),
                  [](const Branch& a, const Branch& b) { return a.bound < b.bound; });
        best_ = std::numeric_limits<int32_t>::max();
        for (const Branch& branch : branches) {
            if (branch.bound > best_) {
                break;
            }
            walk(branch);
        }
        return coset_;
    }

  private:
    /// All words of one class in one half.
    void walk(const Branch& branch) {
        const Half& half = halves_[branch.m];
        std::array<std::array<int32_t, kPairs>, kOctets> sum;
        std::array<std::array<int32_t, kPairs>, kOctets> size;
        for (size_t o = 0; o < kOctets; ++o) {
            for (size_t j = 0; j < kPairs; ++j) {
                sum[o][j] = half.sum[o][class_octet(branch.t, o, j)];
                size[o][j] = std::abs(sum[o][j]);
            }
        }
        for (size_t i = 0; i < kPairs; ++i) {
            for (size_t j = 0; j < kPairs; ++j) {
                const size_t k = i ^ j;
                if (half.offset - size[0][i] - size[1][j] - size[2][k] > best_) {
                    continue;
                }
                for (uint32_t flips = 0; flips < 8; ++flips) {
                    const int32_t value = half.offset + ((flips & 1) != 0 ? -sum[0][i] : sum[0][i]) +
                                          ((flips & 2) != 0 ? -sum[1][j] : sum[1][j]) +
                                          ((flips & 4) != 0 ? -sum[2][k] : sum[2][k]);
                    if (value <= best_) {
                        consider(half, branch.m, turyn_word(branch.t, i, j, flips), value);
                    }
                }
            }
        }
    }

    void consider(const Half& half, uint8_t m, uint32_t word, int32_t value) {
        if ((half.odd ^ (static_cast<uint32_t>(std::popcount(word & half.turns)) & 1)) != 0) {
            int32_t weakest = -kGridUnit;
            for (size_t i = 0; i < kDimension; ++i) {
                weakest = std::max(weakest, (word >> i & 1) != 0 ? -half.s[i] : half.s[i]);
            }
            value += 4 * (kGridUnit - weakest);
        }
        const Coset coset{m, static_cast<uint16_t>(golay_index(word))};
        if (value < best_ ||
            (value == best_ && (coset.m < coset_.m || (coset.m == coset_.m && coset.word < coset_.word)))) {
            best_ = value;
            coset_ = coset;
        }
    }

    std::array<Half, 2> halves_;
    int32_t best_ = 0;
    Coset coset_;
};

class Pruned final : public Decoder {
  public:
    [[nodiscard]] std::string_view name() const override { return "pruned"; }

  protected:
    void search(const int32_t* residual, const int32_t* shift, std::span<Nearest> out) const override {
        Search search;
        for (size_t p = 0; p < out.size(); ++p) {
            const GridPoint point(residual + p * kDimension, kDimension);
            nearest_in_coset(point, search.run(point), out[p]);
            for (size_t i = 0; i < kDimension; ++i) {
                out[p].x[i] += shift[p * kDimension + i];
            }
        }
    }
};

}  // namespace

std::unique_ptr<Decoder> make_pruned_decoder() {
    return std::make_unique<Pruned>();
}

}  // namespace kaiju::lattice
