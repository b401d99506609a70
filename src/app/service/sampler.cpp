#include "app/service/sampler.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::service {
namespace {

std::vector<std::string> warnings_of(const HostSnapshot& snapshot, DeploymentTable& table) {
  std::vector<std::string> warnings;
  if (snapshot.problem) {
    warnings.push_back(snapshot.problem->message);
    return warnings;
  }
  if (snapshot.budget.free_for_new < Bytes{0}) {  // B5
    warnings.push_back(fmt::format("the host is over-committed by {}", format_bytes(-snapshot.budget.free_for_new)));
  }
  for (const auto& entry : snapshot.deployments) {
    const auto* deployment = table.find(entry.id);
    if (deployment == nullptr) continue;
    if (!entry.holds_memory) continue;  // nothing was started yet
    if (!entry.measured) {
      warnings.push_back(fmt::format("{}: its memory could not be measured", deployment->name));
    } else if (!entry.measured->gpu) {  // B7
      warnings.push_back(fmt::format("{}: the GPU part of its memory is unknown", deployment->name));
    }
  }
  return warnings;
}

bool same(const HostSnapshot& a, const HostSnapshot& b) {
  const auto same_entry = [](const memory::DeploymentMemory& x, const memory::DeploymentMemory& y) {
    return x.id == y.id && x.state == y.state && x.reserved == y.reserved && x.measured == y.measured;
  };
  return a.budget == b.budget && a.problem == b.problem && a.warnings == b.warnings &&
         std::ranges::equal(a.deployments, b.deployments, same_entry);
}

}  // namespace

const memory::DeploymentMemory* HostSnapshot::find(DeploymentId id) const {
  const auto found = std::ranges::find(deployments, id, &memory::DeploymentMemory::id);
  return found == deployments.end() ? nullptr : &*found;
}

Sampler::Sampler(ports::HostProbe& probe, ports::ContainerRuntime& runtime, DeploymentTable& table,
                 memory::BudgetSettings settings, const Clock& clock, ports::EventLoop& loop)
    : probe_(probe),
      runtime_(runtime),
      table_(table),
      settings_(settings),
      clock_(clock),
      changed_(loop.make_wakeup()) {}

std::shared_ptr<const HostSnapshot> Sampler::refresh() {
  auto snapshot = std::make_shared<HostSnapshot>();
  snapshot->time = clock_.wall();
  // The host first, then the deployments: what a deployment takes in between makes `external` smaller for a moment,
  // never a deployment's own figure.
  const auto meminfo = probe_.meminfo();
  for (auto* deployment : table_.all()) {
    if (deployment::is_final(deployment->state)) continue;
    memory::DeploymentMemory entry{.id = deployment->id,
                                   .state = deployment->state,
                                   .reserved = deployment->reserved(),
                                   .measured = {},
                                   .holds_memory = deployment->instance.has_value()};
    if (deployment->instance) entry.measured = runtime_.measure(*deployment->instance);
    snapshot->deployments.push_back(entry);
  }
  if (meminfo) {
    snapshot->mem_total = meminfo->mem_total;
    snapshot->mem_available = meminfo->mem_available;
    snapshot->budget =
        memory::compute_budget(meminfo->mem_total, meminfo->mem_available, snapshot->deployments, settings_);
  } else {
    snapshot->problem = meminfo.error();
  }
  snapshot->warnings = warnings_of(*snapshot, table_);

  const bool unchanged = latest_ && same(*latest_, *snapshot);
  snapshot->revision = latest_ ? latest_->revision + (unchanged ? 0 : 1) : 1;
  latest_ = std::move(snapshot);
  if (!unchanged) changed_->notify_all();
  return latest_;
}

std::optional<Bytes> Sampler::mem_available() const {
  const auto meminfo = probe_.meminfo();
  if (!meminfo) return std::nullopt;
  return meminfo->mem_available;
}

}  // namespace dgxmm::service
