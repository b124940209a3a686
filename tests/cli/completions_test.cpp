#include "cli/completions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/tree.h"

namespace kaiju::test {
namespace {

/// A tree with what is hard: a group, choices, a quote and a colon in a description, a short name.
struct Sample {
    Sample() {
        CLI::App* group = cli::add_group(app, "knot", "Look into a knot");
        CLI::App* info =
            cli::add_command(*group, session, "info", "What's inside: tensors", "kaiju knot info X", {});
        info->add_option("-s,--sort", sort, "Order")->check(CLI::IsMember({"name", "size"}));
        info->add_option("--out", out, "Where to");
    }
    RecordingSession session;
    CLI::App app{"A program", "kaiju"};
    std::string sort;
    std::string out;
};

TEST(Completions, BashKnowsCommandsFlagsAndChoices) {
    const Sample sample;
    const std::string script = cli::completion_script(sample.app, "bash");
    EXPECT_NE(script.find("'kaiju') flags='--help -h' commands='knot' ;;"), std::string::npos) << script;
    EXPECT_NE(script.find("'kaiju knot') flags='--help -h' commands='info' ;;"), std::string::npos) << script;
    EXPECT_NE(script.find("'kaiju knot info') flags='--help -h --sort -s --out' commands='' ;;"),
              std::string::npos)
        << script;
    EXPECT_NE(script.find("'kaiju knot info --sort') values='name size' ;;"), std::string::npos) << script;
}

TEST(Completions, ZshQuotesDescriptions) {
    const Sample sample;
    const std::string script = cli::completion_script(sample.app, "zsh");
    EXPECT_TRUE(script.starts_with("#compdef kaiju\n"));
    EXPECT_NE(script.find(R"(commands=('info:What'\''s inside: tensors'))"), std::string::npos) << script;
    EXPECT_NE(script.find("('kaiju knot info --sort') values=(name size)"), std::string::npos) << script;
}

TEST(Completions, FishQuotesDescriptions) {
    const Sample sample;
    const std::string script = cli::completion_script(sample.app, "fish");
    EXPECT_NE(script.find(R"(-n '__kaiju_at \'kaiju knot\'' -f -a info -d 'What\'s inside: tensors')"),
              std::string::npos)
        << script;
    EXPECT_NE(script.find("-l sort -s s -x -a 'name size' -d 'Order'"), std::string::npos) << script;
    EXPECT_NE(script.find("-l out -r -d 'Where to'"), std::string::npos) << script;
}

TEST(Completions, AnUnknownShellIsAUsageError) {
    const Sample sample;
    try {
        static_cast<void>(cli::completion_script(sample.app, "tcsh"));
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_NE(std::string(error.what()).find("tcsh"), std::string::npos);
    }
}

}  // namespace
}  // namespace kaiju::test
