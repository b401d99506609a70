#include "adapters/net/http_client.h"

#include "net_fixture.h"

namespace dgxmm::net {
namespace {

using ports::HttpCall;
using ports::HttpReply;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

Task<> run_call(AsioEventLoop* loop, AsioHttpClient* client, HttpCall call, std::function<bool(std::string_view)> piece,
                Result<HttpReply>* out) {
  if (piece) {
    *out = co_await client->stream(std::move(call), std::move(piece));
  } else {
    *out = co_await client->call(std::move(call));
  }
  loop->stop();
}

Result<HttpReply> call(HttpCall request, std::function<bool(std::string_view)> piece = {}) {
  AsioEventLoop loop;
  AsioHttpClient client(loop);
  Result<HttpReply> reply;
  loop.spawn("call", run_call(&loop, &client, std::move(request), std::move(piece), &reply));
  loop.run();
  return reply;
}

HttpCall to(std::uint16_t port, std::string path = "/") {
  HttpCall request;
  request.target.port = port;
  request.path = std::move(path);
  return request;
}

/// A server for one connection: takes a request head, answers with `bytes`, closes.
class OneAnswer {
 public:
  explicit OneAnswer(std::string bytes) {
    thread_ = std::thread([this, bytes = std::move(bytes)] {
      auto socket = listener_.accept();
      request = socket.read_until("\r\n\r\n");
      socket.send(bytes);
      socket.end_writing();
      request += socket.read_to_end();
    });
  }
  ~OneAnswer() { join(); }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;
  [[nodiscard]] std::uint16_t port() const { return listener_.port(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  std::string request;  // after join()

 private:
  RawListener listener_;
  std::thread thread_;
};

TEST(HttpClient, CallsOverTcp) {
  ServerUnderTest server;
  auto request = to(server.port, "/a%20b?x=1");
  request.method = "POST";
  request.headers = {{"X-A", "b"}};
  request.body = std::string(300'000, 'x');
  const auto reply = call(request);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_THAT(reply->body, StartsWith("POST /a b\n?x=1\n"));
  EXPECT_THAT(reply->body, HasSubstr("x-a: b\n"));
  EXPECT_THAT(reply->body, EndsWith("[" + request.body + "]"));
  EXPECT_THAT(reply->headers, testing::Contains(testing::Pair("content-type", "text/plain")));
}

TEST(HttpClient, CallsAHostByItsName) {
  ServerUnderTest server;
  auto request = to(server.port, "/a");
  request.target.host = "localhost";
  const auto reply = call(request);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_THAT(reply->body, HasSubstr("host: localhost:" + std::to_string(server.port) + "\n"));
}

TEST(HttpClient, CallsOverAUnixSocket) {
  const TemporaryFolder folder;
  const auto path = folder.file("socket");
  AsioEventLoop loop;
  ScriptedHandler handler(loop, echo);
  HttpServer server(loop, handler);
  ASSERT_TRUE(server.listen_unix(path));
  std::thread thread([&] { loop.run(); });
  HttpCall request;
  request.target.unix_socket = path;
  request.path = "/a";
  const auto reply = call(request);
  loop.stop();
  thread.join();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_THAT(reply->body, StartsWith("GET /a\n"));
}

TEST(HttpClient, ReadsABodyHoweverItsEndIsMarked) {
  for (const std::string bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.0 200 OK\r\n\r\nhello"}) {
    const OneAnswer server(bytes);
    const auto reply = call(to(server.port()));
    ASSERT_TRUE(reply) << bytes << reply.error().message;
    EXPECT_EQ(reply->body, "hello") << bytes;
  }
}

TEST(HttpClient, SkipsInterimAnswers) {
  const OneAnswer server(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 201 Created\r\n"
      "Content-Length: 1\r\n\r\na");
  const auto reply = call(to(server.port()));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->body, "a");
  EXPECT_THAT(reply->headers, ElementsAre(testing::Pair("content-length", "1")));
}

TEST(HttpClient, DoesNotFollowRedirects) {
  const OneAnswer server("HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n");
  const auto reply = call(to(server.port()));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 302);
}

TEST(HttpClient, HeadHasNoBody) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  auto request = to(server.port());
  request.method = "HEAD";
  const auto reply = call(request);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "");
  server.join();
  EXPECT_THAT(server.request, StartsWith("HEAD / HTTP/1.1\r\nHost: 127.0.0.1:"));
}

TEST(HttpClient, ABodyOverItsLimitIsAnError) {
  for (const std::string bytes :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\n\r\nhello"}) {
    const OneAnswer server(bytes);
    auto request = to(server.port());
    request.body_limit = 4;
    const auto reply = call(request);
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, "body_too_large");
  }
}

