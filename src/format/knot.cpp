#include "format/knot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/checksum.h"
#include "format/stock_types.h"
#include "format/strict_json.h"

namespace kaiju::format {

using nlohmann::json;

namespace {

constexpr std::string_view kMagic = "KNOT";
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMaxToc = uint64_t{64} << 20;
constexpr uint64_t kMaxMetadata = uint64_t{256} << 20;
constexpr size_t kMaxName = 255;
constexpr size_t kMaxDimensions = 4;
constexpr uint64_t kMaxWeights = INT64_MAX;
constexpr std::string_view kWirePrefix =
    "KAIJU";  // wires of this project: matrices whose payload tells their size

[[noreturn]] void refuse(std::string message) {
    throw Error(ErrorCode::bad_input, std::move(message));
}

uint64_t parse_hex(const std::string& text) {
    uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value, 16);
    if (text.size() != 16 || error != std::errc() || at != end) {
        refuse("\"xxh3\" is not 16 hex digits");
    }
    return value;
}

KnotEntry parse_entry(const json& item, size_t index) {
    if (!item.is_object()) {
        refuse(fmt::format("table of contents: entry {} is not a JSON object", index));
    }
    KnotEntry entry;
    within(fmt::format("table of contents: entry {}", index),
           [&] { entry.info.name = get_text(item, "name"); });
    within(fmt::format("entry {}", printable(entry.info.name)), [&] {
        entry.info.type = get_text(item, "type");
        const auto shape = item.find("shape");
        if (shape == item.end() || !shape->is_array()) {
            refuse("\"shape\" is not an array");
        }
        for (const json& extent : *shape) {
            entry.info.shape.push_back(as_unsigned(extent, "a dimension of \"shape\""));
        }
        entry.offset = get_unsigned(item, "offset");
        entry.info.nbytes = get_unsigned(item, "nbytes");
        entry.xxh3 = parse_hex(get_text(item, "xxh3"));
    });
    check_entry(entry.info);
    return entry;
}

struct Span {
    uint64_t begin;
    uint64_t length;
    std::string what;
};

void check_placement(const KnotTable& table) {
    std::vector<Span> spans = {{table.header.toc_offset, table.header.toc_length, "the table of contents"},
                               {table.header.meta_offset, table.header.meta_length, "the metadata"}};
    for (const KnotEntry& entry : table.entries) {
        const std::string what = fmt::format("entry {}", entry.info.name);
        if (entry.offset % kAlignment != 0 || entry.offset < KnotHeader::kBytes) {
            refuse(fmt::format("{}: offset {} is not a multiple of {} behind the header", what, entry.offset,
                               kAlignment));
        }
        if (!fits(entry.offset, entry.info.nbytes, table.header.file_length)) {
            refuse(fmt::format("{}: {} bytes at offset {} lie outside the file of {} bytes", what,
                               entry.info.nbytes, entry.offset, table.header.file_length));
        }
        spans.push_back({entry.offset, entry.info.nbytes, what});
    }
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.length < b.length;
    });
    for (size_t i = 1; i < spans.size(); ++i) {
        if (spans[i - 1].begin + spans[i - 1].length > spans[i].begin) {
            refuse(fmt::format("{} and {} overlap at offset {}", spans[i - 1].what, spans[i].what,
                               spans[i].begin));
        }
    }
}

std::vector<KnotEntry> parse_toc(Bytes bytes) {
    const json toc = within("table of contents", [&] { return parse_strict_json(as_text(bytes)); });
    if (!toc.is_array()) {
        refuse("table of contents: not a JSON array");
    }
    std::vector<KnotEntry> entries;
    std::unordered_set<std::string> names;
    for (const json& item : toc) {
        entries.push_back(parse_entry(item, entries.size()));
        if (!names.insert(entries.back().info.name).second) {
            refuse(fmt::format("entry {} occurs twice in the table of contents", entries.back().info.name));
        }
    }
    return entries;
}

}  // namespace

KnotHeader KnotHeader::parse(Bytes first, uint64_t actual_length) {
    if (first.size() < kBytes) {
        refuse(fmt::format("truncated: the header has {} bytes, {} there", kBytes, first.size()));
    }
    ByteReader reader(first.first(kBytes));
    if (as_text(reader.take(kMagic.size(), "the magic")) != kMagic) {
        refuse("not a knot (wrong magic)");
    }
    if (const auto version = reader.read<uint32_t>("the version"); version != kVersion) {
        refuse(fmt::format("knot version {} is not supported ({} is)", version, kVersion));
    }
    KnotHeader header;
    header.meta_offset = reader.read<uint64_t>("the header");
    header.meta_length = reader.read<uint64_t>("the header");
    header.toc_offset = reader.read<uint64_t>("the header");
    header.toc_length = reader.read<uint64_t>("the header");
    header.data_offset = reader.read<uint64_t>("the header");
    header.file_length = reader.read<uint64_t>("the header");
    header.checksum = reader.read<uint64_t>("the header");
    if (actual_length < header.file_length) {
        refuse(fmt::format("truncated: {} bytes expected, {} there", header.file_length, actual_length));
    }
    if (actual_length > header.file_length) {
        refuse(fmt::format("{} bytes follow the end of the file that its header gives ({})",
                           actual_length - header.file_length, header.file_length));
    }
    if (header.data_offset != kBytes) {
        refuse(fmt::format("data_offset is {}, not {}", header.data_offset, kBytes));
    }
    struct Part {
        std::string_view what;
        uint64_t offset, length, limit;
    };
    for (const Part& part : {Part{"table of contents", header.toc_offset, header.toc_length, kMaxToc},
                             Part{"metadata", header.meta_offset, header.meta_length, kMaxMetadata}}) {
        if (part.offset < kBytes || !fits(part.offset, part.length, header.file_length)) {
            refuse(fmt::format("{}: {} bytes at offset {} lie outside the file of {} bytes", part.what,
                               part.length, part.offset, header.file_length));
        }
        if (part.length > part.limit) {
            refuse(fmt::format("{}: {} bytes, at most {} are allowed", part.what, part.length, part.limit));
        }
    }
    return header;
}

