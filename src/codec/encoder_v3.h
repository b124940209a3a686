// The encoder of KAIJU1 with error feedback: same wire, same decoder, a better choice of code words.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codec/block_feedback.h"
#include "codec/row_encoder.h"
#include "stats/feedback.h"

namespace kaiju::codec {

/// What shapes v3's result. docs/encoder-v3.md has the measurements behind the defaults.
struct V3Options {
    stats::Fold fold = stats::Fold::ldlq;
    lattice::Parity codebook = lattice::Parity::free;
    stats::SideBand side_band = stats::SideBand::last;
    int step_search = 4;  ///< step multipliers tried per block, 1 to 16
    double comp_cap = 2;  ///< a shift is at most this times the block's norm; 0: no cap
    /// Part of the mean diagonal added to the covariance; not given: damp_of.
    std::optional<double> damp{};
    int sweeps = 0;      ///< rounds of coordinate descent over all blocks after the first pass
    int candidates = 2;  ///< KAIJU4: code words tried per step, 1 to 16
    int descent = 4;     ///< single-coordinate moves tried on a block's best code word (KAIJU1: parity free)
    bool refit_scale = true;       ///< row scales in closed form once codes are known
    bool activation_order = true;  ///< bulk by descending importance (perm_kind 1)
};

/// The defaults: with a full covariance a longer search pays, with a sketch what it leaves out is more than
/// that brings.
[[nodiscard]] V3Options v3_defaults(bool full_covariance);

/// The part of the mean diagonal that is added: what the options give, else 0.01; for KAIJU4 and a full
/// covariance 0.4 inputs / samples where that is more, since what few samples say of small directions is
/// noise (docs/kaiju4-design.md, "Damping"). samples: 0 where it does not depend on them.
[[nodiscard]] double damp_of(const V3Options& options, uint64_t inputs = 0, uint64_t samples = 0);

/// Throws usage for a number outside its range.
void check(const V3Options& options);

/// Sequential blocks of 24 columns, each aiming at what the errors committed before it leave to be desired
/// (stats/feedback.h), its candidates compared in the covariance's metric. The side-band is committed last
/// unless options say otherwise; its columns are those of largest importance times the energy of the weights.
/// 16 rows are encoded in lockstep; bytes do not depend on which, on threads or on the instruction set.
class EncoderV3 final : public Kaiju1RowEncoder {
  public:
    /// The covariance of the tensor's inputs, its columns in any order.
    using MakeCovariance =
        std::function<std::unique_ptr<stats::Covariance>(std::span<const uint32_t> order, size_t n_hi)>;

    /// importance: mean square of each input column. column_energy: Σ_r W_rj² of each. The search must have
    /// the parity of the options and outlive this. Throws bad_input for a covariance that does not fit or is
    /// damaged.
    EncoderV3(const kaiju1::Layout& layout, std::span<const float> importance,
              std::span<const double> column_energy, const MakeCovariance& covariance,
              const lattice::CodebookSearch& search, const V3Options& options);

    [[nodiscard]] std::vector<std::byte> head() const override;
    void encode_rows(const float* weights, size_t count, std::byte* records,
                     EncodeStats* stats) const override;
    [[nodiscard]] size_t rows_per_piece() const override { return stats::kLanes; }
    /// Memory in flight per thread while a matrix of this layout is encoded.
    [[nodiscard]] static uint64_t bytes_per_thread(const kaiju1::Layout& layout);
    /// Memory that a tensor's covariance and its factors take for all threads. rank: of the sketch; 0 for a
    /// full covariance.
    [[nodiscard]] static uint64_t shared_bytes(uint64_t cols, uint64_t rank);

    /// Adds what v1 makes of `count` rows (at most 16) to the sample that stats compares v3 with, and what v3
    /// has made of them (`mine`, decoded).
    void add_legacy(const float* weights, const float* mine, size_t count, EncodeStats& stats) const;

    /// Damping that the factorisation took where what the options ask for was not enough, else 0.
    [[nodiscard]] double more_damp() const { return used_damp_ > damp_of(options_) ? used_damp_ : 0; }

  private:
    struct Group;
    struct Aim;
    struct Candidate;

    void load(const float* weights, size_t count, Group& group) const;
    void first_pass(Group& group) const;
    [[nodiscard]] std::array<uint8_t, stats::kLanes> first_steps(const BlockLanes& target,
                                                                 const Group& group) const;
    void sweep(Group& group) const;
    void refit(Group& group) const;
    void round_side_band(const float* targets, Group& group) const;
    void take_up(const stats::Feedback& feedback, Group& group) const;
    void search_block(size_t block, const Aim& aim, Group& group) const;
    void descend(const float* metric, Group& group) const;
    void write(const float* weights, size_t count, const Group& group, std::byte* records,
               EncodeStats* stats) const;

    V3Options options_;
    kaiju1::Multipliers multipliers_;
    std::array<double, kaiju1::kMultipliers - 1> thresholds_;
    const lattice::CodebookSearch& search_;
    std::unique_ptr<stats::Covariance> covariance_;
    std::unique_ptr<stats::Feedback> sequential_;
    std::unique_ptr<stats::Feedback> joint_;  ///< null unless there are sweeps
    double used_damp_ = 0;
    const stats::LaneKernels& lanes_ = stats::lane_kernels();
};

}  // namespace kaiju::codec
