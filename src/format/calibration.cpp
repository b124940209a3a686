#include "format/calibration.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "format/gguf_writer.h"

namespace kaiju::format {

namespace {

constexpr std::string_view kLineHashes = "kaiju.calibration.line_hashes";

[[noreturn]] void malformed() {
    throw Error(ErrorCode::bad_input,
                "the sketch of the calibration text is malformed: line_hashes must be 64-bit numbers");
}

uint64_t parse_hash(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
        malformed();
    }
    return value;
}

}  // namespace

void set_calibration(Imatrix& imatrix, const Calibration& calibration) {
    KeyValueWriter extra;
    for (const GgufKeyValue& kv : imatrix.extra.all()) {
        if (kv.key != kLineHashes) {
            extra.add(kv);
        }
    }
    std::vector<std::string> hashes(calibration.line_hashes.size());
    std::ranges::transform(calibration.line_hashes, hashes.begin(), hex16);
    extra.add_strings(kLineHashes, hashes);
    imatrix.extra = KeyValues(extra.file());
    imatrix.datasets = {calibration.source};
}

std::optional<Calibration> calibration_of(const Imatrix& imatrix) {
    const auto hashes = imatrix.extra.find_strings(kLineHashes);
    if (!hashes) {
        return std::nullopt;
    }
    Calibration calibration;
    calibration.source = imatrix.datasets.empty() ? "" : imatrix.datasets.front();
    calibration.line_hashes.resize(hashes->size());
    std::ranges::transform(*hashes, calibration.line_hashes.begin(), parse_hash);
    return calibration;
}

std::optional<Calibration> calibration_of(std::string_view knot_metadata) {
    const auto metadata = nlohmann::json::parse(knot_metadata, nullptr, false);
    if (!metadata.is_object() || !metadata.contains("calibration")) {
        return std::nullopt;
    }
    const nlohmann::json& found = metadata["calibration"];
    if (!found.is_object() || !found.contains("line_hashes") || !found["line_hashes"].is_array()) {
        malformed();
    }
    Calibration calibration;
    if (found.contains("source") && found["source"].is_string()) {
        calibration.source = found["source"].get<std::string>();
    }
    for (const nlohmann::json& hash : found["line_hashes"]) {
        if (!hash.is_number_unsigned()) {
            malformed();
        }
        calibration.line_hashes.push_back(hash.get<uint64_t>());
    }
    return calibration;
}

}  // namespace kaiju::format
