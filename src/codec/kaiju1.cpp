#include "codec/kaiju1.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lattice/golay.h"

namespace kaiju::codec::kaiju1 {

namespace {

constexpr std::string_view kMagic = "KJU1";
constexpr uint32_t kVersion = 1;
constexpr size_t kTritsPerByte = 5;
constexpr int kTritByteValues = 243;     // 3^5
constexpr int kLastTritByteValues = 81;  // 3^4: the last byte holds four trits

[[noreturn]] void corrupt(std::string message) {
    throw Error(ErrorCode::bad_input, "KAIJU1 payload: " + std::move(message));
}

// The five digits of a byte, each as z = t - 1. Rows 243..255 are corrupt on the wire; zeros keep kernels in
// bounds.
constexpr auto kTrits = [] {
    std::array<std::array<int8_t, kTritsPerByte>, 256> table{};
    for (int byte = 0; byte < kTritByteValues; ++byte) {
        int rest = byte;
        for (auto& trit : table[static_cast<size_t>(byte)]) {
            trit = static_cast<int8_t>(rest % 3 - 1);
            rest /= 3;
        }
    }
    return table;
}();

struct Head {  // bytes 0 and 1 of a code
    uint8_t m;
    bool flip;
    bool watermark;
    uint16_t word;
};

Head decode_head(const uint8_t* code) {
    return {.m = static_cast<uint8_t>(code[0] & 1),
            .flip = (code[1] & 0x80) != 0,
            .watermark = (code[1] & 0x40) != 0,
            .word = static_cast<uint16_t>((code[0] >> 1) | (code[1] & 0x1F) << 7)};
}

bool valid_scale(float scale) {
    return std::isfinite(scale) && scale >= 0;
}

}  // namespace

Code pack(const Block& block) {
    Code code{};
    code[0] = static_cast<uint8_t>(block.m | (block.word & 0x7F) << 1);
    code[1] = static_cast<uint8_t>(block.word >> 7 | (block.watermark ? 0x40 : 0) | (block.flip ? 0x80 : 0));
    for (size_t i = kBlock; i-- > 0;) {  // Horner's rule: the last digit of a byte is its most significant
        auto& byte = code[2 + i / kTritsPerByte];
        byte = static_cast<uint8_t>(byte * 3 + block.z[i] + 1);
    }
    return code;
}

bool valid_trits(const uint8_t* code) {
    return std::all_of(code + 2, code + 6, [](uint8_t byte) { return byte < kTritByteValues; }) &&
           code[6] < kLastTritByteValues;
}

Block unpack(const uint8_t* code) {
    if (!valid_trits(code)) {
        corrupt("invalid trit byte in a block code");
    }
    const Head head = decode_head(code);
    Block block{.word = head.word, .m = head.m, .flip = head.flip, .watermark = head.watermark};
    for (size_t i = 0; i < kBlock; ++i) {
        block.z[i] = kTrits[code[2 + i / kTritsPerByte]][i % kTritsPerByte];
    }
    return block;
}

void decode_block(const uint8_t* code, int8_t* out) {
    const Head head = decode_head(code);
    const uint32_t word = lattice::kGolay[head.word];
    const int sign = head.flip ? -1 : 1;
    for (size_t i = 0; i < kBlock; ++i) {
        const int8_t z = kTrits[code[2 + i / kTritsPerByte]][i % kTritsPerByte];
        const int c = static_cast<int>(word >> i & 1);
        out[i] = static_cast<int8_t>(sign * (head.m + 2 * c + 4 * z));
    }
}

Layout Layout::for_matrix(uint64_t rows, uint64_t cols, double hi_frac) {
    if (!(hi_frac >= 0 && hi_frac <= 1)) {
        throw Error(ErrorCode::usage, fmt::format("side-band fraction {} is not in 0..1", hi_frac));
    }
    if (rows == 0 || cols == 0 || rows > UINT32_MAX || cols > UINT32_MAX) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{} x {} is not a matrix that KAIJU1 can hold", rows, cols));
    }
    const auto wanted = static_cast<uint64_t>(std::ceil(hi_frac * static_cast<double>(cols)));
    const uint64_t n_blocks = (cols - std::min(wanted, cols)) / kBlock;
    return {.rows = static_cast<uint32_t>(rows),
            .cols = static_cast<uint32_t>(cols),
            .n_hi = static_cast<uint32_t>(cols - kBlock * n_blocks),
            .n_blocks = static_cast<uint32_t>(n_blocks)};
}

