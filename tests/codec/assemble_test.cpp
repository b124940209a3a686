// Shards: however an encode is cut, its parts join to the bytes of one process.
#include "codec/assemble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "codec/encode_fixture.h"
#include "codec/encode_model.h"

namespace kaiju::codec {
namespace {

using kaiju::test::slurp;
using test::EncodeFixture;
using test::expect_error;

class Assemble : public testing::Test {
  protected:
    std::filesystem::path encode(const std::string& name, uint64_t shard, uint64_t shards,
                                 double hi_frac = 0.1) {
        EncodeOptions options = fixture_.options(name);
        options.shard = shard;
        options.shards = shards;
        options.hi_frac = hi_frac;
        Monitor monitor;
        (void)encode_model(plan_encode(options), monitor);
        return options.out;
    }

    std::vector<std::filesystem::path> parts(uint64_t shards) {
        std::vector<std::filesystem::path> made;
        made.reserve(shards);
        for (uint64_t i = 0; i < shards; ++i) {
            made.push_back(encode("part-" + std::to_string(i) + "-of-" + std::to_string(shards), i, shards));
        }
        return made;
    }

    EncodeFixture fixture_;
    Monitor monitor_;
};

TEST_F(Assemble, GivesTheBytesOfOneProcess) {
    EncodeOptions options = fixture_.options("whole.knot");
    options.telemetry = fixture_.folder() / "telemetry.json";
    Monitor monitor;
    const EncodePlan plan = plan_encode(options);
    const EncodeReport report = encode_model(plan, monitor);
    const nlohmann::json expected = telemetry_json(plan, report).at("totals");
    for (const uint64_t shards : {2, 3, 7}) {
        auto made = parts(shards);
        std::reverse(made.begin(), made.end());
        const auto folder = fixture_.folder() / std::to_string(shards);
        std::filesystem::create_directory(folder);
        const AssembleReport joined =
            assemble(made, folder / "joined.knot", folder / "telemetry.json", monitor_);
        EXPECT_EQ(slurp(folder / "joined.knot"), slurp(options.out)) << shards;
        EXPECT_EQ(joined.file_bytes, report.file_bytes);
        const auto telemetry = nlohmann::json::parse(slurp(folder / "telemetry.json"));
        EXPECT_EQ(telemetry.at("tensors").size(), report.tensors.size());
        for (const auto& [key, value] : expected.items()) {
            const auto& own = telemetry.at("totals").at(key);
            if (value.is_number_float() && key != "seconds") {
                EXPECT_NEAR(own.get<double>(), value.get<double>(), 1e-12 * value.get<double>()) << key;
            } else if (key != "seconds") {
                EXPECT_EQ(own, value) << key;
            }
        }
    }
}

TEST_F(Assemble, ShardsAreCountedModuloTheirNumber) {
    const std::vector<std::filesystem::path> from_one = {encode("1", 1, 2), encode("2", 2, 2)};
    (void)assemble(from_one, fixture_.folder() / "joined.knot", "", monitor_);
    EXPECT_EQ(slurp(fixture_.folder() / "joined.knot"), slurp(encode("whole.knot", 0, 1)));
}

TEST_F(Assemble, RefusesWhatDoesNotBelongTogether) {
    const auto out = fixture_.folder() / "joined.knot";
    const auto refused = [&](ErrorCode code, const std::string& why,
                             std::vector<std::filesystem::path> given) {
        expect_error(code, why, [&] { (void)assemble(given, out, "", monitor_); });
        EXPECT_FALSE(std::filesystem::exists(out));
    };
    const auto made = parts(3);
    refused(ErrorCode::missing, "of 3 shards these are missing: 1", {made[0], made[2]});
    refused(ErrorCode::usage, "shard 0 is there already", {made[0], made[0], made[1], made[2]});
    refused(ErrorCode::usage, "not a part", {made[0], encode("whole.knot", 0, 1)});
    refused(ErrorCode::usage, "belongs to another encode", {made[0], encode("other", 1, 3, 0.2), made[2]});
    refused(ErrorCode::usage, "belongs to another encode", {made[0], encode("half", 1, 2), made[2]});
    std::string damaged = slurp(made[1]);
    damaged[damaged.size() / 4] ^= 1;
    kaiju::test::spill(made[1], damaged);
    refused(ErrorCode::bad_input, "is damaged", made);
    EncodeOptions many = fixture_.options("many");
    many.shards = 1000;
    expect_error(ErrorCode::usage, "some would be empty", [&] { (void)plan_encode(many); });
}

}  // namespace
}  // namespace kaiju::codec
