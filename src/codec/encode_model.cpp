#include "codec/encode_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checksum.h"
#include "base/parallel.h"
#include "codec/encode_journal.h"
#include "codec/encode_tensor.h"
#include "codec/encoder_v1.h"
#include "codec/provenance.h"
#include "codec/stock.h"
#include "codec/tensor_decoder.h"
#include "codec/tensor_encoder.h"
#include "format/calibration.h"
#include "format/knot.h"
#include "format/knot_writer.h"
#include "lattice/codebook_search.h"

namespace kaiju::codec {

using nlohmann::json;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

json entry_list(const EncodePlan& plan) {
    json list = json::array();
    for (const auto& entry : plan.entries) {
        list.push_back({entry.info.name, entry.info.type, entry.info.shape, entry.info.nbytes});
    }
    return list;
}

json v3_json(const V3Options& v3, bool by_samples) {
    const json damp = by_samples && !v3.damp ? json("by samples") : json(damp_of(v3));
    return {{"fold", stats::fold_name(v3.fold)},
            {"codebook", v3.codebook == lattice::Parity::free ? "free" : "leech"},
            {"comp_cap", v3.comp_cap},
            {"damp", damp},
            {"sweeps", v3.sweeps},
            {"descent", v3.descent},
            {"side_band", v3.side_band == stats::SideBand::last ? "last" : "first"},
            {"refit_scale", v3.refit_scale},
            {"activation_order", v3.activation_order}};
}

/// What identifies an input: by its hash, or by zeros in its place where only the length counts.
struct Hashed {
    Monitor& monitor;
    template <typename Source>
    json operator()(const Source& source) const {
        return source_json(source, monitor);
    }
};
struct Unhashed {
    template <typename Source>
    json operator()(const Source& source) const {
        return unhashed_source_json(source);
    }
};

/// The metadata of the knot: a function of inputs and options, so that equal encodes give equal files.
template <typename Identify>
json metadata_of(const EncodePlan& plan, const Identify& identify) {
    const auto& options = plan.options;
    const auto identify_file = [&](const std::filesystem::path& path) {
        const MappedFile file(path);
        return identify(std::span<const MappedFile>(&file, 1));
    };
    json source = {{"model", identify(*plan.model)}};
    source["base"] = plan.base ? identify(*plan.base) : source["model"];
    source["imatrix"] = identify_file(options.imatrix);
    json kaiju = {{"encoder", encoder_name(options)},
                  {"decoder", options.decoder},
                  {"step_search", plan.is_v3() ? options.v3.step_search : 1},
                  {"hi_frac", options.hi_frac}};
    if (options.tie_head) {
        kaiju["tied_head"] = true;
    }
    if (plan.is_v3()) {
        const json id = identify_file(plan.sketch ? options.sketch : options.covariance);
        kaiju[plan.sketch ? "sketch_id" : "covariance_id"] = id.at("sha256");
        kaiju.update(v3_json(options.v3, options.wire != "KAIJU1" && plan.covariance));
        if (!options.sensitivity.empty()) {
            kaiju["sensitivity_id"] = identify_file(options.sensitivity).at("sha256");
        }
        if (options.wire != "KAIJU1") {
            kaiju["wire"] = options.wire;
            kaiju["decoder"] = "shells";  // has one search
            kaiju["rates"] = !options.sensitivity.empty()      ? "sensitivity"
                             : options.rates == Rates::uniform ? "uniform"
                                                               : "measured";
            if (options.target_size > 0) {
                kaiju["target_size"] = options.target_size;
            } else {
                kaiju["bits"] = options.bits;
            }
            kaiju["candidates"] = options.v3.candidates;
        }
    }
    json metadata = {{"general", general_json(*plan.model)},
                     {"source", source},
                     {"kaiju", kaiju},
                     {"created_by", options.created_by}};
    auto calibration = format::calibration_of(plan.imatrix);
    if (const auto more = plan.covariance ? plan.covariance->calibration() : std::nullopt) {
        calibration = calibration ? format::merged(*calibration, *more) : more;
    }
    if (calibration) {
        metadata["calibration"] = format::to_json(*calibration);
    }
    if (!options.telemetry.empty()) {
        metadata["telemetry"] = options.telemetry.filename().string();
    }
    return metadata;
}

/// Of a shard: what codec::assemble needs to make the whole of parts. The whole's telemetry is another file.
json part_metadata(const EncodePlan& plan, json metadata, const EncodeReport& report) {
    metadata.erase("telemetry");
    json entries = json::array();
    for (const auto& info : plan.whole) {
        entries.push_back(
            {{"name", info.name}, {"type", info.type}, {"shape", info.shape}, {"nbytes", info.nbytes}});
    }
    return {{"part",
             {{"shard", plan.options.shard % plan.options.shards},
              {"shards", plan.options.shards},
              {"entries", entries},
              {"metadata", metadata},
              {"telemetry", telemetry_json(plan, report)}}}};
}

/// What may not change between a run and the one that resumes it: all that decides the codes. The metadata
/// are those of the run that ends it.
json settings_of(const EncodePlan& plan, const json& metadata) {
    json settings = {{"sources", metadata.at("source")}, {"created_by", metadata.at("created_by")}};
    for (const auto& [key, value] : metadata.at("kaiju").items()) {
        settings[key] = value;
    }
    settings.erase("decoder");  // finds the same codes whatever its name
    const std::string entries = entry_list(plan).dump();
    settings["tensors"] = sha256(std::as_bytes(std::span(entries)));
    return settings;
}

/// What comes after the knot: the telemetry. The journal, which knows all of it, goes last, so that a
/// telemetry that could not be written can be had again.
void conclude(const EncodePlan& plan, uint64_t file_bytes, EncodeJournal& journal, EncodeReport& report) {
    report.linear_bits = plan.linear_bits();
    report.file_bytes = file_bytes;
    report.file_bits = 8.0 * static_cast<double>(file_bytes) / static_cast<double>(plan.all_weights());
    if (const auto& path = plan.options.telemetry; !path.empty()) {
        try {
            write_new_file(path, telemetry_json(plan, report).dump(1) + "\n");
        } catch (Error& error) {
            error.within(
                fmt::format("{} is complete, its telemetry is not: write it by the same command with "
                            "--resume, here or elsewhere",
                            plan.options.out.string()));
            throw;
        }
    }
    journal.remove();
}

/// The knot is there, and so is its journal: an earlier run got no further.
EncodeReport conclude_finished(const EncodePlan& plan, Monitor& monitor) {
    const auto& out = plan.options.out;
    EncodeJournal journal(out, settings_of(plan, metadata_of(plan, Hashed{monitor})));
    const format::KnotFile knot(out);
    const auto entries = knot.entries();
    EncodeReport report;
    report.resumed = plan.entries.size();
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const auto done = journal.finished().find(i);
        if (done == journal.finished().end() || entries.size() != plan.entries.size() ||
            entries[i].info.name != plan.entries[i].info.name || entries[i].xxh3 != done->second.xxh3) {
            throw Error(ErrorCode::output_exists,
                        fmt::format("{}: already exists, and is not what {} tells of: move one of them away",
                                    out.string(), EncodeJournal::path_of(out).string()));
        }
        if (plan.entries[i].action == PlanEntry::Action::encode) {
            report.tensors.push_back(done->second.report);
        }
    }
    monitor.info(fmt::format("{} is complete: only its telemetry was to be written", out.string()));
    conclude(plan, std::filesystem::file_size(out), journal, report);
    return report;
}

