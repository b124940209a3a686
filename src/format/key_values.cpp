#include "format/key_values.h"

#include <fmt/format.h>

#include <limits>

#include "format/stock_types.h"

namespace kaiju::format {

namespace {

[[noreturn]] void wrong_type(const GgufKeyValue& kv, std::string_view wanted) {
    throw Error(
        ErrorCode::bad_input,
        fmt::format(
            "key '{}': {} is wanted, the file has {}{}", kv.key, wanted, gguf_type_name(kv.type),
            kv.type == GgufType::array ? fmt::format(" of {}", gguf_type_name(kv.element)) : std::string()));
}

[[noreturn]] void absent(std::string_view key) {
    throw Error(ErrorCode::missing, fmt::format("key '{}' is not in the model's key-values", key));
}

int64_t integer(const GgufKeyValue& kv, const std::byte* at) {
    switch (kv.element) {
        case GgufType::u8:
            return load<uint8_t>(at);
        case GgufType::i8:
            return load<int8_t>(at);
        case GgufType::u16:
            return load<uint16_t>(at);
        case GgufType::i16:
            return load<int16_t>(at);
        case GgufType::u32:
            return load<uint32_t>(at);
        case GgufType::i32:
            return load<int32_t>(at);
        case GgufType::i64:
            return load<int64_t>(at);
        case GgufType::u64: {
            const auto value = load<uint64_t>(at);
            if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
                throw Error(ErrorCode::bad_input,
                            fmt::format("key '{}': {} overflows 63 bits", kv.key, value));
            }
            return static_cast<int64_t>(value);
        }
        case GgufType::f32:
        case GgufType::boolean:
        case GgufType::string:
        case GgufType::array:
        case GgufType::f64:
            break;
    }
    wrong_type(kv, "an integer");
}

float real(const GgufKeyValue& kv, const std::byte* at) {
    if (kv.element == GgufType::f32) {
        return load<float>(at);
    }
    if (kv.element == GgufType::f64) {
        return static_cast<float>(load<double>(at));
    }
    wrong_type(kv, "a real number");
}

}  // namespace

KeyValues::KeyValues(Bytes gguf) : bytes_(gguf.begin(), gguf.end()) {
    if (!bytes_.empty()) {
        scan_ = scan_gguf(bytes_);
    }
}

const GgufKeyValue* KeyValues::scalar(std::string_view key) const {
    const GgufKeyValue* kv = scan_.find(key);
    if (kv != nullptr && kv->type == GgufType::array) {
        wrong_type(*kv, "a single value");
    }
    return kv;
}

const GgufKeyValue* KeyValues::array(std::string_view key) const {
    const GgufKeyValue* kv = scan_.find(key);
    if (kv != nullptr && kv->type != GgufType::array) {
        wrong_type(*kv, "an array");
    }
    return kv;
}

std::optional<std::string> KeyValues::find_string(std::string_view key) const {
    const GgufKeyValue* kv = scalar(key);
    if (kv == nullptr) {
        return std::nullopt;
    }
    if (kv->type != GgufType::string) {
        wrong_type(*kv, "a string");
    }
    return std::string(as_text(kv->value));
}

std::optional<int64_t> KeyValues::find_i64(std::string_view key) const {
    const GgufKeyValue* kv = scalar(key);
    return kv == nullptr ? std::nullopt : std::optional(integer(*kv, kv->value.data()));
}

std::optional<uint32_t> KeyValues::find_u32(std::string_view key) const {
    const std::optional<int64_t> value = find_i64(key);
    if (value && (*value < 0 || *value > std::numeric_limits<uint32_t>::max())) {
        throw Error(ErrorCode::bad_input, fmt::format("key '{}': {} is outside 0..{}", key, *value,
                                                      std::numeric_limits<uint32_t>::max()));
    }
    return value ? std::optional(static_cast<uint32_t>(*value)) : std::nullopt;
}

