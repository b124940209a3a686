// Tensors of stock GGML types: decoded, and made, by ggml itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "codec/tensor_decoder.h"
#include "format/stock_types.h"
#include "format/tensor_info.h"

namespace kaiju::codec {

/// Decoder of a stock type; its check() refuses weights that are not finite, naming row and column. Throws
/// bad_input where no stock type has that name, where ggml has no conversion of it (Q8_1 and Q8_K live only
/// inside matrix products), or where the payload's length is not what type and shape imply.
[[nodiscard]] std::unique_ptr<TensorDecoder> make_stock_decoder(const format::TensorInfo& info,
                                                                Bytes payload);

/// Quantises f32 rows to one stock type.
class StockEncoder {
  public:
    /// `with_importance`: encode_rows will be given the mean squares of the columns. Throws bad_input where
    /// no stock type has that name, where ggml cannot make it, or where it needs importance that is not given
    /// (IQ2_XXS).
    explicit StockEncoder(std::string_view type, bool with_importance = false);

    [[nodiscard]] const std::string& name() const { return type_.name; }
    /// The info of `source` as a tensor of this type. Throws bad_input where its rows do not divide into
    /// blocks.
    [[nodiscard]] format::TensorInfo describe(const format::TensorInfo& source) const;
    /// rows x cols values to rows x cols / block_weights x block_bytes bytes; cols as in describe().
    /// `importance`: cols values or nullptr. Thread-safe. Throws bad_input, naming row (counted from
    /// `first_row`) and column, where a value is not finite or does not fit the type (f16 ends at 65504).
    void encode_rows(const float* values, uint64_t rows, uint64_t cols, std::byte* out,
                     const float* importance = nullptr, uint64_t first_row = 0) const;

  private:
    format::StockType type_;
};

}  // namespace kaiju::codec
