// How much a model's answers suffer where its tensors are quantised (docs/commands/sensitivity.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "format/taps.h"

namespace kaiju::codec {

/// Mean divergence in nats of a model, all tensors quantised alike, where only those of one layer, and where
/// only those of one role are.
struct Sensitivity {
    std::string type{};  ///< that all of them have: a wire's of this project
    std::map<uint32_t, double> layers{};
    std::map<std::string, double, std::less<>> roles{};

    /// What the tensors of one place cost, as if layers and roles had nothing to do with each other: in
    /// proportion to the product of both. Nothing where one of them was not measured.
    [[nodiscard]] std::optional<double> cost(const format::Place& place) const;
};

[[nodiscard]] nlohmann::json to_json(const Sensitivity& sensitivity);
/// Throws bad_input naming the file and what is wrong with it, missing where it is not there.
[[nodiscard]] Sensitivity read_sensitivity(const std::filesystem::path& path);

}  // namespace kaiju::codec
