// Whatever is in a knot, the native engine loads it or says why not, and what it loads it can run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "format/knot_writer.h"
#include "runtime/engine.h"
#include "tiny_knot.h"

namespace kaiju::runtime {
namespace {

/// A knot's parts, key-values last.
struct Parts {
    std::vector<format::TensorInfo> entries;
    std::vector<std::vector<std::byte>> payloads;
};

Parts parts_of(const std::filesystem::path& knot) {
    const auto file = format::ModelFile::open(knot);
    Parts parts;
    parts.entries.assign(file->tensors().begin(), file->tensors().end());
    parts.payloads.reserve(parts.entries.size());
    for (size_t i = 0; i < parts.entries.size(); ++i) {
        const Bytes payload = file->payload(i);
        parts.payloads.emplace_back(payload.begin(), payload.end());
    }
    const Bytes key_values = file->key_values();
    parts.entries.push_back(format::key_values_entry(key_values));
    parts.payloads.emplace_back(key_values.begin(), key_values.end());
    return parts;
}

/// True where it was loaded and run; anything but an Error leaves.
bool load_and_run(const std::filesystem::path& path) {
    try {
        const auto engine = load_engine(path, {.engine = "native", .threads = 1});
        (void)last_logits(*engine, std::vector<Token>{1, 2}, 1);
        return true;
    } catch (const Error& error) {
        EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
        return false;
    }
}

TEST(NativeHostile, BadFilesAreRefused) {
    size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kaiju::test::golden_dir() / "bad")) {
        if (entry.path().extension() == ".knot") {
            EXPECT_FALSE(load_and_run(entry.path())) << entry.path();
            ++files;
        }
    }
    EXPECT_GT(files, 30U);
}

// Bytes changed at random, under checksums that fit: in key-values (shapes that overflow, types that differ),
// in matrices (codes, columns, headers), in embeddings and norms.
TEST(NativeHostile, DamagedContentsNeverCrash) {
    const kaiju::test::TemporaryFolder folder;
    const Parts whole = parts_of(
        kaiju::test::write_tiny_knot(folder, {.width = 48, .ffn = 48, .layers = 1, .type = GGML_TYPE_F16}));
    std::mt19937 random(11);
    int loaded = 0;
    constexpr int kRounds = 400;
    for (int round = 0; round < kRounds; ++round) {
        Parts parts = whole;
        for (int patches = 1 + static_cast<int>(random() % 4); patches > 0; --patches) {
            // Every other one in the key-values' hyper-parameters, which come before the vocabulary.
            const bool key_values = random() % 2 == 0;
            auto& payload =
                key_values ? parts.payloads.back() : parts.payloads[random() % parts.payloads.size()];
            const size_t room = key_values
                                    ? std::min<size_t>(payload.size(), 900)
                                    : std::min<size_t>(payload.size(), random() % 2 == 0 ? 200 : SIZE_MAX);
            payload[random() % room] = static_cast<std::byte>(random());
        }
        const auto path = folder / "damaged.knot";
        std::filesystem::remove(path);
        format::KnotWriter writer(path, parts.entries);
        for (size_t i = 0; i < parts.payloads.size(); ++i) {
            writer.write_payload(i, parts.payloads[i]);
        }
        writer.finish(nlohmann::json::object());
        loaded += load_and_run(path) ? 1 : 0;
    }
    EXPECT_GT(loaded, kRounds / 20) << "some damage is harmless";
    EXPECT_LT(loaded, kRounds);
}

}  // namespace
}  // namespace kaiju::runtime
