// Typed access to the key-values of a GGUF file: hyper-parameters, tokenizer, chat template.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "format/gguf_scan.h"

namespace kaiju::format {

/// The key-values of a GGUF file, read from its bytes (ModelFile::key_values()). Owns a copy of them.
///
/// find_x gives nothing where the key is not there and throws bad_input where it has another type; get_x
/// throws missing where it is not there. Integers of any width and sign convert where the value fits; so do
/// f32 and f64.
class KeyValues {
  public:
    /// Empty bytes are a file without key-values. Throws bad_input.
    explicit KeyValues(Bytes gguf);
    KeyValues() : KeyValues(Bytes{}) {}
    KeyValues(KeyValues&&) = default;
    KeyValues& operator=(KeyValues&&) = default;
    KeyValues(const KeyValues&) = delete;
    KeyValues& operator=(const KeyValues&) = delete;
    ~KeyValues() = default;

    [[nodiscard]] bool contains(std::string_view key) const { return scan_.find(key) != nullptr; }
    [[nodiscard]] std::span<const GgufKeyValue> all() const { return scan_.key_values; }

    [[nodiscard]] std::optional<std::string> find_string(std::string_view key) const;
    [[nodiscard]] std::optional<int64_t> find_i64(std::string_view key) const;
    [[nodiscard]] std::optional<uint32_t> find_u32(std::string_view key) const;
    [[nodiscard]] std::optional<float> find_f32(std::string_view key) const;
    [[nodiscard]] std::optional<bool> find_bool(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<std::string>> find_strings(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<int64_t>> find_i64s(std::string_view key) const;
    /// An array of booleans, or of integers (0 is false).
    [[nodiscard]] std::optional<std::vector<bool>> find_bools(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<float>> find_f32s(std::string_view key) const;

    [[nodiscard]] std::string get_string(std::string_view key) const;
    [[nodiscard]] uint32_t get_u32(std::string_view key) const;
    [[nodiscard]] float get_f32(std::string_view key) const;

    /// Elements of an array of any type without reading them (a vocabulary's size); nothing where it is no
    /// array.
    [[nodiscard]] std::optional<uint64_t> array_size(std::string_view key) const;

    /// general.architecture ("llama", "qwen2", ...). Throws missing, bad_input where it is no plain name.
    [[nodiscard]] std::string architecture() const;
    /// "<architecture>.<suffix>", the form of a model's hyper-parameters.
    [[nodiscard]] std::string arch_key(std::string_view suffix) const;

  private:
    [[nodiscard]] const GgufKeyValue* scalar(std::string_view key) const;
    [[nodiscard]] const GgufKeyValue* array(std::string_view key) const;

    std::vector<std::byte> bytes_;
    GgufScan scan_;
};

}  // namespace kaiju::format
