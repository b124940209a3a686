// A KAIJU4 matrix packed for its products.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "codec/kaiju4.h"
#include "runtime/native/kaiju4_kernels.h"
#include "runtime/native/packed_matrix.h"

namespace kaiju::runtime {

/// The kernels that this processor and this program have, weakest first ("scalar", "avx2", "avx512-vnni").
[[nodiscard]] std::span<const kaiju4_kernels::Kernels* const> available_kaiju4_kernels();
/// Those to use: the strongest that KAIJU_SIMD allows (lattice::chosen_simd). Throws usage as that does.
[[nodiscard]] const kaiju4_kernels::Kernels& chosen_kaiju4_kernels();

class Kaiju4Matrix final : public PackedMatrix {
  public:
    /// Packs and checks a payload. Memory: 4.125 bits a weight where indices have up to 8 bits, else 5.125.
    /// Throws bad_input naming the row where the payload is corrupt.
    Kaiju4Matrix(Bytes payload, Activations activations, int threads,
                 const kaiju4_kernels::Kernels& kernels = chosen_kaiju4_kernels());

    [[nodiscard]] const char* kernel() const override { return kernels_->name; }
    [[nodiscard]] size_t rows() const override { return view_.rows; }
    [[nodiscard]] size_t cols() const override { return rotation_.cols(); }
    [[nodiscard]] size_t bytes() const override;
    [[nodiscard]] size_t prepared_bytes(size_t tokens) const override;
    [[nodiscard]] bool shares_preparation(const PackedMatrix& other) const override;
    void prepare(const float* x, size_t stride, size_t tokens, std::byte* out, int ith,
                 int nth) const override;
    void multiply(const std::byte* prepared, size_t tokens, float* y, size_t stride, int ith,
                  int nth) const override;

  private:
    struct alignas(64) CacheLine {
        std::array<uint8_t, 64> bytes;
    };

    Kaiju4Matrix(const codec::kaiju4::TensorView& source, Activations activations, int threads,
                 const kaiju4_kernels::Kernels& kernels);
    [[nodiscard]] size_t groups() const;
    void pack_group(const codec::kaiju4::TensorView& source, size_t group);
    /// Blocks first .. last of one token, rotated, block b at values(b).
    void prepare_blocks(const float* x, size_t first, size_t last, size_t block_stride, std::byte* out) const;
    [[nodiscard]] size_t block_bytes() const;

    const kaiju4_kernels::Kernels* kernels_;
    Activations activations_;
    uint64_t seed_;
    codec::Rotation rotation_;
    std::unique_ptr<CacheLine[]> lines_;  // NOLINT(modernize-avoid-c-arrays): memory that is not zeroed first
    std::vector<float> scales_;
    codec::kaiju4::Multipliers multipliers_{};
    kaiju4_kernels::View view_{};
};

}  // namespace kaiju::runtime
