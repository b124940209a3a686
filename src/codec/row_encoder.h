// What encodes rows of a matrix, and what the encoders of KAIJU1 share.
#pragma once

#include <span>
#include <vector>

#include "codec/kaiju1.h"
#include "codec/telemetry.h"
#include "lattice/codebook_search.h"

namespace kaiju::codec {

/// Importances as encoders want them: one per column, finite, none negative, not all zero. Throws bad_input.
void check_importance(std::span<const float> importance, uint64_t cols);

/// Encodes one matrix, rows in any order.
class RowEncoder {
  public:
    virtual ~RowEncoder() = default;
    RowEncoder(const RowEncoder&) = delete;
    RowEncoder& operator=(const RowEncoder&) = delete;

    [[nodiscard]] virtual uint32_t rows() const = 0;
    [[nodiscard]] virtual uint32_t cols() const = 0;
    [[nodiscard]] virtual uint64_t row_bytes() const = 0;

    /// The payload's bytes before its first row.
    [[nodiscard]] virtual std::vector<std::byte> head() const = 0;

    /// Encodes `count` rows (row-major f32, cols each, all finite) into `count` records of row_bytes() bytes.
    /// Thread-safe. A row's record does not depend on the rows beside it. stats: `count` entries, one per
    /// row.
    virtual void encode_rows(const float* weights, size_t count, std::byte* records,
                             EncodeStats* stats) const = 0;

    /// Rows to encode in one go, for speed.
    [[nodiscard]] virtual size_t rows_per_piece() const = 0;

  protected:
    RowEncoder() = default;
};

/// Rows of KAIJU1: side-band and bulk.
class Kaiju1RowEncoder : public RowEncoder {
  public:
    [[nodiscard]] uint32_t rows() const override { return layout_.rows; }
    [[nodiscard]] uint32_t cols() const override { return layout_.cols; }
    [[nodiscard]] uint64_t row_bytes() const override { return layout_.row_bytes(); }

    [[nodiscard]] const kaiju1::Layout& layout() const { return layout_; }
    /// Side-band columns, then bulk.
    [[nodiscard]] const std::vector<uint32_t>& columns() const { return columns_; }

  protected:
    /// importance: mean square of each input column. Throws as check_importance does.
    Kaiju1RowEncoder(const kaiju1::Layout& layout, std::span<const float> importance);

    /// Largest magnitude of the side-band over 127: its scale, which is written to the record with its
    /// integers.
    void encode_side_band(const float* row, uint8_t* record) const;

    /// Adds what a record's decoded values cost against the row: excess and energy of the diagonal.
    void add_diagonal(const float* row, const uint8_t* record, const kaiju1::Multipliers& multipliers,
                      EncodeStats& stats) const;

    [[nodiscard]] std::span<const float> importance() const { return importance_; }
    /// The n_hi columns of largest score, ties to the lower index, ascending; then the others, ascending.
    void order_columns(std::span<const double> score);
    /// The bulk in another order (perm_kind 1): by descending score, ties to the lower index.
    void order_bulk(std::span<const float> score);

  private:
    kaiju1::Layout layout_;
    std::vector<float> importance_;
    std::vector<uint32_t> columns_;
};

/// Whether the nearest z of coordinate y (in steps), in its coset, lies outside -1..1.
[[nodiscard]] bool is_clamped(const lattice::CodebookWord& word, size_t i, float y);

/// By multiplier but the last: the square of the ratio at which the next one is nearer, their product.
[[nodiscard]] std::array<double, kaiju1::kMultipliers - 1> step_thresholds(
    const kaiju1::Multipliers& multipliers);

/// 2^(i / per_octave + first), rounded to f32 the same on every machine; per_octave divides 24.
[[nodiscard]] kaiju1::Multipliers powers_of_two(size_t per_octave, int first);

}  // namespace kaiju::codec
