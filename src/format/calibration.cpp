#include "format/calibration.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/error.h"
#include "format/gguf_writer.h"

namespace kaiju::format {

namespace {

constexpr std::string_view kWindowHashes = "kaiju.calibration.window_hashes";
constexpr std::string_view kLineHashes = "kaiju.calibration.line_hashes";  // of earlier versions

[[noreturn]] void malformed() {
    throw Error(ErrorCode::bad_input,
                "the sketch of the calibration text is malformed: window_hashes must be 64-bit numbers");
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
        if (kv.key != kLineHashes && kv.key != kWindowHashes) {
            extra.add(kv);
        }
    }
    std::vector<std::string> hashes(calibration.window_hashes.size());
    std::ranges::transform(calibration.window_hashes, hashes.begin(), hex16);
    extra.add_strings(kWindowHashes, hashes);
    imatrix.extra = KeyValues(extra.file());
    imatrix.datasets = {calibration.source};
}

std::optional<Calibration> calibration_of(const Imatrix& imatrix) {
    const auto hashes = imatrix.extra.find_strings(kWindowHashes);
    if (!hashes && !imatrix.extra.find_strings(kLineHashes)) {
        return std::nullopt;
    }
    Calibration calibration;
    calibration.source = imatrix.datasets.empty() ? "" : imatrix.datasets.front();
    if (hashes) {
        calibration.window_hashes.resize(hashes->size());
        std::ranges::transform(*hashes, calibration.window_hashes.begin(), parse_hash);
    }
    return calibration;
}

std::optional<Calibration> calibration_of(std::string_view knot_metadata) {
    const auto metadata = nlohmann::json::parse(knot_metadata, nullptr, false);
    if (!metadata.is_object() || !metadata.contains("calibration")) {
        return std::nullopt;
    }
    const nlohmann::json& found = metadata["calibration"];
    const auto hashes = found.is_object() ? found.value("window_hashes", nlohmann::json()) : nlohmann::json();
    if (!hashes.is_array() && (!hashes.is_null() || !found.is_object() || !found.contains("line_hashes"))) {
        malformed();
    }
    Calibration calibration;
    if (found.contains("source") && found["source"].is_string()) {
        calibration.source = found["source"].get<std::string>();
    }
    for (const nlohmann::json& hash : hashes) {
        if (!hash.is_number_unsigned()) {
            malformed();
        }
        calibration.window_hashes.push_back(hash.get<uint64_t>());
    }
    return calibration;
}

Calibration merged(const Calibration& a, const Calibration& b) {
    Calibration both{.source = a.source == b.source ? a.source : a.source + ", " + b.source,
                     .window_hashes = {}};
    if (!a.window_hashes.empty() && !b.window_hashes.empty()) {
        // Sorted here: a file may hold them in any order.
        std::set<uint64_t> hashes(a.window_hashes.begin(), a.window_hashes.end());
        hashes.insert(b.window_hashes.begin(), b.window_hashes.end());
        both.window_hashes.assign(hashes.begin(), hashes.end());
        both.window_hashes.resize(std::min(both.window_hashes.size(), kMaxWindowHashes));
    }
    return both;
}

nlohmann::json to_json(const Calibration& calibration) {
    return {{"source", calibration.source}, {"window_hashes", calibration.window_hashes}};
}

}  // namespace kaiju::format
