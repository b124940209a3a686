// kaiju encode-tensor: one matrix, from a model or from a plain array, becomes a knot of one entry.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "cli/command.h"
#include "cli/v3_flags.h"
#include "codec/encode_plan.h"
#include "codec/encode_tensor.h"
#include "codec/encoder_v1.h"
#include "codec/tensor_encoder.h"
#include "format/imatrix.h"
#include "format/knot_writer.h"
#include "format/model_file.h"
#include "format/npy.h"
#include "format/sketch.h"
#include "format/taps.h"
#include "lattice/codebook_search.h"

namespace kaiju::cli {

namespace {

struct Options {
    std::string model;
    std::string tensor;
    std::string input;
    uint64_t rows = 0;
    uint64_t cols = 0;
    std::string imatrix;
    std::string importance;
    bool uniform = false;
    std::string out;
    std::string name = "weight";
    std::string encoder = "v1";
    std::string sketch;
    std::string covariance;
    std::string tap;
    V3Flags v3;
    std::string decoder = "fast";
    double hi_frac = 0.1;
    int threads = 1;
};

/// The matrix to encode: whatever holds its bytes, and a view of them as a tensor of a stock type.
struct Source {
    std::string path;
    std::unique_ptr<format::ModelFile> model;
    std::optional<format::NpyFile> npy;
    std::optional<MappedFile> raw;
    format::TensorInfo info;
    Bytes payload;
};

Source source_from_model(const Options& options) {
    Source source;
    source.path = options.model;
    source.model = format::ModelFile::open(options.model);
    const auto index = source.model->find(options.tensor);
    if (!index) {
        throw Error(ErrorCode::missing, fmt::format("{}: there is no tensor {}; kaiju knot info lists them",
                                                    options.model, options.tensor));
    }
    source.info = source.model->tensors()[*index];
    source.payload = source.model->payload(*index);
    return source;
}

Source source_from_array(const Options& options) {
    Source source;
    source.path = options.input;
    if (options.input.ends_with(".npy")) {
        source.npy.emplace(options.input);
        if ((options.rows != 0 && options.rows != source.npy->rows()) ||
            (options.cols != 0 && options.cols != source.npy->cols())) {
            throw Error(ErrorCode::usage, fmt::format("{}: {} x {}, which is not what --rows and --cols say",
                                                      options.input, source.npy->rows(), source.npy->cols()));
        }
        source.info = {.name = options.name,
                       .type = "F32",
                       .shape = {source.npy->rows(), source.npy->cols()},
                       .nbytes = 0};
        source.payload = source.npy->values();
    } else {
        if (options.rows == 0 || options.cols == 0) {
            throw Error(ErrorCode::usage,
                        fmt::format("{}: raw f32 values need --rows and --cols", options.input));
        }
        source.raw.emplace(options.input);
        source.info = {
            .name = options.name, .type = "F32", .shape = {options.rows, options.cols}, .nbytes = 0};
        source.payload = source.raw->bytes();
    }
    source.info.nbytes = source.payload.size();
    return source;
}

std::vector<float> importance_of(const Options& options, const format::TensorInfo& info) {
    if (options.uniform) {
        return std::vector<float>(info.cols(), 1.0F);
    }
    if (!options.importance.empty()) {
        const format::NpyFile file(options.importance);
        std::vector<float> values(file.values().size() / sizeof(float));
        std::copy_n(file.values().data(), file.values().size(), reinterpret_cast<std::byte*>(values.data()));
        within(options.importance, [&] { codec::check_importance(values, info.cols()); });
        return values;
    }
    const format::Imatrix imatrix = format::read_imatrix(options.imatrix);
    const auto* entry = imatrix.find(info.name);
    if (entry == nullptr) {
        throw Error(ErrorCode::missing,
                    fmt::format("{}: there is no entry for {}", options.imatrix, info.name));
    }
    std::vector<float> values = entry->mean_squares();
    within(options.imatrix, [&] { codec::check_importance(values, info.cols()); });
    return values;
}

/// The entry of a file of covariances that the matrix is encoded against.
template <typename File>
const auto& tap_entry(const File& file, const Options& options, const format::TensorInfo& info) {
    const std::string tap = options.tap.empty() ? format::tap_of(info.name).value_or("") : options.tap;
    if (tap.empty()) {
        throw Error(ErrorCode::usage,
                    fmt::format("{}: no tap is known for a tensor of this name: say --tap", info.name));
    }
    const auto* entry = file.find(tap);
    if (entry == nullptr) {
        throw Error(ErrorCode::missing, fmt::format("{}: there is no tap {}", file.path().string(), tap));
    }
    if (entry->dim != info.cols()) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: tap {} has {} inputs, the matrix has {} columns",
                                                      file.path().string(), tap, entry->dim, info.cols()));
    }
    return *entry;
}

