// The legacy encoder of KAIJU1: one nearest-point search a block.
#pragma once

#include <span>
#include <vector>

#include "codec/kaiju1.h"
#include "codec/telemetry.h"
#include "lattice/decoder.h"

namespace kaiju::codec {

/// The numbers that shape v1. The defaults are what the format's bytes are pinned with; others are for measuring.
struct V1Constants {
    double rms_per_step;               ///< a block's RMS over the step that it suggests
    double row_rms_per_scale;          ///< a row's bulk RMS over row_scale
    kaiju1::Multipliers multipliers;   ///< written into the header
};

[[nodiscard]] const V1Constants& v1_constants();

/// Encodes one matrix, rows in any order. Its bytes are pinned for ever: equal inputs give equal bytes on every
/// machine, instruction set, thread count and decoder, so decisions use IEEE basic operations in a fixed order.
///
/// Side-band: the n_hi columns of largest importance (ties to the lower index), 8-bit integers at a scale of their own
/// per row. Bulk: per block the multiplier whose step is nearest (in ratio) to what the block's RMS suggests, the
/// nearest point of Λ24 at that step, trits clamped, the flip that clamps less (then less error, then none).
/// Source: docs/kaiju1.md 6; the constants were chosen by measurement (docs/encoder-v1.md).
class EncoderV1 {
  public:
    /// importance: mean square of each input column, one per column, finite and >= 0. The decoder must outlive this.
    EncoderV1(const kaiju1::Layout& layout, std::span<const float> importance, const lattice::Decoder& decoder,
              const V1Constants& constants = v1_constants());

    /// Header and column list: the first layout.rows_offset() bytes of the payload.
    [[nodiscard]] std::vector<std::byte> head() const;

    /// Encodes `count` rows (row-major f32, cols each, all finite) into `count` records of layout.row_bytes() bytes.
    /// Thread-safe. stats: `count` entries, one per row.
    void encode_rows(const float* weights, size_t count, std::byte* records, EncodeStats* stats) const;

    [[nodiscard]] const kaiju1::Layout& layout() const { return layout_; }

  private:
    void encode_side_band(const float* row, uint8_t* record, EncodeStats& stats) const;
    void choose_steps(const float* row, uint8_t* record, float* y, EncodeStats& stats) const;
    void encode_blocks(const float* row, const float* y, const lattice::Nearest* nearest, uint8_t* record,
                       EncodeStats& stats) const;

    kaiju1::Layout layout_;
    std::vector<float> importance_;
    std::vector<uint32_t> columns_;  ///< side-band, then bulk
    const lattice::Decoder& decoder_;
    V1Constants constants_;
    std::array<double, kaiju1::kMultipliers - 1> thresholds_;  ///< squared ratio at which the next multiplier is nearer
};

}  // namespace kaiju::codec
