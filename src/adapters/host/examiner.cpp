#include "adapters/host/examiner.h"

#include "adapters/host/kernel_log.h"
#include "adapters/host/proc_host_probe.h"
#include "base/files.h"
#include "base/numbers.h"

#include <fmt/format.h>

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
  host.kernel_log = !read_kernel_log().empty();
  return host;
}

}  // namespace dgxmm::host
