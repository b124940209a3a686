// The way llama.cpp's measuring programs feed a text to a model, which their figures depend on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine.h"

namespace kaiju::eval {

/// How chunks of `ctx` tokens become batches: several chunks side by side, as separate sequences, while 2048
/// tokens hold them; a longer chunk in several batches.
struct ChunkPlan {
    uint32_t ctx = 512;
    uint32_t n_seq = 4;       ///< chunks per call of the model
    uint32_t n_batch = 2048;  ///< tokens per call of the model
};

/// Throws usage for a context below 16 or above 2^20.
[[nodiscard]] ChunkPlan plan_chunks(uint32_t ctx);

/// The tokens of an evaluation text: the last newline dropped, tokenised as a whole, with the leading token
/// (BOS) where the model wants one; control tokens spelled out in the text are text. Throws bad_input where
/// the text has fewer than two chunks or where the model ends texts with EOS, which makes every chunk look
/// finished.
[[nodiscard]] std::vector<runtime::Token> tokenize_text(const runtime::Engine& engine, std::string_view text,
                                                        uint32_t ctx);

/// The bytes that tokens stand for.
[[nodiscard]] std::string text_of(const runtime::Engine& engine, std::span<const runtime::Token> tokens);

/// Runs a model over the chunks of a token sequence.
class ChunkRunner {
  public:
    /// Logits are asked for at positions >= first_logit of each chunk.
    ChunkRunner(const runtime::Engine& engine, const ChunkPlan& plan, uint32_t first_logit, int threads,
                const Monitor* monitor, runtime::ActivationTap* tap = nullptr);

    /// Evaluates chunks first .. first+count-1 (count <= n_seq) of `tokens`, each alone, the first token of
    /// each replaced by the model's leading token if it has one.
    /// @return ctx - first_logit rows of logits per chunk, chunk by chunk; valid until the next call.
    std::span<const float> evaluate(std::span<const runtime::Token> tokens, size_t first, size_t count);

  private:
    std::span<const float> evaluate_part(std::span<const runtime::Token> tokens, size_t first, size_t count,
                                         uint32_t begin, uint32_t end);

    const runtime::Engine& engine_;
    ChunkPlan plan_;
    uint32_t first_logit_;
    std::unique_ptr<runtime::Context> context_;
    std::vector<runtime::BatchToken> batch_;
    std::vector<float> logits_;  ///< only where a chunk takes several calls
};

}  // namespace kaiju::eval
