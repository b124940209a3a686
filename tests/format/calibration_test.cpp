#include "format/calibration.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "format/gguf_writer.h"

namespace kaiju::format {
namespace {

TEST(Calibration, SurvivesImatrixAndMetadata) {
    const Calibration calibration{.source = "wiki", .window_hashes = {1, 18446744073709551615U}};
    Imatrix imatrix;
    set_calibration(imatrix, calibration);
    const auto read = calibration_of(imatrix);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->source, "wiki");
    EXPECT_EQ(read->window_hashes, calibration.window_hashes);
    const auto again = calibration_of(nlohmann::json{{"calibration", to_json(calibration)}}.dump());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->source, "wiki");
    EXPECT_EQ(again->window_hashes, calibration.window_hashes);
}

TEST(Calibration, EarlierFormsAreReadAsNotKnown) {
    const auto knot =
        calibration_of(std::string_view(R"({"calibration":{"line_hashes":[1,2],"source":"wiki"}})"));
    ASSERT_TRUE(knot);
    EXPECT_EQ(knot->source, "wiki");
    EXPECT_TRUE(knot->window_hashes.empty());

    KeyValueWriter extra;
    extra.add_strings("kaiju.calibration.line_hashes", std::vector<std::string>{"0000000000000001"});
    Imatrix imatrix;
    imatrix.extra = KeyValues(extra.file());
    imatrix.datasets = {"wiki"};
    const auto read = calibration_of(imatrix);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->source, "wiki");
    EXPECT_TRUE(read->window_hashes.empty());
    set_calibration(imatrix, {.source = "new", .window_hashes = {3}});
    EXPECT_FALSE(imatrix.extra.find_strings("kaiju.calibration.line_hashes")) << "replaced";
}

TEST(Calibration, OfTwoTextsIsThatOfTheirUnion) {
    const Calibration one{.source = "one", .window_hashes = {1, 3, 5}};
    const Calibration two{.source = "two", .window_hashes = {2, 3}};
    const Calibration both = merged(one, two);
    EXPECT_EQ(both.source, "one, two");
    EXPECT_EQ(both.window_hashes, (std::vector<uint64_t>{1, 2, 3, 5}));
    EXPECT_EQ(merged(one, one).source, "one");
    EXPECT_TRUE(merged(one, {.source = "two", .window_hashes = {}}).window_hashes.empty()) << "not known";
    Calibration many;
    for (uint64_t i = 0; i < kMaxWindowHashes; ++i) {
        many.window_hashes.push_back(4 * i);
    }
    const Calibration most = merged(many, one);
    EXPECT_EQ(most.window_hashes.size(), kMaxWindowHashes);
    EXPECT_EQ(most.window_hashes[1], 1U);
}

TEST(Calibration, MalformedIsRefused) {
    for (const std::string_view text :
         {R"({"calibration":1})", R"({"calibration":{}})", R"({"calibration":{"window_hashes":3}})",
          R"({"calibration":{"window_hashes":["x"]}})", R"({"calibration":{"window_hashes":[-1]}})"}) {
        EXPECT_THROW((void)calibration_of(text), Error) << text;
    }
    EXPECT_FALSE(calibration_of(std::string_view("{}")));
}

}  // namespace
}  // namespace kaiju::format
