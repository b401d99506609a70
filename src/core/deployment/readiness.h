#pragma once
#include "base/bytes.h"
#include "base/clock.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace dgxmm::deployment {

/// How long an engine may take to serve: `limit`, and as long again after each sign that it gets on, but never more
/// than four times as long: one that compiles kernels for the first time needs longer than anyone can say, and one that
/// hangs must not keep the next from starting.
class ReadinessLimit {
 public:
  ReadinessLimit(SteadyTime begun, std::chrono::milliseconds limit);

  /// A line of its log. One that was there before, but for what stands before its text (time and place), is no sign.
  void saw_line(SteadyTime now, std::string_view line);
  /// MemAvailable of the host: less than ever by 256 MiB is a sign, since it takes memory.
  void saw_available(SteadyTime now, Bytes available);

  [[nodiscard]] bool is_over(SteadyTime now) const;
  [[nodiscard]] std::chrono::milliseconds taken(SteadyTime now) const;
  /// Since the last sign; nothing when there was none.
  [[nodiscard]] std::optional<std::chrono::milliseconds> still(SteadyTime now) const;

 private:
  SteadyTime begun_;
  std::chrono::milliseconds limit_;
  std::optional<SteadyTime> last_sign_;
  std::optional<Bytes> least_available_;
  std::set<std::string, std::less<>> lines_;
};

}  // namespace dgxmm::deployment
