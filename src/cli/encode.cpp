// kaiju encode: a model, its importance matrix and a base become a knot.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/v3_flags.h"
#include "codec/encode_model.h"
#include "codec/encode_plan.h"

namespace kaiju::cli {

namespace {

using codec::EncodeOptions;
using codec::EncodePlan;
using codec::PlanEntry;
using nlohmann::json;

struct Options {
    EncodeOptions encode;
    std::vector<std::string> tensor_types;  ///< REGEX=TYPE, as given
    V3Flags v3;
    std::string shard;  ///< I/N, as given
    bool dry_run = false;
    double clamp_limit = 1.5;
    std::string rates = "measured";
    std::string target_size;  ///< as given; empty: none
    const CLI::Option* bits = nullptr;
    const CLI::Option* sensitivity = nullptr;
    std::vector<const CLI::Option*> of_kaiju4;  ///< the whole encode's, by --wire
    std::vector<const CLI::Option*> of_kaiju1_tensors;
};

/// Refuses what no tensor of the plan would read: it would be ignored in silence, and yet be a setting.
void require_readers(const Options& given, const EncodePlan& plan) {
    bool kaiju1 = false;
    bool kaiju4 = false;
    bool free_rate = false;
    for (const PlanEntry& entry : plan.entries) {
        kaiju1 = kaiju1 || entry.info.type == "KAIJU1";
        kaiju4 = kaiju4 || entry.info.type.starts_with("KAIJU4");
        free_rate = free_rate || entry.free_rate;
    }
    const auto refuse = [](const std::vector<const CLI::Option*>& options, std::string_view readers) {
        for (const CLI::Option* option : options) {
            if (option->count() > 0) {
                throw Error(ErrorCode::usage, fmt::format("{} is read by {} alone, and the plan has none",
                                                          option->get_name(), readers));
            }
        }
    };
    if (!kaiju1) {
        refuse(given.of_kaiju1_tensors, "tensors of KAIJU1");
        refuse(given.v3.of_kaiju1, "tensors of KAIJU1");
    }
    if (!kaiju4) {
        refuse(given.v3.of_kaiju4, "tensors of KAIJU4");
    }
    if (!free_rate && plan.options.shards <= 1) {
        refuse({given.sensitivity}, "tensors whose size --tensor-type leaves open");
        if (plan.options.wire == "KAIJU4") {
            refuse({given.bits}, "tensors of KAIJU4 whose rate --tensor-type leaves open");
        }
    }
}

/// Names of the tensors that v3 clamps more than `limit` times as often as v1 does.
std::vector<std::string> clamped_too_often(const codec::EncodeReport& report, double limit) {
    std::vector<std::string> names;
    for (const auto& tensor : report.tensors) {
        if (limit > 0 && tensor.stats.clamp_ratio() > limit) {
            names.push_back(fmt::format("{} ({:.2f})", tensor.name, tensor.stats.clamp_ratio()));
        }
    }
    return names;
}

codec::TypeRule parse_rule(const std::string& text) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
        throw Error(ErrorCode::usage, fmt::format("--tensor-type {}: not of the form REGEX=TYPE", text));
    }
    std::string type = text.substr(equals + 1);
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::toupper(c); });
    return {text.substr(0, equals), type};
}

void parse_shard(const std::string& text, EncodeOptions& options) {
    constexpr uint64_t kMost = 65536;
    const char* const end = text.data() + text.size();
    const auto [slash, first] = std::from_chars(text.data(), end, options.shard);
    const bool shaped = first == std::errc() && slash != end && *slash == '/';
    const auto [stop, second] = std::from_chars(shaped ? slash + 1 : end, end, options.shards);
    if (!shaped || second != std::errc() || stop != end || options.shards < 1 || options.shards > kMost ||
        options.shard > options.shards) {
        throw Error(
            ErrorCode::usage,
            fmt::format("--shard {}: not of the form I/N with I in 0..N (counted modulo N) and N in 1..{}",
                        text, kMost));
    }
    if (!options.telemetry.empty() && options.shards > 1) {
        throw Error(ErrorCode::usage,
                    "--telemetry with --shard: every part carries its own; kaiju assemble "
                    "--telemetry writes it for the whole");
    }
}

