#include "zoo/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "codec/encoder_v1.h"
#include "format/strict_json.h"
#include "zoo/transfer.h"

namespace kaiju::zoo {

using nlohmann::json;

namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kVerifyShare = 0.25;  ///< of the time limit of a model

template <typename T>
json optional_json(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

json transfers_json(const std::vector<Transfer>& transfers) {
    json list = json::array();
    for (const Transfer& transfer : transfers) {
        list.push_back({{"file", transfer.file}, {"key", transfer.key}, {"always", transfer.always}});
    }
    return list;
}

std::vector<Transfer> transfers_from(const json& list) {
    std::vector<Transfer> transfers;
    for (const json& one : list) {
        transfers.push_back({.file = one.at("file"), .key = one.at("key"), .always = one.at("always")});
    }
    return transfers;
}

json step_json(const Step& step) {
    json commands = json::array();
    for (const Command& command : step.commands) {
        commands.push_back({{"words", command.words}, {"makes", command.makes}});
    }
    return {{"name", step.name},
            {"limit_seconds", step.limit_seconds},
            {"memory_gb", step.memory_gb},
            {"sharded", step.sharded},
            {"commands", commands}};
}

Step step_from(const json& object) {
    Step step{.name = object.at("name"),
              .limit_seconds = object.at("limit_seconds"),
              .memory_gb = object.at("memory_gb"),
              .sharded = object.at("sharded")};
    for (const json& command : object.at("commands")) {
        step.commands.push_back({.words = command.at("words"), .makes = command.at("makes")});
    }
    return step;
}

/// Where an encode finds the weights: in the job's folder, or, where many nodes each read some of them, at
/// the store's address, by range.
struct SourceWords {
    std::string model = "in/f16.gguf";
    std::string base = "in/base";
};

/// encode: one command, or one per shard and a step that joins them.
std::vector<Step> encode_steps(const Model& model, const std::string& stem, const SourceWords& from,
                               int threads) {
    const double limit = kSecondsPerHour * model.limit_hours();
    const double memory = model.limit_memory_gb();
    const std::string knot = fmt::format("out/{}.knot", stem);
    const std::string telemetry = fmt::format("out/{}.telemetry.json", stem);
    const auto encode = [&](const std::string& out) {
        std::vector<std::string> words{
            "kaiju",   "encode", "--model", from.model,  "--imatrix",   "in/imatrix", "--base",
            from.base, "--out",  out,       "--encoder", model.encoder, "--threads",  std::to_string(threads),
            "--resume"};
        if (model.wire == "KAIJU4") {
            words.insert(words.end(), {"--wire", model.wire});
            if (model.bits) {
                words.insert(words.end(), {"--bits", fmt::format("{}", *model.bits)});
            }
        }
        if (model.encoder == "v3") {
            words.insert(words.end(), {"--sketch", "in/sketch"});
            if (model.clamp_limit) {
                words.insert(words.end(), {"--clamp-limit", fmt::format("{}", *model.clamp_limit)});
            }
        }
        return words;
    };
    if (model.shards == 1) {
        Command whole{.words = encode(knot), .makes = {knot, telemetry}};
        whole.words.insert(whole.words.end(), {"--telemetry", telemetry});
        return {{.name = "encode", .limit_seconds = limit, .memory_gb = memory, .commands = {whole}}};
    }
    Step shards{.name = "encode", .limit_seconds = limit, .memory_gb = memory, .sharded = true};
    Command join{.words = {"kaiju", "assemble"}, .makes = {knot, telemetry}};
    for (uint64_t i = 0; i < model.shards; ++i) {
        const std::string part = fmt::format("out/part-{:04}.knot", i);
        Command command{.words = encode(part), .makes = {part}};
        command.words.insert(command.words.end(), {"--shard", fmt::format("{}/{}", i, model.shards)});
        shards.commands.push_back(std::move(command));
        join.words.push_back(part);
    }
    join.words.insert(join.words.end(), {"--out", knot, "--telemetry", telemetry});
    return {shards, {.name = "assemble", .limit_seconds = limit, .memory_gb = memory, .commands = {join}}};
}

Command gate_command(const GateParameters& gate, const std::string& stem, const SourceWords& from,
                     int threads) {
    const std::string log = fmt::format("out/{}.gate.log", stem);
    const std::string figures = fmt::format("out/{}.gate.json", stem);
    Command command{.words = {"kaiju", "gate", "run", "--qspec", "in/qspec.json", "--model",
                              fmt::format("out/{}.knot", stem), "--log", log, "--telemetry", figures,
                              "--threads", std::to_string(threads)},
                    .makes = {log, figures}};
    const auto add = [&](const std::string& option, const std::string& value) {
        command.words.insert(command.words.end(), {option, value});
    };
    if (!gate.text.empty()) {
        add("--text", "in/text");
        if (gate.ctx) {
            add("--ctx", fmt::format("{}", *gate.ctx));
        }
        if (gate.chunks) {
            add("--chunks", fmt::format("{}", *gate.chunks));
        }
    }
    if (!gate.reference.empty()) {
        add("--reference", gate.reference == "f16" ? from.model : "in/reference");
    }
    if (gate.ppl_max) {
        add("--ppl-max", fmt::format("{}", *gate.ppl_max));
    }
    if (gate.kl_max) {
        add("--kl-max", fmt::format("{}", *gate.kl_max));
    }
    return command;
}

}  // namespace

GateParameters gate_parameters(const Catalogue& catalogue, const Model& model, const format::Qspec& qspec) {
    GateParameters gate{.prompt_tokens = qspec.prompt_tokens,
                        .expect_token = qspec.expect_token,
                        .reject_token = qspec.reject_token,
                        .ppl_max = model.ppl_max,
                        .kl_max = model.kl_max,
                        .reference = model.reference,
                        .text = {},
                        .ctx = catalogue.ctx,
                        .chunks = catalogue.evaluation_chunks,
                        .remarks = {}};
    if (qspec.id != model.id) {
        gate.remarks.push_back(fmt::format("the qspec is called {}, the model {}", qspec.id, model.id));
    }
    const bool limits = gate.ppl_max || gate.kl_max;
    if (limits || !gate.reference.empty()) {
        gate.text = model.text.empty() ? catalogue.evaluation_text : model.text;
        if (gate.text.empty()) {
            throw Error(ErrorCode::missing,
                        fmt::format("{}: limits without an evaluation text to measure on: give "
                                    "the catalogue an \"evaluation_text\"",
                                    model.id));
        }
    }
    if (model.encoder == "v3" && (!gate.ppl_max || !gate.kl_max || gate.reference.empty())) {
        throw Error(
            ErrorCode::missing,
            fmt::format("{}: encoder v3 needs explicit limits (ppl_max, kl_max, reference); there is no "
                        "ship-always",
                        model.id));
    }
    if (!limits) {
        gate.remarks.emplace_back("no limits: the gate looks at the argmax alone");
    }
    return gate;
}

json to_json(const GateParameters& gate) {
    return {{"prompt_tokens", gate.prompt_tokens},
            {"expect_token", gate.expect_token},
            {"reject_token", gate.reject_token},
            {"ppl_max", optional_json(gate.ppl_max)},
            {"kl_max", optional_json(gate.kl_max)},
            {"reference", gate.reference},
            {"text", gate.text},
            {"ctx", optional_json(gate.ctx)},
            {"chunks", optional_json(gate.chunks)},
            {"remarks", gate.remarks}};
}

std::string to_shell(const GateParameters& gate) {
    const auto quoted = [](const std::string& text) {
        std::string safe = "'";
        for (const char c : text) {
            safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
        }
        return safe + "'";
    };
    std::string text = fmt::format("KAIJU_PROMPT_TOKENS='{}'\nKAIJU_EXPECT_TOKEN={}\nKAIJU_REJECT_TOKEN={}\n",
                                   fmt::join(gate.prompt_tokens, ","), gate.expect_token, gate.reject_token);
    text += fmt::format("KAIJU_PPL_MAX={}\nKAIJU_KL_MAX={}\n",
                        gate.ppl_max ? fmt::format("{}", *gate.ppl_max) : "",
                        gate.kl_max ? fmt::format("{}", *gate.kl_max) : "");
    text += fmt::format("KAIJU_REFERENCE={}\nKAIJU_TEXT={}\n", quoted(gate.reference), quoted(gate.text));
    for (const std::string& remark : gate.remarks) {
        text += "# " + remark + "\n";
    }
    return text;
}

json to_json(const Plan& plan) {
    json steps = json::array();
    for (const Step& step : plan.steps) {
        steps.push_back(step_json(step));
    }
    return {{"name", plan.name},
            {"kind", plan.kind},
            {"model", plan.model},
            {"encoder", plan.encoder},
            {"key", plan.key},
            {"owner", plan.owner},
            {"store",
             {{"address", plan.store},
              {"endpoint", plan.options.endpoint},
              {"region", plan.options.region},
              {"virtual_host", optional_json(plan.options.virtual_host)},
              {"patience", plan.options.patience},
              {"parallel", plan.options.parallel}}},
            {"inputs", transfers_json(plan.inputs)},
            {"outputs", transfers_json(plan.outputs)},
            {"steps", steps},
            {"lease",
             {{"slot", plan.lease.slot},
              {"token", plan.lease.token},
              {"beat", plan.terms.beat},
              {"term", plan.terms.term}}},
            {"weights", plan.weights},
            {"disk_gb", plan.disk_gb}};
}

Plan plan_from(const json& object) {
    try {
        const json& store = object.at("store");
        Plan plan{.name = object.at("name"),
                  .kind = object.at("kind"),
                  .model = object.at("model"),
                  .encoder = object.at("encoder"),
                  .key = object.at("key"),
                  .owner = object.at("owner"),
                  .store = store.at("address"),
                  .options = {.endpoint = store.at("endpoint"),
                              .region = store.at("region"),
                              .patience = store.at("patience"),
                              .parallel = static_cast<int>(
                                  std::clamp<uint64_t>(format::get_unsigned(store, "parallel"), 1, 64))},
                  .inputs = transfers_from(object.at("inputs")),
                  .outputs = transfers_from(object.at("outputs"))};
        if (!store.at("virtual_host").is_null()) {
            plan.options.virtual_host = store.at("virtual_host").get<bool>();
        }
        for (const json& step : object.at("steps")) {
            plan.steps.push_back(step_from(step));
        }
        const json& lease = object.at("lease");
        plan.lease = {.slot = format::get_unsigned(lease, "slot"),
                      .token = format::get_unsigned(lease, "token"),
                      .owner = plan.owner,
                      .kind = plan.kind,
                      .beat = {}};
        plan.terms = {.beat = lease.at("beat"), .term = lease.at("term")};
        plan.weights = object.at("weights");
        plan.disk_gb = object.at("disk_gb");
        return plan;
    } catch (const json::exception& error) {
        throw Error(ErrorCode::bad_input, fmt::format("not the plan of a job: {}", error.what()));
    }
}

Plan plan_encode_job(const Catalogue& /*catalogue*/, const Model& model, const Readiness& readiness,
                     const GateParameters& gate, uint64_t number, const std::string& store, int threads) {
    const std::string stem = model.stem(number);
    const std::string name = file_name(stem);
    Plan plan{.name = name,
              .kind = "encode",
              .model = model.id,
              .encoder = model.encoder,
              .key = stem + ".knot",
              .owner = {},
              .store = store,
              .options = {}};
    const bool ranged = model.shards > 1 && is_address(store) && !store.starts_with("file://");
    SourceWords from;
    for (const Prerequisite& item : readiness.items) {
        if (ranged && (item.what == "f16" || item.what == "base")) {
            (item.what == "f16" ? from.model : from.base) = store + "/" + item.key;
        } else if (item.what == "f16" && part_keys(item.key).size() > 1) {
            for (const std::string& part : part_keys(item.key)) {  // which find each other by their names
                plan.inputs.push_back({.file = "in/" + file_name(part), .key = part});
            }
            from.model = "in/" + file_name(item.key);
        } else if (item.what != "v1") {
            const std::string file =
                item.what == "f16" || item.what == "qspec"
                    ? fmt::format("in/{}{}", item.what, item.what == "f16" ? ".gguf" : ".json")
                    : "in/" + item.what;
            plan.inputs.push_back({.file = file, .key = item.key});
        }
    }
    if (!gate.text.empty()) {
        plan.inputs.push_back({.file = "in/text", .key = gate.text});
    }
    plan.outputs = {{.file = fmt::format("out/{}.gate.log", name), .key = stem + ".gate.log", .always = true},
                    {.file = fmt::format("out/{}.gate.json", name), .key = stem + ".gate.json"},
                    {.file = fmt::format("out/{}.telemetry.json", name), .key = stem + ".telemetry.json"},
                    {.file = fmt::format("out/{}.knot", name), .key = stem + ".knot"}};
    const double limit = kSecondsPerHour * model.limit_hours();
    const double memory = model.limit_memory_gb();
    plan.steps.push_back({.name = "fetch", .limit_seconds = limit, .memory_gb = 1});
    for (Step& step : encode_steps(model, name, from, threads)) {
        plan.steps.push_back(std::move(step));
    }
    plan.steps.push_back(
        {.name = "verify",
         .limit_seconds = kVerifyShare * limit,
         .memory_gb = memory,
         .commands = {
             {.words = {"kaiju", "knot", "verify", fmt::format("out/{}.knot", name)}, .makes = {}}}});
    plan.steps.push_back({.name = "gate",
                          .limit_seconds = limit,
                          .memory_gb = memory,
                          .commands = {gate_command(gate, name, from, threads)}});
    plan.steps.push_back({.name = "publish", .limit_seconds = limit, .memory_gb = 1});
    plan.weights = static_cast<double>(readiness.weights);
    plan.disk_gb = model.limit_disk_gb();
    return plan;
}

Plan plan_feed_job(const Catalogue& catalogue, const Model& model, uint64_t number, const std::string& store,
                   const StoreOptions& options, int threads) {
    if (model.source.empty()) {
        throw Error(ErrorCode::missing, fmt::format("{}: no \"source\" to feed from", model.id));
    }
    if (catalogue.calibration_text.empty()) {
        throw Error(ErrorCode::missing,
                    "the catalogue names no \"calibration_text\" to measure importance on");
    }
    Plan plan{.name = fmt::format("{}-feed-{}", model.id, number),
              .kind = "feed",
              .model = model.id,
              .encoder = {},
              .key = {},
              .owner = {},
              .store = {},
              .options = {}};
    Command ladder{.words = {"kaiju", "ladder", "--source", model.source, "--id", model.id, "--store", store,
                             "--work", "work", "--text", "in/calibration", "--prompt",
                             model.prompt.empty() ? catalogue.prompt : model.prompt, "--threads",
                             std::to_string(threads)},
                   .makes = {}};
    const auto add = [&](const std::string& option, const std::string& value) {
        ladder.words.insert(ladder.words.end(), {option, value});
    };
    plan.inputs.push_back({.file = "in/calibration", .key = catalogue.calibration_text});
    if (const std::string& text = model.text.empty() ? catalogue.evaluation_text : model.text;
        !text.empty()) {
        plan.inputs.push_back({.file = "in/text", .key = text});
        add("--evaluation", "in/text");
    }
    if (!options.endpoint.empty()) {
        add("--endpoint", options.endpoint);
    }
    if (!options.region.empty()) {
        add("--region", options.region);
    }
    if (options.virtual_host) {
        add("--s3-style", *options.virtual_host ? "virtual" : "path");
    }
    add("--patience", fmt::format("{}", options.patience));
    add("--transfers", fmt::format("{}", options.parallel));
    const auto add_number = [&](const std::string& option, const auto& value) {
        if (value) {
            add(option, fmt::format("{}", *value));
        }
    };
    add_number("--ctx", catalogue.ctx);
    add_number("--imatrix-chunks", catalogue.calibration_chunks);
    add_number("--chunks", catalogue.evaluation_chunks);
    add_number("--sketch-tokens", catalogue.sketch_tokens);
    add_number("--min-margin", model.min_margin);
    for (const auto& [what, key] : model.keys) {
        add("--key", fmt::format("{}={}", what, key));
    }
    const double limit = kSecondsPerHour * model.limit_hours();
    plan.steps = {{.name = "fetch", .limit_seconds = limit, .memory_gb = 1},
                  {.name = "ladder",
                   .limit_seconds = limit,
                   .memory_gb = model.limit_memory_gb(),
                   .commands = {ladder}}};
    plan.disk_gb = model.limit_disk_gb();
    return plan;
}

Estimate estimate(double weights, uint64_t shards, double rate, bool measured, double cost_per_hour) {
    const double seconds = rate > 0 ? weights / rate : 0;
    return {.seconds = seconds / static_cast<double>(shards),
            .cost = seconds / kSecondsPerHour * cost_per_hour,
            .measured = measured};
}

double sample_rate(int threads) {
    constexpr uint64_t kRows = 48;
    constexpr uint64_t kCols = 2048;
    constexpr double kHiFrac = 0.1;
    const codec::kaiju1::Layout layout = codec::kaiju1::Layout::for_matrix(kRows, kCols, kHiFrac);
    const std::vector<float> importance(kCols, 1.0F);
    const lattice::CodebookSearch search(lattice::Parity::kept, lattice::codebook_method("fast"));
    const codec::EncoderV1 encoder(layout, importance, search);
    std::vector<float> rows(kRows * kCols);
    uint32_t state = 1;
    for (float& weight : rows) {  // sums of three uniform numbers are near enough to weights
        weight = 0;
        for (int i = 0; i < 3; ++i) {
            state = state * 1664525U + 1013904223U;
            weight += static_cast<float>(state >> 8U) / static_cast<float>(1U << 24U) - 0.5F;
        }
    }
    std::vector<std::byte> records(kRows * layout.row_bytes());
    std::vector<codec::EncodeStats> stats(kRows);
    const auto start = std::chrono::steady_clock::now();
    encoder.encode_rows(rows.data(), kRows, records.data(), stats.data());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return static_cast<double>(rows.size()) / taken.count() * threads;
}

}  // namespace kaiju::zoo
