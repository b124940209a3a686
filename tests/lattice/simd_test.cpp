#include "lattice/simd.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "base/error.h"
#include "lattice/decoder.h"

namespace kaiju::lattice {

namespace {

/// Sets KAIJU_SIMD for a scope.
class Forced {
  public:
    explicit Forced(const char* name) {
        if (const char* old = std::getenv("KAIJU_SIMD")) {
            old_ = old;
        }
        setenv("KAIJU_SIMD", name, 1);
    }
    ~Forced() { old_ ? setenv("KAIJU_SIMD", old_->c_str(), 1) : unsetenv("KAIJU_SIMD"); }
    Forced(const Forced&) = delete;
    Forced& operator=(const Forced&) = delete;

  private:
    std::optional<std::string> old_;
};

}  // namespace

TEST(Simd, TheEnvironmentForcesWhatRuns) {
    for (const Simd simd : available_simd()) {
        const Forced forced(simd_name(simd).data());
        EXPECT_EQ(chosen_simd(), simd);
        EXPECT_EQ(make_decoder("fast")->simd(), simd_name(simd));
    }
    const Forced none("");
    EXPECT_EQ(make_decoder("fast")->simd(), simd_name(available_simd().back()));
}

TEST(Simd, UnknownAndMissingOnesAreRefused) {
    const Forced unknown("avx9000");
    try {
        static_cast<void>(make_decoder("fast"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_NE(std::string(error.what()).find("scalar, sse4, avx2, avx512"), std::string::npos)
            << error.what();
    }
    for (const Simd simd : {Simd::sse4, Simd::avx2, Simd::avx512}) {
        bool available = false;
        for (const Simd known : available_simd()) {
            available |= known == simd;
        }
        const Forced forced(simd_name(simd).data());
        if (available) {
            EXPECT_EQ(chosen_simd(), simd);
        } else {
            EXPECT_THROW(static_cast<void>(chosen_simd()), Error);
        }
    }
}

}  // namespace kaiju::lattice
