#pragma once
#include "base/result.h"
#include "core/host/examination.h"
#include "core/host/gpu.h"
#include "core/host/readings.h"

#include <optional>
#include <string>
#include <vector>

namespace dgxmm::ports {

/// What the host says about itself. Cheap calls, loop thread; `processes` reads every process and is asked on demand.
class HostProbe {
 public:
  virtual ~HostProbe() = default;
  virtual Result<host::Meminfo> meminfo() = 0;
  virtual host::Pressure pressure() = 0;
  virtual std::optional<host::SwapCounters> swap_counters() = 0;
  /// What changes slowly: everything that `host::examine` asks for but the GPU and the settings. Slow; from any thread.
  virtual host::ExaminedHost examined() = 0;
  /// At most `limit` rows; processes in `exclude_pids` are in no row and no group. Masked.
  virtual host::ProcessList processes(std::size_t limit, const std::vector<std::int64_t>& exclude_pids,
                                      const host::GpuReading& gpu) = 0;
  /// The rows of these alone; those that have ended are left out.
  virtual std::vector<host::ProcessRow> rows_of(const std::vector<std::int64_t>& pids, const host::GpuReading& gpu) = 0;
  /// Shared memory of some size that no process has open; nothing when there is no /dev/shm to be seen here. Slow when
  /// there is any: on demand.
  virtual std::optional<host::OwnerlessList> ownerless_memory() = 0;
  /// An NVIDIA GPU's driver is loaded here: engines use it.
  virtual bool has_nvidia_driver() = 0;
};

}  // namespace dgxmm::ports
