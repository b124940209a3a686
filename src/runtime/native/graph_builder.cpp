#include "runtime/native/graph_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/native/family.h"
#include "runtime/native/packed_nodes.h"

namespace kaiju::runtime {

namespace {

/// Rows of an embedding in a wire of ours; src[0] are the token ids, which the context has checked.
class LookUpNode final : public FallibleNode {
  public:
    explicit LookUpNode(const Matrix& embedding) : embedding_(embedding) {}

  private:
    void work(ggml_tensor* node, int ith, int nth) override {
        const auto* tokens = static_cast<const int32_t*>(node->src[0]->data);
        within("tensor " + embedding_.name, [&] {
            for (int64_t i = ith; i < node->ne[1]; i += nth) {
                embedding_.decoder->decode_rows(static_cast<uint64_t>(tokens[i]), 1,
                                                static_cast<float*>(node->data) + i * node->ne[0]);
            }
        });
    }

    const Matrix& embedding_;
};

/// Shows src[0] to an ActivationTap, on the first thread.
class TapNode final : public FallibleNode {
  public:
    TapNode(ActivationTap& tap, std::string weight) : tap_(tap), weight_(std::move(weight)) {}

  private:
    void work(ggml_tensor* node, int ith, int /*nth*/) override {
        if (ith == 0) {
            const ggml_tensor* x = node->src[0];
            tap_.see(weight_, static_cast<size_t>(ggml_nrows(x)), static_cast<size_t>(x->ne[0]),
                     static_cast<const float*>(x->data), x->nb[1] / sizeof(float));
        }
    }

