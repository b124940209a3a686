#include "runtime/native/packed_nodes.h"

namespace kaiju::runtime {

namespace {

// Functions of ggml's custom nodes: every thread of the pool calls them with its own ith of nth.

void prepare(ggml_tensor* node, int ith, int nth, void* matrix) {
    const ggml_tensor* x = node->src[0];
    static_cast<const PackedMatrix*>(matrix)->prepare(
        static_cast<const float*>(x->data), x->nb[1] / sizeof(float), static_cast<size_t>(ggml_nrows(x)),
        static_cast<std::byte*>(node->data), ith, nth);
}

void multiply(ggml_tensor* node, int ith, int nth, void* matrix) {
    static_cast<const PackedMatrix*>(matrix)->multiply(
        static_cast<const std::byte*>(node->src[0]->data), static_cast<size_t>(node->ne[1]),
        static_cast<float*>(node->data), node->nb[1] / sizeof(float), ith, nth);
}

void* userdata(const PackedMatrix& matrix) {
    return const_cast<PackedMatrix*>(&matrix);  // NOLINT(cppcoreguidelines-pro-type-const-cast): ggml's type
}

}  // namespace

ggml_tensor* prepare_node(ggml_context* context, const PackedMatrix& matrix, ggml_tensor* x) {
    const auto bytes = static_cast<int64_t>(matrix.prepared_bytes(static_cast<size_t>(x->ne[1])));
    return ggml_custom_4d(context, GGML_TYPE_I8, bytes, 1, 1, 1, &x, 1, prepare, GGML_N_TASKS_MAX,
                          userdata(matrix));
}

ggml_tensor* multiply_node(ggml_context* context, const PackedMatrix& matrix, ggml_tensor* prepared,
                           int64_t tokens) {
    return ggml_custom_4d(context, GGML_TYPE_F32, static_cast<int64_t>(matrix.rows()), tokens, 1, 1,
                          &prepared, 1, multiply, GGML_N_TASKS_MAX, userdata(matrix));
}

}  // namespace kaiju::runtime
