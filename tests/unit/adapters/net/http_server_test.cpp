#include "adapters/net/http_server.h"

#include "net_fixture.h"

#include <fcntl.h>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>

namespace dgxmm::net {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kGet = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

TEST(HttpServer, HandsOverTheWholeRequest) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send("POST /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nX-Two: 1\r\nContent-Length: 3\r\nx-two: 2\r\n\r\nabc");
  const auto answer = client.read_answer();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"));
  EXPECT_THAT(answer, HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_THAT(answer, EndsWith("POST /a b\n?x=1\ncontent-length: 3\nhost: h\nx-two: 1, 2\n[abc]"));
}

TEST(HttpServer, KeepsAConnectionForRequestsOfAnyCut) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  const std::string request =
      "PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
  for (std::size_t cut = 1; cut < request.size(); cut += 7) {
    client.send(request.substr(0, cut));
    client.send(request.substr(cut));
    EXPECT_THAT(client.read_answer(), EndsWith("[abc]")) << "cut at " << cut;
  }
  EXPECT_EQ(server.on_loop([&] { return server.server.connections(); }), 1U);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send(
      "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nPOST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nxy"
      "GET /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /4 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.read_answer(), HasSubstr("GET /1\n"));
  EXPECT_THAT(client.read_answer(), EndsWith("[xy]"));
  const auto last = client.read_to_end();
  EXPECT_THAT(last, HasSubstr("GET /3\n"));
  EXPECT_THAT(last, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(last, Not(HasSubstr("GET /4\n")));
  EXPECT_EQ(server.handler.requests, 3);
}

TEST(HttpServer, ServesHttp10) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send("GET /a HTTP/1.0\r\nHost: h\r\n\r\n");
  const auto answer = client.read_to_end();
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("[]"));
}

TEST(HttpServer, HeadIsGetWithoutTheBody) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const auto head = client.read_until("\r\n\r\n");
  const auto get = client.read_to_end();
  const auto length_of = [](const std::string& answer) {
    return answer.substr(answer.find("Content-Length: "),
                         answer.find("Connection: ") - answer.find("Content-Length: "));
  };
  EXPECT_THAT(get, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(get, HasSubstr("GET /a\n"));
  EXPECT_THAT(length_of(head), StartsWith("Content-Length: "));
  EXPECT_NE(length_of(head), "Content-Length: 0\r\n");
}

struct Refused {
  std::string name, bytes;
  int status;
  std::string code;
};

class RefusedRequests : public testing::TestWithParam<Refused> {};

