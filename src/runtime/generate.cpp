#include "runtime/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kaiju::runtime {

namespace {

/// Holds back the end of a text while it may be the beginning of a stop string.
class StopFilter {
  public:
    explicit StopFilter(const std::vector<std::string>& stops) : stops_(stops) {}

    /// Adds new text; what is certain by now goes to `out`. True where a stop string is complete: everything
    /// before it has gone out, the rest is dropped.
    bool add(std::string_view piece, std::string& out) {
        held_ += piece;
        size_t found = std::string::npos;
        for (const std::string& stop : stops_) {
            found = std::min(found, held_.find(stop));
        }
        if (found != std::string::npos) {
            out.append(held_, 0, found);
            held_.clear();
            return true;
        }
        const size_t certain = held_.size() - possible_beginning();
        out.append(held_, 0, certain);
        held_.erase(0, certain);
        return false;
    }

    /// What was held back, once nothing more comes.
    [[nodiscard]] const std::string& rest() const { return held_; }

  private:
    /// Length of the longest end of the text that begins a stop string.
    [[nodiscard]] size_t possible_beginning() const {
        size_t longest = 0;
        for (const std::string& stop : stops_) {
            for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
                if (held_.ends_with(std::string_view(stop).substr(0, length))) {
                    longest = length;
                }
            }
        }
        return longest;
    }

    const std::vector<std::string>& stops_;
    std::string held_;
};

}  // namespace

std::string_view ending_name(Ending ending) {
    constexpr std::array<std::string_view, 5> kNames = {"length", "model", "stop", "context", "caller"};
    return kNames[static_cast<size_t>(ending)];
}

TextStream::TextStream(const Engine& engine, const GenerateOptions& options)
    : engine_(engine), options_(options), sampler_(options.sampler) {
    if (options_.context == 0) {
        options_.context = engine.trained_context();
    }
    if (std::ranges::any_of(options_.stops, [](const std::string& stop) { return stop.empty(); })) {
        throw Error(ErrorCode::usage, "an empty stop string: every text has one at its beginning");
    }
    context_ = engine.make_context(
        {.n_ctx = options_.context, .threads = options_.threads, .monitor = options_.monitor});
}

void TextStream::clear() {
    context_->clear();
    length_ = 0;
    pending_.clear();
}

std::span<const float> TextStream::evaluate() {
    std::vector<BatchToken> batch(pending_.size());
    for (size_t i = 0; i < pending_.size(); ++i) {
        batch[i] = {.token = pending_[i],
                    .position = static_cast<int32_t>(length_ + i),
                    .logits = i + 1 == pending_.size()};
    }
    const std::span<const float> logits = context_->evaluate(batch);
    require_finite(logits);
    length_ += static_cast<uint32_t>(pending_.size());
    pending_.clear();
    return logits;
}

Generated TextStream::extend(std::span<const Token> tokens) {
    engine_.require_tokens(tokens);
    pending_.insert(pending_.end(), tokens.begin(), tokens.end());
    if (pending_.empty()) {
        throw Error(ErrorCode::usage, "an empty prompt: give at least one token");
    }
    if (length_ + pending_.size() > options_.context) {
        throw Error(ErrorCode::usage,
                    fmt::format("the text has {} tokens and the context {} positions: shorten it, or ask for "
                                "a longer context (the model was trained for {})",
                                length_ + pending_.size(), options_.context, engine_.trained_context()));
    }
    std::ranges::for_each(tokens, [&](Token token) { sampler_.remember(token); });

    Generated result;
    StopFilter filter(options_.stops);
    const auto deliver = [&](std::string_view certain) {
        result.text += certain;
        return certain.empty() || !options_.on_piece || options_.on_piece(certain);
    };
    while (result.tokens.size() < options_.max_tokens) {
        if (length_ + pending_.size() > options_.context) {
            result.ending = Ending::context;
            break;
        }
        const Token token = sampler_.sample(evaluate());
        if (engine_.ends_generation(token)) {
            result.ending = Ending::model;
            break;
        }
        result.tokens.push_back(token);
        pending_.push_back(token);
        std::string certain;
        const bool stopped = filter.add(engine_.piece(token, false), certain);
        const bool go_on = deliver(certain);
        if (stopped || !go_on) {
            result.ending = stopped ? Ending::stop : Ending::caller;
            return result;
        }
    }
    deliver(filter.rest());
    return result;
}

Generated generate(const Engine& engine, std::span<const Token> prompt, const GenerateOptions& options) {
    GenerateOptions once = options;
    const uint32_t limit = options.context == 0 ? engine.trained_context() : options.context;
    const uint64_t needed = std::max<uint64_t>(1, prompt.size() + options.max_tokens);
    once.context = static_cast<uint32_t>(std::min<uint64_t>(limit, needed));
    return TextStream(engine, once).extend(prompt);
}

std::vector<Token> prompt_tokens(const Engine& engine, std::string_view text) {
    std::vector<Token> tokens = engine.tokenize(text, true, true);
    if (tokens.empty()) {
        const auto bos = engine.vocabulary().bos();
        if (!bos) {
            throw Error(ErrorCode::usage, "an empty prompt, and the model has no token to begin a text with");
        }
        tokens.push_back(*bos);
    }
    return tokens;
}

}  // namespace kaiju::runtime