std::string_view action_name(PlanEntry::Action action) {
    switch (action) {
        case PlanEntry::Action::encode:
            return "encode";
        case PlanEntry::Action::quantise:
            return "quantise";
        case PlanEntry::Action::copy:
            return "copy";
        case PlanEntry::Action::key_values:
            return "key-values";
    }
    return "";
}

double bits_per_weight(const PlanEntry& entry) {
    return 8.0 * static_cast<double>(entry.info.nbytes) / static_cast<double>(entry.info.weights());
}

/// What the program holds already, most of it libraries and tables: all there is to a small model.
uint64_t resident_bytes() {
    uint64_t all = 0;
    uint64_t resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

json plan_json(const EncodePlan& plan) {
    json tensors = json::array();
    for (const auto& entry : plan.entries) {
        json row = {{"name", entry.info.name},
                    {"action", action_name(entry.action)},
                    {"type", entry.info.type},
                    {"shape", entry.info.shape},
                    {"bytes", entry.info.nbytes}};
        if (entry.action != PlanEntry::Action::key_values) {
            row["bits"] = bits_per_weight(entry);
        }
        tensors.push_back(row);
    }
    const uint64_t file_bytes = planned_file_bytes(plan);
    const double seconds = estimate_seconds(plan);  // builds the tables that count as resident
    return {{"tensors", tensors},
            {"payload_bytes", plan.payload_bytes()},
            {"linear_bits", plan.linear_bits()},
            {"file_bytes", file_bytes},
            {"file_bits", 8.0 * static_cast<double>(file_bytes) / static_cast<double>(plan.all_weights())},
            {"encoded_weights", plan.encoded_weights()},
            {"weights", plan.all_weights()},
            {"estimated_seconds", seconds},
            {"estimated_memory_bytes", resident_bytes() + estimate_memory(plan)},
            {"threads", plan.options.threads}};
}

void print_plan(Session& session, const EncodePlan& plan) {
    const json answer = plan_json(plan);
    if (session.json()) {
        session.print(answer);
        return;
    }
    std::string text =
        fmt::format("{:<40} {:<10} {:<8} {:>8} {:>14}\n", "tensor", "action", "type", "bits", "bytes");
    for (const auto& row : answer.at("tensors")) {
        const std::string bits =
            row.contains("bits") ? fmt::format("{:.3f}", row.at("bits").get<double>()) : "-";
        text += fmt::format("{:<40} {:<10} {:<8} {:>8} {:>14}\n", row.at("name").get<std::string>(),
                            row.at("action").get<std::string>(), row.at("type").get<std::string>(), bits,
                            row.at("bytes").get<uint64_t>());
    }
    text += fmt::format(
        "{:.1f} MB, {:.3f} linear bits, {:.3f} file bits; about {:.0f} s on {} threads and {:.0f} "
        "MB of memory\n",
        answer.at("file_bytes").get<double>() / 1e6, answer.at("linear_bits").get<double>(),
        answer.at("file_bits").get<double>(), answer.at("estimated_seconds").get<double>(),
        plan.options.threads, answer.at("estimated_memory_bytes").get<double>() / 1e6);
    session.print(text);
}

int run(Session& session, const Options& given) {
    EncodeOptions options = given.encode;
    options.created_by = "kaiju " KAIJU_VERSION;
    if (options.encoder.empty()) {
        options.encoder = options.wire == "KAIJU4" ? "v3" : "v1";
    }
    if (options.wire != "KAIJU1" && options.wire != "KAIJU4") {
        throw Error(ErrorCode::usage,
                    fmt::format("--wire {}: KAIJU1 and KAIJU4 are known; --bits or --target-size "
                                "choose KAIJU4's rate",
                                options.wire));
    }
    if (options.encoder != "v1" && options.encoder != "v3") {
        throw Error(ErrorCode::usage, fmt::format("--encoder {}: v1 and v3 are known", options.encoder));
    }
    given.v3.require_reader(options.encoder);
    options.v3 = given.v3.options(!options.covariance.empty(), options.wire == "KAIJU4");
    for (const CLI::Option* option : given.of_kaiju4) {
        if (option->count() > 0 && options.wire != "KAIJU4") {
            throw Error(ErrorCode::usage,
                        fmt::format("{} is read by --wire KAIJU4 alone", option->get_name()));
        }
    }
    if (!given.target_size.empty()) {
        options.target_size = parse_size("--target-size", given.target_size);
    }
    if (given.rates != "measured" && given.rates != "uniform") {
        throw Error(ErrorCode::usage, fmt::format("--rates {}: measured and uniform are known", given.rates));
    }
    options.rates = given.rates == "uniform" ? codec::Rates::uniform : codec::Rates::measured;
    for (const auto& rule : given.tensor_types) {
        options.types.push_back(parse_rule(rule));
    }
    if (!given.shard.empty()) {
        parse_shard(given.shard, options);
    }
    const EncodePlan plan = codec::plan_encode(options);
    require_readers(given, plan);
    constexpr double kNear = 0.99;
    if (const uint64_t bytes = planned_file_bytes(plan);
        options.shards <= 1 &&
        static_cast<double>(bytes) < kNear * static_cast<double>(options.target_size)) {
        session.monitor().warn(
            fmt::format("the file will have {} of the {} bytes of --target-size: no tensor can take "
                        "more; --tensor-type gives some a larger type",
                        bytes, options.target_size));
    }
    if (given.dry_run) {
        print_plan(session, plan);
        return 0;
    }
    const codec::EncodeReport report = codec::encode_model(plan, session.monitor());
    const json telemetry = codec::telemetry_json(plan, report);
    const std::vector<std::string> too_often = clamped_too_often(report, given.clamp_limit);
    if (!too_often.empty()) {
        session.monitor().warn(fmt::format("the gate on clamping says no: more than {} times v1's rate in {}",
                                           given.clamp_limit, fmt::join(too_often, ", ")));
    }
    if (session.json()) {
        json answer = telemetry.at("totals");
        answer["out"] = options.out.string();
        answer["resumed"] = report.resumed;
        answer["clamped_too_often"] = too_often;
        session.print(answer);
    } else {
        const json& totals = telemetry.at("totals");
        session.print(
            fmt::format("{}: {} tensors encoded, {:.1f} MB, {:.3f} linear bits, {:.3f} file bits, relative "
                        "excess {:.4f}, {:.1f} s\n",
                        options.out.string(), report.tensors.size(),
                        static_cast<double>(report.file_bytes) / 1e6, report.linear_bits, report.file_bits,
                        totals.at("relative_excess").get<double>(), report.seconds));
    }
    return too_often.empty() ? 0 : 1;
}

}  // namespace