/// The job itself: entry after entry into the part file, each noted in the journal once it is written.
class Job {
  public:
    Job(const EncodePlan& plan, Monitor& monitor)
        : plan_(plan),
          monitor_(monitor),
          metadata_(metadata_of(plan, Hashed{monitor})),
          search_(make_search(plan.options)),
          writer_(plan.options.out, plan.infos(), OutputFile::OnAbandon::keep),
          journal_(plan.options.out, settings_of(plan, metadata_)) {}

    EncodeReport run() {
        const auto start = std::chrono::steady_clock::now();
        keep_finished();
        monitor_.begin("encode", plan_.encoded_weights(), "weights");
        for (size_t i = 0; i < plan_.entries.size(); ++i) {
            if (const auto done = journal_.finished().find(i); done != journal_.finished().end()) {
                report(i, done->second.report);
                monitor_.advance(plan_.entries[i].action == PlanEntry::Action::encode ? weights_of(i) : 0);
                continue;
            }
            monitor_.check_cancelled();
            report(i, within(file_of(plan_.entries[i]).path().string(), [&] {
                       return within("tensor " + plan_.entries[i].info.name, [&] { return write_entry(i); });
                   }));
        }
        report_.linear_bits = plan_.linear_bits();
        report_.seconds = seconds_since(start);
        writer_.finish(plan_.options.shards > 1 ? part_metadata(plan_, metadata_, report_) : metadata_);
        monitor_.end();
        report_.seconds = seconds_since(start);
        conclude(plan_, writer_.file_length(), journal_, report_);
        return std::move(report_);
    }

    /// The unfinished knot.
    [[nodiscard]] const std::filesystem::path& part() const { return writer_.temporary(); }

