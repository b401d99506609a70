#include "adapters/system/tcp_ports.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dgxmm::system {

namespace {

/// Every socket of ours has the option off once it is bound: who else binds the port then fails, whatever they set.
bool bind_to(int socket, const sockaddr_in& address) {
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket, generic, sizeof address) == 0) return true;
  if (errno != EADDRINUSE || address.sin_port == 0) return false;
  // Closed connections of an engine keep its port in TIME_WAIT for a minute. That does not count: the next engine binds
  // it all the same, with this option. A port on which somebody listens stays taken. Not seen is one who has bound the
  // port with the option and not listened yet.
  const auto set_reuse = [socket](int on) { return ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); };
  return set_reuse(1) == 0 && ::bind(socket, generic, sizeof address) == 0 && set_reuse(0) == 0;
}

}  // namespace

HeldTcpPorts::~HeldTcpPorts() {
  for (const auto& [port, socket] : sockets_) ::close(socket);
}

Result<std::uint16_t> HeldTcpPorts::hold(std::optional<std::uint16_t> wanted) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return fail("port_taken", fmt::format("no socket could be made: {}", std::strerror(errno)));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(wanted.value_or(0));
  socklen_t length = sizeof address;
  if (!bind_to(socket, address) || ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const auto reason = std::string{std::strerror(errno)};
    ::close(socket);
    return fail("port_taken", fmt::format("port {} cannot be used: {}", wanted.value_or(0), reason),
                "another program has it; choose another port, or leave it to dgxmm", "port");
  }
  const auto port = ntohs(address.sin_port);
  sockets_[port] = socket;
  return port;
}

void HeldTcpPorts::release(std::uint16_t port) {
  const auto held = sockets_.find(port);
  if (held == sockets_.end()) return;
  ::close(held->second);
  sockets_.erase(held);
}

}  // namespace dgxmm::system
