// Encoding a whole model: carries out an EncodePlan, resumes one that was cut short.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/monitor.h"
#include "codec/encode_plan.h"
#include "codec/telemetry.h"

namespace kaiju::codec {

/// One encoded tensor.
struct TensorReport {
    std::string name;
    std::string type;
    uint64_t rows = 0;
    uint64_t cols = 0;
    uint64_t nbytes = 0;
    double seconds = 0;  ///< wall time; of the run that encoded it, where the job was resumed
    EncodeStats stats;
};

struct EncodeReport {
    std::vector<TensorReport> tensors;  ///< those that were encoded, in file order
    uint64_t resumed = 0;               ///< entries found finished by an earlier run
    uint64_t file_bytes = 0;
    double linear_bits = 0;
    double file_bits = 0;
    double seconds = 0;  ///< wall time of this run
};

/// Writes the knot. It is built as "<out>.part" beside a journal "<out>.part.journal" with a line for every
/// finished entry; a run that is killed anywhere leaves both, and options.resume continues: what the journal
/// says is finished is checked against its checksum, the rest is made. The result has the same bytes as an
/// uninterrupted run, for any number of threads. Memory: one tensor's payload and its mapped weights, plus a
/// few rows per thread. Then it writes options.telemetry; where that fails, knot and journal stay, the
/// message says so, and options.resume (plan.finished) makes up for it. Throws output_exists where an
/// unfinished part is there and resume was not asked for, usage where a setting that shapes the result
/// differs from the part's, interrupted when the monitor says so, io.
EncodeReport encode_model(const EncodePlan& plan, Monitor& monitor);

/// Length of the file that encode_model writes, to the byte; of a shard, which carries its telemetry too,
/// less that.
[[nodiscard]] uint64_t planned_file_bytes(const EncodePlan& plan);

/// The same of the whole knot while the plan still has all entries, also where a shard is to be made, and
/// without the telemetry's name: what the entries' types may depend on, since shards and assemble must agree
/// on them.
[[nodiscard]] uint64_t planned_whole_bytes(const EncodePlan& plan);

/// Seconds that the plan will take on options.threads threads, from encoding a few rows here and now.
[[nodiscard]] double estimate_seconds(const EncodePlan& plan);

/// Bytes of memory that encode_model needs beyond the program itself: the largest payload, its mapped source,
/// and the rows in flight.
[[nodiscard]] uint64_t estimate_memory(const EncodePlan& plan);

/// The telemetry file (docs/telemetry.md): per tensor and in total.
[[nodiscard]] nlohmann::json telemetry_json(const EncodePlan& plan, const EncodeReport& report);

}  // namespace kaiju::codec
