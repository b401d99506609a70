#include "adapters/net/http_message.h"

#include "fuzz/http_checks.h"

#include <gtest/gtest.h>

#include <vector>

namespace dgxmm::net {
namespace {

using Role = MessageReader::Role;
using Step = MessageReader::Step;

struct Message {
  MessageHead head;
  std::string body;
};

struct Outcome {
  std::vector<Message> messages;
  std::string error;  // code; empty: none
  bool between_messages = false;
};

/// Reads all that there is, with `bytes` cut into the given pieces.
Outcome read_pieces(Role role, const std::vector<std::string_view>& pieces) {
  MessageReader reader(role);
  Outcome outcome;
  Message current;
  for (const auto piece : pieces) {
    reader.put(piece);
    for (;;) {
      const auto step = reader.next();
      if (!step) {
        outcome.error = step.error().code;
        return outcome;
      }
      if (*step == Step::need_more) break;
      if (*step == Step::head) current = {.head = reader.head(), .body = {}};
      if (*step == Step::body) current.body += reader.piece();
      if (*step == Step::end) outcome.messages.push_back(current);
    }
  }
  outcome.between_messages = reader.between_messages();
  return outcome;
}

Outcome read_all(Role role, std::string_view bytes) { return read_pieces(role, {bytes}); }

void expect_same(const Outcome& a, const Outcome& b, std::size_t cut) {
  EXPECT_EQ(a.error, b.error) << "cut at " << cut;
  ASSERT_EQ(a.messages.size(), b.messages.size()) << "cut at " << cut;
  for (std::size_t i = 0; i < a.messages.size(); ++i) {
    EXPECT_EQ(a.messages[i].body, b.messages[i].body) << "cut at " << cut;
    EXPECT_EQ(a.messages[i].head.target, b.messages[i].head.target) << "cut at " << cut;
    EXPECT_EQ(a.messages[i].head.headers, b.messages[i].head.headers) << "cut at " << cut;
  }
}

const std::string kChunkedThenPipelined =
    "POST /one HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5;name=value\r\nhello\r\n00c\r\n, wide world\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    "GET /two?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"
    "PUT /three HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

TEST(MessageReader, ReadsPipelinedRequestsOneAfterTheOther) {
  const auto outcome = read_all(Role::request, kChunkedThenPipelined);
  ASSERT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.messages.size(), 3U);
  EXPECT_TRUE(outcome.between_messages);
  EXPECT_EQ(outcome.messages[0].head.method, "POST");
  EXPECT_EQ(outcome.messages[0].body, "hello, wide world");
  EXPECT_TRUE(outcome.messages[0].head.chunked);
  EXPECT_EQ(outcome.messages[1].head.target, "/two?x=1");
  EXPECT_EQ(outcome.messages[1].body, "");
  EXPECT_EQ(outcome.messages[2].body, "abc");
  EXPECT_EQ(outcome.messages[2].head.content_length, 3U);
  for (const auto& message : outcome.messages) EXPECT_TRUE(message.head.keep_alive);
}

TEST(MessageReader, ACutAtAnyByteChangesNothing) {
  const auto whole = read_all(Role::request, kChunkedThenPipelined);
  const std::string_view bytes = kChunkedThenPipelined;
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    expect_same(read_pieces(Role::request, {bytes.substr(0, cut), bytes.substr(cut)}), whole, cut);
  }
  std::vector<std::string_view> single;
  for (std::size_t i = 0; i < bytes.size(); ++i) single.push_back(bytes.substr(i, 1));
  expect_same(read_pieces(Role::request, single), whole, bytes.size() + 1);
}

TEST(MessageReader, TrailersNeverReachTheHead) {
  const auto outcome = read_all(Role::request, kChunkedThenPipelined);
  ASSERT_EQ(outcome.messages.size(), 3U);
  EXPECT_FALSE(outcome.messages[0].head.header("authorization"));
  EXPECT_EQ(outcome.messages[0].head.headers.size(), 2U);
}

struct HostileHead {
  std::string name;
  std::string bytes;
  std::string error;
};

