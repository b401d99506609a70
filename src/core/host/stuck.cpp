#include "core/host/stuck.h"

#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::host {

Error still_running(const std::vector<ProcessStat>& left, std::string where) {
  const auto name = [](const ProcessStat& process) {
    return fmt::format("process {} ({})", process.pid, printable(process.comm));
  };
  if (const auto stuck = std::ranges::find(left, 'D', &ProcessStat::state); stuck != left.end()) {
    return {"still_running",
            fmt::format("it is stuck in the driver: {} waits inside the kernel, in state D, and cannot be killed",
                        name(*stuck)),
            "reboot the host; `dmesg` may say what it waits for. Its memory stays counted.", std::move(where)};
  }
  const auto what = left.empty() ? std::string{"it is still there after SIGKILL"}
                                 : fmt::format("{} is still there after SIGKILL, in state {}", name(left.front()),
                                               left.front().state);
  return {"still_running", what, "try the stop again; `dmesg` may say what it waits for. Its memory stays counted.",
          std::move(where)};
}

}  // namespace dgxmm::host
