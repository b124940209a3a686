#include "codec/encode_model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "codec/encode_fixture.h"
#include "codec/encode_journal.h"
#include "codec/verify.h"
#include "format/knot.h"

namespace kaiju::codec {
namespace {

using test::EncodeFixture;
using test::expect_error;

/// Wants to stop once so many weights have been encoded.
class StopAfter final : public Monitor {
  public:
    explicit StopAfter(uint64_t weights) : limit_(weights) {}
    void begin(std::string_view phase, uint64_t, std::string_view) override { encoding_ = phase == "encode"; }
    void advance(uint64_t units) override { seen_ += encoding_ ? units : 0; }
    [[nodiscard]] bool cancelled() const override { return seen_ >= limit_; }

  private:
    uint64_t limit_;
    bool encoding_ = false;
    std::atomic<uint64_t> seen_ = 0;
};

std::string encode(const EncodeOptions& options) {
    Monitor monitor;
    (void)encode_model(plan_encode(options), monitor);
    return kaiju::test::slurp(options.out);
}

TEST(EncodeModel, WritesAKnotThatVerifiesAndSaysWhatItIs) {
    const EncodeFixture fixture;
    EncodeOptions options = fixture.options();
    Monitor monitor;
    const EncodePlan plan = plan_encode(options);
    const EncodeReport report = encode_model(plan, monitor);
    EXPECT_EQ(report.tensors.size(), 12U);  // 2 layers, 6 roles
    EXPECT_EQ(report.file_bytes, std::filesystem::file_size(options.out));
    const auto knot = format::ModelFile::open(options.out);
    EXPECT_EQ(verify(*knot, 2, monitor).types.at("KAIJU1").tensors, 12U);
    EXPECT_FALSE(std::filesystem::exists(EncodeJournal::path_of(options.out)));

    const auto telemetry = telemetry_json(plan, report);
    EXPECT_EQ(telemetry.at("tensors").size(), 12U);
    EXPECT_GT(telemetry.at("totals").at("relative_excess"), 0.02);
    EXPECT_LT(telemetry.at("totals").at("relative_excess"), 0.12);
}

TEST(EncodeModel, SameBytesForAnyThreadCountAndDecoder) {
    const EncodeFixture fixture;
    const std::string reference = encode(fixture.options("one.knot"));
    EncodeOptions options = fixture.options("four.knot");
    options.threads = 4;
    EXPECT_EQ(encode(options), reference);
}

TEST(EncodeModel, InterruptedAnywhereAndResumedGivesTheSameBytes) {
    const EncodeFixture fixture;
    const std::string reference = encode(fixture.options("whole.knot"));
    const uint64_t weights = plan_encode(fixture.options("plan.knot")).encoded_weights();
    for (uint64_t stop = 1; stop < weights; stop += weights / 7) {
        EncodeOptions options = fixture.options("part" + std::to_string(stop) + ".knot");
        StopAfter early(stop);
        expect_error(ErrorCode::interrupted, "--resume",
                     [&] { (void)encode_model(plan_encode(options), early); });
        expect_error(ErrorCode::output_exists, "unfinished", [&] { (void)encode(options); });
        EXPECT_FALSE(std::filesystem::exists(options.out));
        options.resume = true;
        EXPECT_EQ(encode(options), reference) << "stopped after " << stop << " weights";
    }
}

TEST(EncodeModel, ResumeRefusesOtherSettingsAndRepairsDamage) {
    const EncodeFixture fixture;
    const std::string reference = encode(fixture.options("whole.knot"));
    EncodeOptions options = fixture.options("part.knot");
    const EncodePlan plan = plan_encode(options);
    StopAfter late(plan.encoded_weights() - 1);
    expect_error(ErrorCode::interrupted, "--resume", [&] { (void)encode_model(plan, late); });

    options.resume = true;
    EncodeOptions other = options;
    other.hi_frac = 0.2;
    expect_error(ErrorCode::usage, "hi_frac", [&] { (void)encode(other); });

    // Damage a payload that the journal, written by hand here, calls finished; and cut the journal's last
    // line.
    {
        std::ofstream journal(EncodeJournal::path_of(options.out), std::ios::app);
        journal
            << R"({"index":1,"xxh3":1,"name":"x","type":"F32","rows":1,"cols":1,"nbytes":4,"seconds":0,)"
               R"("diagonal_excess":0,"diagonal_energy":0,"full_excess":0,"full_energy":0,"blocks":0,"clamped_blocks":0,"clamped_trits":0,)"
               R"("legacy_full_excess":0,"legacy_full_energy":0,"sample_full_excess":0,"legacy_blocks":0,"legacy_clamped_blocks":0,)"
               R"("multipliers":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]})"
            << "\n{\"index\":2,\"xx";
    }
    EXPECT_EQ(encode(options), reference);
}

/// Payloads alone: what is left of a knot without its metadata.
std::vector<uint64_t> checksums(const std::filesystem::path& path) {
    const format::KnotFile knot(path);
    std::vector<uint64_t> sums;
    for (const auto& entry : knot.entries()) {
        sums.push_back(entry.xxh3);
    }
    return sums;
}

TEST(EncodeModel, NeitherDecoderNorTelemetryNorThreadsDecideTheCodes) {
    const EncodeFixture fixture;
    const std::string reference = encode(fixture.options("one.knot"));
    EncodeOptions options = fixture.options("two.knot");
    options.threads = 3;
    EXPECT_EQ(encode(options), reference);

    options = fixture.options("three.knot");
    options.telemetry = fixture.folder() / "three.json";
    options.decoder = "pruned";
    (void)encode(options);
    EXPECT_EQ(checksums(options.out), checksums(fixture.folder() / "one.knot"));
    const auto metadata = nlohmann::json::parse(format::KnotFile(options.out).metadata());
    EXPECT_EQ(metadata.at("telemetry"), "three.json");
    EXPECT_EQ(metadata.at("kaiju").at("decoder"), "pruned");

    // They may change between a run and the one that resumes it: the bytes are those of the latter.
    options = fixture.options("four.knot");
    options.telemetry = fixture.folder() / "other.json";
    StopAfter early(1);
    expect_error(ErrorCode::interrupted, "--resume",
                 [&] { (void)encode_model(plan_encode(options), early); });
    options.resume = true;
    options.telemetry.clear();
    options.decoder = "fast";
    EXPECT_EQ(encode(options), reference);
}

TEST(EncodeModel, ATelemetryThatCouldNotBeWrittenIsHadByResuming) {
    const EncodeFixture fixture;
    const std::filesystem::path folder = fixture.folder() / "reports";
    EncodeOptions options = fixture.options();
    options.telemetry = folder / "telemetry.json";
    expect_error(ErrorCode::missing, "reports", [&] { (void)plan_encode(options); });
    std::filesystem::create_directory(folder);
    const EncodePlan plan = plan_encode(options);
    std::filesystem::remove(folder);
    Monitor monitor;
    std::string said;
    expect_error(ErrorCode::missing, "--resume", [&] {
        try {
            (void)encode_model(plan, monitor);
        } catch (const Error& error) {
            said = error.what();
            throw;
        }
    });
    EXPECT_EQ(said.find("delete it"), std::string::npos) << said;
    const std::string knot = kaiju::test::slurp(options.out);
    (void)encode(fixture.options("other.knot"));
    EXPECT_EQ(checksums(options.out), checksums(fixture.folder() / "other.knot"))
        << "the knot was kept, whole";

    expect_error(ErrorCode::output_exists, "already exists", [&] { (void)plan_encode(options); });
    options.resume = true;
    options.telemetry = fixture.folder() / "elsewhere.json";
    EncodeOptions other = options;
    other.hi_frac = 0.2;
    expect_error(ErrorCode::usage, "hi_frac", [&] { (void)encode(other); });
    const EncodePlan again = plan_encode(options);
    EXPECT_TRUE(again.finished);
    const EncodeReport report = encode_model(again, monitor);
    EXPECT_EQ(report.tensors.size(), 12U);
    EXPECT_EQ(report.file_bytes, knot.size());
    EXPECT_EQ(kaiju::test::slurp(options.out), knot);
    const auto telemetry = nlohmann::json::parse(kaiju::test::slurp(options.telemetry));
    EXPECT_EQ(telemetry.at("tensors").size(), 12U);
    EXPECT_GT(telemetry.at("totals").at("relative_excess"), 0.02);
    EXPECT_FALSE(std::filesystem::exists(EncodeJournal::path_of(options.out)));
    options.telemetry.clear();
    expect_error(ErrorCode::output_exists, "already exists", [&] { (void)plan_encode(options); });
}

TEST(EncodeModel, AJournalSpeaksOfItsOwnKnotAlone) {
    const EncodeFixture fixture;
    const std::filesystem::path folder = fixture.folder() / "reports";
    std::filesystem::create_directory(folder);
    EncodeOptions options = fixture.options();
    options.telemetry = folder / "telemetry.json";
    const EncodePlan plan = plan_encode(options);
    std::filesystem::remove(folder);
    Monitor monitor;
    expect_error(ErrorCode::missing, "--resume", [&] { (void)encode_model(plan, monitor); });

    // Another knot of that name, and then none: a new encode begins anew.
    std::filesystem::remove(options.out);
    EncodeOptions other = fixture.options("other.knot");
    other.hi_frac = 0.3;
    (void)encode(other);
    std::filesystem::rename(other.out, options.out);
    options.resume = true;
    options.telemetry.clear();
    expect_error(ErrorCode::output_exists, "is not what", [&] { (void)encode(options); });
    std::filesystem::remove(options.out);
    other.out = options.out;
    (void)encode(other);
    EXPECT_FALSE(std::filesystem::exists(EncodeJournal::path_of(options.out)));
}

TEST(EncodeModel, TheSizeIsKnownBeforehandToTheByte) {
    const EncodeFixture fixture;
    for (const bool small : {false, true}) {
        EncodeOptions options = fixture.options(small ? "small.knot" : "all.knot");
        if (small) {
            options.include = {"blk\\.1\\.attn_q"};
            options.types = {{"attn_v", "Q8_0"}};
        }
        const EncodePlan plan = plan_encode(options);
        const uint64_t planned = planned_file_bytes(plan);
        Monitor monitor;
        const EncodeReport report = encode_model(plan, monitor);
        EXPECT_EQ(planned, std::filesystem::file_size(options.out));
        uint64_t payload = 0;
        for (const auto& tensor : report.tensors) {
            payload += tensor.nbytes;
        }
        EXPECT_EQ(plan.payload_bytes(), payload);
    }
}

TEST(EncodeModel, WhatIsNotAnUnfinishedEncodeIsLeftAlone) {
    const EncodeFixture fixture;
    EncodeOptions options = fixture.options();
    for (const char* name : {"out.knot.part.journal", "out.knot.part"}) {
        for (const bool resume : {false, true}) {
            for (const std::string precious : {"precious", "{\"precious\":1}\n"}) {
                write_new_file(fixture.folder() / name, precious);
                options.resume = resume;
                expect_error(ErrorCode::output_exists, "move it away", [&] { (void)encode(options); });
                EXPECT_EQ(kaiju::test::slurp(fixture.folder() / name), precious);
                std::filesystem::remove(fixture.folder() / name);
            }
        }
    }
    // A kill between the two leaves a part without a journal, in which nothing is written yet.
    write_new_file(fixture.folder() / "out.knot.part", std::string(100, '\0'));
    options.resume = true;
    EXPECT_EQ(encode(options), encode(fixture.options("other.knot")));
}

TEST(EncodeModel, WhatVerifyWouldRefuseIsNotCopiedAndWhatIsKeptIsSaid) {
    const EncodeFixture fixture;
    EncodeOptions options = fixture.options();
    {
        const auto file = format::ModelFile::open(options.model);
        const auto offset =
            file->payload(*file->find("output_norm.weight")).data() - file->mappings().front().bytes().data();
        const float infinite = std::numeric_limits<float>::infinity();
        std::fstream raw(options.model, std::ios::in | std::ios::out | std::ios::binary);
        raw.seekp(offset);
        raw.write(reinterpret_cast<const char*>(&infinite), sizeof(infinite));
    }
    expect_error(ErrorCode::bad_input, "output_norm.weight", [&] { (void)encode(options); });
    options.resume = true;
    expect_error(ErrorCode::bad_input, "out.knot.part: continue with --resume",
                 [&] { (void)encode(options); });
}

TEST(EncodeModel, TwoProcessesDoNotWriteOneOutput) {
    const EncodeFixture fixture;
    EncodeOptions options = fixture.options();
    const OutputFile other(options.out, OutputFile::OnAbandon::keep);
    options.resume = true;
    expect_error(ErrorCode::busy, "another process", [&] { (void)encode(options); });
}

TEST(EncodeModel, EstimatesArePositiveAndMemoryIsOneTensors) {
    const EncodeFixture fixture;
    const EncodePlan plan = plan_encode(fixture.options());
    EXPECT_GT(estimate_seconds(plan), 0);
    EXPECT_GT(estimate_memory(plan), 0U);
    EXPECT_LT(estimate_memory(plan), plan.all_weights() * sizeof(float) * 2);
}

}  // namespace
}  // namespace kaiju::codec
