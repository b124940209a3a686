// kaiju shootout: lattices against each other, and a knot against an IQ file on the diagonal (gate G0).
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "cli/engine_options.h"
#include "eval/excess_gates.h"
#include "eval/lattice_shootout.h"
#include "eval/perplexity.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

constexpr std::array kLattices = {eval::LatticeKind::z, eval::LatticeKind::e8, eval::LatticeKind::leech};

struct Options {
    std::string mode = "gap";
    EngineArguments engine;
    std::string model;
    size_t blocks = 20'000;
    double step = 0.1;
    std::vector<double> bits = {2, 2.5, 3, 3.5, 4};
    std::string truth;
    std::string imatrix;
    std::string kaiju;
    std::string iq;
    std::string iq_type;
    std::string text;
    std::optional<double> kaiju_ppl;
    std::optional<double> iq_ppl;
    eval::PerplexityOptions perplexity;
};

void require(const std::string& value, const char* option, const std::string& mode) {
    if (value.empty()) {
        throw Error(ErrorCode::usage, fmt::format("--mode {} wants {}", mode, option));
    }
}

/// Blocks of a model, or a Gaussian source where none is given.
std::vector<float> values_of(const Options& options) {
    if (!options.model.empty()) {
        return eval::sample_blocks(*format::ModelFile::open(options.model), options.blocks);
    }
    constexpr size_t kBlock = 24;
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(options.blocks * kBlock);
    for (float& value : values) {
        value = normal(random);
    }
    return values;
}

int lattices(Session& session, const Options& options) {
    const std::vector<float> values = values_of(options);
    std::vector<eval::LatticeFigures> rows;
    if (options.mode == "gap") {
        for (const auto kind : kLattices) {
            rows.push_back(eval::measure_lattice(kind, values, options.step, options.engine.threads));
        }
    } else {
        for (const double bits : options.bits) {
            for (const auto kind : kLattices) {
                rows.push_back(eval::measure_lattice_at(kind, values, bits, options.engine.threads));
            }
        }
    }
    json results = json::array();
    std::string text = fmt::format("{:<6} {:>8} {:>7} {:>10} {:>13} {:>12} {:>11}\n", "lattice", "step",
                                   "bits", "mse", "second moment", "to sphere", "to bound");
    for (const eval::LatticeFigures& row : rows) {
        results.push_back({{"lattice", eval::lattice_name(row.kind)},
                           {"step", row.step},
                           {"bits", row.bits},
                           {"mse", row.mse},
                           {"second_moment", row.second_moment()},
                           {"gap_to_sphere_db", row.gap_to_sphere_db()},
                           {"gap_to_bound_db", row.gap_to_bound_db()}});
        text += fmt::format("{:<6} {:>8.4f} {:>7.3f} {:>10.6f} {:>13.6f} {:>9.3f} dB {:>8.3f} dB\n",
                            eval::lattice_name(row.kind), row.step, row.bits, row.mse, row.second_moment(),
                            row.gap_to_sphere_db(), row.gap_to_bound_db());
    }
    if (session.json()) {
        session.print(json{{"mode", options.mode},
                           {"source", options.model.empty() ? "gaussian" : options.model},
                           {"blocks", values.size() / 24},
                           {"results", results}});
    } else {
        session.print(text);
    }
    return 0;
}

std::optional<double> perplexity_of(Session& session, const Options& options, const std::string& path,
                                    const std::optional<double>& given) {
    if (given || options.text.empty()) {
        return given;
    }
    eval::PerplexityOptions measure = options.perplexity;
    measure.threads = options.engine.threads;
    const auto model = load_engine(path, options.engine, session.monitor());
    return eval::measure_perplexity(*model, nullptr, read_text(options.text), measure, session.monitor()).ppl;
}

json sums_json(const eval::ExcessSums& sums) {
    return {{"tensors", sums.tensors},
            {"weights", sums.weights},
            {"kaiju", sums.kaiju},
            {"iq", sums.iq},
            {"ratio", sums.ratio()}};
}

json answer_of(const eval::ScorePair& pair, const eval::G0Result& result) {
    json tensors = json::array();
    for (size_t i = 0; i < pair.kaiju.size(); ++i) {
        tensors.push_back({{"name", pair.kaiju[i].name},
                           {"kaiju_type", pair.kaiju[i].type},
                           {"iq_type", pair.iq[i].type},
                           {"kaiju", pair.kaiju[i].diag_excess},
                           {"iq", pair.iq[i].diag_excess}});
    }
    json roles = json::object();
    for (const auto& [role, sums] : result.roles) {
        roles[role] = sums_json(sums);
    }
    return {{"gate", "G0"},
            {"pass", result.pass},
            {"reason", result.reason},
            {"diag_excess", sums_json(result.diag)},
            {"roles", roles},
            {"bad_roles", result.bad_roles},
            {"tensors", tensors}};
}

