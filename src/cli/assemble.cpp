// kaiju assemble: the shards of an encode become the knot.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "codec/assemble.h"

namespace kaiju::cli {

namespace {

struct Options {
    std::vector<std::filesystem::path> parts;
    std::string out;
    std::string telemetry;
};

int run(Session& session, const Options& options) {
    const codec::AssembleReport report =
        codec::assemble(options.parts, options.out, options.telemetry, session.monitor());
    if (session.json()) {
        session.print(nlohmann::json{{"out", options.out},
                                     {"parts", options.parts.size()},
                                     {"tensors", report.tensors},
                                     {"file_bytes", report.file_bytes}});
    } else {
        session.print(fmt::format("{}: {} tensors from {} parts, {:.1f} MB\n", options.out, report.tensors,
                                  options.parts.size(), static_cast<double>(report.file_bytes) / 1e6));
    }
    return 0;
}

}  // namespace

void add_assemble(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(app, session, "assemble", "Join the parts that encode --shard made",
                                    "kaiju assemble part-0.knot part-1.knot --out model-kaiju1.knot",
                                    [options](Session& current) { return run(current, *options); });
    command->add_option("parts", options->parts, "All parts of one encode, in any order")
        ->required()
        ->type_name("FILE");
    command->add_option("--out", options->out, "The .knot to write; it must not exist")
        ->required()
        ->type_name("FILE");
    command->add_option("--telemetry", options->telemetry, "Write what every tensor cost to this .json file")
        ->type_name("FILE");
    add_json(*command, session);
}

}  // namespace kaiju::cli
