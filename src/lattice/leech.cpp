#include "lattice/leech.h"

#include <cstdlib>

#include "lattice/golay.h"

namespace kaiju::lattice {

std::optional<Coset> coset_of(std::span<const int32_t, kDimension> x) {
    const auto m = static_cast<uint32_t>(x[0]) & 1;
    uint32_t word = 0;
    uint32_t parity = m;
    for (size_t i = 0; i < kDimension; ++i) {
        // Two's complement wraps modulo 2^32, which keeps the three low bits that decide.
        const uint32_t rest = static_cast<uint32_t>(x[i]) - m;
        if ((rest & 1) != 0) {
            return std::nullopt;
        }
        word |= (rest >> 1 & 1) << i;
        parity ^= rest >> 2 & 1;
    }
    if (parity != 0 || !is_golay_word(word)) {
        return std::nullopt;
    }
    return Coset{static_cast<uint8_t>(m), static_cast<uint16_t>(golay_index(word))};
}

bool is_lattice_point(std::span<const int32_t, kDimension> x) {
    return coset_of(x).has_value();
}

void nearest_in_coset(GridPoint y, Coset coset, Nearest& out) {
    const uint32_t word = kGolay[coset.word];
    uint32_t parity = coset.m;
    int64_t d2 = 0;
    size_t weakest = 0;
    int32_t weakest_r = 0;
    int32_t largest = -1;
    for (size_t i = 0; i < kDimension; ++i) {
        const int32_t offset = coset.m + 2 * static_cast<int32_t>(word >> i & 1);
        const int32_t v = y[i] - offset * kGridUnit;
        // Nearest q, the smaller of two equally near: ceil(v/4 - 1/2) in units, as one floor.
        const int32_t q = (v + 2 * kGridUnit - 1) >> 18;
        const int32_t r = v - q * 4 * kGridUnit;
        const int32_t size = std::abs(r);
        if (size > largest) {
            largest = size;
            weakest = i;
            weakest_r = r;
        }
        parity ^= static_cast<uint32_t>(q) & 1;
        d2 += int64_t{r} * r;
        out.x[i] = offset + 4 * q;
    }
    if (parity != 0) {
        // The cheapest repair moves the coordinate that lies farthest from its value to the other side. On a
        // value exactly (r = 0) both sides are equally far: the smaller q.
        out.x[weakest] += weakest_r > 0 ? 4 : -4;
        d2 += 8 * int64_t{kGridUnit} * (2 * kGridUnit - largest);
    }
    out.word = coset.word;
    out.m = coset.m;
    out.d2 = static_cast<double>(d2) * 0x1p-32;  // d2 < 2^42: exact
}

}  // namespace kaiju::lattice
