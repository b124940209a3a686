// Downloads that resume.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "zoo/store.h"

namespace kaiju::zoo {

/// Fetches an object into a new file, in ranges, several at once. What is finished survives in "<out>.part"
/// and its list "<out>.part.ranges"; a later call goes on there as long as the object is the same one. Where
/// the store knows the SHA-256 the file is checked against it; a file that differs is thrown away. Throws
/// missing, output_exists, busy, io, interrupted; bad_input where the object changed or its bytes are wrong.
void download(ObjectStore& store, const std::string& key, const std::filesystem::path& out, Monitor& monitor);

/// The keys of all parts of a model, given that of the first: "a-00001-of-00003.gguf" names three, every
/// other key only itself.
[[nodiscard]] std::vector<std::string> part_keys(const std::string& key);

/// The file name that a key ends with; of a web address without its query.
[[nodiscard]] std::string file_name(const std::string& key);

/// Fetches a model with all its parts into a folder, under their own names, and returns the path of the
/// first. Parts that are there are taken as they are. Throws what download() throws.
[[nodiscard]] std::filesystem::path download_model(ObjectStore& store, const std::string& key,
                                                   const std::filesystem::path& folder, Monitor& monitor);

}  // namespace kaiju::zoo
