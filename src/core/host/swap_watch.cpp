#include "core/host/swap_watch.h"

#include "core/host/text.h"

#include <algorithm>

namespace dgxmm::host {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kMoment{5};
constexpr milliseconds kLeastInterval{1000};

}  // namespace

std::optional<SwapCounters> parse_swap_counters(std::string_view vmstat) {
  const auto in = find_flat_value(vmstat, "pswpin");
  const auto out = find_flat_value(vmstat, "pswpout");
  if (!in || !out) return std::nullopt;
  return SwapCounters{.pages_in = *in, .pages_out = *out};
}

bool SwapActivity::going_on() const { return lasts >= kMoment; }

bool SwapWatch::is_due(SteadyTime now) const { return !last_look_ || now - *last_look_ >= kLeastInterval; }

void SwapWatch::add(SteadyTime now, std::optional<SwapCounters> counters) {
  const auto before = std::exchange(last_, counters);
  const auto looked = std::exchange(last_look_, now);
  activity_ = {};
  const auto passed = looked ? std::chrono::duration_cast<milliseconds>(now - *looked) : milliseconds{0};
  const bool moved = before && counters && *before != *counters;
  if (!moved || passed <= milliseconds{0}) {
    began_.reset();
    return;
  }
  if (!began_) began_ = looked;
  const auto rate = [&](std::int64_t from, std::int64_t to) {
    return Bytes{std::max<std::int64_t>(to - from, 0) * page_size_.count() * 1000 / passed.count()};
  };
  activity_.in_per_s = rate(before->pages_in, counters->pages_in);
  activity_.out_per_s = rate(before->pages_out, counters->pages_out);
  activity_.lasts = std::chrono::duration_cast<std::chrono::seconds>(now - *began_);
}

}  // namespace dgxmm::host
