// The legacy encoder of KAIJU1: one search a block.
#pragma once

#include <span>
#include <vector>

#include "codec/kaiju1.h"
#include "codec/telemetry.h"
#include "lattice/codebook_search.h"

namespace kaiju::codec {

/// The numbers that shape v1. The defaults are what the format's bytes are pinned with; others are for
/// measuring.
struct V1Constants {
    double rms_per_step;              ///< a block's RMS over the step that it suggests
    double row_rms_per_scale;         ///< a row's bulk RMS over row_scale
    kaiju1::Multipliers multipliers;  ///< written into the header
};

[[nodiscard]] const V1Constants& v1_constants();

/// Encodes one matrix, rows in any order. Its bytes are pinned for ever: equal inputs give equal bytes on
/// every machine, instruction set, thread count and search, so decisions use IEEE basic operations in a fixed
/// order.
///
/// Side-band: the n_hi columns of largest importance (ties to the lower index), 8-bit integers at a scale of
/// their own per row. Bulk: per block the multiplier whose step is nearest (in ratio) to what the block's RMS
/// suggests, and one search at that step: the nearest point of Λ24 that the wire can store (trits in -1..1,
/// either flip). Searching all of Λ24 and clamping the trits afterwards would be simpler and is much worse:
/// at its best step it leaves 0.123 of the energy where this leaves 0.079 (docs/encoder-v1.md, with the
/// measurements behind the constants).
class EncoderV1 {
  public:
    /// importance: mean square of each input column, one per column, finite and >= 0. The search must keep
    /// the lattice's parity and outlive this.
    EncoderV1(const kaiju1::Layout& layout, std::span<const float> importance,
              const lattice::CodebookSearch& search, const V1Constants& constants = v1_constants());

    /// Header and column list: the first layout.rows_offset() bytes of the payload.
    [[nodiscard]] std::vector<std::byte> head() const;

    /// Encodes `count` rows (row-major f32, cols each, all finite) into `count` records of layout.row_bytes()
    /// bytes. Thread-safe. stats: `count` entries, one per row.
    void encode_rows(const float* weights, size_t count, std::byte* records, EncodeStats* stats) const;

    [[nodiscard]] const kaiju1::Layout& layout() const { return layout_; }

  private:
    void encode_side_band(const float* row, uint8_t* record, EncodeStats& stats) const;
    void choose_steps(const float* row, uint8_t* record, float* y, EncodeStats& stats) const;
    void encode_blocks(const float* row, const float* y, const lattice::CodebookWord* nearest,
                       uint8_t* record, EncodeStats& stats) const;

    kaiju1::Layout layout_;
    std::vector<float> importance_;
    std::vector<uint32_t> columns_;  ///< side-band, then bulk
    const lattice::CodebookSearch& search_;
    V1Constants constants_;
    std::array<double, kaiju1::kMultipliers - 1>
        thresholds_;  ///< squared ratio at which the next multiplier is nearer
};

}  // namespace kaiju::codec
