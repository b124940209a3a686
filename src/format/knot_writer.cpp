#include "format/knot_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/checksum.h"
#include "format/knot.h"

namespace kaiju::format {

namespace {

constexpr uint64_t kAlignment = 64;

uint64_t aligned(uint64_t offset) {
    return checked_add(offset, kAlignment - 1, "the size of the file") / kAlignment * kAlignment;
}

std::string table_text(std::span<const TensorInfo> tensors, std::span<const uint64_t> offsets,
                       std::span<const uint64_t> checksums) {
    nlohmann::ordered_json toc = nlohmann::ordered_json::array();
    for (size_t i = 0; i < tensors.size(); ++i) {
        toc.push_back({{"name", tensors[i].name},
                       {"type", tensors[i].type},
                       {"shape", tensors[i].shape},
                       {"offset", offsets[i]},
                       {"nbytes", tensors[i].nbytes},
                       {"xxh3", hex16(checksums[i])}});
    }
    return toc.dump();
}

/// Names from a model file need not be UTF-8; what JSON cannot hold is replaced.
std::string metadata_text(const nlohmann::json& metadata) {
    return metadata.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

TensorInfo key_values_entry(Bytes key_values) {
    return {std::string(kKeyValuesName), std::string(kKeyValuesType), {key_values.size()}, key_values.size()};
}

std::vector<uint64_t> KnotWriter::plan(std::span<const TensorInfo> tensors) {
    std::vector<uint64_t> offsets;
    std::unordered_set<std::string_view> names;
    uint64_t end = KnotHeader::kBytes;
    for (const TensorInfo& tensor : tensors) {
        check_entry(tensor);
        if (!names.insert(tensor.name).second) {
            throw Error(ErrorCode::bad_input, fmt::format("entry {} occurs twice", tensor.name));
        }
        offsets.push_back(aligned(end));
        end = checked_add(offsets.back(), tensor.nbytes, "the size of the file");
    }
    offsets.push_back(end);
    return offsets;
}

uint64_t KnotWriter::planned_length(std::span<const TensorInfo> tensors, const nlohmann::json& metadata) {
    const std::vector<uint64_t> offsets = plan(tensors);
    const std::vector<uint64_t> checksums(tensors.size());  // written with leading zeros: all of one length
    return aligned(offsets.back()) + table_text(tensors, offsets, checksums).size() +
           metadata_text(metadata).size();
}

KnotWriter::KnotWriter(const std::filesystem::path& path, std::vector<TensorInfo> tensors,
                       OutputFile::OnAbandon on_abandon)
    : tensors_(std::move(tensors)),
      offsets_(plan(tensors_)),
      file_(path, on_abandon),
      checksums_(tensors_.size()) {
    file_.reserve(offsets_.back());
}

void KnotWriter::write_payload(size_t index, Bytes payload) {
    if (payload.size() != tensors_.at(index).nbytes) {
        throw Error(ErrorCode::internal,
                    fmt::format("entry {}: a payload of {} bytes where {} were planned", tensors_[index].name,
                                payload.size(), tensors_[index].nbytes));
    }
    file_.write_at(offsets_[index], payload);
    const uint64_t checksum = xxh3(payload);
    const std::lock_guard lock(mutex_);
    checksums_[index] = checksum;
}

void KnotWriter::write_part(size_t index, uint64_t offset, Bytes part) {
    if (!fits(offset, part.size(), tensors_.at(index).nbytes)) {
        throw Error(ErrorCode::internal,
                    fmt::format("entry {}: {} bytes at {} of a payload of {}", tensors_[index].name,
                                part.size(), offset, tensors_[index].nbytes));
    }
    file_.write_at(offsets_[index] + offset, part);
    const std::lock_guard lock(mutex_);
    checksums_[index].reset();
}

uint64_t KnotWriter::checksum_of(size_t index, const MappedFile& written) const {
    if (checksums_[index]) {
        return *checksums_[index];
    }
    const Bytes payload = written.bytes().subspan(offsets_[index], tensors_[index].nbytes);
    const uint64_t checksum = xxh3(payload);
    written.release(payload);
    return checksum;
}

/// A resumed file may have been longer or, in a gap, not empty; equal inputs must give equal files.
void KnotWriter::clear_padding() {
    constexpr std::array<std::byte, kAlignment> kZeros{};
    uint64_t end = KnotHeader::kBytes;
    for (size_t i = 0; i < tensors_.size(); ++i) {
        file_.write_at(end, Bytes(kZeros).first(offsets_[i] - end));
        end = offsets_[i] + tensors_[i].nbytes;
    }
    file_.write_at(end, Bytes(kZeros).first(aligned(end) - end));
    file_.truncate(aligned(end));
}

void KnotWriter::finish(const nlohmann::json& metadata) {
    if (!metadata.is_object()) {
        throw Error(ErrorCode::internal, "the metadata of a knot is a JSON object");
    }
    clear_padding();
    std::vector<uint64_t> checksums;
    {
        const MappedFile written(file_.temporary());
        for (size_t i = 0; i < tensors_.size(); ++i) {
            checksums.push_back(checksum_of(i, written));
        }
    }
    const std::string table = table_text(tensors_, offsets_, checksums);
    const std::string text = metadata_text(metadata);
    const std::string both = table + text;
    KnotHeader header;
    header.toc_offset = aligned(offsets_.back());
    header.toc_length = table.size();
    header.meta_offset = header.toc_offset + table.size();
    header.meta_length = text.size();
    header.file_length = header.meta_offset + text.size();
    header.checksum = xxh3(std::as_bytes(std::span(both)));
    file_.write_at(header.toc_offset, std::as_bytes(std::span(both)));
    file_.write_at(0, header.bytes());
    file_.commit();
    file_length_ = header.file_length;
}

}  // namespace kaiju::format
