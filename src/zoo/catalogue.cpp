#include "zoo/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "codec/kaiju4.h"
#include "format/qspec.h"
#include "format/stock_types.h"
#include "zoo/store.h"

namespace kaiju::zoo {

namespace {

constexpr uint64_t kLongestFile = uint64_t{64} << 20;
constexpr std::array<std::string_view, 5> kWantedNames{"ready", "auto-feed", "EXTERNAL", "HOLD",
                                                       "out-of-scope"};
constexpr std::array<SizeClass, 5> kSizes{{{"tiny", 0.6, 2, 8, 4},
                                           {"small", 2.5, 8, 24, 8},
                                           {"medium", 10, 24, 96, 24},
                                           {"large", 40, 72, 320, 64},
                                           {"huge", 130, 168, 800, 128}}};
constexpr std::string_view kSketchEnd = ".sket";
constexpr std::string_view kKnotEnd = ".knot";
constexpr double kMostHours = 24 * 366;
constexpr double kMostOfAnything = 1e9;
constexpr uint64_t kMostShards = 4096;
constexpr uint64_t kMostChunks = uint64_t{1} << 30;

[[noreturn]] void refuse(const std::string& message) {
    throw Error(ErrorCode::bad_input, message);
}

/// Reads a table key by key and refuses what nobody asked for.
class TableReader {
  public:
    explicit TableReader(const toml::table& table) : table_(table) {}

    std::string text(std::string_view key, const std::string& otherwise = {}) {
        const toml::node* node = take(key);
        if (node == nullptr) {
            return otherwise;
        }
        const auto value = node->value_exact<std::string>();
        if (!value) {
            refuse(fmt::format("\"{}\" is not a string", key));
        }
        return *value;
    }
    std::string required(std::string_view key) {
        if (!table_.contains(key)) {
            refuse(fmt::format("\"{}\" is missing", key));
        }
        return text(key);
    }
    std::optional<double> positive(std::string_view key, double most = kMostOfAnything) {
        const toml::node* node = take(key);
        if (node == nullptr) {
            return std::nullopt;
        }
        const auto value = node->is_number() ? node->value<double>() : std::nullopt;
        if (!value || !std::isfinite(*value) || *value <= 0 || *value > most) {
            refuse(fmt::format("\"{}\" is not a positive number up to {}", key, most));
        }
        return value;
    }
    std::optional<uint64_t> count(std::string_view key, uint64_t most, uint64_t least = 1) {
        const toml::node* node = take(key);
        if (node == nullptr) {
            return std::nullopt;
        }
        const auto value = node->value_exact<int64_t>();
        if (!value || *value < 0 || static_cast<uint64_t>(*value) < least ||
            static_cast<uint64_t>(*value) > most) {
            refuse(fmt::format("\"{}\" is not an integer in {}..{}", key, least, most));
        }
        return static_cast<uint64_t>(*value);
    }
    const toml::table* table(std::string_view key) {
        const toml::node* node = take(key);
        if (node != nullptr && !node->is_table()) {
            refuse(fmt::format("\"{}\" is not a table", key));
        }
        return node == nullptr ? nullptr : node->as_table();
    }
    const toml::array* array(std::string_view key) {
        const toml::node* node = take(key);
        if (node != nullptr && !node->is_array()) {
            refuse(fmt::format("\"{}\" is not an array", key));
        }
        return node == nullptr ? nullptr : node->as_array();
    }
    void finish() const {
        for (const auto& [key, value] : table_) {
            if (!asked_.contains(key.str())) {
                refuse(fmt::format("unknown key \"{}\"", format::printable(key.str())));
            }
        }
    }

  private:
    const toml::node* take(std::string_view key) {
        asked_.emplace(key);
        return table_.get(key);
    }