TEST(HttpClient, ABrokenAnswerIsAnErrorThatNamesTheServer) {
  const std::pair<std::string, std::string> answers[] = {
      {"", "connection_failed"},
      {"HTTP/1.1 200", "connection_failed"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "connection_failed"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "connection_failed"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", "bad_response"},
      {"SSH-2.0-OpenSSH_9\r\n\r\n", "bad_response"},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "bad_response"},
  };
  for (const auto& [bytes, code] : answers) {
    const OneAnswer server(bytes);
    const auto reply = call(to(server.port()));
    ASSERT_FALSE(reply) << bytes;
    EXPECT_EQ(reply.error().code, code) << bytes;
    EXPECT_EQ(reply.error().where, "127.0.0.1:" + std::to_string(server.port()));
  }
}

TEST(HttpClient, AnEarlyAnswerToALargeBodyIsRead) {
  ServerUnderTest server;
  auto request = to(server.port, "/small");
  request.method = "POST";
  request.body = std::string(4 * 1024 * 1024, 'x');
  const auto reply = call(request);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 413);
}

TEST(HttpClient, NobodyListeningIsAConnectionRefused) {
  RawListener listener;
  const auto port = listener.port();
  listener.close();
  const auto tcp = call(to(port));
  ASSERT_FALSE(tcp);
  EXPECT_EQ(tcp.error().code, "connection_refused");

  const TemporaryFolder folder;
  HttpCall request;
  request.path = "/";
  request.target.unix_socket = folder.file("nothing");
  const auto no_file = call(request);
  ASSERT_FALSE(no_file);
  EXPECT_EQ(no_file.error().code, "connection_refused");
  EXPECT_EQ(no_file.error().where, request.target.unix_socket);

  request.target.unix_socket = folder.file(std::string(200, 'x'));
  EXPECT_FALSE(call(request));
}

TEST(HttpClient, AServerThatNeverAnswersMeetsTheDeadline) {
  const RawListener listener;  // the kernel accepts, nobody reads
  auto request = to(listener.port());
  request.deadline = 20ms;
  const auto silent = call(request);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, "deadline_exceeded");

  request.body = std::string(64 * 1024 * 1024, 'x');
  request.method = "POST";
  const auto not_read = call(request);
  ASSERT_FALSE(not_read);
  EXPECT_EQ(not_read.error().code, "deadline_exceeded");

  const auto no_head = call(request, [](std::string_view) { return true; });
  ASSERT_FALSE(no_head);
  EXPECT_EQ(no_head.error().code, "deadline_exceeded");
}

TEST(HttpClient, ADeadlineIsForTheWholeCallNotForEachRead) {
  const RawListener listener;
  std::atomic<bool> over = false;
  std::thread drip([&] {
    const auto socket = listener.accept();
    socket.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    while (!over && socket.send("x")) {
    }
  });
  auto request = to(listener.port());
  request.deadline = 50ms;
  request.body_limit = std::size_t{1} << 40U;
  const auto reply = call(request);
  over = true;
  drip.join();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, "deadline_exceeded");
}

