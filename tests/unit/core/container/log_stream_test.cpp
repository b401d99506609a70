#include "core/container/log_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::container {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::string frame(int type, std::string_view payload) {
  std::string result{static_cast<char>(type), 0, 0, 0};
  for (const unsigned shift : {24U, 16U, 8U, 0U}) result += static_cast<char>((payload.size() >> shift) & 0xffU);
  return result + std::string{payload};
}

std::vector<std::string> read_all(LogStream stream, std::string_view bytes, std::size_t piece) {
  std::vector<std::string> result;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    const auto lines = stream.put(bytes.substr(0, piece));
    if (!lines) {
      result.push_back(lines.error().code);
      return result;
    }
    for (const auto& line : *lines) result.push_back(line.text);
  }
  for (const auto& line : stream.finish()) result.push_back(line.text);
  return result;
}

TEST(LogStream, FramesMayBeCutAnywhere) {
  const auto bytes = frame(1, "one\ntw") + frame(2, "error\n") + frame(1, "") + frame(1, "o\nrest");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    EXPECT_THAT(read_all(LogStream{false}, bytes, piece), ElementsAre("one", "error", "two", "rest")) << piece;
  }
}

TEST(LogStream, OfATerminalTheBytesAreRawEvenWhenTheyLookLikeAHeader) {
  const std::string bytes = std::string{"\x01\0\0\0\0\0\0\x03", 8} + "abc\r\nnext\r\n";
  EXPECT_THAT(read_all(LogStream{true}, bytes, 3), ElementsAre(std::string{"\x01\0\0\0\0\0\0\x03", 8} + "abc", "next"));
}

TEST(LogStream, TheEnginesTimeIsTakenOffTheLine) {
  LogStream stream{false};
  const auto lines =
      stream.put(frame(1, "2026-11-30T02:08:07.393163128Z loading model\n2026-11-30T02:08:08Z \nno time\n"));
  ASSERT_TRUE(lines);
  ASSERT_THAT(*lines, SizeIs(3));
  EXPECT_EQ((*lines)[0].text, "loading model");
  ASSERT_TRUE((*lines)[0].time && (*lines)[1].time);
  EXPECT_LT(*(*lines)[0].time, *(*lines)[1].time);
  EXPECT_EQ((*lines)[1].text, "");
  EXPECT_EQ((*lines)[2].text, "no time");
  EXPECT_FALSE((*lines)[2].time);
}

TEST(LogStream, ABrokenFrameEndsItAndAllocatesNothing) {
  for (const auto& header : {std::string{"\x07\0\0\0\0\0\0\x01", 8}, std::string{"\x01\1\0\0\0\0\0\x01", 8},
                             std::string{"\x01\0\0\0\x7f\xff\xff\xff", 8}, std::string{"\xff\0\0\0\0\0\0\x01", 8},
                             std::string{"HTTP/1.1", 8}}) {
    LogStream stream{false};
    const auto lines = stream.put(header + "x");
    ASSERT_FALSE(lines);
    EXPECT_EQ(lines.error().code, "bad_log_stream");
  }
}

TEST(LogStream, AMessageOfTheEngineIsAnErrorNotALine) {
  LogStream stream{false};
  const auto lines = stream.put(frame(3, "Error grabbing logs: \x1b[31mbroken"));
  ASSERT_FALSE(lines);
  EXPECT_THAT(lines.error().message, testing::HasSubstr("Error grabbing logs"));
  EXPECT_THAT(lines.error().message, testing::Not(testing::HasSubstr("\x1b")));
}

TEST(LogStream, ALineWithoutEndIsCut) {
  LogStream stream{true};
  for (int i = 0; i < 100; ++i) {
    const auto lines = stream.put(std::string(10'000, 'x'));
    ASSERT_TRUE(lines);
    EXPECT_THAT(*lines, IsEmpty());
  }
  const auto lines = stream.put("\nnext\n");
  ASSERT_TRUE(lines);
  ASSERT_THAT(*lines, SizeIs(2));
  EXPECT_EQ((*lines)[0].text.size(), 16U * 1024);
  EXPECT_EQ((*lines)[1].text, "next");
}

TEST(JsonLines, ObjectsMayBeCutAnywhere) {
  const std::string bytes = "{\"a\":1}\n\r\n{\"b\":2}\n{\"c\"";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    JsonLines reader;
    std::vector<std::string> found;
    for (std::string_view rest = bytes; !rest.empty(); rest.remove_prefix(std::min(piece, rest.size()))) {
      const auto lines = reader.put(rest.substr(0, piece));
      ASSERT_TRUE(lines);
      found.insert(found.end(), lines->begin(), lines->end());
    }
    EXPECT_THAT(found, ElementsAre("{\"a\":1}", "{\"b\":2}"));
  }
}

TEST(JsonLines, OneWithoutEndIsRefused) {
  JsonLines reader;
  bool refused = false;
  for (int i = 0; i < 200 && !refused; ++i) refused = !reader.put(std::string(10'000, 'x'));
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace dgxmm::container
