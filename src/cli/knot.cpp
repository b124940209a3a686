// kaiju knot info | verify | dump | diff: looking into knots. The conversions are in knot_convert.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/checksum.h"
#include "base/parallel.h"
#include "base/pieces.h"
#include "cli/command.h"
#include "cli/knot_commands.h"
#include "codec/compare.h"
#include "codec/tensor_decoder.h"
#include "codec/verify.h"
#include "format/knot.h"
#include "format/npy.h"

namespace kaiju::cli {

using format::KnotEntry;
using format::KnotFile;
using format::ModelFile;
using format::TensorInfo;
using nlohmann::json;

namespace {

struct InspectOptions {
    std::string file;
    std::string other;
    std::string tensor;
    std::string out;
    bool values = false;
    int threads = 1;
};

void print_line(Session& session, std::string text) {
    session.print(text += '\n');
}

std::string shape_text(const TensorInfo& info) {
    return fmt::format("{}", fmt::join(info.shape, " x "));
}

/// Totals of a model file, by type and altogether.
struct Totals {
    std::map<std::string, codec::VerifyReport::OfType> types;
    uint64_t weights = 0;
    uint64_t wire_weights = 0;  ///< of tensors of this project's wires
    uint64_t wire_bytes = 0;
    uint64_t file_bytes = 0;

    explicit Totals(const ModelFile& model) {
        for (const TensorInfo& info : model.tensors()) {
            codec::VerifyReport::OfType& of_type = types[info.type];
            of_type.tensors += 1;
            of_type.weights += info.weights();
            of_type.bytes += info.nbytes;
            weights += info.weights();
            if (codec::is_kaiju_type(info.type)) {
                wire_weights += info.weights();
                wire_bytes += info.nbytes;
            }
        }
        for (const MappedFile& file : model.mappings()) {
            file_bytes += file.bytes().size();
        }
    }

    /// Bits per weight (docs/evaluation.md); null where there is nothing to count.
    [[nodiscard]] static json bits(uint64_t bytes, uint64_t of_weights) {
        return of_weights == 0 ? json()
                               : json(8.0 * static_cast<double>(bytes) / static_cast<double>(of_weights));
    }
    [[nodiscard]] json linear_bits() const { return bits(wire_bytes, wire_weights); }
    [[nodiscard]] json file_bits() const { return bits(file_bytes, weights); }

