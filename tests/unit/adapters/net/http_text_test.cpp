#include "adapters/net/http_text.h"

#include "base/json_codec.h"

#include <gtest/gtest.h>

namespace dgxmm::net {
namespace {

using Query = std::map<std::string, std::string>;

TEST(HttpTarget, IsDecodedOnceAndKeepsDotSegments) {
  const auto plain = parse_target("/api/v1/models");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->path, "/api/v1/models");
  EXPECT_TRUE(plain->query.empty());

  const auto encoded = parse_target("/a%2Fb%20c/..//%252e+?x=1%262&y=a+b&z&=e&&w=");
  ASSERT_TRUE(encoded);
  EXPECT_EQ(encoded->path, "/a/b c/..//%2e+");
  EXPECT_EQ(encoded->query, (Query{{"x", "1&2"}, {"y", "a b"}, {"z", ""}, {"", "e"}, {"w", ""}}));

  const auto umlaut = parse_target("/%C3%A4?%E2%82%AC=1");
  ASSERT_TRUE(umlaut);
  EXPECT_EQ(umlaut->path, "/\xC3\xA4");
  EXPECT_EQ(umlaut->query, (Query{{"\xE2\x82\xAC", "1"}}));

  const auto second_question = parse_target("/a?b=c?d=e");
  ASSERT_TRUE(second_question);
  EXPECT_EQ(second_question->query, (Query{{"b", "c?d=e"}}));
}

TEST(HttpTarget, RefusesWhatTwoReadersCouldUnderstandDifferently) {
  for (const std::string_view target : {"",
                                        "*",
                                        "api",
                                        "http://host/api",
                                        "host:80",
                                        "/%",
                                        "/%4",
                                        "/%4g",
                                        "/%g4",
                                        "/%00",
                                        "/%0a",
                                        "/%7f",
                                        "/a?x=%00",
                                        "/a?x=%",
                                        "/a?%1f=1",
                                        "/a?x=1&x=2",
                                        "/a b",
                                        "/a#b",
                                        "/a\tb",
                                        "/\x80",
                                        "/a?\xC3\xA4",
                                        "/%ff",
                                        "/%C3",
                                        "/a?%E0%80%80=1"}) {
    const auto result = parse_target(target);
    ASSERT_FALSE(result) << target;
    EXPECT_EQ(result.error().code, "bad_request") << target;
  }
  EXPECT_FALSE(parse_target(std::string_view{"/a\0b", 4}));
}

TEST(HttpHead, AnAnswerHasOurFramingAndNoOther) {
  const HeaderList headers{{"Content-Type", "text/plain"},
                           {"content-length", "99"},
                           {"Transfer-Encoding", "gzip"},
                           {"Connection", "upgrade"}};
  EXPECT_EQ(response_head(200, headers, Framing::length, 5, true),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(response_head(404, {}, Framing::chunked, 0, false),
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(response_head(204, {}, Framing::none, 0, true),
            "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
}

TEST(HttpHead, AValueCannotBeginAnotherLine) {
  const HeaderList headers{{"X-A", "1\r\nSet-Cookie: a=b"}, {"X B", "2"}, {"X-C:", "3"}, {"", "4"}, {"X-D", "\n"}};
  EXPECT_EQ(response_head(200, headers, Framing::none, 0, false), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
}

TEST(HttpHead, ARequestIsWrittenOrRefusedButNeverBroken) {
  const auto get = request_head("GET", "/v1/models?a=b", "127.0.0.1:80", {{"Accept", "*/*"}}, 0);
  ASSERT_TRUE(get);
  EXPECT_EQ(*get, "GET /v1/models?a=b HTTP/1.1\r\nAccept: */*\r\nHost: 127.0.0.1:80\r\nConnection: close\r\n\r\n");
  const auto post = request_head("POST", "/", "h", {{"host", "other"}, {"Content-Length", "9"}}, 0);
  ASSERT_TRUE(post);
  EXPECT_EQ(*post, "POST / HTTP/1.1\r\nhost: other\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");

  EXPECT_FALSE(request_head("GET", "/a b", "h", {}, 0));
  EXPECT_FALSE(request_head("GET", "/a\r\nX: y", "h", {}, 0));
  EXPECT_FALSE(request_head("GET", "a", "h", {}, 0));
  EXPECT_FALSE(request_head("GE T", "/", "h", {}, 0));
  EXPECT_FALSE(request_head("", "/", "h", {}, 0));
  EXPECT_FALSE(request_head("GET", "/", "h\r\n", {}, 0));
  EXPECT_FALSE(request_head("GET", "/", "h", {{"A", "b\nc"}}, 0));
  EXPECT_FALSE(request_head("GET", "/", "h", {{"A:", "b"}}, 0));
}

TEST(HttpPart, WhatCouldMeanSomethingElseIsEscaped) {
  EXPECT_EQ(percent_encode("aZ9-._~"), "aZ9-._~");
  EXPECT_EQ(percent_encode("a/b?c=d&e f:{\"x\"}"), "a%2Fb%3Fc%3Dd%26e%20f%3A%7B%22x%22%7D");
  EXPECT_EQ(percent_encode("\xff\n"), "%FF%0A");
}

TEST(HttpChunk, AnEmptyPieceDoesNotEndTheBody) {
  EXPECT_EQ(chunk(""), "");
  EXPECT_EQ(chunk("0123456789abcdef!"), "11\r\n0123456789abcdef!\r\n");
}

TEST(HttpProblem, IsAJsonDocumentWithItsCode) {
  const auto document = json::parse(problem_document(413, "body_too_large", "the body may have 8 bytes"));
  ASSERT_TRUE(document);
  const auto& object = document->as_object();
  EXPECT_EQ(object.at("type"), "about:blank");
  EXPECT_EQ(object.at("title"), "Content Too Large");
  EXPECT_EQ(object.at("status"), 413);
  EXPECT_EQ(object.at("detail"), "the body may have 8 bytes");
  EXPECT_EQ(object.at("code"), "body_too_large");
}

}  // namespace
}  // namespace dgxmm::net
