// KAIJU4: the wire format of one tensor (docs/kaiju4.md). Section numbers below are those of that page.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "codec/rotation.h"
#include "codec/tensor_decoder.h"
#include "lattice/shell_book.h"

namespace kaiju::codec::kaiju4 {

inline constexpr size_t kHeaderBytes = 64;
inline constexpr size_t kBlock = 24;        ///< weights in a block
inline constexpr size_t kHeadBytes = 3;     ///< of a block
inline constexpr double kLeastBits = 1.75;  ///< a weight, row scales apart
inline constexpr double kMostBits = 4;
inline constexpr size_t kMultipliers = 4;  ///< step multipliers of a tensor

using Multipliers = std::array<float, kMultipliers>;

/// The type string of the wire with indices of g bits, "KAIJU4_2_5" for 6 (section 1).
[[nodiscard]] std::string type_name(int index_bits);
/// g of a type string; nothing for any other type.
[[nodiscard]] std::optional<int> index_bits_of(std::string_view type);

/// A block (section 4): a code word and which multiplier.
struct Block {
    lattice::ShellCode code;
    uint8_t q = 0;  ///< 0..3

    friend bool operator==(const Block&, const Block&) = default;
};

/// Sizes of a payload (section 5). All sums are checked before anything is allocated.
struct Layout {
    uint32_t rows = 0;
    uint32_t cols = 0;
    int index_bits = 8;

    /// Throws bad_input unless both dimensions are in 1 .. 2^32 - 1, usage unless g is 3..12.
    [[nodiscard]] static Layout for_matrix(uint64_t rows, uint64_t cols, int index_bits);

    [[nodiscard]] uint64_t n_blocks() const { return (uint64_t{cols} + kBlock - 1) / kBlock; }
    [[nodiscard]] uint64_t index_bytes() const {
        return (lattice::kGroups * static_cast<uint64_t>(index_bits) * n_blocks() + 7) / 8;
    }
    [[nodiscard]] uint64_t row_bytes() const { return 2 + kHeadBytes * n_blocks() + index_bytes(); }
    /// Throws bad_input where 64 bits overflow.
    [[nodiscard]] uint64_t payload_bytes() const;
};

/// The head of a payload: its first kHeaderBytes bytes.
[[nodiscard]] std::vector<std::byte> make_head(const Layout& layout, uint64_t seed,
                                               const Multipliers& multipliers);

/// The nearest bfloat16 (ties to even) of a scale, and back.
[[nodiscard]] uint16_t to_bf16(float value);
[[nodiscard]] float from_bf16(uint16_t bits);

/// Writes block b of a row record that was all zeros, and reads it.
void put_block(uint8_t* record, const Layout& layout, uint64_t b, const Block& block);
[[nodiscard]] Block get_block(const uint8_t* record, const Layout& layout, uint64_t b);

/// A parsed payload. Construction validates the header; decoding a row validates its scale.
class TensorView final : public TensorDecoder {
  public:
    /// Throws bad_input with the field that is wrong. The bytes must outlive the view.
    explicit TensorView(Bytes payload);

    void decode_rows(uint64_t first, uint64_t count, float* out) const override;
    void check() const override;

    [[nodiscard]] const Layout& layout() const { return layout_; }
    [[nodiscard]] uint64_t seed() const { return seed_; }
    [[nodiscard]] const Multipliers& multipliers() const { return multipliers_; }
    [[nodiscard]] const lattice::ShellBook& book() const { return *book_; }
    /// The record of a row: bf16 row_scale, heads, indices.
    [[nodiscard]] const uint8_t* row(uint64_t index) const { return rows_ + index * layout_.row_bytes(); }
    /// row_scale. Throws bad_input naming the row where it is not one (section 5).
    [[nodiscard]] float row_scale(uint64_t index) const;

  private:
    Layout layout_;
    uint64_t seed_ = 0;
    Multipliers multipliers_{};
    const lattice::ShellBook* book_ = nullptr;
    const uint8_t* rows_ = nullptr;
};

}  // namespace kaiju::codec::kaiju4