    [[nodiscard]] json types_json() const {
        json answer = json::object();
        for (const auto& [name, of_type] : types) {
            answer[name] = {
                {"tensors", of_type.tensors}, {"weights", of_type.weights}, {"bytes", of_type.bytes}};
        }
        return answer;
    }
};

std::string bits_text(const json& bits) {
    return bits.is_null() ? "-" : fmt::format("{:.3f}", bits.get<double>());
}

json entry_json(const TensorInfo& info) {
    return {{"name", info.name}, {"type", info.type}, {"shape", info.shape}, {"nbytes", info.nbytes}};
}

int info(Session& session, const InspectOptions& options) {
    const std::unique_ptr<ModelFile> model = ModelFile::open(options.file);
    const auto* knot = dynamic_cast<const KnotFile*>(model.get());
    const Totals totals(*model);
    const json metadata = knot != nullptr ? json::parse(knot->metadata()) : json();
    if (session.json()) {
        json entries = json::array();
        if (knot != nullptr) {
            for (const KnotEntry& entry : knot->entries()) {
                entries.push_back(entry_json(entry.info));
                entries.back()["offset"] = entry.offset;
                entries.back()["xxh3"] = hex16(entry.xxh3);
            }
        } else {
            for (const TensorInfo& tensor : model->tensors()) {
                entries.push_back(entry_json(tensor));
            }
        }
        session.print(json{{"file", options.file},
                           {"format", knot != nullptr ? "knot" : "gguf"},
                           {"file_bytes", totals.file_bytes},
                           {"weights", totals.weights},
                           {"linear_bits", totals.linear_bits()},
                           {"file_bits", totals.file_bits()},
                           {"types", totals.types_json()},
                           {"metadata", metadata},
                           {"entries", std::move(entries)}});
        return 0;
    }
    print_line(session, fmt::format("{}: {}, {} tensors, {} weights, {} bytes", options.file,
                                    knot != nullptr ? "knot" : "GGUF", model->tensors().size(),
                                    totals.weights, totals.file_bytes));
    print_line(session, fmt::format("bits per weight: linear {}, file {}", bits_text(totals.linear_bits()),
                                    bits_text(totals.file_bits())));
    for (const auto& [name, of_type] : totals.types) {
        print_line(session, fmt::format("  {:<10} {:>5} tensors {:>14} weights {:>14} bytes {:>8} bits", name,
                                        of_type.tensors, of_type.weights, of_type.bytes,
                                        bits_text(Totals::bits(of_type.bytes, of_type.weights))));
    }
    if (!metadata.is_null()) {
        print_line(session, "metadata: " + metadata.dump(2));
    }
    for (const TensorInfo& tensor : model->tensors()) {
        print_line(session, fmt::format("  {:<40} {:<8} {:>20} {:>12} bytes", tensor.name, tensor.type,
                                        shape_text(tensor), tensor.nbytes));
    }
    return 0;
}

int verify(Session& session, const InspectOptions& options) {
    const std::unique_ptr<ModelFile> model = ModelFile::open(options.file);
    const codec::VerifyReport report = codec::verify(*model, options.threads, session.monitor());
    if (session.json()) {
        session.print(json{{"file", options.file},
                           {"ok", true},
                           {"tensors", report.tensors},
                           {"weights", report.weights},
                           {"payload_bytes", report.payload_bytes},
                           {"types", Totals(*model).types_json()}});
    } else {
        print_line(session, fmt::format("{}: ok, {} tensors, {} weights, {} payload bytes", options.file,
                                        report.tensors, report.weights, report.payload_bytes));
    }
    return 0;
}

int dump(Session& session, const InspectOptions& options) {
    const std::unique_ptr<ModelFile> model = ModelFile::open(options.file);
    const std::optional<size_t> index = model->find(options.tensor);
    if (!index) {
        throw Error(ErrorCode::missing, fmt::format("{}: no tensor is named {} (kaiju knot info lists them)",
                                                    options.file, options.tensor));
    }
    const TensorInfo& tensor = model->tensors()[*index];
    within(fmt::format("{}: tensor {}", options.file, tensor.name), [&] {
        const std::unique_ptr<codec::TensorDecoder> decoder =
            codec::make_tensor_decoder(tensor, model->payload(*index));
        constexpr uint64_t kWeightsAtATime = uint64_t{1} << 18;
        format::NpyWriter out(options.out, tensor.rows(), tensor.cols());
        Monitor& monitor = session.monitor();
        monitor.begin("decode", tensor.rows(), "rows");
        parallel_for(tensor.rows(), rows_of(kWeightsAtATime, tensor.cols()), options.threads,
                     [&](size_t begin, size_t end) {
                         monitor.check_cancelled();
                         std::vector<float> weights((end - begin) * tensor.cols());
                         decoder->decode_rows(begin, end - begin, weights.data());
                         out.write_rows(begin, weights);
                         monitor.advance(end - begin);
                     });
        out.commit();
        monitor.end();
    });
    if (session.json()) {
        session.print(json{{"out", options.out},
                           {"name", tensor.name},
                           {"type", tensor.type},
                           {"rows", tensor.rows()},
                           {"cols", tensor.cols()}});
    } else {
        print_line(session, fmt::format("{}: {} ({}), {} x {} as f32", options.out, tensor.name, tensor.type,
                                        tensor.rows(), tensor.cols()));
    }
    return 0;
}

json number_or_null(const std::optional<double>& value) {
    return value ? json(*value) : json();
}

json difference_json(const codec::TensorDifference& difference) {
    const auto side = [](const std::optional<TensorInfo>& tensor) {
        return tensor ? json{{"type", tensor->type}, {"shape", tensor->shape}} : json();
    };
    return {{"name", difference.name},
            {"first", side(difference.first)},
            {"second", side(difference.second)},
            {"bytes_equal", difference.bytes_equal},
            {"max_abs", number_or_null(difference.max_abs)},
            {"relative_rms", number_or_null(difference.relative_rms)}};
}

std::string difference_text(const codec::TensorDifference& difference) {
    const auto side = [](const std::optional<TensorInfo>& tensor) {
        return tensor ? fmt::format("{} {}", tensor->type, shape_text(*tensor)) : std::string("absent");
    };
    std::string text =
        fmt::format("  {:<40} {} | {}", difference.name, side(difference.first), side(difference.second));
    if (difference.max_abs) {
        text += fmt::format("  max abs {:.6g}, relative rms {:.6g}", *difference.max_abs,
                            *difference.relative_rms);
    }
    return text;
}

int diff(Session& session, const InspectOptions& options) {
    const std::unique_ptr<ModelFile> first = ModelFile::open(options.file);
    const std::unique_ptr<ModelFile> second = ModelFile::open(options.other);
    const std::vector<codec::TensorDifference> tensors =
        codec::compare_models(*first, *second, options.threads, session.monitor());
    const bool same_key_values = std::ranges::equal(first->key_values(), second->key_values());
    const auto is_same = [&](const codec::TensorDifference& difference) {
        return options.values ? difference.values_equal() : difference.bytes_equal;
    };
    const auto different = static_cast<size_t>(
        std::count_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return !is_same(tensor); }));
    const bool same = different == 0 && (options.values || same_key_values);
    if (session.json()) {
        json list = json::array();
        std::transform(tensors.begin(), tensors.end(), std::back_inserter(list), difference_json);
        session.print(json{{"same", same},
                           {"different", different},
                           {"key_values_equal", same_key_values},
                           {"tensors", std::move(list)}});
        return same ? 0 : 1;
    }
    for (const codec::TensorDifference& tensor : tensors) {
        if (!is_same(tensor)) {
            print_line(session, difference_text(tensor));
        }
    }
    print_line(session, fmt::format("{} of {} tensors differ; key-values are {}", different, tensors.size(),
                                    same_key_values ? "the same" : "different"));
    return same ? 0 : 1;
}

}  // namespace

