#pragma once
#include "base/clock.h"
#include "core/deployment/state.h"
#include "core/engine/engine.h"
#include "core/engine/idle.h"
#include "core/engine/request.h"
#include "core/memory/estimate.h"
#include "ports/container_runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dgxmm::service {

/// Why a deployment failed, as it is shown: one sentence, what to do, and the last lines of the engine's log (masked).
struct Failure {
  std::string code;
  std::string message;
  std::string hint;
  std::vector<std::string> last_lines;
};

/// One deployment, as the service holds it. Everything down to the mark survives the daemon.
struct Deployment {
  DeploymentId id;
  std::string name;
  engine::DeployRequest request;
  engine::EngineConfig config;
  std::string model_path;
  std::string model_name;
  std::string fingerprint;  ///< C7
  memory::Estimate estimate;
  deployment::State state = deployment::State::starting;
  WallTime created_at;
  WallTime state_since;
  std::optional<WallTime> ready_at;
  std::string served_name;
  std::uint16_t port = 0;
  std::int64_t priority = 0;
  bool pinned = false;
  std::map<std::string, std::string> labels;
  std::optional<ports::Instance> instance;
  std::optional<Bytes> engine_device_bytes;       ///< the engine's own accounting of device buffers (C2)
  std::optional<Bytes> footprint;                 ///< recorded after the last start
  std::optional<std::chrono::seconds> load_took;  ///< the last start, from the engine's process to ready
  std::optional<int> sleep_level;                 ///< of one that sleeps, or did before it began to wake up
  std::optional<Bytes> asleep;                    ///< what it held when it last slept (P10)
  std::optional<Bytes> taken_first;               ///< of the last start: from its launch until it looked what is free
  std::optional<Bytes> sleep_freed;               ///< what its last falling asleep gave back
  std::string guard_secret;      ///< of vLLM that may sleep, the same at each start: never shown (engine/guard.h)
  bool ended_with_host = false;  ///< served when the host went down, and has not been started again since (D20)
  std::optional<Failure> failure;
  std::optional<engine::Idle> idle;
  // --- known only while the daemon runs:
  std::int64_t generation = 0;  ///< counts starts: a watcher of an earlier start must not touch a later one
  engine::Progress progress;
  engine::Activity activity;
  std::optional<WallTime> idle_since_stored;  ///< `idle.since` of the last time that it was stored for its own sake
  std::string
      outdated;  ///< why a start now would make another container than the one that runs (D8); empty: it would not
  std::optional<Bytes> available_at_launch;
  Bytes wake_peak = {};  ///< while it wakes up: the most that it may hold; else 0

  /// P8; nothing while it is not known to be idle.
  [[nodiscard]] std::optional<WallTime> idle_since() const {
    return idle && idle->watched ? std::optional{idle->since} : std::nullopt;
  }
  [[nodiscard]] Bytes reserved() const { return std::max(estimate.total, wake_peak); }
};

/// A vLLM with its sleep mode on.
inline bool can_sleep(const Deployment& deployment) {
  const auto* vllm = std::get_if<engine::VllmConfig>(&deployment.config);
  return vllm != nullptr && vllm->sleep_mode;
}

}  // namespace dgxmm::service
