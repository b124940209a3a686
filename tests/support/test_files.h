// Where tests find their files, and folders that disappear with the test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace kaiju::test {

/// tests/golden: good and bad files with their expected values, part of the repository.
[[nodiscard]] std::filesystem::path golden_dir();

/// Texts and models for measurements, which are not part of the repository: the folder that the environment
/// variable KAIJU_DATA names (default: ../shared/data beside the repository). It may be missing: see
/// KAIJU_REQUIRE_DATA.
[[nodiscard]] std::filesystem::path data_dir();

/// A folder of its own for one test, removed with everything in it at the end of the scope.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

/// Every byte of a file, or a failed test.
[[nodiscard]] std::string slurp(const std::filesystem::path& path);
/// Writes (or replaces) a file with these bytes.
void spill(const std::filesystem::path& path, std::string_view bytes);

}  // namespace kaiju::test

/// Leaves the test as skipped, with the reason printed, where a file of data_dir() is not there:
///     KAIJU_REQUIRE_DATA("wikitext-2/wiki.test.raw");
#define KAIJU_REQUIRE_DATA(relative)                                    \
    if (!std::filesystem::exists(kaiju::test::data_dir() / (relative))) \
    GTEST_SKIP() << "needs " << (kaiju::test::data_dir() / (relative)) << "; KAIJU_DATA names the folder"
