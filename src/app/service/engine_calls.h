#pragma once
#include "ports/http_client.h"

#include <chrono>
#include <cstdint>
#include <string_view>

namespace dgxmm::service {

/// A question to the engine on that port, with a short deadline.
inline ports::HttpCall get(std::uint16_t port, std::string_view path) {
  constexpr std::chrono::seconds kDeadline{2};
  ports::HttpCall call;
  call.target.port = port;
  call.path = path;
  call.deadline = kDeadline;
  return call;
}

}  // namespace dgxmm::service
