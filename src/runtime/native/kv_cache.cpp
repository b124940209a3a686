#include "runtime/native/kv_cache.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/error.h"

namespace kaiju::runtime {

namespace {

// Anonymous pages are zero until they are written: attention multiplies what it masks by zero, and must not
// meet a NaN there.
std::byte* map_zeros(size_t bytes) {
    void* at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        throw Error(ErrorCode::usage, fmt::format("no memory for keys and values of {} bytes: ask for a "
                                                  "shorter context or fewer sequences",
                                                  bytes));
    }
    return static_cast<std::byte*>(at);
}

}  // namespace

void KvCache::Unmap::operator()(std::byte* at) const {
    ::munmap(at, bytes);
}

KvCache::KvCache(const HyperParameters& shape, uint64_t positions, uint64_t sequences)
    : kv_width_(shape.kv_width()),
      positions_((positions + kPadding - 1) / kPadding * kPadding),
      sequences_(sequences),
      bytes_(checked_mul(checked_mul(positions_, sequences, "positions of all sequences"),
                         2 * uint64_t{shape.layers} * kv_width_ * sizeof(ggml_fp16_t), "keys and values")),
      memory_(map_zeros(bytes_), Unmap{bytes_}) {}

ggml_tensor* KvCache::rows(ggml_context* context, size_t index) const {
    ggml_tensor* tensor = ggml_new_tensor_2d(context, GGML_TYPE_F16, static_cast<int64_t>(kv_width_),
                                             static_cast<int64_t>(positions_ * sequences_));
    tensor->data = memory_.get() + index * ggml_nbytes(tensor);
    return tensor;
}

ggml_tensor* KvCache::keys(ggml_context* context, uint32_t layer) const {
    return rows(context, 2 * size_t{layer});
}

ggml_tensor* KvCache::values(ggml_context* context, uint32_t layer) const {
    return rows(context, 2 * size_t{layer} + 1);
}

}  // namespace kaiju::runtime
