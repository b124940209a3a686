#include "codec/encode_plan.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "base/file.h"
#include "codec/encode_journal.h"
#include "codec/encode_model.h"
#include "codec/kaiju4.h"
#include "codec/rates.h"
#include "codec/row_encoder.h"
#include "codec/scope.h"
#include "codec/stock.h"
#include "codec/tensor_decoder.h"
#include "codec/tied_head.h"
#include "format/key_values.h"
#include "format/knot_writer.h"
#include "format/taps.h"
#include "lattice/codebook_search.h"

namespace kaiju::codec {

namespace {

using format::TensorInfo;

constexpr std::string_view kCopy = "COPY";
constexpr std::string_view kKaiju1 = "KAIJU1";

/// The type that the usual tensors get.
std::string wire_type(const EncodeOptions& options) {
    if (options.wire == kKaiju1) {
        return std::string(kKaiju1);
    }
    if (options.wire != "KAIJU4") {
        throw Error(ErrorCode::usage,
                    fmt::format("no wire is called \"{}\"; KAIJU1 and KAIJU4 are", options.wire));
    }
    if (!(options.bits >= kaiju4::kLeastBits && options.bits <= kaiju4::kMostBits)) {
        throw Error(ErrorCode::usage, fmt::format("--bits {}: KAIJU4 has {} to {} bits a weight",
                                                  options.bits, kaiju4::kLeastBits, kaiju4::kMostBits));
    }
    return kaiju4::type_name(lattice::kLeastIndexBits);  // choose_rates raises it
}

/// Matches in time linear in the name whatever the pattern, which std::regex does not.
using Regex = std::unique_ptr<const re2::RE2>;

Regex compile(const std::string& pattern) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    auto regex = std::make_unique<const re2::RE2>(pattern, options);
    if (!regex->ok()) {
        throw Error(ErrorCode::usage,
                    fmt::format("\"{}\" is not a regular expression: {}", pattern, regex->error()));
    }
    return regex;
}

bool matches(const Regex& regex, const TensorInfo& tensor) {
    return re2::RE2::PartialMatch(tensor.name, *regex);
}

/// Which type each tensor is to get, from the command line's patterns.
class Selection {
  public:
    /// may_be_encoded: what --include and --exclude choose from.
    Selection(const EncodeOptions& options, std::function<bool(const TensorInfo&)> may_be_encoded)
        : wire_(wire_type(options)), may_be_encoded_(std::move(may_be_encoded)) {
        for (const auto& pattern : options.include) {
            include_.push_back(compile(pattern));
        }
        for (const auto& pattern : options.exclude) {
            exclude_.push_back(compile(pattern));
        }
        for (const auto& rule : options.types) {
            if (rule.type != kCopy && !is_kaiju_type(rule.type)) {
                check_stock_type(rule);
            }
            rules_.emplace_back(compile(rule.pattern), rule.type);
        }
    }

    /// A wire of this project, COPY or a stock type.
    [[nodiscard]] std::string type_of(const TensorInfo& tensor) const {
        const auto fits = [&](const Regex& regex) { return matches(regex, tensor); };
        const auto rule = std::find_if(rules_.rbegin(), rules_.rend(),
                                       [&](const auto& candidate) { return fits(candidate.first); });
        if (rule != rules_.rend()) {
            return rule->second;
        }
        const bool wanted =
            include_.empty() ? is_linear_weight(tensor.name)
                             : may_be_encoded_(tensor) && std::any_of(include_.begin(), include_.end(), fits);
        const bool encode = wanted && !std::any_of(exclude_.begin(), exclude_.end(), fits);
        return encode ? wire_ : std::string(kCopy);
    }

    /// True for what gets the wire because of its role, and not by a rule.
    [[nodiscard]] bool rate_is_free(const TensorInfo& tensor) const {
        return type_of(tensor) == wire_ && std::none_of(rules_.begin(), rules_.end(), [&](const auto& rule) {
                   return matches(rule.first, tensor);
               });
    }

