// The legacy encoder of KAIJU1: one search a block.
#pragma once

#include <span>
#include <vector>

#include "codec/row_encoder.h"

namespace kaiju::codec {

/// The numbers that shape v1. The defaults are what the format's bytes are pinned with; others are for
/// measuring.
struct V1Constants {
    double rms_per_step;              ///< a block's RMS over the step that it suggests
    double row_rms_per_scale;         ///< a row's bulk RMS over row_scale
    kaiju1::Multipliers multipliers;  ///< written into the header
};

[[nodiscard]] const V1Constants& v1_constants();

/// One nearest-point search a block. Its bytes are pinned for ever: equal inputs give equal bytes on
/// every machine, instruction set, thread count and search, so decisions use IEEE basic operations in a fixed
/// order.
///
/// Side-band: the n_hi columns of largest importance (ties to the lower index), 8-bit integers at a scale of
/// their own per row. Bulk: per block the multiplier whose step is nearest (in ratio) to what the block's RMS
/// suggests, and one search at that step: the nearest point of Λ24 that the wire can store (trits in -1..1,
/// either flip). Searching all of Λ24 and clamping the trits afterwards would be simpler and is much worse:
/// at its best step it leaves 0.123 of the energy where this leaves 0.079 (docs/encoder-v1.md, with the
/// measurements behind the constants).
class EncoderV1 final : public Kaiju1RowEncoder {
  public:
    /// importance: mean square of each input column, one per column, finite and >= 0. The search must keep
    /// the lattice's parity and outlive this.
    EncoderV1(const kaiju1::Layout& layout, std::span<const float> importance,
              const lattice::CodebookSearch& search, const V1Constants& constants = v1_constants());

    [[nodiscard]] std::vector<std::byte> head() const override;
    void encode_rows(const float* weights, size_t count, std::byte* records,
                     EncodeStats* stats) const override;
    [[nodiscard]] size_t rows_per_piece() const override;
    /// Memory in flight per thread while a matrix of this layout is encoded.
    [[nodiscard]] static uint64_t bytes_per_thread(const kaiju1::Layout& layout);

  private:
    void choose_steps(const float* row, uint8_t* record, float* y, EncodeStats& stats) const;
    void encode_blocks(const float* y, const lattice::CodebookWord* nearest, uint8_t* record,
                       EncodeStats& stats) const;

    const lattice::CodebookSearch& search_;
    V1Constants constants_;
    std::array<double, kaiju1::kMultipliers - 1>
        thresholds_;  ///< squared ratio at which the next multiplier is nearer
};

}  // namespace kaiju::codec
