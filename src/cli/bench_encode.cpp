// kaiju bench encode: how fast the encoders are on a synthetic matrix.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "cli/bench_commands.h"
#include "codec/encode_tensor.h"
#include "codec/encoder_v1.h"
#include "codec/encoder_v3.h"
#include "codec/tensor_encoder.h"

namespace kaiju::cli {

namespace {

using nlohmann::json;

constexpr uint32_t kLargestFull = 4096;  ///< columns up to which full covariances are measured by default

struct Options {
    uint32_t rows = 1536;
    uint32_t cols = 1536;
    uint32_t k = 32;
    double hi_frac = 0.1;
    uint64_t seed = 1;
    std::vector<std::string> encoders;
    int threads = 1;
};

/// A Gaussian matrix whose inputs have uneven variances and K strong directions in common.
struct Problem {
    std::vector<float> weights;
    std::vector<float> diag;
    std::vector<float> eigval;
    std::vector<float> eigvec;
};

Problem make_problem(const Options& options) {
    std::mt19937_64 random(options.seed);
    std::normal_distribution<float> normal;
    Problem made;
    made.weights.resize(static_cast<size_t>(options.rows) * options.cols);
    std::generate(made.weights.begin(), made.weights.end(), [&] { return 0.02F * normal(random); });
    made.diag.resize(options.cols);
    std::generate(made.diag.begin(), made.diag.end(), [&] { return std::exp(0.5F * normal(random)); });
    made.eigval.resize(options.k);
    made.eigvec.resize(static_cast<size_t>(options.k) * options.cols);
    std::generate(made.eigvec.begin(), made.eigvec.end(), [&] {
        return normal(random) /
               std::sqrt(static_cast<float>(options.cols));  // directions of about unit length
    });
    for (uint32_t k = 0; k < options.k; ++k) {
        made.eigval[k] = static_cast<float>(options.cols) / (4.0F * static_cast<float>(k + 1));
        for (uint32_t i = 0; i < options.cols; ++i) {
            const float u = made.eigvec[static_cast<size_t>(k) * options.cols + i];
            made.diag[i] += made.eigval[k] * u * u;
        }
    }
    return made;
}

std::vector<float> full_covariance(const Problem& problem) {
    const size_t n = problem.diag.size();
    std::vector<float> full(n * n, 0.0F);
    for (size_t k = 0; k < problem.eigval.size(); ++k) {
        const float* const u = problem.eigvec.data() + k * n;
        for (size_t i = 0; i < n; ++i) {
            for (size_t j = 0; j < n; ++j) {
                full[i * n + j] += problem.eigval[k] * u[i] * u[j];
            }
        }
    }
    for (size_t i = 0; i < n; ++i) {
        full[i * n + i] = problem.diag[i];
    }
    return full;
}

struct Timing {
    double prepare_seconds = 0;
    double encode_seconds = 0;
    double relative_excess = 0;
};

/// Encodes once and reads the result back. Throws internal where the payload is not what was encoded.
Timing time_encoder(const std::string& name, const Options& options, const Problem& problem,
                    Monitor& monitor) {
    const format::TensorInfo info{.name = "synthetic",
                                  .type = "F32",
                                  .shape = {options.rows, options.cols},
                                  .nbytes = problem.weights.size() * sizeof(float)};
    const auto weights = codec::make_tensor_decoder(info, std::as_bytes(std::span(problem.weights)));
    const bool full = name == "v3-full";
    const std::vector<float> dense = full ? full_covariance(problem) : std::vector<float>();
    const lattice::CodebookSearch search(name == "v1" ? lattice::Parity::kept : lattice::Parity::free);
    auto layout = codec::kaiju1::Layout::for_matrix(options.rows, options.cols, options.hi_frac);

    const auto start = std::chrono::steady_clock::now();
    std::unique_ptr<codec::RowEncoder> encoder;
    if (name == "v1") {
        encoder = std::make_unique<codec::EncoderV1>(layout, problem.diag, search);
    } else {
        layout.perm_kind = 1;
        const auto energy = codec::column_energy(*weights, options.rows, options.cols, options.threads);
        encoder = std::make_unique<codec::EncoderV3>(
            layout, problem.diag, energy,
            [&](std::span<const uint32_t> order, size_t n_hi) {
                return full ? stats::make_covariance(dense, order, n_hi, options.threads)
                            : stats::make_covariance(stats::LowRank{.diag = problem.diag,
                                                                    .eigval = problem.eigval,
                                                                    .eigvec = problem.eigvec},
                                                     order, n_hi);
            },
            search, codec::v3_defaults(full));
    }
    const auto ready = std::chrono::steady_clock::now();
    codec::EncodeStats stats;
    const std::vector<std::byte> payload =
        codec::encode_tensor(*weights, *encoder, options.threads, monitor, stats);
    const auto done = std::chrono::steady_clock::now();

    const codec::kaiju1::TensorView view{Bytes(payload)};
    view.check();
    std::vector<float> row(options.cols);
    double excess = 0;
    double energy = 0;
    for (uint32_t r = 0; r < options.rows; ++r) {
        view.decode_rows(r, 1, row.data());
        for (uint32_t i = 0; i < options.cols; ++i) {
            const double w = problem.weights[static_cast<size_t>(r) * options.cols + i];
            excess += problem.diag[i] * (row[i] - w) * (row[i] - w);
            energy += problem.diag[i] * w * w;
        }
    }
    const double relative = excess / energy;
    if (std::fabs(excess - stats.diagonal_excess) > 1e-3 * energy || relative > 0.2) {
        throw Error(
            ErrorCode::internal,
            fmt::format("{}: the payload decodes to something else (relative excess {:.4f}, reported {:.4f})",
                        name, relative, stats.diagonal_excess / energy));
    }
    const auto seconds = [](auto span) { return std::chrono::duration<double>(span).count(); };
    return {seconds(ready - start), seconds(done - ready), relative};
}

int run(Session& session, const Options& given) {
    Options options = given;
    if (options.encoders.empty()) {
        options.encoders = {"v1", "v3-sketch"};
        if (options.cols <= kLargestFull) {
            options.encoders.emplace_back("v3-full");
        }
    }
    const Problem problem = make_problem(options);
    const double weights = static_cast<double>(options.rows) * options.cols;
    json results = json::array();
    std::string table = fmt::format("{:<10} {:>10} {:>10} {:>10} {:>16} {:>16}\n", "encoder", "prepare s",
                                    "encode s", "ns/weight", "min / 10^9 w", "relative excess");
    for (const std::string& name : options.encoders) {
        const Timing timing = time_encoder(name, options, problem, session.monitor());
        const double total = timing.prepare_seconds + timing.encode_seconds;
        const double minutes = total / weights * 1e9 / 60;
        results.push_back({{"encoder", name},
                           {"threads", options.threads},
                           {"prepare_seconds", timing.prepare_seconds},
                           {"encode_seconds", timing.encode_seconds},
                           {"ns_per_weight", total / weights * 1e9},
                           {"minutes_per_billion_weights", minutes},
                           {"relative_excess", timing.relative_excess}});
        table += fmt::format("{:<10} {:>10.2f} {:>10.2f} {:>10.2f} {:>16.2f} {:>16.4f}\n", name,
                             timing.prepare_seconds, timing.encode_seconds, total / weights * 1e9, minutes,
                             timing.relative_excess);
    }
    if (session.json()) {
        session.print(
            json{{"results", results}, {"rows", options.rows}, {"cols", options.cols}, {"k", options.k}});
    } else {
        session.print(table + "every payload was decoded and compared with its weights\n");
    }
    return 0;
}

}  // namespace

void add_bench_encode(CLI::App& group, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(group, session, "encode",
                                    "Time of every encoder on a synthetic Gaussian matrix with correlated "
                                    "inputs, in memory. v3-full is left "
                                    "out above 4096 columns unless it is asked for.",
                                    "kaiju bench encode --rows 3584 --cols 18944 --json",
                                    [options](Session& current) { return run(current, *options); });
    command->add_option("--rows", options->rows, "Rows of the matrix")
        ->check(between(1, 1 << 20))
        ->capture_default_str();
    command->add_option("--cols", options->cols, "Columns of the matrix")
        ->check(between(24, 1 << 20))
        ->capture_default_str();
    command->add_option("--k", options->k, "Eigenpairs of the sketch")
        ->check(between(0, 1024))
        ->capture_default_str();
    command->add_option("--hi-frac", options->hi_frac, "Part of the columns in the side-band")
        ->check(between(0.0, 1.0))
        ->capture_default_str();
    command->add_option("--encoders", options->encoders, "Which: v1, v3-sketch, v3-full")
        ->delimiter(',')
        ->check(CLI::IsMember({"v1", "v3-sketch", "v3-full"}));
    command->add_option("--seed", options->seed, "Seed of the matrix")->capture_default_str();
    add_threads(*command, options->threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
