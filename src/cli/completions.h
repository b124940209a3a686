// Shell completions, written from the tree of commands that parsing uses, so that they cannot fall behind it.
#pragma once

#include <string>
#include <string_view>

#include "cli/numbers.h"

namespace kaiju::cli {

/// The completion script of `app` for "bash", "zsh" or "fish". Throws Error(usage) for another shell.
[[nodiscard]] std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace kaiju::cli
