// Whatever is in a knot, the native engine loads it or says why not, and what it loads it can run.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "format/knot_writer.h"
#include "runtime/engine.h"
#include "runtime/generate.h"
#include "support/random_kaiju1.h"
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

size_t index_of(const Parts& parts, std::string_view name) {
    for (size_t i = 0; i < parts.entries.size(); ++i) {
        if (parts.entries[i].name == name) {
            return i;
        }
    }
    throw std::out_of_range(std::string(name));
}

std::filesystem::path write_parts(const Parts& parts, const std::filesystem::path& path) {
    format::KnotWriter writer(path, parts.entries);
    for (size_t i = 0; i < parts.payloads.size(); ++i) {
        writer.write_payload(i, parts.payloads[i]);
    }
    writer.finish(nlohmann::json::object());
    return path;
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
        loaded += load_and_run(write_parts(parts, path)) ? 1 : 0;
    }
    EXPECT_GT(loaded, kRounds / 20) << "some damage is harmless";
    EXPECT_LT(loaded, kRounds);
}

// Rows of an embedding are decoded when they are looked up, on ggml's threads: what is wrong there must not
// leave them as an exception.
TEST(NativeHostile, AnEmbeddingThatIsDamagedAfterItWasLoadedEndsClearly) {
    const kaiju::test::TemporaryFolder folder;
    Parts parts = parts_of(kaiju::test::write_tiny_knot(folder, {}));
    const size_t embedding = index_of(parts, "token_embd.weight");
    format::TensorInfo& info = parts.entries[embedding];
    const auto made = kaiju::test::random_kaiju1(1, static_cast<uint32_t>(info.rows()), 0,
                                                 static_cast<uint32_t>(info.cols() / 24), 0);
    info.type = "KAIJU1";
    info.nbytes = made.payload.size();
    parts.payloads[embedding] = made.payload;
    const auto path = write_parts(parts, folder / "embedding.knot");
    const auto engine = load_engine(path, {.engine = "native", .threads = 4});
    const std::vector<Token> tokens(64, 5);
    (void)last_logits(*engine, tokens, 4);
    {
        const auto file = format::ModelFile::open(path);
        const auto offset = file->payload(*file->find("token_embd.weight")).data() -
                            file->mappings().front().bytes().data() +
                            static_cast<std::ptrdiff_t>(made.layout.rows_offset());
        std::fstream raw(path, std::ios::in | std::ios::out | std::ios::binary);
        raw.seekp(offset);
        const std::string broken(made.payload.size() - made.layout.rows_offset(), '\xff');
        raw.write(broken.data(), static_cast<std::streamsize>(broken.size()));
    }
    try {
        (void)last_logits(*engine, tokens, 4);
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_NE(std::string(error.what()).find("token_embd.weight"), std::string::npos) << error.what();
    }
}

TEST(NativeHostile, AModelThatGivesNoNumbersWritesNoText) {
    const kaiju::test::TemporaryFolder folder;
    Parts parts = parts_of(kaiju::test::write_tiny_knot(folder, {}));
    auto& norm = parts.payloads[index_of(parts, "output_norm.weight")];
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(norm.data(), &nan, sizeof(nan));
    const auto engine =
        load_engine(write_parts(parts, folder / "nan.knot"), {.engine = "native", .threads = 1});
    for (const float temperature : {0.0F, 1.0F}) {
        try {
            (void)generate(*engine, std::vector<Token>{1, 2}, {.sampler = {.temperature = temperature}});
            FAIL() << "no error";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::bad_input);
        }
    }
}

}  // namespace
}  // namespace kaiju::runtime