    /// A pattern that matches nothing it could decide about is a slip of the hand: Error(usage) naming it.
    void require_matches(const EncodeOptions& options, std::span<const TensorInfo> tensors) const {
        const auto require = [&](std::string_view option, const std::string& pattern, bool of_matrices) {
            const Regex regex = compile(pattern);
            if (std::none_of(tensors.begin(), tensors.end(), [&](const TensorInfo& t) {
                    return matches(regex, t) && (!of_matrices || may_be_encoded_(t));
                })) {
                throw Error(
                    ErrorCode::usage,
                    fmt::format("{} {}: no {} of the base matches; kaiju knot info lists {}", option, pattern,
                                of_matrices ? "matrix that may be encoded (one with importances, and "
                                              "for v3 with a covariance)"
                                            : "tensor",
                                of_matrices ? "its tensors" : "them"));
            }
        };
        for (const auto& pattern : options.include) {
            require("--include", pattern, true);
        }
        for (const auto& pattern : options.exclude) {
            require("--exclude", pattern, true);
        }
        for (const auto& rule : options.types) {
            require("--tensor-type", rule.pattern, false);
        }
    }

  private:
    static void check_stock_type(const TypeRule& rule) {
        try {
            (void)StockEncoder(rule.type, true);
        } catch (const Error& error) {
            throw Error(ErrorCode::usage,
                        fmt::format("--tensor-type {}={}: {}", rule.pattern, rule.type, error.what()));
        }
    }

