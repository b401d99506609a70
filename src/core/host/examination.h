#pragma once
#include "core/host/gpu.h"
#include "core/host/readings.h"
#include "core/host/swap_watch.h"
#include "core/host/warning.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::host {

/// One thing that is worth knowing about a host before models are run on it.
struct Fact {
  enum class State { good, warning, unknown };

  std::string code;   ///< stable, for programs: "swap", "pid_namespace"
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

/// Lines of a kernel log (as /dev/kmsg gives it) that tell of a driver's allocation that failed, not older than
/// `window`. `now_us`: since boot, as the log counts. Starts that go well have such lines too (C4).
std::int64_t count_driver_failures(std::string_view kernel_log, std::int64_t now_us, std::chrono::seconds window);

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
  bool kernel_log = false;           ///< may be read
  std::int64_t driver_failures = 0;  ///< count_driver_failures of the last hour
  std::optional<Bytes> group_limit;  ///< the smallest memory limit of dgxmm's own group and those above it
  SwapActivity swap_activity;        ///< what a daemon has seen over time
  GpuReading gpu;
  Bytes safety_margin;  ///< setting
};

/// A line for each fact, in a fixed order. Pure.
std::vector<Fact> examine(const ExaminedHost& host);

/// Those of the facts that stand in the way of models now, and what to do about each. Pure.
std::vector<Warning> host_warnings(const ExaminedHost& host);

}  // namespace dgxmm::host
