#include "adapters/net/http_relay.h"

#include "net_fixture.h"

#include <gmock/gmock.h>

#include <optional>
#include <poll.h>

namespace dgxmm::net {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A server on a socket file, played by the test.
class Behind {
 public:
  explicit Behind(const std::string& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Behind() { close(); }
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;

  void listen() const { EXPECT_EQ(::listen(descriptor_, 8), 0); }
  [[nodiscard]] RawSocket accept() const { return RawSocket(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC)); }
  [[nodiscard]] bool was_asked() const {
    pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 0) > 0;
  }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

/// Only what is below /ok passes.
Result<void> below_ok(const MessageHead& head) {
  if (head.target.starts_with("/ok")) return {};
  return fail("path_not_passed_on", "not this one");
}

class HttpRelayTest : public ::testing::Test {
 protected:
  explicit HttpRelayTest(HttpRelayLimits limits = {})
      : behind(folder_.file("s")),
        relay(loop, folder_.file("s"), below_ok, limits) {
    behind.listen();
    port = relay.listen_tcp("127.0.0.1", 0).value();
    thread_ = std::thread([this] { loop.run(); });
  }
  ~HttpRelayTest() override {
    loop.stop();
    thread_.join();
  }

  [[nodiscard]] RawSocket client(std::string_view request) const {
    auto socket = RawSocket::to_port(port);
    socket.send(request);
    return socket;
  }
  std::optional<bool> probe() {
    std::promise<std::optional<bool>> result;
    auto ask = [&]() -> Task<> { result.set_value(co_await relay.probe()); };
    loop.post([&] { loop.spawn("probe", ask()); });
    return result.get_future().get();
  }

 private:
  TemporaryFolder folder_;

 protected:
  AsioEventLoop loop;
  Behind behind;
  HttpRelay relay;
  std::uint16_t port = 0;

