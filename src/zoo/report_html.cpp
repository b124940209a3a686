// The page itself: inline style and SVG, nothing from elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "zoo/report.h"

namespace kaiju::zoo {

namespace {

constexpr std::string_view kStyle = R"(
:root{--ground:#fbfaf7;--card:#fff;--ink:#1d1f21;--soft:#63676b;--line:#dcd9d1;--ours:#b3261e;--stock:#2f6690;--good:#2c6e49;--bad:#b3261e;--wait:#8a6d1d}
@media (prefers-color-scheme:dark){:root{--ground:#15171a;--card:#1d2024;--ink:#e8e6e1;--soft:#9da2a8;--line:#363a40;--ours:#ff8a7a;--stock:#7db8e8;--good:#7fd1a0;--bad:#ff8a7a;--wait:#e0bf62}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:1.5rem 1rem 4rem;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.35rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.05rem;margin:2.2rem 0 .6rem}h3{font-size:1rem;margin:0 0 .2rem;overflow-wrap:anywhere}
p{margin:.2rem 0}.soft{color:var(--soft)}
.tiles{display:flex;flex-wrap:wrap;gap:.5rem;margin:1rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.5rem .9rem;min-width:6rem}
.tile b{display:block;font-size:1.4rem;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px;background:var(--card)}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}th{font-weight:600;color:var(--soft);white-space:nowrap}th.n{text-align:right}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.standing{white-space:nowrap}
.done{color:var(--good)}.failed,.cancelled{color:var(--bad)}.running,.ready,.to-feed,.waiting{color:var(--wait)}.on-hold,.out-of-scope{color:var(--soft)}
.model{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.9rem 1rem;margin:.8rem 0}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:1rem;margin-top:.6rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:11px system-ui,sans-serif}svg .label{fill:var(--ink);paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}
.bars svg{min-width:34rem;max-width:46rem}
svg .axis{stroke:var(--line)}svg .ours{fill:var(--ours)}svg .stock{fill:var(--stock)}svg .bar{fill:var(--stock)}
details{margin-top:.6rem}summary{cursor:pointer;color:var(--soft)}pre{overflow-x:auto;font-size:12px;margin:.4rem 0 0}
.key i{display:inline-block;width:.7em;height:.7em;border-radius:50%;margin:0 .3em 0 .8em}
@media (max-width:40rem){.models tr{display:grid;grid-template-columns:1fr auto;border-bottom:1px solid var(--line)}
.models tr:first-child,.models .detail{display:none}.models tr:last-child,.models td{border-bottom:0}
.models td:first-child{overflow-wrap:anywhere}.models td.soft{grid-column:1/-1;padding-top:0}.models td.soft:empty{display:none}}
)";

std::string escaped(std::string_view text) {
    std::string safe;
    for (const char c : text) {
        switch (c) {
            case '&':
                safe += "&amp;";
                break;
            case '<':
                safe += "&lt;";
                break;
            case '>':
                safe += "&gt;";
                break;
            case '"':
                safe += "&quot;";
                break;
            default:
                safe += static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t' ? ' ' : c;
        }
    }
    return safe;
}

std::string bytes_text(double bytes) {
    constexpr double kKilo = 1000;
    constexpr std::array<std::string_view, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;
    while (bytes >= kKilo && unit + 1 < kUnits.size()) {
        bytes /= kKilo;
        ++unit;
    }
    return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string value_text(double value) {
    return fmt::format("{:.3g}", value);
}

/// One axis: a range of values, where they lie on the page, and round values to mark.
class Axis {
  public:
    Axis(double low, double high, bool logarithmic, double from, double to)
        : log_(logarithmic && low > 0), from_(from), to_(to) {
        low_ = scale(low);
        high_ = scale(high);
        const double room = high_ > low_ ? 0.12 * (high_ - low_)
                            : log_       ? 0.2
                                         : std::max(0.05 * std::fabs(high_), 1e-9);
        low_ -= room;
        high_ += room;
        if (!log_ && low >= 0) {
            low_ = std::max(low_, 0.0);
        }
    }
    [[nodiscard]] double at(double value) const {
        return from_ + (scale(value) - low_) / (high_ - low_) * (to_ - from_);
    }
    [[nodiscard]] std::vector<double> marks() const {
        constexpr int kWanted = 4;
        std::vector<double> found;
        const double first = unscale(low_);
        const double last = unscale(high_);
        const double raw = (last - first) / kWanted;
        const double power = std::pow(10.0, std::floor(std::log10(raw)));
        const double ratio = raw / power;
        const double step = power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
        for (double mark = std::ceil(first / step) * step; mark <= last && found.size() < 10; mark += step) {
            if (!log_ || mark > 0) {
                found.push_back(mark);
            }
        }
        return found;
    }

  private:
    [[nodiscard]] double scale(double value) const { return log_ ? std::log10(value) : value; }
    [[nodiscard]] double unscale(double value) const { return log_ ? std::pow(10.0, value) : value; }
    bool log_;
    double from_;
    double to_;
    double low_ = 0;
    double high_ = 1;
};

using Figure = std::function<std::optional<double>(const ReportPoint&)>;

/// Size against a figure that is better when it is smaller.
std::string scatter(const ReportModel& model, const std::string& title, const Figure& figure,
                    bool logarithmic) {
    constexpr double kWidth = 420;
    constexpr double kHeight = 240;
    constexpr double kLeft = 56;
    constexpr double kBottom = 38;
    constexpr double kTop = 26;
    constexpr double kRight = 14;
    std::vector<std::pair<const ReportPoint*, double>> points;
    for (const ReportPoint& point : model.points) {
        if (const auto value = figure(point); value && std::isfinite(*value)) {
            points.emplace_back(&point, *value);
        }
    }
    if (points.empty()) {
        return {};
    }
    const auto by_size = [](const auto& a, const auto& b) { return a.first->bytes < b.first->bytes; };
    const auto by_value = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [small, large] = std::minmax_element(points.begin(), points.end(), by_size);
    const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_value);
    const Axis x(small->first->bytes, large->first->bytes, false, kLeft, kWidth - kRight);
    const Axis y(low->second, high->second, logarithmic, kHeight - kBottom, kTop);
    std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} of {} by size\">",
                                  kWidth, kHeight, escaped(title), escaped(model.id));
    svg += fmt::format("<text class=\"label\" x=\"{}\" y=\"14\">{}</text>", kLeft, escaped(title));
    for (const double mark : y.marks()) {
        svg += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
                           kWidth - kRight, y.at(mark), y.at(mark));
        svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 6,
                           y.at(mark) + 4, value_text(mark));
    }
    for (const double mark : x.marks()) {
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x.at(mark),
                           kHeight - kBottom + 16, bytes_text(mark));
    }
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">file size</text>", kWidth - kRight,
                       kHeight - 6);
    std::vector<std::pair<double, double>> labels;
    for (const auto& [point, value] : points) {
        const double px = x.at(point->bytes);
        const double py = y.at(value);
        // Labels of points that lie together go below each other.
        constexpr double kLabelWidth = 60;
        constexpr double kLabelHeight = 12;
        double ly = py - 6;
        while (std::any_of(labels.begin(), labels.end(), [&](const auto& other) {
            return std::fabs(other.first - px) < kLabelWidth && std::fabs(other.second - ly) < kLabelHeight;
        })) {
            ly += kLabelHeight;
        }
        labels.emplace_back(px, ly);
        const bool left = px > kWidth - 90;
        svg += fmt::format(
            "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}: {}, {}</title></circle>",
            point->ours ? "ours" : "stock", px, py, escaped(point->label), bytes_text(point->bytes),
            value_text(value));
        svg +=
            fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>", left ? px - 8 : px + 8,
                        ly, left ? " text-anchor=\"end\"" : "", escaped(point->label));
    }
    return svg + "</svg>";
}