TEST_P(RefusedRequests, AreAnsweredAsAProblemAndNeverReachTheHandler) {
  const auto& [name, bytes, status, code] = GetParam();
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send(bytes);
  const auto answer = client.read_until("}");
  client.close();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(status) + " "));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/problem+json\r\n"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nCache-Control: no-store\r\n"));
  EXPECT_THAT(answer, HasSubstr("\"code\":\"" + code + "\""));
  server.stop();
  EXPECT_EQ(server.handler.requests, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedRequests,
    testing::Values(
        Refused{"not_http", "hello\r\n\r\n", 400, "bad_request"},
        Refused{"bare_line_feed", "GET / HTTP/1.1\nHost: h\n\n", 400, "bad_request"},
        Refused{"no_host", "GET / HTTP/1.1\r\n\r\n", 400, "bad_request"},
        Refused{"absolute_target", "GET http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", 400, "bad_request"},
        Refused{"connect", "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 400, "bad_request"},
        Refused{"nul_in_path", "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400, "bad_request"},
        Refused{"bad_chunk", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", 400,
                "bad_request"},
        Refused{"gzip", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "unsupported_encoding"},
        Refused{"large_head", "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(20'000, 'x'), 431, "head_too_large"},
        Refused{"length_over_limit", "POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n", 413,
                "body_too_large"},
        Refused{"huge_length", "POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n", 413,
                "body_too_large"},
        Refused{
            "chunks_over_limit",
            "POST /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n1\r\n9\r\n0\r\n\r\n",
            413, "body_too_large"},
        Refused{"expects_and_is_too_large",
                "POST /small HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", 413,
                "body_too_large"},
        Refused{"expects_something_else", "POST / HTTP/1.1\r\nHost: h\r\nExpect: coffee\r\nContent-Length: 1\r\n\r\n",
                417, "expectation_failed"}),
    [](const auto& info) { return info.param.name; });

TEST(HttpServer, ABodyMayFillTheLimitOfItsRoute) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send("POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\n12345678");
  EXPECT_THAT(client.read_answer(), EndsWith("[12345678]"));
}

TEST(HttpServer, ALargeBodyThatIsNotWantedStillGetsItsAnswer) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  const std::string body(4 * 1024 * 1024, 'x');
  client.send("POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_TRUE(client.send(body));
  EXPECT_THAT(client.read_until("}"), StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServer, TellsAClientThatAsksToGoOn) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send("POST /a HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  EXPECT_THAT(client.read_answer(), EndsWith("[abc]"));
}

TEST(HttpServer, TrailersAreDropped) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send(
      "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nAuthorization: Bearer y\r\n\r\n");
  EXPECT_THAT(client.read_answer(), EndsWith("POST /a\nhost: h\ntransfer-encoding: chunked\n[x]"));
}

Task<ports::HttpResponse> throws_later(AsioEventLoop* loop) {
  co_await loop->sleep_for(0ms);
  throw std::runtime_error("expected by the test");
}

TEST(HttpServer, AnExceptionOfTheHandlerIsA500AndTheConnectionGoesOn) {
  ServerUnderTest server([](AsioEventLoop* loop, ports::HttpRequest request) {
    if (request.path == "/throw") throw std::runtime_error("expected by the test");
    if (request.path == "/later") return throws_later(loop);
    return echo(loop, std::move(request));
  });
  auto client = RawSocket::to_port(server.port);
  for (const std::string path : {"/throw", "/later"}) {
    client.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n");
    const auto answer = client.read_answer();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 500 "));
    EXPECT_THAT(answer, HasSubstr("\"code\":\"internal_error\""));
    EXPECT_THAT(answer, Not(HasSubstr("expected by the test")));
  }
  client.send(kGet);
  EXPECT_THAT(client.read_answer(), StartsWith("HTTP/1.1 200 "));
}

Task<ports::HttpResponse> no_content() {
  ports::HttpResponse response;
  response.status = 204;
  response.body = "ignored";
  co_return response;
}

TEST(HttpServer, AnAnswerWithoutContentHasNoFraming) {
  ServerUnderTest server([](AsioEventLoop*, const ports::HttpRequest&) { return no_content(); });
  auto client = RawSocket::to_port(server.port);
  client.send(kGet + kGet);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n");
  }
}

/// A handler that answers everything with one stream.
ScriptedHandler::Handle streaming(ScriptedStream::Next next, std::promise<void>* destroyed = nullptr) {
  return [next = std::move(next), destroyed](AsioEventLoop*, const ports::HttpRequest&) {
    ports::HttpResponse response;
    response.headers.emplace_back("Content-Type", "text/event-stream");
    response.stream = std::make_unique<ScriptedStream>(next, destroyed);
    return [](ports::HttpResponse ready) -> Task<ports::HttpResponse> { co_return ready; }(std::move(response));
  };
}

Task<std::optional<std::string>> one_of(std::optional<std::string> piece) { co_return piece; }

TEST(HttpServer, StreamsPieceByPieceAndSkipsEmptyOnes) {
  std::promise<void> destroyed;
  ServerUnderTest server(streaming(
      [](int call) {
        const std::vector<std::optional<std::string>> pieces{"one", "", "two and more", std::nullopt};
        return one_of(pieces.at(static_cast<std::size_t>(call)));
      },
      &destroyed));
  auto client = RawSocket::to_port(server.port);
  client.send(kGet);
  EXPECT_EQ(client.read_to_end(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
            "Connection: close\r\n\r\n3\r\none\r\nc\r\ntwo and more\r\n0\r\n\r\n");
  EXPECT_TRUE(happens(destroyed));
}

TEST(HttpServer, StreamsToHttp10WithoutChunks) {
  ServerUnderTest server(
      streaming([](int call) { return one_of(call < 2 ? std::optional<std::string>{"ab"} : std::nullopt); }));
  auto client = RawSocket::to_port(server.port);
  client.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.read_to_end(), EndsWith("Connection: close\r\n\r\nabab"));
}

TEST(HttpServer, HeadOfAStreamDoesNotStartIt) {
  std::promise<void> destroyed;
  std::atomic<int> calls = 0;
  ServerUnderTest server(streaming(
      [&](int) {
        ++calls;
        return one_of(std::nullopt);
      },
      &destroyed));
  auto client = RawSocket::to_port(server.port);
  client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\n"));
  EXPECT_TRUE(happens(destroyed));
  EXPECT_EQ(calls, 0);
}

TEST(HttpServer, AStreamThatThrowsEndsWithoutItsLastChunk) {
  ServerUnderTest server(streaming([](int call) -> Task<std::optional<std::string>> {
    if (call > 0) throw std::runtime_error("expected by the test");
    return one_of("a");
  }));
  auto client = RawSocket::to_port(server.port);
  client.send(kGet);
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\n1\r\na\r\n"));
}

/// Waits for something that never comes.
Task<std::optional<std::string>> wait_forever(ports::Wakeup* wakeup) {
  for (;;) co_await wakeup->wait_for(1h);
}

/// The first piece at once, and then nothing.
struct SilentStream {
  std::promise<void> destroyed;
  std::unique_ptr<ports::Wakeup> wakeup;
  ServerUnderTest server{[this](AsioEventLoop* loop, ports::HttpRequest request) {
    if (!wakeup) wakeup = loop->make_wakeup();
    const auto next = [this](int call) { return call == 0 ? one_of("first") : wait_forever(wakeup.get()); };
    return streaming(next, &destroyed)(loop, std::move(request));
  }};

  RawSocket listen() {
    auto client = RawSocket::to_port(server.port);
    client.send(kGet);
    EXPECT_THAT(client.read_until("first\r\n"), HasSubstr("5\r\nfirst\r\n"));
    return client;
  }
};

TEST(HttpServer, TheFirstPieceArrivesWhileTheStreamWaits) {
  SilentStream silent;
  const auto client = silent.listen();
  EXPECT_EQ(silent.destroyed.get_future().wait_for(0s), std::future_status::timeout);
}

TEST(HttpServer, AClientThatLeavesEndsItsStreamWhileItWaits) {
  SilentStream silent;
  auto client = silent.listen();
  client.close();
  EXPECT_TRUE(happens(silent.destroyed));
}

TEST(HttpServer, AClientThatResetsEndsItsStreamWhileItWaits) {
  SilentStream silent;
  auto client = silent.listen();
  client.reset();
  EXPECT_TRUE(happens(silent.destroyed));
}

TEST(HttpServer, AClientThatSendsOnDuringAStreamIsNotRead) {
  SilentStream silent;
  auto client = silent.listen();
  EXPECT_TRUE(client.send(std::string(1024 * 1024, 'x')));
  client.close();
  EXPECT_TRUE(happens(silent.destroyed));
  EXPECT_EQ(silent.server.handler.requests, 1);
}

TEST(HttpServer, StoppingEndsStreamsAndIdleConnections) {
  SilentStream silent;
  auto listener = silent.listen();
  auto idle = RawSocket::to_port(silent.server.port);
  auto half = RawSocket::to_port(silent.server.port);
  half.send("GET / HT");
  silent.server.stop();
  EXPECT_EQ(listener.read_to_end(), "");
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_EQ(half.read_to_end(), "");
  EXPECT_TRUE(happens(silent.destroyed));
}

TEST(HttpServer, StoppingLetsARunningRequestFinish) {
  std::promise<void> handling;
  ServerUnderTest server([&](AsioEventLoop* loop, ports::HttpRequest request) {
    return [](AsioEventLoop* l, std::promise<void>* started, ports::HttpRequest r) -> Task<ports::HttpResponse> {
      started->set_value();
      while (!l->stopping()) co_await l->sleep_for(1h);
      auto response = co_await echo(l, std::move(r));
      co_return response;
    }(loop, &handling, std::move(request));
  });
  auto client = RawSocket::to_port(server.port);
  client.send(kGet + kGet);
  ASSERT_TRUE(happens(handling));
  server.stop();
  const auto answers = client.read_to_end();
  EXPECT_THAT(answers, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answers, HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(server.handler.requests, 1);
}

TEST(HttpServer, AClientThatDoesNotReadIsDropped) {
  std::promise<void> destroyed;
  ServerUnderTest server(streaming([](int) { return one_of(std::string(64 * 1024, 'x')); }, &destroyed),
                         HttpServerLimits{.write = 50ms});
  const auto client = RawSocket::to_port(server.port, 4096);
  client.send(kGet);
  EXPECT_TRUE(happens(destroyed));
}

TEST(HttpServer, AStreamWithoutPauseDoesNotHoldUpOthers) {
  std::promise<void> destroyed;
  std::atomic<bool> over = false;
  auto flood =
      streaming([&](int) { return one_of(over ? std::nullopt : std::optional{std::string(1024, 'x')}); }, &destroyed);
  ServerUnderTest server([flood](AsioEventLoop* loop, ports::HttpRequest request) {
    return request.path == "/flood" ? flood(loop, std::move(request)) : echo(loop, std::move(request));
  });
  auto greedy = RawSocket::to_port(server.port);
  greedy.send("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n");
  std::thread reader([&] { greedy.read_to_end(); });
  auto other = RawSocket::to_port(server.port);
  other.send(kGet);
  EXPECT_THAT(other.read_answer(), StartsWith("HTTP/1.1 200 "));
  over = true;
  reader.join();
  EXPECT_TRUE(happens(destroyed));
}

TEST(HttpServer, AHalfSentRequestIsGivenUp) {
  ServerUnderTest server(echo, HttpServerLimits{.request = 20ms, .linger = 20ms});
  for (const std::string part : {"GET / HT", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab"}) {
    auto client = RawSocket::to_port(server.port);
    client.send(part);
    const auto answer = client.read_to_end();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 408 "));
    EXPECT_THAT(answer, HasSubstr("\"code\":\"request_timeout\""));
  }
  EXPECT_EQ(server.handler.requests, 0);
}

TEST(HttpServer, AnIdleConnectionIsClosedSilently) {
  ServerUnderTest server(echo, HttpServerLimits{.idle = 20ms});
  auto fresh = RawSocket::to_port(server.port);
  EXPECT_EQ(fresh.read_to_end(), "");
  auto used = RawSocket::to_port(server.port);
  used.send(kGet);
  EXPECT_THAT(used.read_answer(), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(used.read_to_end(), "");
}

TEST(HttpServer, AClientThatEndsItsSideStillGetsItsAnswer) {
  ServerUnderTest server;
  auto client = RawSocket::to_port(server.port);
  client.send(kGet);
  client.end_writing();
  EXPECT_THAT(client.read_to_end(), EndsWith("[]"));
}

TEST(HttpServer, RefusesConnectionsAboveItsLimitAndRecovers) {
  ServerUnderTest server(echo, HttpServerLimits{.connections = 2});
  auto first = RawSocket::to_port(server.port);
  auto second = RawSocket::to_port(server.port);
  for (auto* client : {&first, &second}) {
    client->send(kGet);
    EXPECT_THAT(client->read_answer(), StartsWith("HTTP/1.1 200 "));
  }
  auto third = RawSocket::to_port(server.port);
  EXPECT_THAT(third.read_until("}"), StartsWith("HTTP/1.1 503 "));
  first.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  first.read_to_end();
  auto fourth = RawSocket::to_port(server.port);
  fourth.send(kGet);
  EXPECT_THAT(fourth.read_answer(), StartsWith("HTTP/1.1 200 "));
}

Task<std::optional<std::string>> event_when(ports::Wakeup* wakeup, const bool* happened) {
  while (!*happened) co_await wakeup->wait_for(1h);
  std::optional<std::string> piece{"event"};
  co_return piece;
}

TEST(HttpServer, ManyListenersGetTheirEventsAndLeave) {
  // Two descriptors of this process each.
  constexpr std::size_t kListeners = 200;
  std::vector<std::promise<void>> destroyed(kListeners);
  std::size_t made = 0;
  std::unique_ptr<ports::Wakeup> wakeup;
  bool happened = false;
  ServerUnderTest server([&](AsioEventLoop* loop, ports::HttpRequest request) {
    if (!wakeup) wakeup = loop->make_wakeup();
    const auto next = [&](int call) {
      if (call == 0) return one_of("hello");
      return call == 1 ? event_when(wakeup.get(), &happened) : wait_forever(wakeup.get());
    };
    return streaming(next, &destroyed[made++])(loop, std::move(request));
  });
  std::vector<RawSocket> clients;
  for (std::size_t i = 0; i < kListeners; ++i) {
    clients.push_back(RawSocket::to_port(server.port));
    clients.back().send(kGet);
    EXPECT_THAT(clients.back().read_until("hello\r\n"), EndsWith("hello\r\n"));
  }
  EXPECT_EQ(server.on_loop([&] { return server.server.connections(); }), kListeners);
  server.loop.post([&] {
    happened = true;
    wakeup->notify_all();
  });
  for (auto& client : clients) EXPECT_THAT(client.read_until("event\r\n"), EndsWith("event\r\n"));
  clients.clear();
  for (auto& stream : destroyed) EXPECT_TRUE(happens(stream));
}

TEST(HttpServer, EnginesDoNotInheritItsSockets) {
  const TemporaryFolder folder;
  ServerUnderTest server;
  ASSERT_TRUE(server.on_loop([&] { return server.server.listen_unix(folder.file("socket")).has_value(); }));
  auto client = RawSocket::to_port(server.port);
  client.send(kGet);
  EXPECT_THAT(client.read_answer(), StartsWith("HTTP/1.1 200 "));
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    const auto descriptor = std::stoi(entry.path().filename().string());
    if (!target.starts_with("socket:") || descriptor <= STDERR_FILENO) continue;
    ++sockets;
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0) << descriptor;
  }
  EXPECT_GE(sockets, 4);  // two that listen, and both ends of a connection
}

TEST(HttpServer, ATakenPortIsNamedWithWhatToDo) {
  const RawListener listener;
  AsioEventLoop loop;
  ScriptedHandler handler(loop, echo);
  HttpServer server(loop, handler);
  const auto result = server.listen_tcp("127.0.0.1", listener.port());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "port_taken");
  EXPECT_THAT(result.error().message, HasSubstr("127.0.0.1:" + std::to_string(listener.port())));
  EXPECT_NE(result.error().hint, "");
}

TEST(HttpServer, AnAddressOfAnotherHostIsRefused) {
  AsioEventLoop loop;
  ScriptedHandler handler(loop, echo);
  HttpServer server(loop, handler);
  for (const std::string address : {"192.0.2.1", "localhost", "", "::g"}) {
    const auto result = server.listen_tcp(address, 0);
    ASSERT_FALSE(result) << address;
    EXPECT_EQ(result.error().code, "address_not_available") << address;
  }
}

/// A server on a socket file.
class UnixServer {
 public:
  explicit UnixServer(const std::string& path) : handler_(loop_, echo), server_(loop_, handler_) {
    listening = server_.listen_unix(path);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~UnixServer() {
    loop_.stop();
    thread_.join();
  }
  UnixServer(const UnixServer&) = delete;
  UnixServer& operator=(const UnixServer&) = delete;
  Result<void> listening;

 private:
  AsioEventLoop loop_;
  ScriptedHandler handler_;
  HttpServer server_;
  std::thread thread_;
};

TEST(HttpServer, AUnixSocketIsForItsOwnerAloneAndRemovedAtTheEnd) {
  const TemporaryFolder folder;
  const auto path = folder.file("socket");
  {
    const UnixServer server(path);
    ASSERT_TRUE(server.listening);
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    auto client = RawSocket::to_file(path);
    client.send(kGet);
    EXPECT_THAT(client.read_answer(), EndsWith("[]"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(HttpServer, AnAbandonedUnixSocketIsReplacedAndALiveOneIsNot) {
  const TemporaryFolder folder;
  const auto path = folder.file("socket");
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(descriptor);

  const UnixServer first(path);
  ASSERT_TRUE(first.listening);
  {
    const UnixServer second(path);
    ASSERT_FALSE(second.listening);
    EXPECT_EQ(second.listening.error().code, "port_taken");
  }
  auto client = RawSocket::to_file(path);
  client.send(kGet);
  EXPECT_THAT(client.read_answer(), EndsWith("[]"));
}

TEST(HttpServer, AFileInTheWayOfAUnixSocketIsKept) {
  const TemporaryFolder folder;
  const auto path = folder.file("precious");
  std::ofstream(path) << "data";
  {
    const UnixServer server(path);
    EXPECT_FALSE(server.listening);
  }
  EXPECT_EQ(std::filesystem::file_size(path), 4U);
  const UnixServer too_long(folder.file(std::string(200, 'x')));
  ASSERT_FALSE(too_long.listening);
  EXPECT_EQ(too_long.listening.error().code, "listen_failed");
}

}  // namespace
}  // namespace dgxmm::net
