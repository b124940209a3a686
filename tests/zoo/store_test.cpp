// The store in a folder, and claims on it. S3 is tested against a real server in tests/e2e/test_store.py.
#include "zoo/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "base/file.h"
#include "support/test_files.h"
#include "zoo/publish.h"
#include "zoo/transfer.h"

namespace kaiju::zoo {
namespace {

Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

ErrorCode code_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.code();
    }
    return ErrorCode{0};
}

class StoreTest : public testing::Test {
  protected:
    void SetUp() override { std::filesystem::create_directories(folder_.path() / "store"); }
    test::TemporaryFolder folder_;
    std::unique_ptr<ObjectStore> store_ =
        open_store("file://" + (folder_.path() / "store").string(), {.part_bytes = 7});
};

TEST_F(StoreTest, WhatIsPutComesBack) {
    EXPECT_FALSE(store_->head("a/b"));
    EXPECT_TRUE(store_->list("").empty());
    EXPECT_TRUE(store_->put("a/b", bytes_of("hello world"), Condition::absent));
    EXPECT_FALSE(store_->put("a/b", bytes_of("other"), Condition::absent));
    const auto object = store_->head("a/b");
    ASSERT_TRUE(object);
    EXPECT_EQ(object->size, 11U);
    EXPECT_EQ(as_text(store_->get("a/b", 6, 5, object->etag)), "world");
    EXPECT_EQ(code_of([&] { (void)store_->get("a/b", 6, 6, ""); }), ErrorCode::bad_input);
    EXPECT_EQ(code_of([&] { (void)store_->get("a/c", 0, 1, ""); }), ErrorCode::missing);
    EXPECT_TRUE(store_->put("a/b", bytes_of("new"), Condition::none));
    EXPECT_EQ(code_of([&] { (void)store_->get("a/b", 0, 1, object->etag); }), ErrorCode::bad_input);
    EXPECT_EQ(get_text(*store_, "a/b"), "new");
    store_->remove("a/b");
    store_->remove("a/b");
    EXPECT_FALSE(store_->head("a/b"));
}

TEST_F(StoreTest, AFolderThatIsNotThereIsAwayAndNotEmpty) {
    store_->put("a/b", bytes_of("x"), Condition::absent);
    std::filesystem::rename(folder_.path() / "store", folder_.path() / "unmounted");
    EXPECT_EQ(code_of([&] { (void)store_->head("a/b"); }), ErrorCode::io);
    EXPECT_EQ(code_of([&] { (void)store_->list(""); }), ErrorCode::io);
    EXPECT_EQ(code_of([&] { (void)store_->list("a/"); }), ErrorCode::io);
    EXPECT_EQ(code_of([&] { (void)store_->get("a/b", 0, 1, ""); }), ErrorCode::io);
    EXPECT_EQ(code_of([&] { store_->put("a/c", bytes_of("x"), Condition::absent); }), ErrorCode::io);
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "store")) << "made anew where a disk should be";
    std::filesystem::rename(folder_.path() / "unmounted", folder_.path() / "store");
    EXPECT_TRUE(store_->head("a/b"));
}

TEST_F(StoreTest, WhatCannotBePublishedLeavesNothing) {
    store_->put("a/b", bytes_of("x"), Condition::absent);
    EXPECT_EQ(code_of([&] { store_->put("a", bytes_of("x"), Condition::absent); }), ErrorCode::usage);
    EXPECT_EQ(code_of([&] { store_->put("a/b/c", bytes_of("x"), Condition::absent); }), ErrorCode::io);
    EXPECT_EQ(code_of([&] { (void)claim_key(*store_, "a/c.claim.1", "me"); }), ErrorCode::usage);
    EXPECT_EQ(store_->list("").size(), 1U);
}

TEST_F(StoreTest, ListsByPrefixSortedWithoutUnfinishedFiles) {
    for (const char* key : {"m/b", "m/a", "m/ab/c", "n/a"}) {
        store_->put(key, bytes_of("x"), Condition::absent);
    }
    write_new_file(folder_.path() / "store/m/a.tmp-123456", "left behind");
    std::string keys;
    for (const Object& object : store_->list("m/a")) {
        keys += object.key + " ";
    }
    EXPECT_EQ(keys, "m/a m/ab/c ");
    EXPECT_EQ(store_->list("").size(), 4U);
}

TEST_F(StoreTest, KeysThatCannotBe) {
    for (const char* key : {"", "/a", "a/", "a//b", "../a", "a/./b", "a b", "a\n"}) {
        EXPECT_EQ(code_of([&] { (void)store_->head(key); }), ErrorCode::bad_input) << key;
    }
}

