#pragma once
#include "core/host/readings.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace dgxmm::ports {

/// Memory cgroups of this host, whoever made them, by their path below the mount of the memory controller.
class MemoryGroups {
 public:
  virtual ~MemoryGroups() = default;
  /// Absent when the group does not exist, or the controller is of the other version.
  [[nodiscard]] virtual std::optional<host::CgroupMemory> read(const host::CgroupPath& group) const = 0;
  /// Every process of the group and of the groups in it.
  [[nodiscard]] virtual std::vector<std::int64_t> members(const host::CgroupPath& group) const = 0;
  /// Sends SIGKILL to each of these, and to nobody else.
  virtual void kill(const host::CgroupPath& group) const = 0;
};

}  // namespace dgxmm::ports