    std::string wire_;
    std::function<bool(const TensorInfo&)> may_be_encoded_;
    std::vector<Regex> include_;
    std::vector<Regex> exclude_;
    std::vector<std::pair<Regex, std::string>> rules_;
};

std::optional<std::string> tap_of(const EncodePlan& plan, const TensorInfo& tensor) {
    return format::tap_of(tensor.name, format::is_tied(plan.base_file().tensors()));
}

/// What --include and --exclude choose from: the usual roles, whose importances must be there, and every
/// other matrix that has what the encoder needs. Not vectors, nor tables that tokens are looked up in.
bool may_be_encoded(const EncodePlan& plan, const TensorInfo& tensor) {
    return is_linear_weight(tensor.name) ||
           (tensor.shape.size() == 2 && plan.imatrix.find(tensor.name) != nullptr &&
            (!plan.is_v3() || tap_of(plan, tensor)));
}

[[noreturn]] void refuse(ErrorCode code, std::string_view tensor, std::string_view why) {
    throw Error(code, fmt::format("tensor {}: {}", tensor, why));
}

std::string shape_text(const TensorInfo& tensor) {
    return fmt::format("{}", fmt::join(tensor.shape, " x "));
}

size_t find_in_model(const EncodePlan& plan, const TensorInfo& wanted) {
    const auto index = plan.model->find(wanted.name);
    if (!index) {
        refuse(ErrorCode::missing, wanted.name,
               fmt::format("the base has it, the model {} does not: they are not the same model",
                           plan.model->path().string()));
    }
    const TensorInfo& found = plan.model->tensors()[*index];
    if (found.shape != wanted.shape) {
        refuse(
            ErrorCode::bad_input, wanted.name,
            fmt::format("{} in {}, {} in the base {}: they are not the same model", shape_text(found),
                        plan.model->path().string(), shape_text(wanted), plan.base_file().path().string()));
    }
    return *index;
}

std::vector<float> checked_importance(const EncodePlan& plan, const TensorInfo& tensor) {
    const std::string file = plan.options.imatrix.string();
    const auto* entry = plan.imatrix.find(tensor.name);
    if (entry == nullptr) {
        const bool head = tensor.name == "output.weight" || tensor.name == "token_embd.weight";
        refuse(
            ErrorCode::missing, tensor.name,
            head ? fmt::format(
                       "{} has no entry for it: kaiju imatrix --covariance or --sketch makes one with an "
                       "entry for the head, from what kaiju capture --head measured; an embedding that is "
                       "no head can be copied or have a stock type",
                       file)
                 : fmt::format("{} has no entry for it: make the matrix from this model (kaiju imatrix), or "
                               "leave the tensor out with --exclude",
                               file));
    }
    auto mean = entry->mean_squares();
    within("tensor " + tensor.name, [&] { within(file, [&] { check_importance(mean, tensor.cols()); }); });
    return mean;
}

/// The tap whose covariance the tensor is encoded against, there and of the right size.
std::string checked_tap(const EncodePlan& plan, const TensorInfo& tensor) {
    const auto tap = tap_of(plan, tensor);
    if (!tap) {
        refuse(ErrorCode::usage, tensor.name,
               "v3 needs the covariance of its inputs, and no tap is known for it: leave it out with "
               "--exclude, or "
               "give it a stock type");
    }
    const auto require_dim = [&](const std::filesystem::path& file, const auto* entry) {
        if (entry == nullptr) {
            refuse(ErrorCode::missing, tensor.name,
                   fmt::format("{} has no tap {}: capture it from this model (kaiju capture)", file.string(),
                               *tap));
        }
        if (entry->dim != tensor.cols()) {
            refuse(ErrorCode::bad_input, tensor.name,
                   fmt::format(
                       "tap {} of {} has {} inputs, the tensor has {} columns: it belongs to another model",
                       *tap, file.string(), entry->dim, tensor.cols()));
        }
    };
    if (plan.sketch) {
        require_dim(plan.options.sketch, plan.sketch->find(*tap));
    } else {
        require_dim(plan.options.covariance, plan.covariance->find(*tap));
    }
    return *tap;
}

PlanEntry plan_tensor(const EncodePlan& plan, size_t base_index, const std::string& type) {
    const TensorInfo& tensor = plan.base_file().tensors()[base_index];
    PlanEntry entry{.info = tensor};
    entry.source = base_index;
    const size_t in_model = find_in_model(plan, tensor);
    if (type == kCopy) {
        return entry;
    }
    if (const std::string& stored = plan.model->tensors()[in_model].type; is_kaiju_type(stored)) {
        refuse(ErrorCode::bad_input, tensor.name,
               fmt::format("{} has it as {} already: encode from an f16, bf16, f32 or stock file",
                           plan.model->path().string(), stored));
    }
    if (tensor.shape.size() != 2) {
        refuse(ErrorCode::bad_input, tensor.name,
               fmt::format("{} has {} dimension(s): only matrices can be {}", shape_text(tensor),
                           tensor.shape.size(), type));
    }
    entry.source = in_model;
    entry.info.type = type;
    if (is_kaiju_type(type)) {
        entry.action = PlanEntry::Action::encode;
        entry.importance = checked_importance(plan, tensor);
        entry.tap = plan.is_v3() ? checked_tap(plan, tensor) : "";
        if (const auto index_bits = kaiju4::index_bits_of(type)) {
            if (!plan.is_v3()) {
                refuse(ErrorCode::usage, tensor.name, type + " is made by --encoder v3 only");
            }
            entry.info.nbytes =
                kaiju4::Layout::for_matrix(tensor.rows(), tensor.cols(), *index_bits).payload_bytes();
        } else {
            entry.layout = kaiju1::Layout::for_matrix(tensor.rows(), tensor.cols(), plan.options.hi_frac);
            entry.layout.perm_kind = plan.is_v3() && plan.options.v3.activation_order ? 1 : 0;
            entry.info.nbytes = entry.layout.payload_bytes();
        }
    } else {
        entry.action = PlanEntry::Action::quantise;
        if (plan.imatrix.find(tensor.name) != nullptr) {
            entry.importance = checked_importance(plan, tensor);
        }
        entry.info = within("tensor " + tensor.name, [&] {
            return StockEncoder(type, !entry.importance.empty()).describe(entry.info);
        });
    }
    return entry;
}

void check_same_vocabulary(const EncodePlan& plan) {
    if (!plan.base) {
        return;
    }
    const format::KeyValues model(plan.model->key_values());
    const format::KeyValues base(plan.base->key_values());
    constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
    const auto ours = model.find_strings(kTokens);
    const auto theirs = base.find_strings(kTokens);
    if (ours && theirs && *ours != *theirs) {
        throw Error(
            ErrorCode::bad_input,
            fmt::format(
                "{} and {} have different vocabularies ({} and {} tokens): the base belongs to another "
                "model",
                plan.model->path().string(), plan.base->path().string(), ours->size(), theirs->size()));
    }
}

void check_scope(const EncodePlan& plan) {
    const Bytes bytes = plan.model->key_values();
    const format::KeyValues key_values(bytes);
    if (const auto reason = out_of_scope(key_values, plan.model->tensors())) {
        throw Error(ErrorCode::bad_input, fmt::format("{}: {}", plan.model->path().string(), *reason));
    }
}

// A tensor of the usual roles that only the model has would silently be dropped from the file.
void check_base_is_complete(const EncodePlan& plan) {
    for (const auto& tensor : plan.model->tensors()) {
        if (!plan.base_file().find(tensor.name)) {
            refuse(ErrorCode::missing, tensor.name,
                   fmt::format("the model has it, the base {} does not: they are not the same model",
                               plan.base_file().path().string()));
        }
    }
}

// Found before the work, not after it.
void check_outputs(const EncodePlan& plan) {
    const EncodeOptions& options = plan.options;
    auto part = options.out;
    part += ".part";
    require_distinct({options.out, options.telemetry, part, EncodeJournal::path_of(options.out)});
    require_outputs({plan.finished ? std::filesystem::path() : options.out, options.telemetry});
}

void check_disk(const EncodePlan& plan) {
    const auto folder = plan.options.out.has_parent_path() ? plan.options.out.parent_path() : ".";
    std::error_code error;
    const auto space = std::filesystem::space(folder, error);
    if (error) {
        throw Error(ErrorCode::missing,
                    fmt::format("{}: cannot be written to: {}", folder.string(), error.message()));
    }
    auto part = plan.options.out;
    part += ".part";
    const auto there = std::filesystem::file_size(part, error);
    const uint64_t reserved = error ? 0 : there;
    const uint64_t needed = planned_file_bytes(plan);
    if (!plan.finished && needed > space.available + reserved) {
        throw Error(ErrorCode::io, fmt::format("{}: the output needs {} bytes, {} are free", folder.string(),
                                               needed, space.available));
    }
}

/// An entry for every tensor that the file is to have. Where the head is tied, the embedding is made of the
/// head: of two quantisations of one matrix that is the finer one, and the model feels its errors more.
void plan_tensors(EncodePlan& plan, const Selection& selection) {
    const auto tensors = plan.base_file().tensors();
    std::vector<TensorInfo> stored(tensors.begin(), tensors.end());
    std::vector<size_t> made_of(tensors.size());
    std::iota(made_of.begin(), made_of.end(), 0);
    if (plan.options.tie_head) {
        require_tied(*plan.model);
        const TiedHead tied = find_head(plan.base_file());
        made_of[tied.embedding] = tied.head;
        made_of.erase(made_of.begin() + static_cast<std::ptrdiff_t>(tied.head));
        stored.erase(stored.begin() + static_cast<std::ptrdiff_t>(tied.head));
    }
    selection.require_matches(plan.options, stored);
    for (size_t i = 0; i < stored.size(); ++i) {
        PlanEntry entry = plan_tensor(plan, made_of[i], selection.type_of(stored[i]));
        entry.info.name = stored[i].name;
        entry.free_rate = selection.rate_is_free(stored[i]);
        plan.entries.push_back(std::move(entry));
    }
}

/// Keeps the entries of one shard. Each goes, the largest first, to the shard that has least to do so far: a
/// function of the list alone, so that shards made apart fit together.
void keep_shard(EncodePlan& plan) {
    constexpr uint64_t kBytesPerWeight = 64;  // copying so many costs less than encoding one weight
    const uint64_t shards = plan.options.shards;
    plan.whole = plan.infos();
    if (plan.entries.size() < shards) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} shards of {} entries: some would be empty", shards, plan.entries.size()));
    }
    std::vector<std::pair<uint64_t, size_t>> by_cost;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const PlanEntry& entry = plan.entries[i];
        const bool work =
            entry.action == PlanEntry::Action::encode || entry.action == PlanEntry::Action::quantise;
        by_cost.emplace_back(work ? entry.info.weights() : entry.info.nbytes / kBytesPerWeight + 1, i);
    }
    std::stable_sort(by_cost.begin(), by_cost.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<uint64_t> load(shards);
    std::vector<bool> ours(plan.entries.size());
    for (const auto& [cost, index] : by_cost) {
        const auto least = std::min_element(load.begin(), load.end());
        *least += cost;
        ours[index] = static_cast<uint64_t>(least - load.begin()) == plan.options.shard % shards;
    }
    std::vector<PlanEntry> kept;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        if (ours[i]) {
            kept.push_back(std::move(plan.entries[i]));
        }
    }
    plan.entries = std::move(kept);
}

}  // namespace

