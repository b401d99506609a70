#pragma once
#include "core/container/container.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::container {

/// How a container's program ended.
struct Ending {
  std::optional<int> exit_code;  ///< absent: killed by a signal, or not known
  std::optional<int> signal;
  bool oom_killed = false;
  std::string evidence;  ///< for oom_killed
  friend bool operator==(const Ending&, const Ending&) = default;
};

/// C5, C12: an exit code of 137 alone says only that it was killed. Proof of the kernel's OOM killer is, the strongest
/// first: the counter of its cgroup, a line of the kernel's log that names it, the engine's own flag.
Ending explain_ending(const Container& container, std::optional<std::int64_t> cgroup_oom_kills,
                      std::string_view kernel_line);

}  // namespace dgxmm::container
