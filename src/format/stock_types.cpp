#include "format/stock_types.h"

#include <fmt/format.h>
#include <ggml.h>

#include <algorithm>
#include <vector>

#include "base/bytes.h"

namespace kaiju::format {

namespace {

/// The table comes from ggml itself, so that sizes are not kept by hand; removed types have no blocks there.
std::vector<StockType> list_types() {
    std::vector<StockType> types;
    for (int id = 0; id < GGML_TYPE_COUNT; ++id) {
        const ggml_type_traits* traits = ggml_get_type_traits(static_cast<ggml_type>(id));
        if (traits->type_name == nullptr || traits->blck_size <= 0 || traits->type_size == 0) {
            continue;
        }
        StockType type;
        type.name = traits->type_name;
        std::transform(type.name.begin(), type.name.end(), type.name.begin(),
                       [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
        type.ggml = static_cast<uint32_t>(id);
        type.block_weights = static_cast<uint64_t>(traits->blck_size);
        type.block_bytes = traits->type_size;
        types.push_back(std::move(type));
    }
    return types;
}

const std::vector<StockType>& types() {
    static const std::vector<StockType> list = list_types();
    return list;
}

}  // namespace

const StockType* find_stock_type(std::string_view name) {
    const auto at = std::find_if(types().begin(), types().end(),
                                 [&](const StockType& type) { return type.name == name; });
    return at == types().end() ? nullptr : &*at;
}

const StockType* find_stock_type(uint32_t ggml) {
    const auto at = std::find_if(types().begin(), types().end(),
                                 [&](const StockType& type) { return type.ggml == ggml; });
    return at == types().end() ? nullptr : &*at;
}

uint64_t stock_payload_bytes(const StockType& type, std::span<const uint64_t> shape) {
    const uint64_t cols = shape.empty() ? 0 : shape.back();
    if (cols % type.block_weights != 0) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("rows of {} weights do not divide into the blocks of {} that type "
                                "{} has",
                                cols, type.block_weights, type.name));
    }
    uint64_t bytes = checked_mul(cols / type.block_weights, type.block_bytes, "the size of a row");
    for (size_t i = 0; i + 1 < shape.size(); ++i) {
        bytes = checked_mul(bytes, shape[i], "the size of the tensor");
    }
    return bytes;
}

bool is_plain_name(std::string_view name, size_t limit) {
    return !name.empty() && name.size() <= limit &&
           std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool is_utf8(std::string_view text) {
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
    for (size_t i = 0; i < text.size();) {
        const uint8_t lead = byte(i);
        const size_t length = lead < 0x80                    ? 1
                              : lead >= 0xC2 && lead <= 0xDF ? 2
                              : lead >= 0xE0 && lead <= 0xEF ? 3
                              : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                             : 0;
        if (length == 0 || length > text.size() - i) {
            return false;
        }
        for (size_t k = 1; k < length; ++k) {
            if (byte(i + k) < 0x80 || byte(i + k) > 0xBF) {
                return false;
            }
        }
        const bool overlong = (lead == 0xE0 && byte(i + 1) < 0xA0) || (lead == 0xF0 && byte(i + 1) < 0x90);
        const bool outside = (lead == 0xED && byte(i + 1) > 0x9F) || (lead == 0xF4 && byte(i + 1) > 0x8F);
        if (overlong || outside) {
            return false;
        }
        i += length;
    }
    return true;
}

std::string printable(std::string_view text) {
    constexpr size_t kShown = 80;
    std::string shown(text.substr(0, kShown));
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return text.size() > kShown ? shown + "..." : shown;
}

}  // namespace kaiju::format
