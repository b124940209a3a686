// The options of the v3 encoder, as commands take them.
#pragma once

#include <optional>
#include <string>

#include "cli/numbers.h"
#include "codec/encoder_v3.h"

namespace kaiju::cli {

struct V3Flags {
    codec::V3Options values;
    std::string fold{stats::fold_name(values.fold)};
    std::string codebook = "free";
    std::string order = "activation";
    std::string side_band = "last";
    bool keep_scale = false;
    std::optional<int> step_search;
    std::optional<int> sweeps;

    /// What was not asked for is as v3_defaults has it. Throws usage for names that are not known.
    [[nodiscard]] codec::V3Options options(bool full_covariance) const;
};

void add_v3_flags(CLI::App& command, V3Flags& flags);

}  // namespace kaiju::cli
