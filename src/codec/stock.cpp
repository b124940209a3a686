#include "codec/stock.h"

#include <fmt/format.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/pieces.h"

namespace kaiju::codec {

using format::StockType;
using format::TensorInfo;

namespace {

using Convert = void (*)(const void* from, float* to, int64_t count);

template <typename T>
void convert_numbers(const void* from, float* to, int64_t count) {
    const auto* at = static_cast<const std::byte*>(from);
    for (int64_t i = 0; i < count; ++i) {
        to[i] = static_cast<float>(load<T>(at + static_cast<size_t>(i) * sizeof(T)));
    }
}

/// ggml has conversions of its block types and half floats; plain numbers are converted here.
Convert conversion(uint32_t type) {
    switch (static_cast<ggml_type>(type)) {
        case GGML_TYPE_F32:
            return convert_numbers<float>;
        case GGML_TYPE_F64:
            return convert_numbers<double>;
        case GGML_TYPE_I8:
            return convert_numbers<int8_t>;
        case GGML_TYPE_I16:
            return convert_numbers<int16_t>;
        case GGML_TYPE_I32:
            return convert_numbers<int32_t>;
        case GGML_TYPE_I64:
            return convert_numbers<int64_t>;
        default:
            return ggml_get_type_traits(static_cast<ggml_type>(type))->to_float;
    }
}

const StockType& known_type(std::string_view name) {
    const StockType* type = format::find_stock_type(name);
    if (type == nullptr) {
        throw Error(
            ErrorCode::bad_input,
            name == "KAIJU4"
                ? std::string("KAIJU4 is no type by itself: KAIJU4_1_75, KAIJU4_2, KAIJU4_2_25 and so on to "
                              "KAIJU4_4 are, by the bits of a weight")
                : fmt::format("type {} is not known to this version", format::printable(name)));
    }
    return *type;
}

class StockDecoder final : public TensorDecoder {
  public:
    StockDecoder(const TensorInfo& info, Bytes payload)
        : payload_(payload), rows_(info.rows()), cols_(info.cols()), convert_(nullptr) {
        const StockType& type = known_type(info.type);
        convert_ = conversion(type.ggml);
        if (convert_ == nullptr) {
            throw Error(ErrorCode::bad_input, fmt::format("type {} cannot be decoded to weights", type.name));
        }
        const uint64_t implied = format::stock_payload_bytes(type, info.shape);
        if (rows_ == 0 || cols_ == 0 || payload.size() != implied) {
            throw Error(ErrorCode::bad_input, fmt::format("a payload of {} bytes, type {} and shape imply {}",
                                                          payload.size(), type.name, implied));
        }
        row_bytes_ = implied / rows_;
    }

    void decode_rows(uint64_t first, uint64_t count, float* out) const override {
        if (!fits(first, count, rows_)) {
            throw Error(ErrorCode::internal, fmt::format("rows {}+{} of {}", first, count, rows_));
        }
        convert_(payload_.data() + first * row_bytes_, out, static_cast<int64_t>(count * cols_));
    }

    void check() const override {
        constexpr uint64_t kWeightsAtATime = uint64_t{1} << 16;
        const uint64_t step = rows_of(kWeightsAtATime, cols_);
        std::vector<float> weights(std::min(step, rows_) * cols_);
        for (uint64_t first = 0; first < rows_; first += step) {
            const uint64_t count = std::min(step, rows_ - first);
            decode_rows(first, count, weights.data());
            const auto end = weights.begin() + static_cast<std::ptrdiff_t>(count * cols_);
            const auto bad = std::find_if(weights.begin(), end, [](float w) { return !std::isfinite(w); });
            if (bad != end) {
                const auto index = static_cast<uint64_t>(bad - weights.begin());
                throw Error(ErrorCode::bad_input, fmt::format("row {}, column {}: the weight is not finite",
                                                              first + index / cols_, index % cols_));
            }
        }
    }

  private:
    Bytes payload_;
    uint64_t rows_;
    uint64_t cols_;
    uint64_t row_bytes_ = 0;
    Convert convert_;
};

/// Largest magnitude that rounds to a finite value of the type.
float largest_magnitude(uint32_t type) {
    constexpr float kF16Overflows = 65520.0F;  // half way between 65504 and the next value, which is infinity
    return type == GGML_TYPE_F16 ? std::nextafter(kF16Overflows, 0.0F) : std::numeric_limits<float>::max();
}

}  // namespace

std::unique_ptr<TensorDecoder> make_stock_decoder(const TensorInfo& info, Bytes payload) {
    return std::make_unique<StockDecoder>(info, payload);
}

StockEncoder::StockEncoder(std::string_view type, bool with_importance) : type_(known_type(type)) {
    const auto id = static_cast<ggml_type>(type_.ggml);
    const ggml_type_traits* traits = ggml_get_type_traits(id);
    const bool needs_importance = ggml_quantize_requires_imatrix(id);
    const bool can_make = id == GGML_TYPE_F32 || (traits->to_float != nullptr &&
                                                  (traits->from_float_ref != nullptr || needs_importance));
    if (!can_make) {
        throw Error(ErrorCode::bad_input, fmt::format("tensors of type {} cannot be made", type_.name));
    }
    if (needs_importance && !with_importance) {
        throw Error(ErrorCode::bad_input, fmt::format("type {} needs an importance matrix", type_.name));
    }
    ggml_quantize_init(id);
}

TensorInfo StockEncoder::describe(const TensorInfo& source) const {
    TensorInfo info = source;
    info.type = type_.name;
    info.nbytes = format::stock_payload_bytes(type_, info.shape);
    return info;
}

void StockEncoder::encode_rows(const float* values, uint64_t rows, uint64_t cols, std::byte* out,
                               const float* importance, uint64_t first_row) const {
    // ggml's quantisers abort on what is not finite.
    const float limit = largest_magnitude(type_.ggml);
    const float* const end = values + rows * cols;
    const float* const bad = std::find_if(values, end, [&](float w) { return !(std::fabs(w) <= limit); });
    if (bad != end) {
        const auto index = static_cast<uint64_t>(bad - values);
        throw Error(ErrorCode::bad_input,
                    fmt::format("row {}, column {}: the weight {} does not fit type {}",
                                first_row + index / cols, index % cols, *bad, type_.name));
    }
    ggml_quantize_chunk(static_cast<ggml_type>(type_.ggml), values, out, 0, static_cast<int64_t>(rows),
                        static_cast<int64_t>(cols), importance);
}

}  // namespace kaiju::codec
