// Importance: the mean square of each input column of each weight matrix, collected while a model reads a
// text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/monitor.h"
#include "format/imatrix.h"
#include "runtime/engine.h"

namespace kaiju::eval {

/// Sums over the inputs of one weight matrix.
struct ImportanceSums {
    std::vector<double> squares{};  ///< per input column, the sum of x² over all tokens
    uint64_t tokens = 0;
};

/// Sums squares of the inputs of every product with a weight of a transformer block ("blk.…"), like
/// llama-imatrix. (Of the output head that tool wants no importance either, unless asked.) In f64:
/// llama-imatrix adds up in f32, which costs it up to 1e-4 of the sum after some ten thousand tokens.
class ImportanceCollector final : public runtime::ActivationTap {
  public:
    bool wants(std::string_view weight) override { return weight.starts_with("blk."); }
    /// Throws bad_input naming the weight where an input is not finite or has changed its width.
    void see(std::string_view weight, size_t rows, size_t cols, const float* data, size_t stride) override;

    [[nodiscard]] const std::map<std::string, ImportanceSums, std::less<>>& sums() const { return sums_; }

  private:
    std::map<std::string, ImportanceSums, std::less<>> sums_;
};

struct ImportanceOptions {
    uint32_t ctx = 512;
    std::optional<uint64_t> chunks{};    ///< at most this many; nothing: all of the text
    int threads = 0;                     ///< 0: all processors of this process
    std::string text_name = "the text";  ///< what messages call it
};

struct Importance {
    std::map<std::string, ImportanceSums, std::less<>> sums{};
    uint32_t ctx = 0;
    uint64_t chunks = 0;
    std::vector<uint64_t> window_hashes{};  ///< sketch of the text that was read (eval/text_overlap.h)
};

/// Reads the first chunks of a text with logits asked for at every token, so that the last block, too, works
/// on every token. Throws bad_input for a mixture of experts (its products do not belong to one matrix each)
/// and for a text that is too short.
[[nodiscard]] Importance collect_importance(const runtime::Engine& model, std::string_view text,
                                            const ImportanceOptions& options, Monitor& monitor);

/// As a file that llama-quantize reads, with the sketch of the text; `source` is what the text is called.
[[nodiscard]] format::Imatrix to_imatrix(const Importance& importance, const std::string& source);

}  // namespace kaiju::eval
