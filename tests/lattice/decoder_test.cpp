#include "lattice/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "lattice/decoders.h"
#include "lattice/leech.h"
#include "points.h"
#include "support/test_files.h"

namespace kaiju::lattice {

namespace {

using test::Point;

std::vector<Nearest> decode(const Decoder& decoder, const std::vector<Point>& points) {
    std::vector<Nearest> out(points.size());
    decoder.nearest(test::flatten(points), out);
    return out;
}

/// Every decoder, the fast one on every instruction set of this processor.
std::vector<std::string> kinds() {
    std::vector<std::string> names = {"exhaustive", "pruned"};
    for (const Simd simd : available_simd()) {
        names.push_back("fast_" + std::string(simd_name(simd)));
    }
    return names;
}

std::unique_ptr<Decoder> make_kind(const std::string& kind) {
    for (const Simd simd : available_simd()) {
        if (kind == "fast_" + std::string(simd_name(simd))) {
            auto decoder = make_fast_decoder(simd);
            EXPECT_EQ(decoder->simd(), simd_name(simd));
            return decoder;
        }
    }
    return make_decoder(kind);
}

class Decoders : public testing::TestWithParam<std::string> {
  protected:
    std::unique_ptr<Decoder> decoder_ = make_kind(GetParam());
};

INSTANTIATE_TEST_SUITE_P(All, Decoders, testing::ValuesIn(kinds()),
                         [](const auto& name) { return name.param; });

}  // namespace

TEST_P(Decoders, GiveTheAnswerOfTheDefinition) {
    std::vector<Point> points = test::uniform_points(60, 1);
    const std::vector<Point> structured = test::structured_points(200, 2);
    points.insert(points.end(), structured.begin(), structured.end());
    const auto found = decode(*decoder_, points);
    for (size_t p = 0; p < points.size(); ++p) {
        const Nearest expected = test::nearest_by_definition(points[p]);
        ASSERT_TRUE(found[p] == expected)
            << "point " << p << ": " << test::describe(points[p]) << "\nfound " << test::describe(found[p])
            << "\nwant  " << test::describe(expected);
        ASSERT_TRUE(is_lattice_point(found[p].x));
    }
}

TEST_P(Decoders, ReproduceTheGoldenPoints) {
    std::ifstream file(test::golden_dir() / "points.jsonl");
    ASSERT_TRUE(file);
    std::string line;
    size_t lines = 0;
    while (std::getline(file, line)) {
        const auto golden = nlohmann::json::parse(line);
        const auto y = golden.at("y").get<std::vector<double>>();
        Nearest nearest;
        decoder_->nearest(y, std::span(&nearest, 1));
        ++lines;
        double d2 = 0;
        for (size_t i = 0; i < kDimension; ++i) {
            const double grid = std::nearbyint(y[i] * 65536) / 65536;
            d2 += (grid - nearest.x[i]) * (grid - nearest.x[i]);
        }
        EXPECT_EQ(nearest.d2, d2) << "line " << lines;
        EXPECT_NEAR(nearest.d2, golden.at("d2").get<double>(), 1e-3) << "line " << lines;
        EXPECT_TRUE(is_lattice_point(nearest.x)) << "line " << lines;
    }
    EXPECT_EQ(lines, 506U);
}

TEST_P(Decoders, AnswerAloneAsInAnyBatch) {
    std::vector<Point> points = test::uniform_points(70, 3);
    const std::vector<Point> structured = test::structured_points(70, 4);
    points.insert(points.end(), structured.begin(), structured.end());
    const auto all = decode(*decoder_, points);
    for (const size_t first : {0, 1, 7, 63, 64, 65, 100}) {
        for (const size_t size : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40}) {
            const std::vector<Point> part(points.begin() + static_cast<ptrdiff_t>(first),
                                          points.begin() + static_cast<ptrdiff_t>(first + size));
            const auto found = decode(*decoder_, part);
            for (size_t p = 0; p < size; ++p) {
                ASSERT_TRUE(found[p] == all[first + p]) << "from " << first << ", size " << size;
            }
        }
    }
}