double EncodePlan::linear_bits() const {
    return encoded_weights() == 0
               ? 0
               : 8.0 * static_cast<double>(payload_bytes()) / static_cast<double>(encoded_weights());
}

uint64_t EncodePlan::encoded_weights() const {
    uint64_t weights = 0;
    for (const auto& entry : entries) {
        weights += entry.action == PlanEntry::Action::encode ? entry.info.weights() : 0;
    }
    return weights;
}

uint64_t EncodePlan::all_weights() const {
    uint64_t weights = 0;
    for (const auto& entry : entries) {
        weights += entry.action == PlanEntry::Action::key_values ? 0 : entry.info.weights();
    }
    return weights;
}

uint64_t EncodePlan::payload_bytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : entries) {
        bytes += entry.action == PlanEntry::Action::encode ? entry.info.nbytes : 0;
    }
    return bytes;
}

std::vector<TensorInfo> EncodePlan::infos() const {
    std::vector<TensorInfo> all;
    for (const auto& entry : entries) {
        all.push_back(entry.info);
    }
    return all;
}

void check_encoder(const EncodeOptions& options) {
    const bool v3 = options.encoder == "v3";
    if (!v3 && options.encoder != "v1") {
        throw Error(ErrorCode::usage,
                    fmt::format("encoder \"{}\" is not known; v1 and v3 are", options.encoder));
    }
    const int covariances = (options.sketch.empty() ? 0 : 1) + (options.covariance.empty() ? 0 : 1);
    if (covariances != (v3 ? 1 : 0)) {
        throw Error(ErrorCode::usage,
                    covariances == 2 ? "--sketch and --covariance are both given; an encode reads one of them"
                    : v3 ? "--encoder v3 needs one of --sketch and --covariance; kaiju capture makes both"
                         : "--sketch and --covariance are for --encoder v3");
    }
    if (v3) {
        check(options.v3);
    } else if (!options.sensitivity.empty()) {
        throw Error(ErrorCode::usage, "--sensitivity is for --encoder v3");
    }
}

