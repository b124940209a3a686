#include "eval/excess_gates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "codec/tensor_decoder.h"

namespace kaiju::eval {

namespace {

/// "ffn_down" of "blk.3.ffn_down.weight".
std::string role_of(const std::string& name) {
    const size_t end = name.rfind('.');
    const size_t begin = end == std::string::npos ? end : name.rfind('.', end - 1);
    return begin == std::string::npos ? name : name.substr(begin + 1, end - begin - 1);
}

void add(ExcessSums& sums, const TensorScore& tensor, double kaiju, double iq) {
    ++sums.tensors;
    sums.weights += tensor.weights;
    sums.kaiju += kaiju;
    sums.iq += iq;
}

}  // namespace

std::string main_iq_type(std::span<const TensorScore> scores) {
    std::map<std::string, uint64_t> weights;
    for (const TensorScore& tensor : scores) {
        if (tensor.type.starts_with("IQ2") || tensor.type.starts_with("IQ3")) {
            weights[tensor.type] += tensor.weights;
        }
    }
    const auto most = std::ranges::max_element(weights, {}, [](const auto& entry) { return entry.second; });
    return most == weights.end() ? std::string() : most->first;
}

ScorePair comparable(const ScorePair& all, const std::string& iq_type) {
    if (all.kaiju.size() != all.iq.size()) {
        throw Error(ErrorCode::internal, "scores of different tensors");
    }
    ScorePair pair;
    for (size_t i = 0; i < all.kaiju.size(); ++i) {
        const bool same_type =
            iq_type == "any" ? !codec::is_kaiju_type(all.iq[i].type) : all.iq[i].type == iq_type;
        if (codec::is_kaiju_type(all.kaiju[i].type) && same_type) {
            pair.kaiju.push_back(all.kaiju[i]);
            pair.iq.push_back(all.iq[i]);
        }
    }
    return pair;
}

G0Result judge_g0(const ScorePair& pair, std::optional<double> kaiju_ppl, std::optional<double> iq_ppl) {
    G0Result result;
    for (size_t i = 0; i < pair.kaiju.size(); ++i) {
        const double kaiju = pair.kaiju[i].diag_excess;
        const double iq = pair.iq[i].diag_excess;
        add(result.diag, pair.kaiju[i], kaiju, iq);
        add(result.roles[role_of(pair.kaiju[i].name)], pair.kaiju[i], kaiju, iq);
    }
    for (const auto& [role, sums] : result.roles) {
        if (sums.kaiju >= sums.iq) {
            result.bad_roles.push_back(role);
        }
    }
    const bool smaller = result.diag.tensors > 0 && result.diag.kaiju < result.diag.iq;
    const bool worse = kaiju_ppl && iq_ppl && *kaiju_ppl > *iq_ppl;
    result.pass = smaller && worse;
    if (result.diag.tensors == 0) {
        result.reason = "no tensors to compare";
    } else if (!smaller) {
        result.reason = fmt::format("KAIJU's diagonal excess is not the smaller one: bad families: {}",
                                    fmt::join(result.bad_roles, ", "));
    } else if (!kaiju_ppl || !iq_ppl) {
        result.reason = "KAIJU has the smaller diagonal excess; without perplexities nothing follows";
    } else if (!worse) {
        result.reason =
            "diagonal excess and perplexity order the artifacts alike: the diagonal is not refuted";
    } else {
        result.reason =
            "KAIJU has the smaller diagonal excess and the larger perplexity: the diagonal is a bad "
            "proxy";
    }
    return result;
}

G1Result judge_g1(const ScorePair& pair, std::span<const TapAgreement> taps, double share) {
    G1Result result;
    for (const TapAgreement& tap : taps) {
        if (!tap.agrees()) {
            result.disagreeing_taps.push_back(tap.tap);
        }
    }
    if (pair.kaiju.empty() || pair.kaiju.front().full_excess.empty()) {
        result.reason = "no tensors to compare";
        return result;
    }
    const size_t ks = pair.kaiju.front().full_excess.size();
    std::vector<size_t> order(pair.kaiju.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto weight = [&](size_t i) { return pair.kaiju[i].full_excess.back(); };
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return weight(a) > weight(b); });
    const double all = std::accumulate(order.begin(), order.end(), 0.0,
                                       [&](double sum, size_t i) { return sum + weight(i); });
    result.full.resize(ks);
    result.shown.resize(ks);
    double carried = 0;
    for (const size_t i : order) {
        if (result.top > 0 && carried >= share * all) {
            break;
        }
        carried += weight(i);
        ++result.top;
        add(result.diag, pair.kaiju[i], pair.kaiju[i].diag_excess, pair.iq[i].diag_excess);
        for (size_t k = 0; k < ks; ++k) {
            const double kaiju = pair.kaiju[i].full_excess[k];
            const double iq = pair.iq[i].full_excess[k];
            add(result.full[k], pair.kaiju[i], kaiju, iq);
            result.shown[k] += kaiju > iq && pair.kaiju[i].diag_excess < pair.iq[i].diag_excess ? 1 : 0;
        }
    }
    const bool stable =
        std::ranges::all_of(result.full, [](const ExcessSums& sums) { return sums.ratio() > 1; });
    const bool diagonal = result.diag.ratio() < 1;
    result.pass = result.disagreeing_taps.empty() && diagonal && stable;
    if (!result.disagreeing_taps.empty()) {
        result.reason = fmt::format("the sketch disagrees with the importance matrix at {}",
                                    fmt::join(result.disagreeing_taps, ", "));
    } else if (!diagonal) {
        result.reason = fmt::format(
            "the diagonal excess of KAIJU is {:.3f} times that of IQ, not below 1: the "
            "objective of encoder v3 is not validated",
            result.diag.ratio());
    } else if (!stable) {
        result.reason =
            "the full excess of KAIJU is not above that of IQ for every K: the objective of encoder "
            "v3 is not validated";
    } else {
        result.reason =
            "the sketch sees what the diagonal does not: the objective of encoder v3 is validated";
    }
    return result;
}

}  // namespace kaiju::eval
