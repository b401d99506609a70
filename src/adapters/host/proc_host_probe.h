#pragma once
#include "ports/host_probe.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::host {

/// Is /proc/meminfo a container's view made by lxcfs, which hides what the host has? From /proc/self/mountinfo.
bool meminfo_is_virtual(std::string_view mountinfo);

/// User names by number, from the text of a passwd file; of two names with one number, the first.
std::map<std::int64_t, std::string> parse_passwd(std::string_view text);

/// This host, from its /proc.
class ProcHostProbe final : public ports::HostProbe {
 public:
  /// `root` is where the host's /proc, /dev and /etc are found.
  explicit ProcHostProbe(std::filesystem::path root = "/");

  /// Also `meminfo_unusable` when lxcfs shows a container's limit in place of the host's memory.
  Result<Meminfo> meminfo() override;
  Pressure pressure() override;
  std::optional<SwapCounters> swap_counters() override;
  ExaminedHost examined() override;
  ProcessList processes(std::size_t limit, const std::vector<std::int64_t>& exclude_pids,
                        const GpuReading& gpu) override;
  std::vector<ProcessRow> rows_of(const std::vector<std::int64_t>& pids, const GpuReading& gpu) override;
  std::optional<OwnerlessList> ownerless_memory() override;
  bool has_nvidia_driver() override;

 private:
  struct Holder;
  [[nodiscard]] std::optional<Holder> read_holder(std::int64_t pid, const GpuReading& gpu) const;
  [[nodiscard]] std::optional<ProcessRow> row_of(const Holder& holder) const;
  [[nodiscard]] std::string user_name(std::optional<std::int64_t> uid) const;

  std::filesystem::path root_;
  std::map<std::int64_t, std::string> users_;
  bool meminfo_is_virtual_;
};

}  // namespace dgxmm::host
