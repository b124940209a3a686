#include "runtime/memory_gguf.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ggml-cpp.h>
#include <ggml.h>
#include <gguf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/pieces.h"
#include "codec/tensor_decoder.h"
#include "format/stock_types.h"

namespace kaiju::runtime {

namespace {

[[noreturn]] void fail(std::string_view doing) {
    throw Error(ErrorCode::io,
                fmt::format("cannot {} memory for the decoded weights: {}", doing, std::strerror(errno)));
}

/// A shared mapping of a whole file for writing.
class Mapping {
  public:
    Mapping(int fd, size_t size) : size_(size) {
        void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) {
            fail("map");
        }
        data_ = static_cast<std::byte*>(at);
    }
    ~Mapping() { ::munmap(data_, size_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }

  private:
    std::byte* data_ = nullptr;
    size_t size_;
};

ggml_type type_in_memory(const format::TensorInfo& info, WeightType weight_type) {
    if (codec::is_kaiju_type(info.type)) {
        return weight_type == WeightType::f16 ? GGML_TYPE_F16 : GGML_TYPE_F32;
    }
    const format::StockType* stock = format::find_stock_type(info.type);
    if (stock == nullptr) {
        throw Error(ErrorCode::bad_input,
                    fmt::format("tensor {}: type {} is not known", info.name, info.type));
    }
    return static_cast<ggml_type>(stock->ggml);
}

/// Adds a tensor without data to a GGUF header. ggml aborts on what it does not like, so everything is
/// checked first.
void declare(gguf_context* gguf, const format::TensorInfo& info, ggml_type type) {
    if (info.name.size() >= GGML_MAX_NAME || info.shape.empty() || info.shape.size() > GGML_MAX_DIMS) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format("tensor {}: a GGUF file holds names of up to {} characters and 1 to {} dimensions",
                        info.name, GGML_MAX_NAME - 1, GGML_MAX_DIMS));
    }
    if (info.cols() % static_cast<uint64_t>(ggml_blck_size(type)) != 0) {
        throw Error(ErrorCode::bad_input, fmt::format("tensor {}: {} columns do not divide into blocks of {}",
                                                      info.name, info.cols(), ggml_type_name(type)));
    }
    const ggml_context_ptr context(
        ggml_init({.mem_size = 2 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
    const std::vector<int64_t> innermost_first(info.shape.rbegin(), info.shape.rend());
    ggml_tensor* tensor = ggml_new_tensor(context.get(), type, static_cast<int>(innermost_first.size()),
                                          innermost_first.data());
    ggml_set_name(tensor, info.name.c_str());
    gguf_add_tensor(gguf, tensor);
}

/// Decodes all rows of a KAIJU tensor to f16 or f32 at `out`.
void decode(const format::TensorInfo& info, Bytes payload, WeightType weight_type, int threads,
            std::byte* out) {
    const auto decoder = codec::make_tensor_decoder(info, payload);
    const uint64_t cols = info.cols();
    constexpr uint64_t kWeightsAtATime = uint64_t{1} << 16;
    parallel_for(info.rows(), rows_of(kWeightsAtATime, cols), threads, [&](size_t begin, size_t end) {
        const size_t count = (end - begin) * cols;
        if (weight_type == WeightType::f32) {
            decoder->decode_rows(begin, end - begin, reinterpret_cast<float*>(out) + begin * cols);
            return;
        }
        std::vector<float> values(count);
        decoder->decode_rows(begin, end - begin, values.data());
        ggml_fp32_to_fp16_row(values.data(), reinterpret_cast<ggml_fp16_t*>(out) + begin * cols,
                              static_cast<int64_t>(count));
    });
}

/// A file of `length` zeros in memory.
FilePtr make_empty_file(size_t length) {
    const int fd = ::memfd_create("kaiju-weights", MFD_CLOEXEC);
    if (fd < 0) {
        fail("create");
    }
    FilePtr file(::fdopen(fd, "r+b"));
    if (!file) {
        ::close(fd);
        fail("open");
    }
    // Pages are allocated now, so that too little memory is an error here and not a signal in the middle.
    if (const int cause = ::posix_fallocate(fd, 0, static_cast<off_t>(length)); cause != 0) {
        errno = cause;
        fail("allocate");
    }
    return file;
}

/// Key-values of the model without what describes the files it came in.
gguf_context_ptr make_header(const format::ModelFile& model) {
    const Bytes key_values = model.key_values();
    if (key_values.empty()) {
        throw Error(
            ErrorCode::missing,
            "the knot has no gguf_kv entry, and an engine needs the model's key-values (hyper-parameters and "
            "tokenizer): encode it again from a base that has them");
    }
    const gguf_context_ptr source(
        gguf_init_from_buffer(key_values.data(), key_values.size(), {.no_alloc = true, .ctx = nullptr}));
    if (!source) {
        throw Error(ErrorCode::bad_input, "ggml cannot read the key-values (entry gguf_kv)");
    }
    gguf_context_ptr header(gguf_init_empty());
    gguf_set_kv(header.get(), source.get());
    for (const char* key : {"split.no", "split.count", "split.tensors.count"}) {
        gguf_remove_key(header.get(), key);
    }
    return header;
}

}  // namespace

FilePtr make_memory_gguf(const format::ModelFile& model, WeightType weight_type, int threads,
                         Monitor& monitor) {
    const gguf_context_ptr header = make_header(model);
    const auto tensors = model.tensors();
    for (const format::TensorInfo& info : tensors) {
        declare(header.get(), info, type_in_memory(info, weight_type));
    }

    const size_t data_offset = gguf_get_meta_size(header.get());
    const size_t alignment = gguf_get_alignment(header.get());
    size_t length = data_offset;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const auto id = static_cast<int64_t>(i);
        length = std::max(length, data_offset + gguf_get_tensor_offset(header.get(), id) +
                                      GGML_PAD(gguf_get_tensor_size(header.get(), id), alignment));
    }

    FilePtr file = make_empty_file(length);
    const int fd = ::fileno(file.get());
    const Mapping mapping(fd, length);
    gguf_get_meta_data(header.get(), mapping.data());

    monitor.begin("decoding weights", tensors.size(), "tensor");
    for (size_t i = 0; i < tensors.size(); ++i) {
        monitor.check_cancelled();
        const Bytes payload = model.payload(i);
        std::byte* out =
            mapping.data() + data_offset + gguf_get_tensor_offset(header.get(), static_cast<int64_t>(i));
        within(fmt::format("tensor {}", tensors[i].name), [&] {
            if (codec::is_kaiju_type(tensors[i].type)) {
                decode(tensors[i], payload, weight_type, threads, out);
            } else if (payload.size() == gguf_get_tensor_size(header.get(), static_cast<int64_t>(i))) {
                std::memcpy(out, payload.data(), payload.size());
            } else {
                throw Error(ErrorCode::bad_input,
                            fmt::format("{} bytes where its type and shape imply {}", payload.size(),
                                        gguf_get_tensor_size(header.get(), static_cast<int64_t>(i))));
            }
        });
        model.release(i);
        monitor.advance(1);
    }
    monitor.end();
    return file;
}

FilePtr make_memory_file(Bytes bytes) {
    FilePtr file = make_empty_file(bytes.size());
    const Mapping mapping(::fileno(file.get()), bytes.size());
    std::memcpy(mapping.data(), bytes.data(), bytes.size());
    return file;
}

}  // namespace kaiju::runtime
