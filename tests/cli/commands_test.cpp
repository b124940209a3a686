// The command tree as a whole: what every command owes its user.
#include <gtest/gtest.h>

#include "base/parallel.h"
#include "cli/tree.h"

namespace kaiju::test {
namespace {

/// The command line that --help shows as an example.
std::string example_of(const CLI::App& command) {
    const std::string footer = command.get_footer();
    const std::string head = "Example:\n  ";
    return footer.starts_with(head) ? footer.substr(head.size()) : std::string();
}

/// The arguments after the program's name, up to the first redirection of the shell.
std::vector<std::string> arguments_of(const std::string& example) {
    std::vector<std::string> words = CLI::detail::split_up(example);
    const auto end = std::find_if(words.begin(), words.end(), [](const std::string& word) {
        return word == "<" || word == ">" || word == "|" || word == ">>";
    });
    return {words.begin() + 1, end};
}

TEST(Commands, EveryCommandHasAnExampleThatParsesToIt) {
    size_t commands = 0;
    RecordingSession unused;
    CLI::App all("", "kaiju");
    cli::add_commands(all, unused);
    for_each_command(all, "kaiju", [&](const CLI::App& command, const std::string& name) {
        if (!children(command).empty()) {
            return;
        }
        ++commands;
        const std::string example = example_of(command);
        ASSERT_TRUE(example.starts_with(name)) << name << ": the example is '" << example << "'";
        RecordingSession session;
        CLI::App app("", "kaiju");
        cli::add_commands(app, session);
        std::vector<std::string> arguments = arguments_of(example);
        std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
        EXPECT_NO_THROW(app.parse(arguments)) << example;
        EXPECT_TRUE(session.chosen) << example;
    });
    EXPECT_GE(commands, 10U);
}

TEST(Commands, EveryOptionIsDescribedAndLong) {
    RecordingSession session;
    CLI::App app("", "kaiju");
    cli::add_commands(app, session);
    for_each_command(app, "kaiju", [](const CLI::App& command, const std::string& name) {
        EXPECT_FALSE(command.get_description().empty()) << name;
        for (const CLI::Option* option : command.get_options()) {
            EXPECT_FALSE(option->get_description().empty()) << name << " " << option->get_name();
            EXPECT_TRUE(option->get_positional() || !option->get_lnames().empty())
                << name << " " << option->get_name();
        }
    });
}

/// What the command line `name option value` says to the value: nothing where it could be read.
std::string complaint_about(const std::string& name, const CLI::Option& option, const std::string& value) {
    RecordingSession session;
    CLI::App app("", "kaiju");
    cli::add_commands(app, session);
    std::vector<std::string> arguments = CLI::detail::split_up(name);
    arguments.erase(arguments.begin());
    if (!option.get_positional()) {
        arguments.push_back(option.get_name());
    }
    arguments.push_back(value);
    std::reverse(arguments.begin(), arguments.end());
    try {
        app.parse(arguments);
    } catch (const CLI::ConversionError& error) {
        return error.what();
    } catch (const CLI::ValidationError& error) {
        return error.what();
    } catch (const CLI::ParseError&) {
        return {};  // other options are missing
    }
    return {};
}

/// Calls visit(command, option) for every option that takes a value.
void for_each_option(const std::function<void(const std::string&, const CLI::Option&)>& visit) {
    RecordingSession session;
    CLI::App app("", "kaiju");
    cli::add_commands(app, session);
    for_each_command(app, "kaiju", [&](const CLI::App& command, const std::string& name) {
        for (const CLI::Option* option : command.get_options()) {
            if (option->get_items_expected_max() > 0) {
                visit(name, *option);
            }
        }
    });
}

TEST(Commands, NumbersAreReadStrictly) {
    size_t numbers = 0;
    for_each_option([&](const std::string& name, const CLI::Option& option) {
        const auto takes = [&](const std::string& value) {
            return complaint_about(name, option, value).empty();
        };
        const std::vector<std::string> some = {"1", "0.5", "24"};
        if (takes("words") || std::none_of(some.begin(), some.end(), takes)) {
            return;
        }
        ++numbers;
        const bool whole = !takes("0.5");
        for (const char* value :
             {"", "0x10", "nan", "inf", "1e999", "+1", " 1", "1 ", "1_000", "010", "00.1", "-00.1"}) {
            EXPECT_FALSE(takes(value)) << name << " " << option.get_name() << " " << value;
        }
        for (const char* value : {"-010", "1.0", "1e1", "99999999999999999999999"}) {
            EXPECT_FALSE(whole && takes(value)) << name << " " << option.get_name() << " " << value;
        }
        for (const char* value : {"-1", "nan", "1e300"}) {
            EXPECT_LT(complaint_about(name, option, value).size(), 100U) << name << " " << option.get_name();
        }
    });
    EXPECT_GE(numbers, 50U);
}

TEST(Commands, CountsAreNotNegative) {
    for_each_option([&](const std::string& name, const CLI::Option& option) {
        if (name == "kaiju lattice gate" && !complaint_about(name, option, "words").empty()) {
            EXPECT_NE(complaint_about(name, option, "-1"), "") << option.get_name();
        }
    });
}

TEST(Commands, AnEmptyNameIsNoFile) {
    for_each_option([&](const std::string& name, const CLI::Option& option) {
        if (option.get_type_name().starts_with("FILE")) {
            EXPECT_NE(complaint_about(name, option, ""), "") << name << " " << option.get_name();
        }
        if (option.get_name() == "--out") {
            EXPECT_TRUE(option.get_type_name().starts_with("FILE")) << name;
        }
    });
}

TEST(Commands, ThreadsDefaultToAllProcessors) {
    const auto threads_after = [](std::vector<std::string> arguments) {
        CLI::App app("", "kaiju");
        int threads = -1;
        cli::add_threads(app, threads);
        std::reverse(arguments.begin(), arguments.end());
        app.parse(arguments);
        return threads;
    };
    EXPECT_EQ(threads_after({}), default_threads());
    EXPECT_EQ(threads_after({"--threads", "0"}), default_threads());
    EXPECT_EQ(threads_after({"--threads=3"}), 3);
    EXPECT_THROW(threads_after({"--threads", "-1"}), CLI::ParseError);
    EXPECT_THROW(threads_after({"--threads", "two"}), CLI::ParseError);
}

TEST(Commands, VersionNamesEveryLibrary) {
    const std::string text = cli::version_text();
    EXPECT_TRUE(text.starts_with("kaiju ")) << text;
    for (const char* name : {"llama.cpp", "ggml", "Highway", "oneTBB", "Eigen", "Spectra", "fmt",
                             "nlohmann-json", "CLI11", "OpenSSL", "xxHash"}) {
        EXPECT_NE(text.find(std::string("  ") + name + " "), std::string::npos) << name << " is not in\n"
                                                                                << text;
    }
}

}  // namespace
}  // namespace kaiju::test
