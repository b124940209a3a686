#include "codec/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/parallel.h"
#include "base/pieces.h"
#include "codec/provenance.h"
#include "codec/stock.h"
#include "codec/tensor_decoder.h"
#include "format/gguf_writer.h"
#include "format/knot_writer.h"

namespace kaiju::codec {

using format::ModelFile;
using format::TensorInfo;

namespace {

constexpr std::string_view kFileType = "general.file_type";

/// llama.cpp's number for "mostly of this type" (enum llama_ftype); none where a type has no such number
/// here.
std::optional<uint32_t> file_type_number(std::string_view type) {
    constexpr std::pair<std::string_view, uint32_t> kNumbers[] = {
        {"F32", 0}, {"F16", 1}, {"Q8_0", 7}, {"BF16", 32}};
    for (const auto& [name, number] : kNumbers) {
        if (type == name) {
            return number;
        }
    }
    return std::nullopt;
}

/// The key-values of a model whose weights are now of another type.
format::KeyValueWriter changed_key_values(const ModelFile& model, std::string_view type) {
    format::KeyValueWriter changed;
    const std::optional<uint32_t> number = file_type_number(type);
    if (model.key_values().empty()) {
        return changed;
    }
    for (const format::GgufKeyValue& kv : format::scan_gguf(model.key_values()).key_values) {
        if (kv.key == kFileType) {
            if (number) {
                changed.add_u32(kFileType, *number);
            }
        } else if (!kv.key.starts_with(
                       "quantize.")) {  // llama-quantize's notes on how the old weights were made
            changed.add(kv);
        }
    }
    return changed;
}

void copy_payload(const ModelFile& model, size_t index, Monitor& monitor,
                  const std::function<void(uint64_t, Bytes)>& write) {
    constexpr uint64_t kPiece = uint64_t{16} << 20;
    const Bytes payload = model.payload(index);
    for (uint64_t at = 0; at < payload.size(); at += kPiece) {
        monitor.check_cancelled();
        const Bytes piece = payload.subspan(at, std::min<uint64_t>(kPiece, payload.size() - at));
        write(at, piece);
        monitor.advance(piece.size());
    }
    model.release(index);
}

/// Decodes a tensor and stores it as another type, a few rows at a time.
void convert_tensor(const ModelFile& model, size_t index, const StockEncoder& encoder,
                    const TensorInfo& target, int threads, Monitor& monitor, format::GgufWriter& out) {
    constexpr uint64_t kWeightsAtATime = uint64_t{1} << 18;
    const TensorInfo& source = model.tensors()[index];
    const std::unique_ptr<TensorDecoder> decoder = make_tensor_decoder(source, model.payload(index));
    const uint64_t rows = source.rows();
    const uint64_t cols = source.cols();
    const uint64_t row_bytes = target.nbytes / rows;
    const uint64_t source_row = source.nbytes / rows;
    parallel_for(rows, rows_of(kWeightsAtATime, cols), threads, [&](size_t begin, size_t end) {
        monitor.check_cancelled();
        const uint64_t count = end - begin;
        std::vector<float> weights(count * cols);
        std::vector<std::byte> bytes(count * row_bytes);
        decoder->decode_rows(begin, count, weights.data());
        encoder.encode_rows(weights.data(), count, cols, bytes.data(), nullptr, begin);
        out.write(index, begin * row_bytes, bytes);
        monitor.advance(count * source_row);
    });
    monitor.advance(source.nbytes - rows * source_row);
    model.release(index);
}

ConvertReport write_gguf(const ModelFile& model, const std::filesystem::path& out,
                         const StockEncoder& encoder, int threads, Monitor& monitor,
                         const std::function<bool(const TensorInfo&)>& converts) {
    ConvertReport report;
    uint64_t payload_bytes = 0;
    std::vector<TensorInfo> targets;
    for (const TensorInfo& info : model.tensors()) {
        const bool changes = converts(info);
        targets.push_back(changes ? within(fmt::format("{}: tensor {}", model.path().string(), info.name),
                                           [&] { return encoder.describe(info); })
                                  : info);
        report.converted += changes ? 1 : 0;
        payload_bytes += info.nbytes;
    }
    format::KeyValueWriter same;
    same.add_all(model.key_values());
    format::GgufWriter file(out, report.converted == 0 ? same : changed_key_values(model, encoder.name()),
                            targets);
    monitor.begin("write", payload_bytes, "B");
    for (size_t i = 0; i < targets.size(); ++i) {
        within(fmt::format("{}: tensor {}", model.path().string(), targets[i].name), [&] {
            if (converts(model.tensors()[i])) {
                convert_tensor(model, i, encoder, targets[i], threads, monitor, file);
            } else {
                copy_payload(model, i, monitor, [&](uint64_t at, Bytes piece) { file.write(i, at, piece); });
            }
        });
    }
    file.commit();
    monitor.end();
    report.tensors = targets.size();
    report.bytes = file.size();
    return report;
}

StockEncoder make_encoder(std::string_view type) {
    try {
        return StockEncoder(type);
    } catch (const Error& error) {
        throw Error(ErrorCode::usage, error.what());
    }
}

}  // namespace

ConvertReport pack_knot(const ModelFile& model, const std::filesystem::path& out, std::string_view created_by,
                        Monitor& monitor) {
    std::vector<TensorInfo> entries;
    const bool has_key_values = !model.key_values().empty();
    if (has_key_values) {
        entries.push_back(format::key_values_entry(model.key_values()));
    }
    uint64_t payload_bytes = 0;
    for (const TensorInfo& info : model.tensors()) {
        entries.push_back(info);
        payload_bytes += info.nbytes;
    }
    format::KnotWriter file(out, std::move(entries));
    const nlohmann::json metadata = {{"created_by", created_by},
                                     {"source", {{"model", source_json(model, monitor)}}},
                                     {"general", general_json(model)}};
    monitor.begin("pack", payload_bytes, "B");
    if (has_key_values) {
        file.write_payload(0, model.key_values());
    }
    for (size_t i = 0; i < model.tensors().size(); ++i) {
        monitor.check_cancelled();
        file.write_payload(i + (has_key_values ? 1 : 0), model.payload(i));
        monitor.advance(model.tensors()[i].nbytes);
        model.release(i);
    }
    file.finish(metadata);
    monitor.end();
    return {model.tensors().size(), 0, file.file_length()};
}

ConvertReport export_gguf(const ModelFile& model, const std::filesystem::path& out, std::string_view type,
                          int threads, Monitor& monitor) {
    const StockEncoder encoder = make_encoder(type);
    return write_gguf(model, out, encoder, threads, monitor,
                      [](const TensorInfo& info) { return is_kaiju_type(info.type); });
}

ConvertReport dequantise_gguf(const ModelFile& model, const std::filesystem::path& out, std::string_view type,
                              int threads, Monitor& monitor) {
    if (type != "F16" && type != "BF16" && type != "F32") {
        throw Error(ErrorCode::usage, fmt::format("type {} is not F16, BF16 or F32", type));
    }
    const StockEncoder encoder = make_encoder(type);
    return write_gguf(model, out, encoder, threads, monitor,
                      [type](const TensorInfo& info) { return info.shape.size() > 1 && info.type != type; });
}

}  // namespace kaiju::codec