codec::kaiju1::Layout layout_of(const Options& options, const codec::V3Options& v3,
                                const format::TensorInfo& info) {
    auto layout = codec::kaiju1::Layout::for_matrix(info.rows(), info.cols(), options.hi_frac);
    layout.perm_kind = options.encoder == "v3" && v3.activation_order ? 1 : 0;
    return layout;
}

std::unique_ptr<codec::RowEncoder> make_encoder(const Options& options, const codec::V3Options& v3,
                                                const format::TensorInfo& info,
                                                const codec::TensorDecoder& weights,
                                                const lattice::CodebookSearch& search) {
    const auto layout = layout_of(options, v3, info);
    const std::vector<float> importance = importance_of(options, info);
    if (options.encoder == "v1") {
        return std::make_unique<codec::EncoderV1>(layout, importance, search);
    }
    const auto make = [&](const auto& covariance) {
        const auto energy = codec::column_energy(weights, info.rows(), info.cols(), options.threads);
        return std::make_unique<codec::EncoderV3>(layout, importance, energy, covariance, search, v3);
    };
    if (!options.sketch.empty()) {
        const format::SketchFile file(options.sketch);
        return make(codec::covariance_of(tap_entry(file, options, info)));
    }
    const format::CovarianceFile file(options.covariance);
    return make(codec::covariance_of(file, tap_entry(file, options, info), options.threads));
}

int run(Session& session, const Options& options) {
    require_outputs({options.out});
    codec::EncodeOptions encode;
    encode.encoder = options.encoder;
    encode.sketch = options.sketch;
    encode.covariance = options.covariance;
    encode.decoder = options.decoder;
    options.v3.require_reader(options.encoder);
    for (const CLI::Option* option : options.v3.of_kaiju4) {
        if (option->count() > 0) {
            throw Error(ErrorCode::usage,
                        fmt::format("{} is read by KAIJU4 alone; this makes KAIJU1", option->get_name()));
        }
    }
    encode.v3 = options.v3.options(!options.covariance.empty(), false);
    codec::check_encoder(encode);
    if (options.model.empty() && options.input.empty()) {
        throw Error(ErrorCode::usage, "name the matrix: --model and --tensor, or --input");
    }
    const Source source = options.model.empty() ? source_from_array(options) : source_from_model(options);
    const auto weights =
        within(source.path, [&] { return codec::make_tensor_decoder(source.info, source.payload); });
    const lattice::CodebookSearch search = codec::make_search(encode);

    codec::EncodeStats stats;
    const auto encoder = make_encoder(options, encode.v3, source.info, *weights, search);
    const auto payload = within(fmt::format("{}: tensor {}", source.path, source.info.name), [&] {
        session.monitor().begin("encode", source.info.weights(), "weights");
        auto made = codec::encode_tensor(*weights, *encoder, options.threads, session.monitor(), stats);
        session.monitor().end();
        return made;
    });
    const format::TensorInfo info{.name = source.info.name,
                                  .type = "KAIJU1",
                                  .shape = {source.info.rows(), source.info.cols()},
                                  .nbytes = payload.size()};
    format::KnotWriter writer(options.out, {info});
    writer.write_payload(0, payload);
    writer.finish({{"kaiju", {{"encoder", codec::encoder_name(encode)}, {"hi_frac", options.hi_frac}}},
                   {"created_by", "kaiju " KAIJU_VERSION}});

    const double bits = 8.0 * static_cast<double>(info.nbytes) / static_cast<double>(info.weights());
    const double relative = stats.diagonal_energy > 0 ? stats.diagonal_excess / stats.diagonal_energy : 0;
    const double clamp_rate =
        static_cast<double>(stats.clamped_blocks) / std::max<double>(1, static_cast<double>(stats.blocks));
    if (session.json()) {
        session.print(nlohmann::json{{"out", options.out},
                                     {"name", info.name},
                                     {"rows", source.info.rows()},
                                     {"cols", source.info.cols()},
                                     {"bytes", info.nbytes},
                                     {"bits", bits},
                                     {"diagonal_excess", stats.diagonal_excess},
                                     {"relative_excess", relative},
                                     {"full_excess", stats.full_excess},
                                     {"full_energy", stats.full_energy},
                                     {"clamp_rate", clamp_rate}});
    } else {
        session.print(fmt::format(
            "{}: {} {} x {}, {:.3f} bits per weight, relative excess {:.4f}, clamp rate {:.3f}\n",
            options.out, info.name, source.info.rows(), source.info.cols(), bits, relative, clamp_rate));
    }
    return 0;
}

}  // namespace

