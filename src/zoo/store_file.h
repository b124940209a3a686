// A folder as an object store.
#pragma once

#include <memory>
#include <string>

#include "zoo/store.h"

namespace kaiju::zoo {

/// Keys are paths below the folder, which is made when something is put. Writes appear by one rename or link,
/// so several processes (also of several hosts, on a network mount with atomic links) may share it.
[[nodiscard]] std::unique_ptr<ObjectStore> open_file_store(const std::string& address,
                                                           const StoreOptions& options);

}  // namespace kaiju::zoo
