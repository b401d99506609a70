#include "app/service/sampler.h"

#include "app/dto/dto.h"
#include "base/log.h"
#include "base/masking.h"
#include "core/memory/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dgxmm::service {
namespace {

std::vector<host::Warning> warnings_of(const HostSnapshot& snapshot, DeploymentTable& table) {
  std::vector<host::Warning> warnings;
  const auto warn = [&warnings](std::string code, std::string message, std::string hint = {}) {
    warnings.push_back({.code = std::move(code), .message = std::move(message), .hint = std::move(hint)});
  };
  if (snapshot.problem) {
    warn(snapshot.problem->code, snapshot.problem->message, snapshot.problem->hint);
    return warnings;
  }
  if (snapshot.budget.free_for_new < Bytes{0}) {  // B5
    warn("over_committed", fmt::format("the host is over-committed by {}", format_bytes(-snapshot.budget.free_for_new)),
         "stop something: `dgxmm memory` shows who holds what");
  }
  if (const auto& refused = snapshot.gpu.no_starts) {
    warn(refused->code, fmt::format("no engine can be started here: {}", refused->message), refused->hint);
  }
  const auto on_gpu =
      snapshot.gpu.host_class == host::HostClass::integrated ? snapshot.gpu.held_by_all() : std::nullopt;
  if (on_gpu && *on_gpu > snapshot.mem_total) {
    warn("gpu_above_total",
         fmt::format(
             "processes hold {} on the GPU, more than the {} of this host: /proc/meminfo shows a container's limit, "
             "or memory that processes share is counted for each",
             format_bytes(*on_gpu), format_bytes(snapshot.mem_total)));
  }
  if (!snapshot.gpu.unavailable.empty()) warn("gpu_memory_unknown", snapshot.gpu.unavailable);
  for (const auto& sentence : snapshot.gpu.warnings) warn("gpu", sentence);
  for (const auto& orphan : snapshot.orphans) warnings.push_back(orphan_warning(orphan));
  for (const auto* deployment : table.all()) {
    const auto& failure = deployment->failure;
    if (!failure || failure->code != dto::kNotBroughtBack) continue;
    warn(failure->code, fmt::format("{}: {}", deployment->name, failure->message), failure->hint);
  }
  for (const auto& entry : snapshot.deployments) {
    const auto* deployment = table.find(entry.id);
    if (deployment == nullptr) continue;
    if (!entry.holds_memory) continue;  // nothing was started yet
    if (!entry.measured) {
      warn("not_measured", fmt::format("{}: its memory could not be measured", deployment->name));
    } else if (!entry.measured->gpu) {  // B7
      const auto known = entry.measured->gpu_at_least;
      const auto least = known > Bytes{} ? fmt::format(", at least {}", format_bytes(known)) : std::string{};
      warn("gpu_part_unknown", fmt::format("{}: the GPU part of its memory is unknown{}", deployment->name, least));
    }
  }
  return warnings;
}

bool same(const HostSnapshot& a, const HostSnapshot& b) {
  const auto same_entry = [](const memory::DeploymentMemory& x, const memory::DeploymentMemory& y) {
    return x.id == y.id && x.state == y.state && x.reserved == y.reserved && x.measured == y.measured;
  };
  return a.budget == b.budget && a.problem == b.problem && a.warnings == b.warnings &&
         a.meminfo.mem_free == b.meminfo.mem_free && a.meminfo.swap_used() == b.meminfo.swap_used() &&
         a.pressure == b.pressure && a.gpu.host_class == b.gpu.host_class &&
         a.gpu.held_by_all() == b.gpu.held_by_all() && a.gpu.held_at_least_by_all() == b.gpu.held_at_least_by_all() &&
         std::ranges::equal(a.deployments, b.deployments, same_entry);
}

}  // namespace

const memory::DeploymentMemory* HostSnapshot::find(DeploymentId id) const {
  const auto found = std::ranges::find(deployments, id, &memory::DeploymentMemory::id);
  return found == deployments.end() ? nullptr : &*found;
}

memory::HistoryPoint history_point(const HostSnapshot& snapshot) {
  memory::HistoryPoint point{.time = snapshot.time};
  if (snapshot.problem) return point;
  const auto& budget = snapshot.budget;
  const auto is_unknown = [](const memory::DeploymentMemory& each) { return each.holds_memory && !each.measured; };
  // What cannot be told from the rest makes the rest unknown too.
  if (std::ranges::none_of(snapshot.deployments, is_unknown)) {
    point.deployments = budget.measured_by_managed;
    point.ready_gap = budget.ready_gap;
    point.external = budget.external;
  }
  const auto available = memory::available_parts(snapshot.mem_available, snapshot.meminfo.mem_free);
  point.page_cache = available.page_cache;
  point.free = available.free;
  point.committed = budget.committed;
  point.swap_used = snapshot.meminfo.swap_used();
  point.pressure_some_avg10_permyriad = snapshot.pressure.some_avg10_permyriad;
  return point;
}

host::Warning orphan_warning(const host::ProcessRow& orphan) {
  const auto who = fmt::format("process {} ({}) holds {} of GPU memory", orphan.pid, orphan.command,
                               orphan.gpu ? format_bytes(*orphan.gpu) : "an unknown amount");
  if (orphan.orphan == host::Orphanhood::certain) {
    return {.code = "gpu_orphan",
            .message = who + " for nobody: what it worked for has ended",
            .hint = fmt::format("`kill {}` gives it back", orphan.pid)};
  }
  return {.code = "gpu_parent_ended",
          .message = who + "; its parent has ended; it may still be in use",
          .hint = {},
          .severity = host::Warning::Severity::note};
}

