#include "runtime/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "format/key_values.h"
#include "format/model_file.h"
#include "runtime/llama_engine.h"
#include "runtime/native/native_engine.h"

namespace kaiju::runtime {

namespace {

constexpr std::array<std::string_view, 3> kEngines = {"auto", "native", "llama"};

bool native_by_default(const std::filesystem::path& path) {
    const auto file = format::ModelFile::open(path);
    if (!file->is_knot() || file->key_values().empty()) {
        return false;
    }
    return within(path.string(), [&] {
        const format::KeyValues key_values(file->key_values());
        return native_runs(key_values.architecture()) &&
               key_values.find_u32(key_values.arch_key("expert_count")).value_or(0) == 0;
    });
}

}  // namespace

WeightType weight_type_named(std::string_view name) {
    if (name == "f16") {
        return WeightType::f16;
    }
    if (name == "f32") {
        return WeightType::f32;
    }
    throw Error(ErrorCode::usage, fmt::format("weight type \"{}\": f16 or f32", name));
}

std::span<const std::string_view> engine_names() {
    return kEngines;
}

std::unique_ptr<Engine> load_engine(const std::filesystem::path& path, const EngineOptions& options) {
    if (options.engine == "native" || (options.engine == "auto" && native_by_default(path))) {
        return load_native_engine(path, options);
    }
    if (options.engine == "llama" || options.engine == "auto") {
        return load_llama_engine(path, options);
    }
    throw Error(ErrorCode::usage,
                fmt::format("engine \"{}\": choose one of {}", options.engine, fmt::join(kEngines, ", ")));
}

bool all_finite(std::span<const float> logits) {
    return std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
}

void require_finite(std::span<const float> logits) {
    if (!all_finite(logits)) {
        throw Error(ErrorCode::bad_input, "the model gives logits that are not numbers: it is broken");
    }
}

std::vector<float> last_logits(const Engine& engine, std::span<const Token> tokens, int threads,
                               const Monitor* monitor) {
    if (tokens.empty()) {
        throw Error(ErrorCode::usage, "no tokens to evaluate");
    }
    engine.require_tokens(tokens);
    const auto count = static_cast<uint32_t>(tokens.size());
    const auto context = engine.make_context({.n_ctx = count, .threads = threads, .monitor = monitor});
    std::vector<BatchToken> batch(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
        batch[i] = {
            .token = tokens[i], .position = static_cast<int32_t>(i), .logits = i + 1 == tokens.size()};
    }
    const std::span<const float> logits = context->evaluate(batch);
    return {logits.begin(), logits.end()};
}

}  // namespace kaiju::runtime
