#pragma once
#include "core/host/gpu.h"

namespace dgxmm::ports {

/// The GPUs of this host and who holds their memory.
class GpuProbe {
 public:
  virtual ~GpuProbe() = default;
  /// The newest reading, at once: a driver that does not answer makes it older, never this call longer. Processes that
  /// have ended meanwhile are not in it. Loop thread.
  virtual host::GpuReading latest() = 0;
};

}  // namespace dgxmm::ports
