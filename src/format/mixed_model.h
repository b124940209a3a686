// A model with some of its tensors taken from another file.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "format/model_file.h"

namespace kaiju::format {

/// `base`, but for the tensors that both have and that `from_other` names. Both files must outlive it.
class MixedModel final : public ModelFile {
  public:
    /// Throws bad_input naming the tensor where a shape differs.
    MixedModel(const ModelFile& base, const ModelFile& other,
               const std::function<bool(std::string_view name)>& from_other);

    [[nodiscard]] const std::filesystem::path& path() const override { return base_.path(); }
    [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
    [[nodiscard]] Bytes payload(size_t index) const override;
    void release(size_t index) const override;
    [[nodiscard]] Bytes key_values() const override { return base_.key_values(); }
    [[nodiscard]] std::span<const MappedFile> mappings() const override { return base_.mappings(); }
    [[nodiscard]] bool is_knot() const override { return base_.is_knot(); }

  private:
    const ModelFile& base_;
    const ModelFile& other_;
    std::vector<TensorInfo> tensors_;
    std::vector<std::optional<size_t>> in_other_;  ///< where a tensor is, if it is taken from there
};

}  // namespace kaiju::format
