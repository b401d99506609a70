#pragma once
#include "base/bytes.h"
#include "base/clock.h"
#include "base/ring.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace dgxmm::memory {

/// The memory of the host at one moment. Absent: not known then.
struct HistoryPoint {
  WallTime time;
  std::optional<Bytes> deployments;  ///< with the next four: MemTotal
  std::optional<Bytes> ready_gap;    ///< what ready deployments have reserved and are not seen to hold (B4)
  std::optional<Bytes> external;
  std::optional<Bytes> page_cache, free;
  std::optional<Bytes> committed;  ///< B2
  std::optional<Bytes> swap_used;
  std::optional<std::int64_t> pressure_some_avg10_permyriad;

  friend bool operator==(const HistoryPoint&, const HistoryPoint&) = default;
};

/// The newest points, of which there is a fixed number, in the order of their times.
///
/// A gap (the host was suspended, or so busy that nobody looked) is a point of its own that knows nothing, so that no
/// picture draws a line across it. A clock that is set back by more than the interval begins a new history: the times
/// of the old one mean nothing any more.
class History {
 public:
  History(std::chrono::milliseconds interval, std::size_t capacity) : interval_(interval), points_(capacity) {}

  /// Is it time for another point?
  [[nodiscard]] bool is_due(WallTime now) const;
  void add(HistoryPoint point);

  [[nodiscard]] std::chrono::milliseconds interval() const { return interval_; }
  /// How many were ever added, with the gaps.
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Those that were added after so many; as far as they are kept.
  [[nodiscard]] std::vector<HistoryPoint> after(std::int64_t count) const;

 private:
  void push(HistoryPoint point);

  std::chrono::milliseconds interval_;
  Ring<HistoryPoint> points_;
  std::int64_t count_ = 0;
};

}  // namespace dgxmm::memory
