#include "codec/telemetry.h"

namespace kaiju::codec {

EncodeStats& EncodeStats::operator+=(const EncodeStats& other) {
    diagonal_excess += other.diagonal_excess;
    diagonal_energy += other.diagonal_energy;
    full_excess += other.full_excess;
    full_energy += other.full_energy;
    blocks += other.blocks;
    clamped_blocks += other.clamped_blocks;
    clamped_trits += other.clamped_trits;
    for (size_t i = 0; i < multipliers.size(); ++i) {
        multipliers[i] += other.multipliers[i];
    }
    return *this;
}

}  // namespace kaiju::codec
