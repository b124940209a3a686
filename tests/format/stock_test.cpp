#include "codec/stock.h"

#include <ggml.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "bytes.h"

namespace kaiju::codec {
namespace {

using format::TensorInfo;
using test::expect_error;

std::vector<float> waves(size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
        values[i] = std::sin(0.7F * static_cast<float>(i)) * (1.0F + 0.001F * static_cast<float>(i));
    }
    return values;
}

double relative_rms(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0;
    double reference = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        squares += (a[i] - b[i]) * (a[i] - b[i]);
        reference += a[i] * a[i];
    }
    return std::sqrt(squares / reference);
}

TEST(Stock, encodes_and_decodes_within_each_types_error) {
    const std::vector<std::pair<const char*, double>> bounds = {
        {"F32", 0},     {"F16", 1e-3},  {"BF16", 8e-3}, {"Q8_0", 0.01}, {"Q6_K", 0.03},
        {"Q5_K", 0.05}, {"Q4_K", 0.12}, {"Q4_1", 0.12}, {"Q3_K", 0.25}, {"IQ3_S", 0.3}};
    const std::vector<float> values = waves(4 * 512);
    for (const auto& [type, bound] : bounds) {
        const StockEncoder encoder(type);
        const TensorInfo info = encoder.describe({"t", "F32", {4, 512}, 4 * 512 * 4});
        std::vector<std::byte> bytes(info.nbytes);
        encoder.encode_rows(values.data(), 4, 512, bytes.data());
        const auto decoder = make_stock_decoder(info, bytes);
        std::vector<float> back(values.size());
        decoder->decode_rows(0, 4, back.data());
        EXPECT_LE(relative_rms(values, back), bound) << type;
        std::vector<float> row(512);
        decoder->decode_rows(2, 1, row.data());
        EXPECT_TRUE(std::equal(row.begin(), row.end(), back.begin() + 2 * 512)) << type;
        EXPECT_NO_THROW(decoder->check());
    }
}

TEST(Stock, numbers_of_every_width_become_f32) {
    const auto decode = [](const char* type, const auto& numbers) {
        const TensorInfo info{"t", type, {numbers.size()}, sizeof numbers};
        std::vector<float> out(numbers.size());
        make_stock_decoder(info, std::as_bytes(std::span(numbers)))->decode_rows(0, 1, out.data());
        return out;
    };
    const std::vector<float> wanted = {-3, 0, 100};
    EXPECT_EQ(decode("I8", std::array<int8_t, 3>{-3, 0, 100}), wanted);
    EXPECT_EQ(decode("I16", std::array<int16_t, 3>{-3, 0, 100}), wanted);
    EXPECT_EQ(decode("I32", std::array<int32_t, 3>{-3, 0, 100}), wanted);
    EXPECT_EQ(decode("I64", std::array<int64_t, 3>{-3, 0, 100}), wanted);
    EXPECT_EQ(decode("F64", std::array<double, 3>{-3, 0, 100}), wanted);
    EXPECT_EQ(decode("F32", std::array<float, 3>{-3, 0, 100}), wanted);
}

TEST(Stock, importance_is_used_where_it_is_given) {
    const std::vector<float> values = waves(512);
    std::vector<float> importance(512, 1e-3F);
    std::fill(importance.begin(), importance.begin() + 64, 1000.0F);
    const StockEncoder encoder("IQ2_XXS", true);
    const TensorInfo info = encoder.describe({"t", "F32", {1, 512}, 2048});
    std::vector<std::byte> bytes(info.nbytes);
    encoder.encode_rows(values.data(), 1, 512, bytes.data(), importance.data());
    std::vector<float> back(512);
    make_stock_decoder(info, bytes)->decode_rows(0, 1, back.data());
    EXPECT_LT(relative_rms(values, back), 0.6);
}

TEST(Stock, what_cannot_be_made_is_refused) {
    const auto refuse = [](const char* type, const std::vector<std::string>& parts) {
        expect_error(ErrorCode::bad_input, parts, [&] { StockEncoder{type}; });
    };
    refuse("IQ2_XXS", {"IQ2_XXS needs an importance matrix"});
    refuse("Q8_K", {"Q8_K cannot be made"});
    refuse("Q8_1", {"Q8_1 cannot be made"});
    refuse("I32", {"I32 cannot be made"});
    refuse("KAIJU1", {"KAIJU1 is not known"});
    refuse("q8_0", {"q8_0 is not known"});
    expect_error(ErrorCode::bad_input, {"rows of 100", "Q8_0"}, [] {
        static_cast<void>(StockEncoder("Q8_0").describe({"t", "F32", {2, 100}, 800}));
    });
}

TEST(Stock, weights_that_do_not_fit_are_named) {
    std::vector<float> values(64, 1.0F);
    std::vector<std::byte> bytes(1024);
    values[37] = 65520.0F;
    expect_error(ErrorCode::bad_input, {"row 11, column 5", "65520", "F16"},
                 [&] { StockEncoder("F16").encode_rows(values.data(), 2, 32, bytes.data(), nullptr, 10); });
    EXPECT_NO_THROW(StockEncoder("BF16").encode_rows(values.data(), 2, 32, bytes.data()));
    values[37] = 65504.0F;
    EXPECT_NO_THROW(StockEncoder("F16").encode_rows(values.data(), 2, 32, bytes.data()));
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
        values[37] = bad;
        for (const char* type : {"F32", "Q8_0", "Q4_0", "IQ4_NL"}) {
            expect_error(ErrorCode::bad_input, {"row 1, column 5", type},
                         [&] { StockEncoder(type).encode_rows(values.data(), 2, 32, bytes.data()); });
        }
    }
}

TEST(Stock, payloads_must_be_what_type_and_shape_imply) {
    const std::string payload(64, '\0');
    const auto refuse = [&](const TensorInfo& info, const std::vector<std::string>& parts) {
        expect_error(ErrorCode::bad_input, parts,
                     [&] { static_cast<void>(make_stock_decoder(info, test::bytes_of(payload))); });
    };
    refuse({"t", "F32", {4, 5}, 80}, {"64 bytes, type F32 and shape imply 80"});
    refuse({"t", "Q8_K", {256}, 292}, {"Q8_K cannot be decoded"});
    refuse({"t", "NOSUCH", {256}, 292}, {"NOSUCH is not known"});
    const TensorInfo good{"t", "F32", {4, 4}, 64};
    const auto decoder = make_stock_decoder(good, test::bytes_of(payload));
    std::vector<float> out(32);
    expect_error(ErrorCode::internal, {"rows 3+2 of 4"}, [&] { decoder->decode_rows(3, 2, out.data()); });
}

}  // namespace
}  // namespace kaiju::codec
