#include "adapters/net/sse.h"

#include <gtest/gtest.h>

namespace dgxmm::net {
namespace {

using Events = std::vector<SseEvent>;

Events parse_all(const std::vector<std::string_view>& pieces) {
  SseParser parser;
  Events all;
  for (const auto piece : pieces) {
    const auto events = parser.put(piece);
    EXPECT_TRUE(events);
    if (events) all.insert(all.end(), events->begin(), events->end());
  }
  return all;
}

TEST(Sse, WhatIsWrittenIsReadAgain) {
  const Events events{{"1", "deployment.state", R"({"a":1})"}, {"2", "", "two\nlines\n"}, {"3", "x", ""}};
  std::string text;
  for (const auto& event : events) {
    text += to_sse(event);
    text += kSseHeartbeat;
  }
  EXPECT_EQ(parse_all({text}), events);
}

TEST(Sse, DataCannotBeginAnotherField) {
  EXPECT_EQ(to_sse({"1\n2", "a\rb", "x\r\nid: 9\ry\nz"}),
            "id: 12\nevent: ab\ndata: x\ndata: id: 9\ndata: y\ndata: z\n\n");
}

TEST(Sse, ACutAtAnyByteChangesNothing) {
  const std::string_view text =
      "\xEF\xBB\xBF: hello\r\n\r\nid: 7\r\nevent: a\r\ndata:  one\r\ndata:two\r\n\r\n"
      "data\n\nretry: 5\nunknown: x\ndata: three\rdata: four\r\r"
      "event: without data\n\nid\ndata: five\n\ndata: never complete";
  const Events expected{{"7", "a", " one\ntwo"}, {"7", "", ""}, {"7", "", "three\nfour"}, {"", "", "five"}};
  EXPECT_EQ(parse_all({text}), expected);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(parse_all({text.substr(0, cut), text.substr(cut)}), expected) << "cut at " << cut;
  }
}

TEST(Sse, AnIdWithANulIsIgnored) {
  const std::string text{"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", 31};
  EXPECT_EQ(parse_all({text}), (Events{{"1", "", "a"}, {"1", "", "b"}}));
}

TEST(Sse, AnEventWithoutEndDoesNotFillTheMemory) {
  SseParser long_line(64);
  const auto line = long_line.put("data: " + std::string(64, 'x'));
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, "bad_event_stream");

  SseParser many_lines(64);
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "data:x\n";
  EXPECT_FALSE(many_lines.put(lines));
}

}  // namespace
}  // namespace dgxmm::net