void add_encode(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    EncodeOptions& encode = options->encode;
    encode.encoder.clear();
    CLI::App* command = add_command(
        app, session, "encode", "Compress a model to a knot",
        "kaiju encode --model model-f16.gguf --imatrix model.imatrix.gguf --out model-kaiju1.knot",
        [options](Session& current) { return run(current, *options); });
    command->add_option("--model", encode.model, "Weights: a .gguf, best f16, bf16 or f32")
        ->required()
        ->type_name("FILE");
    command->add_option("--imatrix", encode.imatrix, "Importance matrix, .gguf or .dat")
        ->required()
        ->type_name("FILE");
    command
        ->add_option("--base", encode.base,
                     "Where unencoded tensors are copied from, .gguf or .knot (default: the model)")
        ->type_name("FILE");
    command->add_option("--out", encode.out, "The .knot to write; it must not exist")
        ->required()
        ->type_name("FILE");
    command
        ->add_option("--wire", encode.wire,
                     "KAIJU1, or KAIJU4: rotated columns and shell-shaped code words, made by --encoder v3")
        ->capture_default_str();
    auto* const bits = command->add_option("--bits", encode.bits,
                                           "KAIJU4: bits a weight on average, 1.75 to 4; row scales, headers "
                                           "and padding to 24 columns add to it");
    bits->capture_default_str();
    auto* const target = command
                             ->add_option("--target-size", options->target_size,
                                          "KAIJU4: size of the file, in bytes or as 64MB, instead of --bits")
                             ->excludes(bits);
    auto* const rates =
        command
            ->add_option("--rates", options->rates,
                         "KAIJU4: uniform: all tensors the same; measured: what that leaves of the size goes "
                         "where it saves most")
            ->capture_default_str();
    auto* const sensitivity =
        command
            ->add_option("--sensitivity", encode.sensitivity,
                         "v3: bits (KAIJU1: columns of the side-band) go where kaiju sensitivity found that "
                         "the model suffers most")
            ->type_name("FILE")
            ->excludes(rates);
    options->bits = bits;
    options->sensitivity = sensitivity;
    options->of_kaiju4 = {bits, target, rates};
    command->add_option(
        "--encoder", encode.encoder,
        "v1: one nearest-point search a block; v3: error feedback against a covariance (default: v1, "
        "with KAIJU4 v3)");
    const auto* sketch =
        command
            ->add_option("--sketch", encode.sketch, "v3: covariance sketches of this model (kaiju capture)")
            ->type_name("FILE");
    const auto* covariance =
        command->add_option("--covariance", encode.covariance, "v3: full covariances (kaiju capture --full)")
            ->type_name("FILE");
    command
        ->add_option("--decoder", encode.decoder,
                     "Search of the code book: fast, pruned or exhaustive; the codes do not depend on it")
        ->capture_default_str();
    const auto* hi_frac = command
                              ->add_option("--hi-frac", encode.hi_frac,
                                           "KAIJU1: part of the columns that the 8-bit side-band takes")
                              ->capture_default_str();
    command
        ->add_option(
            "--include", encode.include,
            "Of the matrices that may be encoded, take those that match instead of the usual roles (several)")
        ->type_name("REGEX");
    command->add_option("--exclude", encode.exclude, "Of those matrices, copy the ones that match (several)")
        ->type_name("REGEX");
    command
        ->add_option(
            "--tensor-type", options->tensor_types,
            "A wire (KAIJU1, KAIJU4_3), COPY or a stock type for what matches; the last match wins (several)")
        ->type_name("REGEX=TYPE");
    command->add_flag(
        "--tie-head", encode.tie_head,
        "Store output.weight once, as token_embd.weight too, where they are copies of one matrix");
    command->add_option("--telemetry", encode.telemetry, "Write what every tensor cost to this .json file")
        ->type_name("FILE");
    const auto* clamp_limit =
        command
            ->add_option(
                "--clamp-limit", options->clamp_limit,
                "v3, KAIJU1: exit with 1 where a tensor's clamp rate is above this times v1's (0: no gate)")
            ->check(not_negative())
            ->capture_default_str();
    options->of_kaiju1_tensors = {hi_frac, clamp_limit};
    add_v3_flags(*command, options->v3, {sketch, covariance, clamp_limit});
    command->add_flag("--dry-run", options->dry_run, "Check everything, print the plan and write nothing");
    command
        ->add_option("--shard", options->shard,
                     "Make only part I of N, for kaiju assemble; I counts modulo N, from 0 or from 1")
        ->type_name("I/N");
    command->add_flag("--resume", encode.resume, "Continue an encode that was cut short");
    add_threads(*command, encode.threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
