#include "codec/encode_journal.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <sstream>

namespace kaiju::codec {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json to_json(const TensorReport& report) {
    return {{"name", report.name},
            {"type", report.type},
            {"rows", report.rows},
            {"cols", report.cols},
            {"nbytes", report.nbytes},
            {"seconds", report.seconds},
            {"diagonal_excess", report.stats.diagonal_excess},
            {"diagonal_energy", report.stats.diagonal_energy},
            {"full_excess", report.stats.full_excess},
            {"full_energy", report.stats.full_energy},
            {"blocks", report.stats.blocks},
            {"clamped_blocks", report.stats.clamped_blocks},
            {"clamped_trits", report.stats.clamped_trits},
            {"legacy_full_excess", report.stats.legacy_full_excess},
            {"legacy_full_energy", report.stats.legacy_full_energy},
            {"sample_full_excess", report.stats.sample_full_excess},
            {"legacy_blocks", report.stats.legacy_blocks},
            {"legacy_clamped_blocks", report.stats.legacy_clamped_blocks},
            {"multipliers", report.stats.multipliers}};
}

TensorReport report_from(const json& line) {
    TensorReport report{.name = line.at("name"),
                        .type = line.at("type"),
                        .rows = line.at("rows"),
                        .cols = line.at("cols"),
                        .nbytes = line.at("nbytes"),
                        .seconds = line.at("seconds"),
                        .stats = {}};
    report.stats.diagonal_excess = line.at("diagonal_excess");
    report.stats.diagonal_energy = line.at("diagonal_energy");
    report.stats.full_excess = line.at("full_excess");
    report.stats.full_energy = line.at("full_energy");
    report.stats.blocks = line.at("blocks");
    report.stats.clamped_blocks = line.at("clamped_blocks");
    report.stats.clamped_trits = line.at("clamped_trits");
    report.stats.legacy_full_excess = line.at("legacy_full_excess");
    report.stats.legacy_full_energy = line.at("legacy_full_energy");
    report.stats.sample_full_excess = line.at("sample_full_excess");
    report.stats.legacy_blocks = line.at("legacy_blocks");
    report.stats.legacy_clamped_blocks = line.at("legacy_clamped_blocks");
    report.stats.multipliers = line.at("multipliers");
    return report;
}

void require_same(const json& before, const json& now) {
    std::string differing;
    for (const auto& [key, value] : now.items()) {
        if (!before.contains(key) || before.at(key) != value) {
            differing += fmt::format("{}{}", differing.empty() ? "" : ", ", key);
        }
    }
    if (!differing.empty() || before.size() != now.size()) {
        throw Error(
            ErrorCode::usage,
            fmt::format(
                "the unfinished encode was begun with other settings ({}): repeat them, or delete the "
                "part file and its journal to start anew",
                differing.empty() ? "of another version" : differing));
    }
}

}  // namespace

fs::path EncodeJournal::path_of(const fs::path& out) {
    fs::path path = out;
    path += ".part.journal";
    return path;
}

bool EncodeJournal::is_one(const fs::path& path) {
    constexpr std::string_view kBegin = "{\"";  // an object of settings, on one line
    const MappedFile file(path);
    const std::string_view text = as_text(file.bytes());
    const size_t end = text.find('\n');
    return end == std::string_view::npos
               ? kBegin.starts_with(text.substr(0, kBegin.size()))
               : json::parse(text.substr(0, end), nullptr, false).contains("sources");
}

EncodeJournal::EncodeJournal(const fs::path& out, const json& settings) : path_(path_of(out)) {
    if (fs::exists(path_)) {
        within(path_.string(), [&] { read(settings); });
    }
    if (finished_.empty()) {  // new, or nothing in it that can be used
        remove();
        append(settings);
    }
}

void EncodeJournal::read(const json& settings) {
    const std::string text = read_text(path_);
    std::istringstream lines(text.substr(0, text.rfind('\n') + 1));  // a cut last line has no newline
    std::string line;
    if (!std::getline(lines, line)) {
        return;
    }
    try {
        require_same(json::parse(line), settings);
        while (std::getline(lines, line)) {
            const json entry = json::parse(line);
            finished_[entry.at("index")] = {.xxh3 = entry.at("xxh3"), .report = report_from(entry)};
        }
    } catch (const json::exception& error) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("not a journal ({}): delete it and the part file to start anew", error.what()));
    }
    if (text.back() != '\n') {  // so that the next line starts on a line of its own
        fs::resize_file(path_, text.rfind('\n') + 1);
    }
}

void EncodeJournal::add(size_t index, const Finished& entry) {
    json line = to_json(entry.report);
    line["index"] = index;
    line["xxh3"] = entry.xxh3;
    append(line);
    finished_[index] = entry;
}

void EncodeJournal::append(const json& line) const {
    const std::string text = line.dump() + "\n";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path_.c_str(), "ab"), &std::fclose);
    if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
        std::fflush(file.get()) != 0) {
        throw Error(ErrorCode::io, fmt::format("{}: cannot write the journal", path_.string()));
    }
}

void EncodeJournal::remove() {
    std::error_code ignored;
    fs::remove(path_, ignored);
}

}  // namespace kaiju::codec
