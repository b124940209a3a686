#include "format/covariance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "format/stock_types.h"
#include "format/strict_json.h"

namespace kaiju::format {

using nlohmann::json;

namespace {

constexpr std::string_view kMagic = "KCV1";
constexpr uint32_t kVersion = 1;
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kFixed = 4 + 4 + 8 + 8 + 4 + 4;  ///< magic, version, length, checksum, two counts
constexpr uint64_t kMaxMetadata = uint64_t{64} << 20;

[[noreturn]] void refuse(std::string message) {
    throw Error(ErrorCode::bad_input, std::move(message));
}

uint64_t aligned(uint64_t offset) {
    return checked_add(offset, kAlignment - 1, "an offset") / kAlignment * kAlignment;
}

void check_entry(const CovarianceEntry& entry) {
    if (entry.tap.empty() || entry.tap.size() > std::numeric_limits<uint16_t>::max() || !is_utf8(entry.tap)) {
        refuse("a tap's name is text in UTF-8 of at most 65535 bytes");
    }
    if (entry.dim == 0) {
        refuse("it has no columns");
    }
    if (entry.samples == 0) {
        refuse("it was made from 0 samples");
    }
}

void check_metadata(const std::string& metadata) {
    within("metadata", [&] {
        if (!parse_strict_json(metadata).is_object()) {
            refuse("not a JSON object");
        }
    });
}

/// Gives every entry its place, in the order of the table; returns the length of the file.
uint64_t place(std::vector<CovarianceEntry>& entries, uint64_t end_of_table) {
    uint64_t end = end_of_table;
    for (CovarianceEntry& entry : entries) {
        entry.offset = aligned(end);
        end = checked_add(entry.offset, checked_mul(entry.packed(), sizeof(float), "its size"),
                          "the length of the file");
    }
    return end;
}

std::vector<std::byte> table_bytes(const std::string& metadata, std::span<const CovarianceEntry> entries) {
    ByteWriter out;
    out.write(static_cast<uint32_t>(metadata.size()));
    out.write(static_cast<uint32_t>(entries.size()));
    out.append(metadata);
    for (const CovarianceEntry& entry : entries) {
        out.write(static_cast<uint16_t>(entry.tap.size()));
        out.append(entry.tap);
        out.write(entry.dim);
        out.write(entry.samples);
        out.write(entry.xxh3);
    }
    return out.release();
}

CovarianceEntry parse_entry(ByteReader& reader, uint32_t index) {
    const auto length = reader.read<uint16_t>(fmt::format("the length of name {}", index));
    CovarianceEntry entry;
    entry.tap = reader.text(length, fmt::format("name {}", index));
    within(fmt::format("entry {} ({})", index, printable(entry.tap)), [&] {
        entry.dim = reader.read<uint32_t>("the number of columns");
        entry.samples = reader.read<uint64_t>("the number of samples");
        entry.xxh3 = reader.read<uint64_t>("the checksum");
        check_entry(entry);
    });
    return entry;
}

float packed_at(Bytes payload, uint64_t row, uint64_t col) {
    return load<float>(payload.data() + (row * (row + 1) / 2 + col) * sizeof(float));
}

std::vector<float> checked_diagonal(Bytes payload, uint32_t dim) {
    std::vector<float> diagonal(dim);
    for (uint64_t i = 0; i < dim; ++i) {
        diagonal[i] = packed_at(payload, i, i);
        if (!(diagonal[i] >= 0) || !std::isfinite(diagonal[i])) {
            refuse(fmt::format("column {}: a mean square of {}", i, diagonal[i]));
        }
    }
    return diagonal;
}

}  // namespace

CovarianceTable parse_covariances(Bytes file) {
    constexpr uint64_t kSmallestEntry = 2 + 1 + 4 + 8 + 8;
    ByteReader reader(file);
    if (as_text(reader.take(kMagic.size(), "the magic")) != kMagic) {
        refuse("not a file of covariances: it does not begin with KCV1");
    }
    if (const auto version = reader.read<uint32_t>("the version"); version != kVersion) {
        refuse(fmt::format("version {} of the format; this program reads {}", version, kVersion));
    }
    if (const auto length = reader.read<uint64_t>("the length of the file"); length != file.size()) {
        refuse(fmt::format("{}: {} bytes expected, {} there",
                           length > file.size() ? "truncated" : "bytes are left over", length, file.size()));
    }
    const auto checksum = reader.read<uint64_t>("the checksum");
    const auto metadata_length = reader.read<uint32_t>("the length of the metadata");
    const auto count = reader.read<uint32_t>("the number of entries");
    if (metadata_length > kMaxMetadata) {
        refuse(fmt::format("{} bytes of metadata, at most {} are allowed", metadata_length, kMaxMetadata));
    }
    CovarianceTable table;
    table.metadata = reader.text(metadata_length, "the metadata");
    if (count > reader.remaining() / kSmallestEntry) {
        refuse(fmt::format("{} entries do not fit the {} bytes that follow", count, reader.remaining()));
    }
    table.entries.reserve(count);
    std::set<std::string, std::less<>> seen;
    for (uint32_t i = 0; i < count; ++i) {
        table.entries.push_back(parse_entry(reader, i));
        if (!seen.insert(table.entries.back().tap).second) {
            refuse(fmt::format("entry {} ({}): the tap occurs twice", i, printable(table.entries[i].tap)));
        }
    }
    constexpr uint64_t kTable = kFixed - 8;  // the checksum is over what follows it
    if (xxh3(file.subspan(kTable, reader.offset() - kTable)) != checksum) {
        refuse("the checksum of metadata and table does not hold: the file is damaged");
    }
    check_metadata(table.metadata);
    if (const uint64_t end = place(table.entries, reader.offset()); end != file.size()) {
        refuse(fmt::format("the matrices end at byte {}, the file at {}", end, file.size()));
    }
    return table;
}

CovarianceFile::CovarianceFile(const std::filesystem::path& path)
    : file_(path), table_(within(path.string(), [&] { return parse_covariances(file_.bytes()); })) {}

const CovarianceEntry* CovarianceFile::find(std::string_view tap) const {
    const auto at =
        std::ranges::find_if(table_.entries, [&](const CovarianceEntry& entry) { return entry.tap == tap; });
    return at == table_.entries.end() ? nullptr : &*at;
}

std::string CovarianceFile::model_id() const {
    const json metadata = json::parse(table_.metadata);
    const auto at = metadata.find("model_id");
    return at != metadata.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::optional<Calibration> CovarianceFile::calibration() const {
    return within(path().string(), [&] { return calibration_of(std::string_view(table_.metadata)); });
}

Bytes CovarianceFile::payload(const CovarianceEntry& entry) const {
    return file_.bytes().subspan(entry.offset, entry.packed() * sizeof(float));
}

template <typename T>
void CovarianceFile::fill_as(const CovarianceEntry& entry, std::span<T> dense) const {
    within(fmt::format("{}: covariance of {}", path().string(), printable(entry.tap)), [&] {
        const uint64_t dim = entry.dim;
        if (dense.size() != dim * dim) {
            throw Error(ErrorCode::internal,
                        fmt::format("{} values for a matrix of {} columns", dense.size(), dim));
        }
        const Bytes bytes = payload(entry);
        if (xxh3(bytes) != entry.xxh3) {
            refuse("the checksum does not hold: the file is damaged");
        }
        constexpr double kSlack = 1 + 1e-4;  // of f32 sums and their rounding
        const std::vector<float> diagonal = checked_diagonal(bytes, entry.dim);
        for (uint64_t i = 0; i < dim; ++i) {
            for (uint64_t j = 0; j <= i; ++j) {
                const float value = packed_at(bytes, i, j);
                const double bound = static_cast<double>(diagonal[i]) * diagonal[j] * kSlack;
                if (!(static_cast<double>(value) * value <= bound + std::numeric_limits<float>::min())) {
                    refuse(fmt::format("columns {} and {}: {} between mean squares of {} and {}", i, j, value,
                                       diagonal[i], diagonal[j]));
                }
                dense[i * dim + j] = dense[j * dim + i] = static_cast<T>(value);
            }
        }
    });
}

void CovarianceFile::fill(const CovarianceEntry& entry, std::span<double> dense) const {
    fill_as(entry, dense);
}

void CovarianceFile::fill(const CovarianceEntry& entry, std::span<float> dense) const {
    fill_as(entry, dense);
}

std::vector<float> CovarianceFile::diagonal(const CovarianceEntry& entry) const {
    return within(fmt::format("{}: covariance of {}", path().string(), printable(entry.tap)),
                  [&] { return checked_diagonal(payload(entry), entry.dim); });
}

void CovarianceFile::release(const CovarianceEntry& entry) const {
    file_.release(payload(entry));
}

CovarianceWriter::CovarianceWriter(const std::filesystem::path& path, std::string metadata,
                                   std::vector<CovarianceEntry> entries)
    : file_(path), metadata_(std::move(metadata)), entries_(std::move(entries)), written_(entries_.size()) {
    if (metadata_.size() > kMaxMetadata) {
        refuse(fmt::format("{} bytes of metadata, at most {} are allowed", metadata_.size(), kMaxMetadata));
    }
    check_metadata(metadata_);
    std::set<std::string, std::less<>> seen;
    for (const CovarianceEntry& entry : entries_) {
        within(fmt::format("tap {}", printable(entry.tap)), [&] {
            check_entry(entry);
            if (!seen.insert(entry.tap).second) {
                refuse("the tap occurs twice");
            }
        });
    }
    constexpr uint64_t kBeforeTable = kFixed - 8;
    file_.reserve(place(entries_, kBeforeTable + table_bytes(metadata_, entries_).size()));
}

void CovarianceWriter::write(size_t index, std::span<const float> packed) {
    CovarianceEntry& entry = entries_.at(index);
    if (packed.size() != entry.packed()) {
        throw Error(ErrorCode::internal, fmt::format("tap {}: {} values for a matrix of {} columns",
                                                     entry.tap, packed.size(), entry.dim));
    }
    entry.xxh3 = xxh3(std::as_bytes(packed));
    file_.write_at(entry.offset, std::as_bytes(packed));
    written_[index] = true;
}

void CovarianceWriter::commit() {
    if (std::ranges::find(written_, false) != written_.end()) {
        throw Error(ErrorCode::internal, "a covariance was announced and not written");
    }
    const std::vector<std::byte> table = table_bytes(metadata_, entries_);
    ByteWriter head;
    head.append(kMagic);
    head.write(kVersion);
    head.write(file_.size());
    head.write(xxh3(table));
    head.append(table);
    file_.write_at(0, head.bytes());
    file_.commit();
}

}  // namespace kaiju::format
