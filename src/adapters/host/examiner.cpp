#include "adapters/host/examiner.h"

#include "adapters/host/kernel_log.h"
#include "adapters/host/proc_host_probe.h"
#include "base/files.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace dgxmm::host {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> link_target(const fs::path& link) {
  std::error_code error;
  const auto target = fs::read_symlink(link, error);
  if (error) return std::nullopt;
  return target.string();
}

std::vector<MemoryGuard> running_guards(const fs::path& proc, Bytes mem_total) {
  std::vector<MemoryGuard> guards;
  std::error_code error;
  for (auto it = fs::directory_iterator{proc, error}; !error && it != fs::directory_iterator{}; it.increment(error)) {
    if (!parse_number(it->path().filename().string())) continue;
    const auto stat = parse_proc_stat(read_text_file(it->path() / "stat").value_or(""));
    if (!stat) continue;
    const auto arguments = parse_cmdline(read_text_file(it->path() / "cmdline").value_or(""));
    if (auto guard = memory_guard_of(stat->comm, arguments, mem_total)) guards.push_back(std::move(*guard));
  }
  return guards;
}

/// Whether the controller's own files are to be seen where its version has them.
bool has_memory_files(const fs::path& root, const CgroupPath& cgroup) {
  std::error_code ignored;
  const auto mount = root / "sys/fs/cgroup";
  if (cgroup.version == 1) return fs::exists(mount / "memory/memory.stat", ignored);
  return read_text_file(mount / "cgroup.controllers").value_or("").find("memory") != std::string::npos;
}

constexpr std::string_view kMemoryMount = "sys/fs/cgroup";

/// v1 adds up the limits of the groups above by itself; in v2 each has its own.
std::optional<Bytes> limit_of(const fs::path& root, const CgroupPath& cgroup) {
  constexpr std::int64_t kNone = std::int64_t{1} << 62;
  std::optional<Bytes> least;
  const auto take = [&](std::optional<std::int64_t> limit) {
    if (limit && *limit < kNone) least = std::min(least.value_or(Bytes{*limit}), Bytes{*limit});
  };
  const auto mount = root / kMemoryMount;
  if (cgroup.path.starts_with("/..")) return std::nullopt;
  const fs::path own = fs::path{cgroup.path}.relative_path();
  if (cgroup.version == 1) {
    take(hierarchical_limit(read_text_file(mount / "memory" / own / "memory.stat").value_or("")));
    return least;
  }
  for (auto group = own; !group.empty(); group = group.parent_path()) {
    for (const auto* file : {"memory.max", "memory.high"}) {
      auto text = read_text_file(mount / group / file).value_or("");
      while (text.ends_with('\n')) text.pop_back();
      take(parse_number(text));  // or "max"
    }
  }
  return least;
}

std::int64_t microseconds_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // what the kernel's log counts in, but for a sleeping host
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

ExaminedHost read_examined_host(const fs::path& root) {
  ExaminedHost host;
  const auto proc = root / "proc";
  ProcHostProbe probe{root};
  if (const auto meminfo = probe.meminfo()) {
    host.meminfo = *meminfo;
  } else {
    host.meminfo_problem = meminfo.error().message;
  }
  host.status = read_text_file(proc / "self/status");
  host.own_pid_namespace = link_target(proc / "self/ns/pid");
  host.first_pid_namespace = link_target(proc / "1/ns/pid");
  host.own_cgroup_namespace = link_target(proc / "self/ns/cgroup");
  host.first_cgroup_namespace = link_target(proc / "1/ns/cgroup");
  host.cgroup = parse_proc_cgroup(read_text_file(proc / "self/cgroup").value_or(""));
  host.memory_controller = host.cgroup && has_memory_files(root, *host.cgroup);
  host.pressure = probe.pressure();
  host.buddyinfo = read_text_file(proc / "buddyinfo");
  if (const auto size = ::sysconf(_SC_PAGESIZE); size > 0) host.page_size = Bytes{size};
  host.guards = running_guards(proc, host.meminfo ? host.meminfo->mem_total : Bytes{});
  if (host.cgroup) host.group_limit = limit_of(root, *host.cgroup);
  const auto kernel_log = read_kernel_log();
  host.kernel_log = !kernel_log.empty();
  host.driver_failures = count_driver_failures(kernel_log, microseconds_since_boot(), std::chrono::hours{1});
  return host;
}

}  // namespace dgxmm::host
