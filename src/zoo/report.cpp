#include "zoo/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>

#include "base/error.h"
#include "format/strict_json.h"

namespace kaiju::zoo {

using nlohmann::json;

namespace {

constexpr size_t kMostTensors = 12;
constexpr std::array<std::string_view, 7> kSteps{"fetch",  "ladder", "encode", "assemble",
                                                 "verify", "gate",   "publish"};  ///< as they follow
constexpr uint64_t kLongest = uint64_t{64} << 20;

std::optional<double> number(const json& object, const std::string& key) {
    const auto at = object.find(key);
    return at != object.end() && at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
}

class Collector {
  public:
    Collector(Zoo& zoo, Monitor& monitor)
        : zoo_(zoo), monitor_(monitor), listing_(zoo.store().list("models/")) {}

    ReportModel model(const ModelStanding& standing, const std::vector<Attempt>& attempts) {
        const Model& model = *standing.model;
        ReportModel made{.id = model.id,
                         .family = model.family,
                         .size = model.size,
                         .standing = std::string(standing_name(standing.standing)),
                         .note = standing.note};
        add_rungs(made);
        for (const Attempt& attempt : attempts) {
            if (attempt.model == model.id && attempt.kind == "encode") {
                add_knot(made, attempt);
            }
        }
        return made;
    }

  private:
    /// The object as JSON; nothing where it is not there or cannot be read.
    std::optional<json> object(const std::string& key) {
        if (!listing_.contains(key)) {
            return std::nullopt;
        }
        try {
            return format::parse_strict_json(get_text(zoo_.store(), key, kLongest));
        } catch (const Error& error) {
            monitor_.warn(fmt::format("{}: {}", key, error.what()));
            return std::nullopt;
        }
    }

    void add_rungs(ReportModel& model) {
        const auto ladder = object(fmt::format("models/iq-ladder/{0}/{0}.ladder.json", model.id));
        if (!ladder || !ladder->is_object() || !ladder->contains("rungs")) {
            return;
        }
        for (const json& rung : ladder->at("rungs")) {
            if (rung.is_object() && number(rung, "bytes")) {
                const bool fell_back = number(rung, "share").value_or(1) == 0;
                model.points.push_back({.label = format::find_text(rung, "type").value_or("?") +
                                                 (fell_back ? " (fallback types)" : ""),
                                        .bytes = *number(rung, "bytes"),
                                        .ppl = number(rung, "ppl"),
                                        .mean_kl = number(rung, "mean_kl")});
            }
        }
    }

    void add_knot(ReportModel& model, const Attempt& attempt) {
        const std::string stem = attempt.key.substr(0, attempt.key.rfind(".knot"));
        if (listing_.contains(stem + ".gate.log")) {
            try {
                model.gate = get_text(zoo_.store(), stem + ".gate.log", kLongest);
            } catch (const Error& error) {
                monitor_.warn(error.what());
            }
        }
        const Object* const knot = listing_.first_with(attempt.key);
        const auto gate = object(stem + ".gate.json");
        if (knot != nullptr && knot->key == attempt.key) {
            ReportPoint point{.label = attempt.name.substr(model.id.size() + 1),
                              .bytes = static_cast<double>(knot->size),
                              .ppl = {},
                              .mean_kl = {},
                              .ours = true};
            if (gate && gate->is_object()) {
                point.ppl = number(*gate, "ppl");
                point.mean_kl = number(*gate, "mean_kl");
            }
            model.points.push_back(point);
        }
        if (const auto telemetry = object(stem + ".telemetry.json")) {
            add_tensors(model, *telemetry);
        }
    }

    static void add_tensors(ReportModel& model, const json& telemetry) {
        model.tensors.clear();
        if (!telemetry.is_object() || !telemetry.contains("tensors") || !telemetry.at("tensors").is_array()) {
            return;
        }
        double total = 0;
        for (const json& tensor : telemetry.at("tensors")) {
            const auto excess = tensor.is_object() ? number(tensor, "diagonal_excess") : std::nullopt;
            if (excess) {
                total += *excess;
                model.tensors.push_back({.name = format::find_text(tensor, "name").value_or("?"),
                                         .excess = number(tensor, "relative_excess").value_or(0),
                                         .share = *excess});
            }
        }
        std::sort(model.tensors.begin(), model.tensors.end(),
                  [](const ReportTensor& a, const ReportTensor& b) { return a.share > b.share; });
        model.tensors.resize(std::min(model.tensors.size(), kMostTensors));
        for (ReportTensor& tensor : model.tensors) {
            tensor.share = total > 0 ? tensor.share / total : 0;
        }
    }

    Zoo& zoo_;
    Monitor& monitor_;
    Listing listing_;
};

}  // namespace

Report collect_report(Zoo& zoo, Monitor& monitor) {
    Report report{.title = "The zoo of " + zoo.store().address(),
                  .made = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)))};
    const std::vector<Attempt> attempts = zoo.state().attempts();
    Collector collector(zoo, monitor);
    for (const ModelStanding& standing : zoo.standings()) {
        report.models.push_back(collector.model(standing, attempts));
    }
    for (const Attempt& attempt : attempts) {
        ReportRun run{.name = attempt.name, .state = attempt.state, .verdict = attempt.verdict};
        std::map<std::string, double> steps = zoo.state().steps(attempt.id);
        for (const std::string_view step : kSteps) {
            if (const auto at = steps.find(std::string(step)); at != steps.end()) {
                run.steps.emplace_back(at->first, at->second);
            }
        }
        report.runs.push_back(std::move(run));
    }
    return report;
}

}  // namespace kaiju::zoo
