#pragma once
#include "base/clock.h"
#include "core/engine/engine.h"

#include <cstdint>
#include <optional>

namespace dgxmm::engine {

/// Since when an engine has had no request (P8).
struct Idle {
  WallTime since;
  std::optional<std::int64_t> work_done;  ///< of `Activity`, the same ever since; absent: the engine does not count
  bool watched = true;  ///< false: its last answer is missing, so that whether it still is idle is not known
  friend bool operator==(const Idle&, const Idle&) = default;
};

/// What an answer at `now` makes of what was known; nothing: it has requests, or was never seen without. An answer that
/// does not say (`Activity{}`: none came) leaves it unwatched; the next one goes on with it when its counters say that
/// nothing was done in between.
std::optional<Idle> idle_after(const std::optional<Idle>& before, const Activity& activity, WallTime now);

}  // namespace dgxmm::engine
