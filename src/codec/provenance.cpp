#include "codec/provenance.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "format/key_values.h"

namespace kaiju::codec {

namespace {

uint64_t size_of(std::span<const MappedFile> files) {
    uint64_t size = 0;
    for (const MappedFile& file : files) {
        size += file.bytes().size();
    }
    return size;
}

}  // namespace

nlohmann::json source_json(std::span<const MappedFile> files, Monitor& monitor) {
    constexpr uint64_t kPiece = uint64_t{16} << 20;
    const uint64_t size = size_of(files);
    monitor.begin("hash", size, "B");
    Sha256 hash;
    for (const MappedFile& file : files) {
        const Bytes bytes = file.bytes();
        for (uint64_t at = 0; at < bytes.size(); at += kPiece) {
            monitor.check_cancelled();
            const Bytes piece = bytes.subspan(at, std::min<uint64_t>(kPiece, bytes.size() - at));
            hash.update(piece);
            file.release(piece);
            monitor.advance(piece.size());
        }
    }
    monitor.end();
    return {{"sha256", hash.hex()}, {"size", size}};
}

nlohmann::json source_json(const format::ModelFile& model, Monitor& monitor) {
    if (const std::optional<format::SourceHash> known = model.source()) {
        return {{"sha256", known->sha256}, {"size", known->size}};
    }
    return source_json(model.mappings(), monitor);
}

nlohmann::json unhashed_source_json(std::span<const MappedFile> files) {
    return {{"sha256", std::string(64, '0')}, {"size", size_of(files)}};
}

nlohmann::json unhashed_source_json(const format::ModelFile& model) {
    const std::optional<format::SourceHash> known = model.source();
    return known ? nlohmann::json{{"sha256", known->sha256}, {"size", known->size}}
                 : unhashed_source_json(model.mappings());
}

nlohmann::json general_json(const format::ModelFile& model) {
    nlohmann::json general = nlohmann::json::object();
    const format::KeyValues key_values(model.key_values());
    for (const std::string name : {"architecture", "name"}) {
        if (const auto text = key_values.find_string("general." + name)) {
            general[name] = *text;
        }
    }
    return general;
}

}  // namespace kaiju::codec
