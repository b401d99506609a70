#include "core/container/ending.h"

#include "base/masking.h"

#include <fmt/format.h>

namespace dgxmm::container {
namespace {

// What shells and `docker-init` make of an end by signal.
constexpr int kSignalBase = 128;
constexpr int kLastSignal = 64;

}  // namespace

Ending explain_ending(const Container& container, std::optional<std::int64_t> cgroup_oom_kills,
                      std::string_view kernel_line) {
  Ending ending;
  if (const auto code = container.exit_code) {
    if (*code > kSignalBase && *code <= kSignalBase + kLastSignal) {
      ending.signal = *code - kSignalBase;
    } else {
      ending.exit_code = code;
    }
  }
  const auto short_id = container.id.substr(0, 12);
  if (cgroup_oom_kills && *cgroup_oom_kills > 0) {
    ending.evidence = fmt::format("the cgroup of container {} counted oom_kill {}", short_id, *cgroup_oom_kills);
  } else if (!kernel_line.empty()) {
    ending.evidence = "the kernel's log: " + printable(kernel_line);
  } else if (container.oom_killed) {
    ending.evidence = fmt::format("Docker says OOMKilled of container {}", short_id);
  }
  ending.oom_killed = !ending.evidence.empty();
  return ending;
}

}  // namespace dgxmm::container
