// The zoo as one page.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "zoo/prerequisites.h"
#include "zoo/zoo.h"

namespace kaiju::zoo {

/// One artifact of a model in the plots.
struct ReportPoint {
    std::string label;
    double bytes = 0;
    std::optional<double> ppl;
    std::optional<double> mean_kl;
    bool ours = false;  ///< a knot of this project; otherwise a stock quantisation
};

/// A tensor's cost.
struct ReportTensor {
    std::string name;
    double excess = 0;  ///< relative
    double share = 0;   ///< of the model's excess
};

struct ReportModel {
    std::string id;
    std::string family;
    std::string size;
    std::string standing;
    std::string note;
    std::vector<ReportPoint> points{};
    std::vector<ReportTensor> tensors{};  ///< those that cost most
    std::string gate{};                   ///< the log of the last gate
};

struct ReportRun {
    std::string name;
    std::string state;
    std::string verdict;
    std::vector<std::pair<std::string, double>> steps{};  ///< name, seconds
};

struct Report {
    std::string title;
    std::string made;  ///< when
    std::vector<ReportModel> models{};
    std::vector<ReportRun> runs{};
};

/// Reads what the store has beside the knots: gate figures, telemetry, ladders. What is missing or cannot be
/// read is left out, with a warning.
[[nodiscard]] Report collect_report(Zoo& zoo, Monitor& monitor);

/// One HTML file that needs nothing else: no network, no scripts. Everything from files is escaped.
[[nodiscard]] std::string to_html(const Report& report);

}  // namespace kaiju::zoo
