#include "adapters/system/tcp_ports.h"

#include "base/files.h"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <netinet/in.h>
#include <optional>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace dgxmm::system {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

/// Binds the port as an engine would (with SO_REUSEADDR, as llama-server does); the error, or 0.
int bind_error(std::uint16_t port) {
  const FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto address = loopback(port);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

int connect_error(std::uint16_t port) {
  const FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const auto address = loopback(port);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

TEST(HeldTcpPorts, HeldPortIsKeptFromOthersAndAnswersNobody) {
  HeldTcpPorts ports;
  const auto port = ports.hold(std::nullopt);
  ASSERT_TRUE(port);
  EXPECT_GT(*port, 0);
  EXPECT_EQ(bind_error(*port), EADDRINUSE);
  EXPECT_EQ(connect_error(*port), ECONNREFUSED);
}

TEST(HeldTcpPorts, EveryHeldPortIsAnother) {
  HeldTcpPorts ports;
  const auto one = ports.hold(std::nullopt);
  const auto two = ports.hold(std::nullopt);
  ASSERT_TRUE(one && two);
  EXPECT_NE(*one, *two);
}

TEST(HeldTcpPorts, ReleasedPortIsFreeAtOnceForTheEngine) {
  HeldTcpPorts ports;
  const auto port = ports.hold(std::nullopt);
  ASSERT_TRUE(port);
  ports.release(*port);
  EXPECT_EQ(bind_error(*port), 0);
  ports.release(*port);  // once more does nothing
}

TEST(HeldTcpPorts, WantedPortThatIsTakenIsAnErrorThatNamesIt) {
  HeldTcpPorts others;
  const auto taken = others.hold(std::nullopt);
  ASSERT_TRUE(taken);
  HeldTcpPorts ports;
  const auto refused = ports.hold(*taken);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "port_taken");
  EXPECT_NE(refused.error().message.find(std::to_string(*taken)), std::string::npos);
  EXPECT_FALSE(refused.error().hint.empty());
  others.release(*taken);
  EXPECT_EQ(ports.hold(*taken).value_or(0), *taken);
  EXPECT_FALSE(ports.hold(*taken)) << "it is held already";
}

/// A server on loopback, with SO_REUSEADDR as engines have it.
struct Listener {
  Listener() {
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    auto address = loopback(0);
    socklen_t length = sizeof address;
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        ::listen(socket.get(), 1) != 0 ||
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port = ntohs(address.sin_port);
  }
  /// Answers one client and closes first, which leaves the port in TIME_WAIT.
  void serve_one() const {
    const FileDescriptor client{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const auto address = loopback(port);
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    {
      const FileDescriptor accepted{::accept(socket.get(), nullptr, nullptr)};
    }
    char byte = 0;
    ASSERT_EQ(::read(client.get(), &byte, 1), 0);
  }

  FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;
};

TEST(HeldTcpPorts, APortWhoseEngineHasJustEndedIsHeldAgainAndKeptFromOthers) {
  Listener engine;
  engine.serve_one();
  engine.socket.reset();
  HeldTcpPorts ports;
  const auto port = ports.hold(engine.port);
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_EQ(*port, engine.port);
  EXPECT_EQ(bind_error(*port), EADDRINUSE);
  EXPECT_EQ(connect_error(*port), ECONNREFUSED);
  EXPECT_FALSE(ports.hold(*port)) << "it is held already";
  EXPECT_FALSE(HeldTcpPorts{}.hold(*port)) << "another daemon has it";
  ports.release(*port);
  EXPECT_EQ(bind_error(*port), 0);
}

TEST(HeldTcpPorts, APortOnWhichAnotherProgramListensIsTaken) {
  const Listener other;
  HeldTcpPorts ports;
  EXPECT_FALSE(ports.hold(other.port));
  other.serve_one();  // one that has closed connections, too
  EXPECT_FALSE(ports.hold(other.port));
}

TEST(HeldTcpPorts, PortsAreLetGoWithTheirHolder) {
  std::uint16_t port = 0;
  {
    HeldTcpPorts ports;
    port = ports.hold(std::nullopt).value_or(0);
    ASSERT_NE(port, 0);
  }
  EXPECT_EQ(bind_error(port), 0);
}

}  // namespace
}  // namespace dgxmm::system