void add_knot(CLI::App& app, Session& session) {
    CLI::App* group = add_group(app, "knot", "Read, check and convert .knot files");
    const auto command = [&](const std::string& name, const std::string& description,
                             const std::string& example, int (*run)(Session&, const InspectOptions&),
                             const std::shared_ptr<InspectOptions>& options) {
        CLI::App* added = add_command(*group, session, name, description, example,
                                      [options, run](Session& current) { return run(current, *options); });
        added->add_option("file", options->file, "A .knot or .gguf file")->required()->type_name("FILE");
        add_json(*added, session);
        return added;
    };
    command("info", "List what a file holds", "kaiju knot info model.knot --json", info,
            std::make_shared<InspectOptions>());

    const auto verify_options = std::make_shared<InspectOptions>();
    add_threads(*command("verify",
                         "Check structure, checksums, every block, scale and index (exit 3 names the fault)",
                         "kaiju knot verify model.knot", verify, verify_options),
                verify_options->threads);

    const auto dump_options = std::make_shared<InspectOptions>();
    CLI::App* dump_command =
        command("dump", "Write one tensor, dequantised, as a NumPy file (f32, rows x cols)",
                "kaiju knot dump model.knot --tensor blk.0.attn_q.weight --out q.npy", dump, dump_options);
    dump_command->add_option("--tensor", dump_options->tensor, "Name of the tensor")
        ->required()
        ->type_name("NAME");
    dump_command->add_option("--out", dump_options->out, "The .npy file to write")
        ->required()
        ->type_name("FILE");
    add_threads(*dump_command, dump_options->threads);

    const auto diff_options = std::make_shared<InspectOptions>();
    CLI::App* diff_command = command("diff", "Compare two files tensor by tensor (exit 1 where they differ)",
                                     "kaiju knot diff old.knot new.knot", diff, diff_options);
    diff_command->add_option("other", diff_options->other, "The .knot or .gguf file to compare with")
        ->required()
        ->type_name("FILE");
    diff_command->add_flag("--values", diff_options->values,
                           "Compare decoded weights only, not types, bytes and key-values");
    add_threads(*diff_command, diff_options->threads);

    add_knot_conversions(*group, session);
}

}  // namespace kaiju::cli