std::vector<HostileHead> hostile_heads() {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  return {
      {"length_and_chunked", post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", "bad_request"},
      {"chunked_and_length", post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", "bad_request"},
      {"two_lengths", post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "bad_request"},
      {"same_length_twice", post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "bad_request"},
      {"signed_length", post + "Content-Length: +3\r\n\r\nabc", "bad_request"},
      {"negative_length", post + "Content-Length: -3\r\n\r\nabc", "bad_request"},
      {"hexadecimal_length", post + "Content-Length: 0x3\r\n\r\nabc", "bad_request"},
      {"length_too_large", post + "Content-Length: 18446744073709551616\r\n\r\n", "bad_request"},
      {"empty_length", post + "Content-Length: \r\n\r\n", "bad_request"},
      {"space_before_colon", start + "X-A : b\r\n\r\n", "bad_request"},
      {"space_in_name", start + "X A: b\r\n\r\n", "bad_request"},
      {"no_colon", start + "X-A\r\n\r\n", "bad_request"},
      {"empty_name", start + ": b\r\n\r\n", "bad_request"},
      {"bare_line_feed", "GET / HTTP/1.1\nHost: a\n\n", "bad_request"},
      {"bare_line_feed_in_header", start + "X-A: b\nX-C: d\r\n\r\n", "bad_request"},
      {"bare_return", start + "X-A: b\rX-C: d\r\n\r\n", "bad_request"},
      {"nul", start + "X-A: b" + std::string(1, '\0') + "c\r\n\r\n", "bad_request"},
      {"escape_character", start + "X-A: \x1b[2J\r\n\r\n", "bad_request"},
      {"folded_line", start + "X-A: b\r\n c\r\n\r\n", "bad_request"},
      {"folded_with_tab", start + "X-A: b\r\n\tc\r\n\r\n", "bad_request"},
      {"folded_first_header", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "bad_request"},
      {"gzip", post + "Transfer-Encoding: gzip\r\n\r\n", "unsupported_encoding"},
      {"chunked_then_identity", post + "Transfer-Encoding: chunked, identity\r\n\r\n", "unsupported_encoding"},
      {"gzip_then_chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "unsupported_encoding"},
      {"chunked_twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "bad_request"},
      {"gzip_beside_chunked", post + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
       "unsupported_encoding"},
      {"empty_encoding", post + "Transfer-Encoding:\r\n\r\n", "unsupported_encoding"},
      {"chunked_in_1_0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_request"},
      {"no_host", "GET / HTTP/1.1\r\n\r\n", "bad_request"},
      {"two_hosts", start + "Host: b\r\n\r\n", "bad_request"},
      {"http_2", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "bad_request"},
      {"http_0_9", "GET /\r\n\r\n", "bad_request"},
      {"http_2_preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "bad_request"},
      {"two_spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
      {"empty_first_line", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "bad_request"},
      {"only_empty_lines", "\r\n\r\n\r\n", "bad_request"},
      {"a_response", "HTTP/1.1 200 OK\r\nHost: a\r\n\r\n", "bad_request"},
      {"tls", "\x16\x03\x01\x02\x01\x01\xFC\x03\x03", "bad_request"},
      {"head_without_end", start + "X: " + std::string(kHeadLimit, 'x'), "head_too_large"},
      {"first_line_without_end", "GET /" + std::string(kHeadLimit, 'x'), "head_too_large"},
  };
}

class HostileHeads : public ::testing::TestWithParam<HostileHead> {};

TEST_P(HostileHeads, AreRefusedHoweverTheyAreCut) {
  const auto& [name, bytes, error] = GetParam();
  EXPECT_EQ(read_all(Role::request, bytes).error, error);
  EXPECT_TRUE(read_all(Role::request, bytes).messages.empty());
  const std::string_view view = bytes;
  for (std::size_t cut = 1; cut < std::min<std::size_t>(view.size(), 200); ++cut) {
    EXPECT_EQ(read_pieces(Role::request, {view.substr(0, cut), view.substr(cut)}).error, error) << "cut at " << cut;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, HostileHeads, ::testing::ValuesIn(hostile_heads()),
                         [](const auto& info) { return info.param.name; });

TEST(MessageReader, TheChecksOfTheFuzzerHoldForItsSeeds) {
  for (const auto& hostile : hostile_heads()) dgxmm::testing::check_http_requests(hostile.bytes);
  dgxmm::testing::check_http_requests(kChunkedThenPipelined);
  EXPECT_EQ(dgxmm::testing::read_requests({kChunkedThenPipelined}).size(), 3U);
}

TEST(MessageReader, RefusesBrokenChunks) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body :
       {"g\r\n", "-1\r\n", "\r\n", "5\r\nhello!\r\n0\r\n\r\n", "5\nhello\r\n", "fffffffffffffffff\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n", "0\r\nContent-Length: 3\r\n\r\n", "0\r\nbad trailer\r\n\r\n"}) {
    EXPECT_EQ(read_all(Role::request, head + body).error, "bad_request") << body;
  }
  EXPECT_EQ(read_all(Role::request, head + "5;" + std::string(kHeadLimit, 'x')).error, "bad_request");
  EXPECT_EQ(read_all(Role::request, head + "0\r\nX: " + std::string(kHeadLimit, 'x')).error, "bad_request");
}

TEST(MessageReader, AHeadMayFillItsLimit) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  const auto request = start + std::string(kHeadLimit - start.size() - 4, 'x') + "\r\n\r\n";
  ASSERT_EQ(request.size(), kHeadLimit);
  const auto outcome = read_all(Role::request, request);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.messages.size(), 1U);
}

TEST(MessageReader, KnowsWhenAConnectionStaysOpen) {
  const auto keep_alive = [](const std::string& bytes) {
    const auto outcome = read_all(Role::request, bytes);
    return outcome.messages.size() == 1 && outcome.messages[0].head.keep_alive;
  };
  EXPECT_TRUE(keep_alive("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keep_alive("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(keep_alive("GET / HTTP/1.0\r\nHost: a\r\n\r\n"));
  EXPECT_TRUE(keep_alive("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n"));
}

TEST(MessageReader, AnInterimAnswerComesBeforeTheFinalOne) {
  const auto outcome =
      read_all(Role::response,
               "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\nX-A: 2\r\n\r\nok");
  ASSERT_EQ(outcome.error, "");
  ASSERT_EQ(outcome.messages.size(), 2U);
  EXPECT_EQ(outcome.messages[0].head.status, 100);
  EXPECT_EQ(outcome.messages[1].head.status, 200);
  EXPECT_EQ(outcome.messages[1].body, "ok");
  EXPECT_EQ(outcome.messages[1].head.headers.size(), 3U);
}

TEST(MessageReader, SomeAnswersHaveNoBodyWhateverTheirHeadSays) {
  for (const std::string status : {"204 No Content", "304 Not Modified"}) {
    const auto outcome = read_all(Role::response, "HTTP/1.1 " + status + "\r\nContent-Length: 5\r\n\r\n");
    EXPECT_EQ(outcome.messages.size(), 1U) << status;
  }
  MessageReader reader(Role::response);
  reader.expect_no_body();
  reader.put("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(reader.next(), Step::head);
  EXPECT_EQ(reader.next(), Step::end);
}

TEST(MessageReader, AnAnswerWithoutALengthEndsWithTheConnection) {
  MessageReader reader(Role::response);
  reader.put("HTTP/1.1 200 OK\r\n\r\nabc");
  EXPECT_EQ(reader.next(), Step::head);
  EXPECT_EQ(reader.next(), Step::body);
  EXPECT_EQ(reader.piece(), "abc");
  EXPECT_EQ(reader.next(), Step::need_more);
  EXPECT_TRUE(reader.finish());
}

TEST(MessageReader, AnAnswerThatBreaksOffIsAnError) {
  for (const std::string bytes : {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
                                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    MessageReader reader(Role::response);
    reader.put(bytes);
    for (auto step = reader.next(); step && *step != Step::need_more;) step = reader.next();
    const auto finished = reader.finish();
    ASSERT_FALSE(finished) << bytes;
    EXPECT_EQ(finished.error().code, "bad_response") << bytes;
  }
}

TEST(MessageReader, ABadAnswerIsABadResponse) {
  for (const auto& bytes :
       {std::string{"SSH-2.0-OpenSSH\r\n\r\n"}, std::string{"HTTP/1.1 20 OK\r\n\r\n"},
        std::string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"}, std::string{"HTTP/1.1 200 OK\n\n"},
        "HTTP/1.1 200 OK\r\nX: " + std::string(kHeadLimit, 'x')}) {
    EXPECT_EQ(read_all(Role::response, bytes).error, "bad_response") << bytes.substr(0, 60);
  }
}

}  // namespace
}  // namespace dgxmm::net
