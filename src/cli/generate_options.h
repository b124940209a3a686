// Options of the commands that write text.
#pragma once

#include "cli/numbers.h"

#include "runtime/generate.h"

namespace kaiju::cli {

inline void add_generate_options(CLI::App& command, runtime::GenerateOptions& generate) {
    command.add_option("-n,--tokens", generate.max_tokens, "Most tokens to add")
        ->check(between(1, 1 << 20))
        ->capture_default_str();
    command
        .add_option("--ctx", generate.context, "Positions of the context; 0: what the model was trained for")
        ->check(between(0, 1 << 24))
        ->capture_default_str();
    command
        .add_option("--temp", generate.sampler.temperature, "Temperature; 0: always the most likely token")
        ->check(between(0, 1e6))
        ->capture_default_str();
    command.add_option("--top-k", generate.sampler.top_k, "Keep the K most likely tokens (0: all)")
        ->check(between(0, 1 << 30))
        ->capture_default_str();
    command
        .add_option("--top-p", generate.sampler.top_p, "Keep the most likely tokens that make up this share")
        ->check(between(0, 1))
        ->capture_default_str();
    command
        .add_option("--min-p", generate.sampler.min_p,
                    "Drop tokens less likely than this share of the most likely one")
        ->check(between(0, 1))
        ->capture_default_str();
    command.add_option("--seed", generate.sampler.seed, "The same seed gives the same text")
        ->check(between(0, 4294967294.0))
        ->capture_default_str();
    command
        .add_option("--repeat-penalty", generate.sampler.repeat_penalty,
                    "Divide the logits of tokens seen lately by this (1: do not)")
        ->check(between(0, 1e6))
        ->capture_default_str();
    command
        .add_option("--repeat-window", generate.sampler.repeat_window, "How many tokens count as seen lately")
        ->check(between(0, 1 << 20))
        ->capture_default_str();
    command.add_option("--stop", generate.stops, "End before this text; may be given several times")
        ->type_name("TEXT")
        ->allow_extra_args(false);
}

}  // namespace kaiju::cli
