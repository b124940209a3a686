#include "lattice/shell_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "lattice/golay.h"

namespace kaiju::lattice {

namespace {

constexpr unsigned kPatterns = 16;

/// Positions where a pattern is set, ascending, then those where it is not: entry i of a list's vector
/// belongs at kOrder[pattern][i].
constexpr std::array<std::array<uint8_t, kGroupSize>, kPatterns> kOrder = [] {
    std::array<std::array<uint8_t, kGroupSize>, kPatterns> order{};
    for (unsigned pattern = 0; pattern < kPatterns; ++pattern) {
        size_t n = 0;
        for (const unsigned set : {1U, 0U}) {
            for (unsigned i = 0; i < kGroupSize; ++i) {
                if ((pattern >> i & 1) == set) {
                    order[pattern][n++] = static_cast<uint8_t>(i);
                }
            }
        }
    }
    return order;
}();

int squared_norm(const GroupVector& x) {
    int sum = 0;
    for (const int8_t value : x) {
        sum += int{value} * value;
    }
    return sum;
}

size_t key_of(const Rings& rings) {
    size_t key = 0;
    for (size_t j = 0; j < kGroups; ++j) {
        key |= size_t{rings[j]} << (3 * j);
    }
    return key;
}

}  // namespace

void ShellBook::check(int index_bits) {
    if (index_bits < kLeastIndexBits || index_bits > kMostIndexBits) {
        throw Error(ErrorCode::usage, fmt::format("a shell code book has indices of {} to {} bits, not {}",
                                                  kLeastIndexBits, kMostIndexBits, index_bits));
    }
}

const ShellBook& ShellBook::of(int index_bits) {
    check(index_bits);
    constexpr size_t kBooks = kMostIndexBits - kLeastIndexBits + 1;
    static std::array<std::once_flag, kBooks> flags;
    static std::array<std::unique_ptr<const ShellBook>, kBooks> books;
    const auto which = static_cast<size_t>(index_bits - kLeastIndexBits);
    std::call_once(flags[which], [&] { books[which].reset(new ShellBook(index_bits)); });
    return *books[which];
}

ShellBook::ShellBook(int index_bits) : index_bits_(index_bits) {
    make_lists();
    make_rings();
    make_sequences();
}

void ShellBook::make_lists() {
    const unsigned bits = z_bits();
    const size_t all = size_t{1} << (bits * kGroupSize);
    const size_t kept = kRings << index_bits_;
    std::vector<std::pair<int, uint32_t>> order(all);  // squared norm, key of z
    std::vector<GroupVector> vectors(all);
    for (size_t list = 0; list < kLists; ++list) {
        const int m = list == kLists - 1 ? 1 : 0;
        const size_t weight = list % (kLists - 1);
        for (size_t key = 0; key < all; ++key) {
            for (size_t i = 0; i < kGroupSize; ++i) {
                const int z = static_cast<int>(key >> (bits * i) & ((1U << bits) - 1)) + least_z();
                vectors[key][i] = static_cast<int8_t>(m + (i < weight ? 2 : 0) + 4 * z);
            }
            order[key] = {squared_norm(vectors[key]), static_cast<uint32_t>(key)};
        }
        const auto before = [&](const auto& a, const auto& b) {
            return a.first != b.first ? a.first < b.first : vectors[a.second] < vectors[b.second];
        };
        const auto end = order.begin() + static_cast<ptrdiff_t>(kept);
        std::nth_element(order.begin(), end, order.end(), before);
        std::sort(order.begin(), end, before);
        lists_[list].resize(kept);
        positions_[list].assign(all, int16_t{-1});
        for (size_t position = 0; position < kept; ++position) {
            lists_[list][position] = vectors[order[position].second];
            positions_[list][order[position].second] = static_cast<int16_t>(position);
        }
    }
}

void ShellBook::make_rings() {
    const unsigned bits = z_bits();
    for (unsigned pair = 0; pair < rings_of_.size(); ++pair) {
        const unsigned m = pair / kPatterns;
        const unsigned pattern = pair % kPatterns;
        rings_of_[pair].assign(size_t{1} << (bits * kGroupSize), uint8_t{kRings});
        for (size_t position = 0; position < kRings << index_bits_; ++position) {
            const GroupVector x = vector(m, pattern, position);
            size_t key = 0;
            for (unsigned i = 0; i < kGroupSize; ++i) {
                const int z = (x[i] - static_cast<int>(m + 2 * (pattern >> i & 1))) / 4 - least_z();
                key |= static_cast<size_t>(z) << (bits * i);
            }
            rings_of_[pair][key] = static_cast<uint8_t>(position >> index_bits_);
        }
    }
}

void ShellBook::make_sequences() {
    // How many of the 32 pairs (m, pattern) follow from each list: C(4, w) of the even half, all of the odd.
    constexpr std::array<uint64_t, kLists> kFollowers = {1, 4, 6, 4, 1, 16};
    const size_t ring_size = size_t{1} << index_bits_;
    std::array<uint64_t, kRings> cost{};
    for (size_t list = 0; list < kLists; ++list) {
        for (size_t position = 0; position < lists_[list].size(); ++position) {
            cost[position / ring_size] +=
                kFollowers[list] * static_cast<uint64_t>(squared_norm(lists_[list][position]));
        }
    }
    constexpr size_t kAll = size_t{1} << (3 * kGroups);
    std::vector<std::pair<uint64_t, Rings>> all(kAll);
    for (size_t key = 0; key < kAll; ++key) {
        for (size_t j = 0; j < kGroups; ++j) {
            all[key].second[j] = static_cast<uint8_t>(key >> (3 * j) & 7);
            all[key].first += cost[all[key].second[j]];
        }
    }
    std::nth_element(all.begin(), all.begin() + kSequences, all.end());
    std::sort(all.begin(), all.begin() + kSequences);
    numbers_.assign(kAll, int16_t{-1});
    legal_.assign(kAll / 64, 0);
    sequences_.resize(kSequences);
    for (size_t n = 0; n < kSequences; ++n) {
        sequences_[n] = all[n].second;
        numbers_[key_of(sequences_[n])] = static_cast<int16_t>(n);
        legal_[key_of(sequences_[n]) / 64] |= uint64_t{1} << (key_of(sequences_[n]) % 64);
    }
}

GroupVector ShellBook::vector(unsigned m, unsigned pattern, size_t position) const {
    if (m == 1) {
        GroupVector x = lists_[kLists - 1][position];
        for (size_t i = 0; i < kGroupSize; ++i) {
            x[i] = static_cast<int8_t>((pattern >> i & 1) != 0 ? -x[i] : x[i]);
        }
        return x;
    }
    const GroupVector& sorted = lists_[static_cast<size_t>(std::popcount(pattern))][position];
    GroupVector x;
    for (size_t i = 0; i < kGroupSize; ++i) {
        x[kOrder[pattern][i]] = sorted[i];
    }
    return x;
}

int ShellBook::position(unsigned m, unsigned pattern, const int* x) const {
    const unsigned bits = z_bits();
    const auto weight = static_cast<unsigned>(std::popcount(pattern));
    size_t key = 0;
    bool inside = true;
    for (unsigned i = 0; i < kGroupSize; ++i) {
        int z = 0;
        if (m == 1) {
            z = ((pattern >> i & 1) != 0 ? -x[i] : x[i]) - 1;
        } else {
            z = x[kOrder[pattern][i]] - (i < weight ? 2 : 0);
        }
        z = z / 4 - least_z();  // exact: z is a multiple of 4
        inside = inside && z >= 0 && z < (1 << bits);
        key |= static_cast<size_t>(z & ((1 << bits) - 1)) << (bits * i);
    }
    return inside ? positions_[m == 1 ? kLists - 1 : weight][key] : -1;
}

int ShellBook::sequence(const Rings& rings) const {
    return numbers_[key_of(rings)];
}

void ShellBook::values(const ShellCode& code, int8_t* x) const {
    const uint32_t golay = kGolay[code.word];
    const Rings& rings = sequences_[code.sequence];
    for (size_t j = 0; j < kGroups; ++j) {
        const size_t position = (size_t{rings[j]} << index_bits_) + code.index[j];
        const GroupVector part = vector(code.m, golay >> (kGroupSize * j) & 15, position);
        std::copy(part.begin(), part.end(), x + kGroupSize * j);
    }
}

bool ShellBook::encode(unsigned m, unsigned word, const int* x, ShellCode& code) const {
    const uint32_t golay = kGolay[word];
    Rings rings;
    for (size_t j = 0; j < kGroups; ++j) {
        const int at = position(m, golay >> (kGroupSize * j) & 15, x + kGroupSize * j);
        if (at < 0) {
            return false;
        }
        rings[j] = static_cast<uint8_t>(at >> index_bits_);
        code.index[j] = static_cast<uint16_t>(at & ((1 << index_bits_) - 1));
    }
    const int number = sequence(rings);
    code.m = static_cast<uint8_t>(m);
    code.word = static_cast<uint16_t>(word);
    code.sequence = static_cast<uint16_t>(number);
    return number >= 0;
}

}  // namespace kaiju::lattice
