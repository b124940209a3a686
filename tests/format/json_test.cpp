#include <nlohmann/json.hpp>

#include "bytes.h"
#include "format/strict_json.h"

namespace kaiju::format {
namespace {

using test::expect_error;

TEST(StrictJson, refuses_what_readers_could_read_differently) {
    const auto refuse = [](const std::string& text, const std::string& part) {
        expect_error(ErrorCode::bad_input, {part}, [&] { static_cast<void>(parse_strict_json(text)); });
    };
    refuse("", "not valid JSON");
    refuse("{} x", "not valid JSON");
    refuse("[1,]", "not valid JSON");
    refuse("\"\xff\"", "not valid JSON");
    refuse("[1e999]", "not valid JSON");
    refuse("NaN", "not valid JSON");
    refuse("// comment\n1", "not valid JSON");
    refuse(R"({"a": 1, "a": 1})", "key 'a' occurs twice");
    refuse(R"({"a": 1, "\u0061": 1})", "key 'a' occurs twice");
    refuse(R"([{"b": {"c": 1, "c": 2}}])", "key 'c' occurs twice");
    refuse(std::string(65, '[') + std::string(65, ']'), "nested deeper than 64");
    refuse(std::string(1000000, '['), "nested deeper than 64");
}

TEST(StrictJson, accepts_one_key_in_two_objects_and_64_levels) {
    EXPECT_EQ(parse_strict_json(R"([{"a": 1}, {"a": {"a": 2}}])")[1]["a"]["a"], 2);
    EXPECT_TRUE(parse_strict_json(std::string(64, '[') + std::string(64, ']')).is_array());
}

TEST(StrictJson, members_have_the_type_that_is_asked_for) {
    const nlohmann::json object = parse_strict_json(R"({"s": "x", "n": 7, "f": 7.0, "m": -1, "null": null})");
    EXPECT_EQ(get_text(object, "s"), "x");
    EXPECT_EQ(get_unsigned(object, "n"), 7U);
    EXPECT_FALSE(find_text(object, "absent").has_value());
    EXPECT_FALSE(find_text(object, "null").has_value());
    expect_error(ErrorCode::bad_input, {"\"n\" is not a string"},
                 [&] { static_cast<void>(find_text(object, "n")); });
    expect_error(ErrorCode::bad_input, {"\"absent\" is missing"},
                 [&] { static_cast<void>(get_text(object, "absent")); });
    expect_error(ErrorCode::bad_input, {"\"null\" is missing"},
                 [&] { static_cast<void>(get_unsigned(object, "null")); });
    for (const char* key : {"f", "m", "s"}) {
        expect_error(ErrorCode::bad_input, {key, "non-negative integer"},
                     [&] { static_cast<void>(get_unsigned(object, key)); });
    }
}

}  // namespace
}  // namespace kaiju::format
