// Options that every command which runs a model shares.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "cli/command.h"
#include "runtime/engine.h"
#include "runtime/llama_log.h"

namespace kaiju::cli {

struct EngineArguments {
    std::string engine = "llama";
    std::string weight_type = "f16";
    int threads = 1;
    bool llama_log = false;
};

inline void add_engine_options(CLI::App& command, EngineArguments& arguments) {
    const auto names = runtime::engine_names();
    command.add_option("--engine", arguments.engine, "What runs the model")
        ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())))
        ->capture_default_str();
    command
        .add_option("--weight-type", arguments.weight_type,
                    "Type that the weights of a knot are decoded to, in memory")
        ->check(CLI::IsMember({"f16", "f32"}))
        ->capture_default_str();
    command.add_flag("--llama-log", arguments.llama_log, "Show the log of llama.cpp on standard error");
    add_threads(command, arguments.threads);
}

inline std::unique_ptr<runtime::Engine> load_engine(const std::filesystem::path& path,
                                                    const EngineArguments& arguments, Monitor& monitor) {
    if (arguments.llama_log) {
        runtime::set_llama_log([&monitor](std::string_view line) { monitor.info(line); });
    }
    return runtime::load_engine(path, {.engine = arguments.engine,
                                       .weight_type = runtime::weight_type_named(arguments.weight_type),
                                       .threads = arguments.threads,
                                       .monitor = &monitor});
}

}  // namespace kaiju::cli
