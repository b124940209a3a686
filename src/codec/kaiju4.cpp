#include "codec/kaiju4.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace kaiju::codec::kaiju4 {

namespace {

constexpr std::string_view kMagic = "KJU4";
constexpr uint32_t kVersion = 1;
constexpr std::string_view kPrefix = "KAIJU4_";
/// Bits a weight beyond the first, in quarters: the ends of the type strings.
constexpr std::array<std::string_view, 10> kRates = {"1_75", "2",    "2_25", "2_5",  "2_75",
                                                     "3",    "3_25", "3_5",  "3_75", "4"};

constexpr float kLargestMultiplier = 65536.0F;  // 2^16
constexpr float kLargestRatio = 4096.0F;        // 2^12, of two multipliers
constexpr float kLargestScale = 0x1p100F;

[[noreturn]] void corrupt(const std::string& what) {
    throw Error(ErrorCode::bad_input, "KAIJU4 payload: " + what);
}

int log2_of(uint32_t power) {
    return std::countr_zero(power);
}

/// `count` bits from bit `at` on of `size` bytes, count <= 16.
uint32_t get_bits(const uint8_t* bytes, uint64_t size, uint64_t at, unsigned count) {
    uint32_t value = 0;
    const uint64_t first = at / 8;
    if (first + sizeof(value) <= size) {
        std::memcpy(&value, bytes + first, sizeof(value));
    } else {
        std::memcpy(&value, bytes + first, size - first);
    }
    return value >> (at % 8) & ((1U << count) - 1);
}

void put_bits(uint8_t* bytes, uint64_t at, unsigned count, uint32_t value) {
    value <<= at % 8;
    const uint64_t last = (at + count - 1) / 8;
    for (uint64_t byte = at / 8; byte <= last; ++byte) {
        bytes[byte] = static_cast<uint8_t>(bytes[byte] | value >> (8 * (byte - at / 8)));
    }
}

}  // namespace

std::string type_name(int index_bits) {
    return std::string(kPrefix) +
           std::string(kRates.at(static_cast<size_t>(index_bits - lattice::kLeastIndexBits)));
}

std::optional<int> index_bits_of(std::string_view type) {
    if (!type.starts_with(kPrefix)) {
        return std::nullopt;
    }
    const auto* const found = std::find(kRates.begin(), kRates.end(), type.substr(kPrefix.size()));
    if (found == kRates.end()) {
        return std::nullopt;
    }
    return static_cast<int>(found - kRates.begin()) + lattice::kLeastIndexBits;
}

Layout Layout::for_matrix(uint64_t rows, uint64_t cols, int index_bits) {
    if (rows == 0 || cols == 0 || rows > UINT32_MAX || cols > UINT32_MAX) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{} x {} is not a matrix that KAIJU4 can hold", rows, cols));
    }
    lattice::ShellBook::check(index_bits);
    return {
        .rows = static_cast<uint32_t>(rows), .cols = static_cast<uint32_t>(cols), .index_bits = index_bits};
}

uint64_t Layout::payload_bytes() const {
    return checked_add(kHeaderBytes, checked_mul(row_bytes(), rows, "rows x row_bytes"), "payload length");
}

std::vector<std::byte> make_head(const Layout& layout, uint64_t seed, const Multipliers& multipliers) {
    ByteWriter writer;
    writer.append(kMagic);
    writer.write(kVersion);
    writer.write(layout.rows);
    writer.write(layout.cols);
    writer.write(static_cast<uint32_t>(layout.n_blocks()));
    writer.write(static_cast<uint8_t>(layout.index_bits));
    writer.write(static_cast<uint8_t>(log2_of(Rotation::span_of(layout.cols))));
    writer.write(uint16_t{0});
    writer.write(seed);
    for (const float multiplier : multipliers) {
        writer.write(multiplier);
    }
    writer.append(std::string(kHeaderBytes - writer.bytes().size(), '\0'));
    return writer.release();
}

uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float from_bf16(uint16_t bits) {
    return std::bit_cast<float>(uint32_t{bits} << 16);
}

void put_block(uint8_t* record, const Layout& layout, uint64_t b, const Block& block) {
    const uint32_t head = block.code.m | uint32_t{block.code.word} << 1 |
                          uint32_t{block.code.sequence} << 13 | uint32_t{block.q} << 22;
    uint8_t* const heads = record + 2;
    for (size_t i = 0; i < kHeadBytes; ++i) {
        heads[kHeadBytes * b + i] = static_cast<uint8_t>(head >> (8 * i));
    }
    uint8_t* const indices = heads + kHeadBytes * layout.n_blocks();
    const auto g = static_cast<unsigned>(layout.index_bits);
    for (size_t j = 0; j < lattice::kGroups; ++j) {
        put_bits(indices, (lattice::kGroups * b + j) * g, g, block.code.index[j]);
    }
}

