#include "core/planner/durations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dgxmm::planner {
namespace {

using namespace std::chrono_literals;

std::chrono::seconds at_rate(Bytes amount, Bytes a_second) {
  const auto rest = std::max(amount, Bytes{}).count();
  return std::chrono::seconds{rest / a_second.count() + (rest % a_second.count() == 0 ? 0 : 1)};
}

Duration measured_or(std::optional<std::chrono::seconds> measured, std::chrono::seconds by_size) {
  return measured ? Duration{.value = *measured, .measured = true} : Duration{.value = by_size, .measured = false};
}

constexpr auto kActions = std::to_array<std::pair<Action, std::string_view>>(
    {{Action::load, "load"}, {Action::stop, "stop"}, {Action::sleep, "sleep"}, {Action::wake, "wake"}});

}  // namespace

std::string_view name_of(Action action) {
  return std::ranges::find(kActions, action, [](const auto& row) { return row.first; })->second;
}

std::optional<Action> parse_action(std::string_view name) {
  const auto* found = std::ranges::find(kActions, name, [](const auto& row) { return row.second; });
  return found == kActions.end() ? std::nullopt : std::optional{found->first};
}

std::optional<std::chrono::seconds> measured(std::span<const DurationRecord> records, std::string_view fingerprint,
                                             Action action, int level) {
  const auto found = std::ranges::find_if(records, [&](const auto& record) {
    return record.fingerprint == fingerprint && record.action == action && record.level == level;
  });
  return found == records.end() ? std::nullopt : std::optional{found->took};
}

Duration load_duration(std::optional<std::chrono::seconds> measured, Bytes weights, engine::EngineKind engine) {
  const auto fixed = engine == engine::EngineKind::vllm ? 60s : 10s;
  return measured_or(measured, fixed + at_rate(weights, gib(1)));
}

Duration stop_duration(std::optional<std::chrono::seconds> measured, Bytes held) {
  return measured_or(measured, 5s + at_rate(held, gib(20)));
}

Duration sleep_duration(std::optional<std::chrono::seconds> measured, Bytes freed) {
  return measured_or(measured, 1s + at_rate(freed, gib(4)));
}

std::string format_seconds(std::chrono::seconds seconds) {
  using namespace std::chrono;
  if (seconds < 2min) return fmt::format("{} s", seconds.count());
  if (seconds < 2h) return fmt::format("{} min", duration_cast<minutes>(seconds).count());
  if (seconds < days{2}) return fmt::format("{} h", duration_cast<hours>(seconds).count());
  return fmt::format("{} days", duration_cast<days>(seconds).count());
}

std::string describe(Duration duration) {
  return fmt::format("about {} ({})", format_seconds(duration.value), duration.measured ? "measured" : "by size");
}

}  // namespace dgxmm::planner
