#pragma once
#include "base/bytes.h"
#include "core/engine/config.h"

#include <chrono>
#include <optional>
#include <string>

// How long the steps of a plan take: as measured here, else by size.
namespace dgxmm::planner {

struct Duration {
  std::chrono::seconds value{};
  bool measured = false;  ///< every part of it was measured on this host; else it is an estimate by size, or has one

  friend Duration operator+(Duration a, Duration b) { return {a.value + b.value, a.measured && b.measured}; }
  friend bool operator==(const Duration&, const Duration&) = default;
};

/// From start to ready. By size: the weights at 1 GiB a second, which disks of such machines do, and 10 s for
/// llama.cpp or 60 s for vLLM, which compiles and captures graphs.
Duration load_duration(std::optional<std::chrono::seconds> measured, Bytes weights, engine::EngineKind engine);

/// Until the memory is back. By size: 5 s, and the memory at 20 GiB a second.
Duration stop_duration(Bytes held);

/// By size: 1 s, and what is freed at 4 GiB a second.
Duration sleep_duration(std::optional<std::chrono::seconds> measured, Bytes freed);

/// "12 s", "25 min", "3 h", "4 days".
std::string format_seconds(std::chrono::seconds seconds);

/// "about 40 s (by size)", "about 40 s (measured)".
std::string describe(Duration duration);

}  // namespace dgxmm::planner
