// kaiju f16: the full-precision truth from a GGUF of any type.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/knot_commands.h"
#include "codec/convert.h"
#include "format/model_file.h"

namespace kaiju::cli {

namespace {

struct Options {
    std::string model;
    std::string out;
    std::string type = "f16";
    int threads = 1;
};

int run(Session& session, const Options& options) {
    const std::unique_ptr<format::ModelFile> model = format::ModelFile::open(options.model);
    const codec::ConvertReport report = codec::dequantise_gguf(*model, options.out, upper_case(options.type),
                                                               options.threads, session.monitor());
    print_conversion(session, options.out, report.tensors, report.converted, report.bytes);
    return 0;
}

}  // namespace

void add_f16(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command = add_command(app, session, "f16", "Dequantise a model to f16, bf16 or f32",
                                    "kaiju f16 --model model-q4_1.gguf --out model-f16.gguf",
                                    [options](Session& current) { return run(current, *options); });
    command->add_option("--model", options->model, "The model: .gguf or .knot")
        ->required()
        ->type_name("FILE");
    command->add_option("--out", options->out, "The .gguf file to write; it must not exist")
        ->required()
        ->type_name("FILE");
    command->add_option("--type", options->type, "Type of the matrices: f16, bf16 or f32")
        ->capture_default_str()
        ->type_name("TYPE");
    add_json(*command, session);
    add_threads(*command, options->threads);
}

}  // namespace kaiju::cli
