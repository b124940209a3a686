#include "codec/convert.h"

#include <ggml.h>
#include <gguf.h>

#include <nlohmann/json.hpp>

#include "bytes.h"
#include "codec/compare.h"
#include "codec/tensor_decoder.h"
#include "format/gguf_file.h"
#include "format/key_values.h"
#include "format/knot.h"
#include "format/knot_writer.h"
#include "support/random_kaiju1.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::codec {
namespace {

using format::GgufFile;
using format::KeyValues;
using format::KnotFile;
using format::TensorInfo;
using test::expect_error;

Monitor quiet;

/// A knot of a tiny model whose blk.0.ffn_down is replaced by a random KAIJU1 payload.
std::filesystem::path knot_with_wire(const test::TemporaryFolder& folder) {
    const GgufFile model(test::write_tiny_model(folder / "source.gguf"));
    std::vector<TensorInfo> tensors(model.tensors().begin(), model.tensors().end());
    const size_t index = model.find("blk.0.ffn_down.weight").value();
    TensorInfo& info = tensors[index];
    const auto cols = static_cast<uint32_t>(info.cols());
    const test::RandomKaiju1 made =
        test::random_kaiju1(9, static_cast<uint32_t>(info.rows()), cols % 24 + 24, cols / 24 - 1, 0);
    info.type = "KAIJU1";
    info.nbytes = made.payload.size();
    tensors.push_back(format::key_values_entry(model.key_values()));
    format::KnotWriter writer(folder / "wire.knot", tensors);
    for (size_t i = 0; i < model.tensors().size(); ++i) {
        writer.write_payload(i, i == index ? Bytes(made.payload) : model.payload(i));
    }
    writer.write_payload(model.tensors().size(), model.key_values());
    writer.finish(nlohmann::json::object());
    return folder / "wire.knot";
}

TEST(Convert, stock_models_go_there_and_back_byte_for_byte) {
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        const test::TemporaryFolder folder;
        test::TinyModelOptions options;
        options.type = type;
        const auto source = test::write_tiny_model(folder / "source.gguf", options);
        const ConvertReport packed = pack_knot(GgufFile(source), folder / "a.knot", "kaiju test", quiet);
        EXPECT_EQ(packed.converted, 0U);
        EXPECT_EQ(packed.bytes, std::filesystem::file_size(folder / "a.knot"));
        const ConvertReport back =
            export_gguf(KnotFile(folder / "a.knot"), folder / "back.gguf", "F16", 2, quiet);
        EXPECT_EQ(back.converted, 0U);
        EXPECT_EQ(test::slurp(folder / "back.gguf"), test::slurp(source));
        pack_knot(GgufFile(folder / "back.gguf"), folder / "b.knot", "kaiju test", quiet);
        EXPECT_EQ(test::slurp(folder / "b.knot"), test::slurp(folder / "a.knot"));
    }
}

TEST(Convert, a_split_model_is_packed_like_the_whole_one) {
    const test::TemporaryFolder folder;
    test::TinyModelOptions options;
    const GgufFile whole(test::write_tiny_model(folder / "whole.gguf", options));
    options.parts = 2;
    const GgufFile split(test::write_tiny_model(folder / "split.gguf", options));
    pack_knot(split, folder / "split.knot", "kaiju test", quiet);
    const auto differences = compare_models(KnotFile(folder / "split.knot"), whole, 2, quiet);
    ASSERT_EQ(differences.size(), whole.tensors().size());
    for (const TensorDifference& difference : differences) {
        EXPECT_TRUE(difference.bytes_equal) << difference.name;
    }
}

TEST(Convert, metadata_tells_the_source_and_nothing_of_the_machine) {
    const test::TemporaryFolder folder;
    const auto source = test::write_tiny_model(folder / "source.gguf");
    pack_knot(GgufFile(source), folder / "a.knot", "kaiju 9", quiet);
    const auto metadata = nlohmann::json::parse(KnotFile(folder / "a.knot").metadata());
    EXPECT_EQ(metadata["general"]["architecture"], "llama");
    EXPECT_EQ(metadata["general"]["name"], "tiny");
    EXPECT_EQ(metadata["created_by"], "kaiju 9");
    EXPECT_EQ(metadata["source"]["model"]["sha256"], sha256_file(source));
    EXPECT_EQ(metadata["source"]["model"]["size"], std::filesystem::file_size(source));
    EXPECT_THAT(metadata.dump(), testing::Not(testing::HasSubstr(folder.path().string())));
}

