// What a knot's metadata says of where it came from (docs/knot.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/monitor.h"
#include "format/model_file.h"

namespace kaiju::codec {

/// {"sha256", "size"} of some files as one, in order (the parts of a split model, or a single file). Reads
/// them whole; progress counts bytes.
[[nodiscard]] nlohmann::json source_json(std::span<const MappedFile> files, Monitor& monitor);

/// Of the same length, without reading them: the hash is zeros.
[[nodiscard]] nlohmann::json unhashed_source_json(std::span<const MappedFile> files);
[[nodiscard]] nlohmann::json unhashed_source_json(const format::ModelFile& model);

/// The same of a model, wherever it is.
[[nodiscard]] nlohmann::json source_json(const format::ModelFile& model, Monitor& monitor);

/// {"architecture", "name"} as far as the key-values have them.
[[nodiscard]] nlohmann::json general_json(const format::ModelFile& model);

}  // namespace kaiju::codec
