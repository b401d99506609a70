#pragma once
#include "base/bytes.h"
#include "base/clock.h"
#include "core/engine/config.h"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>

// How long the steps of a plan take: as measured here, else by size.
namespace dgxmm::planner {

struct Duration {
  std::chrono::seconds value{};
  bool measured = false;  ///< every part of it was measured on this host; else it is an estimate by size, or has one

  friend Duration operator+(Duration a, Duration b) { return {a.value + b.value, a.measured && b.measured}; }
  friend bool operator==(const Duration&, const Duration&) = default;
};

/// What is timed on this host.
enum class Action { load, stop, sleep, wake };
std::string_view name_of(Action action);
std::optional<Action> parse_action(std::string_view name);

/// How long it took, the last time that it was done with a model.
struct DurationRecord {
  std::string fingerprint;  ///< of the model (C7)
  Action action = Action::load;
  int level = 0;  ///< of a sleep, and of a wake from it
  std::chrono::seconds took{};
  WallTime recorded_at;
};

/// Nothing when it was not done yet. At most one record for each model, action and level.
std::optional<std::chrono::seconds> measured(std::span<const DurationRecord> records, std::string_view fingerprint,
                                             Action action, int level = 0);

/// From start to ready. By size: the weights at 1 GiB a second, which disks of such machines do, and 10 s for
/// llama.cpp or 60 s for vLLM, which compiles and captures graphs.
Duration load_duration(std::optional<std::chrono::seconds> measured, Bytes weights, engine::EngineKind engine);

/// Until the memory is back. By size: 5 s, and the memory at 20 GiB a second.
Duration stop_duration(std::optional<std::chrono::seconds> measured, Bytes held);

/// By size: 1 s, and what is freed at 4 GiB a second.
Duration sleep_duration(std::optional<std::chrono::seconds> measured, Bytes freed);

/// "12 s", "25 min", "3 h", "4 days".
std::string format_seconds(std::chrono::seconds seconds);

/// "about 40 s (by size)", "about 40 s (measured)".
std::string describe(Duration duration);

}  // namespace dgxmm::planner
