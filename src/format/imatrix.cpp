#include "format/imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "format/gguf_file.h"
#include "format/gguf_writer.h"
#include "format/stock_types.h"

namespace kaiju::format {

namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";
constexpr std::string_view kType = "general.type";
constexpr std::string_view kDatasets = "imatrix.datasets";
constexpr std::string_view kChunkCount = "imatrix.chunk_count";
constexpr std::string_view kChunkSize = "imatrix.chunk_size";

[[noreturn]] void refuse(std::string message) {
    throw Error(ErrorCode::bad_input, std::move(message));
}

std::vector<float> read_floats(Bytes bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = load<float>(bytes.data() + i * sizeof(float));
    }
    return values;
}

void check(const ImatrixEntry& entry) {
    if (!(entry.count >= 0) || !std::isfinite(entry.count)) {
        refuse(fmt::format("its count is {}", entry.count));
    }
    for (size_t i = 0; i < entry.sum_of_squares.size(); ++i) {
        if (!(entry.sum_of_squares[i] >= 0) || !std::isfinite(entry.sum_of_squares[i])) {
            refuse(fmt::format("column {}: a sum of squares of {}", i, entry.sum_of_squares[i]));
        }
    }
}

/// The values of one tensor of the GGUF form: a vector of f32.
std::vector<float> read_vector(Bytes file, const GgufScan& scan, const GgufTensor& tensor, bool is_count) {
    if (find_stock_type(tensor.type)->name != "F32") {
        refuse(fmt::format("type {}, not F32", find_stock_type(tensor.type)->name));
    }
    uint64_t matrices = is_count ? 1 : 0;  // counts: one number per matrix; sums: a row per matrix
    for (size_t i = 0; i + (is_count ? 0 : 1) < tensor.shape.size(); ++i) {
        matrices = std::max(matrices, tensor.shape[i]);
    }
    if (matrices > 1) {
        refuse(
            fmt::format("{} entries, one per expert: mixture-of-experts models are not supported", matrices));
    }
    return read_floats(file.subspan(scan.data_offset + tensor.offset, tensor.nbytes));
}

Imatrix parse_gguf(Bytes file) {
    const GgufScan scan = scan_gguf(file);
    if (file.size() < scan.length) {
        refuse(fmt::format("truncated: {} bytes expected, {} there", scan.length, file.size()));
    }
    KeyValueWriter head;
    KeyValueWriter extra;
    for (const GgufKeyValue& kv : scan.key_values) {
        const bool known =
            kv.key == kType || kv.key == kDatasets || kv.key == kChunkCount || kv.key == kChunkSize;
        (known ? head : extra).add(kv);
    }
    const KeyValues known(head.file());
    if (const auto type = known.find_string(kType); type && *type != "imatrix") {
        refuse(fmt::format("a GGUF of general.type '{}', not an importance matrix", printable(*type)));
    }
    Imatrix imatrix;
    imatrix.extra = KeyValues(extra.file());
    imatrix.datasets = known.find_strings(kDatasets).value_or(std::vector<std::string>());
    imatrix.chunk_count = known.find_u32(kChunkCount).value_or(0);
    imatrix.chunk_size = known.find_u32(kChunkSize).value_or(0);
    std::map<std::string, float> counts;
    for (const GgufTensor& tensor : scan.tensors) {
        within(fmt::format("importance of {}", tensor.name), [&] {
            const std::string_view name = tensor.name;
            if (name.ends_with(kSums)) {
                imatrix.entries[std::string(name.substr(0, name.size() - kSums.size()))].sum_of_squares =
                    read_vector(file, scan, tensor, false);
            } else if (name.ends_with(kCounts)) {
                counts[std::string(name.substr(0, name.size() - kCounts.size()))] =
                    read_vector(file, scan, tensor, true).front();
            }
        });
    }
    for (auto& [name, entry] : imatrix.entries) {
        within(fmt::format("importance of {}", name), [&, &values = entry, &tensor = name] {
            const auto count = counts.find(tensor);
            if (count == counts.end()) {
                refuse("sums of squares without a count");
            }
            values.count = count->second;
            counts.erase(count);
            check(values);
        });
    }
    if (!counts.empty()) {
        refuse(fmt::format("importance of {}: a count without sums of squares", counts.begin()->first));
    }
    if (imatrix.entries.empty()) {
        refuse("a GGUF without importance entries (tensors named *.in_sum2)");
    }
    return imatrix;
}

