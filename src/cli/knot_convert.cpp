// kaiju knot from-gguf | to-gguf.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/knot_commands.h"
#include "codec/convert.h"
#include "format/model_file.h"

namespace kaiju::cli {

namespace {

struct ConvertOptions {
    std::string file;
    std::string out;
    std::string type = "f16";
    int threads = 1;
};

int from_gguf(Session& session, const ConvertOptions& options) {
    const std::unique_ptr<format::ModelFile> model = format::ModelFile::open(options.file);
    if (model->is_knot()) {
        throw Error(ErrorCode::usage, fmt::format("{}: already a knot", options.file));
    }
    const codec::ConvertReport report =
        codec::pack_knot(*model, options.out, "kaiju " KAIJU_VERSION, session.monitor());
    print_conversion(session, options.out, report.tensors, report.converted, report.bytes);
    return 0;
}

int to_gguf(Session& session, const ConvertOptions& options) {
    const std::unique_ptr<format::ModelFile> model = format::ModelFile::open(options.file);
    if (model->key_values().empty()) {
        session.monitor().warn(fmt::format(
            "{}: no gguf_kv entry, so the GGUF will have no hyper-parameters and llama.cpp cannot load it",
            options.file));
    }
    const codec::ConvertReport report =
        codec::export_gguf(*model, options.out, upper_case(options.type), options.threads, session.monitor());
    print_conversion(session, options.out, report.tensors, report.converted, report.bytes);
    return 0;
}

}  // namespace

std::string upper_case(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    return text;
}

void print_conversion(Session& session, const std::string& out, uint64_t tensors, uint64_t converted,
                      uint64_t bytes) {
    if (session.json()) {
        session.print(
            nlohmann::json{{"out", out}, {"tensors", tensors}, {"converted", converted}, {"bytes", bytes}});
    } else {
        session.print(
            fmt::format("{}: {} tensors, {} of them converted, {} bytes\n", out, tensors, converted, bytes));
    }
}

void add_knot_conversions(CLI::App& group, Session& session) {
    const auto command = [&](const std::string& name, const std::string& description,
                             const std::string& example, int (*run)(Session&, const ConvertOptions&),
                             const std::shared_ptr<ConvertOptions>& options, const std::string& what) {
        CLI::App* added = add_command(group, session, name, description, example,
                                      [options, run](Session& current) { return run(current, *options); });
        added->add_option("file", options->file, what)->required()->type_name("FILE");
        added->add_option("--out", options->out, "The file to write; it must not exist")
            ->required()
            ->type_name("FILE");
        add_json(*added, session);
        return added;
    };
    command("from-gguf", "Pack a GGUF (of any stock types, also split) as a knot, verbatim",
            "kaiju knot from-gguf model.gguf --out model.knot", from_gguf, std::make_shared<ConvertOptions>(),
            "The .gguf file, or the first part of a split one");

    const auto options = std::make_shared<ConvertOptions>();
    CLI::App* to = command(
        "to-gguf", "Write a GGUF that stock llama.cpp loads; KAIJU tensors are dequantised",
        "kaiju knot to-gguf model.knot --out model-f16.gguf --type f16", to_gguf, options, "The .knot file");
    to->add_option("--type", options->type,
                   "Type for what was a KAIJU tensor: f32, f16, bf16, q8_0, q4_k, ... (stock tensors stay as "
                   "they are)")
        ->capture_default_str()
        ->type_name("TYPE");
    add_threads(*to, options->threads);
}

}  // namespace kaiju::cli
