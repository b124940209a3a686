#include "zoo/credentials.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "support/test_files.h"

namespace kaiju::zoo {
namespace {

/// An environment without anything that names credentials, and a home of its own.
class CredentialsTest : public testing::Test {
  protected:
    void SetUp() override {
        for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                 "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
                                 "AWS_ENDPOINT_URL_S3", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"}) {
            ::unsetenv(name);
        }
        ::setenv("HOME", home_.path().c_str(), 1);
        std::filesystem::create_directories(home_.path() / ".aws");
    }
    test::TemporaryFolder home_;
};

TEST_F(CredentialsTest, NothingIsAnonymous) {
    const S3Settings settings = load_s3_settings();
    EXPECT_FALSE(settings.credentials);
    EXPECT_EQ(settings.region, "us-east-1");
    EXPECT_EQ(settings.endpoint, "");
}

TEST_F(CredentialsTest, TheFilesOfAProfile) {
    write_new_file(
        home_.path() / ".aws/credentials",
        "[default]\naws_access_key_id = A\naws_secret_access_key=S\n\n[other]\naws_access_key_id=B\n"
        "aws_secret_access_key=T\naws_session_token = X=Y\n");
    write_new_file(home_.path() / ".aws/config",
                   "# comment\n[default]\nregion = r1\n[profile other]\ns3 =\n  addressing_style = virtual\n"
                   "  endpoint_url = http://s3\nregion=r2\nendpoint_url = http://all\n");
    S3Settings settings = load_s3_settings();
    ASSERT_TRUE(settings.credentials);
    EXPECT_EQ(settings.credentials->access_key, "A");
    EXPECT_EQ(settings.credentials->secret_key, "S");
    EXPECT_EQ(settings.region, "r1");
    ::setenv("AWS_PROFILE", "other", 1);
    settings = load_s3_settings();
    EXPECT_EQ(settings.credentials->access_key, "B");
    EXPECT_EQ(settings.credentials->session_token, "X=Y");
    EXPECT_EQ(settings.region, "r2");
    EXPECT_EQ(settings.endpoint, "http://s3");
    EXPECT_EQ(settings.virtual_host, true);
}

TEST_F(CredentialsTest, TheEnvironmentComesFirst) {
    write_new_file(home_.path() / ".aws/credentials",
                   "[default]\naws_access_key_id = A\naws_secret_access_key=S\n");
    ::setenv("AWS_ACCESS_KEY_ID", "E", 1);
    EXPECT_THROW((void)load_s3_settings(), Error);
    ::setenv("AWS_SECRET_ACCESS_KEY", "F", 1);
    ::setenv("AWS_ENDPOINT_URL", "http://e", 1);
    const S3Settings settings = load_s3_settings();
    EXPECT_EQ(settings.credentials->access_key, "E");
    EXPECT_EQ(settings.credentials->secret_key, "F");
    EXPECT_EQ(settings.endpoint, "http://e");
}

}  // namespace
}  // namespace kaiju::zoo
