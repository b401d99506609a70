#include "core/host/readings.h"
#include "core/host/text.h"

#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::host {
namespace {

constexpr std::string_view kMark = "oom-kill:";

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
  std::string found;
  while (!kernel_log.empty()) {
    auto line = take_until(kernel_log, '\n');
    const auto kill = parse_oom_kill(line);
    if (!kill) continue;
    const auto group = container_group(kill->task_group);
    if (!group || group->id != container_id) continue;
    line.remove_prefix(line.find(kMark));
    found = line;
  }
  return found;
}

}  // namespace dgxmm::host
