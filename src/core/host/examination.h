#pragma once
#include "core/host/gpu.h"
#include "core/host/readings.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::host {

/// One thing that is worth knowing about a host before models are run on it.
struct Fact {
  enum class State { good, warning, unknown };

  std::string name;   ///< "swap", "PID namespace"
  std::string value;  ///< what was found, in words
  State state = State::good;
  std::string advice;  ///< what to do; empty when there is nothing to do
};
std::string_view name_of(Fact::State state);

/// A program that ends others when memory gets low (earlyoom, systemd-oomd, nohang).
struct MemoryGuard {
  std::string name;
  /// Of all memory: what must be left, or it acts. Absent: it goes by other signs, or did not say.
  std::optional<double> acts_below_percent;
};
/// From a process's name and arguments; nothing when it is no such program. Source: earlyoom(1), its -m and -M.
std::optional<MemoryGuard> memory_guard_of(std::string_view comm, const std::vector<std::string>& arguments,
                                           Bytes mem_total);

/// Free memory in blocks of at least `block`, from /proc/buddyinfo; nothing when it cannot be read.
std::optional<Bytes> free_in_blocks(std::string_view buddyinfo, Bytes page_size, Bytes block);

/// What was read; absent = could not be.
struct ExaminedHost {
  std::optional<Meminfo> meminfo;
  std::string meminfo_problem;
  std::optional<std::string> status;                                  ///< /proc/self/status
  std::optional<std::string> own_pid_namespace, first_pid_namespace;  ///< of /proc/self and /proc/1
  std::optional<std::string> own_cgroup_namespace, first_cgroup_namespace;
  std::optional<CgroupPath> cgroup;  ///< own one of the memory controller
  bool memory_controller = false;    ///< this process may see the controller's files
  Pressure pressure;
  std::optional<std::string> buddyinfo;
  Bytes page_size = kib(4);
  std::vector<MemoryGuard> guards;
  bool kernel_log = false;  ///< may be read
  GpuReading gpu;
  Bytes safety_margin;  ///< setting
};

/// A line for each fact, in a fixed order. Pure.
std::vector<Fact> examine(const ExaminedHost& host);

}  // namespace dgxmm::host