TEST_P(Decoders, FloatsAndDoublesAgreeAndMoveWithTheLattice) {
    std::vector<Point> points = test::uniform_points(100, 5);
    const std::vector<Point> structured = test::structured_points(100, 6);
    points.insert(points.end(), structured.begin(), structured.end());
    const auto found = decode(*decoder_, points);
    const auto values = test::flatten(points);
    const std::vector<float> floats(values.begin(), values.end());
    std::vector<Nearest> of_floats(points.size());
    decoder_->nearest(std::span<const float>(floats), of_floats);
    std::vector<Point> moved = points;
    for (size_t p = 0; p < points.size(); ++p) {
        for (size_t i = 0; i < kDimension; ++i) {
            // Exactly representable moves along 8 Z^24; a double keeps the 2^-17 parts at this size.
            moved[p][i] +=
                8.0 * (static_cast<double>((p * 31 + i * 17) % 2001) - 1000.0) * (p % 10 == 6 ? 0.0 : 1.0);
        }
        bool representable = true;
        for (size_t i = 0; i < kDimension; ++i) {
            representable &= double{floats[24 * p + i]} == points[p][i];
        }
        if (representable) {
            EXPECT_TRUE(of_floats[p] == found[p]) << test::describe(points[p]);
        }
    }
    const auto found_moved = decode(*decoder_, moved);
    for (size_t p = 0; p < points.size(); ++p) {
        EXPECT_EQ(found_moved[p].d2, found[p].d2);
        EXPECT_EQ(found_moved[p].word, found[p].word);
        EXPECT_EQ(found_moved[p].m, found[p].m);
        for (size_t i = 0; i < kDimension; ++i) {
            EXPECT_EQ(found_moved[p].x[i] - found[p].x[i], moved[p][i] - points[p][i]);
        }
    }
}

TEST_P(Decoders, LatticePointsAreTheirOwnNearest) {
    for (const Point& point : test::structured_points(2000, 7)) {
        std::array<int32_t, kDimension> x;
        bool whole = true;
        for (size_t i = 0; i < kDimension; ++i) {
            x[i] = static_cast<int32_t>(point[i]);
            whole &= x[i] == point[i];
        }
        if (whole && is_lattice_point(x)) {
            const Nearest nearest = decode(*decoder_, {point})[0];
            ASSERT_EQ(nearest.x, x);
            ASSERT_EQ(nearest.d2, 0);
        }
    }
}

TEST_P(Decoders, BadInputNamesThePointAndTheCoordinate) {
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity(), 0x1.0001p20, -0x1.0001p20}) {
        std::vector<double> y(100 * kDimension, 0.25);
        std::vector<Nearest> out(100);
        y[77 * kDimension + 5] = bad;
        y[90 * kDimension] = bad;
        const std::vector<float> floats(y.begin(), y.end());
        for (int precision = 0; precision < 2; ++precision) {
            try {
                precision == 0 ? decoder_->nearest(y, out)
                               : decoder_->nearest(std::span<const float>(floats), out);
                FAIL() << bad;
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::bad_input);
                EXPECT_NE(std::string(error.what()).find("point 77, coordinate 5"), std::string::npos)
                    << error.what();
            }
        }
    }
    std::vector<double> edge(kDimension, 0x1p20);
    edge[3] = -0x1p20;
    Nearest nearest;
    decoder_->nearest(edge, std::span(&nearest, 1));
    EXPECT_EQ(nearest.x[3], -0x100000);
    EXPECT_EQ(nearest.d2, 0);
}

TEST_P(Decoders, SizesThatDoNotMatchAreRefused) {
    std::vector<double> y(25);
    std::vector<Nearest> out(1);
    EXPECT_THROW(decoder_->nearest(y, out), Error);
    decoder_->nearest(std::span<const double>(), std::span<Nearest>());
}

TEST(Decoder, UnknownNamesAreRefusedWithTheChoices) {
    try {
        static_cast<void>(make_decoder("quick"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        for (const std::string_view name : decoder_names()) {
            EXPECT_NE(std::string_view(error.what()).find(name), std::string_view::npos);
        }
    }
    for (const std::string_view name : decoder_names()) {
        EXPECT_EQ(make_decoder(name)->name(), name);
    }
}

TEST(Decoder, PointsBeyondOneBlockAreDecodedToo) {
    // More than two internal blocks, the last one ragged.
    std::vector<Point> points = test::uniform_points(300, 10);
    const std::vector<Point> structured = test::structured_points(301, 11);
    points.insert(points.end(), structured.begin(), structured.end());
    const auto expected = decode(*make_decoder("pruned"), points);
    for (const std::string& kind : kinds()) {
        const auto found = decode(*make_kind(kind), points);
        for (size_t p = 0; p < points.size(); ++p) {
            ASSERT_TRUE(found[p] == expected[p]) << kind << " at " << p;
        }
    }
}

TEST(Decoder, AllAgreeOnManyPoints) {
    std::vector<Point> points = test::uniform_points(2000, 8);
    const std::vector<Point> structured = test::structured_points(4000, 9);
    points.insert(points.end(), structured.begin(), structured.end());
    const auto expected = decode(*make_decoder("exhaustive"), points);
    for (const std::string& name : kinds()) {
        const auto found = decode(*make_kind(name), points);
        for (size_t p = 0; p < points.size(); ++p) {
            ASSERT_TRUE(found[p] == expected[p])
                << name << " at " << test::describe(points[p]) << "\nfound " << test::describe(found[p])
                << "\nwant  " << test::describe(expected[p]);
        }
    }
}

}  // namespace kaiju::lattice
