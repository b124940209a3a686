#include "format/gguf_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "format/stock_types.h"

namespace kaiju::format {

namespace {

constexpr std::array<std::string_view, 13> kTypeNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::array<uint64_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

constexpr uint64_t kMaxKey = 65535;                   // the GGUF specification's limit
constexpr uint64_t kMaxElements = uint64_t{1} << 30;  // ggml's limits on what it reads
constexpr uint64_t kMaxString = uint64_t{1} << 30;
constexpr size_t kMaxTensorName = 63;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kMaxElementsOfTensor = INT64_MAX;

[[noreturn]] void refuse(std::string message) {
    throw Error(ErrorCode::bad_input, std::move(message));
}

GgufType read_type(ByteReader& reader, std::string_view what) {
    const auto number = reader.read<uint32_t>(what);
    if (number >= kTypeNames.size()) {
        refuse(fmt::format("{}: no GGUF value type has the number {}", what, number));
    }
    return static_cast<GgufType>(number);
}

Bytes read_string(ByteReader& reader, std::string_view what) {
    const auto length = reader.read<uint64_t>(what);
    if (length > kMaxString) {
        refuse(fmt::format("{}: a string of {} bytes (at most {} are read)", what, length, kMaxString));
    }
    return reader.take(length, what);
}

Bytes read_value(ByteReader& reader, const GgufKeyValue& kv, Bytes file, std::string_view what) {
    if (kv.type == GgufType::string) {
        return read_string(reader, what);
    }
    if (kv.element != GgufType::string) {
        return reader.take(checked_mul(kv.count, gguf_value_bytes(kv.element), what), what);
    }
    const uint64_t begin = reader.offset();
    for (uint64_t i = 0; i < kv.count; ++i) {
        static_cast<void>(read_string(reader, what));
    }
    return file.subspan(begin, reader.offset() - begin);
}

GgufKeyValue read_key_value(ByteReader& reader, Bytes file, uint64_t index) {
    const uint64_t begin = reader.offset();
    GgufKeyValue kv;
    kv.key = as_text(read_string(reader, fmt::format("the name of key-value {}", index)));
    if (!is_plain_name(kv.key, kMaxKey)) {
        refuse(fmt::format("key-value {} has no valid name: '{}' (printable ASCII without spaces is)", index,
                           printable(kv.key)));
    }
    const std::string what = fmt::format("key '{}'", printable(kv.key));
    kv.type = read_type(reader, what);
    kv.element = kv.type;
    if (kv.type == GgufType::array) {
        kv.element = read_type(reader, what);
        kv.count = reader.read<uint64_t>(what);
        if (kv.element == GgufType::array) {
            refuse(fmt::format("{}: arrays of arrays are not supported", what));
        }
        if (kv.count > kMaxElements) {
            refuse(fmt::format("{}: an array of {} elements (at most {} are read)", what, kv.count,
                               kMaxElements));
        }
    }
    kv.value = read_value(reader, kv, file, what);
    kv.raw = file.subspan(begin, reader.offset() - begin);
    return kv;
}

GgufTensor read_tensor(ByteReader& reader, uint64_t index) {
    GgufTensor tensor;
    tensor.name = as_text(read_string(reader, fmt::format("the name of tensor {}", index)));
    if (!is_plain_name(tensor.name, kMaxTensorName)) {
        refuse(fmt::format(
            "tensor {} has no valid name: '{}' (1 to {} printable ASCII characters without spaces are)",
            index, printable(tensor.name), kMaxTensorName));
    }
    return within(fmt::format("tensor {}", tensor.name), [&] {
        const auto dimensions = reader.read<uint32_t>("the number of dimensions");
        if (dimensions < 1 || dimensions > kMaxDimensions) {
            refuse(fmt::format("{} dimensions (1 to {} are supported)", dimensions, kMaxDimensions));
        }
        uint64_t elements = 1;
        for (uint32_t i = 0; i < dimensions; ++i) {
            const auto extent = reader.read<uint64_t>("a dimension");
            if (extent < 1 || extent > kMaxElementsOfTensor) {
                refuse(fmt::format("dimension {} is {}", i, extent));
            }
            elements = checked_mul(elements, extent, "the number of weights");
            tensor.shape.insert(tensor.shape.begin(), extent);
        }
        if (elements > kMaxElementsOfTensor) {
            refuse("the number of weights overflows 63 bits");
        }
        tensor.type = reader.read<uint32_t>("the type");
        const StockType* type = find_stock_type(tensor.type);
        if (type == nullptr) {
            refuse(fmt::format("type number {} is not known to this version (a newer or a removed GGML type)",
                               tensor.type));
        }
        tensor.offset = reader.read<uint64_t>("the offset");
        tensor.nbytes = stock_payload_bytes(*type, tensor.shape);
        return tensor;
    });
}

uint64_t padded(uint64_t size, uint64_t alignment) {
    return checked_add(size, alignment - 1, "the size of the data section") / alignment * alignment;
}

uint32_t read_version(ByteReader& reader) {
    if (reader.remaining() < 4 || as_text(reader.take(4, "the magic")) != "GGUF") {
        refuse("not a GGUF file");
    }
    const auto version = reader.read<uint32_t>("the version");
    if ((version & 0xFFFF) == 0) {
        refuse("a big-endian GGUF file; only little-endian ones are read");
    }
    if (version < 2 || version > 3) {
        refuse(fmt::format("GGUF version {} is not supported (2 and 3 are)", version));
    }
    return version;
}

uint64_t read_alignment(const GgufScan& scan) {
    constexpr uint64_t kDefault = 32;
    const GgufKeyValue* kv = scan.find("general.alignment");
    if (kv == nullptr) {
        return kDefault;
    }
    const uint32_t alignment = kv->type == GgufType::u32 ? load<uint32_t>(kv->value.data()) : 0;
    if (!std::has_single_bit(alignment)) {
        refuse("key 'general.alignment': not a power of two of type u32");
    }
    return alignment;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
    return kTypeNames.at(static_cast<size_t>(type));
}

uint64_t gguf_value_bytes(GgufType type) {
    return kTypeBytes.at(static_cast<size_t>(type));
}

const GgufKeyValue* GgufScan::find(std::string_view key) const {
    const auto at = std::find_if(key_values.begin(), key_values.end(),
                                 [&](const GgufKeyValue& kv) { return kv.key == key; });
    return at == key_values.end() ? nullptr : &*at;
}

GgufScan scan_gguf(Bytes file) {
    constexpr uint64_t kSmallestKeyValue = 8 + 1 + 4 + 1;
    constexpr uint64_t kSmallestTensor = 8 + 1 + 4 + 8 + 4 + 8;
    ByteReader reader(file);
    GgufScan scan;
    scan.version = read_version(reader);
    const auto n_tensors = reader.read<uint64_t>("the number of tensors");
    const auto n_key_values = reader.read<uint64_t>("the number of key-values");
    if (n_key_values > reader.remaining() / kSmallestKeyValue ||
        n_tensors > reader.remaining() / kSmallestTensor) {
        refuse(fmt::format(
            "truncated or corrupt: {} key-values and {} tensors do not fit the {} bytes that follow",
            n_key_values, n_tensors, reader.remaining()));
    }
    std::unordered_set<std::string_view> seen;
    for (uint64_t i = 0; i < n_key_values; ++i) {
        scan.key_values.push_back(read_key_value(reader, file, i));
        if (!seen.insert(scan.key_values.back().key).second) {
            refuse(fmt::format("key '{}' occurs twice", printable(scan.key_values.back().key)));
        }
    }
    scan.alignment = read_alignment(scan);
    seen.clear();
    uint64_t end =
        0;  // of the data so far, padded: GGUF wants tensors back to back, in the order of the table
    uint64_t used = 0;
    for (uint64_t i = 0; i < n_tensors; ++i) {
        const GgufTensor& tensor = scan.tensors.emplace_back(read_tensor(reader, i));
        if (!seen.insert(tensor.name).second) {
            refuse(fmt::format("tensor {} occurs twice", tensor.name));
        }
        if (tensor.offset != end) {
            refuse(fmt::format("tensor {}: offset {} where {} is expected", tensor.name, tensor.offset, end));
        }
        used = checked_add(end, tensor.nbytes, "the size of the data section");
        end = padded(used, scan.alignment);
    }
    scan.data_offset = n_tensors == 0 ? reader.offset() : padded(reader.offset(), scan.alignment);
    scan.length = checked_add(scan.data_offset, used, "the size of the file");
    return scan;
}

}  // namespace kaiju::format