    const toml::table& table_;
    std::set<std::string, std::less<>> asked_;
};

Wanted wanted_named(const std::string& name) {
    const auto at = std::find(kWantedNames.begin(), kWantedNames.end(), name);
    if (at == kWantedNames.end()) {
        refuse(
            fmt::format("status '{}' is none of {}", format::printable(name), fmt::join(kWantedNames, ", ")));
    }
    return static_cast<Wanted>(at - kWantedNames.begin());
}

/// Whether a key without its ending, or an id, ends like a result's: "-kaiju1", "-kaiju3-r2".
bool ends_like_a_result(std::string_view stem) {
    constexpr std::string_view kMark = "-kaiju";
    const size_t at = stem.rfind(kMark);
    if (at == std::string_view::npos) {
        return false;
    }
    const std::string_view rest = stem.substr(at + kMark.size());
    return rest == "1" || ((rest.starts_with("3-r") || rest.starts_with("4-r")) && rest.size() > 3 &&
                           rest.find_first_not_of("0123456789", 3) == std::string_view::npos);
}

/// Addresses of a catalogue end up in plans, process arguments and reports: none may hold a secret.
void check_address(std::string_view key, const std::string& address) {
    const size_t scheme = address.find("://");
    if (scheme == std::string::npos) {
        return;
    }
    const std::string_view rest = std::string_view(address).substr(scheme + 3);
    if (rest.find('?') != std::string_view::npos) {
        refuse(fmt::format(
            "\"{}\" has a query, which may hold a secret: fetch it and give the file's path, or an "
            "address without",
            key));
    }
    if (rest.substr(0, rest.find('/')).find('@') != std::string_view::npos) {
        refuse(
            fmt::format("\"{}\" has a user or password in it: credentials belong into the environment", key));
    }
}

/// The watcher looks at one listing a tick: all that a model needs must be in it.
void check_own_key(const std::string& key) {
    check_key(key);
    if (!key.starts_with("models/")) {
        refuse(fmt::format("'{}' is no key of a model: those begin with models/", format::printable(key)));
    }
}

void read_keys(const toml::table* table, Model& model) {
    if (table == nullptr) {
        return;
    }
    TableReader keys(*table);
    for (const char* what : {"f16", "imatrix", "sketch", "base", "qspec", "v1"}) {
        if (const std::string key = keys.text(what); !key.empty()) {
            check_own_key(key);
            if (std::string_view(what) != "v1" && key.ends_with(kKnotEnd) &&
                ends_like_a_result(std::string_view(key).substr(0, key.size() - kKnotEnd.size()))) {
                refuse(fmt::format("the key of \"{}\" is that of a result", what));
            }
            model.keys[what] = key;
        }
    }
    keys.finish();
}

void check_model(const Model& model) {
    const bool apart = model.wanted == Wanted::hold || model.wanted == Wanted::out_of_scope;
    if (apart && model.reason.empty()) {
        refuse(fmt::format("status {} without a \"reason\"", wanted_name(model.wanted)));
    }
    if (model.wanted == Wanted::auto_feed && model.source.empty()) {
        refuse("status auto-feed without a \"source\" to feed from");
    }
    if (model.wire != "KAIJU1" && model.wire != "KAIJU4") {
        refuse(fmt::format("wire '{}' is neither KAIJU1 nor KAIJU4", format::printable(model.wire)));
    }
    if (model.encoder != "v1" && model.encoder != "v3") {
        refuse(fmt::format("encoder '{}' is neither v1 nor v3", format::printable(model.encoder)));
    }
    if (model.wire == "KAIJU4" && model.encoder != "v3") {
        refuse("wire KAIJU4 is made by encoder v3");
    }
    if (model.clamp_limit && !model.follows_v1()) {
        refuse("\"clamp_limit\" is one of encoder v3 on wire KAIJU1");
    }
    if (model.bits && model.wire != "KAIJU4") {
        refuse("\"bits\" belongs to wire KAIJU4");
    }
    if (model.bits && (*model.bits < codec::kaiju4::kLeastBits || *model.bits > codec::kaiju4::kMostBits)) {
        refuse(fmt::format("\"bits\" is not within {} to {}", codec::kaiju4::kLeastBits,
                           codec::kaiju4::kMostBits));
    }
    if (model.kl_max && model.reference.empty()) {
        refuse("\"kl_max\" without a \"reference\" to diverge from");
    }
    if (model.encoder == "v3" && !apart && (!model.ppl_max || !model.kl_max)) {
        refuse(
            "encoder v3 (wire KAIJU4 too) needs explicit limits: \"ppl_max\", \"kl_max\" and \"reference\"");
    }
    if (model.has_own_reference()) {
        check_own_key(model.reference);
    }
}

Model read_model(const toml::table& table) {
    TableReader reader(table);
    Model model;
    model.id = reader.required("id");
    if (!format::is_model_id(model.id)) {
        refuse(fmt::format("'{}' is no id: [a-z0-9][a-z0-9._-]{{0,63}} is", format::printable(model.id)));
    }
    if (ends_like_a_result(model.id)) {
        refuse(fmt::format("the id {} ends like the name of a result: its base would be taken for one",
                           model.id));
    }
    return within(model.id, [&] {
        model.family = reader.required("family");
        model.size = reader.required("size");
        (void)size_class(model.size);
        model.wanted = wanted_named(reader.required("status"));
        model.source = reader.text("source");
        model.reason = reader.text("reason");
        model.wire = reader.text("wire", model.wire);
        model.encoder = reader.text("encoder", model.wire == "KAIJU4" ? "v3" : "v1");
        model.bits = reader.positive("bits");
        model.prompt = reader.text("prompt");
        model.reference = reader.text("reference");
        model.text = reader.text("text");
        model.ppl_max = reader.positive("ppl_max");
        model.kl_max = reader.positive("kl_max");
        model.clamp_limit = reader.positive("clamp_limit");
        model.min_margin = reader.positive("min_margin");
        check_address("source", model.source);
        check_address("text", model.text);
        model.hours = reader.positive("hours", kMostHours);
        model.disk_gb = reader.positive("disk_gb");
        model.memory_gb = reader.positive("memory_gb");
        model.shards = reader.count("shards", kMostShards).value_or(1);
        read_keys(reader.table("keys"), model);
        reader.finish();
        check_model(model);
        return model;
    });
}

}  // namespace

std::string_view wanted_name(Wanted wanted) {
    return kWantedNames.at(static_cast<size_t>(wanted));
}

const SizeClass& size_class(std::string_view name) {
    const auto* const at =
        std::find_if(kSizes.begin(), kSizes.end(), [&](const SizeClass& c) { return c.name == name; });
    if (at == kSizes.end()) {
        refuse(fmt::format("size '{}' is none of tiny, small, medium, large, huge", format::printable(name)));
    }
    return *at;
}

std::string Model::key(const std::string& what) const {
    if (const auto at = keys.find(what); at != keys.end()) {
        return at->second;
    }
    if (what == "f16") {
        return fmt::format("models/{0}/{0}-f16.gguf", id);
    }
    if (what == "imatrix") {
        return fmt::format("models/iq-ladder/{0}/{0}.imatrix", id);
    }
    if (what == "sketch") {
        return fmt::format("models/sketches/{}-", id);
    }
    if (what == "base") {
        return fmt::format("models/{}.knot", id);
    }
    if (what == "qspec") {
        return fmt::format("models/{0}/{0}.qspec.json", id);
    }
    if (what == "v1") {
        return fmt::format("models/{}-kaiju1.knot", id);
    }
    throw Error(ErrorCode::internal, fmt::format("no key is called {}", what));
}

bool Model::is_sketch(std::string_view key) const {
    constexpr size_t kDigits = 8;
    const std::string known = this->key("sketch");
    if (key == known || keys.contains("sketch")) {
        return key == known;
    }
    return key.starts_with(known) && key.ends_with(kSketchEnd) &&
           key.size() == known.size() + kDigits + kSketchEnd.size() &&
           key.substr(known.size(), kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string Model::series() const {
    return fmt::format("models/{}-kaiju{}-r", id, wire == "KAIJU4" ? 4 : 3);
}

std::string Model::stem(uint64_t attempt) const {
    return encoder == "v1" ? fmt::format("models/{}-kaiju1", id) : fmt::format("{}{}", series(), attempt);
}

const Model& Catalogue::model(const std::string& id) const {
    const auto at =
        std::find_if(models.begin(), models.end(), [&](const Model& model) { return model.id == id; });
    if (at == models.end()) {
        throw Error(ErrorCode::usage, fmt::format("the catalogue has no model '{}'", format::printable(id)));
    }
    return *at;
}

Catalogue parse_catalogue(std::string_view text) {
    toml::table root;
    try {
        root = toml::parse(text);
    } catch (const toml::parse_error& error) {
        refuse(fmt::format("line {}: {}", error.source().begin.line, error.description()));
    }
    TableReader reader(root);
    if (reader.count("schema", 1) != 1) {
        refuse("\"schema\" is missing; this version reads schema = 1");
    }
    Catalogue catalogue;
    catalogue.store = reader.text("store");
    catalogue.calibration_text = reader.text("calibration_text");
    catalogue.evaluation_text = reader.text("evaluation_text");
    catalogue.prompt = reader.text("prompt", "The capital of France is");
    catalogue.ctx = reader.count("ctx", kMostChunks);
    catalogue.calibration_chunks = reader.count("calibration_chunks", kMostChunks);
    catalogue.evaluation_chunks = reader.count("evaluation_chunks", kMostChunks);
    catalogue.sketch_tokens = reader.count("sketch_tokens", kMostChunks, 0);
    check_address("store", catalogue.store);
    check_address("calibration_text", catalogue.calibration_text);
    check_address("evaluation_text", catalogue.evaluation_text);
    std::set<std::string> ids;
    size_t number = 0;
    if (const toml::array* models = reader.array("model")) {
        for (const toml::node& node : *models) {
            ++number;
            within(fmt::format("model {}", number), [&] {
                if (!node.is_table()) {
                    refuse("not a table");
                }
                catalogue.models.push_back(read_model(*node.as_table()));
                if (!ids.insert(catalogue.models.back().id).second) {
                    refuse(fmt::format("the id {} occurs twice", catalogue.models.back().id));
                }
            });
        }
    }
    reader.finish();
    if (catalogue.models.empty()) {
        refuse("no [[model]] in it");
    }
    return catalogue;
}

Catalogue read_catalogue(const std::filesystem::path& path) {
    return within(path.string(), [&] { return parse_catalogue(read_text(path, kLongestFile)); });
}

}  // namespace kaiju::zoo
