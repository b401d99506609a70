#pragma once
#include "base/bytes.h"
#include "base/clock.h"

#include <deque>
#include <optional>

namespace dgxmm::memory {

/// Why a start has to be ended for the host's sake.
struct StartDanger {
  Bytes available;
  Bytes floor;
  std::optional<Bytes> lost_per_second;  ///< absent: the floor is passed already
};

/// Watches MemAvailable during the start of an engine: tells when it is below a floor, or will be within two seconds at
/// the pace of the last one. On GB10 a start has taken 20 GiB in ten seconds, and a host that has run out does not
/// answer any more.
class StartGuard {
 public:
  explicit StartGuard(Bytes floor) : floor_(floor) {}

  /// One reading; times ascend.
  std::optional<StartDanger> judge(SteadyTime at, Bytes available);

 private:
  struct Reading {
    SteadyTime at;
    Bytes available;
  };

  Bytes floor_;
  std::deque<Reading> readings_;  ///< the first is the newest that is at least a second old
};

}  // namespace dgxmm::memory
