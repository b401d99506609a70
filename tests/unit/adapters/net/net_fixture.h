#pragma once
// A server with a scripted handler on a thread of its own, and a client that is nothing but a socket.
#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_server.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace dgxmm::net {

using ports::Task;
using namespace std::chrono_literals;

// Longer than any test takes; a wait that reaches it has failed.
inline constexpr auto kLongEnough = 20s;

/// A folder that is removed again.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto pattern = (std::filesystem::temp_directory_path() / "dgxmm_net_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string file(std::string_view name) const { return path_ + "/" + std::string{name}; }

 private:
  std::string path_;
};

/// A blocking socket. Reads give up after kLongEnough.
class RawSocket {
 public:
  explicit RawSocket(int descriptor) : descriptor_(descriptor) {
    timeval limit{};
    limit.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(kLongEnough).count();
    ::setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  RawSocket(RawSocket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        unread_(std::move(other.unread_)) {}
  ~RawSocket() { close(); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;
  RawSocket& operator=(RawSocket&&) = delete;

  static RawSocket to_port(std::uint16_t port, int receive_buffer_bytes = 0) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer_bytes > 0) {
      ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return RawSocket(descriptor);
  }

  static RawSocket to_file(const std::string& path) {
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return RawSocket(descriptor);
  }

  /// False when the peer does not take it any more.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  /// Everything up to the end of `mark`, or what there was when the peer closed.
  std::string read_until(std::string_view mark) {
    for (;;) {
      if (const auto found = unread_.find(mark); found != std::string::npos) return take(found + mark.size());
      if (!receive()) return take(unread_.size());
    }
  }

  std::string read_to_end() {
    while (receive()) {
    }
    return take(unread_.size());
  }

  /// One answer with a Content-Length.
  std::string read_answer() {
    auto answer = read_until("\r\n\r\n");
    constexpr std::string_view kName = "Content-Length: ";
    const auto place = answer.find(kName);
    if (place == std::string::npos) return answer;
    const auto length = std::stoul(answer.substr(place + kName.size()));
    while (unread_.size() < length && receive()) {
    }
    return answer + take(std::min(length, unread_.size()));
  }

  void end_writing() const { ::shutdown(descriptor_, SHUT_WR); }
  /// With a reset instead of an orderly end.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  std::string take(std::size_t count) {
    auto taken = unread_.substr(0, count);
    unread_.erase(0, count);
    return taken;
  }
  bool receive() {
    char buffer[4096];
    const auto count = ::recv(descriptor_, buffer, sizeof buffer, 0);
    if (count < 0) EXPECT_NE(errno, EAGAIN) << "nothing arrived";
    if (count <= 0) return false;
    unread_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  int descriptor_;
  std::string unread_;
};

/// A listening socket on loopback that the test itself answers.
class RawListener {
 public:
  RawListener() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(descriptor_, 8), 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~RawListener() { close(); }
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] RawSocket accept() const { return RawSocket(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC)); }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

/// A body whose pieces come from a function; tells when it is destroyed.
class ScriptedStream final : public ports::BodyStream {
 public:
  /// Gets the number of the call, from 0.
  using Next = std::function<Task<std::optional<std::string>>(int call)>;

  ScriptedStream(Next next, std::promise<void>* destroyed) : next_(std::move(next)), destroyed_(destroyed) {}
  ~ScriptedStream() override {
    if (destroyed_ != nullptr) destroyed_->set_value();
  }
  ScriptedStream(const ScriptedStream&) = delete;
  ScriptedStream& operator=(const ScriptedStream&) = delete;
  Task<std::optional<std::string>> next() override { return next_(calls_++); }

 private:
  Next next_;
  std::promise<void>* destroyed_;
  int calls_ = 0;
};

class ScriptedHandler final : public ports::HttpHandler {
 public:
  using Handle = std::function<Task<ports::HttpResponse>(AsioEventLoop*, ports::HttpRequest)>;
  ScriptedHandler(AsioEventLoop& loop, Handle handle) : loop_(&loop), handle_(std::move(handle)) {}

  Task<ports::HttpResponse> handle(ports::HttpRequest request) override {
    ++requests;
    return handle_(loop_, std::move(request));
  }
  [[nodiscard]] std::size_t body_limit(const std::string& /*method*/, const std::string& path) const override {
    return path == "/small" ? 8 : 1024 * 1024;
  }

  std::atomic<int> requests = 0;

 private:
  AsioEventLoop* loop_;
  Handle handle_;
};

/// Everything that a handler got, as text.
inline Task<ports::HttpResponse> echo(AsioEventLoop* /*loop*/, ports::HttpRequest request) {
  ports::HttpResponse response;
  response.headers.emplace_back("Content-Type", "text/plain");
  response.body = request.method + " " + request.path + "\n";
  for (const auto& [name, value] : request.query) response.body += "?" + name + "=" + value + "\n";
  for (const auto& [name, value] : request.headers) response.body += name + ": " + value + "\n";
  response.body += "[" + request.body + "]";
  co_return response;
}

/// The server on port 0 of loopback.
class ServerUnderTest {
 public:
  explicit ServerUnderTest(ScriptedHandler::Handle handle = echo, HttpServerLimits limits = {})
      : handler(loop, std::move(handle)),
        server(loop, handler, limits) {
    const auto bound = server.listen_tcp("127.0.0.1", 0);
    EXPECT_TRUE(bound);
    port = bound.value_or(0);
    thread_ = std::thread([this] { loop.run(); });
  }
  ~ServerUnderTest() { stop(); }
  ServerUnderTest(const ServerUnderTest&) = delete;
  ServerUnderTest& operator=(const ServerUnderTest&) = delete;

  /// Returns when the loop has ended.
  void stop() {
    loop.stop();
    if (thread_.joinable()) thread_.join();
  }

  /// Runs `work` on the loop's thread and returns its result.
  template <class Work>
  auto on_loop(Work work) {
    std::promise<decltype(work())> result;
    loop.post([&] { result.set_value(work()); });
    return result.get_future().get();
  }

  AsioEventLoop loop;
  ScriptedHandler handler;
  HttpServer server;
  std::uint16_t port = 0;

 private:
  std::thread thread_;
};

inline bool happens(std::promise<void>& event) {
  return event.get_future().wait_for(kLongEnough) == std::future_status::ready;
}

}  // namespace dgxmm::net
