#include "codec/assemble.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/checksum.h"
#include "base/file.h"
#include "format/knot.h"
#include "format/knot_writer.h"
#include "format/strict_json.h"

namespace kaiju::codec {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// Shards of one encode, by number.
class Parts {
  public:
    explicit Parts(std::span<const fs::path> paths) {
        for (const fs::path& path : paths) {
            within(path.string(), [&] { add(path); });
        }
        require_all();
        for (const auto& [shard, part] : parts_) {
            for (const format::KnotEntry& entry : part.file->entries()) {
                if (!where_.try_emplace(entry.info.name, Place{part.file.get(), &entry}).second) {
                    throw Error(ErrorCode::bad_input,
                                fmt::format("entry {} is in two parts", entry.info.name));
                }
            }
        }
    }

    [[nodiscard]] const json& description() const { return parts_.begin()->second.description; }

    [[nodiscard]] std::vector<format::TensorInfo> infos() const {
        std::vector<format::TensorInfo> all;
        try {
            for (const json& entry : description().at("entries")) {
                all.push_back({entry.at("name"), entry.at("type"), entry.at("shape"), entry.at("nbytes")});
            }
        } catch (const json::exception&) {
            throw Error(ErrorCode::bad_input, "the parts' list of entries is malformed");
        }
        return all;
    }

    /// The payload of an entry, checked.
    void copy(const format::TensorInfo& info, size_t index, format::KnotWriter& writer) const {
        const auto at = where_.find(info.name);
        if (at == where_.end()) {
            throw Error(ErrorCode::missing, fmt::format("entry {} is in none of the parts", info.name));
        }
        const auto& file = at->second.file;  // no structured binding: clang 14 cannot capture one
        const auto& entry = at->second.entry;
        within(file->path().string(), [&] {
            const Bytes payload = file->entry_payload(*entry);
            if (entry->info.type != info.type || entry->info.shape != info.shape ||
                payload.size() != info.nbytes || xxh3(payload) != entry->xxh3) {
                throw Error(ErrorCode::bad_input,
                            fmt::format("entry {} is damaged: make this part again", info.name));
            }
            writer.write_payload(index, payload);
            file->release(*entry);
        });
    }

    [[nodiscard]] std::vector<json> telemetries() const {
        std::vector<json> all;
        for (const auto& [shard, part] : parts_) {
            all.push_back(part.description.at("telemetry"));
        }
        return all;
    }

  private:
    struct Part {
        std::unique_ptr<format::KnotFile> file;
        json description;
    };
    struct Place {
        const format::KnotFile* file;
        const format::KnotEntry* entry;
    };

    void add(const fs::path& path) {
        Part part{.file = std::make_unique<format::KnotFile>(path), .description = {}};
        json metadata = format::parse_strict_json(part.file->metadata());
        if (!metadata.is_object() || !metadata.contains("part") || !metadata.at("part").is_object()) {
            throw Error(ErrorCode::usage, "not a part: kaiju encode --shard makes those");
        }
        part.description = std::move(metadata.at("part"));
        for (const char* key : {"entries", "metadata", "telemetry"}) {
            if (!part.description.contains(key)) {
                throw Error(ErrorCode::bad_input, fmt::format("its description has no \"{}\"", key));
            }
        }
        if (!part.description.at("metadata").is_object()) {
            throw Error(ErrorCode::bad_input, "its description's \"metadata\" is not an object");
        }
        const uint64_t shard = format::get_unsigned(part.description, "shard");
        if (!parts_.empty()) {
            for (const char* key : {"shards", "entries", "metadata"}) {
                if (part.description.at(key) != description().at(key)) {
                    throw Error(ErrorCode::usage,
                                fmt::format("belongs to another encode than {} ({} differ)",
                                            parts_.begin()->second.file->path().string(), key));
                }
            }
        }
        if (parts_.contains(shard)) {
            throw Error(ErrorCode::usage, fmt::format("shard {} is there already", shard));
        }
        parts_.emplace(shard, std::move(part));
    }  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the analyzer loses a move into a map

    void require_all() const {
        if (parts_.empty()) {
            throw Error(ErrorCode::usage, "no parts were named");
        }
        const uint64_t shards = format::get_unsigned(description(), "shards");
        std::vector<uint64_t> absent;
        for (uint64_t i = 0; i < shards && absent.size() < 16; ++i) {
            if (!parts_.contains(i)) {
                absent.push_back(i);
            }
        }
        if (!absent.empty()) {
            throw Error(ErrorCode::missing,
                        fmt::format("of {} shards these are missing: {}", shards, fmt::join(absent, ", ")));
        }
    }