  private:
    /// Where an entry's content comes from.
    [[nodiscard]] const format::ModelFile& file_of(const PlanEntry& entry) const {
        return entry.action == PlanEntry::Action::copy ? plan_.base_file() : *plan_.model;
    }
    [[nodiscard]] uint64_t weights_of(size_t index) const { return plan_.entries[index].info.weights(); }

    // What the journal promises is checked against the part file: an entry whose bytes are not those is made
    // again.
    void keep_finished() {
        const auto promised = journal_.finished();
        if (promised.empty()) {
            return;
        }
        const MappedFile part(writer_.temporary());
        for (const auto& [index, entry] : promised) {
            const uint64_t nbytes = index < plan_.entries.size() ? plan_.entries[index].info.nbytes : 0;
            const bool inside = nbytes > 0 && fits(writer_.offset(index), nbytes, part.bytes().size());
            const Bytes payload = inside ? part.bytes().subspan(writer_.offset(index), nbytes) : Bytes{};
            if (!inside || xxh3(payload) != entry.xxh3) {
                monitor_.warn(fmt::format("entry {} of the part file is damaged: it is made again", index));
                journal_.forget(index);
            }
            part.release(payload);
        }
        report_.resumed = journal_.finished().size();
        monitor_.info(
            fmt::format("resuming: {} of {} entries are finished", report_.resumed, plan_.entries.size()));
    }

    TensorReport write_entry(size_t index) {
        const auto start = std::chrono::steady_clock::now();
        const PlanEntry& entry = plan_.entries[index];
        TensorReport tensor{.name = entry.info.name,
                            .type = entry.info.type,
                            .rows = entry.info.rows(),
                            .cols = entry.info.cols(),
                            .nbytes = entry.info.nbytes,
                            .stats = {}};
        std::vector<std::byte> made;
        Bytes payload;
        switch (entry.action) {
            case PlanEntry::Action::key_values:
                payload = plan_.model->key_values().empty() ? plan_.base_file().key_values()
                                                            : plan_.model->key_values();
                break;
            case PlanEntry::Action::copy:
                payload = plan_.base_file().payload(entry.source);
                make_tensor_decoder(entry.info, payload)->check();  // what verify would refuse is no result
                break;
            case PlanEntry::Action::encode:
                made = encode(entry, tensor.stats);
                payload = made;
                break;
            case PlanEntry::Action::quantise:
                made = quantise(entry);
                payload = made;
                break;
        }
        writer_.write_payload(index, payload);
        tensor.seconds = seconds_since(start);
        journal_.add(index, {.xxh3 = xxh3(payload), .report = tensor});
        if (entry.action != PlanEntry::Action::key_values) {
            file_of(entry).release(entry.source);
        }
        return tensor;
    }

    std::vector<std::byte> encode(const PlanEntry& entry, EncodeStats& stats) const {
        const auto weights =
            make_tensor_decoder(plan_.model->tensors()[entry.source], plan_.model->payload(entry.source));
        const auto encoder = make_row_encoder(plan_, entry, *weights, search_);
        auto payload = encode_tensor(*weights, *encoder, plan_.options.threads, monitor_, stats);
        double more_damp = 0;
        if (const auto* v3 = dynamic_cast<const EncoderV3*>(encoder.get())) {
            add_legacy_sample(*weights, kaiju1::TensorView(payload), *v3, stats);
            more_damp = v3->more_damp();
        } else if (const auto* kaiju4 = dynamic_cast<const EncoderKaiju4*>(encoder.get())) {
            more_damp = kaiju4->more_damp();
        }
        if (more_damp > 0) {
            monitor_.warn(
                fmt::format("the covariance of {} was not positive definite: damped with {:g} of its "
                            "mean diagonal",
                            entry.tap, more_damp));
        }
        return payload;
    }

    std::vector<std::byte> quantise(const PlanEntry& entry) const {
        constexpr uint64_t kRows = 16;
        const format::TensorInfo& source = plan_.model->tensors()[entry.source];
        const auto weights = make_tensor_decoder(source, plan_.model->payload(entry.source));
        const StockEncoder encoder(entry.info.type, !entry.importance.empty());
        const uint64_t cols = source.cols();
        const uint64_t row_bytes = entry.info.nbytes / source.rows();
        std::vector<std::byte> payload(entry.info.nbytes);
        parallel_for(source.rows(), kRows, plan_.options.threads, [&](size_t begin, size_t end) {
            monitor_.check_cancelled();
            std::vector<float> rows((end - begin) * cols);
            weights->decode_rows(begin, end - begin, rows.data());
            encoder.encode_rows(rows.data(), end - begin, cols, payload.data() + begin * row_bytes,
                                entry.importance.empty() ? nullptr : entry.importance.data(), begin);
        });
        return payload;
    }

