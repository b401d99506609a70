#pragma once
#include "base/result.h"
#include "core/host/readings.h"

#include <string>
#include <vector>

namespace dgxmm::ports {

/// What the host says about itself. Cheap calls, loop thread; `processes` reads every process and is asked on demand.
class HostProbe {
 public:
  virtual ~HostProbe() = default;
  virtual Result<host::Meminfo> meminfo() = 0;
  virtual host::Pressure pressure() = 0;
  /// Largest first; processes in `exclude_pids` are left out. Masked.
  virtual std::vector<host::ProcessRow> processes(std::size_t limit, const std::vector<std::int64_t>& exclude_pids) = 0;
  /// An NVIDIA GPU's driver is loaded here: GPU memory exists that only NVML can see.
  virtual bool has_nvidia_driver() = 0;
};

}  // namespace dgxmm::ports
