// Evaluates tokens with the native engine's graphs.
#pragma once

#include <ggml-alloc.h>
#include <ggml-cpp.h>

#include <vector>

#include "runtime/engine.h"
#include "runtime/native/graph_builder.h"
#include "runtime/threadpool.h"

namespace kaiju::runtime {

class NativeContext final : public Context {
  public:
    /// `model` must outlive it. Throws usage for a context that is not possible.
    NativeContext(const Model& model, const ContextOptions& options);

    void clear() override;
    std::span<const float> evaluate(std::span<const BatchToken> batch) override;

  private:
    /// Tokens of a batch that one graph takes: `rows` of each of neighbouring sequences.
    struct Part {
        GraphShape shape;
        std::vector<size_t> tokens;  ///< indices into the batch, sequence by sequence
    };
    struct Graph {
        GraphShape shape;
        ggml_context_ptr context;
        ggml_cgraph* nodes = nullptr;
        GraphInputs inputs;
        ggml_tensor* logits = nullptr;
        FallibleNodes fallible;
    };

    void check(std::span<const BatchToken> batch) const;
    [[nodiscard]] std::vector<Part> divide(std::span<const BatchToken> batch) const;
    void run(const Part& part, std::span<const BatchToken> batch, std::span<const size_t> output_rows);
    void build(const GraphShape& shape);
    void fill_inputs(const Part& part, std::span<const BatchToken> batch);
    void fill_mask(ggml_tensor* mask, const Part& part, std::span<const BatchToken> batch,
                   uint32_t window) const;
    void compute();

    const Model& model_;
    ContextOptions options_;
    int threads_;
    uint64_t batch_size_;
    KvCache cache_;
    std::vector<uint32_t> lengths_;  ///< of the sequences so far
    ThreadpoolPtr pool_;
    ggml_gallocr_ptr allocator_;
    Graph graph_;
    std::vector<uint8_t> work_;
    std::vector<float> logits_;
    std::vector<float> staged_;  ///< logits that do not lie one after the other in logits_
};

}  // namespace kaiju::runtime
