#pragma once
#include "adapters/net/asio_event_loop.h"
#include "adapters/net/stream.h"
#include "base/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dgxmm::net {

/// Accepts connections on any number of TCP addresses and Unix sockets.
class Listener {
 public:
  /// `welcome` gets each connection, on the loop's thread, until stop(). `backoff`: before the next try when the
  /// process is out of descriptors. The loop must outlive the listener.
  Listener(AsioEventLoop& loop, std::function<void(Socket)> welcome, std::chrono::milliseconds backoff);
  /// Like stop().
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Listens on a numeric address; port 0 lets the kernel choose. Returns the port.
  /// Errors: `port_taken`, `address_not_available`, `port_forbidden`, `listen_failed`.
  Result<std::uint16_t> listen_tcp(const std::string& address, std::uint16_t port);
  /// Listens on a socket file that only its owner may use; replaces one that nobody listens on any more, and removes
  /// it at the end. Errors: `port_taken`, `listen_failed`.
  Result<void> listen_unix(const std::string& path);

  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace dgxmm::net
