#pragma once
#include "ports/host_probe.h"

#include <functional>
#include <optional>
#include <utility>

namespace dgxmm::host {

/// For tests only: a host on which nobody takes or gives back memory but this daemon's engines. What they hold is
/// measured; what all others hold, which builds and other tests change by gigabytes, is said.
class QuietHost final : public ports::HostProbe {
 public:
  QuietHost(ports::HostProbe& host, Bytes held_by_others, std::function<Bytes()> held_by_engines)
      : host_(host),
        held_by_others_(held_by_others),
        held_by_engines_(std::move(held_by_engines)) {}

  Result<Meminfo> meminfo() override;
  Pressure pressure() override { return host_.pressure(); }
  std::optional<SwapCounters> swap_counters() override { return host_.swap_counters(); }
  ExaminedHost examined() override { return host_.examined(); }
  ProcessList processes(std::size_t limit, const std::vector<std::int64_t>& exclude_pids,
                        const GpuReading& gpu) override {
    return host_.processes(limit, exclude_pids, gpu);
  }
  std::vector<ProcessRow> rows_of(const std::vector<std::int64_t>& pids, const GpuReading& gpu) override {
    return host_.rows_of(pids, gpu);
  }
  std::optional<OwnerlessList> ownerless_memory() override { return host_.ownerless_memory(); }
  bool has_nvidia_driver() override { return host_.has_nvidia_driver(); }

 private:
  ports::HostProbe& host_;
  Bytes held_by_others_;
  std::function<Bytes()> held_by_engines_;
};

/// What the variable DGXMM_TEST_OTHERS_HOLD says, in bytes; nothing when it is not set.
std::optional<Bytes> held_by_others_in_tests();

}  // namespace dgxmm::host
