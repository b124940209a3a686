#include "eval/bits.h"

#include <gtest/gtest.h>

#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::eval {
namespace {

using kaiju::test::write_tiny_model;

TEST(Bits, OfAStockModelCountTheMatricesThatWouldBeEncoded) {
    const kaiju::test::TemporaryFolder folder;
    const auto model =
        format::ModelFile::open(write_tiny_model(folder / "model.gguf", {.type = GGML_TYPE_Q8_0}));
    const Bits bits = measure_bits(*model);
    ASSERT_TRUE(bits.linear);
    EXPECT_DOUBLE_EQ(*bits.linear, 8.5) << "Q8_0 stores 34 bytes for 32 weights";
    // Two layers of q and output (96 x 96), k (48 x 96), gate, up and down (192 x 96); attn_v does not count.
    EXPECT_EQ(bits.linear_weights, 2U * (2 * 96 * 96 + 48 * 96 + 3 * 192 * 96));
    EXPECT_EQ(bits.file_bytes, std::filesystem::file_size(folder / "model.gguf"));
    EXPECT_DOUBLE_EQ(bits.file,
                     8.0 * static_cast<double>(bits.file_bytes) / static_cast<double>(bits.weights));
}

TEST(Bits, AddUpTheFilesOfASplitModel) {
    const kaiju::test::TemporaryFolder folder;
    const auto whole = measure_bits(*format::ModelFile::open(write_tiny_model(folder / "whole.gguf")));
    const auto split =
        measure_bits(*format::ModelFile::open(write_tiny_model(folder / "split.gguf", {.parts = 3})));
    EXPECT_EQ(whole.weights, split.weights);
    EXPECT_EQ(whole.linear, split.linear);
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        bytes += entry.path().filename().string().starts_with("split") ? entry.file_size() : 0;
    }
    EXPECT_EQ(split.file_bytes, bytes);
}

TEST(Bits, OfAKnotCountItsEncodedTensors) {
    const auto knot = format::ModelFile::open(kaiju::test::golden_dir() / "tiny.knot");
    const Bits bits = measure_bits(*knot);
    uint64_t bytes = 0;
    uint64_t weights = 0;
    for (const format::TensorInfo& info : knot->tensors()) {
        if (info.type == "KAIJU1") {
            bytes += info.nbytes;
            weights += info.weights();
        }
    }
    ASSERT_GT(weights, 0U);
    ASSERT_TRUE(bits.linear);
    EXPECT_DOUBLE_EQ(*bits.linear, 8.0 * static_cast<double>(bytes) / static_cast<double>(weights));
}

}  // namespace
}  // namespace kaiju::eval
