#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace dgxmm {

/// Number of a deployment: given once by the store, never used again.
struct DeploymentId {
  std::int64_t value = 0;
  friend constexpr auto operator<=>(DeploymentId, DeploymentId) = default;
};

}  // namespace dgxmm

template <>
struct std::hash<dgxmm::DeploymentId> {
  std::size_t operator()(dgxmm::DeploymentId id) const noexcept { return std::hash<std::int64_t>{}(id.value); }
};
