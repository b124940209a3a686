#include "zoo/catalogue.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kaiju::zoo {
namespace {

const std::string kHead = "schema = 1\n";

std::string entry(const std::string& more = "", const std::string& id = "a",
                  const std::string& status = "ready") {
    return "[[model]]\nid = \"" + id + "\"\nfamily = \"llama\"\nsize = \"tiny\"\nstatus = \"" + status +
           "\"\n" + more;
}

void refused(const std::string& toml, const std::string& why) {
    try {
        (void)parse_catalogue(toml);
        ADD_FAILURE() << "taken: " << toml;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
}

TEST(Catalogue, TheExampleIsOne) {
    const Catalogue catalogue = read_catalogue(KAIJU_EXAMPLE);
    EXPECT_GE(catalogue.models.size(), 12U);
    EXPECT_EQ(catalogue.model("codestral-22b").shards, 8U);
    EXPECT_EQ(catalogue.model("smollm2-135m").kl_max, 0.5);
    EXPECT_EQ(catalogue.model("qwen2.5-7b.v3").key("f16"), "models/qwen2.5-7b/qwen2.5-7b-f16.gguf");
    EXPECT_THROW((void)catalogue.model("unknown"), Error);
}

TEST(Catalogue, KeysAreTheUsualOnes) {
    const Catalogue catalogue = parse_catalogue(kHead + entry());
    const Model& model = catalogue.models.front();
    EXPECT_EQ(model.key("f16"), "models/a/a-f16.gguf");
    EXPECT_EQ(model.key("imatrix"), "models/iq-ladder/a/a.imatrix");
    EXPECT_EQ(model.key("base"), "models/a.knot");
    EXPECT_EQ(model.stem(1), "models/a-kaiju1");
    Model third = model;
    third.encoder = "v3";
    EXPECT_EQ(third.stem(4), "models/a-kaiju3-r4");
    third.wire = "KAIJU4";
    EXPECT_EQ(third.stem(2), "models/a-kaiju4-r2");
    EXPECT_EQ(model.limit_hours(), 2);
    EXPECT_EQ(model.key("v1"), "models/a-kaiju1.knot");
}

TEST(Catalogue, ASketchIsOneOfThisModel) {
    Model model = parse_catalogue(kHead + entry()).models.front();
    EXPECT_TRUE(model.is_sketch("models/sketches/a-0123abcd.sket"));
    for (const char* other : {"models/sketches/a-b-0123abcd.sket", "models/sketches/a-0123abcg.sket",
                              "models/sketches/a-0123abcd.sket.claim.1", "models/sketches/a-0123abc.sket",
                              "models/sketches/a-.sket", "models/sketches/b-0123abcd.sket"}) {
        EXPECT_FALSE(model.is_sketch(other)) << other;
    }
    model.keys["sketch"] = "models/sketches/mine";
    EXPECT_TRUE(model.is_sketch("models/sketches/mine"));
    EXPECT_FALSE(model.is_sketch("models/sketches/mine-0123abcd.sket"));
}

TEST(Catalogue, SaysWhatIsWrong) {
    refused("", "\"schema\" is missing");
    refused("schema = 2", "not an integer in 1..1");
    refused(kHead, "no [[model]]");
    refused("schema = ", "line 1");
    refused(kHead + entry() + entry(), "occurs twice");
    refused(kHead + entry("", "A"), "'A' is no id");
    refused(kHead + entry("colour = 1\n"), "unknown key \"colour\"");
    refused(kHead + "what = 1\n" + entry(), "unknown key \"what\"");
    refused(kHead + entry("", "a", "READY"), "status 'READY'");
    refused(kHead + entry("", "a", "HOLD"), "without a \"reason\"");
    refused(kHead + entry("", "a", "auto-feed"), "without a \"source\"");
    refused(kHead + entry("hours = 0\n"), "\"hours\" is not a positive number");
    refused(kHead + entry("hours = \"many\"\n"), "\"hours\" is not a positive number");
    refused(kHead + entry("shards = 0\n"), "\"shards\" is not an integer");
    refused(kHead + entry("keys = { f16 = \"../x\" }\n"), "cannot be a key");
    refused(kHead + entry("keys = { f16 = \"elsewhere/x\" }\n"), "begin with models/");
    refused(kHead + entry("reference = \"x.gguf\"\n"), "begin with models/");
    refused(kHead + entry("clamp_limit = 2\n"), "is one of encoder v3");
    refused(kHead + entry("keys = { f17 = \"x\" }\n"), "unknown key \"f17\"");
    refused(kHead + entry("kl_max = 0.1\n"), "without a \"reference\"");
    refused(kHead + entry("encoder = \"v3\"\n"), "explicit limits");
    refused(kHead + entry("encoder = \"v2\"\n"), "neither v1 nor v3");
    refused(kHead + entry("source = \"https://h/m.gguf?X-Amz-Signature=s\"\n"), "has a query");
    refused(kHead + entry("source = \"https://u:pw@h/m.gguf\"\n"), "user or password");
    refused(kHead + "evaluation_text = \"s3://b/t?sig=s\"\n" + entry(), "has a query");
    for (const char* id : {"b-kaiju1", "b-kaiju3-r2", "b-kaiju4-r10"}) {
        refused(kHead + entry("", id), "ends like the name of a result");
    }
    refused(kHead + entry("keys = { base = \"models/b-kaiju1.knot\" }\n"), "that of a result");
    refused(kHead + entry("hours = 1e300\n"), "not a positive number up to");
    EXPECT_EQ(parse_catalogue(kHead + "sketch_tokens = 0\n" + entry("", "b-kaiju2")).sketch_tokens, 0U);
    const std::string limits = "ppl_max = 9\nkl_max = 1\nreference = \"f16\"\n";
    refused(kHead + entry("wire = \"KAIJU2\"\n"), "neither KAIJU1 nor KAIJU4");
    refused(kHead + entry("wire = \"KAIJU4\"\n"), "explicit limits");
    refused(kHead + entry("wire = \"KAIJU4\"\nencoder = \"v1\"\n" + limits), "made by encoder v3");
    refused(kHead + entry("wire = \"KAIJU4\"\nbits = 4.1\n" + limits), "not within 1.75 to 4");
    refused(kHead + entry("wire = \"KAIJU4\"\nclamp_limit = 2\n" + limits), "on wire KAIJU1");
    refused(kHead + entry("bits = 3\n"), "belongs to wire KAIJU4");
    refused(kHead + "model = [1]\n", "not a table");
}

}  // namespace
}  // namespace kaiju::zoo
