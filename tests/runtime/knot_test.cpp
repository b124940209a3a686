// A knot in the reference engine runs as the GGUF that it exports to would.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "codec/convert.h"
#include "format/knot_writer.h"
#include "runtime/engine.h"
#include "tiny_knot.h"

namespace kaiju::runtime {
namespace {

const std::vector<Token> kPrompt = {1, 70, 80, 300, 90};

class KnotTest : public ::testing::Test {
  protected:
    std::filesystem::path encode(const kaiju::test::TinyModelOptions& shape) {
        return kaiju::test::write_tiny_knot(folder_, shape);
    }

    std::vector<float> logits(const std::filesystem::path& path, WeightType type = WeightType::f16) {
        return last_logits(*load_engine(path, {.engine = "llama", .weight_type = type, .threads = 2}),
                           kPrompt, 1);
    }

    kaiju::test::TemporaryFolder folder_;
    Monitor monitor_;
};

TEST_F(KnotTest, RunsAsItsExportDoes) {
    for (const auto& shape :
         {kaiju::test::TinyModelOptions{.type = GGML_TYPE_F16},
          {.width = 120, .type = GGML_TYPE_F16, .tied = true},
          {.type = GGML_TYPE_Q8_0, .biases = true, .architecture = "qwen2", .parts = 2}}) {
        const auto knot = encode(shape);
        const auto file = format::ModelFile::open(knot);
        (void)codec::export_gguf(*file, folder_ / "f16.gguf", "F16", 2, monitor_);
        (void)codec::export_gguf(*file, folder_ / "f32.gguf", "F32", 2, monitor_);
        EXPECT_EQ(logits(knot), logits(folder_ / "f16.gguf"));
        EXPECT_EQ(logits(knot, WeightType::f32), logits(folder_ / "f32.gguf"));
        EXPECT_NE(logits(knot), logits(knot, WeightType::f32))
            << "the types must make a difference to be compared";
        for (const char* name : {"model.knot", "imatrix.gguf", "f16.gguf", "f32.gguf"}) {
            std::filesystem::remove(folder_ / name);
        }
    }
}

TEST_F(KnotTest, PackedStockTensorsRunUnchanged) {
    const auto model = kaiju::test::write_tiny_model(folder_ / "model.gguf", {.type = GGML_TYPE_Q4_0});
    (void)codec::pack_knot(*format::ModelFile::open(model), folder_ / "model.knot", "test", monitor_);
    EXPECT_EQ(logits(model), logits(folder_ / "model.knot"));
}

TEST_F(KnotTest, WithoutKeyValuesItSaysWhatIsMissing) {
    const std::vector<float> values(4, 1.0F);
    format::KnotWriter writer(folder_ / "bare.knot", {{"token_embd.weight", "F32", {2, 2}, 16}});
    writer.write_payload(0, std::as_bytes(std::span(values)));
    writer.finish(nlohmann::json::object());
    try {
        (void)load_engine(folder_ / "bare.knot", {});
        FAIL() << "loaded";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::missing);
        EXPECT_NE(std::string(error.what()).find("gguf_kv"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace kaiju::runtime
