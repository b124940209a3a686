// Downloads that resume.
#pragma once

#include <filesystem>
#include <string>

#include "base/monitor.h"
#include "zoo/store.h"

namespace kaiju::zoo {

/// Fetches an object into a new file, in ranges, several at once. What is finished survives in "<out>.part"
/// and its list "<out>.part.ranges"; a later call goes on there as long as the object is the same one. Where
/// the store knows the SHA-256 the file is checked against it; a file that differs is thrown away. Throws
/// missing, output_exists, busy, io, interrupted; bad_input where the object changed or its bytes are wrong.
void download(ObjectStore& store, const std::string& key, const std::filesystem::path& out, Monitor& monitor);

}  // namespace kaiju::zoo
