// What a model needs before it can be encoded, asked of the store by ranged reads.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/qspec.h"
#include "zoo/catalogue.h"
#include "zoo/store.h"

namespace kaiju::zoo {

/// An error of the store is "unknown", never "absent".
enum class Answer { present, absent, unknown };

[[nodiscard]] std::string_view answer_name(Answer answer);

struct Prerequisite {
    std::string what;  ///< "f16", "imatrix", "base", "qspec", for v3 also "sketch", "v1"
    std::string key;   ///< where it is, or would be
    Answer answer = Answer::unknown;
    std::string note;  ///< why it is absent although something is there, or unknown
    uint64_t bytes = 0;
};

/// What one model has.
struct Readiness {
    std::string model;
    std::vector<Prerequisite> items;
    std::string architecture;
    uint64_t weights = 0;         ///< of the matrices that would be encoded
    uint64_t largest_tensor = 0;  ///< bytes
    std::optional<format::Qspec> qspec;

    [[nodiscard]] bool ready() const;
    /// True where at least one answer is unknown.
    [[nodiscard]] bool unknown() const;
    [[nodiscard]] const Prerequisite* find(const std::string& what) const;
    /// "imatrix, qspec": what is absent, or else unknown.
    [[nodiscard]] std::string lacking() const;
};

/// Asks for every prerequisite: the header of the f16 (a GGUF of an architecture in scope), of the imatrix
/// and of the base, and the whole qspec. Reads a few hundred kilobytes at most. Throws nothing for what the
/// store does.
[[nodiscard]] Readiness probe_model(ObjectStore& store, const Model& model);

/// The same for many, at most `parallel` at once, in their order.
[[nodiscard]] std::vector<Readiness> probe_models(ObjectStore& store, std::span<const Model* const> models,
                                                  int parallel);

/// The model's sketch, where the store has one.
[[nodiscard]] std::optional<Object> find_sketch(ObjectStore& store, const Model& model);

/// Keys of a listing, to tell what is there without asking for each.
class Listing {
  public:
    explicit Listing(std::vector<Object> objects);
    [[nodiscard]] bool contains(const std::string& key) const;
    /// The first object whose key begins so.
    [[nodiscard]] const Object* first_with(const std::string& prefix) const;
    /// A knot of the model's series, of whatever number; null: none is published.
    [[nodiscard]] const Object* knot_of_series(const Model& model) const;
    [[nodiscard]] bool has_sketch(const Model& model) const;
    /// Changes whenever one of the model's prerequisites does.
    [[nodiscard]] std::string fingerprint(const Model& model) const;

  private:
    [[nodiscard]] std::vector<Object>::const_iterator from(const std::string& prefix) const;
    std::vector<Object> objects_;  ///< sorted by key
};

/// True where all prerequisites seem to be there, by name.
[[nodiscard]] bool seems_ready(const Listing& listing, const Model& model);

}  // namespace kaiju::zoo
