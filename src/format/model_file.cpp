#include "format/model_file.h"

#include <fmt/format.h>

#include "base/file.h"
#include "format/gguf_file.h"
#include "format/knot.h"

namespace kaiju::format {

namespace {

ModelFile::RemoteOpener& remote_opener() {
    static ModelFile::RemoteOpener opener;
    return opener;
}

}  // namespace

void ModelFile::set_remote_opener(RemoteOpener opener) {
    remote_opener() = std::move(opener);
}

std::unique_ptr<ModelFile> ModelFile::open(const std::filesystem::path& path) {
    if (remote_opener()) {
        if (std::unique_ptr<ModelFile> remote = remote_opener()(path.string())) {
            return remote;
        }
    }
    const MappedFile file(path);
    if (looks_like_gguf(file.bytes())) {
        return std::make_unique<GgufFile>(path);
    }
    if (looks_like_knot(file.bytes())) {
        return std::make_unique<KnotFile>(path);
    }
    throw Error(
        ErrorCode::bad_input,
        file.bytes().size() < 4
            ? fmt::format("{}: truncated: {} bytes, not even a header", path.string(), file.bytes().size())
            : fmt::format("{}: neither a GGUF nor a knot (both begin with their name)", path.string()));
}

std::vector<std::filesystem::path> ModelFile::files() const {
    std::vector<std::filesystem::path> paths;
    for (const MappedFile& file : mappings()) {
        paths.push_back(file.path());
    }
    return paths;
}

std::optional<size_t> ModelFile::find(std::string_view name) const {
    const std::span<const TensorInfo> list = tensors();
    for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].name == name) {
            return i;
        }
    }
    return std::nullopt;
}

}  // namespace kaiju::format
