#include "zoo/prerequisites.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/parallel.h"
#include "codec/scope.h"
#include "format/gguf_file.h"
#include "format/gguf_scan.h"
#include "format/knot.h"
#include "format/stock_types.h"
#include "zoo/remote_model.h"
#include "zoo/transfer.h"

namespace kaiju::zoo {

namespace {

constexpr uint64_t kLongestQspec = uint64_t{1} << 20;

/// Where something is wrong with what is there.
struct Unfit {
    std::string why;
};

format::GgufScan check_part(const Object& object, Bytes header) {
    format::GgufScan scan = format::scan_gguf(header);
    if (scan.length > object.size) {
        throw Unfit{fmt::format("truncated: {} bytes of {}", object.size, scan.length)};
    }
    return scan;
}

void check_f16(ObjectStore& store, const Object& object, Readiness& readiness) {
    const std::vector<std::byte> bytes = gguf_header(store, object);
    const format::GgufScan scan = check_part(object, bytes);
    const auto* architecture = scan.find("general.architecture");
    if (architecture == nullptr || architecture->type != format::GgufType::string) {
        throw Unfit{"a GGUF without general.architecture"};
    }
    readiness.architecture = format::printable(as_text(architecture->value));
    std::vector<format::TensorInfo> tensors;
    const auto add = [&](const format::GgufScan& part) {
        for (const format::GgufTensor& tensor : part.tensors) {
            tensors.push_back({.name = std::string(tensor.name),
                               .type = {},
                               .shape = tensor.shape,
                               .nbytes = tensor.nbytes});
            readiness.largest_tensor = std::max(readiness.largest_tensor, tensor.nbytes);
            readiness.weights += codec::is_linear_weight(tensor.name) ? tensors.back().weights() : 0;
        }
    };
    add(scan);
    const std::vector<std::string> parts = part_keys(object.key);
    for (size_t part = 1; part < parts.size(); ++part) {
        const std::optional<Object> there = store.head(parts[part]);
        if (!there) {
            throw Unfit{fmt::format("its part {} is not", parts[part])};
        }
        add(check_part(*there, gguf_header(store, *there)));
    }
    // Only the header's own bytes are key-values; the walk above has found where they end.
    const format::KeyValues key_values(
        Bytes(bytes).first(std::min<uint64_t>(scan.data_offset, bytes.size())));
    if (const auto reason = codec::out_of_scope(key_values, tensors)) {
        throw Unfit{*reason};
    }
}

void check_imatrix(ObjectStore& store, const Object& object) {
    constexpr uint64_t kSmallest = 16;
    const auto head = store.get(object.key, 0, std::min(kSmallest, object.size), object.etag);
    if (object.size < kSmallest) {
        throw Unfit{"too short for an importance matrix"};
    }
    if (!format::looks_like_gguf(head) && load<uint32_t>(head.data()) > (1U << 20U)) {
        throw Unfit{"neither form of an importance matrix"};
    }
}

void check_base(ObjectStore& store, const Object& object) {
    const auto head =
        store.get(object.key, 0, std::min(format::KnotHeader::kBytes, object.size), object.etag);
    if (format::looks_like_gguf(head)) {
        return;
    }
    if (!format::looks_like_knot(head)) {
        throw Unfit{"neither a knot nor a GGUF"};
    }
    (void)format::KnotHeader::parse(head, object.size);
}

void check_qspec(ObjectStore& store, const Object& object, Readiness& readiness) {
    readiness.qspec = format::parse_qspec(get_text(store, object.key, kLongestQspec));
    if (readiness.qspec->modality != "text") {
        throw Unfit{"a qspec of another modality than text"};
    }
}

Prerequisite probe(ObjectStore& store, const std::string& what, const std::string& key,
                   const std::function<void(const Object&)>& check) {
    Prerequisite found{.what = what, .key = key, .answer = Answer::unknown, .note = {}};
    try {
        const std::optional<Object> object = store.head(key);
        found.answer = object ? Answer::present : Answer::absent;
        if (object) {
            found.bytes = object->size;
            check(*object);
        }
    } catch (const Unfit& unfit) {
        found.answer = Answer::absent;
        found.note = "there, but " + unfit.why;
    } catch (const Error& error) {
        const bool wrong = error.code() == ErrorCode::bad_input;
        found.answer = wrong ? Answer::absent : Answer::unknown;
        found.note = (wrong ? "there, but " : "") + std::string(error.what());
    }
    return found;
}

Prerequisite probe_sketch(ObjectStore& store, const Model& model) {
    Prerequisite found{.what = "sketch", .key = model.key("sketch"), .answer = Answer::unknown, .note = {}};
    try {
        const std::optional<Object> sketch = find_sketch(store, model);
        found.answer = sketch ? Answer::present : Answer::absent;
        if (sketch) {
            found.key = sketch->key;
            found.bytes = sketch->size;
        }
    } catch (const Error& error) {
        found.note = error.what();
    }
    return found;
}

}  // namespace

std::string_view answer_name(Answer answer) {
    switch (answer) {
        case Answer::present:
            return "present";
        case Answer::absent:
            return "absent";
        case Answer::unknown:
            break;
    }
    return "unknown";
}

bool Readiness::ready() const {
    return std::all_of(items.begin(), items.end(),
                       [](const auto& item) { return item.answer == Answer::present; });
}

bool Readiness::unknown() const {
    return std::any_of(items.begin(), items.end(),
                       [](const auto& item) { return item.answer == Answer::unknown; });
}

const Prerequisite* Readiness::find(const std::string& what) const {
    const auto at =
        std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.what == what; });
    return at == items.end() ? nullptr : &*at;
}

