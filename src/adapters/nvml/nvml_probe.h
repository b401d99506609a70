#pragma once
#include "base/clock.h"
#include "ports/gpu_probe.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace dgxmm::nvml {

struct NvmlOptions {
  std::string library = "libnvidia-ml.so.1";   ///< a name or a path; empty: NVML is not used
  std::filesystem::path root = "/";            ///< where the host's /proc is found
  bool driver_loaded = false;                  ///< the host has an NVIDIA driver, whatever the library says
  std::optional<host::HostClass> given_class;  ///< where it cannot be told
  std::chrono::milliseconds interval{2000};
  std::chrono::milliseconds slowest_retry{30'000};  ///< after failures the pauses grow up to this
  host::GpuPatience patience;
};

/// NVML on a thread of its own: a driver that hangs takes that thread with it, and nothing else.
class NvmlProbe final : public ports::GpuProbe {
 public:
  /// Begins to ask. `clock` may be used by the thread until this object is gone.
  NvmlProbe(NvmlOptions options, const Clock& clock);
  /// Does not wait for a driver that hangs.
  ~NvmlProbe() override;
  NvmlProbe(const NvmlProbe&) = delete;
  NvmlProbe& operator=(const NvmlProbe&) = delete;

  /// Waits for the first answer; false when it has not come by then. For the start of the daemon, before its loop runs.
  bool wait_for_first(std::chrono::milliseconds limit);
  host::GpuReading latest() override;

  struct Shared;

 private:
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace dgxmm::nvml
