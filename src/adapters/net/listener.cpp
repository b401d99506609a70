#include "adapters/net/listener.h"

#include "base/log.h"

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dgxmm::net {

namespace asio = boost::asio;
using boost::system::error_code;
using ports::Task;

namespace {

using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

Error listen_error(const error_code& error, const std::string& address) {
  if (error == asio::error::address_in_use) {
    return {"port_taken", address + " is already in use", "stop the program that listens there, or choose another port",
            address};
  }
  if (error == asio::error::access_denied) {
    return {"port_forbidden", "not allowed to listen on " + address, "choose a port above 1023", address};
  }
  if (error.value() == EADDRNOTAVAIL) {
    return {"address_not_available", address + " is not an address of this host",
            "use 127.0.0.1, or an address that `ip address` shows", address};
  }
  return {"listen_failed", "cannot listen on " + address + ": " + error.message(), {}, address};
}

/// A socket file whose listener has died refuses connections.
bool is_abandoned(const std::string& path) {
  asio::io_context context;
  asio::local::stream_protocol::socket probe(context);
  error_code error;
  probe.connect(path, error);
  return error == asio::error::connection_refused;
}

}  // namespace

struct Listener::State : std::enable_shared_from_this<State> {
  State(AsioEventLoop& event_loop, std::function<void(Socket)> on_connection, std::chrono::milliseconds pause)
      : loop(event_loop),
        welcome(std::move(on_connection)),
        backoff(pause) {}

  Result<Endpoint> listen(const Endpoint& endpoint, const std::string& address, const std::string& socket_file);
  static Task<> accept_from(std::shared_ptr<State> self, std::shared_ptr<Acceptor> acceptor);

  AsioEventLoop& loop;
  std::function<void(Socket)> welcome;
  std::chrono::milliseconds backoff;
  bool stopping = false;
  std::vector<std::shared_ptr<Acceptor>> acceptors;
  std::vector<std::string> socket_files;
};

Task<> Listener::State::accept_from(std::shared_ptr<State> self, std::shared_ptr<Acceptor> acceptor) {
  while (!self->stopping) {
    Socket socket(acceptor->get_executor());
    error_code error;
    co_await acceptor->async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (self->stopping) co_return;
    if (!error) {
      self->welcome(std::move(socket));
    } else if (error != asio::error::connection_aborted) {
      log::warning("cannot accept a connection: {}", error.message());
      co_await self->loop.sleep_for(self->backoff);
    }
  }
}

Result<Endpoint> Listener::State::listen(const Endpoint& endpoint, const std::string& address,
                                         const std::string& socket_file) {
  auto acceptor = std::make_shared<Acceptor>(loop.context());
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) close_on_exec(acceptor->native_handle());
  if (!error && socket_file.empty()) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  // Before listen(): nobody can connect until the file has its mode.
  if (!error && !socket_file.empty() && ::chmod(socket_file.c_str(), S_IRUSR | S_IWUSR) != 0) {
    error.assign(errno, boost::system::system_category());
  }
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  Endpoint bound;
  if (!error) bound = acceptor->local_endpoint(error);
  if (error) return fail(listen_error(error, address));
  acceptors.push_back(acceptor);
  if (!socket_file.empty()) socket_files.push_back(socket_file);
  loop.spawn("accepting connections on " + address, accept_from(shared_from_this(), acceptor));
  return bound;
}

Listener::Listener(AsioEventLoop& loop, std::function<void(Socket)> welcome, std::chrono::milliseconds backoff)
    : state_(std::make_shared<State>(loop, std::move(welcome), backoff)) {}

Listener::~Listener() { stop(); }

Result<std::uint16_t> Listener::listen_tcp(const std::string& address, std::uint16_t port) {
  error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) return fail("address_not_available", "not a numeric address: " + address, "use 127.0.0.1", address);
  const asio::ip::tcp::endpoint wanted(ip, port);
  const auto shown = ip.is_v6() ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
  const auto bound = state_->listen(wanted, shown, {});
  if (!bound) return fail(bound.error());
  asio::ip::tcp::endpoint tcp;
  std::memcpy(tcp.data(), bound->data(), std::min(bound->size(), tcp.capacity()));
  return tcp.port();
}

Result<void> Listener::listen_unix(const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail("listen_failed",
                fmt::format("the path of a socket has 1 to {} bytes", sizeof(sockaddr_un::sun_path) - 1),
                "choose a shorter path", path);
  }
  std::error_code ignored;
  if (std::filesystem::is_socket(path, ignored) && is_abandoned(path)) std::filesystem::remove(path, ignored);
  const asio::local::stream_protocol::endpoint endpoint(path);
  const auto bound = state_->listen(endpoint, path, path);
  if (!bound) return fail(bound.error());
  return {};
}

void Listener::stop() {
  if (std::exchange(state_->stopping, true)) return;
  for (const auto& acceptor : state_->acceptors) {
    error_code ignored;
    acceptor->close(ignored);
  }
  for (const auto& file : state_->socket_files) ::unlink(file.c_str());
}

}  // namespace dgxmm::net
