#pragma once
#include "base/bytes.h"
#include "base/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::host {

/// /proc/meminfo. MemTotal and MemAvailable are required; any other value may be absent, which is not 0.
struct Meminfo {
  Bytes mem_total;
  Bytes mem_available;
  std::optional<Bytes> mem_free, cached, shmem, swap_total, swap_free, hugetlb;
  std::optional<Bytes> active_anon, inactive_anon, active_file, inactive_file, unevictable;
  std::optional<Bytes> slab, kernel_stack, page_tables, sec_page_tables, percpu;

  [[nodiscard]] std::optional<Bytes> swap_used() const {
    return swap_total && swap_free ? std::optional{*swap_total - *swap_free} : std::nullopt;
  }
};

/// Errors: `meminfo_unusable` (a required value is missing, or MemAvailable > MemTotal, or MemTotal is 0).
Result<Meminfo> parse_meminfo(std::string_view text);

/// What no line of /proc/meminfo accounts for: memory of drivers, a GPU's above all, and a GiB or so that the kernel
/// keeps for itself. Nothing when one of the lines that every kernel has is missing.
std::optional<Bytes> unlisted_memory(const Meminfo& meminfo);

/// One memory cgroup, v1 or v2. Absent = the file or key was not there.
struct CgroupMemory {
  std::optional<Bytes> anon, kernel, shmem, file, sock, current;
  std::optional<std::int64_t> oom_kills;
};

/// `memory.stat` of v2.
CgroupMemory parse_cgroup_v2(std::string_view memory_stat, std::string_view memory_events,
                             std::string_view memory_current);
/// `memory.stat`, `memory.kmem.usage_in_bytes`, `memory.oom_control`, `memory.usage_in_bytes` of v1; pass "" for a
/// file that is not there.
CgroupMemory parse_cgroup_v1(std::string_view memory_stat, std::string_view kmem_usage, std::string_view oom_control,
                             std::string_view usage);

/// The smallest limit of a v1 group and those above it, from its `memory.stat`; 2^62 and more: none.
std::optional<std::int64_t> hierarchical_limit(std::string_view memory_stat);

/// The memory line of /proc/<pid>/cgroup.
struct CgroupPath {
  int version = 2;
  std::string path;  ///< relative to the mount of that version
  friend bool operator==(const CgroupPath&, const CgroupPath&) = default;
};
std::optional<CgroupPath> parse_proc_cgroup(std::string_view text);

/// Whose group a process is in.
struct GroupOwner {
  enum class Kind { nobody, unit, container, removed_container };

  Kind kind = Kind::nobody;
  std::string name;     ///< of a unit; of a container its id, or what LXC and machines are called by
  std::string runtime;  ///< of a container: docker, podman, kubernetes, containerd, cri-o, lxc, machine; "" = not known
  std::string path;     ///< down to the component that names it: what is below belongs to it too
  bool below_mount = true;                   ///< false ("/../…"): seen from another namespace, no path to read at
  std::optional<std::int64_t> rootless_uid;  ///< of the user whose own engine runs the container
  friend bool operator==(const GroupOwner&, const GroupOwner&) = default;
};
/// By its cgroup path. Of nested containers the outermost, whose statistics have those of the inner ones: each byte
/// then has one owner. Of nested units the innermost. A build and the monitor of a container are no containers.
GroupOwner group_owner(std::string_view cgroup_path);

/// The id of the container, or the name of the unit, that a cgroup path belongs to; empty if neither.
std::string container_of(std::string_view cgroup_path);

/// The part of a cgroup path that is one container's: statistics there include every group that it makes below.
struct ContainerGroup {
  std::string id;                            ///< 64 hexadecimal digits
  std::string path;                          ///< down to the container's own component
  bool below_mount = true;                   ///< false ("/../…"): seen from another namespace, no path to read at
  std::optional<std::int64_t> rootless_uid;  ///< of the user whose own engine runs it
  friend bool operator==(const ContainerGroup&, const ContainerGroup&) = default;
};
/// Of Docker, Podman, containerd and CRI-O with either cgroup driver; nothing when the path is no container's, a
/// removed one's, or that of a container's monitor.
std::optional<ContainerGroup> container_group(std::string_view cgroup_path);

/// Where Docker makes the group of a container: by the driver ("systemd" or "cgroupfs") and the parent that it was
/// given (empty: the default; of the user's own slices for a rootless engine, which cannot be told from here: nothing
/// then). Nothing for a driver that is not known.
std::optional<std::string> container_group_path(std::string_view driver, std::string_view parent, std::string_view id,
                                                bool rootless = false);

