#include "eval/imatrix_of_taps.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <string>

#include "format/taps.h"

namespace kaiju::eval {

namespace {

std::vector<float> diagonal_of(const format::CovarianceFile& file, const format::CovarianceEntry& entry) {
    return file.diagonal(entry);
}

std::vector<float> diagonal_of(const format::SketchFile& /*file*/, const format::SketchEntry& entry) {
    return entry.load().diag;
}

template <typename File>
format::Imatrix make(const format::ModelFile& model, const File& file) {
    format::Imatrix imatrix;
    std::map<std::string, std::vector<float>> diagonals;  // read once for the matrices that share a tap
    const bool tied = format::is_tied(model.tensors());
    for (const format::TensorInfo& info : model.tensors()) {
        const auto tap = format::tap_of(info.name, tied);
        const auto* const entry = tap ? file.find(*tap) : nullptr;
        if (!tap || (*tap == format::kHeadTap && entry == nullptr)) {
            continue;
        }
        if (entry == nullptr || entry->dim != info.cols()) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: tensor {} of {} has {} inputs, tap {} {}; was it captured from this "
                                    "model?",
                                    file.path().string(), info.name, model.path().string(), info.cols(), *tap,
                                    entry == nullptr ? "is not there" : fmt::format("has {}", entry->dim)));
        }
        const auto [at, added] = diagonals.try_emplace(*tap);
        if (added) {
            at->second = diagonal_of(file, *entry);
        }
        format::ImatrixEntry& made = imatrix.entries[info.name];
        made.count = static_cast<float>(entry->samples);
        made.sum_of_squares.reserve(at->second.size());
        for (const float mean : at->second) {
            made.sum_of_squares.push_back(mean * made.count);
        }
        imatrix.chunk_size = static_cast<uint32_t>(entry->samples);
    }
    if (imatrix.entries.empty()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: has no matrix of a layer's attention or feed-forward network",
                                model.path().string()));
    }
    imatrix.chunk_count = 1;
    return imatrix;
}

}  // namespace

format::Imatrix imatrix_of(const format::ModelFile& model, const format::CovarianceFile& file) {
    format::Imatrix imatrix = make(model, file);
    if (const auto calibration = file.calibration()) {
        format::set_calibration(imatrix, *calibration);
    }
    return imatrix;
}

format::Imatrix imatrix_of(const format::ModelFile& model, const format::SketchFile& file) {
    return make(model, file);
}

}  // namespace kaiju::eval
