// Sketches from covariances that are there already: other numbers of eigenpairs without another capture.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/monitor.h"
#include "format/covariance.h"

namespace kaiju::eval {

/// Writes a .sket with the k largest eigenpairs (fewer where a tap is not that wide) of every matrix of
/// `file`. Throws output_exists; bad_input where a matrix is damaged.
void write_sketches(const format::CovarianceFile& file, uint32_t k, const std::filesystem::path& out,
                    int threads, Monitor& monitor);

}  // namespace kaiju::eval
