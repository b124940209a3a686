// Models in object stores, read by range: the header, then each tensor when it is asked for.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "format/model_file.h"
#include "zoo/store.h"

namespace kaiju::zoo {

/// Enough bytes from the front of a GGUF object that its header is whole, read in pieces that grow fourfold.
/// Throws bad_input where it is none.
[[nodiscard]] std::vector<std::byte> gguf_header(ObjectStore& store, const Object& object);

/// Opens a GGUF (also the first part of a split one) or a knot at an address. It looks like a file to
/// everybody: behind it is a sparse temporary one, into which ranges come as they are needed and from which
/// release() drops them again, so that disk and memory hold what is at work and not the model. Throws
/// missing, bad_input, io.
[[nodiscard]] std::unique_ptr<format::ModelFile> open_remote_model(const std::string& address,
                                                                   const StoreOptions& options);

/// Makes ModelFile::open take addresses, with these options.
void allow_remote_models(const StoreOptions& options);

/// The path itself, or for an address the path of a local copy that lives as long as this object: for readers
/// that need a whole file.
class LocalCopy {
  public:
    LocalCopy(const std::filesystem::path& path, Monitor& monitor);
    ~LocalCopy();
    LocalCopy(const LocalCopy&) = delete;
    LocalCopy& operator=(const LocalCopy&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    std::filesystem::path folder_;  ///< to remove; empty where there is none
};

}  // namespace kaiju::zoo
