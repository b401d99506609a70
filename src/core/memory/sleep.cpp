#include "core/memory/sleep.h"

#include <algorithm>
#include <ranges>

namespace dgxmm::memory {

const SleepRecord* last_sleep(std::span<const SleepRecord> records, std::string_view fingerprint,
                              std::string_view configuration_key, int level) {
  const auto is_wanted = [&](const SleepRecord& record) {
    return record.fingerprint == fingerprint && record.configuration_key == configuration_key && record.level == level;
  };
  const auto newest_first = std::views::reverse(records);
  const auto found = std::ranges::find_if(newest_first, is_wanted);
  return found == newest_first.end() ? nullptr : &*found;
}

Bytes size_asleep(const Estimate& estimate, int level, std::optional<Bytes> measured_asleep) {
  if (measured_asleep) return *measured_asleep;
  return estimate.part("runtime") + (level == 1 ? pinned_copies(estimate.part("weights")) : Bytes{});
}

Bytes freed_by_sleep(Bytes counted_now, Bytes asleep) { return std::max(counted_now - asleep, Bytes{}); }

Bytes pinned_copies(Bytes weights) { return scale_up(weights, 145, 100); }

Bytes wake_peak(const Estimate& estimate, int level, std::optional<Bytes> measured_asleep) {
  const auto asleep = size_asleep(estimate, level, measured_asleep);
  const auto cache = estimate.part("kv") + estimate.part("state");
  return std::max(asleep + estimate.part("weights") + cache, estimate.total);
}

Bytes needed_to_wake(const Estimate& estimate, int level, std::optional<Bytes> measured_asleep, Bytes counted_now) {
  return std::max(wake_peak(estimate, level, measured_asleep) - counted_now, Bytes{});
}

}  // namespace dgxmm::memory
