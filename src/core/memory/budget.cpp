#include "core/memory/budget.h"

#include <algorithm>

namespace dgxmm::memory {
namespace {

Bytes measured_total(const DeploymentMemory& deployment) {
  if (!deployment.holds_memory || !deployment.measured) return Bytes{};
  return deployment.measured->total();
}

}  // namespace

Bytes Measured::host() const { return anon.value_or(Bytes{}) + kernel.value_or(Bytes{}) + shmem.value_or(Bytes{}); }

Bytes Measured::total() const { return host() + gpu.value_or(gpu_at_least); }

std::optional<Bytes> Measured::complete_total() const {
  if (!anon || !kernel || !shmem || !gpu) return std::nullopt;
  return total();
}

Bytes ready_gap_of(const DeploymentMemory& deployment) {
  if (deployment.state != deployment::State::ready) return Bytes{};
  return std::max(deployment.reserved - measured_total(deployment), Bytes{});
}

Budget compute_budget(Bytes mem_total, Bytes mem_available, std::span<const DeploymentMemory> deployments,
                      const BudgetSettings& settings) {
  Budget budget{
      .mem_total = mem_total,
      .mem_available = mem_available,
      .safety_margin = settings.safety_margin,
      .os_reserve = settings.os_reserve,
  };
  budget.usable = mem_total - settings.safety_margin - settings.os_reserve;  // B1
  for (const auto& deployment : deployments) {
    const Bytes measured = measured_total(deployment);
    if (deployment::counts_reserved(deployment.state)) {  // B2
      budget.committed += std::max(deployment.reserved, measured);
    } else {
      // Sleeping or stopping; or ended with its container still there, which is stopping until it is gone. Without a
      // container this adds nothing.
      budget.committed += measured;
    }
    budget.measured_by_managed += measured;
    budget.ready_gap += ready_gap_of(deployment);  // B4
  }
  budget.used = mem_total - mem_available;
  budget.external = std::max(budget.used - budget.measured_by_managed - budget.ready_gap, Bytes{});  // B3
  budget.free_for_new = budget.usable - budget.committed - budget.external;                          // B5
  return budget;
}

}  // namespace dgxmm::memory
