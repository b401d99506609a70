#include "adapters/process/log_file.h"

#include "unit/adapters/process/process_support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dgxmm::process {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Lines = std::vector<std::string>;

Lines split(std::string_view bytes) {
  Lines lines;
  LineSplitter splitter;
  splitter.feed(bytes, lines);
  splitter.finish(lines);
  return lines;
}

TEST(LogLines, EndWithLfCrOrBoth) { EXPECT_THAT(split("a\nb\r\nc\rd"), ElementsAre("a", "b", "c", "d")); }

TEST(LogLines, EachStepOfAProgressBarIsALine) {
  EXPECT_THAT(split("\r10%\r20%\r30%\n"), ElementsAre("10%", "20%", "30%"));
}

TEST(LogLines, ColoursTitlesAndCursorMovementsAreDropped) {
  EXPECT_THAT(split("\x1b[1;31mred\x1b[0m\n\x1b]0;title\aa\n\x1b]0;title\x1b\\b\n\x1b(Bc\n\x1b[2K\x1b[1Gd\n"),
              ElementsAre("red", "a", "b", "c", "d"));
}

TEST(LogLines, ABrokenEscapeDoesNotSwallowTheLog) {
  EXPECT_THAT(split("a\x1b]no end\nb\x1b[\nc\x1b"), ElementsAre("a", "b", "c"));
}

TEST(LogLines, AnEscapeMayArriveInPieces) {
  LineSplitter splitter;
  Lines lines;
  for (const char byte : std::string_view{"\x1b[31mx\x1b[0m\r\n"}) splitter.feed({&byte, 1}, lines);
  EXPECT_THAT(lines, ElementsAre("x"));
}