/// Which tensors the excess comes from.
std::string bars(const ReportModel& model) {
    constexpr double kWidth = 640;
    constexpr double kRow = 20;
    constexpr double kNames = 210;
    constexpr double kNumbers = 175;
    if (model.tensors.empty()) {
        return {};
    }
    const double most = std::max(model.tensors.front().share, 1e-12);
    std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"excess by tensor\">",
                                  kWidth, kRow * static_cast<double>(model.tensors.size()) + 4);
    double y = kRow - 5;
    for (const ReportTensor& tensor : model.tensors) {
        const double length = (kWidth - kNames - kNumbers) * tensor.share / most;
        svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kNames - 8, y,
                           escaped(tensor.name.substr(0, 34)));
        svg += fmt::format("<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"12\" rx=\"2\"/>",
                           kNames, y - 10, length);
        svg +=
            fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{}\">{:.1f} % of all, relative {:.3f}</text>",
                        kNames + length + 6, y, 100 * tensor.share, tensor.excess);
        y += kRow;
    }
    return svg + "</svg>";
}

std::string model_card(const ReportModel& model) {
    const std::string kl = scatter(
        model, "mean KL against f16, nats", [](const ReportPoint& p) { return p.mean_kl; }, true);
    const std::string ppl = scatter(
        model, "perplexity", [](const ReportPoint& p) { return p.ppl; }, false);
    const std::string tensors = bars(model);
    if (kl.empty() && ppl.empty() && tensors.empty() && model.gate.empty()) {
        return {};
    }
    std::string html = fmt::format(
        "<section class=\"model\"><h3>{}</h3><p class=\"soft\">{}, {}: <span class=\"{}\">{}</span></p>",
        escaped(model.id), escaped(model.family), escaped(model.size), model.standing, model.standing);
    if (!kl.empty() || !ppl.empty()) {
        html += "<div class=\"plots\">" + kl + ppl + "</div>";
    }
    if (!tensors.empty()) {
        html +=
            "<details><summary>where the excess is</summary><div class=\"scroll bars\" style=\"border:0\">" +
            tensors + "</div></details>";
    }
    if (!model.gate.empty()) {
        html += "<details><summary>gate log</summary><pre>" + escaped(model.gate) + "</pre></details>";
    }
    return html + "</section>";
}

