#include "format/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kaiju::format {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// What follows "'key':" in the header's Python dictionary, blanks skipped; empty where the key is not there.
std::string_view value_after(std::string_view header, std::string_view key) {
    const size_t at = header.find(fmt::format("'{}':", key));
    if (at == std::string_view::npos) {
        return {};
    }
    header.remove_prefix(at + key.size() + 3);
    header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
    return header;
}

/// The numbers of "(3, 4)", "(3,)" or "()".
std::vector<uint64_t> parse_shape(std::string_view text) {
    std::vector<uint64_t> shape;
    text = text.substr(0, text.find(')'));
    if (text.find('-') != std::string_view::npos) {
        throw Error(ErrorCode::bad_input, "a negative dimension");
    }
    for (size_t at = text.find_first_of("0123456789"); at != std::string_view::npos;
         at = text.find_first_of("0123456789")) {
        text.remove_prefix(at);
        uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error != std::errc()) {
            throw Error(ErrorCode::bad_input, "a dimension does not fit 64 bits");
        }
        shape.push_back(number);
        text.remove_prefix(static_cast<size_t>(end - text.data()));
    }
    return shape;
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& path) : file_(path) {
    within(path.string(), [&] {
        ByteReader reader(file_.bytes());
        if (as_text(reader.take(kMagic.size(), "magic")) != kMagic) {
            throw Error(ErrorCode::bad_input, "not a NumPy .npy file");
        }
        const auto major = reader.read<uint8_t>("version");
        (void)reader.read<uint8_t>("version");
        const uint64_t length =
            major == 1 ? reader.read<uint16_t>("header length") : reader.read<uint32_t>("header length");
        const std::string header = reader.text(length, "header");
        if (!value_after(header, "descr").starts_with("'<f4'")) {
            throw Error(ErrorCode::bad_input,
                        "only little-endian 32-bit floats ('<f4') are read: save it with dtype float32");
        }
        if (!value_after(header, "fortran_order").starts_with("False")) {
            throw Error(ErrorCode::bad_input,
                        "Fortran order is not read: save it with numpy.ascontiguousarray");
        }
        const std::vector<uint64_t> shape = parse_shape(value_after(header, "shape"));
        if (shape.empty() || shape.size() > 2) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{} dimensions: a matrix or a vector is read", shape.size()));
        }
        rows_ = shape.size() == 2 ? shape[0] : 1;
        cols_ = shape.back();
        if (rows_ == 0 || cols_ == 0) {
            throw Error(ErrorCode::bad_input, "no values in it");
        }
        values_ = reader.take(
            checked_mul(checked_mul(rows_, cols_, "the matrix"), sizeof(float), "the matrix"), "values");
        if (reader.remaining() != 0) {
            throw Error(ErrorCode::bad_input, fmt::format("{} bytes follow the values", reader.remaining()));
        }
    });
}

NpyWriter::NpyWriter(const std::filesystem::path& path, uint64_t rows, uint64_t cols)
    : file_(path), cols_(cols) {
    constexpr size_t kPrefix = 10;     // magic, version, length of the description
    constexpr size_t kAlignment = 64;  // of the values
    std::string description =
        fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
    description.append(kAlignment - 1 - (kPrefix + description.size()) % kAlignment, ' ');
    description += '\n';
    ByteWriter head;
    head.append(kMagic);
    head.write(uint8_t{1});
    head.write(uint8_t{0});
    head.write(static_cast<uint16_t>(description.size()));
    head.append(description);
    data_ = head.bytes().size();
    const uint64_t values = checked_mul(checked_mul(rows, cols, "the matrix"), sizeof(float), "the matrix");
    file_.reserve(checked_add(data_, values, "the matrix"));
    file_.write_at(0, head.bytes());
}

void NpyWriter::write_rows(uint64_t first, std::span<const float> values) {
    file_.write_at(data_ + first * cols_ * sizeof(float), std::as_bytes(values));
}

}  // namespace kaiju::format
