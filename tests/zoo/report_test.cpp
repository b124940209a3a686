#include "zoo/report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kaiju::zoo {
namespace {

Report example() {
    ReportModel model{.id = "a<b", .family = "llama", .size = "tiny", .standing = "done", .note = "x & y"};
    model.points = {{.label = "IQ2_S", .bytes = 7e7, .ppl = 30.0, .mean_kl = 0.8},
                    {.label = "IQ3_S", .bytes = 9e7, .ppl = 22.0, .mean_kl = 0.2},
                    {.label = "kaiju1", .bytes = 8e7, .ppl = 24.0, .mean_kl = 0.3, .ours = true},
                    {.label = "unmeasured", .bytes = 1e8, .ppl = {}, .mean_kl = {}}};
    model.tensors = {{.name = "blk.0.ffn_down.weight", .excess = 0.08, .share = 0.4}};
    model.gate = "gate a<b\nverdict pass\n";
    return {.title = "The zoo of s3://bucket",
            .made = "2026-01-01 00:00",
            .models = {model,
                       {.id = "b", .family = "llama", .size = "tiny", .standing = "failed", .note = "why"}},
            .runs = {{.name = "a-kaiju1",
                      .state = "done",
                      .verdict = "",
                      .steps = {{"fetch", 1.0}, {"encode", 2.5}}}}};
}

size_t count(const std::string& text, const std::string& what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++found;
    }
    return found;
}

TEST(Report, HoldsEverythingAndNeedsNothingElse) {
    const std::string html = to_html(example());
    EXPECT_EQ(count(html, "<svg"), 3U);     // two plots and the tensors' bars, of one model
    EXPECT_EQ(count(html, "<circle"), 6U);  // what was not measured is in neither plot
    EXPECT_EQ(count(html, "<circle class=\"ours\""), 2U);
    EXPECT_NE(html.find("verdict pass"), std::string::npos);
    EXPECT_NE(html.find("encode 2.5"), std::string::npos);
    EXPECT_NE(html.find("prefers-color-scheme:dark"), std::string::npos);
    for (const char* outside : {"<script", "http", "src=", "url(", "@import", "<link"}) {
        EXPECT_EQ(html.find(outside), std::string::npos) << outside;
    }
    EXPECT_EQ(html.find("nan"), std::string::npos);
    EXPECT_EQ(html.find("inf"), std::string::npos);
}

TEST(Report, WhatComesFromFilesIsEscaped) {
    const std::string html = to_html(example());
    EXPECT_EQ(html.find("a<b"), std::string::npos);
    EXPECT_NE(html.find("a&lt;b"), std::string::npos);
    EXPECT_NE(html.find("x &amp; y"), std::string::npos);
}

TEST(Report, PointsThatCoincideStillHaveAPlace) {
    Report report = example();
    for (ReportPoint& point : report.models[0].points) {
        point = {.label = "same", .bytes = 5, .ppl = 1.0, .mean_kl = 0.0};
    }
    const std::string html = to_html(report);
    EXPECT_EQ(count(html, "<circle"), 8U);
    EXPECT_EQ(html.find("nan"), std::string::npos);
    EXPECT_EQ(html.find("inf\""), std::string::npos);
}

}  // namespace
}  // namespace kaiju::zoo