    void report(size_t index, const TensorReport& tensor) {
        if (plan_.entries[index].action == PlanEntry::Action::encode) {
            report_.tensors.push_back(tensor);
        }
    }

    const EncodePlan& plan_;
    Monitor& monitor_;
    json metadata_;
    lattice::CodebookSearch search_;
    format::KnotWriter writer_;
    EncodeJournal journal_;
    EncodeReport report_;
};

/// True for a part whose journal a kill kept from being begun: the head of a knot is written last.
bool nothing_written_yet(const std::filesystem::path& part) {
    const MappedFile file(part);
    const Bytes head = file.bytes().first(std::min<size_t>(file.bytes().size(), format::KnotHeader::kBytes));
    return std::ranges::all_of(head, [](std::byte byte) { return byte == std::byte{0}; });
}

void check_part(const EncodeOptions& options) {
    auto part = options.out;
    part += ".part";
    const auto journal = EncodeJournal::path_of(options.out);
    const auto not_ours = [](const std::filesystem::path& path) {
        throw Error(ErrorCode::output_exists,
                    fmt::format("{}: is there, and no unfinished encode: move it away", path.string()));
    };
    if (std::filesystem::exists(journal) && !EncodeJournal::is_one(journal)) {
        not_ours(journal);
    }
    if (!std::filesystem::exists(part)) {  // a journal alone is of a knot that is no longer here
        std::error_code ignored;
        std::filesystem::remove(journal, ignored);
        return;
    }
    if (!std::filesystem::exists(journal) && !nothing_written_yet(part)) {
        not_ours(part);
    }
    if (!options.resume) {
        const OutputFile held(options.out, OutputFile::OnAbandon::keep);  // busy where another process works
        throw Error(
            ErrorCode::output_exists,
            fmt::format("{}: an unfinished encode is there: continue it with --resume, or delete it and {}",
                        part.string(), journal.string()));
    }
}

const PlanEntry& largest_encode(const EncodePlan& plan) {
    return *std::max_element(plan.entries.begin(), plan.entries.end(),
                             [](const PlanEntry& a, const PlanEntry& b) {
                                 const auto size = [](const PlanEntry& e) {
                                     return e.action == PlanEntry::Action::encode ? e.info.weights() : 0;
                                 };
                                 return size(a) < size(b);
                             });
}

}  // namespace

uint64_t planned_file_bytes(const EncodePlan& plan) {
    const json metadata = metadata_of(plan, Unhashed{});
    return format::KnotWriter::planned_length(
        plan.infos(), plan.options.shards > 1 ? part_metadata(plan, metadata, {}) : metadata);
}

uint64_t planned_whole_bytes(const EncodePlan& plan) {
    json metadata = metadata_of(plan, Unhashed{});
    metadata.erase("telemetry");
    return format::KnotWriter::planned_length(plan.infos(), metadata);
}

EncodeReport encode_model(const EncodePlan& plan, Monitor& monitor) {
    if (plan.finished) {
        return conclude_finished(plan, monitor);
    }
    check_part(plan.options);
    Job job(plan, monitor);
    try {
        return job.run();
    } catch (Error& error) {
        if (error.code() == ErrorCode::interrupted) {
            throw Error(
                ErrorCode::interrupted,
                fmt::format("interrupted: what is finished is kept in {}.part; continue with --resume",
                            plan.options.out.string()));
        }
        if (!std::filesystem::exists(job.part())) {  // the knot is complete: it was something after it
            throw;
        }
        throw Error(error.code(), fmt::format("{}; what is finished is kept in {}: continue with --resume "
                                              "once that is mended, or delete it and its journal",
                                              error.what(), job.part().string()));
    }
}

double estimate_seconds(const EncodePlan& plan) {
    if (plan.encoded_weights() == 0) {  // a shard that only copies
        return 0;
    }
    const PlanEntry& entry = largest_encode(plan);
    const lattice::CodebookSearch search = make_search(plan.options);
    const auto weights =
        make_tensor_decoder(plan.model->tensors()[entry.source], plan.model->payload(entry.source));
    const auto encoder = make_row_encoder(plan, entry, *weights, search);
    const uint64_t rows = std::min<uint64_t>(encoder->rows(), 2 * encoder->rows_per_piece());
    std::vector<float> piece(rows * encoder->cols());
    std::vector<std::byte> records(rows * encoder->row_bytes());
    std::vector<EncodeStats> stats(rows);
    const auto start = std::chrono::steady_clock::now();
    weights->decode_rows(0, rows, piece.data());
    encoder->encode_rows(piece.data(), rows, records.data(), stats.data());
    return seconds_since(start) / static_cast<double>(piece.size()) *
           static_cast<double>(plan.encoded_weights()) / plan.options.threads;
}

