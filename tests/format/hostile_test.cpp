// Payloads that nobody wrote, behind checksums that hold: decoding must stay inside its memory, and the check
// must find what makes weights that are not finite.
#include <cmath>

#include "bytes.h"
#include "codec/kaiju1.h"
#include "codec/tensor_decoder.h"
#include "format/knot.h"
#include "format/stock_types.h"
#include "support/test_files.h"

namespace kaiju::codec {
namespace {

using format::KnotFile;
using format::TensorInfo;

/// Decodes everything and checks; true where the check had nothing to say.
bool survives(const TensorInfo& info, const std::string& payload) {
    try {
        const auto decoder = make_tensor_decoder(info, test::bytes_of(payload));
        std::vector<float> weights(info.weights());
        decoder->decode_rows(0, info.rows(), weights.data());
        decoder->check();
        for (const float weight : weights) {
            EXPECT_TRUE(std::isfinite(weight));
        }
        return true;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
        return false;
    }
}

TEST(Hostile, every_flipped_bit_of_a_kaiju1_payload) {
    const KnotFile knot(test::golden_dir() / "tiny.knot");
    for (const size_t index : {0, 1}) {  // one of each kind of column list
        const TensorInfo& info = knot.tensors()[index];
        ASSERT_EQ(info.type, "KAIJU1");
        const std::string whole(as_text(knot.payload(index)));
        ASSERT_TRUE(survives(info, whole));
        size_t accepted = 0;
        for (size_t at = 0; at < whole.size(); ++at) {
            for (int bit = 0; bit < 8; ++bit) {
                std::string payload = whole;
                payload[at] = static_cast<char>(payload[at] ^ (1 << bit));
                accepted += survives(info, payload) ? 1 : 0;
            }
        }
        EXPECT_GT(accepted, 0U);  // most rows, blocks and scales may have another value
        EXPECT_LT(accepted, 8 * whole.size());
    }
}

TEST(Hostile, every_length_of_a_kaiju1_payload_but_its_own_is_refused) {
    const KnotFile knot(test::golden_dir() / "tiny.knot");
    for (const size_t index : {0, 1}) {
        const std::string whole(as_text(knot.payload(index)));
        for (size_t length = 0; length < whole.size(); ++length) {
            EXPECT_FALSE(survives(knot.tensors()[index], whole.substr(0, length))) << length;
        }
        EXPECT_FALSE(survives(knot.tensors()[index], whole + '\0'));
    }
}

TEST(Hostile, stock_types_decode_any_bytes) {
    for (const char* type :
         {"F32",    "F16",    "BF16",  "Q4_0",  "Q4_1",  "Q5_0",    "Q5_1",   "Q8_0",  "Q2_K",    "Q3_K",
          "Q4_K",   "Q5_K",   "Q6_K",  "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
          "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "I8",      "I16",    "I32",   "I64",     "F64"}) {
        const format::StockType* stock = format::find_stock_type(type);
        ASSERT_NE(stock, nullptr) << type;
        TensorInfo info{"t", type, {3, 512}, 0};
        info.nbytes = stock_payload_bytes(*stock, info.shape);
        uint64_t state = 1;
        for (int round = 0; round < 20; ++round) {
            std::string payload(info.nbytes, '\0');
            for (char& byte : payload) {
                state = state * 6364136223846793005U + 1442695040888963407U;
                byte = static_cast<char>(state >> 56);
            }
            survives(info, payload);  // ASan watches
        }
        EXPECT_TRUE(survives(info, std::string(info.nbytes, '\0'))) << type;
    }
}

}  // namespace
}  // namespace kaiju::codec
