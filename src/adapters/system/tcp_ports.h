#pragma once
#include "ports/tcp_ports.h"

#include <map>

namespace dgxmm::system {

/// Holds ports by sockets that are bound on 127.0.0.1 and never listen.
class HeldTcpPorts final : public ports::TcpPorts {
 public:
  HeldTcpPorts() = default;
  HeldTcpPorts(const HeldTcpPorts&) = delete;
  HeldTcpPorts& operator=(const HeldTcpPorts&) = delete;
  ~HeldTcpPorts() override;

  Result<std::uint16_t> hold(std::optional<std::uint16_t> wanted) override;
  void release(std::uint16_t port) override;

 private:
  std::map<std::uint16_t, int> sockets_;
};

}  // namespace dgxmm::system