TEST(HttpClient, StoppingTheLoopCancelsCalls) {
  const RawListener listener;
  AsioEventLoop loop;
  AsioHttpClient client(loop);
  Result<HttpReply> running;
  auto request = to(listener.port());
  request.deadline = 1h;
  loop.spawn("call", run_call(&loop, &client, request, {}, &running));
  std::thread stopper([&] {
    auto socket = listener.accept();
    socket.read_until("\r\n\r\n");
    loop.stop();
    EXPECT_EQ(socket.read_to_end(), "");
  });
  loop.run();
  stopper.join();
  ASSERT_FALSE(running);
  EXPECT_EQ(running.error().code, "cancelled");
}

TEST(HttpClient, StreamsPiecesAsTheyArrive) {
  const RawListener listener;
  std::promise<void> first_seen;
  std::thread server([&] {
    auto socket = listener.accept();
    socket.read_until("\r\n\r\n");
    socket.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    // The second piece is not sent before the first has been handed over.
    EXPECT_TRUE(happens(first_seen));
    socket.send("3\r\ntwo\r\n0\r\n\r\n");
    socket.read_to_end();
  });
  std::vector<std::string> pieces;
  const auto reply = call(to(listener.port()), [&](std::string_view piece) {
    pieces.emplace_back(piece);
    if (pieces.size() == 1) first_seen.set_value();
    return true;
  });
  server.join();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "");
  EXPECT_THAT(pieces, ElementsAre("one", "two"));
}

TEST(HttpClient, AStreamEndsWhenNoMoreIsWanted) {
  const RawListener listener;
  std::thread server([&] {
    auto socket = listener.accept();
    socket.read_until("\r\n\r\n");
    socket.send("HTTP/1.1 200 OK\r\n\r\nsome");
    EXPECT_EQ(socket.read_to_end(), "");  // the client closes
  });
  int pieces = 0;
  const auto reply = call(to(listener.port()), [&](std::string_view) {
    ++pieces;
    return false;
  });
  server.join();
  EXPECT_TRUE(reply);
  EXPECT_EQ(pieces, 1);
}

TEST(HttpClient, TheDeadlineOfAStreamEndsWithItsHead) {
  const RawListener listener;
  std::promise<void> deadline_passed;
  std::thread server([&] {
    auto socket = listener.accept();
    socket.read_until("\r\n\r\n");
    socket.send("HTTP/1.1 200 OK\r\n\r\n");
    EXPECT_TRUE(happens(deadline_passed));
    socket.send("late");
  });
  AsioEventLoop loop;
  AsioHttpClient client(loop);
  Result<HttpReply> reply;
  std::string body;
  auto request = to(listener.port());
  request.deadline = 1s;
  loop.spawn("call", run_call(
                         &loop, &client, request,
                         [&](std::string_view piece) {
                           body += piece;
                           return true;
                         },
                         &reply));
  loop.spawn("later", [](AsioEventLoop* l, std::promise<void>* passed) -> Task<> {
    co_await l->sleep_for(1100ms);
    passed->set_value();
  }(&loop, &deadline_passed));
  loop.run();
  server.join();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(body, "late");
}

TEST(HttpClient, TheBodyOfARefusedStreamIsInTheReply) {
  const OneAnswer server("HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nnope");
  int pieces = 0;
  const auto reply = call(to(server.port()), [&](std::string_view) { return ++pieces > 0; });
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 401);
  EXPECT_EQ(reply->body, "nope");
  EXPECT_EQ(pieces, 0);
}

TEST(HttpClient, WhatWouldBreakTheRequestIsNotSent) {
  RawListener listener;
  for (const std::string path : {"no_slash", "/a b", "/a\r\nX: y"}) {
    const auto reply = call(to(listener.port(), path));
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code, "bad_request");
  }
}

}  // namespace
}  // namespace dgxmm::net