uint32_t read_count(ByteReader& reader, std::string_view what, int64_t least) {
    const auto value = reader.read<int32_t>(what);
    if (value < least) {
        refuse(fmt::format("not an importance matrix: {} is {}", what, value));
    }
    return static_cast<uint32_t>(value);
}

Imatrix parse_legacy(Bytes file) {
    constexpr uint64_t kSmallestEntry = 4 + 1 + 4 + 4 + 4;
    ByteReader reader(file);
    Imatrix imatrix;
    const uint32_t entries = read_count(reader, "the number of entries", 1);
    if (entries > reader.remaining() / kSmallestEntry) {
        refuse(fmt::format(
            "not an importance matrix, or truncated: {} entries do not fit the {} bytes that follow", entries,
            reader.remaining()));
    }
    for (uint32_t i = 0; i < entries; ++i) {
        const std::string name = reader.text(read_count(reader, fmt::format("the length of name {}", i), 1),
                                             fmt::format("name {}", i));
        if (!is_plain_name(name, 255)) {
            refuse(fmt::format("not an importance matrix: name {} is '{}'", i, printable(name)));
        }
        within(fmt::format("importance of {}", name), [&] {
            ImatrixEntry entry;
            entry.count = static_cast<float>(read_count(reader, "the number of calls", 0));
            const uint64_t columns = read_count(reader, "the number of columns", 1);
            entry.sum_of_squares = read_floats(reader.take(columns * sizeof(float), "the values"));
            check(entry);
            if (!imatrix.entries.emplace(name, std::move(entry)).second) {
                refuse("occurs twice");
            }
        });
    }
    if (reader.remaining() != 0) {  // the oldest files end here
        imatrix.chunk_count = read_count(reader, "the number of chunks", 0);
        imatrix.datasets.push_back(
            reader.text(read_count(reader, "the length of the dataset's name", 0), "the dataset's name"));
    }
    if (reader.remaining() != 0) {
        refuse(fmt::format("{} bytes are left over at the end", reader.remaining()));
    }
    return imatrix;
}

}  // namespace

std::vector<float> ImatrixEntry::mean_squares() const {
    std::vector<float> means(sum_of_squares.size(), 0.0F);
    if (count > 0) {
        std::transform(sum_of_squares.begin(), sum_of_squares.end(), means.begin(),
                       [this](float sum) { return sum / count; });
    }
    return means;
}

const ImatrixEntry* Imatrix::find(std::string_view tensor) const {
    const auto at = entries.find(std::string(tensor));
    return at == entries.end() ? nullptr : &at->second;
}

Imatrix parse_imatrix(Bytes file) {
    if (file.empty()) {
        refuse("the file is empty");
    }
    return looks_like_gguf(file) ? parse_gguf(file) : parse_legacy(file);
}

Imatrix read_imatrix(const std::filesystem::path& path) {
    const MappedFile file(path);
    return within(path.string(), [&] { return parse_imatrix(file.bytes()); });
}

void write_imatrix(const std::filesystem::path& path, const Imatrix& imatrix) {
    constexpr size_t kMaxName = 63 - kSums.size();
    KeyValueWriter head;
    head.add_string(kType, "imatrix");
    head.add_strings(kDatasets, imatrix.datasets);
    head.add_u32(kChunkCount, imatrix.chunk_count);
    head.add_u32(kChunkSize, imatrix.chunk_size);
    for (const GgufKeyValue& kv : imatrix.extra.all()) {
        head.add(kv);
    }
    std::vector<TensorInfo> tensors;
    for (const auto& [name, entry] : imatrix.entries) {
        if (!is_plain_name(name, kMaxName)) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("importance of {}: the name does not fit a GGUF (at most {} "
                                    "characters)",
                                    printable(name), kMaxName));
        }
        const uint64_t columns = entry.sum_of_squares.size();
        tensors.push_back({name + std::string(kSums), "F32", {columns}, columns * sizeof(float)});
        tensors.push_back({name + std::string(kCounts), "F32", {1}, sizeof(float)});
    }
    GgufWriter file(path, head, tensors);
    size_t index = 0;
    for (const auto& [name, entry] : imatrix.entries) {
        file.write(index++, 0, std::as_bytes(std::span(entry.sum_of_squares)));
        file.write(index++, 0, std::as_bytes(std::span(&entry.count, 1)));
    }
    file.commit();
}

}  // namespace kaiju::format
