#pragma once
#include "app/service/deployment_table.h"
#include "base/clock.h"
#include "core/host/readings.h"
#include "core/memory/budget.h"
#include "ports/container_runtime.h"
#include "ports/event_loop.h"
#include "ports/host_probe.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::service {

/// One immutable reading of the host; every reader of a moment uses the same, every decision records its revision.
struct HostSnapshot {
  std::int64_t revision = 0;
  WallTime time;
  std::optional<Error> problem;  ///< the host could not be read: nothing may be admitted
  Bytes mem_total;
  Bytes mem_available;
  memory::Budget budget;
  std::vector<memory::DeploymentMemory> deployments;  ///< those that count (B2, B3)
  std::vector<std::string> warnings;

  [[nodiscard]] const memory::DeploymentMemory* find(DeploymentId id) const;
};

/// Reads the host every interval and on every change of state (B8).
class Sampler {
 public:
  Sampler(ports::HostProbe& probe, ports::ContainerRuntime& runtime, DeploymentTable& table,
          memory::BudgetSettings settings, const Clock& clock, ports::EventLoop& loop);

  /// Reads now. A snapshot equal to the last but for its time keeps the revision and is not announced.
  std::shared_ptr<const HostSnapshot> refresh();
  /// MemAvailable alone, now; nothing when it cannot be read.
  [[nodiscard]] std::optional<Bytes> mem_available() const;
  [[nodiscard]] std::shared_ptr<const HostSnapshot> latest() const { return latest_; }
  ports::Wakeup& changed() { return *changed_; }

 private:
  ports::HostProbe& probe_;
  ports::ContainerRuntime& runtime_;
  DeploymentTable& table_;
  memory::BudgetSettings settings_;
  const Clock& clock_;
  std::unique_ptr<ports::Wakeup> changed_;
  std::shared_ptr<const HostSnapshot> latest_;
};

}  // namespace dgxmm::service
