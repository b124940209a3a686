#include "lattice/shell_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lattice/turyn.h"

namespace kaiju::lattice {

namespace {

constexpr size_t kAll = 2 * kClasses;  ///< (half, class)
/// A point outside the book is shrunk by this factor until a class is inside.
constexpr float kShrink = 0.955F;
/// After so many rounds the steps become long: the origin is always inside.
constexpr int kFineRounds = 16;
/// Classes that are tried of a point inside the book where more than the nearest is wanted, and of one
/// outside; and how many of them inside are enough.
constexpr size_t kWholeTries = 6;
constexpr size_t kTries = 10;
constexpr size_t kEnough = 1;
/// Squared norm of an aim, over that of the longest code words, from where on none of its neighbours is
/// inside.
constexpr float kSurface = 1.1F;

/// The Golay word that a key of class t stands for.
uint32_t word_of(size_t t, int32_t key) {
    const auto bits = static_cast<uint32_t>(key);
    const uint32_t flips = (bits >> 3 & 1) | (bits >> 7 & 1) << 1 | (bits >> 8 & 1) << 2;
    return turyn_word(t, bits & 7, bits >> 4 & 7, flips);
}

}  // namespace

struct ShellSearch::Lane {
    ShellPoint* out;
    size_t keep;
    size_t count = 0;
    float scale = 1;
    bool inside = false;  ///< the nearest of all is in the book

    [[nodiscard]] bool wants(float d2) const { return count < keep || d2 < out[count - 1].d2; }

