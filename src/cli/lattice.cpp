// kaiju lattice ...: the nearest-point search by itself.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/lattice_commands.h"
#include "cli/line_reader.h"
#include "lattice/decoder.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

constexpr size_t kMostAtOnce = size_t{1} << 16;  // coordinates

/// Appends the 24 values of {"y": [24]}.
void parse_point(std::string_view line, std::vector<double>& y) {
    json parsed;
    try {
        parsed = json::parse(line);
    } catch (const json::exception&) {
        throw Error(ErrorCode::bad_input, "not a JSON object with finite numbers");
    }
    const auto values = parsed.is_object() ? parsed.find("y") : parsed.end();
    if (!parsed.is_object() || values == parsed.end() || !values->is_array() ||
        values->size() != lattice::kDimension) {
        throw Error(ErrorCode::bad_input, R"(expected {"y": [24 numbers]})");
    }
    for (size_t i = 0; i < lattice::kDimension; ++i) {
        const json& value = (*values)[i];
        if (!value.is_number()) {
            throw Error(ErrorCode::bad_input, fmt::format("coordinate {} is not a number", i));
        }
        y.push_back(value.get<double>());
        if (!(std::fabs(y.back()) <= 0x1p20)) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("coordinate {}: {} is outside [-2^20, 2^20]", i, y.back()));
        }
    }
}

int run_nearest(Session& session, const std::string& decoder_name) {
    const auto decoder = lattice::make_decoder(decoder_name);
    LineReader input(session.monitor());
    size_t number = 0;
    for (std::optional<std::string> line = input.next(); line; line = input.next()) {
        std::vector<double> y;
        std::unique_ptr<Error> fault;  // answers to the lines before a bad one are still given
        // The lines at hand share a search, and a caller that waits for an answer before it sends more gets
        // one.
        while (true) {
            ++number;
            const size_t whole = y.size();
            try {
                parse_point(*line, y);
            } catch (Error& error) {
                y.resize(whole);
                fault = std::make_unique<Error>(error.within(fmt::format("standard input: line {}", number)));
            }
            if (fault != nullptr || !input.ready() || y.size() >= kMostAtOnce) {
                break;
            }
            line = input.next();
        }
        std::vector<lattice::Nearest> found(y.size() / lattice::kDimension);
        decoder->nearest(y, found);
        std::string answers;
        for (const lattice::Nearest& nearest : found) {
            answers += json{{"x", nearest.x}, {"d2", nearest.d2}}.dump();
            answers += '\n';
        }
        session.write(answers);
        if (fault != nullptr) {
            throw Error(*fault);
        }
    }
    return 0;
}

}  // namespace

void add_lattice(CLI::App& app, Session& session) {
    CLI::App* group =
        add_group(app, "lattice", "Search for nearest points of the Leech lattice, and prove the search");

    auto decoder = std::make_shared<std::string>(lattice::decoder_names().front());
    CLI::App* nearest =
        add_command(*group, session, "nearest",
                    "Read points, one JSON object {\"y\": [24 numbers]} per line, and write the nearest "
                    "point of each in order, "
                    "{\"x\": [24 integers], \"d2\": squared distance}. Coordinates: minimal squared norm 32. "
                    "Inputs are rounded "
                    "to multiples of 2^-16; ties are broken the same way by every decoder.",
                    "kaiju lattice nearest --decoder exhaustive < points.jsonl > nearest.jsonl",
                    [decoder](Session& s) { return run_nearest(s, *decoder); });
    std::vector<std::string> names(lattice::decoder_names().begin(), lattice::decoder_names().end());
    nearest->add_option("--decoder", *decoder, "Which search; all give the same answers")
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    add_lattice_gate(*group, session);
}

}  // namespace kaiju::cli