std::vector<std::byte> KnotHeader::bytes() const {
    ByteWriter out;
    out.append(kMagic);
    out.write(kVersion);
    for (const uint64_t field :
         {meta_offset, meta_length, toc_offset, toc_length, data_offset, file_length, checksum}) {
        out.write(field);
    }
    return out.release();
}

void check_entry(const TensorInfo& info) {
    if (!is_plain_name(info.name, kMaxName)) {
        refuse(fmt::format("entry '{}': a name has 1 to {} printable ASCII characters without spaces",
                           printable(info.name), kMaxName));
    }
    within(fmt::format("entry {}", info.name), [&] {
        if (!is_plain_name(info.type, kMaxName)) {
            refuse("\"type\" is not a word");
        }
        const size_t dimensions = info.shape.size();
        if (dimensions < 1 || dimensions > kMaxDimensions) {
            refuse(fmt::format("{} dimensions, 1 to {} are allowed", dimensions, kMaxDimensions));
        }
        uint64_t weights = 1;
        for (const uint64_t extent : info.shape) {
            if (extent == 0) {
                refuse("a dimension is 0");
            }
            weights = checked_mul(weights, extent, "the number of weights");
        }
        if (weights > kMaxWeights) {
            refuse("the number of weights overflows 63 bits");
        }
        if (info.nbytes == 0) {
            refuse("the payload is empty");
        }
        if ((info.name == kKeyValuesName) != (info.type == kKeyValuesType)) {
            refuse(fmt::format("type {} belongs to the entry named {} and to no other", kKeyValuesType,
                               kKeyValuesName));
        }
        if (info.type == kKeyValuesType) {
            if (dimensions != 1 || info.shape[0] != info.nbytes) {
                refuse("\"shape\" is not [nbytes]");
            }
        } else if (info.type.starts_with(kWirePrefix)) {
            if (dimensions != 2) {
                refuse(fmt::format("{} dimensions, {} tensors have 2", dimensions, info.type));
            }
        } else if (const StockType* type = find_stock_type(info.type); type != nullptr) {
            const uint64_t implied = stock_payload_bytes(*type, info.shape);
            if (info.nbytes != implied) {
                refuse(fmt::format("{} bytes, type {} and shape imply {}", info.nbytes, info.type, implied));
            }
        }
    });
}

bool looks_like_knot(Bytes file) {
    return file.size() >= kMagic.size() && as_text(file.first(kMagic.size())) == kMagic;
}

KnotTable parse_knot(Bytes file) {
    KnotTable table;
    table.header = KnotHeader::parse(file, file.size());
    const Bytes toc = file.subspan(table.header.toc_offset, table.header.toc_length);
    const Bytes meta = file.subspan(table.header.meta_offset, table.header.meta_length);
    ByteWriter both;
    both.append(toc);
    both.append(meta);
    if (const uint64_t actual = xxh3(both.bytes()); actual != table.header.checksum) {
        refuse(fmt::format("checksum of the table of contents and metadata is {}, the header says {}",
                           hex16(actual), hex16(table.header.checksum)));
    }
    table.entries = parse_toc(toc);
    table.metadata = as_text(meta);
    within("metadata", [&] {
        if (!parse_strict_json(table.metadata).is_object()) {
            refuse("not a JSON object");
        }
    });
    check_placement(table);
    return table;
}

KnotFile::KnotFile(const std::filesystem::path& path) : file_(path) {
    within(path.string(), [&] { table_ = parse_knot(file_.bytes()); });
    for (size_t i = 0; i < table_.entries.size(); ++i) {
        const KnotEntry& entry = table_.entries[i];
        if (entry.info.type == kKeyValuesType) {
            require_intact(entry);
            key_values_ = entry_payload(entry);
        } else {
            tensors_.push_back(entry.info);
            entry_of_.push_back(i);
        }
    }
    intact_ = std::make_unique<std::atomic<bool>[]>(tensors_.size());
}

Bytes KnotFile::entry_payload(const KnotEntry& entry) const {
    return file_.bytes().subspan(entry.offset, entry.info.nbytes);
}

void KnotFile::check_payload(const KnotEntry& entry) const {
    if (const uint64_t actual = xxh3(entry_payload(entry)); actual != entry.xxh3) {
        refuse(fmt::format(
            "checksum of the payload is {}, the table of contents says {}: the file is damaged, fetch or "
            "make it again",
            hex16(actual), hex16(entry.xxh3)));
    }
}

void KnotFile::require_intact(const KnotEntry& entry) const {
    within(path().string(), [&] { within("entry " + entry.info.name, [&] { check_payload(entry); }); });
}

Bytes KnotFile::payload(size_t index) const {
    const KnotEntry& entry = table_.entries[entry_of_.at(index)];
    if (!intact_[index].load(std::memory_order_relaxed)) {
        require_intact(entry);
        intact_[index].store(true, std::memory_order_relaxed);
    }
    return entry_payload(entry);
}

void KnotFile::release(size_t index) const {
    release(table_.entries[entry_of_.at(index)]);
}

}  // namespace kaiju::format
