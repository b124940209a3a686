// The reference decoder: the squared distance to all 2 x 4096 cosets, coordinate by coordinate. Kept as plain
// as the definition allows, since everything else is judged by it.
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

Coset best_coset(GridPoint y) {
    Coset best;
    int64_t best_d2 = std::numeric_limits<int64_t>::max();
    for (uint8_t m = 0; m < 2; ++m) {
        std::array<std::array<Choice, kDimension>, 2> choices;
        for (size_t i = 0; i < kDimension; ++i) {
            choices[0][i] = choose(y[i], m);
            choices[1][i] = choose(y[i], m + 2);
        }
        for (uint16_t index = 0; index < kGolayWords; ++index) {
            const uint32_t word = kGolay[index];
            int64_t d2 = 0;
            int64_t repair = std::numeric_limits<int64_t>::max();
            uint64_t odd = m;
            for (size_t i = 0; i < kDimension; ++i) {
                const Choice& choice = choices[word >> i & 1][i];
                d2 += choice.cost;
                repair = choice.repair < repair ? choice.repair : repair;
                odd ^= choice.odd;
            }
            d2 += odd != 0 ? repair : 0;
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
    void search(std::span<const int32_t> y, std::span<Nearest> out) const override {
        for (size_t p = 0; p < out.size(); ++p) {
            const GridPoint point = y.subspan(p * kDimension).first<kDimension>();
            nearest_in_coset(point, best_coset(point), out[p]);
        }
    }
};

}  // namespace

std::unique_ptr<Decoder> make_exhaustive_decoder() {
    return std::make_unique<Exhaustive>();
}

}  // namespace kaiju::lattice
