#include "codec/sensitivity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "codec/encode_fixture.h"
#include "support/test_files.h"

namespace kaiju::codec {
namespace {

using test::expect_error;

TEST(Place, IsReadOffTheName) {
    const auto place = format::place_of("blk.12.ffn_down.weight");
    ASSERT_TRUE(place);
    EXPECT_EQ(place->layer, 12U);
    EXPECT_EQ(place->role, "ffn_down");
    for (const char* name :
         {"blk.1.ffn_down.bias", "output.weight", "blk..ffn_up.weight", "blk.1.weight",
          "blk.1x.ffn_up.weight", "blk.-1.ffn_up.weight", "blk.99999999999.ffn_up.weight", "blk.", ""}) {
        EXPECT_FALSE(format::place_of(name)) << name;
    }
}

TEST(Sensitivity, IsWhatWasWritten) {
    const kaiju::test::TemporaryFolder folder;
    const Sensitivity written{
        .type = "KAIJU4_3", .layers = {{0, 0.25}, {1, 0.5}}, .roles = {{"attn_q", 0.125}, {"ffn_down", 1.0}}};
    write_new_file(folder / "s.json", to_json(written).dump());
    const Sensitivity read = read_sensitivity(folder / "s.json");
    EXPECT_EQ(read.type, written.type);
    EXPECT_EQ(read.layers, written.layers);
    EXPECT_EQ(read.roles, written.roles);
    EXPECT_EQ(read.cost({1, "ffn_down"}), 0.5);
    EXPECT_EQ(read.cost({2, "ffn_down"}), std::nullopt);
    EXPECT_EQ(read.cost({1, "ffn_up"}), std::nullopt);
}

TEST(Sensitivity, RefusesWhatIsNone) {
    const kaiju::test::TemporaryFolder folder;
    const auto refused = [&](const std::string& text, const std::string& part) {
        static int n = 0;
        const auto path = folder / ("bad" + std::to_string(n++) + ".json");
        write_new_file(path, text);
        expect_error(ErrorCode::bad_input, part, [&] { (void)read_sensitivity(path); });
        expect_error(ErrorCode::bad_input, path.string(), [&] { (void)read_sensitivity(path); });
    };
    const std::string layers = R"("layers":[{"layer":0,"mean_kl":1}])";
    const std::string roles = R"("roles":[{"role":"attn_q","mean_kl":1}])";
    const std::string type = R"("type":"KAIJU4_3")";
    refused("[]", "object");
    refused("{", "");
    refused("{" + layers + "," + roles + "}", "type");
    refused(R"({"type":"Q4_K",)" + layers + "," + roles + "}", "Q4_K");
    refused("{" + type + "," + roles + "}", "layers");
    refused("{" + type + "," + layers + R"(,"roles":[]})", "roles");
    refused("{" + type + "," + layers + R"(,"roles":[{"role":"q"}]})", "mean_kl");
    refused("{" + type + "," + layers + R"(,"roles":[{"role":"q","mean_kl":-1}]})", "mean_kl");
    refused("{" + type + "," + layers + R"(,"roles":[7]})", "mean_kl");
    refused("{" + type + "," + roles + R"(,"layers":[{"layer":-1,"mean_kl":1}]})", "layer");
    refused("{" + type + "," + roles + R"(,"layers":[{"layer":0,"mean_kl":1},{"layer":0,"mean_kl":2}]})",
            "twice");
    expect_error(ErrorCode::missing, "none.json", [&] { (void)read_sensitivity(folder / "none.json"); });
}

}  // namespace
}  // namespace kaiju::codec
