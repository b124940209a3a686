#include "format/npy.h"

#include "bytes.h"
#include "support/test_files.h"

namespace kaiju::format {
namespace {

TEST(Npy, rows_land_behind_an_aligned_description) {
    const test::TemporaryFolder folder;
    NpyWriter writer(folder / "m.npy", 3, 2);
    writer.write_rows(1, std::vector<float>{3, 4, 5, 6});
    writer.write_rows(0, std::vector<float>{1, 2});
    writer.commit();
    const std::string file = test::slurp(folder / "m.npy");
    EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const size_t data = 10 + load<uint16_t>(file.data() + 8);
    EXPECT_EQ(data % 64, 0U);
    EXPECT_EQ(file[data - 1], '\n');
    EXPECT_THAT(file.substr(10, data - 10),
                testing::HasSubstr("'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)"));
    ASSERT_EQ(file.size(), data + 6 * sizeof(float));
    for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(load<float>(file.data() + data + i * sizeof(float)), static_cast<float>(i + 1));
    }
}

TEST(Npy, nothing_is_overwritten) {
    const test::TemporaryFolder folder;
    test::spill(folder / "m.npy", "mine");
    test::expect_error(ErrorCode::output_exists, {"m.npy"}, [&] { NpyWriter(folder / "m.npy", 1, 1); });
}

}  // namespace
}  // namespace kaiju::format