std::optional<float> KeyValues::find_f32(std::string_view key) const {
    const GgufKeyValue* kv = scalar(key);
    return kv == nullptr ? std::nullopt : std::optional(real(*kv, kv->value.data()));
}

std::optional<bool> KeyValues::find_bool(std::string_view key) const {
    const GgufKeyValue* kv = scalar(key);
    if (kv == nullptr) {
        return std::nullopt;
    }
    if (kv->type != GgufType::boolean) {
        wrong_type(*kv, "a truth value");
    }
    return load<uint8_t>(kv->value.data()) != 0;
}

std::optional<std::vector<std::string>> KeyValues::find_strings(std::string_view key) const {
    const GgufKeyValue* kv = array(key);
    if (kv == nullptr) {
        return std::nullopt;
    }
    if (kv->element != GgufType::string) {
        wrong_type(*kv, "an array of strings");
    }
    ByteReader reader(kv->value);
    std::vector<std::string> strings;
    strings.reserve(kv->count);
    for (uint64_t i = 0; i < kv->count; ++i) {
        strings.push_back(reader.text(reader.read<uint64_t>(key), key));
    }
    return strings;
}

std::optional<std::vector<int64_t>> KeyValues::find_i64s(std::string_view key) const {
    const GgufKeyValue* kv = array(key);
    if (kv == nullptr) {
        return std::nullopt;
    }
    std::vector<int64_t> values(kv->count);
    const uint64_t width = gguf_value_bytes(kv->element);
    for (uint64_t i = 0; i < kv->count; ++i) {
        values[i] = integer(*kv, kv->value.data() + i * width);
    }
    return values;
}

std::optional<std::vector<bool>> KeyValues::find_bools(std::string_view key) const {
    const GgufKeyValue* kv = array(key);
    if (kv == nullptr) {
        return std::nullopt;
    }
    std::vector<bool> values(kv->count);
    const uint64_t width = gguf_value_bytes(kv->element);
    for (uint64_t i = 0; i < kv->count; ++i) {
        const std::byte* at = kv->value.data() + i * width;
        values[i] = kv->element == GgufType::boolean ? *at != std::byte{0} : integer(*kv, at) != 0;
    }
    return values;
}

std::optional<std::vector<float>> KeyValues::find_f32s(std::string_view key) const {
    const GgufKeyValue* kv = array(key);
    if (kv == nullptr) {
        return std::nullopt;
    }
    std::vector<float> values(kv->count);
    const uint64_t width = gguf_value_bytes(kv->element);
    for (uint64_t i = 0; i < kv->count; ++i) {
        values[i] = real(*kv, kv->value.data() + i * width);
    }
    return values;
}

std::string KeyValues::get_string(std::string_view key) const {
    std::optional<std::string> value = find_string(key);
    if (!value) {
        absent(key);
    }
    return *std::move(value);
}

uint32_t KeyValues::get_u32(std::string_view key) const {
    const std::optional<uint32_t> value = find_u32(key);
    if (!value) {
        absent(key);
    }
    return *value;
}

float KeyValues::get_f32(std::string_view key) const {
    const std::optional<float> value = find_f32(key);
    if (!value) {
        absent(key);
    }
    return *value;
}

std::optional<uint64_t> KeyValues::array_size(std::string_view key) const {
    const GgufKeyValue* kv = scan_.find(key);
    return kv == nullptr || kv->type != GgufType::array ? std::nullopt : std::optional(kv->count);
}

std::string KeyValues::architecture() const {
    constexpr std::string_view kKey = "general.architecture";
    constexpr size_t kLongest = 64;
    std::string name = get_string(kKey);
    if (!is_plain_name(name, kLongest)) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: \"{}\" is no name", kKey, printable(name)));
    }
    return name;
}

std::string KeyValues::arch_key(std::string_view suffix) const {
    return fmt::format("{}.{}", architecture(), suffix);
}

}  // namespace kaiju::format
