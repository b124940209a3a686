#include "cli/progress.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace kaiju::test {
namespace {

using cli::Progress;
using cli::Verbosity;

/// A stream in memory that Progress can write to.
class Capture {
  public:
    Capture() : file_(std::tmpfile(), &std::fclose) {}
    [[nodiscard]] std::FILE* file() const { return file_.get(); }
    [[nodiscard]] std::string text() const {
        std::fflush(file_.get());
        std::rewind(file_.get());
        std::string out;
        for (int c = std::fgetc(file_.get()); c != EOF; c = std::fgetc(file_.get())) {
            out += static_cast<char>(c);
        }
        return out;
    }

  private:
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

TEST(Progress, QuantitiesHaveThreeDigits) {
    EXPECT_EQ(cli::format_quantity(0), "0");
    EXPECT_EQ(cli::format_quantity(7), "7");
    EXPECT_EQ(cli::format_quantity(0.25), "0.25");
    EXPECT_EQ(cli::format_quantity(12.34), "12.3");
    EXPECT_EQ(cli::format_quantity(999), "999");
    EXPECT_EQ(cli::format_quantity(999.6), "1.00 k");
    EXPECT_EQ(cli::format_quantity(1000), "1.00 k");
    EXPECT_EQ(cli::format_quantity(134.5e6), "134 M");
    EXPECT_EQ(cli::format_quantity(1.234e9), "1.23 G");
    EXPECT_EQ(cli::format_quantity(5e19), "50000 P");
}

TEST(Progress, DurationsGrowCoarser) {
    EXPECT_EQ(cli::format_duration(0), "0.0 s");
    EXPECT_EQ(cli::format_duration(9.94), "9.9 s");
    EXPECT_EQ(cli::format_duration(9.96), "10 s");
    EXPECT_EQ(cli::format_duration(59.4), "59 s");
    EXPECT_EQ(cli::format_duration(59.6), "1:00");
    EXPECT_EQ(cli::format_duration(3599.6), "1:00:00");
    EXPECT_EQ(cli::format_duration(7265), "2:01:05");
    EXPECT_EQ(cli::format_duration(-1), "?");
    EXPECT_EQ(cli::format_duration(1e300), "?");
}

TEST(Progress, TheBarStaysInsideItsWidth) {
    EXPECT_EQ(cli::format_bar(0, 4), "[----]");
    EXPECT_EQ(cli::format_bar(0.5, 4), "[##--]");
    EXPECT_EQ(cli::format_bar(1, 4), "[####]");
    EXPECT_EQ(cli::format_bar(7, 4), "[####]");
    EXPECT_EQ(cli::format_bar(-1, 4), "[----]");
}

TEST(Progress, ATerminalSeesALineThatIsErasedAtTheEnd) {
    const Capture capture;
    Progress progress(capture.file(), true, false);
    progress.begin("encode", 200, "weights");
    progress.advance(100);
    progress.info("a message");
    progress.end();
    const std::string text = capture.text();
    EXPECT_NE(text.find("\r\033[Kencode [############------------]  50 %"), std::string::npos) << text;
    EXPECT_NE(text.find("weights/s"), std::string::npos) << text;
    EXPECT_NE(text.find("\r\033[Ka message\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("\033[3"), std::string::npos) << "colour without leave: " << text;
}

TEST(Progress, ALogSeesNoControlCharacters) {
    const Capture capture;
    Progress progress(capture.file(), false, false);
    progress.begin("encode", 10, "weights");
    for (int i = 0; i < 10; ++i) {
        progress.advance(1);
    }
    progress.warn("careful");
    progress.end();
    EXPECT_EQ(capture.text(), "kaiju: warning: careful\n");
}

TEST(Progress, QuietLeavesWarningsAndErrors) {
    const Capture capture;
    Progress progress(capture.file(), true, false);
    progress.set_verbosity(Verbosity::quiet);
    progress.begin("encode", 10, "weights");
    progress.advance(5);
    progress.info("not said");
    progress.warn("careful");
    progress.error("it broke");
    progress.end();
    EXPECT_EQ(capture.text(), "kaiju: warning: careful\nkaiju: it broke\n");
}

TEST(Progress, VerboseTellsTimeAndMemoryOfAPhase) {
    const Capture capture;
    Progress progress(capture.file(), false, false);
    progress.set_verbosity(Verbosity::verbose);
    progress.begin("encode", 10, "weights");
    progress.advance(10);
    progress.end();
    const std::string text = capture.text();
    EXPECT_TRUE(text.starts_with("[")) << text;
    EXPECT_NE(text.find("encode: 10 weights in "), std::string::npos) << text;
    EXPECT_NE(text.find("peak memory"), std::string::npos) << text;
}

TEST(Progress, ColourOnlyWhereAllowed) {
    const Capture capture;
    Progress progress(capture.file(), true, true);
    progress.warn("careful");
    EXPECT_EQ(capture.text(), "\033[33mkaiju: warning:\033[0m careful\n");
}

TEST(Progress, AStreamThatFailsStopsNothing) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "w"), &std::fclose);
    ASSERT_NE(full, nullptr);
    for (const bool terminal : {true, false}) {
        Progress progress(full.get(), terminal, terminal);
        progress.set_verbosity(Verbosity::verbose);
        EXPECT_NO_THROW({
            progress.begin("encode", 10, "weights");
            progress.advance(5);
            progress.info("a message");
            progress.warn("careful");
            progress.end();
            progress.error("it broke");
        });
    }
}

TEST(Progress, CountsFromManyThreads) {
    const Capture capture;
    Progress progress(capture.file(), false, false);
    progress.set_verbosity(Verbosity::verbose);
    progress.begin("count", 4000, "units");
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) {
                progress.advance(1);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    progress.end();
    EXPECT_NE(capture.text().find("count: 4.00 k units"), std::string::npos);
}

}  // namespace
}  // namespace kaiju::test
