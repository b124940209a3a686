// kaiju lattice gate: gate G2, the proof that a decoder finds nearest points.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/lattice_commands.h"
#include "cli/line_reader.h"
#include "lattice/gate.h"

namespace kaiju::cli {

namespace {

using lattice::kDimension;
using nlohmann::json;

struct Options {
    std::string decoder{lattice::decoder_names().front()};
    lattice::GateOptions gate;
    std::string model;
    std::string block_file;
    std::string known_file;
};

/// Raw little-endian float32, 24 per block.
std::vector<float> file_blocks(const std::string& path) {
    const MappedFile file(path);
    const Bytes bytes = file.bytes();
    if (bytes.size() % (kDimension * sizeof(float)) != 0 || bytes.empty()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: {} bytes are not whole blocks of 24 float32", path, bytes.size()));
    }
    std::vector<float> blocks(bytes.size() / sizeof(float));
    std::memcpy(blocks.data(), bytes.data(), bytes.size());
    const auto bad =
        std::find_if(blocks.begin(), blocks.end(), [](float value) { return !std::isfinite(value); });
    if (bad != blocks.end()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: block {}: {} is not finite", path,
                                static_cast<size_t>(bad - blocks.begin()) / kDimension, *bad));
    }
    return blocks;
}

std::vector<lattice::KnownPoint> known_points(const std::string& path, const Monitor& monitor) {
    LineReader file(path, monitor);
    std::vector<lattice::KnownPoint> points;
    for (auto line = file.next(); line; line = file.next()) {
        try {
            const json parsed = json::parse(*line);
            points.push_back(
                {parsed.at("y").get<std::array<double, kDimension>>(), parsed.at("d2").get<double>()});
        } catch (const json::exception&) {
            throw Error(ErrorCode::bad_input,
                        fmt::format(R"({}: line {}: expected {{"y": [24 numbers], "d2": number}})", path,
                                    points.size() + 1));
        }
    }
    if (points.empty()) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: no point could be read from it", path));
    }
    return points;
}

int run_gate_command(Session& session, const Options& options) {
    const auto decoder = lattice::make_decoder(options.decoder);
    if (options.gate.blocks == 0 && !(options.model.empty() && options.block_file.empty())) {
        throw Error(ErrorCode::usage,
                    "--model and --block-file give blocks, and --blocks 0 tests none of them");
    }
    std::vector<float> weights;
    if (!options.model.empty()) {
        weights = model_blocks(options.model, options.gate.blocks);
    }
    if (!options.block_file.empty()) {
        const std::vector<float> more = file_blocks(options.block_file);
        weights.insert(weights.end(), more.begin(), more.end());
    }
    std::vector<lattice::KnownPoint> known;
    if (!options.known_file.empty()) {
        known = known_points(options.known_file, session.monitor());
    }
    const lattice::GateReport report =
        lattice::run_gate(*decoder, options.gate, weights, known, session.monitor());
    if (session.json()) {
        json sets = json::array();
        for (const lattice::GateSet& set : report.sets) {
            sets.push_back({{"name", set.name},
                            {"points", set.points},
                            {"different", set.different},
                            {"far", set.far},
                            {"outside", set.outside},
                            {"largest_gap", set.largest_gap},
                            {"pass", set.pass()}});
        }
        session.print(json{{"pass", report.pass()},
                           {"decoder", decoder->name()},
                           {"simd", decoder->simd()},
                           {"sets", sets},
                           {"second_moment",
                            {{"points", report.moment_points},
                             {"value", report.second_moment},
                             {"standard_error", report.standard_error},
                             {"expected", lattice::kSecondMoment},
                             {"pass", report.moment_points == 0 || report.moment_passes()}}},
                           {"non_finite_refused", report.non_finite_refused}});
        return report.pass() ? 0 : 1;
    }
    std::string text =
        fmt::format("decoder {} on {}\n{:<22} {:>10} {:>10} {:>8} {:>8} {:>12}\n", decoder->name(),
                    decoder->simd(), "points", "count", "different", "far", "outside", "largest gap");
    for (const lattice::GateSet& set : report.sets) {
        text += fmt::format("{:<22} {:>10} {:>10} {:>8} {:>8} {:>12.3g}\n", set.name, set.points,
                            set.different, set.far, set.outside, set.largest_gap);
    }
    if (report.moment_points != 0) {
        text += fmt::format("second moment {:.7f} +- {:.7f} over {} points, expected {:.7f}: {}\n",
                            report.second_moment, report.standard_error, report.moment_points,
                            lattice::kSecondMoment, report.moment_passes() ? "pass" : "FAIL");
    }
    text += fmt::format("values that are not finite are {}\n",
                        report.non_finite_refused ? "refused" : "ACCEPTED");
    text += fmt::format("gate G2: {}\n", report.pass() ? "pass" : "FAIL");
    session.print(text);
    return report.pass() ? 0 : 1;
}

}  // namespace

void add_lattice_gate(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* gate = add_command(group, session, "gate",
                                 "Gate G2: compare a decoder with the exhaustive one, point by point, and "
                                 "with a search in doubles on the "
                                 "unrounded input; check that every answer is a lattice point, the second "
                                 "moment, and that bad input is "
                                 "refused. Exit code 1 if anything differs.",
                                 "kaiju lattice gate --model model-f16.gguf --json",
                                 [options](Session& s) { return run_gate_command(s, *options); });
    std::vector<std::string> names(lattice::decoder_names().begin(), lattice::decoder_names().end());
    gate->add_option("--decoder", options->decoder, "The decoder to prove")
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    gate->add_option("--uniform", options->gate.uniform, "Uniform points")->capture_default_str();
    gate->add_option("--structured", options->gate.structured,
                     "Points where ties are: half-grid values, zeros, deep holes, midpoints, huge values")
        ->capture_default_str();
    gate->add_option("--blocks", options->gate.blocks,
                     "Blocks at encoder steps, of each kind: Gaussian, Laplacian, real")
        ->capture_default_str();
    gate->add_option("--code-words", options->gate.code_words,
                     "Blocks for the search of the finite code book, parity kept and free")
        ->capture_default_str();
    gate->add_option("--moment", options->gate.moment,
                     fmt::format("Points for the second moment: 0 (no such test), or {} and more",
                                 lattice::kFewestForMoment))
        ->capture_default_str();
    gate->add_option("--seed", options->gate.seed, "Seed of the points")->capture_default_str();
    gate->add_option("--model", options->model,
                     "Take real blocks from the matrices of this model (.gguf or .knot)")
        ->type_name("FILE");
    gate->add_option("--block-file", options->block_file,
                     "Take real blocks from raw little-endian float32, 24 per block")
        ->type_name("FILE");
    gate->add_option("--known", options->known_file,
                     "Points with known distances, {\"y\": [24], \"d2\": n} per line")
        ->type_name("FILE");
    add_threads(*gate, options->gate.threads);
    add_json(*gate, session);
}

}  // namespace kaiju::cli