namespace {

/// Memory that encoding one tensor takes beyond its payload and its mapped weights.
uint64_t working_bytes(const EncodePlan& plan, const PlanEntry& entry) {
    const auto threads = static_cast<uint64_t>(plan.options.threads);
    if (!plan.is_v3() || entry.action != PlanEntry::Action::encode) {
        return threads * EncoderV1::bytes_per_thread(entry.layout);
    }
    const uint64_t rank = plan.sketch ? std::max(1U, plan.sketch->find(entry.tap)->k) : 0;
    if (const auto index_bits = kaiju4::index_bits_of(entry.info.type)) {
        const auto layout = kaiju4::Layout::for_matrix(entry.info.rows(), entry.info.cols(), *index_bits);
        return threads * EncoderKaiju4::bytes_per_thread(layout) +
               EncoderV3::shared_bytes(kaiju4::kBlock * layout.n_blocks(), rank);
    }
    return threads * EncoderV3::bytes_per_thread(entry.layout) +
           EncoderV3::shared_bytes(entry.layout.cols, rank);
}

}  // namespace

uint64_t estimate_memory(const EncodePlan& plan) {
    uint64_t largest = 0;
    for (const auto& entry : plan.entries) {
        if (entry.action == PlanEntry::Action::encode || entry.action == PlanEntry::Action::quantise) {
            const uint64_t mapped = plan.model->tensors()[entry.source].nbytes;
            largest = std::max(largest, entry.info.nbytes + mapped + working_bytes(plan, entry));
        } else {
            largest = std::max(largest, entry.info.nbytes);
        }
    }
    return largest;
}

json telemetry_json(const EncodePlan& plan, const EncodeReport& report) {
    const auto stats_json = [](const EncodeStats& stats) {
        const double blocks = std::max<double>(1, static_cast<double>(stats.blocks));
        json row = {{"diagonal_excess", stats.diagonal_excess},
                    {"relative_excess",
                     stats.diagonal_energy > 0 ? stats.diagonal_excess / stats.diagonal_energy : 0},
                    {"blocks", stats.blocks},
                    {"clamp_rate", static_cast<double>(stats.clamped_blocks) / blocks},
                    {"clamped_trits", stats.clamped_trits},
                    {"multipliers", stats.multipliers}};
        if (stats.full_energy > 0) {
            row["full_excess"] = stats.full_excess;
            row["relative_full_excess"] = stats.full_excess / stats.full_energy;
            row["legacy_relative_full_excess"] = stats.legacy_full_excess / stats.legacy_full_energy;
            row["excess_ratio"] = stats.excess_ratio();
            row["legacy_clamp_rate"] = static_cast<double>(stats.legacy_clamped_blocks) /
                                       std::max<double>(1, static_cast<double>(stats.legacy_blocks));
            row["clamp_ratio"] = stats.clamp_ratio();
        }
        return row;
    };
    json tensors = json::array();
    EncodeStats total;
    uint64_t bytes = 0;
    for (const auto& tensor : report.tensors) {
        json row = stats_json(tensor.stats);
        row["name"] = tensor.name;
        row["type"] = tensor.type;
        row["rows"] = tensor.rows;
        row["cols"] = tensor.cols;
        row["bytes"] = tensor.nbytes;
        row["bits"] =
            8.0 * static_cast<double>(tensor.nbytes) / static_cast<double>(tensor.rows * tensor.cols);
        row["seconds"] = tensor.seconds;
        tensors.push_back(row);
        total += tensor.stats;
        bytes += tensor.nbytes;
    }
    json totals = stats_json(total);
    totals["tensors"] = report.tensors.size();
    totals["weights"] = plan.encoded_weights();
    totals["bytes"] = bytes;
    totals["linear_bits"] = report.linear_bits;
    totals["file_bytes"] = report.file_bytes;
    totals["file_bits"] = report.file_bits;
    totals["seconds"] = report.seconds;
    return {{"encoder", encoder_name(plan.options)},
            {"decoder", plan.options.decoder},
            {"hi_frac", plan.options.hi_frac},
            {"threads", plan.options.threads},
            {"created_by", plan.options.created_by},
            {"tensors", tensors},
            {"totals", totals}};
}

}  // namespace kaiju::codec
