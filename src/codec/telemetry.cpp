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
    legacy_full_excess += other.legacy_full_excess;
    legacy_full_energy += other.legacy_full_energy;
    sample_full_excess += other.sample_full_excess;
    legacy_blocks += other.legacy_blocks;
    legacy_clamped_blocks += other.legacy_clamped_blocks;
    return *this;
}

double EncodeStats::excess_ratio() const {
    return legacy_full_excess > 0 ? sample_full_excess / legacy_full_excess : 0;
}

double EncodeStats::clamp_ratio() const {
    if (blocks == 0 || legacy_clamped_blocks == 0) {
        return 0;
    }
    return static_cast<double>(clamped_blocks) / static_cast<double>(blocks) *
           (static_cast<double>(legacy_blocks) / static_cast<double>(legacy_clamped_blocks));
}

}  // namespace kaiju::codec
