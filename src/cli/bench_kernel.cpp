// kaiju bench kernel: products of our wires against ggml's own types on the same shape.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench_commands.h"
#include "runtime/bench.h"

namespace kaiju::cli {

namespace {

struct Options {
    runtime::KernelBenchOptions bench;
    int threads = 1;
};

int run(Session& session, const Options& options) {
    runtime::KernelBenchOptions bench = options.bench;
    bench.threads = {1};
    if (options.threads > 1) {
        bench.threads.push_back(options.threads);
    }
    const auto timings = runtime::bench_kernels(bench, session.monitor());
    nlohmann::json results = nlohmann::json::array();
    std::string table =
        fmt::format("{:<10} {:<12} {:>6} {:>8} {:>12} {:>12} {:>14} {:>8}\n", "type", "kernel", "batch",
                    "threads", "best us", "median us", "GB/s (stored)", "weights/ns");
    for (const auto& row : timings) {
        const double weights = static_cast<double>(bench.rows) * bench.cols * row.batch;
        results.push_back({{"type", row.type},
                           {"kernel", row.kernel},
                           {"batch", row.batch},
                           {"threads", row.threads},
                           {"us", row.best_us},
                           {"median_us", row.median_us},
                           {"bytes", row.bytes}});
        table +=
            fmt::format("{:<10} {:<12} {:>6} {:>8} {:>12.1f} {:>12.1f} {:>14.2f} {:>8.1f}\n", row.type,
                        row.kernel, row.batch, row.threads, row.best_us, row.median_us,
                        static_cast<double>(row.bytes) / row.best_us / 1000, weights / row.best_us / 1000);
    }
    if (session.json()) {
        session.print(nlohmann::json{{"results", results}, {"rows", bench.rows}, {"cols", bench.cols}});
    } else {
        session.print(table + "every product was checked against the decoded weights\n");
    }
    return 0;
}

}  // namespace

void add_bench_kernel(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(
        group, session, "kernel",
        "Microseconds of the product of a matrix with one or more tokens: KAIJU1, KAIJU4 and ggml's own "
        "types, taking turns in one process. Activations are brought into each kernel's form "
        "within the time. Stock types want columns that are multiples of 256.",
        "kaiju bench kernel --rows 4096 --cols 4096 --batch 1 --json",
        [options](Session& current) { return run(current, *options); });
    command->add_option("--rows", options->bench.rows, "Rows of the matrix")
        ->check(between(1, 1 << 20))
        ->capture_default_str();
    command->add_option("--cols", options->bench.cols, "Columns of the matrix")
        ->check(between(1, 1 << 20))
        ->capture_default_str();
    command
        ->add_option("--batch", options->bench.batches,
                     "Tokens multiplied together; several make several rows")
        ->delimiter(',')
        ->check(between(1, 4096))
        ->capture_default_str();
    command->add_option("--types", options->bench.types, "What to time; \"read\" reads KAIJU1's bytes only")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--seconds", options->bench.seconds, "How long each row is measured")
        ->check(between(0.001, 600.0))
        ->capture_default_str();
    command->add_flag("--precise", options->bench.precise, "KAIJU1 and KAIJU4 with f32 activations");
    add_threads(*command, options->threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
