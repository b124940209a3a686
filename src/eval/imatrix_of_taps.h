// An importance matrix out of what a capture has measured already: the diagonals are the same mean squares.
#pragma once

#include "format/covariance.h"
#include "format/imatrix.h"
#include "format/model_file.h"
#include "format/sketch.h"

namespace kaiju::eval {

/// The importance of every matrix of `model` whose inputs are a tap of the file, with the calibration text's
/// sketch where the file has one. Throws bad_input naming the tensor where the file has no such tap, or one
/// of another width, and where the model has no matrix with a tap.
[[nodiscard]] format::Imatrix imatrix_of(const format::ModelFile& model, const format::CovarianceFile& file);
[[nodiscard]] format::Imatrix imatrix_of(const format::ModelFile& model, const format::SketchFile& file);

}  // namespace kaiju::eval