 private:
  std::thread thread_;
};

const std::string kGet = "GET /ok HTTP/1.1\r\nHost: h:1\r\n\r\n";

TEST_F(HttpRelayTest, WritesARequestAnewAndItsAnswer) {
  auto client = this->client(
      "POST /ok?a=%41 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 3\r\nX-Two: 1\r\nx-two: 2\r\nConnection: "
      "keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nExpect: \r\nUpgrade: h2c\r\nAuthorization: "
      "Bearer t\r\n\r\nabc");
  auto server = behind.accept();
  EXPECT_EQ(
      server.read_until("abc"),
      "POST /ok?a=%41 HTTP/1.1\r\nhost: h:1\r\nx-two: 1\r\nx-two: 2\r\nauthorization: Bearer t\r\nContent-Length: "
      "3\r\nConnection: close\r\n\r\nabc");
  server.send(
      "HTTP/1.1 201 Created\r\nServer: uvicorn\r\nContent-Length: 2\r\nConnection: keep-alive, X-Hop\r\nX-Hop: "
      "1\r\nX-Id: 7\r\n\r\nok");
  EXPECT_EQ(client.read_to_end(),
            "HTTP/1.1 201 Created\r\nserver: uvicorn\r\nx-id: 7\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
}

TEST_F(HttpRelayTest, WhatMayNotPassNeverReachesTheServer) {
  for (const auto* request :
       {"POST /sleep HTTP/1.1\r\nHost: h\r\n\r\n", "POST http://h/ok HTTP/1.1\r\nHost: h\r\n\r\n"}) {
    EXPECT_THAT(client(request).read_to_end(),
                AllOf(StartsWith("HTTP/1.1 404 Not Found\r\n"), HasSubstr("Content-Type: application/problem+json\r\n"),
                      HasSubstr(R"("code":"path_not_passed_on")")));
  }
  EXPECT_FALSE(behind.was_asked());
}

TEST_F(HttpRelayTest, AHeadThatTwoReadersCouldTakeDifferentlyNeverReachesTheServer) {
  for (const auto* request :
       {"POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "POST /ok HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /ok HTTP/1.1\nHost: h\n\n", "GET /ok HTTP/1.1\r\nHost: h\r\nX: 1\r\n folded\r\n\r\n",
        "GET /ok HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n"}) {
    EXPECT_THAT(client(request).read_to_end(), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << request;
  }
  EXPECT_THAT(client("POST /ok HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n").read_to_end(),
              StartsWith("HTTP/1.1 501 "));
  EXPECT_FALSE(behind.was_asked());
}

TEST_F(HttpRelayTest, WhatFollowsARequestIsNotPassedOn) {
  auto client = this->client(
      "POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcPOST /sleep HTTP/1.1\r\nHost: h\r\n\r\nGET /ok "
      "HTTP/1.1\r\nHost: h\r\n\r\n");
  auto server = behind.accept();
  server.read_until("\r\n\r\nabc");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(server.read_to_end(), "");
  EXPECT_THAT(client.read_to_end(), EndsWith("Connection: close\r\n\r\n"));
  EXPECT_FALSE(behind.was_asked());
}

TEST_F(HttpRelayTest, ABodyInChunksIsChunkedAnewWithoutExtensionsAndTrailers) {
  auto client = this->client("POST /ok HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n");
  auto server = behind.accept();
  EXPECT_THAT(server.read_until("3\r\nabc\r\n"), AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"),
                                                       Not(HasSubstr("Content-Length")), EndsWith("3\r\nabc\r\n")));
  client.send("1\r\nd\r\n0\r\nAuthorization: x\r\n\r\n");
  EXPECT_EQ(server.read_until("0\r\n\r\n"), "1\r\nd\r\n0\r\n\r\n");
  server.send("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_EQ(client.read_to_end(), "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
}

TEST_F(HttpRelayTest, PiecesOfAnAnswerArriveAsTheyAreSent) {
  auto client = this->client(kGet);
  auto server = behind.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  server.send("9\r\ndata: 1\n\n\r\n");
  EXPECT_EQ(client.read_until("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  server.send("9\r\ndata: 2\n\n\r\n");
  EXPECT_EQ(client.read_until("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
  server.send("0\r\n\r\n");
  EXPECT_EQ(client.read_to_end(), "0\r\n\r\n");
}

TEST_F(HttpRelayTest, ALargeBodyPassesBothWays) {
  constexpr std::size_t kSize = 2 * 1024 * 1024;
  std::string body(kSize, 'x');
  body.back() = '!';
  auto client = RawSocket::to_port(port);
  std::thread sends([&] {
    client.send("POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(kSize) + "\r\n\r\n");
    client.send(body);
  });
  auto server = behind.accept();
  const auto head =
      "POST /ok HTTP/1.1\r\nhost: h\r\nContent-Length: " + std::to_string(kSize) + "\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(server.read_until("!").size(), head.size() + kSize);
  sends.join();
  std::thread answers([&] {
    server.send("HTTP/1.1 200 OK\r\n\r\n");  // to the end of the connection
    server.send(body);
    server.close();
  });
  auto answer = client.read_until("0\r\n\r\n");
  answers.join();
  EXPECT_THAT(answer.substr(0, 200), HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_GT(answer.size(), kSize);
  EXPECT_EQ(client.read_to_end(), "");
}

TEST_F(HttpRelayTest, AnAnswerBeforeTheEndOfTheBodyArrives) {
  auto client = this->client("POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
  auto server = behind.accept();
  server.read_until("abc");
  server.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
  server.close();
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 413 "), EndsWith("no")));
}

TEST_F(HttpRelayTest, AClientThatLeavesEndsTheRequestBehind) {
  for (const bool reset : {false, true}) {
    auto client = this->client(kGet);
    auto server = behind.accept();
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    client.read_until("a");
    if (reset) client.reset();
    client.close();
    EXPECT_EQ(server.read_to_end(), "");
  }
}

TEST_F(HttpRelayTest, AClientThatLeavesWithinItsBodyEndsTheRequestBehind) {
  auto client = this->client("POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
  auto server = behind.accept();
  server.read_until("abc");
  client.close();
  EXPECT_EQ(server.read_to_end(), "");
}

TEST_F(HttpRelayTest, ABodyThatCannotBeReadIsRefused) {
  auto client = this->client("POST /ok HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n");
  auto server = behind.accept();
  EXPECT_THAT(server.read_to_end(), Not(HasSubstr("0\r\n\r\n")));
  EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 400 "));
}

TEST_F(HttpRelayTest, AServerThatEndsBeforeItsAnswerIsABadGateway) {
  for (const auto* begun : {"", "HTTP/1.1 20", "not http\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n"}) {
    auto client = this->client(kGet);
    auto server = behind.accept();
    server.read_until("\r\n\r\n");
    server.send(begun);
    server.close();
    EXPECT_THAT(client.read_to_end(),
                AllOf(StartsWith("HTTP/1.1 502 Bad Gateway\r\n"), HasSubstr(R"("code":"engine_unreachable")")));
  }
}

TEST_F(HttpRelayTest, AServerThatEndsWithinItsAnswerIsNoticed) {
  auto client = this->client(kGet);
  auto server = behind.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
  client.read_until("a\r\n");
  server.close();
  EXPECT_EQ(client.read_to_end(), "") << "no last chunk";
}

TEST_F(HttpRelayTest, WithNobodyBehindItIsABadGatewayAndTheProbeSaysSo) {
  EXPECT_EQ(probe(), true);
  auto asked = behind.accept();
  behind.close();
  EXPECT_EQ(probe(), false);
  EXPECT_THAT(client(kGet).read_to_end(), AllOf(StartsWith("HTTP/1.1 502 "), HasSubstr("engine_unreachable")));
}

TEST_F(HttpRelayTest, AHeadRequestHasNoBody) {
  auto client = this->client("HEAD /ok HTTP/1.1\r\nHost: h\r\n\r\n");
  auto server = behind.accept();
  EXPECT_THAT(server.read_until("\r\n\r\n"), StartsWith("HEAD /ok HTTP/1.1\r\n"));
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(client.read_to_end(), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n");
}

TEST_F(HttpRelayTest, InterimAnswersAreNotPassedOnAndTheRelayAsksForTheBodyItself) {
  auto client = this->client("POST /ok HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  auto server = behind.accept();
  EXPECT_THAT(server.read_until("abc"), Not(HasSubstr("xpect")));
  server.send("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_THAT(client.read_to_end(), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nok")));
}

TEST_F(HttpRelayTest, AnHttp10ClientGetsNoChunks) {
  auto client = this->client("GET /ok HTTP/1.0\r\nHost: h\r\n\r\n");
  auto server = behind.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_to_end(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok");
}

TEST_F(HttpRelayTest, WebSocketsAreRefused) {
  EXPECT_THAT(client("GET /ok HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n").read_to_end(),
              AllOf(StartsWith("HTTP/1.1 501 "), HasSubstr("upgrade_not_supported")));
  EXPECT_FALSE(behind.was_asked());
}

TEST_F(HttpRelayTest, StopsWithRequestsInFlight) {
  auto client = this->client(kGet);
  auto server = behind.accept();
  server.read_until("\r\n\r\n");
  loop.stop();
  EXPECT_EQ(server.read_to_end(), "");
}

class SmallRelay : public HttpRelayTest {
 protected:
  SmallRelay() : HttpRelayTest({.connections = 1, .head = 50ms}) {}
};

TEST_F(SmallRelay, RefusesMoreConnectionsThanItTakes) {
  auto first = client(kGet);
  auto server = behind.accept();
  EXPECT_THAT(client("").read_to_end(), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("too_many_connections")));
}

TEST_F(SmallRelay, AHeadThatDoesNotComeEndsTheConnection) {
  EXPECT_EQ(client("").read_to_end(), "");
  EXPECT_THAT(client("GET /ok HTT").read_to_end(), StartsWith("HTTP/1.1 408 "));
}

}  // namespace
}  // namespace dgxmm::net
