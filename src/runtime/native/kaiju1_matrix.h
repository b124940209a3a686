// A KAIJU1 matrix packed for its products.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/native/kaiju1_kernels.h"
#include "runtime/native/packed_matrix.h"

namespace kaiju::runtime {

/// The kernels that this processor and this program have, weakest first ("scalar", "avx2", "avx512-vnni").
[[nodiscard]] std::span<const kaiju1_kernels::Kernels* const> available_kaiju1_kernels();
/// Those to use: the strongest that KAIJU_SIMD allows (lattice::chosen_simd). Throws usage as that does.
[[nodiscard]] const kaiju1_kernels::Kernels& chosen_kaiju1_kernels();

class Kaiju1Matrix final : public PackedMatrix {
  public:
    /// Packs and checks a payload. Memory: about 1.25 times the payload. Throws bad_input naming row and
    /// block where the payload is corrupt.
    Kaiju1Matrix(Bytes payload, Activations activations, int threads,
                 const kaiju1_kernels::Kernels& kernels = chosen_kaiju1_kernels());

    [[nodiscard]] const char* kernel() const override { return kernels_->name; }
    [[nodiscard]] size_t rows() const override { return view_.rows; }
    [[nodiscard]] size_t cols() const override { return cols_; }
    [[nodiscard]] size_t bytes() const override;
    [[nodiscard]] size_t prepared_bytes(size_t tokens) const override;
    [[nodiscard]] bool shares_preparation(const PackedMatrix& other) const override;
    void prepare(const float* x, size_t stride, size_t tokens, std::byte* out, int ith,
                 int nth) const override;
    void multiply(const std::byte* prepared, size_t tokens, float* y, size_t stride, int ith,
                  int nth) const override;

  private:
    const kaiju1_kernels::Kernels* kernels_;
    Activations activations_;
    size_t cols_ = 0;
    /// By prepared position, side-band first: its column, or cols_ where the side-band's last block is
    /// padded.
    std::vector<uint32_t> columns_;
    std::vector<uint8_t> groups_;
    std::vector<float> scales_;
    std::array<float, 16> multipliers_{};
    kaiju1_kernels::View view_{};
};

}  // namespace kaiju::runtime
