#include "format/mixed_model.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kaiju::format {

MixedModel::MixedModel(const ModelFile& base, const ModelFile& other,
                       const std::function<bool(std::string_view name)>& from_other)
    : base_(base),
      other_(other),
      tensors_(base.tensors().begin(), base.tensors().end()),
      in_other_(base.tensors().size()) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
        if (!from_other(tensors_[i].name)) {
            continue;
        }
        if (const auto found = other.find(tensors_[i].name)) {
            const TensorInfo& info = other.tensors()[*found];
            if (info.shape != tensors_[i].shape) {
                throw Error(ErrorCode::bad_input,
                            fmt::format("{}: tensor {} has another shape than in {}", other.path().string(),
                                        info.name, base.path().string()));
            }
            tensors_[i] = info;
            in_other_[i] = found;
        }
    }
}

Bytes MixedModel::payload(size_t index) const {
    return in_other_[index] ? other_.payload(*in_other_[index]) : base_.payload(index);
}

void MixedModel::release(size_t index) const {
    if (in_other_[index]) {
        other_.release(*in_other_[index]);
    } else {
        base_.release(index);
    }
}

}  // namespace kaiju::format
