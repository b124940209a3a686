// Does a sketch describe the same activations as an importance matrix?
#pragma once

#include <span>
#include <string>
#include <vector>

#include "format/imatrix.h"
#include "format/sketch.h"

namespace kaiju::eval {

/// Spearman's rank correlation, equals sharing their mean rank; 1 where both are constant, 0 where one is.
/// The spans have one length, at least 1.
[[nodiscard]] double rank_correlation(std::span<const float> a, std::span<const float> b);

/// The agreement that is asked for at every tap.
inline constexpr double kLeastCorrelation = 0.95;

struct TapAgreement {
    std::string tap{};
    std::string weight{};    ///< whose importance was compared; empty where the imatrix has none of the tap's
    double correlation = 0;  ///< 0 where there is nothing to compare with

    [[nodiscard]] bool agrees() const { return correlation > kLeastCorrelation; }
};

/// Compares the diagonal of every tap with the importance of a matrix behind it.
[[nodiscard]] std::vector<TapAgreement> compare_with_imatrix(const format::SketchFile& sketches,
                                                             const format::Imatrix& imatrix);

}  // namespace kaiju::eval
