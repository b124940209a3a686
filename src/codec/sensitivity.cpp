#include "codec/sensitivity.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "codec/tensor_decoder.h"
#include "format/strict_json.h"

namespace kaiju::codec {

using nlohmann::json;

std::optional<double> Sensitivity::cost(const format::Place& place) const {
    const auto layer = layers.find(place.layer);
    const auto role = roles.find(place.role);
    if (layer == layers.end() || role == roles.end()) {
        return std::nullopt;
    }
    return layer->second * role->second;
}

json to_json(const Sensitivity& sensitivity) {
    json layers = json::array();
    for (const auto& [layer, kl] : sensitivity.layers) {
        layers.push_back({{"layer", layer}, {"mean_kl", kl}});
    }
    json roles = json::array();
    for (const auto& [role, kl] : sensitivity.roles) {
        roles.push_back({{"role", role}, {"mean_kl", kl}});
    }
    return {{"type", sensitivity.type}, {"layers", layers}, {"roles", roles}};
}

namespace {

/// Gives every row of one of the two lists and its divergence to add(row, kl), which is false for a row that
/// was there before.
template <typename Add>
void read_rows(const json& object, const char* list, const Add& add) {
    const auto rows = object.find(list);
    if (rows == object.end() || !rows->is_array() || rows->empty()) {
        throw Error(ErrorCode::bad_input, fmt::format("no list \"{}\"", list));
    }
    for (const json& row : *rows) {
        const auto kl = row.is_object() ? row.find("mean_kl") : row.end();
        if (!row.is_object() || kl == row.end() || !kl->is_number() || !(kl->get<double>() >= 0) ||
            !std::isfinite(kl->get<double>())) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("\"{}\": a \"mean_kl\" is no number from 0 on", list));
        }
        if (!add(row, kl->get<double>())) {
            throw Error(ErrorCode::bad_input, fmt::format("\"{}\": the same one twice", list));
        }
    }
}

}  // namespace

Sensitivity read_sensitivity(const std::filesystem::path& path) {
    return within(path.string(), [&] {
        const json object = format::parse_strict_json(read_text(path));
        if (!object.is_object()) {
            throw Error(ErrorCode::bad_input, "not a JSON object: kaiju sensitivity writes one");
        }
        Sensitivity sensitivity{.type = format::get_text(object, "type")};
        if (!is_kaiju_type(sensitivity.type)) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("\"type\": {} is no type of this project", sensitivity.type));
        }
        read_rows(object, "layers", [&](const json& row, double kl) {
            const uint64_t layer = format::get_unsigned(row, "layer");
            return layer <= UINT32_MAX && sensitivity.layers.emplace(static_cast<uint32_t>(layer), kl).second;
        });
        read_rows(object, "roles", [&](const json& row, double kl) {
            return sensitivity.roles.emplace(format::get_text(row, "role"), kl).second;
        });
        return sensitivity;
    });
}

}  // namespace kaiju::codec