    std::map<uint64_t, Part> parts_;
    std::map<std::string, Place, std::less<>> where_;
};

/// Adds up the totals of parts. Sums are taken over tensors in file order, as one process would take them;
/// shares are weighted by what they are shares of.
json joined_totals(const json& tensors, const std::vector<json>& parts, const format::KnotWriter& writer) {
    json totals = json::object();
    for (const json& part : parts) {
        for (const auto& [key, value] : part.at("totals").items()) {
            if (value.is_number()) {
                totals[key] = value.is_number_float()
                                  ? json(totals.value(key, 0.0) + value.get<double>())
                                  : json(totals.value(key, uint64_t{0}) + value.get<uint64_t>());
            } else if (value.is_array()) {
                json& sums = totals[key];
                for (size_t i = 0; i < value.size(); ++i) {
                    sums[i] = (i < sums.size() && sums[i].is_number() ? sums[i].get<uint64_t>() : 0) +
                              value[i].get<uint64_t>();
                }
            }
        }
    }
    double clamped = 0;
    uint64_t blocks = 0;
    for (const json& tensor : tensors) {
        blocks += tensor.at("blocks").get<uint64_t>();
        clamped += tensor.at("clamp_rate").get<double>() * tensor.at("blocks").get<double>();
    }
    uint64_t weights = 0;
    for (const format::TensorInfo& info : writer.tensors()) {
        weights += info.name == format::kKeyValuesName ? 0 : info.weights();
    }
    const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
    for (const auto& [sum, relative] : {std::pair("diagonal_excess", "relative_excess"),
                                        std::pair("full_excess", "relative_full_excess")}) {
        double excess = 0;
        double energy = 0;
        for (const json& tensor : tensors) {
            const double own = tensor.value(sum, 0.0);
            const double share_of = tensor.value(relative, 0.0);
            excess += own;
            energy += share_of > 0 ? own / share_of : 0;
        }
        if (totals.contains(sum)) {
            totals[sum] = excess;
            totals[relative] = share(excess, energy);
        }
    }
    totals["clamp_rate"] = share(clamped, static_cast<double>(blocks));
    totals["linear_bits"] = share(8.0 * totals.at("bytes").get<double>(), totals.at("weights").get<double>());
    totals["file_bytes"] = writer.file_length();
    totals["file_bits"] =
        share(8.0 * static_cast<double>(writer.file_length()), static_cast<double>(weights));
    return totals;
}

json joined_telemetry(const std::vector<json>& parts, const format::KnotWriter& writer) {
    try {
        std::map<std::string, const json*> by_name;
        for (const json& part : parts) {
            for (const json& tensor : part.at("tensors")) {
                by_name[tensor.at("name")] = &tensor;
            }
        }
        json whole = parts.front();
        whole["tensors"] = json::array();
        for (const format::TensorInfo& info : writer.tensors()) {
            if (const auto at = by_name.find(info.name); at != by_name.end()) {
                whole["tensors"].push_back(*at->second);
            }
        }
        whole["totals"] = joined_totals(whole.at("tensors"), parts, writer);
        return whole;
    } catch (const json::exception& error) {
        throw Error(ErrorCode::bad_input, fmt::format("the parts' telemetry is malformed: {}", error.what()));
    }
}

}  // namespace

AssembleReport assemble(std::span<const fs::path> paths, const fs::path& out, const fs::path& telemetry,
                        Monitor& monitor) {
    require_outputs({out, telemetry});
    const Parts parts(paths);
    format::KnotWriter writer(out, parts.infos());
    uint64_t bytes = 0;
    for (const format::TensorInfo& info : writer.tensors()) {
        bytes += info.nbytes;
    }
    monitor.begin("assemble", bytes, "bytes");
    for (size_t i = 0; i < writer.tensors().size(); ++i) {
        monitor.check_cancelled();
        parts.copy(writer.tensors()[i], i, writer);
        monitor.advance(writer.tensors()[i].nbytes);
    }
    json metadata = parts.description().at("metadata");
    if (!telemetry.empty()) {
        metadata["telemetry"] = telemetry.filename().string();
    }
    writer.finish(metadata);
    monitor.end();
    if (!telemetry.empty()) {
        write_new_file(telemetry, joined_telemetry(parts.telemetries(), writer).dump(1) + "\n");
    }
    const bool has_key_values =
        std::any_of(writer.tensors().begin(), writer.tensors().end(),
                    [](const format::TensorInfo& info) { return info.name == format::kKeyValuesName; });
    return {.tensors = writer.tensors().size() - (has_key_values ? 1 : 0),
            .file_bytes = writer.file_length()};
}

}  // namespace kaiju::codec
