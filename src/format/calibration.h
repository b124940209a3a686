// What a file remembers of the text that its importance was measured on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/imatrix.h"

namespace kaiju::format {

/// A sketch of a calibration text: enough to notice that another text shares lines with it, far too little to
/// restore it. `kaiju imatrix` puts it into the key-values of the imatrix (kaiju.calibration.line_hashes, hex
/// strings), the encoder copies it into the metadata of the knot ("calibration": {"source", "line_hashes"},
/// numbers).
struct Calibration {
    std::string source;                 ///< what the text was called
    std::vector<uint64_t> line_hashes;  ///< ascending (docs/evaluation.md says of what)
};

/// Puts the sketch into imatrix.extra, and its source into imatrix.datasets.
void set_calibration(Imatrix& imatrix, const Calibration& calibration);

/// The sketch that an imatrix carries; nothing where another program made it. Throws bad_input where it is
/// malformed.
[[nodiscard]] std::optional<Calibration> calibration_of(const Imatrix& imatrix);

/// The sketch in the metadata of a knot (a JSON object as text); nothing where there is none. Throws
/// bad_input where it is malformed.
[[nodiscard]] std::optional<Calibration> calibration_of(std::string_view knot_metadata);

}  // namespace kaiju::format
