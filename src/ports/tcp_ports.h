#pragma once
#include "base/result.h"

#include <cstdint>
#include <optional>

namespace dgxmm::ports {

/// Picks TCP ports on loopback for engines and keeps others away from them until the engine takes over.
class TcpPorts {
 public:
  virtual ~TcpPorts() = default;
  /// Binds the wanted port, or a free one, and holds it. Errors: `port_taken`.
  virtual Result<std::uint16_t> hold(std::optional<std::uint16_t> wanted) = 0;
  /// Lets go of a held port, right before the engine binds it or when the start is given up.
  virtual void release(std::uint16_t port) = 0;
};

}  // namespace dgxmm::ports
