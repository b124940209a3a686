// From payload bytes to weights, for every type that a container may name.
#pragma once

#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "format/tensor_info.h"

namespace kaiju::codec {

/// Decodes one tensor. The payload must outlive it. Thread-safe.
class TensorDecoder {
  public:
    virtual ~TensorDecoder() = default;
    /// Rows first .. first+count-1 as f32, row-major, `cols` values each. Rows are those of
    /// TensorInfo::rows().
    virtual void decode_rows(uint64_t first, uint64_t count, float* out) const = 0;
    /// Checks everything that a payload can get wrong (every block, scale and index); throws bad_input with
    /// the place.
    virtual void check() const = 0;
};

/// The decoder for a type string: KAIJU1, or any stock GGML type. Throws bad_input for a type that is not
/// known (naming it) and for a payload whose header or length is wrong.
[[nodiscard]] std::unique_ptr<TensorDecoder> make_tensor_decoder(const format::TensorInfo& info,
                                                                 Bytes payload);

/// True for the wires of this project, which stock llama.cpp does not know.
[[nodiscard]] bool is_kaiju_type(std::string_view type);

}  // namespace kaiju::codec
