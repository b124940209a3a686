// What the key-values of a model say about its shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/key_values.h"

namespace kaiju::runtime {

/// Rotary position embedding: which pairs of a head's values turn, and how fast (see ggml_rope_ext).
struct Rope {
    float base = 10000;
    float scale = 1;  ///< of positions
    float yarn_mix = 0;
    float magnitude = 1;
    float beta_fast = 32;
    float beta_slow = 1;
    uint32_t original_context = 0;
};

/// The shape of a dense transformer. Read from `<architecture>.*` keys; a family adjusts what it has of its
/// own.
struct HyperParameters {
    std::string architecture;
    uint32_t layers = 0;
    uint32_t width = 0;      ///< of the residual stream
    uint32_t ffn_width = 0;  ///< inner width of the feed-forward network
    uint32_t heads = 0;      ///< of queries
    uint32_t kv_heads = 0;   ///< of keys and values; divides heads
    uint32_t head_size = 0;
    uint32_t rope_size = 0;  ///< values of a head that turn
    uint32_t context = 0;    ///< positions that the model was trained for
    float norm_epsilon = 0;
    Rope rope;
    bool rope_neighbours = false;  ///< pairs are neighbours (2i, 2i+1), not halves (i, i + rope_size / 2)

    float attention_scale = 0;    ///< of the products of queries and keys; read() sets 1 / sqrt(head_size)
    float attention_softcap = 0;  ///< 0: none
    float logit_softcap = 0;      ///< 0: none
    uint32_t window = 0;      ///< positions that a local layer sees, its own among them; 0: no local layers
    std::vector<bool> local;  ///< by layer: sees a window only; empty: none does
    float local_rope_base = 0;
    float local_rope_scale = 1;

    [[nodiscard]] bool is_local(uint32_t layer) const { return !local.empty() && local[layer]; }
    [[nodiscard]] uint32_t query_width() const { return heads * head_size; }
    [[nodiscard]] uint32_t kv_width() const { return kv_heads * head_size; }

    /// Reads and checks what all families share. Throws missing or bad_input naming the key.
    [[nodiscard]] static HyperParameters read(const format::KeyValues& key_values);
    /// Reads the layers that see a window only: `attention.sliding_window_pattern`, an array of a flag per
    /// layer or a period, of which the last layer is global; `period` where the model does not say.
    void read_window(const format::KeyValues& key_values, uint32_t period);
};

}  // namespace kaiju::runtime