TEST(Convert, wires_are_dequantised_and_the_rest_is_copied) {
    const test::TemporaryFolder folder;
    const KnotFile knot(knot_with_wire(folder));
    const size_t wire = knot.find("blk.0.ffn_down.weight").value();
    std::vector<float> weights(knot.tensors()[wire].weights());
    make_tensor_decoder(knot.tensors()[wire], knot.payload(wire))
        ->decode_rows(0, knot.tensors()[wire].rows(), weights.data());
    for (const char* type : {"F32", "F16", "BF16", "Q8_0"}) {
        SCOPED_TRACE(type);
        const auto out = folder / (std::string(type) + ".gguf");
        EXPECT_EQ(export_gguf(knot, out, type, 3, quiet).converted, 1U);
        const GgufFile gguf(out);
        ASSERT_EQ(gguf.tensors().size(), knot.tensors().size());
        for (size_t i = 0; i < gguf.tensors().size(); ++i) {
            if (i == wire) {
                EXPECT_EQ(gguf.tensors()[i].type, type);
            } else {
                EXPECT_EQ(as_text(gguf.payload(i)), as_text(knot.payload(i)));
            }
        }
        const auto differences = compare_models(knot, gguf, 2, quiet);
        EXPECT_LE(differences[wire].relative_rms.value(), std::string(type) == "F32" ? 0 : 0.02);
        EXPECT_EQ(KeyValues(gguf.key_values()).architecture(), "llama");
    }
    EXPECT_EQ(
        std::memcmp(GgufFile(folder / "F32.gguf").payload(wire).data(), weights.data(), weights.size() * 4),
        0);
    // The number of threads does not show.
    export_gguf(knot, folder / "one.gguf", "Q8_0", 1, quiet);
    EXPECT_EQ(test::slurp(folder / "one.gguf"), test::slurp(folder / "Q8_0.gguf"));
}

TEST(Convert, rows_that_do_not_divide_are_refused_before_a_file_is_made) {
    const test::TemporaryFolder folder;
    const KnotFile knot(knot_with_wire(folder));
    expect_error(ErrorCode::bad_input,
                 {"wire.knot", "blk.0.ffn_down.weight", "rows of 192", "blocks of 256", "Q4_K"},
                 [&] { export_gguf(knot, folder / "x.gguf", "Q4_K", 1, quiet); });
    expect_error(ErrorCode::usage, {"NOSUCH"},
                 [&] { export_gguf(knot, folder / "x.gguf", "NOSUCH", 1, quiet); });
    expect_error(ErrorCode::usage, {"IQ2_XXS", "importance"},
                 [&] { export_gguf(knot, folder / "x.gguf", "IQ2_XXS", 1, quiet); });
    EXPECT_FALSE(std::filesystem::exists(folder / "x.gguf"));
    test::spill(folder / "there.gguf", "mine");
    expect_error(ErrorCode::output_exists, {"there.gguf"},
                 [&] { export_gguf(knot, folder / "there.gguf", "F16", 1, quiet); });
}

TEST(Convert, full_precision_truth_from_a_quantised_model) {
    const test::TemporaryFolder folder;
    test::TinyModelOptions options;
    options.type = GGML_TYPE_Q8_0;
    const GgufFile source(test::write_tiny_model(folder / "q.gguf", options));
    dequantise_gguf(source, folder / "f32.gguf", "F32", 2, quiet);
    dequantise_gguf(source, folder / "f16.gguf", "F16", 2, quiet);
    const GgufFile f32(folder / "f32.gguf");
    const GgufFile f16(folder / "f16.gguf");
    for (const TensorDifference& difference : compare_models(source, f32, 2, quiet)) {
        EXPECT_EQ(difference.max_abs, 0) << difference.name;
        EXPECT_EQ(difference.second->type, "F32");
    }
    for (const TensorDifference& difference : compare_models(source, f16, 2, quiet)) {
        EXPECT_LE(difference.relative_rms.value(), 1e-3) << difference.name;
        EXPECT_EQ(difference.second->type, difference.second->shape.size() > 1 ? "F16" : "F32");
    }
    EXPECT_EQ(KeyValues(f16.key_values()).find_u32("general.file_type").value_or(1), 1U);
    expect_error(ErrorCode::usage, {"Q8_0 is not F16"},
                 [&] { dequantise_gguf(source, folder / "x.gguf", "Q8_0", 2, quiet); });
}

}  // namespace
}  // namespace kaiju::codec