/// A kill by the kernel's OOM killer: the "oom-kill:" line of its log (mm/oom_kill.c, dump_oom_victim).
struct OomKill {
  bool group_limit = false;  ///< a limit of a group was hit; else the whole host was out of memory
  std::string task;
  std::string task_group;  ///< cgroup path of the victim
  std::int64_t pid = 0;
};
std::optional<OomKill> parse_oom_kill(std::string_view line);
/// The newest line of a kernel log (as /dev/kmsg gives it) that says that a process of this container was killed; empty
/// when there is none.
std::string find_oom_kill(std::string_view kernel_log, std::string_view container_id);
/// The same for processes by their numbers, which are given out again: `since_us` is when the first of them started, in
/// microseconds since boot, as the log counts.
std::string find_oom_kill(std::string_view kernel_log, std::span<const std::int64_t> pids, std::int64_t since_us);

/// /proc/<pid>/stat: the fields that identify a process. Survives a `comm` with spaces and parentheses.
struct ProcessStat {
  std::int64_t pid = 0;
  std::int64_t parent_pid = 0;
  char state = '?';
  std::int64_t session = 0;
  std::uint64_t start_time_ticks = 0;  ///< since boot; with the pid, an identity that reuse of the pid cannot fake
  std::string comm;
};
std::optional<ProcessStat> parse_proc_stat(std::string_view text);

/// /proc/<pid>/status.
struct ProcessMemory {
  std::optional<Bytes> rss, rss_anon, rss_file, rss_shmem, hugetlb, swap;
  std::optional<std::int64_t> uid;
};
ProcessMemory parse_proc_status(std::string_view text);

/// NUL-separated; trailing NULs (a program that overwrote its title) are dropped.
std::vector<std::string> parse_cmdline(std::string_view bytes);

/// The variable in an engine's environment that names its first process, "PID:START TIME"; what that starts inherits
/// it.
inline constexpr const char* kFirstProcessVariable = "DGXMM_ENGINE";
/// What identifies a process.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_time_ticks = 0;
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Of the variable's value, `PID:START_TIME_TICKS`. Nothing when it is something else.
std::optional<ProcessIdentity> parse_process_mark(std::string_view mark);
/// The first process of the engine that a process belongs to, by /proc/<pid>/environ; nothing when it is of none.
std::optional<ProcessIdentity> parse_first_process(std::string_view environment);

/// Does a process hold memory for nobody?
enum class Orphanhood {
  none,
  possible,  ///< what started it has ended; it may be in use all the same
  certain,   ///< what it worked for has ended
};

/// One row of the process view (B10). The command line is masked.
struct ProcessRow {
  std::int64_t pid = 0;
  std::string user;
  std::string command;
  std::string container;
  Bytes held;  ///< RssAnon + RssShmem + HugetlbPages (+ NVML, when known)
  std::optional<Bytes> rss, gpu;
  Orphanhood orphan = Orphanhood::none;  ///< of one that holds GPU memory (D1)
};

/// What the processes of one owner hold together, by their own figures.
struct ProcessGroup {
  GroupOwner owner;
  int cgroup_version = 2;
  std::size_t processes = 0;
  std::string user;  ///< of all of them; empty: several
  Bytes anon;
  Bytes shmem;               ///< a shared page counts once for each that maps it
  std::optional<Bytes> gpu;  ///< absent: of one of them it is not known
  Bytes gpu_at_least;        ///< of the others, then
  bool own = false;          ///< dgxmm itself is one of them
};

/// The process view: the largest, and what all together hold.
struct ProcessList {
  std::vector<ProcessRow> rows;      ///< certain orphans first, then the largest
  std::vector<ProcessGroup> groups;  ///< every process that was not left out, shown or not
  /// Of each process that was left out: whose group it is in.
  std::vector<std::pair<std::int64_t, GroupOwner>> left_out;
};

/// A file in /dev/shm, or a System V segment, that no process has open or mapped any more. It stays until it is
/// removed.
struct OwnerlessMemory {
  std::string name;  ///< "/dev/shm/vllm_offload_1.mmap", "System V segment 7"
  Bytes size;        ///< that is really there
  std::string user;
  friend bool operator==(const OwnerlessMemory&, const OwnerlessMemory&) = default;
};

struct OwnerlessList {
  std::vector<OwnerlessMemory> items;  ///< the largest first
  bool certain = true;                 ///< false: some process may not be looked at, and may have them open
};

/// The segments of /proc/sysvipc/shm that no process is attached to; `user` holds the number.
std::vector<OwnerlessMemory> parse_unattached_segments(std::string_view text);

/// /proc/pressure/memory in hundredths of a percent; absent when the kernel has PSI off.
struct Pressure {
  std::optional<std::int64_t> some_avg10_permyriad, full_avg10_permyriad;
  friend bool operator==(const Pressure&, const Pressure&) = default;
};
Pressure parse_pressure(std::string_view text);

}  // namespace dgxmm::host
