#include "runtime/native/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ggml-cpu.h>

#include "base/error.h"
#include "format/stock_types.h"

namespace kaiju::runtime {

namespace {

/// What ggml's kernels may expect of the address of a row of blocks: their widest field.
constexpr uintptr_t kAlignment = 8;

void require_shape(const format::TensorInfo& info, const std::vector<uint64_t>& shape) {
    if (info.shape != shape) {
        throw Error(ErrorCode::bad_input, fmt::format("shape {}, its model wants {}",
                                                      fmt::join(info.shape, " x "), fmt::join(shape, " x ")));
    }
}

/// The ggml type of a stock matrix, if ggml can multiply with it and look up its rows.
ggml_type stock_type_of(const format::TensorInfo& info) {
    const format::StockType* stock = format::find_stock_type(info.type);
    if (stock == nullptr) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("type {} is not known to this version", format::printable(info.type)));
    }
    const auto type = static_cast<ggml_type>(stock->ggml);
    const bool number = type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr;
    if (!number || ggml_get_type_traits_cpu(type)->vec_dot == nullptr) {
        throw Error(ErrorCode::bad_input, fmt::format("type {} cannot be multiplied with", info.type));
    }
    if (format::stock_payload_bytes(*stock, info.shape) != info.nbytes) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{} bytes are not what its type and shape imply", info.nbytes));
    }
    return type;
}

}  // namespace

Weights::Weights(const format::ModelFile& file, Activations activations, int threads, Monitor& monitor)
    : file_(file),
      activations_(activations),
      threads_(threads),
      monitor_(monitor),
      tensors_(ggml_init({.mem_size = (file.tensors().size() + 1) * ggml_tensor_overhead(),
                          .mem_buffer = nullptr,
                          .no_alloc = true})),
      used_(file.tensors().size(), false) {}

// The roundings of few activations do not average out, and a product with few costs little either way.
Activations Weights::activations_for(uint64_t cols) const {
    constexpr uint64_t kFew = 256;
    return cols < kFew ? Activations::f32 : activations_;
}

Bytes Weights::checked_payload(size_t index) {
    monitor_.check_cancelled();
    used_[index] = true;
    monitor_.advance(1);
    return file_.payload(index);
}

const Matrix* Weights::find_matrix(const std::string& name, uint64_t rows, uint64_t cols) {
    return file_.find(name) ? matrix(name, rows, cols) : nullptr;
}

const Matrix* Weights::matrix(const std::string& name, uint64_t rows, uint64_t cols, bool looked_up) {
    const auto index = file_.find(name);
    if (!index) {
        throw Error(ErrorCode::missing, fmt::format("tensor {} is not in the model", name));
    }
    return within(fmt::format("tensor {}", name), [&]() -> const Matrix* {
        const format::TensorInfo& info = file_.tensors()[*index];
        require_shape(info, {rows, cols});
        auto matrix = std::make_unique<Matrix>();
        matrix->name = name;
        matrix->rows = rows;
        matrix->cols = cols;
        const Bytes payload = checked_payload(*index);
        if (codec::is_kaiju_type(info.type)) {
            matrix->packed = pack_matrix(info, payload, activations_for(cols), threads_);
            if (looked_up) {
                matrix->decoder = codec::make_tensor_decoder(info, payload);
            } else {
                file_.release(*index);
            }
        } else {
            const ggml_type type = stock_type_of(info);
            matrix->stock = ggml_new_tensor_2d(tensors_.get(), type, static_cast<int64_t>(cols),
                                               static_cast<int64_t>(rows));
            ggml_set_name(matrix->stock, name.c_str());
            const std::byte* data = payload.data();
            if (reinterpret_cast<uintptr_t>(data) % kAlignment != 0) {
                data = copies_.emplace_back(payload.begin(), payload.end()).data();
            }
            // Graphs only read weights.
            matrix->stock->data =
                const_cast<std::byte*>(data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        }
        return matrices_.emplace_back(std::move(matrix)).get();
    });
}

ggml_tensor* Weights::find_vector(const std::string& name, uint64_t size) {
    return file_.find(name) ? vector(name, size) : nullptr;
}

ggml_tensor* Weights::vector(const std::string& name, uint64_t size) {
    if (const auto known = vector_of_.find(name); known != vector_of_.end()) {
        return known->second;  // one for all layers
    }
    const auto index = file_.find(name);
    if (!index) {
        throw Error(ErrorCode::missing, fmt::format("tensor {} is not in the model", name));
    }
    return within(fmt::format("tensor {}", name), [&] {
        const format::TensorInfo& info = file_.tensors()[*index];
        require_shape(info, {size});
        auto& values = vectors_.emplace_back(size);
        codec::make_tensor_decoder(info, checked_payload(*index))->decode_rows(0, 1, values.data());
        ggml_tensor* tensor = ggml_new_tensor_1d(tensors_.get(), GGML_TYPE_F32, static_cast<int64_t>(size));
        ggml_set_name(tensor, name.c_str());
        tensor->data = values.data();
        return vector_of_[name] = tensor;
    });
}

std::optional<uint64_t> Weights::rows_of(const std::string& name) const {
    const auto index = file_.find(name);
    return index ? std::optional(file_.tensors()[*index].rows()) : std::nullopt;
}

void Weights::require_all_used() const {
    for (size_t i = 0; i < used_.size(); ++i) {
        if (!used_[i]) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("tensor {}: this runtime does not know what a model of this architecture "
                                    "does with it; --engine llama may",
                                    file_.tensors()[i].name));
        }
    }
}

}  // namespace kaiju::runtime
