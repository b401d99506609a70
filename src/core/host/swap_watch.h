#pragma once
#include "base/bytes.h"
#include "base/clock.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dgxmm::host {

/// What the kernel has counted since boot, in pages (/proc/vmstat).
struct SwapCounters {
  std::int64_t pages_in = 0, pages_out = 0;
  friend bool operator==(const SwapCounters&, const SwapCounters&) = default;
};
/// Nothing when a line is missing.
std::optional<SwapCounters> parse_swap_counters(std::string_view vmstat);

/// How memory is being moved to swap and back.
struct SwapActivity {
  Bytes in_per_s, out_per_s;      ///< between the last two looks
  std::chrono::seconds lasts{0};  ///< without a pause

  /// Longer than a moment, which any host may have.
  [[nodiscard]] bool going_on() const;
};

/// Makes activity of counters that are read now and then. Keeps what it has seen; no clock.
class SwapWatch {
 public:
  explicit SwapWatch(Bytes page_size = kib(4)) : page_size_(page_size) {}

  /// Is it time for another look? Two within a second tell nothing.
  [[nodiscard]] bool is_due(SteadyTime now) const;
  void add(SteadyTime now, std::optional<SwapCounters> counters);
  [[nodiscard]] const SwapActivity& activity() const { return activity_; }

 private:
  Bytes page_size_;
  std::optional<SteadyTime> last_look_;
  std::optional<SteadyTime> began_;
  std::optional<SwapCounters> last_;
  SwapActivity activity_;
};

}  // namespace dgxmm::host