Sampler::Sampler(ports::HostProbe& probe, ports::GpuProbe& gpu, ports::ContainerRuntime& runtime,
                 DeploymentTable& table, memory::BudgetSettings settings, const Clock& clock, ports::EventLoop& loop)
    : probe_(probe),
      gpu_(gpu),
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
  snapshot->gpu = gpu_.latest();
  std::vector<std::int64_t> managed;
  for (auto* deployment : table_.all()) {
    if (deployment::is_final(deployment->state)) continue;
    memory::DeploymentMemory entry{.id = deployment->id,
                                   .state = deployment->state,
                                   .reserved = deployment->reserved(),
                                   .measured = {},
                                   .holds_memory = deployment->instance.has_value()};
    if (deployment->instance) {
      auto pids = runtime_.pids(*deployment->instance);
      entry.measured = measure(*deployment->instance, snapshot->gpu, pids);
      managed.insert(managed.end(), pids.begin(), pids.end());
      snapshot->pids.emplace(deployment->id, std::move(pids));
    }
    snapshot->deployments.push_back(entry);
  }
  find_orphans(*snapshot, managed);
  if (meminfo) {
    snapshot->meminfo = *meminfo;
    snapshot->mem_total = meminfo->mem_total;
    snapshot->mem_available = meminfo->mem_available;
    snapshot->budget =
        memory::compute_budget(meminfo->mem_total, meminfo->mem_available, snapshot->deployments, settings_);
  } else {
    snapshot->problem = meminfo.error();
  }
  watch_pressure(*snapshot);
  estimate_gpu(*snapshot);
  snapshot->warnings = warnings_of(*snapshot, table_);
  warn_of_the_host(*snapshot);

  report_gpu_access(*snapshot);
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

std::optional<memory::Measured> Sampler::measure(const ports::Instance& instance) {
  return measure(instance, gpu_.latest(), runtime_.pids(instance));
}

std::optional<memory::Measured> Sampler::measure(const ports::Instance& instance, const host::GpuReading& gpu,
                                                 const std::vector<std::int64_t>& pids) {
  auto measured = runtime_.measure(instance, pids);
  if (measured) {
    measured->gpu = gpu.held_by(pids);  // B7
    measured->gpu_at_least = gpu.held_at_least_by(pids);
  }
  return measured;
}

void Sampler::report_gpu_access(const HostSnapshot& snapshot) const {
  if (!latest_ || latest_->gpu.unavailable == snapshot.gpu.unavailable) return;
  if (snapshot.gpu.unavailable.empty()) {
    log::info("who holds GPU memory is known again");
  } else {
    log::warning("{}", printable(snapshot.gpu.unavailable));
  }
}

void Sampler::find_orphans(HostSnapshot& snapshot, const std::vector<std::int64_t>& managed) {
  if (!snapshot.gpu.processes) return;
  std::vector<std::int64_t> others;
  for (const auto& process : *snapshot.gpu.processes) {
    if (std::ranges::find(managed, process.pid) == managed.end()) others.push_back(process.pid);
  }
  if (others.empty()) return;
  snapshot.orphans = probe_.rows_of(others, snapshot.gpu);
  std::erase_if(snapshot.orphans, [](const host::ProcessRow& row) { return row.orphan == host::Orphanhood::none; });
  std::ranges::sort(snapshot.orphans, {}, [](const host::ProcessRow& row) {
    return std::pair{row.orphan != host::Orphanhood::certain, row.pid};
  });
}

void Sampler::watch_pressure(HostSnapshot& snapshot) {
  if (const auto now = clock_.steady(); swap_watch_.is_due(now)) {
    swap_watch_.add(now, probe_.swap_counters());
    pressure_ = probe_.pressure();
  }
  snapshot.pressure = pressure_;
}

std::vector<std::string> Sampler::guards_running() const {
  std::vector<std::string> names;
  if (!facts_) return names;
  for (const auto& guard : facts_->guards) names.push_back(guard.name);
  return names;
}

void Sampler::warn_of_the_host(HostSnapshot& snapshot) {
  if (!facts_ || snapshot.problem) return;
  facts_->pressure = snapshot.pressure;
  facts_->meminfo = snapshot.meminfo;
  facts_->swap_activity = swap_watch_.activity();
  facts_->safety_margin = settings_.safety_margin;
  auto warnings = host::host_warnings(*facts_);
  std::ranges::move(warnings, std::back_inserter(snapshot.warnings));
}

void Sampler::estimate_gpu(HostSnapshot& snapshot) {
  if (snapshot.problem || snapshot.gpu.host_class == host::HostClass::none) return;
  const auto unlisted = host::unlisted_memory(snapshot.meminfo);
  if (!unlisted) return;
  if (snapshot.gpu.processes && snapshot.gpu.processes->empty()) unlisted_without_gpu_ = unlisted;
  if (unlisted_without_gpu_) snapshot.gpu_estimate = std::max(*unlisted - *unlisted_without_gpu_, Bytes{});
}

}  // namespace dgxmm::service
