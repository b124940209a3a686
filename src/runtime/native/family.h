// Model families: what sets one architecture apart from the next. One short file each; what they share is in
// graph_builder.h.
#pragma once

#include <span>
#include <string_view>

#include "runtime/native/graph_builder.h"
#include "runtime/native/model.h"

namespace kaiju::runtime {

class Family {
  public:
    virtual ~Family() = default;
    /// The value of general.architecture.
    [[nodiscard]] virtual std::string_view architecture() const = 0;
    /// Adds to the shape what only this family has.
    virtual void describe(HyperParameters& shape, const format::KeyValues& key_values) const = 0;
    /// Adds to block `index`, whose attention and feed-forward matrices and their norms are there already,
    /// what only this family has. `prefix`: "blk.<index>.".
    virtual void load_layer(Layer& layer, const std::string& prefix, const HyperParameters& shape,
                            Weights& weights) const = 0;
    /// False where the head is always the embedding.
    [[nodiscard]] virtual bool may_have_head() const { return true; }
    /// The graph from tokens to logits.
    virtual ggml_tensor* build(GraphBuilder& graph, const Model& model) const = 0;
};

/// All families, in the order of their names.
[[nodiscard]] std::span<const Family* const> families();
/// Throws bad_input naming the architecture and those that are known.
[[nodiscard]] const Family& family_of(std::string_view architecture);

// One per file.
[[nodiscard]] const Family& gemma_family();
[[nodiscard]] const Family& gemma2_family();
[[nodiscard]] const Family& gemma3_family();
[[nodiscard]] const Family& llama_family();
[[nodiscard]] const Family& qwen2_family();

}  // namespace kaiju::runtime
