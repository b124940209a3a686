#include "runtime/native/kaiju4_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "base/parallel.h"
#include "lattice/golay.h"
#include "runtime/native/kernel_sets.h"

namespace kaiju::runtime {

namespace kernels = kaiju4_kernels;
namespace wire = codec::kaiju4;

namespace {

/// The u (kaiju4_kernels.h) of every list of a code book, a vector of four in a word: 16 m + pattern, then
/// the position.
class LevelTable {
  public:
    explicit LevelTable(const lattice::ShellBook& book)
        : shift_(static_cast<unsigned>(book.index_bits()) + 3), levels_(size_t{32} << shift_) {
        const int least = book.index_bits() <= 8 ? -8 : -16;
        for (unsigned list = 0; list < 32; ++list) {
            for (size_t position = 0; position >> shift_ == 0; ++position) {
                const int m = static_cast<int>(list / 16);
                const lattice::GroupVector x = book.vector(list / 16, list % 16, position);
                uint32_t word = 0;
                for (size_t i = 0; i < x.size(); ++i) {
                    word |= static_cast<uint32_t>((x[i] - m) / 2 - least) << (8 * i);
                }
                levels_[(list << shift_) + position] = word;
            }
        }
    }

    /// Made on first use and kept.
    static const LevelTable& of(const lattice::ShellBook& book) {
        constexpr size_t kBooks = lattice::kMostIndexBits + 1;
        static std::array<std::once_flag, kBooks> flags;
        static std::array<std::unique_ptr<const LevelTable>, kBooks> tables;
        const auto which = static_cast<size_t>(book.index_bits());
        std::call_once(flags[which], [&] { tables[which] = std::make_unique<LevelTable>(book); });
        return *tables[which];
    }

    [[nodiscard]] uint32_t at(size_t list, size_t position) const {
        return levels_[(list << shift_) + position];
    }