    /// All points of a lane are of one round, and so of different classes: none comes twice.
    void add(const ShellPoint& point) {
        size_t at = count;
        while (at > 0 && point.d2 < out[at - 1].d2) {
            --at;
        }
        if (at == keep) {
            return;
        }
        count = std::min(count + 1, keep);
        std::copy_backward(out + at, out + count - 1, out + count);
        out[at] = point;
    }
};

ShellSearch::ShellSearch(const ShellBook& book) : ShellSearch(book, chosen_simd()) {}

ShellSearch::ShellSearch(const ShellBook& book, Simd simd)
    : book_(book), kernels_(shell_kernels(simd)), range_{.least_z = book.least_z(), .z_bits = book.z_bits()} {
    const Rings& longest = book.rings(kSequences - 1);
    const size_t ring_size = size_t{1} << book.index_bits();
    for (const size_t ring : longest) {
        double sum = 0;
        for (size_t i = 0; i < ring_size; ++i) {
            for (const int8_t x : book.vector(1, 0, ring * ring_size + i)) {
                sum += int{x} * x;
            }
        }
        largest_norm_ += static_cast<float>(sum / static_cast<double>(ring_size));
    }
}

/// 16 targets under way: what they are, where they aim in this round, and what the kernels make of that.
struct ShellSearch::Batch {
    std::array<float, kDimension * kShellLanes> y{};
    std::array<float, kDimension * kShellLanes> aim{};
    std::array<int32_t, kAll * kShellLanes> keys;
    std::array<ShellChoices, 2> choices;
};

void ShellSearch::take(const Batch& batch, size_t place, bool whole, Lane& lane) const {
    std::array<int64_t, kAll> order;
    for (size_t c = 0; c < kAll; ++c) {
        order[c] = static_cast<int64_t>(batch.keys[c * kShellLanes + place]) << 4 | static_cast<int64_t>(c);
    }
    const size_t tries = whole ? (lane.keep == 1 ? 1 : kWholeTries) : kTries;
    bool first_inside = false;
    size_t inside = 0;
    for (size_t n = 0; n < tries && inside < kEnough + lane.keep; ++n) {
        int64_t least = order[0];
        for (const int64_t other : order) {  // which is least is no branch that a processor could guess
            least = std::min(least, other);
        }
        const auto c = static_cast<size_t>(least & 15);
        order[c] = std::numeric_limits<int64_t>::max();
        const auto m = static_cast<unsigned>(c / kClasses);
        const uint32_t golay = word_of(c % kClasses, static_cast<int32_t>(least >> 4));
        const ShellChoices& choices = batch.choices[m];
        std::array<uint32_t, kGroups> z;
        size_t sequence = 0;
        float d2 = 0;
        bool legal = true;
        for (size_t j = 0; legal && j < kGroups; ++j) {
            const uint32_t pattern = golay >> (kGroupSize * j) & 15;
            const size_t low = pattern & 3;
            const size_t high = 4 + (pattern >> 2);
            z[j] = static_cast<uint32_t>(choices.key[j][low][place] | choices.key[j][high][place]);
            d2 += choices.d2[j][low][place] + choices.d2[j][high][place];
            const size_t ring = z[j] < kShellOutside ? book_.ring(m, pattern, z[j]) : kRings;
            legal = ring < kRings;
            sequence |= ring << (3 * j);
        }
        if (!legal || !book_.is_legal(sequence)) {
            continue;
        }
        ++inside;
        first_inside = first_inside || n == 0;
        if (lane.wants(d2)) {
            ShellPoint point{
                .word = static_cast<uint16_t>(golay_index(golay)), .m = static_cast<uint8_t>(m), .d2 = d2};
            const unsigned bits = book_.z_bits();
            for (size_t i = 0; i < kDimension; ++i) {
                const auto value =
                    static_cast<int>(z[i / kGroupSize] >> (bits * (i % kGroupSize)) & ((1U << bits) - 1));
                point.x[i] = static_cast<int8_t>(static_cast<int>(m + 2 * (golay >> i & 1)) +
                                                 4 * (value + book_.least_z()));
            }
            lane.add(point);
        }
    }
    // The nearest of all is inside: no other can be nearer.
    lane.inside = whole && first_inside;
}

void ShellSearch::near(std::span<const ShellTarget> targets, float least_scale, size_t keep,
                       std::span<ShellPoint> out, std::span<ShellFound> found) const {
    std::vector<Lane> lanes(targets.size());
    std::vector<size_t> pending(targets.size());
    for (size_t p = 0; p < targets.size(); ++p) {
        lanes[p] = {.out = out.data() + keep * p, .keep = keep};
        pending[p] = p;
    }
    Batch batch;
    for (int round = 0; !pending.empty(); ++round) {
        size_t left = 0;  // of pending, what goes on
        for (size_t first = 0; first < pending.size(); first += kShellLanes) {
            const size_t count = std::min(kShellLanes, pending.size() - first);
            std::array<float, kShellLanes> norm{};
            for (size_t place = 0; place < count; ++place) {
                const ShellTarget& target = targets[pending[first + place]];
                const float scale = lanes[pending[first + place]].scale;
                for (size_t i = 0; i < kDimension; ++i) {
                    const float aim = target[i] * scale;
                    batch.y[i * kShellLanes + place] = target[i];
                    batch.aim[i * kShellLanes + place] = aim;
                    norm[place] += aim * aim;
                }
            }
            kernels_.classes(batch.aim.data(), batch.keys.data());
            kernels_.choices(batch.y.data(), batch.aim.data(), range_, batch.choices.data());
            for (size_t place = 0; place < count; ++place) {
                const size_t p = pending[first + place];
                Lane& lane = lanes[p];
                take(batch, place, round == 0, lane);
                // Far outside, the shrinking begins where the longest code words are.
                const float limit = std::sqrt(kSurface * largest_norm_ / std::max(norm[place], 1.0F));
                lane.scale *= round < kFineRounds ? std::min(kShrink, limit) : 0.5F;
                if (lane.count == 0 && lane.scale >= least_scale) {
                    pending[left++] = p;
                }
            }
        }
        pending.resize(left);
    }
    for (size_t p = 0; p < targets.size(); ++p) {
        found[p] = {.count = static_cast<uint8_t>(lanes[p].count), .inside = lanes[p].inside};
    }
}

}  // namespace kaiju::lattice