void add_encode_tensor(CLI::App& app, Session& session) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        add_command(app, session, "encode-tensor", "Compress one matrix to a knot of one entry",
                    "kaiju encode-tensor --model model-f16.gguf --tensor blk.0.attn_q.weight --imatrix "
                    "model.imatrix.gguf --out q.knot",
                    [options](Session& current) { return run(current, *options); });
    auto* model = command->add_option("--model", options->model, "Take the matrix from this .gguf or .knot")
                      ->type_name("FILE");
    auto* tensor =
        command->add_option("--tensor", options->tensor, "Name of the tensor in the model")->needs(model);
    model->needs(tensor);
    auto* input = command
                      ->add_option("--input", options->input,
                                   "Take it from a .npy, or from raw little-endian f32 values")
                      ->type_name("FILE")
                      ->excludes(model);
    command->add_option("--rows", options->rows, "Rows of raw values (a .npy knows its own)")
        ->needs(input)
        ->check(positive());
    command->add_option("--cols", options->cols, "Columns of raw values (a .npy knows its own)")
        ->needs(input)
        ->check(positive());
    command->add_option("--name", options->name, "Name of the entry made from --input")
        ->needs(input)
        ->capture_default_str();
    auto* importance = command->add_option_group("importance", "Importance of the columns");
    importance->add_option("--imatrix", options->imatrix, "From an importance matrix")->type_name("FILE");
    importance->add_option("--importance", options->importance, "From a .npy of one value per column")
        ->type_name("FILE");
    importance->add_flag("--uniform", options->uniform, "All columns alike");
    importance->require_option(1);
    command->add_option("--out", options->out, "The .knot to write; it must not exist")
        ->required()
        ->type_name("FILE");
    command->add_option("--encoder", options->encoder, "v1 or v3")->capture_default_str();
    const auto* sketch =
        command->add_option("--sketch", options->sketch, "v3: covariance sketches (kaiju capture)")
            ->type_name("FILE");
    const auto* covariance =
        command
            ->add_option("--covariance", options->covariance, "v3: full covariances (kaiju capture --full)")
            ->type_name("FILE");
    const auto* tap = command->add_option(
        "--tap", options->tap, "v3: the tap whose covariance counts (default: by the tensor's name)");
    add_v3_flags(*command, options->v3, {sketch, covariance, tap});
    command->add_option("--decoder", options->decoder, "Search of the code book: fast, pruned or exhaustive")
        ->capture_default_str();
    command->add_option("--hi-frac", options->hi_frac, "Part of the columns that the 8-bit side-band takes")
        ->capture_default_str();
    add_threads(*command, options->threads);
    add_json(*command, session);
}

}  // namespace kaiju::cli