    ActivationTap& tap_;
    std::string weight_;
};

}  // namespace

void FallibleNode::run(ggml_tensor* node, int ith, int nth, void* self) noexcept {
    auto* fallible = static_cast<FallibleNode*>(self);
    try {
        fallible->work(node, ith, nth);
    } catch (...) {
        const std::scoped_lock lock(fallible->mutex_);
        if (!fallible->failure_) {
            fallible->failure_ = std::current_exception();
        }
    }
}

std::exception_ptr FallibleNode::failure() const {
    const std::scoped_lock lock(mutex_);
    return failure_;
}

GraphBuilder::GraphBuilder(ggml_context* context, ggml_cgraph* graph, const Model& model, KvCache& cache,
                           const GraphShape& shape, FallibleNodes& fallible, ActivationTap* tap)
    : context_(context),
      graph_(graph),
      model_(model),
      hyper_(model.shape),
      cache_(cache),
      shape_(shape),
      fallible_(fallible),
      tap_(tap) {
    inputs_.tokens = input(GGML_TYPE_I32, {shape.tokens()}, "tokens");
    inputs_.positions = input(GGML_TYPE_I32, {shape.tokens()}, "positions");
    inputs_.cells = input(GGML_TYPE_I64, {shape.tokens()}, "cells");
    const auto is_local = [&](bool wanted) {
        return hyper_.local.empty() ? !wanted : std::ranges::count(hyper_.local, wanted) > 0;
    };
    if (is_local(false)) {
        inputs_.mask = input(GGML_TYPE_F16, {shape.cells, shape.rows, 1, shape.sequences}, "mask");
    }
    if (is_local(true)) {
        inputs_.local_mask =
            input(GGML_TYPE_F16, {shape.cells, shape.rows, 1, shape.sequences}, "local mask");
    }
    if (shape.outputs < shape.tokens()) {
        inputs_.wanted = input(GGML_TYPE_I32, {shape.outputs}, "wanted");
    }
}

ggml_tensor* GraphBuilder::input(ggml_type type, std::initializer_list<int64_t> shape, const char* name) {
    ggml_tensor* tensor = ggml_new_tensor(context_, type, static_cast<int>(shape.size()), shape.begin());
    ggml_set_name(tensor, name);
    ggml_set_input(tensor);
    return tensor;
}

ggml_tensor* GraphBuilder::embed() {
    const Matrix& embedding = *model_.embedding;
    if (embedding.stock != nullptr) {
        return ggml_get_rows(context_, embedding.stock, inputs_.tokens);
    }
    ggml_tensor* tokens = inputs_.tokens;
    auto& look_up = fallible_.emplace_back(std::make_unique<LookUpNode>(embedding));
    return ggml_custom_4d(context_, GGML_TYPE_F32, hyper_.width, shape_.tokens(), 1, 1, &tokens, 1,
                          FallibleNode::run, GGML_N_TASKS_MAX, look_up.get());
}

ggml_tensor* GraphBuilder::add(ggml_tensor* a, ggml_tensor* b) {
    return ggml_add(context_, a, b);
}

ggml_tensor* GraphBuilder::scale(ggml_tensor* x, float factor) {
    return ggml_scale(context_, x, factor);
}

ggml_tensor* GraphBuilder::norm(ggml_tensor* x, ggml_tensor* weight) {
    return ggml_mul(context_, ggml_rms_norm(context_, x, hyper_.norm_epsilon), weight);
}

ggml_tensor* GraphBuilder::prepared(const PackedMatrix& matrix, ggml_tensor* x) {
    for (const Prepared& known : prepared_) {
        if (known.x == x && known.matrix->shares_preparation(matrix)) {
            return known.node;
        }
    }
    ggml_tensor* node = prepare_node(context_, matrix, x);
    prepared_.push_back({x, &matrix, node});
    return node;
}

ggml_tensor* GraphBuilder::product(const Matrix& weight, ggml_tensor* x, ggml_tensor* bias) {
    if (tap_ != nullptr && tap_->wants(weight.name)) {
        auto& tap = fallible_.emplace_back(std::make_unique<TapNode>(*tap_, weight.name));
        ggml_build_forward_expand(graph_, ggml_custom_4d(context_, GGML_TYPE_I8, 1, 1, 1, 1, &x, 1,
                                                         FallibleNode::run, 1, tap.get()));
    }
    ggml_tensor* y = nullptr;
    if (weight.stock != nullptr) {
        y = ggml_mul_mat(context_, weight.stock, x);
    } else {
        y = multiply_node(context_, *weight.packed, prepared(*weight.packed, x), x->ne[1]);
    }
    return bias == nullptr ? y : ggml_add(context_, y, bias);
}

ggml_tensor* GraphBuilder::rotate(ggml_tensor* heads, uint32_t layer) {
    const Rope& rope = hyper_.rope;
    const bool local = hyper_.is_local(layer);
    return ggml_rope_ext(context_, heads, inputs_.positions, model_.layers[layer].rope_factors,
                         static_cast<int>(hyper_.rope_size),
                         hyper_.rope_neighbours ? GGML_ROPE_TYPE_NORMAL : GGML_ROPE_TYPE_NEOX,
                         static_cast<int>(rope.original_context), local ? hyper_.local_rope_base : rope.base,
                         local ? hyper_.local_rope_scale : rope.scale, rope.yarn_mix, rope.magnitude,
                         rope.beta_fast, rope.beta_slow);
}

ggml_tensor* GraphBuilder::attention(uint32_t index, ggml_tensor* x) {
    const Layer& layer = model_.layers[index];
    const int64_t size = hyper_.head_size;
    const int64_t tokens = shape_.tokens();
    const auto heads_of = [&](const Matrix& weight, ggml_tensor* bias, ggml_tensor* norm_weight) {
        ggml_tensor* y = product(weight, x, bias);
        y = ggml_reshape_3d(context_, y, size, y->ne[0] / size, tokens);
        return norm_weight == nullptr ? y : norm(y, norm_weight);
    };
    ggml_tensor* query = rotate(heads_of(*layer.query, layer.query_bias, layer.query_norm), index);
    ggml_tensor* key = rotate(heads_of(*layer.key, layer.key_bias, layer.key_norm), index);
    ggml_tensor* value = product(*layer.value, x, layer.value_bias);

    // Written before they are read: nodes run in the order in which they are added.
    ggml_build_forward_expand(graph_, query);
    const int64_t kv_width = hyper_.kv_width();
    ggml_build_forward_expand(graph_,
                              ggml_set_rows(context_, cache_.keys(context_, index),
                                            ggml_reshape_2d(context_, key, kv_width, tokens), inputs_.cells));
    ggml_build_forward_expand(graph_,
                              ggml_set_rows(context_, cache_.values(context_, index), value, inputs_.cells));

    // [head_size, rows, heads, sequences], keys and values [head_size, cells, kv_heads, sequences].
    query = ggml_reshape_4d(context_, query, size, hyper_.heads, shape_.rows, shape_.sequences);
    query = ggml_permute(context_, query, 0, 2, 1, 3);
    const auto cached = [&](ggml_tensor* rows) {
        const size_t row = rows->nb[1];
        const size_t sequence = row * cache_.positions();
        ggml_tensor* view = ggml_view_4d(context_, rows, size, hyper_.kv_heads, shape_.cells,
                                         shape_.sequences, row / hyper_.kv_heads, row, sequence,
                                         sequence * static_cast<size_t>(shape_.first_sequence));
        return ggml_permute(context_, view, 0, 2, 1, 3);
    };
    ggml_tensor* mask = hyper_.is_local(index) ? inputs_.local_mask : inputs_.mask;
    ggml_tensor* attended = ggml_flash_attn_ext(context_, query, cached(cache_.keys(context_, index)),
                                                cached(cache_.values(context_, index)), mask,
                                                hyper_.attention_scale, 0.0F, hyper_.attention_softcap);
    ggml_prec_set_acc(attended, GGML_PREC_F32);
    attended = ggml_reshape_2d(context_, attended, hyper_.query_width(), tokens);
    return product(*layer.output, attended, layer.output_bias);
}

ggml_tensor* GraphBuilder::gated_ffn(const Layer& layer, ggml_tensor* x, Gate gate) {
    ggml_tensor* up = product(*layer.up, x, layer.up_bias);
    ggml_tensor* opened = product(*layer.gate, x, layer.gate_bias);
    ggml_tensor* inner =
        gate == Gate::silu ? ggml_swiglu_split(context_, opened, up) : ggml_geglu_split(context_, opened, up);
    return product(*layer.down, inner, layer.down_bias);
}

ggml_tensor* GraphBuilder::wanted_rows(ggml_tensor* x) {
    return inputs_.wanted == nullptr ? x : ggml_get_rows(context_, x, inputs_.wanted);
}

ggml_tensor* GraphBuilder::cap(ggml_tensor* x, float limit) {
    return scale(ggml_tanh(context_, scale(x, 1 / limit)), limit);
}

ggml_tensor* GraphBuilder::logits(ggml_tensor* x) {
    ggml_tensor* y = product(*model_.head, x, model_.head_bias);
    return hyper_.logit_softcap > 0 ? cap(y, hyper_.logit_softcap) : y;
}

}  // namespace kaiju::runtime
