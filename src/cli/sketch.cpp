// kaiju sketch ...: what a sketch says, and whether it fits an importance matrix.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "eval/sketch_check.h"
#include "eval/sketch_make.h"
#include "format/sketch.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

struct Options {
    std::string sketch;
    std::string imatrix;
};

/// What the eigenpairs hold of the sum of all mean squares, 0..1.
double captured_share(const format::Sketch& sketch) {
    double low = 0;
    double trace = 0;
    for (const float value : sketch.eigval) {
        low += static_cast<double>(value);
    }
    for (const float square : sketch.diag) {
        trace += static_cast<double>(square);
    }
    return trace > 0 ? low / trace : 0;
}

int info(Session& session, const Options& options) {
    const format::SketchFile file(options.sketch);
    json taps = json::array();
    for (const format::SketchEntry& entry : file.entries()) {
        const format::Sketch sketch = entry.load();
        taps.push_back(
            {{"tap", entry.tap},
             {"dim", entry.dim},
             {"k", entry.k},
             {"samples", entry.samples},
             {"largest_eigenvalue", sketch.eigval.empty() ? json(nullptr) : json(sketch.eigval[0])},
             {"smallest_eigenvalue", sketch.eigval.empty() ? json(nullptr) : json(sketch.eigval.back())},
             {"captured", captured_share(sketch)}});
    }
    if (session.json()) {
        session.print(json{{"model_id", file.model_id()},
                           {"sha256", sha256_file(options.sketch)},
                           {"entries", taps.size()},
                           {"taps", taps}});
        return 0;
    }
    std::string text = fmt::format("model {}\nsha256 {}\n{:<24} {:>7} {:>5} {:>9} {:>9}\n", file.model_id(),
                                   sha256_file(options.sketch), "tap", "dim", "k", "samples", "captured");
    for (const json& tap : taps) {
        text += fmt::format("{:<24} {:>7} {:>5} {:>9} {:>8.1f}%\n", tap.at("tap").get<std::string>(),
                            tap.at("dim").get<uint32_t>(), tap.at("k").get<uint32_t>(),
                            tap.at("samples").get<uint64_t>(), 100 * tap.at("captured").get<double>());
    }
    session.print(text);
    return 0;
}

int check(Session& session, const Options& options) {
    const format::SketchFile file(options.sketch);  // reads and checks everything
    std::vector<eval::TapAgreement> taps;
    if (!options.imatrix.empty()) {
        taps = eval::compare_with_imatrix(file, format::read_imatrix(options.imatrix));
    }
    std::vector<std::string> failed;
    double worst = 1;
    json table = json::array();
    for (const eval::TapAgreement& tap : taps) {
        worst = std::min(worst, tap.correlation);
        table.push_back({{"tap", tap.tap}, {"weight", tap.weight}, {"correlation", tap.correlation}});
        if (!tap.agrees()) {
            failed.push_back(tap.tap);
        }
    }
    for (const eval::TapAgreement& tap : taps) {
        if (!tap.agrees()) {
            session.monitor().warn(
                tap.weight.empty()
                    ? fmt::format("{}: the importance matrix has no matrix behind this tap", tap.tap)
                    : fmt::format("{}: rank correlation {:.4f} with the importance of {}, more than {} is "
                                  "wanted",
                                  tap.tap, tap.correlation, tap.weight, eval::kLeastCorrelation));
        }
    }
    if (session.json()) {
        json answer = {{"pass", failed.empty()}, {"entries", file.entries().size()}, {"failed", failed}};
        if (!taps.empty()) {
            answer["taps"] = table;
            answer["least_correlation"] = worst;
        }
        session.print(answer);
    } else {
        session.print(fmt::format("{}: {} entries, {}{}\n", options.sketch, file.entries().size(),
                                  failed.empty() ? "in order" : "NOT in order",
                                  taps.empty() ? "" : fmt::format("; least rank correlation {:.4f}", worst)));
    }
    return failed.empty() ? 0 : 1;
}

struct MakeOptions {
    std::string covariance;
    std::string out;
    uint32_t k = 32;
    int threads = 1;
};

int make(Session& session, const MakeOptions& options) {
    require_outputs({options.out});
    const format::CovarianceFile file(options.covariance);
    eval::write_sketches(file, options.k, options.out, options.threads, session.monitor());
    const std::string sha256 = sha256_file(options.out);
    if (session.json()) {
        session.print(json{
            {"out", options.out}, {"taps", file.entries().size()}, {"k", options.k}, {"sha256", sha256}});
    } else {
        session.print(
            fmt::format("{}: {} sketches\nsha256 {}\n", options.out, file.entries().size(), sha256));
    }
    return 0;
}

void add_make(CLI::App& group, Session& session) {
    auto options = std::make_shared<MakeOptions>();
    CLI::App* command = add_command(group, session, "from-covariance", "Make a sketch from full covariances",
                                    "kaiju sketch from-covariance model.full --k 64 --out model.sket",
                                    [options](Session& current) { return make(current, *options); });
    command->add_option("covariance", options->covariance, "The file that kaiju capture --full wrote")
        ->required()
        ->type_name("FILE");
    command->add_option("--out", options->out, "The .sket to write")->required()->type_name("FILE");
    command->add_option("--k", options->k, "Eigenpairs of a tap")
        ->capture_default_str()
        ->check(between(0, 65536));
    add_threads(*command, options->threads);
    add_json(*command, session);
}

CLI::App* add_one(CLI::App& group, Session& session, const std::string& name, const std::string& description,
                  const std::string& example, int (*body)(Session&, const Options&),
                  const std::shared_ptr<Options>& options) {
    CLI::App* command = add_command(group, session, name, description, example,
                                    [options, body](Session& current) { return body(current, *options); });
    command->add_option("sketch", options->sketch, "The .sket file")->required()->type_name("FILE");
    add_json(*command, session);
    return command;
}

}  // namespace

void add_sketch(CLI::App& app, Session& session) {
    CLI::App* group = add_group(app, "sketch", "Look at covariance sketches");
    add_one(*group, session, "info", "List the taps of a sketch", "kaiju sketch info model.sket", info,
            std::make_shared<Options>());
    add_make(*group, session);
    auto options = std::make_shared<Options>();
    CLI::App* command = add_one(*group, session, "check",
                                "Check a sketch, and compare it with an importance matrix; exit 0 or 1",
                                "kaiju sketch check model.sket --imatrix model.imatrix.gguf", check, options);
    command
        ->add_option("--imatrix", options->imatrix,
                     "Importance whose ranks the diagonals must have (more than 0.95 at every tap)")
        ->type_name("FILE");
}

}  // namespace kaiju::cli
