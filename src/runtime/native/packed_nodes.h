// The two steps of a packed matrix's product as nodes of a ggml graph.
#pragma once

#include <ggml.h>

#include "runtime/native/packed_matrix.h"

namespace kaiju::runtime {

/// Activations `x` [cols, tokens] prepared for `matrix`, which must outlive the graph.
[[nodiscard]] ggml_tensor* prepare_node(ggml_context* context, const PackedMatrix& matrix, ggml_tensor* x);
/// The product [rows, tokens] of what was prepared for so many tokens.
[[nodiscard]] ggml_tensor* multiply_node(ggml_context* context, const PackedMatrix& matrix,
                                         ggml_tensor* prepared, int64_t tokens);

}  // namespace kaiju::runtime
