#include "cli/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "cli/command.h"

namespace kaiju::cli {

namespace {

struct Flag {
    std::vector<std::string> names;  ///< with their dashes, long ones first
    std::string description;
    std::vector<std::string> choices;  ///< the values it takes, where they are a fixed set
    bool takes_value = false;
};

/// A command or group with what may follow it.
struct Place {
    std::string path;  ///< "kaiju knot info"
    std::string name;
    std::string description;
    std::vector<Flag> flags;
    std::vector<const CLI::App*> children;
};

/// CLI11 shows a set of choices as "{a,b,c}" in the type name; there is no other way to ask a validator for
/// them.
std::vector<std::string> choices_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    const size_t open = type.find('{');
    const size_t close = type.find('}', open == std::string::npos ? 0 : open);
    if (open == std::string::npos || close == std::string::npos) {
        return {};
    }
    return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

void add_flags(const CLI::App& app, std::vector<Flag>& flags) {
    for (const CLI::Option* option : app.get_options()) {
        Flag flag;
        for (const std::string& name : option->get_lnames()) {
            flag.names.push_back("--" + name);
        }
        for (const std::string& name : option->get_snames()) {
            flag.names.push_back("-" + name);
        }
        if (!flag.names.empty()) {
            flag.description = option->get_description();
            flag.choices = choices_of(*option);
            flag.takes_value = option->get_items_expected_max() > 0;
            flags.push_back(std::move(flag));
        }
    }
}

void walk(const CLI::App& app, const std::string& parent, std::vector<Place>& places) {
    Place place;
    place.name = app.get_name();
    place.path = parent.empty() ? place.name : parent + " " + place.name;
    place.description = app.get_description();
    add_flags(app, place.flags);
    for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (child->get_name().empty()) {
            add_flags(*child, place.flags);  // a group of options is kept as a command without a name
        } else {
            place.children.push_back(child);
        }
    }
    const std::string path = place.path;
    const std::vector<const CLI::App*> children = place.children;
    places.push_back(std::move(place));
    for (const CLI::App* child : children) {
        walk(*child, path, places);
    }
}

std::vector<std::string> flag_names(const Place& place) {
    std::vector<std::string> names;
    for (const Flag& flag : place.flags) {
        names.insert(names.end(), flag.names.begin(), flag.names.end());
    }
    return names;
}

std::vector<std::string> child_names(const Place& place) {
    std::vector<std::string> names;
    for (const CLI::App* child : place.children) {
        names.push_back(child->get_name());
    }
    return names;
}

/// Every path but the program's own, as alternatives of a shell's case.
std::string path_patterns(const std::vector<Place>& places, std::string_view separator) {
    std::vector<std::string> quoted;
    for (size_t i = 1; i < places.size(); ++i) {
        quoted.push_back("'" + places[i].path + "'");
    }
    return fmt::format("{}", fmt::join(quoted, separator));
}

/// Text inside single quotes of bash or zsh.
std::string single_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return out + "'";
}

std::string bash_script(const std::vector<Place>& places) {
    std::string out = fmt::format(
        R"(# bash completion of {0}: source this file, or store it as {0} in bash-completion's folder
_{0}() {{
    local at={0} flags= commands= values= i
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at ${{COMP_WORDS[i]}}" in
            {1}) at="$at ${{COMP_WORDS[i]}}" ;;
        esac
    done
    case "$at" in
)",
        places.front().name, path_patterns(places, "|"));
    for (const Place& place : places) {
        out += fmt::format("        '{}') flags='{}' commands='{}' ;;\n", place.path,
                           fmt::join(flag_names(place), " "), fmt::join(child_names(place), " "));
    }
    out += "    esac\n    case \"$at $previous\" in\n";
    for (const Place& place : places) {
        for (const Flag& flag : place.flags) {
            if (!flag.choices.empty()) {
                out += fmt::format("        '{} {}') values='{}' ;;\n", place.path, flag.names.front(),
                                   fmt::join(flag.choices, " "));
            }
        }
    }
    out += fmt::format(R"(        *) ;;
    esac
    if [[ -n $values ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    fi
}}
complete -o default -F _{0} {0}
)",
                       places.front().name);
    return out;
}

