#include "base/file.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <fstream>

#include "support/test_files.h"

namespace kaiju {
namespace {

namespace fs = std::filesystem;

ErrorCode code_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.code();
    }
    ADD_FAILURE() << "no error";
    return ErrorCode::internal;
}

TEST(OutputFile, AppearsWholeOrNotAtAll) {
    const test::TemporaryFolder folder;
    const fs::path target = folder.path() / "out.bin";
    {
        OutputFile file(target);
        file.append(std::as_bytes(std::span(std::string_view("half"))));
        EXPECT_FALSE(fs::exists(target));
    }
    EXPECT_TRUE(fs::is_empty(folder.path())) << "an abandoned output left something behind";
    write_new_file(target, "whole");
    EXPECT_EQ(read_text(target), "whole");
}

TEST(RequireOutputs, TwoOutputsAreTwoFilesHoweverSpelled) {
    const test::TemporaryFolder folder;
    fs::create_directory(folder / "a");
    fs::create_directory_symlink(folder / "a", folder / "link");
    const fs::path one = folder / "a/out";
    for (const fs::path& same : {one, folder / "a/../a/out", folder / "a//./out", folder / "link/out"}) {
        EXPECT_EQ(code_of([&] { require_outputs({one, same}); }), ErrorCode::usage) << same;
    }
    require_outputs({one, folder / "a/out2", folder / "out", "", ""});
    EXPECT_TRUE(fs::is_empty(folder / "a")) << "looking leaves nothing behind";
}

TEST(RequireOutputs, FindWhatCannotBeWritten) {
    const test::TemporaryFolder folder;
    test::spill(folder / "there", "x");
    EXPECT_EQ(code_of([&] {
                  require_outputs({folder / "new", folder / "there"});
              }),
              ErrorCode::output_exists);
    EXPECT_EQ(code_of([&] { require_outputs({folder / "no/such/out"}); }), ErrorCode::missing);
    EXPECT_EQ(code_of([&] { require_outputs({folder / "there/out"}); }), ErrorCode::io);
}

TEST(OutputFile, ANameThatCannotBeIsNotOneThatExists) {
    const test::TemporaryFolder folder;
    EXPECT_EQ(code_of([&] { require_absent(folder.path() / std::string(300, 'n')); }), ErrorCode::io);
}

TEST(MappedFile, AFifoIsRefusedAndNotWaitedFor) {
    const test::TemporaryFolder folder;
    const fs::path fifo = folder.path() / "fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    EXPECT_EQ(code_of([&] { const MappedFile file(fifo); }), ErrorCode::bad_input);
}

TEST(Error, APlaceIsNamedOnce) {
    Error error(ErrorCode::missing, "a.gguf: cannot open");
    EXPECT_STREQ(error.within("a.gguf").what(), "a.gguf: cannot open");
    EXPECT_STREQ(error.within("a").what(), "a: a.gguf: cannot open");
    EXPECT_STREQ(error.within("b.gguf").what(), "b.gguf: a: a.gguf: cannot open");
}

TEST(OutputFile, NeverOverwrites) {
    const test::TemporaryFolder folder;
    const fs::path target = folder.path() / "out.bin";
    OutputFile late(target);
    late.append(std::as_bytes(std::span(std::string_view("late"))));
    write_new_file(target, "first");
    EXPECT_EQ(code_of([&] { late.commit(); }), ErrorCode::output_exists);
    EXPECT_EQ(code_of([&] { const OutputFile again(target); }), ErrorCode::output_exists);
    EXPECT_EQ(read_text(target), "first");
}

TEST(OutputFile, KeptPartIsFoundAgainAndHeldByOneWriter) {
    const test::TemporaryFolder folder;
    const fs::path target = folder.path() / "out.bin";
    {
        OutputFile file(target, OutputFile::OnAbandon::keep);
        file.write_at(4, std::as_bytes(std::span(std::string_view("tail"))));
        EXPECT_EQ(code_of([&] { const OutputFile other(target, OutputFile::OnAbandon::keep); }),
                  ErrorCode::busy);
    }
    OutputFile again(target, OutputFile::OnAbandon::keep);
    EXPECT_EQ(again.size(), 8U);
    again.write_at(0, std::as_bytes(std::span(std::string_view("head"))));
    again.commit();
    EXPECT_EQ(read_text(target), "headtail");
    EXPECT_FALSE(fs::exists(again.temporary()));
}

TEST(MappedFile, NamesWhatIsWrong) {
    const test::TemporaryFolder folder;
    EXPECT_EQ(code_of([&] { const MappedFile file(folder.path() / "absent"); }), ErrorCode::missing);
    EXPECT_EQ(code_of([&] { const MappedFile file(folder.path()); }), ErrorCode::bad_input);
    write_new_file(folder.path() / "empty", "");
    EXPECT_TRUE(MappedFile(folder.path() / "empty").bytes().empty());
}

TEST(MappedFile, BytesStayReadableAfterRelease) {
    const test::TemporaryFolder folder;
    const std::string text(100'000, 'k');
    write_new_file(folder.path() / "file", text);
    const MappedFile file(folder.path() / "file");
    file.release(file.bytes());
    EXPECT_EQ(as_text(file.bytes()), text);
}

TEST(ReadText, RefusesFilesAboveTheLimit) {
    const test::TemporaryFolder folder;
    write_new_file(folder.path() / "file", "12345");
    EXPECT_EQ(code_of([&] { (void)read_text(folder.path() / "file", 4); }), ErrorCode::bad_input);
}

}  // namespace
}  // namespace kaiju
