#pragma once
#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_message.h"
#include "base/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dgxmm::net {

struct HttpRelayLimits {
  std::size_t connections = 1024;
  std::chrono::milliseconds head{30'000};         ///< for the head of a request
  std::chrono::milliseconds stall{120'000};       ///< without a byte of the request's body, or of what is to be taken
  std::chrono::milliseconds connect{5'000};       ///< to the server behind
  std::chrono::milliseconds linger{1'000};        ///< for the client to take an answer to a request not fully read
  std::chrono::milliseconds accept_backoff{100};  ///< before the next try when the process is out of descriptors
};

/// Passes requests on to a server that listens on a Unix socket, and its answers back, bodies piece by piece as they
/// arrive. Heads are written anew: no framing and no header of one connection alone is passed on. One request for each
/// connection, on both sides, so nothing that follows a request can be taken for another one.
///
/// A client that leaves (closing its sending side counts) ends the request behind; a server that ends within an answer
/// ends the client's connection. WebSockets are not passed on. Stops with the loop, which must outlive its run().
class HttpRelay {
 public:
  /// Whether a request may pass, by its head alone. The error is the client's answer (see status_of()).
  using Check = std::function<Result<void>(const MessageHead&)>;

  HttpRelay(AsioEventLoop& loop, std::string socket_path, Check check, HttpRelayLimits limits = {});
  /// Ends every connection.
  ~HttpRelay();
  HttpRelay(const HttpRelay&) = delete;
  HttpRelay& operator=(const HttpRelay&) = delete;

  /// As HttpServer::listen_tcp().
  Result<std::uint16_t> listen_tcp(const std::string& address, std::uint16_t port);

  /// Is the server there? Nothing: that cannot be told. A connection is made and closed.
  ports::Task<std::optional<bool>> probe();

 private:
  struct Shared;
  class Connection;
  std::shared_ptr<Shared> shared_;
  StopHook stop_hook_;
};

}  // namespace dgxmm::net
