// The reference decoder: the squared distance to all 2 x 4096 cosets, by the definition; no bound, nothing
// skipped.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "lattice/decoders.h"
#include "lattice/golay.h"
#include "lattice/leech.h"

namespace kaiju::lattice {

namespace {

/// One coordinate, one half, one value of the code bit.
struct Choice {
    int64_t cost;    ///< squared distance to the nearest value m + 2c + 4q
    int64_t repair;  ///< what the next nearest q costs more
    uint64_t odd;    ///< parity of q
};

Choice choose(int32_t y, int32_t offset) {
    const int64_t v = y - int64_t{offset} * kGridUnit;
    const int64_t q = (v + 2 * kGridUnit - 1) >> 18;
    const int64_t r = v - q * 4 * kGridUnit;
    const int64_t other = 4 * kGridUnit - (r < 0 ? -r : r);
    return {r * r, other * other - r * r, static_cast<uint64_t>(q) & 1};
}

/// The sum over one octet for each of its 256 patterns of code bits: eight coordinates are added once, not
/// once per word that shares them.
struct Octet {
    std::array<int64_t, 256> cost;
    std::array<int64_t, 256> repair;
    std::array<uint64_t, 256> odd;

    void fill(GridPoint y, size_t first, int32_t m) {
        cost[0] = 0;
        repair[0] = std::numeric_limits<int64_t>::max();
        odd[0] = 0;
        for (size_t i = 0; i < 8; ++i) {
            const Choice clear = choose(y[first + i], m);
            const Choice set = choose(y[first + i], m + 2);
            const size_t bit = size_t{1} << i;
            for (size_t p = 0; p < bit; ++p) {
                cost[p | bit] = cost[p] + set.cost;
                repair[p | bit] = std::min(repair[p], set.repair);
                odd[p | bit] = odd[p] ^ set.odd;
                cost[p] += clear.cost;
                repair[p] = std::min(repair[p], clear.repair);
                odd[p] ^= clear.odd;
            }
        }
    }
};

Coset best_coset(GridPoint y) {
    Coset best;
    int64_t best_d2 = std::numeric_limits<int64_t>::max();
    std::array<Octet, 3> octets;
    for (uint8_t m = 0; m < 2; ++m) {
        for (size_t o = 0; o < octets.size(); ++o) {
            octets[o].fill(y, 8 * o, m);
        }
        for (uint16_t index = 0; index < kGolayWords; ++index) {
            const uint32_t word = kGolay[index];
            const size_t a = word & 0xFF;
            const size_t b = word >> 8 & 0xFF;
            const size_t c = word >> 16;
            const bool wrong = (octets[0].odd[a] ^ octets[1].odd[b] ^ octets[2].odd[c]) != m;
            const int64_t d2 =
                octets[0].cost[a] + octets[1].cost[b] + octets[2].cost[c] +
                (wrong ? std::min({octets[0].repair[a], octets[1].repair[b], octets[2].repair[c]}) : 0);
            if (d2 < best_d2) {  // strictly: the smallest m, then the smallest word, came first
                best_d2 = d2;
                best = {m, index};
            }
        }
    }
    return best;
}

class Exhaustive final : public Decoder {
  public:
    [[nodiscard]] std::string_view name() const override { return "exhaustive"; }

  protected:
    void search(const int32_t* residual, const int32_t* shift, std::span<Nearest> out) const override {
        for (size_t p = 0; p < out.size(); ++p) {
            const GridPoint point(residual + p * kDimension, kDimension);
            nearest_in_coset(point, best_coset(point), out[p]);
            for (size_t i = 0; i < kDimension; ++i) {
                out[p].x[i] += shift[p * kDimension + i];
            }
        }
    }
};

}  // namespace

std::unique_ptr<Decoder> make_exhaustive_decoder() {
    return std::make_unique<Exhaustive>();
}

}  // namespace kaiju::lattice
