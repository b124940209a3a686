#include "cli/v3_flags.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace kaiju::cli {

codec::V3Options V3Flags::options(bool full_covariance, bool kaiju4) const {
    codec::V3Options made = values;
    made.fold = stats::fold_of(fold);
    const codec::V3Options defaults = codec::v3_defaults(full_covariance);
    made.step_search = step_search.value_or(defaults.step_search);
    made.sweeps = sweeps.value_or(made.fold == stats::Fold::ldlq ? defaults.sweeps : 0);
    if (codebook != "free" && codebook != "leech") {
        throw Error(ErrorCode::usage, fmt::format("--codebook {}: free and leech are known", codebook));
    }
    made.codebook = codebook == "free" ? lattice::Parity::free : lattice::Parity::kept;
    if (order != "natural" && order != "activation") {
        throw Error(ErrorCode::usage, fmt::format("--order {}: natural and activation are known", order));
    }
    made.activation_order = order == "activation";
    if (side_band != "first" && side_band != "last") {
        throw Error(ErrorCode::usage, fmt::format("--side-band {}: first and last are known", side_band));
    }
    made.side_band = side_band == "last" ? stats::SideBand::last : stats::SideBand::first;
    made.refit_scale = refit_scale || (!keep_scale && !kaiju4);
    return made;
}

void V3Flags::require_reader(std::string_view encoder) const {
    if (encoder == "v3") {
        return;
    }
    for (const CLI::Option* option : options_of_v3) {
        if (option->count() > 0) {
            throw Error(ErrorCode::usage, fmt::format("{} is read by --encoder v3 alone, not by {}",
                                                      option->get_name(), encoder));
        }
    }
}

void add_v3_flags(CLI::App& command, V3Flags& flags, std::vector<const CLI::Option*> more) {
    const std::vector<CLI::Option*> before = command.get_options();
    command
        .add_option(
            "--fold", flags.fold,
            "v3: error feedback, ldlq, none or published (the first published form, worse than none: for "
            "comparing)")
        ->capture_default_str();
    const auto* steps = command.add_option(
        "--step-search", flags.step_search,
        "v3, KAIJU1: step multipliers tried per block, 1 to 16 (default: 4 with a sketch, 5 with a full "
        "covariance)");
    const auto* codebook =
        command
            .add_option("--codebook", flags.codebook,
                        "v3, KAIJU1: free: every code word of the wire; leech: those that are lattice points")
            ->capture_default_str();
    command
        .add_option("--comp-cap", flags.values.comp_cap,
                    "v3: feedback moves a block by at most this times its norm; 0: no cap")
        ->capture_default_str();
    command.add_option("--damp", flags.values.damp,
                       "v3: part of the mean diagonal added to the covariance, 0 to 1 (default: 0.01; "
                       "KAIJU4 with a full covariance: 0.4 inputs / samples where that is more)");
    command.add_option(
        "--sweeps", flags.sweeps,
        "v3: rounds over all blocks with the others fixed (default: 0 with a sketch, 1 with a full "
        "covariance)");
    const auto* candidates =
        command
            .add_option("--candidates", flags.values.candidates,
                        "v3, KAIJU4: code words compared in the metric per step, 1 to 16")
            ->capture_default_str();
    command
        .add_option("--descent", flags.values.descent,
                    "v3: single-coordinate moves tried on a block's best code word (codebook free)")
        ->capture_default_str();
    const auto* order = command
                            .add_option("--order", flags.order,
                                        "v3, KAIJU1: activation: columns of large importance are committed "
                                        "first; natural: as they stand")
                            ->capture_default_str();
    const auto* side_band = command
                                .add_option("--side-band", flags.side_band,
                                            "v3, KAIJU1: last: the 8-bit columns take up what the blocks "
                                            "leave; first: their errors are fed to the "
                                            "blocks")
                                ->capture_default_str();
    auto* const keep = command.add_flag("--keep-scale", flags.keep_scale,
                                        "v3: leave row scales as the rows' RMS suggests (KAIJU4's default)");
    command
        .add_flag("--refit-scale", flags.refit_scale,
                  "v3: fit row scales to the codes in closed form (KAIJU1's default)")
        ->excludes(keep);
    flags.of_kaiju1 = {steps, codebook, order, side_band};
    flags.of_kaiju4 = {candidates};
    flags.options_of_v3 = std::move(more);
    for (const CLI::Option* option : command.get_options()) {
        if (std::find(before.begin(), before.end(), option) == before.end()) {
            flags.options_of_v3.push_back(option);
        }
    }
}

}  // namespace kaiju::cli
