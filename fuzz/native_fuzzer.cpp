// The loader of the native engine, and one token through what it loads. The input is a list of patches to a
// small whole knot (4 bytes each: tensor, offset in 16 bits, value), written under checksums that fit: behind
// the checksums is where shapes, types, codes and columns are believed or not.
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/encode_model.h"
#include "codec/encode_plan.h"
#include "codec/scope.h"
#include "format/imatrix.h"
#include "format/knot_writer.h"
#include "format/model_file.h"
#include "fuzzer.h"
#include "runtime/engine.h"
#include "support/tiny_model.h"

using namespace kaiju;

namespace {

struct Parts {
    std::vector<format::TensorInfo> entries;
    std::vector<std::vector<std::byte>> payloads;
};

std::filesystem::path folder() {
    static const std::filesystem::path path = [] {
        const auto made =
            std::filesystem::temp_directory_path() / ("kaiju-fuzz-" + std::to_string(::getpid()));
        std::filesystem::create_directory(made);
        return made;
    }();
    return path;
}

/// One layer of KAIJU1 matrices, key-values last.
Parts make_parts() {
    const auto model = test::write_tiny_model(folder() / "model.gguf",
                                              {.width = 48, .ffn = 48, .layers = 1, .type = GGML_TYPE_F16});
    format::Imatrix imatrix;
    const auto source = format::ModelFile::open(model);
    for (const format::TensorInfo& info : source->tensors()) {
        if (codec::is_linear_weight(info.name)) {
            imatrix.entries[info.name] = {.sum_of_squares = std::vector<float>(info.cols(), 1.0F),
                                          .count = 1};
        }
    }
    format::write_imatrix(folder() / "imatrix.gguf", imatrix);
    codec::EncodeOptions options;
    options.model = model;
    options.imatrix = folder() / "imatrix.gguf";
    options.out = folder() / "model.knot";
    Monitor monitor;
    (void)codec::encode_model(codec::plan_encode(options), monitor);
    const auto file = format::ModelFile::open(options.out);
    Parts parts;
    for (size_t i = 0; i < file->tensors().size(); ++i) {
        const Bytes payload = file->payload(i);
        parts.entries.push_back(file->tensors()[i]);
        parts.payloads.emplace_back(payload.begin(), payload.end());
    }
    const Bytes key_values = file->key_values();
    parts.entries.push_back(format::key_values_entry(key_values));
    parts.payloads.emplace_back(key_values.begin(), key_values.end());
    return parts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Parts whole = make_parts();
    return fuzz::one_input(data, size, [](Bytes input) {
        constexpr size_t kPatch = 4;
        Parts parts = whole;
        for (size_t at = 0; at + kPatch <= input.size(); at += kPatch) {
            auto& payload = parts.payloads[load<uint8_t>(input.data() + at) % parts.payloads.size()];
            payload[load<uint16_t>(input.data() + at + 1) % payload.size()] = input[at + 3];
        }
        const auto path = folder() / "patched.knot";
        std::filesystem::remove(path);
        format::KnotWriter writer(path, parts.entries);
        for (size_t i = 0; i < parts.payloads.size(); ++i) {
            writer.write_payload(i, parts.payloads[i]);
        }
        writer.finish(nlohmann::json::object());
        const auto engine = runtime::load_engine(path, {.engine = "native", .threads = 1});
        (void)runtime::last_logits(*engine, std::vector<runtime::Token>{1, 2}, 1);
    });
}
