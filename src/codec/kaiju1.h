// KAIJU1: the wire format of one tensor (docs/kaiju1.md). Section numbers below are those of that page.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "codec/tensor_decoder.h"

namespace kaiju::codec::kaiju1 {

inline constexpr size_t kHeaderBytes = 128;
inline constexpr size_t kBlock = 24;        ///< weights in a block
inline constexpr size_t kCodeBytes = 7;     ///< bytes of a block's code
inline constexpr size_t kMultipliers = 16;  ///< step multipliers of a tensor, 4 bits a block choose one

using Multipliers = std::array<float, kMultipliers>;
using Code = std::array<uint8_t, kCodeBytes>;

/// The fields of a block (section 4): C_i = s (m + 2 c_i + 4 z_i), s = -1 if flip else +1.
struct Block {
    uint16_t word = 0;  ///< index of the Golay code word, 0..4095
    uint8_t m = 0;      ///< half: 0 or 1
    bool flip = false;
    bool watermark = false;          ///< ignored by decoders; set by the v3 encoder
    std::array<int8_t, kBlock> z{};  ///< -1, 0 or 1
};

[[nodiscard]] Code pack(const Block& block);
/// Inverse of pack. Throws bad_input on a trit byte that no encoder writes.
[[nodiscard]] Block unpack(const uint8_t* code);
/// The 24 integers C_i, |C_i| <= 7. Memory-safe on any bytes: invalid trits decode as some value in range.
void decode_block(const uint8_t* code, int8_t* out);
/// False iff a trit byte lies above 242 (above 80 in the last).
[[nodiscard]] bool valid_trits(const uint8_t* code);

/// Sizes of a payload (section 5). All sums are checked before anything is allocated.
struct Layout {
    uint32_t rows = 0;
    uint32_t cols = 0;
    uint32_t n_hi = 0;      ///< side-band columns
    uint32_t n_blocks = 0;  ///< n_hi + 24 n_blocks = cols
    uint8_t perm_kind = 0;  ///< 0: side-band columns listed, bulk ascending; 1: all columns listed

    /// The layout that an encoder gives a matrix: n_hi = hi_frac * cols, rounded up until 24 divides the
    /// rest. Throws usage unless 0 <= hi_frac <= 1, bad_input unless both dimensions are in 1 .. 2^32 - 1.
    [[nodiscard]] static Layout for_matrix(uint64_t rows, uint64_t cols, double hi_frac);

    [[nodiscard]] uint64_t index_bytes() const { return cols <= 65536 ? 2 : 4; }
    [[nodiscard]] uint64_t listed_columns() const { return perm_kind == 0 ? n_hi : cols; }
    [[nodiscard]] uint64_t rows_offset() const { return kHeaderBytes + listed_columns() * index_bytes(); }
    [[nodiscard]] uint64_t nibble_bytes() const { return (uint64_t{n_blocks} + 1) / 2; }
    [[nodiscard]] uint64_t row_bytes() const {
        return 8 + uint64_t{n_hi} + nibble_bytes() + kCodeBytes * n_blocks;
    }
    /// Throws bad_input where 64 bits overflow.
    [[nodiscard]] uint64_t payload_bytes() const;
};

/// Where the fields of one row record start (section 5), over constant or mutable bytes.
template <typename Byte>
struct RowFields {
    Byte* scales;   ///< f32 row_scale, f32 hi_scale
    Byte* hi;       ///< i8 hi[n_hi]
    Byte* nibbles;  ///< u8 q[ceil(n_blocks / 2)]
    Byte* codes;    ///< u8 code[7 n_blocks]

    RowFields(Byte* record, const Layout& layout)
        : scales(record), hi(record + 8), nibbles(hi + layout.n_hi), codes(nibbles + layout.nibble_bytes()) {}
};

/// A parsed payload. Construction validates the header, the multipliers and the column lists; decoding a row
/// validates the row, so that damaged weights are never used silently. `check` decodes all rows and keeps
/// none.
class TensorView final : public TensorDecoder {
  public:
    /// Throws bad_input with the field that is wrong. The bytes must outlive the view.
    explicit TensorView(Bytes payload);

    void decode_rows(uint64_t first, uint64_t count, float* out) const override;
    void check() const override;

    [[nodiscard]] const Layout& layout() const { return layout_; }
    [[nodiscard]] const Multipliers& multipliers() const { return multipliers_; }
    /// All columns, side-band first, then bulk: coded position -> column.
    [[nodiscard]] const std::vector<uint32_t>& columns() const { return columns_; }
    [[nodiscard]] RowFields<const uint8_t> row(uint64_t index) const;

  private:
    void read_columns(ByteReader& reader);
    void decode_row(uint64_t index, float* out) const;

    Layout layout_;
    Multipliers multipliers_{};
    std::vector<uint32_t> columns_;
    const uint8_t* rows_ = nullptr;
};

/// The fixed part of a payload: header and column list. `columns`: all of them, side-band first (ascending),
/// then bulk (ascending for perm_kind 0).
[[nodiscard]] std::vector<std::byte> make_head(const Layout& layout, const Multipliers& multipliers,
                                               std::span<const uint32_t> columns);

}  // namespace kaiju::codec::kaiju1
