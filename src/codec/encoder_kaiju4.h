// The encoder of KAIJU4: error feedback in the basis of the rotated columns.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "codec/encoder_v3.h"
#include "codec/kaiju4.h"
#include "codec/row_encoder.h"
#include "lattice/shell_search.h"
#include "stats/feedback.h"

namespace kaiju::codec {

/// The covariance of a matrix's inputs in the basis of a rotation's columns, padded with `padding` columns
/// that have no inputs.
using MakeRotatedCovariance =
    std::function<std::unique_ptr<stats::Covariance>(const Rotation& rotation, size_t padding)>;

/// Signs of all tensors come from one seed: matrices that share their input can share its rotation.
inline constexpr uint64_t kRotationSeed = 4;

/// Rows are rotated, then encoded block by block as EncoderV3 does: each block aims at what the errors
/// committed before it leave to be desired, its candidates at every multiplier are compared in the
/// covariance's metric. Row scales are refitted in closed form where the options want it; else excess and
/// energy in the covariance's metric are told from the first 16 of every 64 rows. 16 rows in lockstep; bytes
/// do not depend on which, on threads or on the instruction set.
class EncoderKaiju4 final : public RowEncoder {
  public:
    /// importance: mean square of each input column. Of the options, those about the side-band and the code
    /// book do not apply. Throws bad_input for a covariance that does not fit or is damaged.
    EncoderKaiju4(const kaiju4::Layout& layout, std::span<const float> importance,
                  const MakeRotatedCovariance& covariance, const V3Options& options);

    [[nodiscard]] uint32_t rows() const override { return layout_.rows; }
    [[nodiscard]] uint32_t cols() const override { return layout_.cols; }
    [[nodiscard]] uint64_t row_bytes() const override { return layout_.row_bytes(); }
    [[nodiscard]] std::vector<std::byte> head() const override;
    void encode_rows(const float* weights, size_t count, std::byte* records,
                     EncodeStats* stats) const override;
    /// Many go together: places in the search that one row leaves are filled by others, and a full covariance
    /// is read once for all.
    [[nodiscard]] size_t rows_per_piece() const override { return kRowsPerPiece; }

    /// Memory in flight per thread while a matrix of this layout is encoded.
    [[nodiscard]] static uint64_t bytes_per_thread(const kaiju4::Layout& layout);

    /// Damping that the factorisation took where what the options ask for was not enough, else 0.
    [[nodiscard]] double more_damp() const { return used_damp_ > damp_of(options_) ? used_damp_ : 0; }

  private:
    static constexpr size_t kRowsPerPiece = 4 * stats::kLanes;

    struct Group;
    struct Piece;
    struct Aim;
    struct Candidate;

    void load(const float* weights, size_t count, Group& group) const;
    void first_pass(Piece& piece) const;
    void sweep(Piece& piece) const;
    void multiply(Piece& piece, size_t groups) const;
    void refit(Piece& piece) const;
    void search_block(const Aim& aim, Piece& piece) const;
    void compare(const Aim& aim, size_t n, uint32_t lanes, Piece& piece) const;
    void descend(const float* metric, Group& group) const;
    void write(size_t count, const Group& group, std::byte* records, EncodeStats* stats) const;
    void add_full(size_t count, const Group& group, double rows, EncodeStats* stats) const;

    kaiju4::Layout layout_;
    std::vector<float> importance_;
    V3Options options_;
    Rotation rotation_;
    lattice::ShellSearch search_;
    kaiju4::Multipliers multipliers_;
    std::unique_ptr<stats::Covariance> covariance_;
    std::unique_ptr<stats::Feedback> sequential_;
    std::unique_ptr<stats::Feedback> joint_;  ///< null unless there are sweeps
    double used_damp_ = 0;
    const stats::LaneKernels& lanes_ = stats::lane_kernels();
};

}  // namespace kaiju::codec
