// The parts that transformer graphs are made of, as ggml nodes.
#pragma once

#include <ggml.h>

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/engine.h"
#include "runtime/native/kv_cache.h"
#include "runtime/native/model.h"

namespace kaiju::runtime {

/// What gates a feed-forward network.
enum class Gate { silu, gelu };

/// What one graph computes: `rows` tokens of each of `sequences` neighbouring sequences.
struct GraphShape {
    int64_t sequences = 1;
    int64_t rows = 1;
    int64_t outputs = 1;  ///< tokens whose logits are wanted
    int64_t cells = 0;    ///< positions of the cache that attention looks at
    int64_t first_sequence = 0;

    [[nodiscard]] int64_t tokens() const { return sequences * rows; }
    bool operator==(const GraphShape&) const = default;
};

/// Tensors that are filled in before a graph runs.
struct GraphInputs {
    ggml_tensor* tokens = nullptr;      ///< i32, by token
    ggml_tensor* positions = nullptr;   ///< i32, by token
    ggml_tensor* cells = nullptr;       ///< i64, by token: its row in the cache
    ggml_tensor* mask = nullptr;        ///< f16 [cells, rows, 1, sequences]: 0 or -inf
    ggml_tensor* local_mask = nullptr;  ///< the same for layers that see a window; null where none does
    ggml_tensor* wanted = nullptr;      ///< i32: tokens whose logits are wanted; null where all are
};

/// A custom node of a graph that may throw. ggml's threads cannot carry an exception: the first one is kept,
/// and the graph is told to stop.
class FallibleNode {
  public:
    virtual ~FallibleNode() = default;
    /// The function of the node, for ggml.
    static void run(ggml_tensor* node, int ith, int nth, void* self) noexcept;
    [[nodiscard]] std::exception_ptr failure() const;

  private:
    /// The ith of nth threads' share of the work.
    virtual void work(ggml_tensor* node, int ith, int nth) = 0;

    mutable std::mutex mutex_;
    std::exception_ptr failure_;
};
using FallibleNodes = std::vector<std::unique_ptr<FallibleNode>>;

/// Builds one graph. Tensors are [values, tokens] unless said; all are owned by the context given.
class GraphBuilder {
  public:
    GraphBuilder(ggml_context* context, ggml_cgraph* graph, const Model& model, KvCache& cache,
                 const GraphShape& shape, FallibleNodes& fallible, ActivationTap* tap);

    [[nodiscard]] const GraphInputs& inputs() const { return inputs_; }

    /// The embeddings of the tokens.
    ggml_tensor* embed();
    ggml_tensor* add(ggml_tensor* a, ggml_tensor* b);
    ggml_tensor* scale(ggml_tensor* x, float factor);
    /// x over its root mean square, times the weight.
    ggml_tensor* norm(ggml_tensor* x, ggml_tensor* weight);
    /// W x, plus a bias if there is one.
    ggml_tensor* product(const Matrix& weight, ggml_tensor* x, ggml_tensor* bias = nullptr);
    /// Attention of block `layer` to the cache, with the tokens' own keys and values in it, and its output
    /// product.
    ggml_tensor* attention(uint32_t layer, ggml_tensor* x);
    /// down(gate(x) * up(x)).
    ggml_tensor* gated_ffn(const Layer& layer, ggml_tensor* x, Gate gate);
    /// Only the tokens whose logits are wanted; for the last layer, behind its attention.
    ggml_tensor* wanted_rows(ggml_tensor* x);
    /// The head's product, capped where the model wants it.
    ggml_tensor* logits(ggml_tensor* x);

  private:
    ggml_tensor* rotate(ggml_tensor* heads, uint32_t layer);
    ggml_tensor* prepared(const PackedMatrix& matrix, ggml_tensor* x);
    ggml_tensor* cap(ggml_tensor* x, float limit);
    ggml_tensor* input(ggml_type type, std::initializer_list<int64_t> shape, const char* name);

    struct Prepared {
        const ggml_tensor* x;
        const PackedMatrix* matrix;
        ggml_tensor* node;
    };

    ggml_context* context_;
    ggml_cgraph* graph_;
    const Model& model_;
    const HyperParameters& hyper_;
    KvCache& cache_;
    GraphShape shape_;
    FallibleNodes& fallible_;
    ActivationTap* tap_;
    GraphInputs inputs_;
    std::vector<Prepared> prepared_;  ///< inputs of packed matrices that were prepared already
};

}  // namespace kaiju::runtime
