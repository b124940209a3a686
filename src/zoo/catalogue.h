// The list of models that the zoo is to make (docs/zoo.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kaiju::zoo {

/// What the catalogue wants of a model.
enum class Wanted {
    ready,         ///< its prerequisites are in the store: encode it
    auto_feed,     ///< make the prerequisites from its source first
    external,      ///< somebody else feeds it; encode it once that is done
    hold,          ///< not now
    out_of_scope,  ///< not at all, with a reason
};

/// "ready", "auto-feed", "EXTERNAL", "HOLD", "out-of-scope".
[[nodiscard]] std::string_view wanted_name(Wanted wanted);

/// How much a model of a size class may take.
struct SizeClass {
    std::string_view name;
    double billions;  ///< parameters, at most
    double hours;     ///< time limit of a step
    double disk_gb;   ///< of a job folder
    double memory_gb;
};

/// tiny, small, medium, large, huge.
[[nodiscard]] const SizeClass& size_class(std::string_view name);

struct Model {
    std::string id;
    std::string family;
    std::string size;  ///< name of a size class
    std::string
        source;  ///< address or path of a GGUF or a folder of safetensors, or hf:OWNER/NAME; empty: none
    Wanted wanted = Wanted::ready;
    std::string reason;           ///< why it is on hold or out of scope
    std::string wire = "KAIJU1";  ///< KAIJU1 or KAIJU4
    std::string encoder = "v1";   ///< v1 or v3; KAIJU4 has v3 only
    std::optional<double> bits;   ///< KAIJU4: bits a weight, 1.75 to 4; nothing: the encoder's own
    std::string prompt;           ///< for the qspec that the feeder mints
    std::map<std::string, std::string>
        keys;  ///< instead of the usual ones: f16, imatrix, sketch, base, qspec, v1
    std::optional<double> ppl_max;
    std::optional<double> kl_max;
    std::optional<double> clamp_limit;  ///< v3: clamp rate over that of v1; nothing: the encoder's own
    std::string reference;              ///< "f16", or a key; empty: none
    std::string text;                   ///< key or path of the evaluation text; empty: the catalogue's
    std::optional<double> min_margin;   ///< of the qspec that the feeder mints, in logits
    std::optional<double> hours;
    std::optional<double> disk_gb;
    std::optional<double> memory_gb;
    uint64_t shards = 1;

    [[nodiscard]] double limit_hours() const { return hours.value_or(size_class(size).hours); }
    [[nodiscard]] double limit_disk_gb() const { return disk_gb.value_or(size_class(size).disk_gb); }
    [[nodiscard]] double limit_memory_gb() const { return memory_gb.value_or(size_class(size).memory_gb); }
    /// Key of "f16", "imatrix", "base", "qspec" or "v1" (the knot that v3 is to be better than); of
    /// "sketch" what its key begins with.
    [[nodiscard]] std::string key(const std::string& what) const;
    /// Whether `key` is a sketch of this very model: the usual key ends with eight digits of the file's
    /// SHA-256, which only its maker knows, and ids may begin like each other.
    [[nodiscard]] bool is_sketch(std::string_view key) const;
    /// Whether the gate's reference is an object of its own.
    [[nodiscard]] bool has_own_reference() const { return !reference.empty() && reference != "f16"; }
    /// Whether a knot by encoder v1 must be there before: what v3 on the same wire is to be better than.
    [[nodiscard]] bool follows_v1() const { return encoder == "v3" && wire == "KAIJU1"; }
    /// "models/<id>-kaiju3-r" or "models/<id>-kaiju4-r": keys of v3's attempts begin with it, their number is
    /// next.
    [[nodiscard]] std::string series() const;
    /// "models/<id>-kaiju1" or series and number: what the keys of an attempt begin with.
    [[nodiscard]] std::string stem(uint64_t attempt) const;
};

struct Catalogue {
    std::string store;             ///< address; empty: the command line names it
    std::string calibration_text;  ///< key or path
    std::string evaluation_text;
    std::string prompt;
    std::optional<uint64_t> ctx;  ///< tokens of a chunk, of all measurements
    std::optional<uint64_t> calibration_chunks;
    std::optional<uint64_t> evaluation_chunks;
    std::optional<uint64_t> sketch_tokens;  ///< that the feeder's sketch is made of
    std::vector<Model> models;              ///< in the order in which they are made

    [[nodiscard]] const Model& model(const std::string& id) const;  ///< throws usage
};

/// Strict: unknown keys, wrong types, ids that occur twice or are no ids, missing reasons and limits that
/// cannot be are bad_input, naming the entry.
[[nodiscard]] Catalogue parse_catalogue(std::string_view toml);
[[nodiscard]] Catalogue read_catalogue(const std::filesystem::path& path);

}  // namespace kaiju::zoo