uint64_t Layout::payload_bytes() const {
    return checked_add(rows_offset(), checked_mul(row_bytes(), rows, "rows x row_bytes"), "payload length");
}

TensorView::TensorView(Bytes payload) {
    ByteReader reader(payload);
    if (as_text(reader.take(kMagic.size(), "magic")) != kMagic) {
        corrupt("wrong magic, not \"KJU1\"");
    }
    if (const auto version = reader.read<uint32_t>("version"); version != kVersion) {
        corrupt(fmt::format("version {}, only version 1 is known", version));
    }
    layout_.rows = reader.read<uint32_t>("rows");
    layout_.cols = reader.read<uint32_t>("cols");
    layout_.n_hi = reader.read<uint32_t>("n_hi");
    layout_.n_blocks = reader.read<uint32_t>("n_blocks");
    layout_.perm_kind = reader.read<uint8_t>("perm_kind");
    const auto index_bytes = reader.read<uint8_t>("index_bytes");
    if (layout_.rows == 0 || layout_.cols == 0) {
        corrupt(fmt::format("{} rows x {} columns: both must be at least 1", layout_.rows, layout_.cols));
    }
    if (layout_.n_hi + kBlock * uint64_t{layout_.n_blocks} != layout_.cols) {
        corrupt(fmt::format("{} side-band columns and {} blocks of 24 do not add up to {} columns",
                            layout_.n_hi, layout_.n_blocks, layout_.cols));
    }
    if (layout_.perm_kind > 1) {
        corrupt(fmt::format("perm_kind {}, must be 0 or 1", layout_.perm_kind));
    }
    if (index_bytes != layout_.index_bytes()) {
        corrupt(fmt::format("index_bytes {}, must be {} for {} columns", index_bytes, layout_.index_bytes(),
                            layout_.cols));
    }
    (void)reader.take(6, "reserved bytes");
    for (size_t i = 0; i < kMultipliers; ++i) {
        const auto value = reader.read<float>("multipliers");
        if (!std::isfinite(value) || value <= 0 || (i > 0 && value <= multipliers_[i - 1])) {
            corrupt(
                fmt::format("multiplier {} is {}: they must be finite, positive and ascending", i, value));
        }
        multipliers_[i] = value;
    }
    (void)reader.take(32, "reserved bytes");
    if (const uint64_t expected = layout_.payload_bytes(); expected != payload.size()) {
        corrupt(fmt::format("{} bytes, its header implies {}", payload.size(), expected));
    }
    read_columns(reader);
    rows_ = reinterpret_cast<const uint8_t*>(payload.data()) + layout_.rows_offset();
}

void TensorView::read_columns(ByteReader& reader) {
    // Memory is bounded by the payload only for perm_kind 1; for kind 0 the bulk columns are implied, and a
    // row that holds them was already checked to be there.
    const uint64_t listed = layout_.listed_columns();
    columns_.reserve(layout_.cols);
    std::vector<bool> seen(layout_.cols, false);
    for (uint64_t i = 0; i < listed; ++i) {
        const uint32_t column = layout_.index_bytes() == 2 ? reader.read<uint16_t>("column index")
                                                           : reader.read<uint32_t>("column index");
        if (column >= layout_.cols) {
            corrupt(
                fmt::format("column index {} at position {}: there are {} columns", column, i, layout_.cols));
        }
        if (seen[column]) {
            corrupt(fmt::format("column {} is listed twice", column));
        }
        if (layout_.perm_kind == 0 && i > 0 && column < columns_.back()) {
            corrupt(fmt::format("side-band columns are not ascending at position {}", i));
        }
        seen[column] = true;
        columns_.push_back(column);
    }
    for (uint32_t column = 0; columns_.size() < layout_.cols; ++column) {
        if (!seen[column]) {
            columns_.push_back(column);
        }
    }
}

