#pragma once
#include "adapters/net/asio_event_loop.h"
#include "base/result.h"
#include "ports/http_handler.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace dgxmm::net {

struct HttpServerLimits {
  std::size_t connections = 1280;                 ///< 1,024 listeners to events, and the rest
  std::chrono::milliseconds idle{60'000};         ///< between two requests
  std::chrono::milliseconds request{30'000};      ///< from the first byte of a request to its last
  std::chrono::milliseconds write{20'000};        ///< for one answer, or one piece of a streamed one
  std::chrono::milliseconds linger{1'000};        ///< for the client to take an answer to a request not fully read
  std::chrono::milliseconds accept_backoff{100};  ///< before the next try when the process is out of descriptors
};

/// Serves a handler over HTTP/1.1 on any number of TCP addresses and Unix sockets.
///
/// The handler gets HEAD requests as GET; their body is not sent. Repeated headers are joined with ", ". An answer with
/// a body stream is the last of its connection; the stream is destroyed, even inside next(), when the client leaves
/// (closing its sending side counts), does not read for `write`, or the loop stops: next() then ends with an exception
/// at its next co_await. Answers without a stream are never cut short by that.
///
/// Stops with the loop. The loop and the handler must outlive the loop's run().
class HttpServer {
 public:
  HttpServer(AsioEventLoop& loop, ports::HttpHandler& handler, HttpServerLimits limits = {});
  /// Like stop().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Listens on a numeric address; port 0 lets the kernel choose. Returns the port.
  /// Errors: `port_taken`, `address_not_available`, `port_forbidden`, `listen_failed`.
  Result<std::uint16_t> listen_tcp(const std::string& address, std::uint16_t port);
  /// Listens on a socket file that only its owner may use; replaces one that nobody listens on any more, and removes
  /// it at the end. Errors: `port_taken`, `listen_failed`.
  Result<void> listen_unix(const std::string& path);

  /// No new connections and requests; idle connections and streams end, running requests are answered.
  void stop();
  [[nodiscard]] std::size_t connections() const;

 private:
  struct Shared;
  class Connection;
  std::shared_ptr<Shared> shared_;
  StopHook stop_hook_;
};

}  // namespace dgxmm::net
