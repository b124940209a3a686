#include "format/npy.h"

#include <fmt/format.h>

namespace kaiju::format {

NpyWriter::NpyWriter(const std::filesystem::path& path, uint64_t rows, uint64_t cols)
    : file_(path), cols_(cols) {
    constexpr size_t kPrefix = 10;     // magic, version, length of the description
    constexpr size_t kAlignment = 64;  // of the values
    std::string description =
        fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
    description.append(kAlignment - 1 - (kPrefix + description.size()) % kAlignment, ' ');
    description += '\n';
    ByteWriter head;
    head.append("\x93NUMPY");
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