RowFields<const uint8_t> TensorView::row(uint64_t index) const {
    return {rows_ + index * layout_.row_bytes(), layout_};
}

void TensorView::decode_rows(uint64_t first, uint64_t count, float* out) const {
    if (!fits(first, count, layout_.rows)) {
        throw Error(ErrorCode::usage,
                    fmt::format("rows {}..{} of a tensor with {} rows", first, first + count, layout_.rows));
    }
    for (uint64_t r = 0; r < count; ++r, out += layout_.cols) {
        decode_row(first + r, out);
    }
}

void TensorView::decode_row(uint64_t index, float* out) const {
    const auto fields = row(index);
    const auto row_scale = load<float>(fields.scales);
    const auto hi_scale = load<float>(fields.scales + 4);
    if (!valid_scale(row_scale) || !valid_scale(hi_scale)) {
        corrupt(fmt::format("row {}: scales {} and {} must be finite and not negative", index, row_scale,
                            hi_scale));
    }
    const uint32_t* column = columns_.data();
    for (uint32_t i = 0; i < layout_.n_hi; ++i) {
        out[*column++] =
            static_cast<float>(static_cast<double>(hi_scale) * static_cast<int8_t>(fields.hi[i]));
    }
    for (uint32_t block = 0; block < layout_.n_blocks; ++block) {
        const uint8_t* const code = fields.codes + kCodeBytes * block;
        if (!valid_trits(code)) {
            corrupt(fmt::format("row {}, block {}: invalid trit byte", index, block));
        }
        const int q = fields.nibbles[block / 2] >> (4 * (block & 1)) & 15;
        const double step =
            static_cast<double>(row_scale) * multipliers_[static_cast<size_t>(q)];  // exact: 24 + 24 bits
        std::array<int8_t, kBlock> c;
        decode_block(code, c.data());
        for (const int8_t integer : c) {
            out[*column++] = static_cast<float>(step * integer);  // exact before this one rounding
        }
    }
    if (!std::all_of(out, out + layout_.cols, [](float value) { return std::isfinite(value); })) {
        corrupt(fmt::format("row {}: a weight is not finite in f32", index));
    }
}

void TensorView::check() const {
    std::vector<float> scratch(layout_.cols);
    for (uint64_t r = 0; r < layout_.rows; ++r) {
        decode_row(r, scratch.data());
    }
}

std::vector<std::byte> make_head(const Layout& layout, const Multipliers& multipliers,
                                 std::span<const uint32_t> columns) {
    ByteWriter writer;
    writer.append(kMagic);
    writer.write(kVersion);
    writer.write(layout.rows);
    writer.write(layout.cols);
    writer.write(layout.n_hi);
    writer.write(layout.n_blocks);
    writer.write(layout.perm_kind);
    writer.write(static_cast<uint8_t>(layout.index_bytes()));
    writer.append(std::string_view("\0\0\0\0\0\0", 6));
    for (const float multiplier : multipliers) {
        writer.write(multiplier);
    }
    writer.append(std::string(32, '\0'));
    for (const uint32_t column : columns.first(layout.listed_columns())) {
        if (layout.index_bytes() == 2) {
            writer.write(static_cast<uint16_t>(column));
        } else {
            writer.write(column);
        }
    }
    return writer.release();
}

}  // namespace kaiju::codec::kaiju1