Block get_block(const uint8_t* record, const Layout& layout, uint64_t b) {
    const uint8_t* const heads = record + 2;
    const uint8_t* const at = heads + kHeadBytes * b;
    const uint32_t head = at[0] | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16;
    Block block;
    block.code.m = static_cast<uint8_t>(head & 1);
    block.code.word = static_cast<uint16_t>(head >> 1 & 4095);
    block.code.sequence = static_cast<uint16_t>(head >> 13 & 511);
    block.q = static_cast<uint8_t>(head >> 22);
    const uint8_t* const indices = heads + kHeadBytes * layout.n_blocks();
    const uint64_t size = layout.index_bytes();
    const auto g = static_cast<unsigned>(layout.index_bits);
    for (size_t j = 0; j < lattice::kGroups; ++j) {
        block.code.index[j] =
            static_cast<uint16_t>(get_bits(indices, size, (lattice::kGroups * b + j) * g, g));
    }
    return block;
}

TensorView::TensorView(Bytes payload) {
    ByteReader reader(payload);
    if (as_text(reader.take(kMagic.size(), "magic")) != kMagic) {
        corrupt("wrong magic, not \"KJU4\"");
    }
    if (const auto version = reader.read<uint32_t>("version"); version != kVersion) {
        corrupt(fmt::format("version {}, only version 1 is known", version));
    }
    layout_.rows = reader.read<uint32_t>("rows");
    layout_.cols = reader.read<uint32_t>("cols");
    if (layout_.rows == 0 || layout_.cols == 0) {
        corrupt(fmt::format("{} rows x {} columns: both must be at least 1", layout_.rows, layout_.cols));
    }
    if (const auto blocks = reader.read<uint32_t>("n_blocks"); blocks != layout_.n_blocks()) {
        corrupt(fmt::format("{} blocks, {} columns take {}", blocks, layout_.cols, layout_.n_blocks()));
    }
    layout_.index_bits = reader.read<uint8_t>("index bits");
    if (layout_.index_bits < lattice::kLeastIndexBits || layout_.index_bits > lattice::kMostIndexBits) {
        corrupt(fmt::format("indices of {} bits, must be {} to {}", layout_.index_bits,
                            lattice::kLeastIndexBits, lattice::kMostIndexBits));
    }
    const auto log_span = reader.read<uint8_t>("log2 of the span");
    if (const int expected = log2_of(Rotation::span_of(layout_.cols)); log_span != expected) {
        corrupt(fmt::format("log2 of the rotation's span is {}, must be {} for {} columns", log_span,
                            expected, layout_.cols));
    }
    (void)reader.take(2, "reserved bytes");
    seed_ = reader.read<uint64_t>("seed");
    for (size_t i = 0; i < kMultipliers; ++i) {
        const auto value = reader.read<float>("multipliers");
        if (!std::isfinite(value) || value <= 0 || value > kLargestMultiplier ||
            (i > 0 && (value <= multipliers_[i - 1] || value > kLargestRatio * multipliers_[0]))) {
            corrupt(fmt::format(
                "multiplier {} is {}: they must be positive, ascending, at most 2^16 and within 2^12 of each "
                "other",
                i, value));
        }
        multipliers_[i] = value;
    }
    (void)reader.take(16, "reserved bytes");
    if (const uint64_t expected = layout_.payload_bytes(); expected != payload.size()) {
        corrupt(fmt::format("{} bytes, its header implies {}", payload.size(), expected));
    }
    rows_ = reinterpret_cast<const uint8_t*>(payload.data()) + kHeaderBytes;
    book_ = &lattice::ShellBook::of(layout_.index_bits);
}

float TensorView::row_scale(uint64_t index) const {
    const auto bits = load<uint16_t>(row(index));
    const float scale = from_bf16(bits);
    if ((bits >> 15) != 0 || !(scale <= kLargestScale)) {
        corrupt(fmt::format("row {}: scale {} must be finite, not negative and at most 2^100", index, scale));
    }
    return scale;
}

void TensorView::decode_rows(uint64_t first, uint64_t count, float* out) const {
    if (!fits(first, count, layout_.rows)) {
        throw Error(ErrorCode::usage,
                    fmt::format("rows {}..{} of a tensor with {} rows", first, first + count, layout_.rows));
    }
    const Rotation rotation(layout_.cols, seed_);
    const size_t span = rotation.span();
    const double scale = 1 / std::sqrt(static_cast<double>(span));
    std::vector<double> rotated(kBlock * layout_.n_blocks());
    for (uint64_t r = first; r < first + count; ++r, out += layout_.cols) {
        const double row_scale = this->row_scale(r);
        for (uint64_t b = 0; b < layout_.n_blocks(); ++b) {
            const Block block = get_block(row(r), layout_, b);
            std::array<int8_t, kBlock> x;
            book_->values(block.code, x.data());
            for (size_t i = 0; i < kBlock; ++i) {
                rotated[kBlock * b + i] = static_cast<double>(multipliers_[block.q]) * x[i];
            }
        }
        for (size_t begin = 0; begin < layout_.cols; begin += span) {
            hadamard(rotated.data() + begin, span);
        }
        for (size_t j = 0; j < layout_.cols; ++j) {
            out[j] = static_cast<float>(rotated[j] * row_scale * scale) * rotation.signs()[j];
        }
    }
}

void TensorView::check() const {
    for (uint64_t r = 0; r < layout_.rows; ++r) {
        (void)row_scale(r);
    }
}

}  // namespace kaiju::codec::kaiju4
