#include "codec/verify.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <vector>

#include "base/parallel.h"
#include "codec/tensor_decoder.h"
#include "format/key_values.h"
#include "format/knot.h"

namespace kaiju::codec {

using format::KnotEntry;
using format::KnotFile;
using format::TensorInfo;

namespace {

void check_key_values(const format::ModelFile& model) {
    within(format::kKeyValuesName, [&] {
        const format::GgufScan scan =
            model.key_values().empty() ? format::GgufScan{} : format::scan_gguf(model.key_values());
        if (!scan.tensors.empty()) {
            throw Error(ErrorCode::bad_input,
                        fmt::format("a GGUF with {} tensors where none belong", scan.tensors.size()));
        }
    });
}

/// One job of verify: an entry of a knot, or a tensor of a GGUF.
void check_tensor(const format::ModelFile& model, size_t index, const KnotFile* knot,
                  const KnotEntry* entry) {
    const TensorInfo& info = model.tensors()[index];
    within(fmt::format("tensor {}", info.name), [&] {
        if (knot != nullptr) {
            knot->check_payload(*entry);
        }
        make_tensor_decoder(info, knot != nullptr ? knot->entry_payload(*entry) : model.payload(index))
            ->check();
    });
    model.release(index);
}

}  // namespace

VerifyReport verify(const format::ModelFile& model, int threads, Monitor& monitor) {
    const std::span<const TensorInfo> tensors = model.tensors();
    const auto* knot = dynamic_cast<const KnotFile*>(&model);
    VerifyReport report;
    for (const TensorInfo& info : tensors) {
        VerifyReport::OfType& of_type = report.types[info.type];
        of_type.tensors += 1;
        of_type.weights += info.weights();
        of_type.bytes += info.nbytes;
        report.tensors += 1;
        report.weights += info.weights();
        report.payload_bytes += info.nbytes;
    }
    std::vector<const KnotEntry*> entries(tensors.size(), nullptr);
    return within(model.path().string(), [&] {
        if (knot != nullptr) {
            size_t next = 0;
            for (const KnotEntry& entry : knot->entries()) {
                if (entry.info.type != format::kKeyValuesType) {  // that was checked when the file was opened
                    entries[next++] = &entry;
                }
            }
        }
        check_key_values(model);
        monitor.begin("verify", report.payload_bytes, "B");
        // Faults are collected, not thrown, so that the message does not depend on which thread came first.
        std::vector<std::exception_ptr> faults(tensors.size());
        std::atomic<size_t> first_fault = tensors.size();
        parallel_for(tensors.size(), 1, threads, [&](size_t begin, size_t end) {
            for (size_t i = begin; i < end; ++i) {
                monitor.check_cancelled();
                if (i > first_fault.load()) {
                    continue;
                }
                try {
                    check_tensor(model, i, knot, entries[i]);
                } catch (const Error&) {
                    faults[i] = std::current_exception();
                    size_t seen = first_fault.load();
                    while (i < seen && !first_fault.compare_exchange_weak(seen, i)) {
                    }
                }
                monitor.advance(tensors[i].nbytes);
            }
        });
        monitor.end();
        if (first_fault.load() < tensors.size()) {
            std::rethrow_exception(faults[first_fault.load()]);
        }
        return report;
    });
}

}  // namespace kaiju::codec
