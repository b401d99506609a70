#include "core/memory/start_guard.h"

#include <chrono>
#include <cstdint>

namespace dgxmm::memory {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPace{1000};
constexpr milliseconds kHorizon{2000};

}  // namespace

std::optional<StartDanger> StartGuard::judge(SteadyTime at, Bytes available) {
  readings_.push_back({at, available});
  while (readings_.size() > 1 && at - readings_[1].at >= kPace) readings_.pop_front();
  if (available < floor_) return StartDanger{.available = available, .floor = floor_, .lost_per_second = {}};

  const auto& before = readings_.front();
  const auto took = std::chrono::duration_cast<milliseconds>(at - before.at);
  const auto lost = before.available - available;
  if (took < kPace || lost <= Bytes{}) return std::nullopt;
  // As a double: a pace is no account, and bytes times milliseconds would not fit 64 bits.
  const auto per_ms = static_cast<double>(lost.count()) / static_cast<double>(took.count());
  const auto soon = static_cast<double>(available.count()) - per_ms * static_cast<double>(kHorizon.count());
  if (soon >= static_cast<double>(floor_.count())) return std::nullopt;
  return StartDanger{.available = available,
                     .floor = floor_,
                     .lost_per_second = Bytes{static_cast<std::int64_t>(per_ms * static_cast<double>(kPace.count()))}};
}

}  // namespace dgxmm::memory
