// What an encode will do, tensor by tensor, decided and checked before any work starts.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "codec/encoder_v3.h"
#include "codec/kaiju1.h"
#include "format/covariance.h"
#include "format/imatrix.h"
#include "format/model_file.h"
#include "format/sketch.h"

namespace kaiju::codec {

/// A rule of --tensor-type: tensors whose name matches get this type: a wire of this project ("KAIJU1",
/// "KAIJU4_3"), "COPY" (verbatim from the base) or a stock type ("Q8_0"; quantised from the model). Of
/// several rules that match, the last wins.
struct TypeRule {
    std::string pattern;  ///< regular expression (RE2), matched anywhere in the name
    std::string type;
};

/// How the tensors of a wire with several rates share the bits.
enum class Rates {
    uniform,   ///< all have the same
    measured,  ///< and what is left of the size goes where it saves most excess
};

struct EncodeOptions {
    std::filesystem::path model;  ///< weights, best f16/bf16/f32
    std::filesystem::path imatrix;
    std::filesystem::path base;  ///< what is copied verbatim; empty: the model itself
    std::filesystem::path out;
    std::filesystem::path telemetry;      ///< empty: none is written
    std::string wire = "KAIJU1";          ///< "KAIJU1" or "KAIJU4"
    double bits = 3;                      ///< KAIJU4: bits a weight on average, row scales apart, 1.75 to 4
    uint64_t target_size = 0;             ///< KAIJU4: bytes of the file, instead of `bits`; 0: none
    Rates rates = Rates::measured;        ///< KAIJU4: how bits are shared out
    std::filesystem::path sensitivity{};  ///< v3: bits by what codec::Sensitivity says, not by `rates`
    std::string encoder = "v1";           ///< "v1" or "v3"; KAIJU4 is made by v3 only
    std::filesystem::path sketch;         ///< v3: a .sket, or
    std::filesystem::path covariance;     ///< v3: full covariances
    V3Options v3;
    std::string decoder = "fast";      ///< search of the code book; the codes do not depend on it
    double hi_frac = 0.1;              ///< part of the columns in the side-band
    std::vector<std::string> include;  ///< of the matrices that may be encoded, instead of the usual roles
    std::vector<std::string> exclude;  ///< of those too
    std::vector<TypeRule> types;
    bool tie_head = false;   ///< the head is stored once, as the embedding too (codec/tied_head.h)
    std::string created_by;  ///< program and version, for the metadata
    int threads = 1;
    bool resume = false;
    uint64_t shard = 0;   ///< which part of the entries to make, counted modulo shards
    uint64_t shards = 1;  ///< above 1 the output is a part for codec::assemble, not a model
};

/// One entry of the file to be written, in file order.
struct PlanEntry {
    /// encode: a wire of this project; quantise: a stock type; both from the model's weights.
    enum class Action { encode, quantise, copy, key_values };
    Action action = Action::copy;
    format::TensorInfo info{};        ///< as it will be stored
    size_t source = 0;                ///< index in the model (encode, quantise) or in the base (copy)
    std::vector<float> importance{};  ///< encode, quantise: mean square of each input column
    kaiju1::Layout layout{};          ///< encode to KAIJU1
    bool free_rate = false;           ///< encode to options.wire, at a size that choose_rates decides
    std::string tap{};                ///< encode with v3: whose covariance counts
};

/// Everything open and checked.
struct EncodePlan {
    EncodeOptions options;
    std::unique_ptr<format::ModelFile> model{};
    std::unique_ptr<format::ModelFile> base{};  ///< null where it is the model
    format::Imatrix imatrix{};
    std::unique_ptr<format::SketchFile> sketch{};          ///< v3
    std::unique_ptr<format::CovarianceFile> covariance{};  ///< v3
    std::vector<PlanEntry> entries{};                      ///< of the shard, where there are shards
    bool finished = false;  ///< with options.resume: the knot is there, and a journal of how it was made
    std::vector<format::TensorInfo> whole{};  ///< with shards: the entries of all of them, in file order

    [[nodiscard]] bool is_v3() const { return options.encoder == "v3"; }
    [[nodiscard]] const format::ModelFile& base_file() const { return base ? *base : *model; }
    /// Bits per weight of the tensors that are encoded (docs/evaluation.md).
    [[nodiscard]] double linear_bits() const;
    [[nodiscard]] uint64_t encoded_weights() const;
    [[nodiscard]] uint64_t all_weights() const;
    /// The entries as a container lists them, in file order.
    [[nodiscard]] std::vector<format::TensorInfo> infos() const;
    /// Payload bytes of the tensors that are encoded.
    [[nodiscard]] uint64_t payload_bytes() const;
};

/// Throws usage where the encoder is not known, or its options do not fit together.
void check_encoder(const EncodeOptions& options);

/// What a knot's metadata calls the encoder: "v1-legacy" or "v3-gptq-leech".
[[nodiscard]] std::string_view encoder_name(const EncodeOptions& options);

/// Opens the files and decides. Throws before any work: missing (file, tensor, importance entry), bad_input
/// (shapes, vocabularies, importance that is zero, NaN or of the wrong length, architectures out of scope,
/// naming the tensor and what to do), usage (patterns, types, a head that is not the embedding),
/// output_exists.
[[nodiscard]] EncodePlan plan_encode(const EncodeOptions& options);

}  // namespace kaiju::codec
