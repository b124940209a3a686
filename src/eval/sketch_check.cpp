#include "eval/sketch_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "format/taps.h"

namespace kaiju::eval {

namespace {

std::vector<double> ranks_of(std::span<const float> values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
    std::vector<double> ranks(values.size());
    for (size_t begin = 0; begin < order.size();) {
        size_t end = begin + 1;
        while (end < order.size() && values[order[end]] == values[order[begin]]) {
            ++end;
        }
        for (size_t i = begin; i < end; ++i) {
            ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
        }
        begin = end;
    }
    return ranks;
}

}  // namespace

double rank_correlation(std::span<const float> a, std::span<const float> b) {
    const std::vector<double> left = ranks_of(a);
    const std::vector<double> right = ranks_of(b);
    const double mean = static_cast<double>(a.size() - 1) / 2;
    double product = 0;
    double left_squares = 0;
    double right_squares = 0;
    for (size_t i = 0; i < left.size(); ++i) {
        product += (left[i] - mean) * (right[i] - mean);
        left_squares += (left[i] - mean) * (left[i] - mean);
        right_squares += (right[i] - mean) * (right[i] - mean);
    }
    if (left_squares == 0 || right_squares == 0) {
        return left_squares == right_squares ? 1 : 0;
    }
    return product / std::sqrt(left_squares * right_squares);
}

std::vector<TapAgreement> compare_with_imatrix(const format::SketchFile& sketches,
                                               const format::Imatrix& imatrix) {
    std::map<std::string, std::string> weight_of;
    for (const auto& [name, entry] : imatrix.entries) {
        if (const auto tap = format::tap_of(name)) {
            weight_of.emplace(*tap, name);
        }
    }
    std::vector<TapAgreement> taps;
    taps.reserve(sketches.entries().size());
    for (const format::SketchEntry& entry : sketches.entries()) {
        TapAgreement& agreement = taps.emplace_back(TapAgreement{.tap = entry.tap});
        const auto found = weight_of.find(entry.tap);
        if (found == weight_of.end()) {
            continue;
        }
        agreement.weight = found->second;
        const std::vector<float> importance = imatrix.find(agreement.weight)->mean_squares();
        if (importance.size() == entry.dim) {
            agreement.correlation = rank_correlation(entry.load().diag, importance);
        }
    }
    return taps;
}

}  // namespace kaiju::eval