std::string_view encoder_name(const EncodeOptions& options) {
    return options.encoder == "v3" ? "v3-gptq-leech" : "v1-legacy";
}

EncodePlan plan_encode(const EncodeOptions& options) {
    EncodePlan plan{.options = options};
    plan.finished = options.resume && std::filesystem::exists(options.out) &&
                    std::filesystem::exists(EncodeJournal::path_of(options.out));
    check_encoder(options);
    check_outputs(plan);
    (void)lattice::codebook_method(options.decoder);  // throws on an unknown name
    const Selection selection(options,
                              [&plan](const TensorInfo& tensor) { return may_be_encoded(plan, tensor); });
    plan.model = format::ModelFile::open(options.model);
    if (!options.base.empty() && options.base != options.model) {
        plan.base = format::ModelFile::open(options.base);
    }
    check_scope(plan);
    plan.imatrix = format::read_imatrix(options.imatrix);
    if (!options.sketch.empty()) {
        plan.sketch = std::make_unique<format::SketchFile>(options.sketch);
    } else if (!options.covariance.empty()) {
        plan.covariance = std::make_unique<format::CovarianceFile>(options.covariance);
    }
    check_base_is_complete(plan);
    check_same_vocabulary(plan);

    const Bytes key_values =
        plan.model->key_values().empty() ? plan.base_file().key_values() : plan.model->key_values();
    if (!key_values.empty()) {
        plan.entries.push_back(
            {.action = PlanEntry::Action::key_values, .info = format::key_values_entry(key_values)});
    }
    plan_tensors(plan, selection);
    if (plan.encoded_weights() == 0) {
        throw Error(
            ErrorCode::usage,
            fmt::format("{}: no tensor is left to encode: check --include, --exclude and --tensor-type",
                        options.model.string()));
    }
    choose_rates(plan);
    if (options.shards > 1) {
        keep_shard(plan);
    }
    check_disk(plan);
    return plan;
}

}  // namespace kaiju::codec
