#include "zoo/xml.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kaiju::zoo {
namespace {

std::string walked(std::string_view xml) {
    std::string all;
    walk_xml(xml, [&](const std::string& path, const std::string& text) { all += path + "=" + text + ";"; });
    return all;
}

TEST(Xml, ElementsComeWithTheirPathAndText) {
    EXPECT_EQ(
        walked(
            "<?xml version=\"1.0\"?>\n<a xmlns=\"u\"><s3:b>one &amp; &#50;&#x33;</s3:b><!-- <c> --><d/></a>"),
        "a/b=one & 23;a/d=;a=;");
}

TEST(Xml, FirstTextOfAPath) {
    const std::string_view error = "<Error><Code>NoSuchKey</Code><Message>m</Message></Error>";
    EXPECT_EQ(xml_text(error, "Error/Code"), "NoSuchKey");
    EXPECT_EQ(xml_text(error, "Error/Other"), "");
    EXPECT_EQ(xml_text("not xml", "Error/Code"), "");
}

TEST(Xml, WhatIsNotWellFormedIsRefused) {
    std::string deep;
    for (int i = 0; i < 40; ++i) {
        deep += "<a>";
    }
    for (const std::string& bad :
         {std::string(), std::string("text"), std::string("<a>"), std::string("<a></b>"),
          std::string("<a><b></a></b>"), std::string("</a>"), std::string("<a"), std::string("<a>&x;</a>"),
          std::string("<a>&amp</a>"), std::string("<a>&#xZ;</a>"), std::string("<!DOCTYPE a><a/>"),
          std::string("<!-- <a/>"), std::string("<></>"), deep}) {
        EXPECT_THROW(walked(bad), Error) << bad;
    }
}

}  // namespace
}  // namespace kaiju::zoo
