#include "stats/feedback.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "stats/feedback_impl.h"

namespace kaiju::stats {

namespace {

struct NamedFold {
    std::string_view name;
    Fold fold;
};

constexpr std::array<NamedFold, 3> kFolds = {
    {{"ldlq", Fold::ldlq}, {"published", Fold::published}, {"none", Fold::none}}};

/// What factorise(damp) makes, with more damping each time that it returns null; throws bad_input in the end.
std::unique_ptr<Feedback> retry_damped(double damp, double& used_damp,
                                       const std::function<std::unique_ptr<Feedback>(double)>& factorise) {
    constexpr double kFirst = 1e-6;
    for (used_damp = damp;; used_damp = std::min(1.0, std::max(kFirst, 10 * used_damp))) {
        if (auto made = factorise(used_damp)) {
            return made;
        }
        if (used_damp >= 1) {
            throw Error(
                ErrorCode::bad_input,
                "the covariance is not positive definite, not even with its mean diagonal added: capture it "
                "again");
        }
    }
}

}  // namespace

Fold fold_of(std::string_view name) {
    for (const auto& known : kFolds) {
        if (known.name == name) {
            return known.fold;
        }
    }
    throw Error(ErrorCode::usage,
                fmt::format("no feedback is called \"{}\"; ldlq, published and none are", name));
}

std::string_view fold_name(Fold fold) {
    for (const auto& known : kFolds) {
        if (known.fold == fold) {
            return known.name;
        }
    }
    return "";
}

void check_order(size_t dim, std::span<const uint32_t> order, size_t n_hi) {
    bool fits = order.size() == dim && n_hi <= dim && (dim - n_hi) % kFeedbackBlock == 0;
    std::vector<bool> seen(dim, false);
    for (const uint32_t column : order) {
        fits = fits && column < dim && !seen[column];
        if (fits) {
            seen[column] = true;
        }
    }
    if (!fits) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} columns in order, {} of them side-band, are no order of a "
                                "covariance of {} inputs in blocks of {}",
                                order.size(), n_hi, dim, kFeedbackBlock));
    }
}

std::unique_ptr<Feedback> Covariance::sequential(Fold fold, SideBand side_band, double damp,
                                                 double& used_damp) const {
    return retry_damped(damp, used_damp, [&](double tried) {
        switch (fold) {
            case Fold::ldlq:
                return backwards(side_band, tried);
            case Fold::published:
                return forwards(tried);
            default:
                return apart(tried, false);
        }
    });
}

std::unique_ptr<Feedback> Covariance::joint(double damp) const {
    double used_damp = 0;
    return retry_damped(damp, used_damp, [&](double tried) { return apart(tried, true); });
}

}  // namespace kaiju::stats
