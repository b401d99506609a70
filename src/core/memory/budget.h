#pragma once
#include "base/bytes.h"
#include "base/ids.h"
#include "core/deployment/state.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dgxmm::memory {

/// Bytes that a deployment holds, part by part (B6). Absent = unknown, never 0 (B7).
struct Measured {
  std::optional<Bytes> anon;
  std::optional<Bytes> kernel;
  std::optional<Bytes> shmem;
  std::optional<Bytes> gpu;
  Bytes gpu_at_least;        ///< what is known of the GPU part while `gpu` is not: of some of its processes
  bool approximate = false;  ///< from the process tree instead of a cgroup

  /// Sum of the parts that are known.
  [[nodiscard]] Bytes total() const;
  /// Sum of the known parts in host memory: all but NVML's (C2).
  [[nodiscard]] Bytes host() const;
  /// The total when every part is known.
  [[nodiscard]] std::optional<Bytes> complete_total() const;
  friend bool operator==(const Measured&, const Measured&) = default;
};

struct BudgetSettings {
  Bytes safety_margin = gib(8);
  Bytes os_reserve = gib(4);
};

/// What the budget needs to know about one deployment.
struct DeploymentMemory {
  DeploymentId id;
  deployment::State state = deployment::State::starting;
  Bytes reserved;
  std::optional<Measured> measured;  ///< absent: there is nothing to measure, or it could not be read
  bool holds_memory = true;          ///< has a container or a process, in any state (B3)
};

/// B4 of one deployment: what its reservation says above its measure, credited so that memory nobody could measure does
/// not read as external. Only while it is ready.
Bytes ready_gap_of(const DeploymentMemory& deployment);

/// B1–B5; every field is a quantity of the specification.
struct Budget {
  Bytes mem_total;
  Bytes mem_available;
  Bytes safety_margin;
  Bytes os_reserve;
  Bytes usable;
  Bytes committed;
  Bytes used;
  Bytes measured_by_managed;
  Bytes ready_gap;
  Bytes external;
  Bytes free_for_new;  ///< negative: over-committed by that much

  friend bool operator==(const Budget&, const Budget&) = default;
};

/// Pure function of one reading of the host and the deployments.
Budget compute_budget(Bytes mem_total, Bytes mem_available, std::span<const DeploymentMemory> deployments,
                      const BudgetSettings& settings);

}  // namespace dgxmm::memory