TEST_F(StoreTest, AddressesAreTakenApart) {
    EXPECT_EQ(split_address("s3://bucket/a/b.knot").store, "s3://bucket");
    EXPECT_EQ(split_address("s3://bucket/a/b.knot").key, "a/b.knot");
    EXPECT_EQ(split_address("/x/y.knot").store, "/x");
    EXPECT_EQ(split_address("y.knot").store, ".");
    EXPECT_EQ(split_address("file:///x/y.knot").store, "/x");
    EXPECT_EQ(code_of([] { (void)split_address("http://user:secret@host/x"); }), ErrorCode::usage);
    EXPECT_EQ(code_of([] { (void)open_store("ftp://host", {}); }), ErrorCode::usage);
}

TEST_F(StoreTest, TheFirstPartNamesTheOthers) {
    EXPECT_EQ(part_keys("m/a-00001-of-00003.gguf"),
              std::vector<std::string>(
                  {"m/a-00001-of-00003.gguf", "m/a-00002-of-00003.gguf", "m/a-00003-of-00003.gguf"}));
    for (const char* whole : {"", "a.gguf", "a-00002-of-00003.gguf", "a-00001-of-0000x.gguf",
                              "a-00001-of-00003", "-00001-of-.gguf", "a-00001-of-00000.gguf"}) {
        EXPECT_EQ(part_keys(whole), std::vector<std::string>({whole})) << whole;
    }
    EXPECT_EQ(file_name("m/a.gguf?signature=x/y"), "a.gguf");
}

TEST_F(StoreTest, DownloadsGoOnWhereTheyWereCutShort) {
    const std::string text = "twenty-six letters in five";
    store_->put("o", bytes_of(text), Condition::absent);
    const auto out = folder_.path() / "out";
    Monitor quiet;
    download(*store_, "o", out, quiet);
    EXPECT_EQ(read_text(out), text);
    EXPECT_FALSE(std::filesystem::exists(out.string() + ".part.ranges"));
    EXPECT_EQ(code_of([&] { download(*store_, "o", out, quiet); }), ErrorCode::output_exists);

    // What the list says is there is not fetched again: the wrong bytes of range 1 stay, which proves it.
    const auto next = folder_.path() / "next";
    const std::string head = R"({"address":")" + store_->address() + R"(","etag":")" +
                             store_->head("o")->etag + R"(","key":"o","part":7,"size":26})";
    write_new_file(next.string() + ".part", std::string("..............", 14));
    write_new_file(next.string() + ".part.ranges", head + "\n1\n0");  // the last line was cut
    download(*store_, "o", next, quiet);
    EXPECT_EQ(read_text(next), text.substr(0, 7) + "......." + text.substr(14));
}

TEST_F(StoreTest, OfManyWhoRaceOnePublishes) {
    constexpr int kRacers = 20;
    std::atomic<int> winners{0};
    std::atomic<int> refused{0};
    std::latch start(kRacers);
    std::vector<std::thread> threads;
    threads.reserve(kRacers);
    for (int i = 0; i < kRacers; ++i) {
        const auto file = folder_.path() / std::to_string(i);
        write_new_file(file, "racer " + std::to_string(i));
        threads.emplace_back([&, i, file] {
            start.arrive_and_wait();
            Monitor quiet;
            const ErrorCode code = code_of([&] {
                publish(*store_, claim_key(*store_, "models/a.knot", "racer " + std::to_string(i)), file,
                        quiet);
            });
            (code == ErrorCode{0} ? winners : refused) += 1;
            EXPECT_TRUE(code == ErrorCode{0} || code == ErrorCode::output_exists) << static_cast<int>(code);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(refused, kRacers - 1);
    EXPECT_EQ(get_text(*store_, "models/a.knot"), current_claim(*store_, "models/a.knot")->owner);
}

TEST_F(StoreTest, AnOwnerWhoWasAwayTooLongIsFenced) {
    const auto file = folder_.path() / "file";
    write_new_file(file, "x");
    Monitor quiet;
    const Claim first = claim_key(*store_, "k", "first");
    EXPECT_EQ(claim_key(*store_, "k", "first").token, 1U);
    EXPECT_EQ(code_of([&] { (void)claim_key(*store_, "k", "second"); }), ErrorCode::output_exists);
    const Claim second = claim_key(*store_, "k", "second", true);
    EXPECT_EQ(second.token, 2U);
    EXPECT_EQ(code_of([&] { publish(*store_, first, file, quiet); }), ErrorCode::busy);
    publish(*store_, second, file, quiet);
    EXPECT_EQ(code_of([&] { publish(*store_, second, file, quiet); }), ErrorCode::output_exists);
    EXPECT_EQ(code_of([&] { (void)claim_key(*store_, "k", "third", true); }), ErrorCode::output_exists);
}

TEST_F(StoreTest, AFolderPassesTheProbe) {
    const Probe probe = probe_store(store_->address(), {});
    EXPECT_TRUE(probe.publishable());
    EXPECT_TRUE(probe.complete_conditional);
    EXPECT_EQ(probe.put_winners, std::vector<int>({1, 1, 1}));
    EXPECT_EQ(probe.complete_winners, std::vector<int>({1, 1, 1}));
    EXPECT_TRUE(store_->list("").empty());
}

}  // namespace
}  // namespace kaiju::zoo