  private:
    unsigned shift_;
    std::vector<uint32_t> levels_;
};

/// Bits 0 to 3: the lowest of each byte of a word that has no other bits.
uint64_t gather_bits(uint32_t bytes) {
    return bytes * 0x01020408U >> 24 & 15;
}

/// A block of the rows of a group, as the planes have it (kaiju4_kernels.h).
struct PackedBlock {
    std::array<std::array<uint32_t, kernels::kRows>, kernels::kQuads / 2> nibbles{};
    std::array<uint64_t, kernels::kQuads> bits{};
    uint64_t head = 0;
};

template <bool FiveBits>
PackedBlock make_block(const wire::TensorView& source, std::span<const uint8_t* const> records, size_t b) {
    const lattice::ShellBook& book = source.book();
    const LevelTable& levels = LevelTable::of(book);
    PackedBlock packed;
    for (size_t row = 0; row < records.size(); ++row) {
        const wire::Block block = wire::get_block(records[row], source.layout(), b);
        const uint32_t golay = lattice::kGolay[block.code.word];
        const lattice::Rings& rings = book.rings(block.code.sequence);
        packed.head |= uint64_t{block.q} << (2 * row) | uint64_t{block.code.m} << (32 + row);
        std::array<uint32_t, kernels::kQuads> u;
        for (size_t j = 0; j < kernels::kQuads; ++j) {
            u[j] = levels.at(16 * size_t{block.code.m} + (golay >> (4 * j) & 15),
                             size_t{rings[j]} << book.index_bits() | block.code.index[j]);
            if constexpr (FiveBits) {
                packed.bits[j] |= gather_bits(u[j] >> 4 & 0x01010101) << (4 * row);
                u[j] &= 0x0F0F0F0F;
            }
        }
        for (size_t v = 0; v < kernels::kQuads / 2; ++v) {
            packed.nibbles[v][row] = u[2 * v] | u[2 * v + 1] << 4;
        }
    }
    return packed;
}

}  // namespace

std::span<const kernels::Kernels* const> available_kaiju4_kernels() {
    static constexpr std::array kAll = {
        &kernels::kScalar,
#ifdef KAIJU_X86_KERNELS
        &kernels::kAvx2,
        &kernels::kAvx512Vnni,
#endif
    };
    return std::span(kAll).first(available_kernel_sets());
}

const kernels::Kernels& chosen_kaiju4_kernels() {
    return *available_kaiju4_kernels()[allowed_kernel_sets() - 1];
}

Kaiju4Matrix::Kaiju4Matrix(Bytes payload, Activations activations, int threads,
                           const kernels::Kernels& chosen)
    : Kaiju4Matrix(wire::TensorView(payload), activations, threads, chosen) {}

Kaiju4Matrix::Kaiju4Matrix(const wire::TensorView& source, Activations activations, int threads,
                           const kernels::Kernels& chosen)
    : kernels_(&chosen),
      activations_(activations),
      seed_(source.seed()),
      rotation_(source.layout().cols, source.seed()),
      multipliers_(source.multipliers()) {
    const auto& layout = source.layout();
    view_.rows = layout.rows;
    view_.blocks = layout.n_blocks();
    view_.five_bits = layout.index_bits > 8;
    for (float& multiplier : multipliers_) {
        multiplier /= view_.five_bits ? 4 : 8;
    }
    const size_t planes = kernels::heads_at(view_) + kernels::kHeadBytes * view_.blocks;
    const size_t lines = (planes + sizeof(CacheLine) - 1) / sizeof(CacheLine);
    view_.group_bytes = lines * sizeof(CacheLine);
    (void)checked_mul(groups(), view_.group_bytes, "packed weights");
    lines_ =
        std::make_unique_for_overwrite<CacheLine[]>(groups() * lines);  // NOLINT(modernize-avoid-c-arrays)
    scales_.resize(kernels::kRows * groups());
    view_.groups = lines_[0].bytes.data();
    view_.scales = scales_.data();
    view_.multipliers = multipliers_.data();
    parallel_for(groups(), 1, threads, [&](size_t begin, size_t end) {
        for (size_t group = begin; group < end; ++group) {
            pack_group(source, group);
        }
    });
}

size_t Kaiju4Matrix::groups() const {
    return (view_.rows + kernels::kRows - 1) / kernels::kRows;
}

void Kaiju4Matrix::pack_group(const wire::TensorView& source, size_t group) {
    const size_t first = kernels::kRows * group;
    const size_t rows = std::min(kernels::kRows, view_.rows - first);
    std::array<const uint8_t*, kernels::kRows> records{};
    for (size_t row = 0; row < rows; ++row) {
        scales_[first + row] = source.row_scale(first + row);
        records[row] = source.row(first + row);
    }
    const std::span present(records.data(), rows);
    uint8_t* const nibbles = lines_[group * (view_.group_bytes / sizeof(CacheLine))].bytes.data();
    uint8_t* const bits = nibbles + kernels::bits_at(view_);
    uint8_t* const heads = nibbles + kernels::heads_at(view_);
    for (size_t b = 0; b < view_.blocks; ++b) {
        if (view_.five_bits) {
            const auto block = make_block<true>(source, present, b);
            std::memcpy(nibbles + kernels::kNibbleBytes * b, block.nibbles.data(), kernels::kNibbleBytes);
            std::memcpy(bits + kernels::kBitBytes * b, block.bits.data(), kernels::kBitBytes);
            std::memcpy(heads + kernels::kHeadBytes * b, &block.head, kernels::kHeadBytes);
        } else {
            const auto block = make_block<false>(source, present, b);
            std::memcpy(nibbles + kernels::kNibbleBytes * b, block.nibbles.data(), kernels::kNibbleBytes);
            std::memcpy(heads + kernels::kHeadBytes * b, &block.head, kernels::kHeadBytes);
        }
    }
}

size_t Kaiju4Matrix::bytes() const {
    return groups() * view_.group_bytes + scales_.size() * sizeof(float);
}

size_t Kaiju4Matrix::block_bytes() const {
    return activations_ == Activations::int8 ? sizeof(kernels::Activation) : kernels::kCols * sizeof(float);
}

size_t Kaiju4Matrix::prepared_bytes(size_t tokens) const {
    return tokens * view_.blocks * block_bytes();
}

bool Kaiju4Matrix::shares_preparation(const PackedMatrix& other) const {
    const auto* same = dynamic_cast<const Kaiju4Matrix*>(&other);
    return same != nullptr && activations_ == same->activations_ && cols() == same->cols() &&
           seed_ == same->seed_;
}

void Kaiju4Matrix::prepare_blocks(const float* x, size_t first, size_t last, size_t block_stride,
                                  std::byte* out) const {
    constexpr size_t kAtOnce = 64;  // blocks
    // The runs that so many blocks touch, and padding.
    std::array<float, kernels::kCols * kAtOnce + 2 * codec::Rotation::kLargestSpan> values;
    const size_t span = rotation_.span();
    for (; first < last; first += kAtOnce) {
        const size_t until = std::min(last, first + kAtOnce);
        const size_t begin = kernels::kCols * first / span * span;
        const size_t wanted = kernels::kCols * until;
        const size_t end = std::min(cols(), (wanted + span - 1) / span * span);
        kernels_->rotate(x + begin, rotation_.signs().data() + begin, end - begin, span, values.data());
        if (end < wanted) {
            std::fill(values.begin() + (end - begin), values.begin() + (wanted - begin), 0.0F);
        }
        for (size_t b = first; b < until; ++b, out += block_stride) {
            const float* const block = values.data() + (kernels::kCols * b - begin);
            if (activations_ == Activations::int8) {
                kernels_->quantise(block, reinterpret_cast<kernels::Activation*>(out));
            } else {
                std::memcpy(out, block, kernels::kCols * sizeof(float));
            }
        }
    }
}

void Kaiju4Matrix::prepare(const float* x, size_t stride, size_t tokens, std::byte* out, int ith,
                           int nth) const {
    // A thread's share in the order of tokens; a run of the rotation that two threads touch is done twice.
    const Share share(view_.blocks * tokens, ith, nth);
    for (size_t unit = share.begin; unit < share.end;) {
        const size_t token = unit / view_.blocks;
        const size_t first = unit % view_.blocks;
        const size_t last = std::min(view_.blocks, first + (share.end - unit));
        const size_t tile = token / kernels::kTile * kernels::kTile;
        const size_t count = std::min(kernels::kTile, tokens - tile);
        std::byte* const at = out + prepared_bytes(tile) + (first * count + token - tile) * block_bytes();
        prepare_blocks(x + token * stride, first, last, count * block_bytes(), at);
        unit += last - first;
    }
}

void Kaiju4Matrix::multiply(const std::byte* prepared, size_t tokens, float* y, size_t stride, int ith,
                            int nth) const {
    const Share share(groups(), ith, nth);
    if (activations_ == Activations::int8) {
        kernels_->multiply(view_, share.begin, share.end,
                           reinterpret_cast<const kernels::Activation*>(prepared), tokens, y, stride);
    } else {
        kernels_->multiply_f32(view_, share.begin, share.end, reinterpret_cast<const float*>(prepared),
                               tokens, y, stride);
    }
}

}  // namespace kaiju::runtime
