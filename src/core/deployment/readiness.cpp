#include "core/deployment/readiness.h"

#include <algorithm>

namespace dgxmm::deployment {
namespace {

constexpr int kMostLimits = 4;
constexpr Bytes kNoticeable = mib(256);
constexpr std::size_t kRememberedLines = 4096;

std::chrono::milliseconds between(SteadyTime from, SteadyTime to) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(to - from);
}

}  // namespace

ReadinessLimit::ReadinessLimit(SteadyTime begun, std::chrono::milliseconds limit) : begun_(begun), limit_(limit) {}

void ReadinessLimit::saw_line(SteadyTime now, std::string_view line) {
  // "INFO 11-30 02:10:11 [shm_broadcast.py:466] No available block found": the same again is a complaint, no progress.
  if (const auto bracket = line.find("] "); bracket != std::string_view::npos) line.remove_prefix(bracket + 2);
  if (lines_.size() >= kRememberedLines || lines_.contains(line)) return;
  lines_.emplace(line);
  last_sign_ = now;
}

void ReadinessLimit::saw_available(SteadyTime now, Bytes available) {
  const bool first = !least_available_;
  if (!first && available > *least_available_ - kNoticeable) return;
  least_available_ = available;
  if (!first) last_sign_ = now;
}

bool ReadinessLimit::is_over(SteadyTime now) const {
  const auto give_up_at = std::max(begun_, last_sign_.value_or(begun_)) + limit_;
  return now > std::min(give_up_at, begun_ + kMostLimits * limit_);
}

std::chrono::milliseconds ReadinessLimit::taken(SteadyTime now) const { return between(begun_, now); }

std::optional<std::chrono::milliseconds> ReadinessLimit::still(SteadyTime now) const {
  if (!last_sign_) return std::nullopt;
  return between(*last_sign_, now);
}

}  // namespace dgxmm::deployment