std::string tiles(const Report& report) {
    std::map<std::string, int> counts;
    for (const ReportModel& model : report.models) {
        ++counts[model.standing];
    }
    std::string html = "<div class=\"tiles\">";
    for (const auto& [standing, count] : counts) {
        html += fmt::format("<div class=\"tile\"><b class=\"{0}\">{1}</b>{0}</div>", standing, count);
    }
    return html + "</div>";
}

std::string model_table(const Report& report) {
    std::string html =
        "<h2>Models</h2><div class=\"scroll "
        "models\"><table><tr><th>model<th>family<th>class<th>standing<th></tr>";
    for (const ReportModel& model : report.models) {
        html += fmt::format(
            "<tr><td>{}<td class=\"detail\">{}<td class=\"detail\">{}<td class=\"standing {}\">{}<td "
            "class=\"soft\">{}</tr>",
            escaped(model.id), escaped(model.family), escaped(model.size), model.standing, model.standing,
            escaped(model.note));
    }
    return html + "</table></div>";
}

std::string run_table(const Report& report) {
    if (report.runs.empty()) {
        return {};
    }
    std::string html =
        "<h2>Runs</h2><div class=\"scroll\"><table><tr><th>job<th>state<th>steps, seconds<th "
        "class=\"n\">total</tr>";
    for (const ReportRun& run : report.runs) {
        std::string steps;
        double total = 0;
        for (const auto& [name, seconds] : run.steps) {
            steps += fmt::format("{}{} {:.1f}", steps.empty() ? "" : ", ", escaped(name), seconds);
            total += seconds;
        }
        if (!run.verdict.empty()) {
            steps += fmt::format("<p class=\"soft\">{}</p>", escaped(run.verdict));
        }
        html += fmt::format("<tr><td>{}<td class=\"{}\">{}<td>{}<td class=\"n\">{:.1f} s</tr>",
                            escaped(run.name), escaped(run.state), escaped(run.state), steps, total);
    }
    return html + "</table></div>";
}

}  // namespace

std::string to_html(const Report& report) {
    std::string html = fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
        "content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light "
        "dark\"><title>{0}</title>"
        "<style>{1}</style></head><body>\n<h1>{0}</h1><p class=\"soft\">{2}</p>\n",
        escaped(report.title), kStyle, escaped(report.made));
    html += tiles(report) + "\n" + model_table(report) + "\n";
    std::string cards;
    for (const ReportModel& model : report.models) {
        cards += model_card(model);
    }
    if (!cards.empty()) {
        html +=
            "<h2>What it cost</h2><p class=\"soft key\">smaller and lower is better<i "
            "style=\"background:var(--ours)\"></i>knots"
            "<i style=\"background:var(--stock)\"></i>stock quantisations</p>" +
            cards;
    }
    html += run_table(report);
    return html + "</body></html>\n";
}

}  // namespace kaiju::zoo