int model_gap(Session& session, const Options& options) {
    require(options.truth, "--truth", options.mode);
    require(options.imatrix, "--imatrix", options.mode);
    require(options.kaiju, "--kaiju", options.mode);
    require(options.iq, "--iq", options.mode);
    const auto truth = format::ModelFile::open(options.truth);
    const format::Imatrix imatrix = format::read_imatrix(options.imatrix);
    const auto score = [&](const std::string& path) {
        return eval::score_model(*truth, *format::ModelFile::open(path), imatrix, nullptr,
                                 {.ks = {}, .threads = options.engine.threads}, session.monitor());
    };
    const eval::ScorePair all{.kaiju = score(options.kaiju), .iq = score(options.iq)};
    const std::string type = options.iq_type.empty() ? eval::main_iq_type(all.iq) : options.iq_type;
    const eval::ScorePair pair = eval::comparable(all, type);
    const auto kaiju_ppl = perplexity_of(session, options, options.kaiju, options.kaiju_ppl);
    const auto iq_ppl = perplexity_of(session, options, options.iq, options.iq_ppl);
    const eval::G0Result result = eval::judge_g0(pair, kaiju_ppl, iq_ppl);
    json answer = answer_of(pair, result);
    answer["compared_type"] = type;
    answer["kaiju_ppl"] = kaiju_ppl ? json(*kaiju_ppl) : json(nullptr);
    answer["iq_ppl"] = iq_ppl ? json(*iq_ppl) : json(nullptr);
    if (session.json()) {
        session.print(answer);
        return result.pass ? 0 : 1;
    }
    std::string text =
        fmt::format("{:<36} {:>8} {:>14} {:>14} {:>7}\n", "tensor", "IQ type", "KAIJU", "IQ", "ratio");
    for (size_t i = 0; i < pair.kaiju.size(); ++i) {
        text += fmt::format("{:<36} {:>8} {:>14.6g} {:>14.6g} {:>7.3f}\n", pair.kaiju[i].name,
                            pair.iq[i].type, pair.kaiju[i].diag_excess, pair.iq[i].diag_excess,
                            pair.kaiju[i].diag_excess / pair.iq[i].diag_excess);
    }
    for (const auto& [role, sums] : result.roles) {
        text += fmt::format("{:<36} {:>8} {:>14.6g} {:>14.6g} {:>7.3f}\n", role, sums.tensors, sums.kaiju,
                            sums.iq, sums.ratio());
    }
    text += fmt::format("{:<36} {:>8} {:>14.6g} {:>14.6g} {:>7.3f}\n", "all that are compared",
                        result.diag.tensors, result.diag.kaiju, result.diag.iq, result.diag.ratio());
    if (kaiju_ppl && iq_ppl) {
        text += fmt::format("perplexity {:.4f} and {:.4f}\n", *kaiju_ppl, *iq_ppl);
    }
    session.print(text + result.reason + (result.pass ? "\nPASS\n" : "\nFAIL\n"));
    return result.pass ? 0 : 1;
}

int run(Session& session, const Options& options) {
    return options.mode == "model-gap" ? model_gap(session, options) : lattices(session, options);
}

}  // namespace

void add_shootout(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(
        app, session, "shootout", "Lattices against each other; a knot against an IQ file (gate G0)",
        "kaiju shootout --mode model-gap --truth model-f16.gguf --imatrix model.imatrix.gguf --kaiju "
        "model-kaiju1.knot --iq model-iq3_xxs.gguf --text eval.txt --chunks 20",
        [options](Session& current) { return run(current, *options); });
    command->add_option("--mode", options->mode, "What to compare")
        ->check(CLI::IsMember({"gap", "rate-distortion", "model-gap"}))
        ->capture_default_str();
    const auto file = [&](const std::string& name, std::string& value, const std::string& what) {
        command->add_option(name, value, what)->type_name("FILE");
    };
    file("--model", options->model,
         "gap, rate-distortion: take rows of this model (default: a Gaussian source)");
    command->add_option("--blocks", options->blocks, "gap, rate-distortion: blocks of 24 values")
        ->capture_default_str()
        ->check(between(1, 10'000'000));
    command->add_option("--step", options->step, "gap: step, for values of unit variance")
        ->capture_default_str();
    command->add_option("--bits", options->bits, "rate-distortion: bits a value")
        ->delimiter(',')
        ->capture_default_str();
    file("--truth", options->truth, "model-gap: the full-precision weights");
    file("--imatrix", options->imatrix, "model-gap: importance matrix");
    file("--kaiju", options->kaiju, "model-gap: .knot");
    file("--iq", options->iq, "model-gap: .gguf of an IQ type");
    command->add_option(
        "--iq-type", options->iq_type,
        "model-gap: compare the tensors stored at this type (default: the commonest IQ2 or IQ3 "
        "type of the file; any: all)");
    file("--text", options->text, "model-gap: measure both perplexities on it");
    command->add_option("--kaiju-ppl", options->kaiju_ppl, "model-gap: the perplexity, where it is known");
    command->add_option("--iq-ppl", options->iq_ppl, "model-gap: the other one");
    command->add_option("--ctx", options->perplexity.ctx, "Tokens of a chunk")->capture_default_str();
    command->add_option("--chunks", options->perplexity.chunks, "Measure the first N chunks only")
        ->type_name("N");
    add_engine_options(*command, options->engine);
    add_json(*command, session);
}

}  // namespace kaiju::cli
