// The options of the v3 encoder, as commands take them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
    bool refit_scale = false;
    std::optional<int> step_search;
    std::optional<int> sweeps;

    /// What was not asked for is as v3_defaults has it. Throws usage for names that are not known.
    [[nodiscard]] codec::V3Options options(bool full_covariance, bool kaiju4) const;

    /// Throws usage where an option that only v3 reads was given to another encoder.
    void require_reader(std::string_view encoder) const;
    std::vector<const CLI::Option*> options_of_v3;  ///< those of the command
    std::vector<const CLI::Option*> of_kaiju1;      ///< of these, what only KAIJU1's encoder reads
    std::vector<const CLI::Option*> of_kaiju4;
};

/// Adds them; `more` are options of the command that only v3 reads too.
void add_v3_flags(CLI::App& command, V3Flags& flags, std::vector<const CLI::Option*> more);

}  // namespace kaiju::cli
