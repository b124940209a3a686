#include "codec/compare.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "bytes.h"
#include "codec/stock.h"
#include "format/knot.h"
#include "format/knot_writer.h"
#include "support/test_files.h"

namespace kaiju::codec {
namespace {

using format::KnotFile;
using format::TensorInfo;

struct Tensor {
    TensorInfo info;
    std::vector<float> values;
};

std::filesystem::path write(const std::filesystem::path& path, const std::vector<Tensor>& tensors) {
    std::vector<TensorInfo> list;
    list.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
        list.push_back(StockEncoder(tensor.info.type).describe(tensor.info));
    }
    format::KnotWriter writer(path, list);
    for (size_t i = 0; i < tensors.size(); ++i) {
        std::vector<std::byte> bytes(list[i].nbytes);
        if (list[i].type == "F32") {  // as it is, numbers or not
            std::memcpy(bytes.data(), tensors[i].values.data(), bytes.size());
        } else {
            StockEncoder(list[i].type)
                .encode_rows(tensors[i].values.data(), list[i].rows(), list[i].cols(), bytes.data());
        }
        writer.write_payload(i, bytes);
    }
    writer.finish(nlohmann::json::object());
    return path;
}

TEST(Compare, a_nan_is_a_difference_whatever_follows_it) {
    const test::TemporaryFolder folder;
    const uint64_t cols = 70000;  // two pieces of rows, so that the sums of pieces meet it too
    std::vector<float> values(2 * cols, 1.0F);
    const KnotFile good(write(folder / "a", {{{"w", "F32", {2, cols}, 0}, values}}));
    values[3] = std::numeric_limits<float>::quiet_NaN();
    const KnotFile bad(write(folder / "b", {{{"w", "F32", {2, cols}, 0}, values}}));
    Monitor quiet;
    for (const auto& found : {compare_models(good, bad, 1, quiet), compare_models(bad, good, 2, quiet)}) {
        EXPECT_FALSE(found.at(0).values_equal());
        EXPECT_TRUE(std::isnan(found.at(0).max_abs.value()));
    }
}

TEST(Compare, says_how_far_tensors_are_apart) {
    const test::TemporaryFolder folder;
    const KnotFile first(write(folder / "a", {{{"same", "F32", {1, 2}, 0}, {3, 4}},
                                              {{"moved", "F32", {2, 2}, 0}, {3, 4, 0, 0}},
                                              {{"typed", "F16", {1, 2}, 0}, {1, 2}},
                                              {{"shaped", "F32", {2, 1}, 0}, {1, 2}},
                                              {{"gone", "F32", {1, 1}, 0}, {1}}}));
    const KnotFile second(write(folder / "b", {{{"same", "F32", {1, 2}, 0}, {3, 4}},
                                               {{"moved", "F32", {2, 2}, 0}, {3, 4, 0, 2.5F}},
                                               {{"typed", "F32", {1, 2}, 0}, {1, 2}},
                                               {{"shaped", "F32", {1, 2}, 0}, {1, 2}},
                                               {{"new", "F32", {1, 1}, 0}, {1}}}));
    Monitor quiet;
    for (const int threads : {1, 4}) {
        const std::vector<TensorDifference> all = compare_models(first, second, threads, quiet);
        ASSERT_EQ(all.size(), 6U);
        EXPECT_TRUE(all[0].bytes_equal);
        EXPECT_EQ(all[0].max_abs, 0);
        EXPECT_FALSE(all[1].bytes_equal);
        EXPECT_EQ(all[1].max_abs, 2.5);
        EXPECT_EQ(all[1].relative_rms, 0.5);
        EXPECT_FALSE(all[2].bytes_equal);
        EXPECT_TRUE(all[2].values_equal());
        EXPECT_EQ(all[2].relative_rms, 0);
        EXPECT_FALSE(all[3].max_abs.has_value());
        EXPECT_FALSE(all[3].values_equal());
        EXPECT_EQ(all[4].name, "gone");
        EXPECT_FALSE(all[4].second.has_value());
        EXPECT_EQ(all[5].name, "new");
        EXPECT_FALSE(all[5].first.has_value());
    }
}

}  // namespace
}  // namespace kaiju::codec
