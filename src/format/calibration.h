// What a file remembers of the text that its importance was measured on.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/imatrix.h"

namespace kaiju::format {

/// Most hashes of a text that are kept: the smallest.
inline constexpr size_t kMaxWindowHashes = 4096;

/// A sketch of a calibration text: enough to notice that another text shares passages with it, far too little
/// to restore it. `kaiju imatrix` puts it into the key-values of the imatrix
/// (kaiju.calibration.window_hashes, hex strings), the encoder copies it into the metadata of the knot
/// ("calibration": {"source", "window_hashes"}, numbers). Files of earlier versions have "line_hashes"
/// instead, which cannot be compared with anything of today: they are read as a text of which nothing but the
/// name is known.
struct Calibration {
    std::string source;                   ///< what the text was called
    std::vector<uint64_t> window_hashes;  ///< ascending (docs/evaluation.md says of what); empty: not known
};

/// Puts the sketch into imatrix.extra, and its source into imatrix.datasets.
void set_calibration(Imatrix& imatrix, const Calibration& calibration);

/// The sketch that an imatrix carries; nothing where another program made it. Throws bad_input where it is
/// malformed.
[[nodiscard]] std::optional<Calibration> calibration_of(const Imatrix& imatrix);

/// The sketch in the metadata of a knot (a JSON object as text); nothing where there is none. Throws
/// bad_input where it is malformed.
[[nodiscard]] std::optional<Calibration> calibration_of(std::string_view knot_metadata);

/// The sketch of both texts as one: the smallest hashes of the union are those of the union's sketch. Not
/// known where one is not.
[[nodiscard]] Calibration merged(const Calibration& a, const Calibration& b);

/// What stands under "calibration" in such metadata.
[[nodiscard]] nlohmann::json to_json(const Calibration& calibration);

}  // namespace kaiju::format
