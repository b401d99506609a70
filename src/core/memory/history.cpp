#include "core/memory/history.h"

#include <algorithm>
#include <utility>

namespace dgxmm::memory {

bool History::is_due(WallTime now) const {
  if (points_.items().empty()) return true;
  const auto passed = now - points_.items().back().time;
  return passed >= interval_ || passed <= -interval_;
}

void History::add(HistoryPoint point) {
  if (!points_.items().empty()) {
    const auto last = points_.items().back().time;
    if (point.time <= last) {
      points_.clear();
    } else if (point.time - last > 2 * interval_) {
      push({.time = last + interval_});
    }
  }
  push(std::move(point));
}

void History::push(HistoryPoint point) {
  points_.push(std::move(point));
  ++count_;
}

std::vector<HistoryPoint> History::after(std::int64_t count) const {
  const auto& all = points_.items();
  const auto wanted = std::clamp<std::int64_t>(count_ - count, 0, static_cast<std::int64_t>(all.size()));
  return {all.end() - wanted, all.end()};
}

}  // namespace dgxmm::memory
