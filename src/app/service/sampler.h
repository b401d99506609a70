#pragma once
#include "app/service/deployment_table.h"
#include "base/clock.h"
#include "core/host/examination.h"
#include "core/host/readings.h"
#include "core/host/swap_watch.h"
#include "core/host/warning.h"
#include "core/memory/budget.h"
#include "core/memory/history.h"
#include "ports/container_runtime.h"
#include "ports/event_loop.h"
#include "ports/gpu_probe.h"
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
  host::Meminfo meminfo;
  host::Pressure pressure;  ///< at most a second old
  memory::Budget budget;
  host::GpuReading gpu;
  std::optional<Bytes>
      gpu_estimate;  ///< of the whole host, by what /proc/meminfo leaves out; absent: nothing to compare
  std::vector<memory::DeploymentMemory> deployments;       ///< those that count (B2, B3)
  std::map<DeploymentId, std::vector<std::int64_t>> pids;  ///< of those of them that have an engine
  std::vector<host::ProcessRow> orphans;  ///< on the GPU, certain or possible (D1); the certain ones first
  std::vector<host::Warning> warnings;

  [[nodiscard]] const memory::DeploymentMemory* find(DeploymentId id) const;
};

/// Who holds GPU memory for nobody, and how to get it back; of one that may be in use all the same, that.
host::Warning orphan_warning(const host::ProcessRow& orphan);

/// A point of the last hour's picture.
memory::HistoryPoint history_point(const HostSnapshot& snapshot);

/// Reads the host every interval and on every change of state (B8).
class Sampler {
 public:
  Sampler(ports::HostProbe& probe, ports::GpuProbe& gpu, ports::ContainerRuntime& runtime, DeploymentTable& table,
          memory::BudgetSettings settings, const Clock& clock, ports::EventLoop& loop);

  /// Reads now. A snapshot equal to the last but for its time keeps the revision and is not announced.
  std::shared_ptr<const HostSnapshot> refresh();
  /// /proc/meminfo alone, now. Errors: as HostProbe::meminfo.
  [[nodiscard]] Result<host::Meminfo> meminfo() const { return probe_.meminfo(); }
  /// MemAvailable alone, now; nothing when it cannot be read.
  [[nodiscard]] std::optional<Bytes> mem_available() const;
  [[nodiscard]] std::shared_ptr<const HostSnapshot> latest() const { return latest_; }
  /// B6 of one engine, now: its host part and what its processes hold on the GPU. As ContainerRuntime::measure.
  std::optional<memory::Measured> measure(const ports::Instance& instance);
  /// Who holds memory on the GPU, now.
  host::GpuReading gpu_now() { return gpu_.latest(); }
  /// Slow facts of the host, which another task reads now and then; each snapshot from now on warns by them.
  void note(host::ExaminedHost facts) { facts_ = std::move(facts); }
  /// Those programs that end others when memory gets low which ran at the last look; empty before the first.
  [[nodiscard]] std::vector<std::string> guards_running() const;
  ports::Wakeup& changed() { return *changed_; }

 private:
  std::optional<memory::Measured> measure(const ports::Instance& instance, const host::GpuReading& gpu,
                                          const std::vector<std::int64_t>& pids);
  void find_orphans(HostSnapshot& snapshot, const std::vector<std::int64_t>& managed);
  void estimate_gpu(HostSnapshot& snapshot);
  void watch_pressure(HostSnapshot& snapshot);
  void warn_of_the_host(HostSnapshot& snapshot);
  void report_gpu_access(const HostSnapshot& snapshot) const;

  ports::HostProbe& probe_;
  ports::GpuProbe& gpu_;
  ports::ContainerRuntime& runtime_;
  DeploymentTable& table_;
  memory::BudgetSettings settings_;
  const Clock& clock_;
  std::unique_ptr<ports::Wakeup> changed_;
  std::shared_ptr<const HostSnapshot> latest_;
  std::optional<host::ExaminedHost> facts_;  ///< absent: not read yet
  host::SwapWatch swap_watch_;
  host::Pressure pressure_;
  std::optional<Bytes> unlisted_without_gpu_;  ///< what /proc/meminfo leaves out while no process uses a GPU
};

}  // namespace dgxmm::service
