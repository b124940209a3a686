// The finite code books of KAIJU4: points of the Leech coordinates shaped towards a ball (docs/kaiju4.md, 3).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lattice/decoder.h"

namespace kaiju::lattice {

inline constexpr int kLeastIndexBits = 3;
inline constexpr int kMostIndexBits = 12;
inline constexpr size_t kGroups = 6;       ///< groups of four coordinates
inline constexpr size_t kGroupSize = 4;    ///< coordinates of a group
inline constexpr size_t kRings = 8;        ///< rings of a group's list
inline constexpr size_t kSequences = 512;  ///< legal ring sequences

using GroupVector = std::array<int8_t, kGroupSize>;
using Rings = std::array<uint8_t, kGroups>;

/// A code word as a wire stores it.
struct ShellCode {
    uint16_t word = 0;                      ///< index of the Golay word, 0..4095
    uint8_t m = 0;                          ///< half: 0 or 1
    uint16_t sequence = 0;                  ///< number of the ring sequence, 0..511
    std::array<uint16_t, kGroups> index{};  ///< in its ring, below 2^g

    friend bool operator==(const ShellCode&, const ShellCode&) = default;
};

/// One code book. Immutable: one may serve many threads.
class ShellBook {
  public:
    /// The book with indices of g bits, made on first use and kept. Throws as check does.
    static const ShellBook& of(int index_bits);
    /// Throws usage unless g is 3..12.
    static void check(int index_bits);

    [[nodiscard]] int index_bits() const { return index_bits_; }

    /// V(m, pattern)[position], position below 8 * 2^g.
    [[nodiscard]] GroupVector vector(unsigned m, unsigned pattern, size_t position) const;
    /// The position in V(m, pattern) of the vector x; -1 where the list does not have it. x_i = m + 2 c_i +
    /// 4 z_i, any z.
    [[nodiscard]] int position(unsigned m, unsigned pattern, const int* x) const;
    /// The ring of the vector with the given z in V(m, pattern), z_i - least_z() in bits i z_bits() .. of the
    /// key; kRings where the list does not have it.
    [[nodiscard]] uint8_t ring(unsigned m, unsigned pattern, uint32_t key) const {
        return rings_of_[16 * m + pattern][key];
    }
    /// Range of z in the lists' orders: least_z() .. least_z() + 2^z_bits() - 1.
    [[nodiscard]] int least_z() const { return index_bits_ <= 8 ? -4 : -8; }
    [[nodiscard]] unsigned z_bits() const { return index_bits_ <= 8 ? 3 : 4; }
    /// The rings of sequence n < 512.
    [[nodiscard]] const Rings& rings(size_t n) const { return sequences_[n]; }
    /// The number of a sequence of rings; -1 where it is not legal.
    [[nodiscard]] int sequence(const Rings& rings) const;
    /// Whether there is such a sequence, 3 bits a ring, r_0 lowest: 32 KB where the numbers have 512.
    [[nodiscard]] bool is_legal(size_t rings) const { return (legal_[rings / 64] >> (rings % 64) & 1) != 0; }

    /// The 24 integers of a code word.
    void values(const ShellCode& code, int8_t* x) const;
    /// The code of a point x_i = m + 2 c_i + 4 z_i, `word` the index of c. False where the book does not have
    /// it; `code` is then meaningless.
    bool encode(unsigned m, unsigned word, const int* x, ShellCode& code) const;

    ShellBook(const ShellBook&) = delete;
    ShellBook& operator=(const ShellBook&) = delete;

  private:
    explicit ShellBook(int index_bits);
    void make_lists();
    void make_sequences();
    void make_rings();

    /// Lists that all others follow from: V(0, the w lowest bits set) for w = 0..4, then V(1, 0).
    static constexpr size_t kLists = 6;

    int index_bits_;
    std::array<std::vector<GroupVector>, kLists> lists_;
    std::array<std::vector<int16_t>, kLists> positions_;  ///< by z, z_bits() each; -1: not in the list
    std::array<std::vector<uint8_t>, 32> rings_of_;       ///< by 16 m + pattern, then z: see ring()
    std::vector<Rings> sequences_;
    std::vector<int16_t> numbers_;  ///< of a sequence, 3 bits a ring, r_0 lowest
    std::vector<uint64_t> legal_;   ///< a bit for each of them: it has a number
};

}  // namespace kaiju::lattice
