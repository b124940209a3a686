#include "format/gguf_writer.h"

#include <fmt/format.h>

#include "format/stock_types.h"

namespace kaiju::format {

namespace {

constexpr uint32_t kVersion = 3;
constexpr size_t kMaxName = 63;  // ggml's limit

uint64_t padded(uint64_t size, uint64_t alignment) {
    return checked_add(size, alignment - 1, "the size of the file") / alignment * alignment;
}

void write_head(ByteWriter& out, uint64_t tensors, const KeyValueWriter& key_values) {
    out.append("GGUF");
    out.write(kVersion);
    out.write(tensors);
    out.write(key_values.count());
    out.append(Bytes(key_values.records()));
}

void pad(ByteWriter& out, uint64_t alignment) {
    const std::vector<std::byte> zeros(padded(out.bytes().size(), alignment) - out.bytes().size());
    out.append(Bytes(zeros));
}

}  // namespace

void KeyValueWriter::add(const GgufKeyValue& kv) {
    records_.append(kv.raw);
    ++count_;
}

void KeyValueWriter::add_all(Bytes gguf) {
    if (!gguf.empty()) {
        for (const GgufKeyValue& kv : scan_gguf(gguf).key_values) {
            add(kv);
        }
    }
}

void KeyValueWriter::begin(std::string_view key, GgufType type) {
    text(key);
    records_.write(static_cast<uint32_t>(type));
    ++count_;
}

void KeyValueWriter::text(std::string_view text) {
    records_.write(uint64_t{text.size()});
    records_.append(text);
}

void KeyValueWriter::add_string(std::string_view key, std::string_view value) {
    begin(key, GgufType::string);
    text(value);
}

void KeyValueWriter::add_u32(std::string_view key, uint32_t value) {
    begin(key, GgufType::u32);
    records_.write(value);
}

void KeyValueWriter::add_strings(std::string_view key, std::span<const std::string> texts) {
    begin(key, GgufType::array);
    records_.write(static_cast<uint32_t>(GgufType::string));
    records_.write(uint64_t{texts.size()});
    for (const std::string& each : texts) {
        text(each);
    }
}

std::vector<std::byte> KeyValueWriter::file() const {
    ByteWriter out;
    write_head(out, 0, *this);
    pad(out, scan_gguf(out.bytes()).alignment);
    return out.release();
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const KeyValueWriter& key_values,
                       std::span<const TensorInfo> tensors)
    : file_(path) {
    const std::vector<std::byte> bare = key_values.file();
    const uint64_t alignment = scan_gguf(bare).alignment;
    ByteWriter head;
    write_head(head, tensors.size(), key_values);
    uint64_t end = 0;
    for (const TensorInfo& tensor : tensors) {
        within(fmt::format("tensor {}", tensor.name), [&] {
            const StockType* type = find_stock_type(tensor.type);
            if (type == nullptr) {
                throw Error(ErrorCode::bad_input,
                            fmt::format("type {} is not a GGML type, so no GGUF can hold it", tensor.type));
            }
            if (!is_plain_name(tensor.name, kMaxName)) {
                throw Error(ErrorCode::bad_input,
                            fmt::format("a GGUF holds names of at most {} characters", kMaxName));
            }
            if (tensor.nbytes != stock_payload_bytes(*type, tensor.shape)) {
                throw Error(ErrorCode::bad_input,
                            fmt::format("{} bytes, type and shape imply {}", tensor.nbytes,
                                        stock_payload_bytes(*type, tensor.shape)));
            }
            head.write(uint64_t{tensor.name.size()});
            head.append(tensor.name);
            head.write(static_cast<uint32_t>(tensor.shape.size()));
            for (size_t i = tensor.shape.size(); i-- > 0;) {  // the file's order is the reverse
                head.write(tensor.shape[i]);
            }
            head.write(type->ggml);
            head.write(end);
            offsets_.push_back(end);
            lengths_.push_back(tensor.nbytes);
            end = padded(checked_add(end, tensor.nbytes, "the size of the file"), alignment);
        });
    }
    pad(head, alignment);
    const uint64_t data = head.bytes().size();
    for (uint64_t& offset : offsets_) {
        offset += data;
    }
    size_ = checked_add(data, end, "the size of the file");
    file_.reserve(size_);  // padding reads as zero
    file_.write_at(0, head.bytes());
}

void GgufWriter::write(size_t tensor, uint64_t offset, Bytes bytes) {
    if (!fits(offset, bytes.size(), lengths_.at(tensor))) {
        throw Error(ErrorCode::internal,
                    fmt::format("{} bytes at {} of a payload of {}", bytes.size(), offset, lengths_[tensor]));
    }
    file_.write_at(offsets_[tensor] + offset, bytes);
}

}  // namespace kaiju::format
