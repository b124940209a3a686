// The tensors of a model as its graph uses them.
#pragma once

#include <ggml-cpp.h>
#include <ggml.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "codec/tensor_decoder.h"
#include "format/model_file.h"
#include "runtime/native/packed_matrix.h"

namespace kaiju::runtime {

/// A weight matrix: of a stock type (ggml multiplies it where it lies in the file) or of a wire of this
/// project (packed).
struct Matrix {
    std::string name;
    uint64_t rows = 0;
    uint64_t cols = 0;
    ggml_tensor* stock = nullptr;
    std::unique_ptr<PackedMatrix> packed;
    std::unique_ptr<codec::TensorDecoder>
        decoder;  ///< of packed ones where single rows are wanted (embeddings)
};

/// Takes tensors out of a model file by name, checks their shapes, and keeps them. Stock tensors stay mapped;
/// matrices of our wires are packed and their pages let go. Errors name the tensor.
class Weights {
  public:
    /// `file` must outlive this.
    Weights(const format::ModelFile& file, Activations activations, int threads, Monitor& monitor);

    /// A matrix of that shape. `looked_up`: single rows of it will be wanted. Throws missing where there is
    /// none, bad_input where its shape or type does not fit.
    const Matrix* matrix(const std::string& name, uint64_t rows, uint64_t cols, bool looked_up = false);
    const Matrix* find_matrix(const std::string& name, uint64_t rows, uint64_t cols);
    /// A vector of that size as f32.
    ggml_tensor* vector(const std::string& name, uint64_t size);
    ggml_tensor* find_vector(const std::string& name, uint64_t size);

    /// Rows of a matrix before it is asked for; nothing where it is not there.
    [[nodiscard]] std::optional<uint64_t> rows_of(const std::string& name) const;
    /// Throws bad_input naming the first tensor that nobody asked for: a model that has it computes something
    /// else than we would.
    void require_all_used() const;

  private:
    [[nodiscard]] Bytes checked_payload(size_t index);
    [[nodiscard]] Activations activations_for(uint64_t cols) const;

    const format::ModelFile& file_;
    Activations activations_;
    int threads_;
    Monitor& monitor_;
    ggml_context_ptr tensors_;
    std::vector<std::unique_ptr<Matrix>> matrices_;
    std::vector<std::vector<float>> vectors_;
    std::map<std::string, ggml_tensor*> vector_of_;
    std::vector<std::vector<std::byte>> copies_;  ///< of payloads that lie at odd addresses
    std::vector<bool> used_;
};

}  // namespace kaiju::runtime
