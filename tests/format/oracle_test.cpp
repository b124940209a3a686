// Our decoder against the independent one (tests/oracle, Python): every weight, bit for bit.
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bytes.h"
#include "codec/tensor_decoder.h"
#include "format/knot.h"
#include "format/knot_writer.h"
#include "support/random_kaiju1.h"
#include "support/test_files.h"

namespace kaiju::codec {
namespace {

using format::KnotFile;
using format::TensorInfo;

/// Debian's interpreter first: it is the one whose NumPy the set-up installs.
std::string python_with_numpy() {
    for (const char* python : {"/usr/bin/python3", "python3"}) {
        if (std::system(fmt::format("{} -c 'import numpy' 2>/dev/null", python).c_str()) == 0) {  // NOLINT
            return python;
        }
    }
    return {};
}

int oracle(const std::string& python, const std::string& arguments) {
    const int status =
        std::system(fmt::format("{} {} {} >/dev/null", python, KAIJU_ORACLE, arguments).c_str());  // NOLINT
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Values of an .npy file of f32 in C order.
std::vector<float> npy_values(const std::filesystem::path& path) {
    const std::string file = test::slurp(path);
    const size_t data = 10 + load<uint16_t>(file.data() + 8);
    std::vector<float> values((file.size() - data) / sizeof(float));
    std::memcpy(values.data(), file.data() + data, values.size() * sizeof(float));
    return values;
}

void expect_same_as_oracle(const std::string& python, const std::filesystem::path& path,
                           const test::TemporaryFolder& folder) {
    const KnotFile knot(path);
    for (size_t i = 0; i < knot.tensors().size(); ++i) {
        const TensorInfo& info = knot.tensors()[i];
        if (info.type != "KAIJU1") {
            continue;
        }
        const auto out = folder / (fmt::format("oracle{}.npy", i));
        ASSERT_EQ(oracle(python, fmt::format("dump '{}' {} '{}'", path.string(), info.name, out.string())),
                  0);
        const std::vector<float> wanted = npy_values(out);
        std::vector<float> weights(info.weights());
        make_tensor_decoder(info, knot.payload(i))->decode_rows(0, info.rows(), weights.data());
        ASSERT_EQ(weights.size(), wanted.size());
        // Bits, not values: a zero keeps its sign.
        EXPECT_EQ(std::memcmp(weights.data(), wanted.data(), weights.size() * sizeof(float)), 0) << info.name;
    }
}

TEST(Oracle, dequantises_the_golden_file_alike) {
    const std::string python = python_with_numpy();
    if (python.empty()) {
        GTEST_SKIP() << "needs Python with NumPy (Debian: python3-numpy)";
    }
    const test::TemporaryFolder folder;
    expect_same_as_oracle(python, test::golden_dir() / "tiny.knot", folder);
}

TEST(Oracle, dequantises_random_payloads_alike_and_accepts_our_files) {
    const std::string python = python_with_numpy();
    if (python.empty()) {
        GTEST_SKIP() << "needs Python with NumPy (Debian: python3-numpy)";
    }
    const test::TemporaryFolder folder;
    std::vector<test::RandomKaiju1> made;
    made.push_back(test::random_kaiju1(1, 7, 13, 5, 0));
    made.push_back(test::random_kaiju1(2, 3, 40, 6, 1));
    made.push_back(test::random_kaiju1(3, 2, 0, 1, 0));      // no side-band
    made.push_back(test::random_kaiju1(4, 5, 17, 0, 1));     // nothing but side-band
    made.push_back(test::random_kaiju1(5, 1, 32, 2729, 0));  // 65528 columns: two-byte indices
    made.push_back(test::random_kaiju1(6, 1, 31, 2730, 1));  // 65551 columns: four-byte indices
    std::vector<TensorInfo> tensors;
    for (size_t i = 0; i < made.size(); ++i) {
        tensors.push_back({fmt::format("t{}", i),
                           "KAIJU1",
                           {made[i].layout.rows, made[i].layout.cols},
                           made[i].payload.size()});
    }
    format::KnotWriter writer(folder / "random.knot", tensors);
    for (size_t i = 0; i < made.size(); ++i) {
        writer.write_payload(i, made[i].payload);
    }
    writer.finish({{"general", {{"name", "random"}}}});
    EXPECT_EQ(oracle(python, fmt::format("verify '{}'", (folder / "random.knot").string())), 0);
    expect_same_as_oracle(python, folder / "random.knot", folder);
}

}  // namespace
}  // namespace kaiju::codec
