#include "core/engine/idle.h"

namespace dgxmm::engine {

std::optional<Idle> idle_after(const std::optional<Idle>& before, const Activity& activity, WallTime now) {
  const auto busy = activity.busy();
  if (!busy) {
    auto unwatched = before;
    if (unwatched) unwatched->watched = false;
    return unwatched;
  }
  if (*busy) return std::nullopt;
  const Idle from_now{.since = now, .work_done = activity.work_done};
  if (!before || before->work_done != activity.work_done) return from_now;
  // Without counters only an unbroken watch tells.
  if (!activity.work_done && !before->watched) return from_now;
  return Idle{.since = before->since, .work_done = before->work_done};
}

}  // namespace dgxmm::engine
