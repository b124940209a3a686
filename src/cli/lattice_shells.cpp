// kaiju lattice shells: what KAIJU4's code books leave of a Gaussian source.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/lattice_commands.h"
#include "lattice/shell_gate.h"

namespace kaiju::cli {

namespace {

struct Options {
    lattice::ShellGateOptions gate;
    std::vector<int> index_bits = {4, 6, 8, 10, 12};
};

int run_shells(Session& session, const Options& options) {
    nlohmann::json rows = nlohmann::json::array();
    std::string text = fmt::format("{:>2} {:>6} {:>9} {:>8} {:>7} {:>7} {:>12}\n", "g", "bits", "mse",
                                   "over bound", "step", "inside", "to exact");
    for (const int g : options.index_bits) {
        const auto row = lattice::shell_distortion(g, options.gate, session.monitor());
        nlohmann::json entry = {{"index_bits", g},      {"bits", row.bits}, {"mse", row.mse},
                                {"gap_db", row.gap_db}, {"step", row.step}, {"inside", row.inside}};
        std::string exact = "-";
        if (row.exhaustive_mse > 0) {
            const double gap = 10 * std::log10(row.searched_mse / row.exhaustive_mse);
            entry["exhaustive_mse"] = row.exhaustive_mse;
            entry["gap_to_exhaustive_db"] = gap;
            exact = fmt::format("{:.4f} dB", gap);
        }
        rows.push_back(entry);
        text += fmt::format("{:>2} {:>6.2f} {:>9.6f} {:>7.3f} dB {:>7.4f} {:>6.1f}% {:>12}\n", g, row.bits,
                            row.mse, row.gap_db, row.step, 100 * row.inside, exact);
    }
    if (session.json()) {
        session.print(nlohmann::json{{"results", rows}, {"blocks", options.gate.blocks}});
    } else {
        session.print(text);
    }
    return 0;
}

}  // namespace

void add_lattice_shells(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        add_command(group, session, "shells", "Distortion of KAIJU4's code books on a Gaussian source",
                    "kaiju lattice shells --index-bits 4,6,8 --blocks 100000 --exhaustive 1000",
                    [options](Session& current) { return run_shells(current, *options); });
    command->add_option("--index-bits", options->index_bits, "Code books, by the bits of an index, 3 to 12")
        ->delimiter(',')
        ->check(between(lattice::kLeastIndexBits, lattice::kMostIndexBits))
        ->capture_default_str();
    command->add_option("--blocks", options->gate.blocks, "Blocks of 24 to encode")
        ->check(between(16, 100000000))
        ->capture_default_str();
    command
        ->add_option("--exhaustive", options->gate.exhaustive,
                     "Of so many of them search all code words, too")
        ->capture_default_str();
    command->add_option("--seed", options->gate.seed, "Of the source")->capture_default_str();
    add_threads(*command, options->gate.threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