std::string Readiness::lacking() const {
    std::string text;
    for (const Answer answer : {Answer::absent, Answer::unknown}) {
        for (const Prerequisite& item : items) {
            if (item.answer == answer) {
                text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", item.what,
                                    answer == Answer::unknown ? " (unknown)" : "",
                                    item.note.empty() ? "" : " (" + item.note + ")");
            }
        }
    }
    return text;
}

Readiness probe_model(ObjectStore& store, const Model& model) {
    Readiness readiness{.model = model.id, .items = {}, .architecture = {}, .qspec = {}};
    readiness.items.push_back(probe(store, "f16", model.key("f16"),
                                    [&](const Object& object) { check_f16(store, object, readiness); }));
    readiness.items.push_back(probe(store, "imatrix", model.key("imatrix"),
                                    [&](const Object& object) { check_imatrix(store, object); }));
    readiness.items.push_back(
        probe(store, "base", model.key("base"), [&](const Object& object) { check_base(store, object); }));
    readiness.items.push_back(probe(store, "qspec", model.key("qspec"),
                                    [&](const Object& object) { check_qspec(store, object, readiness); }));
    if (model.encoder == "v3") {
        readiness.items.push_back(probe_sketch(store, model));
    }
    if (model.follows_v1()) {
        readiness.items.push_back(
            probe(store, "v1", model.key("v1"), [&](const Object& object) { check_base(store, object); }));
    }
    if (model.has_own_reference()) {
        readiness.items.push_back(probe(store, "reference", model.reference,
                                        [&](const Object& object) { check_base(store, object); }));
    }
    return readiness;
}

std::vector<Readiness> probe_models(ObjectStore& store, std::span<const Model* const> models, int parallel) {
    std::vector<Readiness> all(models.size());
    parallel_for(models.size(), 1, parallel, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
            all[i] = probe_model(store, *models[i]);
        }
    });
    return all;
}

Listing::Listing(std::vector<Object> objects) : objects_(std::move(objects)) {}

std::optional<Object> find_sketch(ObjectStore& store, const Model& model) {
    const std::vector<Object> sketches = store.list(model.key("sketch"));
    const auto at = std::find_if(sketches.begin(), sketches.end(),
                                 [&](const Object& object) { return model.is_sketch(object.key); });
    return at == sketches.end() ? std::nullopt : std::optional(*at);
}

std::vector<Object>::const_iterator Listing::from(const std::string& prefix) const {
    return std::lower_bound(objects_.begin(), objects_.end(), prefix,
                            [](const Object& object, const std::string& key) { return object.key < key; });
}

bool Listing::has_sketch(const Model& model) const {
    const std::string prefix = model.key("sketch");
    for (auto at = from(prefix); at != objects_.end() && at->key.starts_with(prefix); ++at) {
        if (model.is_sketch(at->key)) {
            return true;
        }
    }
    return false;
}

std::string Listing::fingerprint(const Model& model) const {
    std::vector<std::string> keys = part_keys(model.key("f16"));
    keys.insert(keys.end(), {model.key("imatrix"), model.key("base"), model.key("qspec"), model.key("v1"),
                             model.key("sketch"), model.reference});
    std::string all;
    for (const std::string& key : keys) {
        for (auto at = from(key); !key.empty() && at != objects_.end() && at->key.starts_with(key); ++at) {
            if (at->key == key || model.is_sketch(at->key)) {
                all += fmt::format("{} {} {}\n", at->key, at->size, at->etag);
            }
        }
    }
    return all;
}

const Object* Listing::first_with(const std::string& prefix) const {
    const auto at = from(prefix);
    return at == objects_.end() || !at->key.starts_with(prefix) ? nullptr : &*at;
}

const Object* Listing::knot_of_series(const Model& model) const {
    constexpr std::string_view kEnd = ".knot";
    const std::string prefix = model.series();
    for (auto at = from(prefix); at != objects_.end() && at->key.starts_with(prefix); ++at) {
        const std::string_view rest = std::string_view(at->key).substr(prefix.size());
        if (rest.ends_with(kEnd) && rest.size() > kEnd.size() &&
            rest.find_first_not_of("0123456789") == rest.size() - kEnd.size()) {
            return &*at;
        }
    }
    return nullptr;
}

bool Listing::contains(const std::string& key) const {
    const Object* const object = first_with(key);
    return object != nullptr && object->key == key;
}

bool seems_ready(const Listing& listing, const Model& model) {
    for (const char* what : {"f16", "imatrix", "base", "qspec"}) {
        if (!listing.contains(model.key(what))) {
            return false;
        }
    }
    if (model.has_own_reference() && !listing.contains(model.reference)) {
        return false;
    }
    if (model.follows_v1() && !listing.contains(model.key("v1"))) {
        return false;
    }
    return model.encoder == "v1" || listing.has_sketch(model);
}

}  // namespace kaiju::zoo