TEST(LogLines, ALongLineIsCutAndTheNextOneIsWhole) {
  const auto lines = split(std::string(100'000, 'x') + "\nnext\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].size(), kLogLineLimitBytes);
  EXPECT_EQ(lines[1], "next");
}

class LogFile : public testing::Test {
 protected:
  void append(std::string_view text) const { std::ofstream{log(), std::ios::app} << text; }
  [[nodiscard]] std::filesystem::path log() const { return folder_.path() / "engine.log"; }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(std::filesystem::file_size(log())); }

  TemporaryFolder folder_;
};

TEST_F(LogFile, FollowerHandsOverWholeLinesOnce) {
  FileLogFollower follower{log(), true};
  EXPECT_THAT(follower.read_new(), IsEmpty());
  append("one\ntw");
  EXPECT_THAT(follower.read_new(), ElementsAre("one"));
  append("o\nthree\n");
  EXPECT_THAT(follower.read_new(), ElementsAre("two", "three"));
  EXPECT_THAT(follower.read_new(), IsEmpty());
}

TEST_F(LogFile, FollowerFromTheEndSeesOnlyWhatIsNew) {
  append("old\n");
  FileLogFollower follower{log(), false};
  append("new\n");
  EXPECT_THAT(follower.read_new(), ElementsAre("new"));
}

TEST_F(LogFile, FollowerGoesOnAfterTheLogWasEmptied) {
  FileLogFollower follower{log(), true};
  append("one\ntwo\n");
  follower.read_new();
  std::filesystem::resize_file(log(), 0);
  append("x\n");
  EXPECT_THAT(follower.read_new(), ElementsAre("x"));
}

TEST_F(LogFile, FollowerNoticesAnEmptiedLogThatHasGrownBeyondItsPlace) {
  FileLogFollower follower{log(), true};
  append("one\n");
  follower.read_new();
  std::filesystem::resize_file(log(), 0);
  append("longer than before\nand more\n");
  EXPECT_THAT(follower.read_new(), ElementsAre("longer than before", "and more"));
}

TEST_F(LogFile, FollowerGoesOnInAFileThatReplacedTheLog) {
  FileLogFollower follower{log(), true};
  append("one\npart of a line that never");
  follower.read_new();
  std::filesystem::remove(log());
  append("fresh\n");
  EXPECT_THAT(follower.read_new(), ElementsAre("fresh"));
}

TEST_F(LogFile, FollowerReadsAFloodInBoundedPieces) {
  for (int i = 0; i < 40'000; ++i) append(fmt::format("{:060}\n", i));
  FileLogFollower follower{log(), true};
  std::size_t total = 0;
  int calls = 0;
  for (auto lines = follower.read_new(); !lines.empty(); lines = follower.read_new()) {
    EXPECT_LT(lines.size(), 20'000U);
    total += lines.size();
    ++calls;
  }
  EXPECT_EQ(total, 40'000U);
  EXPECT_GT(calls, 1);
}

TEST_F(LogFile, SomethingThatIsNotAFileIsAnEmptyLog) {
  ASSERT_EQ(::mkfifo(log().c_str(), 0600), 0);
  FileLogFollower follower{log(), true};
  EXPECT_THAT(follower.read_new(), IsEmpty());
  EXPECT_THAT(tail(log(), 10), IsEmpty());
  EXPECT_FALSE(trim(log(), 10));
}

TEST_F(LogFile, TailIsTheNewestLinesOldestFirst) {
  append("one\ntwo\nthree");
  EXPECT_THAT(tail(log(), 2), ElementsAre("two", "three"));
  EXPECT_THAT(tail(log(), 10), ElementsAre("one", "two", "three"));
  EXPECT_THAT(tail(log(), 0), IsEmpty());
  EXPECT_THAT(tail(folder_.path() / "none", 10), IsEmpty());
}

TEST_F(LogFile, TrimLeavesASmallLogAlone) {
  append("one\n");
  EXPECT_TRUE(trim(log(), 100));
  EXPECT_THAT(tail(log(), 10), ElementsAre("one"));
  EXPECT_FALSE(std::filesystem::exists(older_part(log())));
  EXPECT_TRUE(trim(folder_.path() / "none", 100));
}

TEST_F(LogFile, TrimKeepsTheNewestWholeLinesAndTailShowsThem) {
  for (int i = 0; i < 100; ++i) append(fmt::format("line {:04}\n", i));  // 1000 bytes
  ASSERT_TRUE(trim(log(), 400));
  EXPECT_EQ(size(), 0);
  const auto kept = tail(log(), 1000);
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept.back(), "line 0099");
  EXPECT_EQ(kept.size(), 19U);  // 200 bytes, less the line that the cut fell on
  append("line 0100\n");
  EXPECT_THAT(tail(log(), 2), ElementsAre("line 0099", "line 0100"));
}

TEST_F(LogFile, AWriterThatAppendsGoesOnAtTheBeginning) {
  const FileDescriptor writer{::open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  const std::string block(1000, 'x');
  ASSERT_EQ(::write(writer.get(), block.data(), block.size()), 1000);
  ASSERT_TRUE(trim(log(), 500));
  ASSERT_EQ(::write(writer.get(), "y\n", 2), 2);
  EXPECT_EQ(size(), 2) << "a hole would count as the old size again";
}

TEST_F(LogFile, TrimWithALiveWriterKeepsTheLogBoundedAndItsLinesWhole) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    // Ended between two lines: the kernel cuts a write across a page short when its process is killed.
    static volatile std::sig_atomic_t ended = 0;
    std::signal(SIGTERM, [](int) { ended = 1; });
    const int file = ::open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int i = 0; ended == 0; ++i) {
      const auto line = fmt::format("<{:06}>\n", i % 1'000'000);
      if (::write(file, line.data(), line.size()) < 0) ::_exit(1);
    }
    ::_exit(0);
  }
  FileLogFollower follower{log(), true};
  constexpr std::int64_t kLimit = 64 * 1024;
  int trims = 0;
  std::size_t broken = 0;
  while (trims < 8) {
    std::error_code missing;
    const auto before = std::filesystem::file_size(log(), missing);
    for (const auto& line : follower.read_new()) broken += line.size() != 8 ? 1 : 0;
    EXPECT_TRUE(trim(log(), kLimit));
    if (!missing && static_cast<std::int64_t>(before) > kLimit) ++trims;
  }
  ::kill(writer, SIGTERM);
  ::waitpid(writer, nullptr, 0);
  EXPECT_EQ(broken, 0U);
  for (const auto& line : tail(log(), 100'000)) EXPECT_EQ(line.size(), 8U) << line;
}

TEST_F(LogFile, TrimDoesNotFollowALink) {
  const auto target = folder_.path() / "precious";
  std::ofstream{target} << std::string(1000, 'x');
  std::filesystem::create_symlink(target, log());
  EXPECT_FALSE(trim(log(), 10));
  EXPECT_EQ(std::filesystem::file_size(target), 1000U);
}

TEST_F(LogFile, LinesCanBeAppendedByTheDaemonItself) {
  FileEngineLogs logs{1024};
  ASSERT_TRUE(logs.append(log().string(), "a\n"));
  ASSERT_TRUE(logs.append(log().string(), "b\nc\n"));
  EXPECT_THAT(logs.tail(log().string(), 10), ElementsAre("a", "b", "c"));
  const auto nowhere = logs.append((folder_.path() / "no-such-folder" / "log").string(), "a\n");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, "log_unusable");
}

TEST_F(LogFile, RemoveTakesTheOlderPartToo) {
  append(std::string(100, '\n') + "x\n");
  FileEngineLogs logs{50};
  logs.trim(log().string());
  append("y\n");
  EXPECT_THAT(logs.tail(log().string(), 5), ElementsAre("x", "y"));
  logs.remove(log().string());
  EXPECT_THAT(logs.tail(log().string(), 5), IsEmpty());
}

}  // namespace
}  // namespace dgxmm::process
