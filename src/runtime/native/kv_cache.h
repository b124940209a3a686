// Keys and values of the tokens seen so far.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/native/hyper_parameters.h"

namespace kaiju::runtime {

/// For every layer and sequence a row of keys and one of values per position, in f16. Memory is taken from
/// the system as it is first written to. Position p of sequence s is row s * positions() + p.
class KvCache {
  public:
    /// `positions`: per sequence. Throws usage where the memory cannot be had.
    KvCache(const HyperParameters& shape, uint64_t positions, uint64_t sequences);

    /// Positions of a sequence, as allocated: a multiple of kPadding.
    [[nodiscard]] size_t positions() const { return positions_; }
    [[nodiscard]] size_t bytes() const { return bytes_; }
    /// All rows of a layer, [kv_width, positions * sequences], as a tensor of `context`.
    [[nodiscard]] ggml_tensor* keys(ggml_context* context, uint32_t layer) const;
    [[nodiscard]] ggml_tensor* values(ggml_context* context, uint32_t layer) const;

    /// Graphs look at a multiple of this many positions, so that few graphs serve a growing text.
    static constexpr uint64_t kPadding = 256;

  private:
    struct Unmap {
        size_t bytes;
        void operator()(std::byte* at) const;
    };
    [[nodiscard]] ggml_tensor* rows(ggml_context* context, size_t index) const;

    size_t kv_width_;
    size_t positions_;
    size_t sequences_;
    size_t bytes_;
    std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace kaiju::runtime
