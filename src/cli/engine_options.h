// Options that every command which runs a model shares.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/monitor.h"
#include "cli/command.h"
#include "runtime/engine.h"
#include "runtime/llama_log.h"
#include "zoo/remote_model.h"

namespace kaiju::cli {

struct EngineArguments {
    std::string engine = "auto";
    std::string weight_type = "f16";
    bool precise = false;
    bool no_repack = false;
    int threads = 1;
    bool llama_log = false;
};

inline void add_engine_options(CLI::App& command, EngineArguments& arguments) {
    const auto names = runtime::engine_names();
    command
        .add_option("--engine", arguments.engine,
                    "What runs the model; auto: native for a knot of a family that it runs, else llama")
        ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())))
        ->capture_default_str();
    command
        .add_option("--weight-type", arguments.weight_type,
                    "Type that the llama engine decodes the weights of a knot to, in memory")
        ->check(CLI::IsMember({"f16", "f32"}))
        ->capture_default_str();
    command.add_flag("--precise", arguments.precise,
                     "Native engine: multiply with f32 activations, not with 8-bit integers; slower");
    command.add_flag("--no-repack", arguments.no_repack,
                     "Llama engine: multiply stock weights in the order of the file");
    command.add_flag("--llama-log", arguments.llama_log, "Show the log of llama.cpp on standard error");
    add_threads(command, arguments.threads);
}

/// Names the model's file in what is wrong with its content, but not in what is wrong with the question.
template <typename Body>
decltype(auto) of_model(const std::string& path, Body&& body) {
    try {
        return body();
    } catch (Error& error) {
        if (error.code() != ErrorCode::usage && error.code() != ErrorCode::interrupted) {
            error.within(path);
        }
        throw;
    }
}

inline std::unique_ptr<runtime::Engine> load_engine(const std::filesystem::path& path,
                                                    const EngineArguments& arguments, Monitor& monitor) {
    if (arguments.llama_log) {
        runtime::set_llama_log([&monitor](std::string_view line) { monitor.info(line); });
    }
    // The engine maps a whole file; a copy of one from a store is not needed once it is open.
    const zoo::LocalCopy local(path, monitor);
    return runtime::load_engine(local.path(),
                                {.engine = arguments.engine,
                                 .weight_type = runtime::weight_type_named(arguments.weight_type),
                                 .precise = arguments.precise,
                                 .repack = !arguments.no_repack,
                                 .threads = arguments.threads,
                                 .monitor = &monitor});
}

}  // namespace kaiju::cli
