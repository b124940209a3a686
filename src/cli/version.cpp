#include <curl/curl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <ggml.h>
#include <hwy/highway.h>
#include <llama.h>
#include <oneapi/tbb/version.h>
#include <openssl/crypto.h>
#include <sqlite3.h>
#include <toml++/impl/version.h>
#include <xxhash.h>

#include <Spectra/Util/Version.h>
#include <CLI/Version.hpp>
#include <Eigen/Core>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace kaiju::cli {

namespace {

std::string packed(unsigned number) {
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

std::string version_text() {
    std::string text = "kaiju " KAIJU_VERSION "\n";
    const auto add = [&](std::string_view name, std::string_view version) {
        text += fmt::format("  {:<14} {}\n", name, version);
    };
    add("compiler", __VERSION__);
    add("llama.cpp", llama_version());
    add("ggml", ggml_version());
    add("Highway", fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH));
    add("oneTBB", TBB_runtime_version());
    add("Eigen", fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION));
    add("Spectra",
        fmt::format("{}.{}.{}", SPECTRA_MAJOR_VERSION, SPECTRA_MINOR_VERSION, SPECTRA_PATCH_VERSION));
    add("fmt", packed(FMT_VERSION));
    add("nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                     NLOHMANN_JSON_VERSION_PATCH));
    add("CLI11", CLI11_VERSION);
    add("OpenSSL", OpenSSL_version(OPENSSL_VERSION));
    add("libcurl", LIBCURL_VERSION);
    add("SQLite", sqlite3_libversion());
    add("toml++", fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH));
    add("xxHash", packed(XXH_versionNumber()));
    return text;
}

}  // namespace kaiju::cli
