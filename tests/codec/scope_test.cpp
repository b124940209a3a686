#include "codec/scope.h"

#include <gtest/gtest.h>

#include "format/gguf_file.h"
#include "support/test_files.h"
#include "support/tiny_model.h"

namespace kaiju::codec {
namespace {

TEST(LinearWeight, NamesOfTheSixRoles) {
    for (const char* role : {"attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
        EXPECT_TRUE(is_linear_weight("blk.0." + std::string(role) + ".weight"));
        EXPECT_TRUE(is_linear_weight("blk.127." + std::string(role) + ".weight"));
        EXPECT_FALSE(is_linear_weight("blk.0." + std::string(role) + ".bias"));
    }
    for (const char* name :
         {"blk.0.attn_v.weight", "blk.0.attn_norm.weight", "token_embd.weight", "output.weight",
          "blk..attn_q.weight", "blk.x.attn_q.weight", "blk.0.weight", "blk.0attn_q.weight",
          "v.blk.0.attn_q.weight", "", "blk.", "blk.7", "blk.7.weight"}) {
        EXPECT_FALSE(is_linear_weight(name)) << name;
    }
}

std::optional<std::string> scope_of(const std::string& architecture,
                                    const std::vector<std::string>& tensor_names) {
    const test::TemporaryFolder folder;
    const auto path = test::write_tiny_model(folder / "m.gguf", {.architecture = architecture});
    const auto model = format::ModelFile::open(path);
    std::vector<format::TensorInfo> tensors(model->tensors().begin(), model->tensors().end());
    for (const auto& name : tensor_names) {
        tensors.push_back({.name = name, .type = "F32", .shape = {4, 4}, .nbytes = 64});
    }
    return out_of_scope(format::KeyValues(model->key_values()), tensors);
}

TEST(Scope, DenseTextModelsAreIn) {
    EXPECT_EQ(scope_of("llama", {}), std::nullopt);
    EXPECT_EQ(scope_of("an-architecture-of-next-year", {"blk.0.ffn_norm.weight", "comm.weight"}),
              std::nullopt);
}

TEST(Scope, OthersAreOutAndTheReasonNamesTheEvidence) {
    const auto says = [](const std::optional<std::string>& reason, const char* part) {
        return reason && reason->find(part) != std::string::npos;
    };
    EXPECT_TRUE(says(scope_of("mamba", {}), "state-space"));
    EXPECT_TRUE(says(scope_of("clip", {}), "image"));
    EXPECT_TRUE(says(scope_of("new", {"blk.3.ffn_down_exps.weight"}), "blk.3.ffn_down_exps.weight"));
    EXPECT_TRUE(says(scope_of("new", {"blk.0.ssm_conv1d.weight"}), "hybrid"));
    EXPECT_TRUE(says(scope_of("new", {"mm.0.weight"}), "projector"));
}

}  // namespace
}  // namespace kaiju::codec
