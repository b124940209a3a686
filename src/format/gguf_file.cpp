#include "format/gguf_file.h"

#include <fmt/format.h>
#include <gguf.h>

#include <memory>
#include <unordered_set>

#include "format/gguf_scan.h"
#include "format/gguf_writer.h"
#include "format/stock_types.h"

namespace kaiju::format {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxParts = 99999;  // five digits in the names of split files

struct GgufDeleter {
    void operator()(gguf_context* context) const { gguf_free(context); }
};
using GgufContext = std::unique_ptr<gguf_context, GgufDeleter>;

/// What a value of an integer type says; 0 where the key is not there.
uint64_t split_value(const GgufScan& scan, std::string_view key) {
    const GgufKeyValue* kv = scan.find(key);
    if (kv == nullptr) {
        return 0;
    }
    switch (kv->type) {
        case GgufType::u16:
            return load<uint16_t>(kv->value.data());
        case GgufType::u32:
            return load<uint32_t>(kv->value.data());
        case GgufType::i32:
            if (const auto value = load<int32_t>(kv->value.data()); value >= 0) {
                return static_cast<uint64_t>(value);
            }
            break;
        default:
            break;
    }
    throw Error(ErrorCode::bad_input, fmt::format("key '{}' is not a count", key));
}

/// The name of part `part` (from 0) of a split model, given the name of its first part.
fs::path part_path(const fs::path& first, uint64_t part, uint64_t parts) {
    const std::string name = first.filename().string();
    const std::string ending = fmt::format("-00001-of-{:05}.gguf", parts);
    if (!name.ends_with(ending)) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("{}: the first of {} parts of a split model, whose name must end in '{}' so that the "
                        "other parts can be found",
                        first.string(), parts, ending));
    }
    return first.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf",
                                             name.substr(0, name.size() - ending.size()), part + 1, parts);
}

/// Lets ggml read the header, and checks that it sees the table that the walk saw: what stock llama.cpp would
/// refuse is refused here, and no file can mean one thing to us and another to it.
void check_with_ggml(Bytes file, const GgufScan& scan) {
    const GgufContext context(
        gguf_init_from_buffer(file.data(), file.size(), {/*no_alloc=*/true, /*ctx=*/nullptr}));
    bool same = context != nullptr &&
                gguf_get_n_tensors(context.get()) == static_cast<int64_t>(scan.tensors.size()) &&
                gguf_get_n_kv(context.get()) == static_cast<int64_t>(scan.key_values.size()) &&
                gguf_get_data_offset(context.get()) == scan.data_offset;
    for (size_t i = 0; same && i < scan.tensors.size(); ++i) {
        const GgufTensor& tensor = scan.tensors[i];
        const auto id = static_cast<int64_t>(i);
        const int64_t* extents = gguf_get_tensor_ne(context.get(), id);
        same = gguf_get_tensor_name(context.get(), id) == tensor.name &&
               static_cast<uint32_t>(gguf_get_tensor_type(context.get(), id)) == tensor.type &&
               gguf_get_tensor_offset(context.get(), id) == tensor.offset &&
               gguf_get_tensor_size(context.get(), id) == tensor.nbytes;
        for (size_t d = 0; same && d < tensor.shape.size(); ++d) {
            same = static_cast<uint64_t>(extents[d]) == tensor.shape[tensor.shape.size() - 1 - d];
        }
    }
    if (!same) {
        throw Error(ErrorCode::bad_input, "ggml's GGUF reader does not accept this file");
    }
}

}  // namespace

bool looks_like_gguf(Bytes file) {
    return file.size() >= 4 && as_text(file.first(4)) == "GGUF";
}

GgufScan read_gguf_header(Bytes file) {
    GgufScan scan = scan_gguf(file);
    if (file.size() < scan.length) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("truncated: {} bytes expected, {} there", scan.length, file.size()));
    }
    check_with_ggml(file, scan);
    return scan;
}

GgufFile::GgufFile(const fs::path& path) : path_(path) {
    uint64_t parts = 1;
    uint64_t expected = 0;
    within(path.string(), [&] {
        const MappedFile first(path);
        const GgufScan scan = scan_gguf(first.bytes());
        parts = std::max<uint64_t>(split_value(scan, "split.count"), 1);
        expected = split_value(scan, "split.tensors.count");
        if (parts > kMaxParts) {
            throw Error(ErrorCode::bad_input, fmt::format("a split model of {} parts", parts));
        }
        if (const uint64_t part = split_value(scan, "split.no"); parts > 1 && part != 0) {
            throw Error(
                ErrorCode::bad_input,
                fmt::format("part {} of {} of a split model; name its first part instead", part + 1, parts));
        }
        KeyValueWriter kept;
        for (const GgufKeyValue& kv : scan.key_values) {
            if (!kv.key.starts_with("split.")) {
                kept.add(kv);
            }
        }
        key_values_ = kept.file();
    });
    for (uint64_t part = 0; part < parts; ++part) {
        const fs::path name = parts == 1 ? path : part_path(path, part, parts);
        within(name.string(), [&] { add_part(name, part, parts); });
    }
    if (parts > 1 && expected != 0 && expected != tensors_.size()) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("{}: split.tensors.count is {}, the {} parts have {} tensors", path.string(),
                                expected, parts, tensors_.size()));
    }
    std::unordered_set<std::string_view> names;
    for (const TensorInfo& tensor : tensors_) {
        if (!names.insert(tensor.name).second) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("{}: tensor {} is in two parts", path.string(), tensor.name));
        }
    }
}

void GgufFile::add_part(const fs::path& path, uint64_t part, uint64_t parts) {
    const MappedFile& file = files_.emplace_back(path);
    const GgufScan scan = read_gguf_header(file.bytes());
    if (parts > 1 && (split_value(scan, "split.no") != part || split_value(scan, "split.count") != parts)) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("its key-values do not say that it is part {} of {}", part + 1, parts));
    }
    for (const GgufTensor& tensor : scan.tensors) {
        tensors_.push_back(
            {std::string(tensor.name), find_stock_type(tensor.type)->name, tensor.shape, tensor.nbytes});
        payloads_.push_back(file.bytes().subspan(scan.data_offset + tensor.offset, tensor.nbytes));
        file_of_.push_back(files_.size() - 1);
    }
}

void GgufFile::release(size_t index) const {
    files_.at(file_of_.at(index)).release(payloads_.at(index));
}

}  // namespace kaiju::format
