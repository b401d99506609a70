#include "core/host/readings.h"
#include "core/host/text.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dgxmm::host {
namespace {

constexpr std::string_view kMark = "oom-kill:";
/// The log's clock and the one of processes' starts drift apart a little; a number comes back much later.
constexpr std::int64_t kClocksDifferUs = 60'000'000;

/// "priority,sequence,microseconds,flags;message"
std::optional<std::int64_t> logged_at_us(std::string_view line) {
  static_cast<void>(take_until(line, ','));
  static_cast<void>(take_until(line, ','));
  return parse_count(take_until(line, ','));
}

template <class Accept>
std::string newest_kill(std::string_view kernel_log, Accept accept) {
  std::string found;
  while (!kernel_log.empty()) {
    auto line = take_until(kernel_log, '\n');
    const auto kill = parse_oom_kill(line);
    if (!kill || !accept(*kill, line)) continue;
    line.remove_prefix(line.find(kMark));
    found = line;
  }
  return found;
}

}  // namespace

std::optional<OomKill> parse_oom_kill(std::string_view line) {
  const auto mark = line.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  line.remove_prefix(mark + kMark.size());
  OomKill kill;
  bool named = false;
  // Order and number of the fields differ between kernels.
  while (!line.empty()) {
    auto value = take_until(line, ',');
    const auto key = take_until(value, '=');
    if (key == "constraint") kill.group_limit = value == "CONSTRAINT_MEMCG";
    if (key == "task") kill.task = value;
    if (key == "task_memcg") kill.task_group = value;
    if (key == "pid") {
      kill.pid = parse_count(value).value_or(0);
      named = kill.pid > 0;
    }
  }
  if (!named) return std::nullopt;
  return kill;
}

std::string find_oom_kill(std::string_view kernel_log, std::string_view container_id) {
  return newest_kill(kernel_log, [&](const OomKill& kill, std::string_view /*line*/) {
    const auto group = container_group(kill.task_group);
    return group && group->id == container_id;
  });
}

std::string find_oom_kill(std::string_view kernel_log, std::span<const std::int64_t> pids, std::int64_t since_us) {
  return newest_kill(kernel_log, [&](const OomKill& kill, std::string_view line) {
    if (std::ranges::find(pids, kill.pid) == pids.end()) return false;
    const auto time = logged_at_us(line);
    return time && *time + kClocksDifferUs >= since_us;
  });
}

}  // namespace dgxmm::host
