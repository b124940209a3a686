// kaiju score: what quantisation cost in the metric of the activations (gate G1).
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "eval/excess_gates.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

struct Options {
    std::string truth;
    std::string imatrix;
    std::string sketch;
    std::string kaiju;
    std::string iq;
    std::vector<std::string> others;
    std::string iq_type;
    double share = 0.5;
    eval::ScoreOptions score;
};

json sums_of(const std::vector<eval::TensorScore>& scores, size_t ks) {
    double diag = 0;
    std::vector<double> full(ks);
    for (const eval::TensorScore& tensor : scores) {
        diag += tensor.diag_excess;
        for (size_t k = 0; k < ks; ++k) {
            full[k] += tensor.full_excess[k];
        }
    }
    return {{"diag_excess", diag}, {"full_excess", full}};
}

json table_of(const std::vector<eval::TensorScore>& scores) {
    json table = json::array();
    for (const eval::TensorScore& tensor : scores) {
        table.push_back({{"name", tensor.name},
                         {"type", tensor.type},
                         {"weights", tensor.weights},
                         {"diag_excess", tensor.diag_excess},
                         {"full_excess", tensor.full_excess}});
    }
    return table;
}

json verdict_of(const eval::G1Result& result, const std::vector<uint32_t>& ks, const std::string& type) {
    json full = json::array();
    for (size_t k = 0; k < result.full.size(); ++k) {
        full.push_back({{"k", ks[k]}, {"ratio", result.full[k].ratio()}, {"shown_by", result.shown[k]}});
    }
    return {
        {"compared_type", type}, {"top_tensors", result.top}, {"diag_ratio", result.diag.ratio()},
        {"full_ratios", full},   {"reason", result.reason},   {"disagreeing_taps", result.disagreeing_taps}};
}

std::string to_text(const json& answer) {
    std::string text;
    for (const json& artifact : answer.at("artifacts")) {
        text += fmt::format("{}: diagonal excess {:.6g}, full excess", artifact.at("path").get<std::string>(),
                            artifact.at("diag_excess").get<double>());
        for (size_t k = 0; k < answer.at("k").size(); ++k) {
            text += fmt::format(" {:.6g} (K = {})", artifact.at("full_excess").at(k).get<double>(),
                                answer.at("k").at(k).get<uint32_t>());
        }
        text += '\n';
    }
    text += fmt::format("least rank correlation with the importance matrix {:.4f}\n",
                        answer.at("least_correlation").get<double>());
    if (answer.contains("g1")) {
        const json& verdict = answer.at("g1");
        text += fmt::format("KAIJU / {} on the {} tensors that carry most: diagonal {:.3f}, full",
                            verdict.at("compared_type").get<std::string>(),
                            verdict.at("top_tensors").get<size_t>(), verdict.at("diag_ratio").get<double>());
        for (const json& full : verdict.at("full_ratios")) {
            text +=
                fmt::format(" {:.3f} (K = {})", full.at("ratio").get<double>(), full.at("k").get<uint32_t>());
        }
        text += fmt::format("\n{}\n", verdict.at("reason").get<std::string>());
    }
    return text + (answer.at("pass").get<bool>() ? "PASS\n" : "FAIL\n");
}

int run(Session& session, const Options& options) {
    const auto truth = format::ModelFile::open(options.truth);
    const format::Imatrix imatrix = format::read_imatrix(options.imatrix);
    const format::SketchFile sketches(options.sketch);
    eval::ScoreOptions score = options.score;
    std::ranges::sort(score.ks);
    const auto taps = eval::compare_with_imatrix(sketches, imatrix);

    std::vector<std::string> paths = {options.kaiju};
    if (!options.iq.empty()) {
        paths.push_back(options.iq);
    }
    paths.insert(paths.end(), options.others.begin(), options.others.end());
    std::vector<std::vector<eval::TensorScore>> scores;
    json artifacts = json::array();
    scores.reserve(paths.size());
    for (const std::string& path : paths) {
        const auto artifact = format::ModelFile::open(path);
        scores.push_back(eval::score_model(*truth, *artifact, imatrix, &sketches, score, session.monitor()));
        json row = sums_of(scores.back(), score.ks.size());
        row["path"] = path;
        row["tensors"] = table_of(scores.back());
        artifacts.push_back(row);
    }
    json answer = {{"gate", "G1"}, {"k", score.ks}, {"artifacts", artifacts}};
    double least = 1;
    bool agrees = true;
    for (const eval::TapAgreement& tap : taps) {
        least = std::min(least, tap.correlation);
        agrees = agrees && tap.agrees();
    }
    answer["least_correlation"] = least;
    answer["pass"] = agrees;
    if (!options.iq.empty()) {
        const std::string type = options.iq_type.empty() ? eval::main_iq_type(scores[1]) : options.iq_type;
        const eval::G1Result result = eval::judge_g1(
            eval::comparable({.kaiju = scores[0], .iq = scores[1]}, type), taps, options.share);
        answer["pass"] = result.pass;
        answer["g1"] = verdict_of(result, score.ks, type);
    }
    if (session.json()) {
        session.print(answer);
    } else {
        session.print(to_text(answer));
    }
    return answer.at("pass").get<bool>() ? 0 : 1;
}

}  // namespace

void add_score(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(
        app, session, "score",
        "Excess of quantised models on the diagonal and in the metric of a sketch (gate G1); exit 0 or 1",
        "kaiju score --truth model-f16.gguf --imatrix model.imatrix.gguf --sketch model.sket --kaiju "
        "model-kaiju1.knot --iq model-iq3_xxs.gguf --json",
        [options](Session& current) { return run(current, *options); });
    const auto file = [&](const std::string& name, std::string& value, const std::string& what) {
        return command->add_option(name, value, what)->type_name("FILE");
    };
    file("--truth", options->truth, "The full-precision weights")->required();
    file("--imatrix", options->imatrix, "Importance matrix")->required();
    file("--sketch", options->sketch, "Sketch with as many eigenpairs as the largest K")->required();
    file("--kaiju", options->kaiju, "The artifact that is judged: .knot")->required();
    file("--iq", options->iq, "The IQ file it is compared with: .gguf");
    command->add_option("--also", options->others, "More artifacts to score (several)")->type_name("FILE");
    command->add_option("--k", options->score.ks, "Eigenpairs of the metric")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option(
        "--iq-type", options->iq_type,
        "Compare the tensors stored at this type (default: the commonest IQ2 or IQ3 type of the "
        "file; any: all)");
    command->add_option("--share", options->share, "Part of the excess that the judged tensors carry")
        ->capture_default_str()
        ->check(between(0.0, 1.0));
    add_threads(*command, options->score.threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