/// "name:description" for zsh's _describe, where a colon inside the name would end it.
std::string described(std::string_view name, std::string_view description) {
    return single_quoted(fmt::format("{}:{}", name, description));
}

std::string zsh_script(const std::vector<Place>& places) {
    std::string out = fmt::format(R"(#compdef {0}
# zsh completion of {0}: store this file as _{0} in a folder of $fpath
_{0}() {{
    local at={0} i
    local -a flags commands values
    for ((i = 2; i < CURRENT; i++)); do
        case "$at $words[i]" in
            ({1})) at="$at $words[i]" ;;
        esac
    done
    case "$at" in
)",
                                  places.front().name, path_patterns(places, "|"));
    for (const Place& place : places) {
        std::vector<std::string> flags;
        for (const Flag& flag : place.flags) {
            for (const std::string& name : flag.names) {
                flags.push_back(described(name, flag.description));
            }
        }
        std::vector<std::string> commands;
        for (const CLI::App* child : place.children) {
            commands.push_back(described(child->get_name(), child->get_description()));
        }
        out += fmt::format("        ('{}') flags=({}) commands=({}) ;;\n", place.path, fmt::join(flags, " "),
                           fmt::join(commands, " "));
    }
    out += "    esac\n    case \"$at $words[CURRENT-1]\" in\n";
    for (const Place& place : places) {
        for (const Flag& flag : place.flags) {
            if (!flag.choices.empty()) {
                out += fmt::format("        ('{} {}') values=({}) ;;\n", place.path, flag.names.front(),
                                   fmt::join(flag.choices, " "));
            }
        }
    }
    out += fmt::format(R"(    esac
    if (( $#values )); then
        _describe value values
    elif [[ $words[CURRENT] == -* ]]; then
        _describe -o option flags
    elif (( $#commands )); then
        _describe command commands
    else
        _files
    fi
}}
if [[ $funcstack[1] == _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                       places.front().name);
    return out;
}

/// Text inside single quotes of fish, where the backslash escapes.
std::string fish_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        out += c == '\'' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
    }
    return out + "'";
}

std::string fish_script(const std::vector<Place>& places) {
    const std::string& program = places.front().name;
    std::string out = fmt::format(
        R"(# fish completion of {0}: store this file as completions/{0}.fish in fish's configuration folder
function __{0}_at
    set -l at {0}
    for word in (commandline -opc)[2..-1]
        switch "$at $word"
            case {1}
                set at "$at $word"
        end
    end
    test "$at" = "$argv[1]"
end
)",
        program, path_patterns(places, " "));
    for (const Place& place : places) {
        const std::string when = fmt::format("complete -c {} -n {}", program,
                                             fish_quoted(fmt::format("__{}_at '{}'", program, place.path)));
        for (const CLI::App* child : place.children) {
            out += fmt::format("{} -f -a {} -d {}\n", when, child->get_name(),
                               fish_quoted(child->get_description()));
        }
        for (const Flag& flag : place.flags) {
            out += when;
            for (const std::string& name : flag.names) {
                out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
            }
            if (!flag.choices.empty()) {
                out += fmt::format(" -x -a {}", fish_quoted(fmt::format("{}", fmt::join(flag.choices, " "))));
            } else if (flag.takes_value) {
                out += " -r";
            }
            out += fmt::format(" -d {}\n", fish_quoted(flag.description));
        }
    }
    return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, std::string_view shell) {
    std::vector<Place> places;
    walk(app, "", places);
    if (shell == "bash") {
        return bash_script(places);
    }
    if (shell == "zsh") {
        return zsh_script(places);
    }
    if (shell == "fish") {
        return fish_script(places);
    }
    throw Error(ErrorCode::usage,
                fmt::format("no completions for the shell '{}': bash, zsh and fish have them", shell));
}

void add_completions(CLI::App& app, Session& session) {
    auto shell = std::make_shared<std::string>();
    CLI::App* command =
        add_command(app, session, "completions", "Print the completion script of a shell",
                    "kaiju completions bash > ~/.local/share/bash-completion/completions/kaiju",
                    [&app, shell](Session& to) {
                        to.print(completion_script(app, *shell));
                        return 0;
                    });
    command->add_option("shell", *shell, "The shell")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

}  // namespace kaiju::cli
