#include "adapters/host/proc_host_probe.h"

#include "base/files.h"
#include "base/masking.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

namespace dgxmm::host {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCommandLimitBytes = 64 * 1024;

std::string shown_command(const fs::path& folder) {
  const auto arguments = parse_cmdline(read_text_file(folder / "cmdline", kCommandLimitBytes).value_or(""));
  if (!arguments.empty()) return printable_command(mask_arguments(arguments));
  const auto stat = parse_proc_stat(read_text_file(folder / "stat").value_or(""));
  return stat ? fmt::format("[{}]", printable(stat->comm)) : std::string{};
}

std::string container_name(const fs::path& folder) {
  const auto group = parse_proc_cgroup(read_text_file(folder / "cgroup").value_or(""));
  return group ? container_of(group->path) : std::string{};
}

}  // namespace

bool meminfo_is_virtual(std::string_view mountinfo) {
  std::istringstream lines{std::string{mountinfo}};
  for (std::string line; std::getline(lines, line);) {
    // proc(5): id parent major:minor root point options…
    std::istringstream words{line};
    std::string skipped, point;
    words >> skipped >> skipped >> skipped >> skipped >> point;
    if (point == "/proc/meminfo" && line.find("lxcfs") != std::string::npos) return true;
  }
  return false;
}

std::map<std::int64_t, std::string> parse_passwd(std::string_view text) {
  std::map<std::int64_t, std::string> users;
  std::istringstream lines{std::string{text}};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields{line};
    std::string name, password, uid;
    if (!std::getline(fields, name, ':') || !std::getline(fields, password, ':') || !std::getline(fields, uid, ':')) {
      continue;
    }
    if (const auto number = parse_number(uid); number && !name.empty()) {
      users.try_emplace(*number, printable(name));
    }
  }
  return users;
}

ProcHostProbe::ProcHostProbe(fs::path root)
    : root_(std::move(root)),
      users_(parse_passwd(read_text_file(root_ / "etc/passwd").value_or(""))),
      meminfo_is_virtual_(meminfo_is_virtual(read_text_file(root_ / "proc/self/mountinfo").value_or(""))) {}

Result<Meminfo> ProcHostProbe::meminfo() {
  const fs::path path = root_ / "proc/meminfo";
  if (meminfo_is_virtual_) {
    return fail("meminfo_unusable",
                "/proc/meminfo is made by lxcfs and shows a container's limit, not the host's memory",
                "run dgxmm on the host, or in a container that sees the host's /proc/meminfo", path.string());
  }
  const auto text = read_text_file(path);
  if (!text) {
    return fail("meminfo_unusable", fmt::format("cannot read {}", path.string()), "is /proc mounted?", path.string());
  }
  return parse_meminfo(*text);
}

Pressure ProcHostProbe::pressure() {
  return parse_pressure(read_text_file(root_ / "proc/pressure/memory").value_or(""));
}

struct ProcHostProbe::Holder {
  std::int64_t pid = 0;
  ProcessMemory memory;
  Bytes held;
  std::optional<Bytes> gpu;
  bool orphan = false;
};

/// Absent: it has just ended, or it is a kernel thread or a zombie, which have no memory of their own; unless the
/// driver still counts some for it.
std::optional<ProcHostProbe::Holder> ProcHostProbe::read_holder(std::int64_t pid, const GpuReading& gpu) const {
  const fs::path folder = root_ / "proc" / std::to_string(pid);
  const auto status = read_text_file(folder / "status");
  if (!status) return std::nullopt;
  const auto* on_gpu = gpu.find(pid);
  Holder holder;
  holder.pid = pid;
  holder.memory = parse_proc_status(*status);
  if (!holder.memory.rss_anon && on_gpu == nullptr) return std::nullopt;
  if (gpu.processes) holder.gpu = on_gpu == nullptr ? Bytes{} : on_gpu->used;  // B7
  // Not plain RSS: it has the mapped model file, which is page cache and available.
  holder.held = holder.memory.rss_anon.value_or(Bytes{}) + holder.memory.rss_shmem.value_or(Bytes{}) +
                holder.memory.hugetlb.value_or(Bytes{}) + holder.gpu.value_or(Bytes{});
  if (on_gpu == nullptr) return holder;
  const auto stat_of = [&](std::int64_t number) {
    return parse_proc_stat(read_text_file(root_ / "proc" / std::to_string(number) / "stat").value_or(""));
  };
  if (const auto stat = stat_of(pid)) {
    holder.orphan = lost_its_parent(*stat, stat_of(stat->parent_pid), container_name(folder));
  }
  return holder;
}

std::optional<ProcessRow> ProcHostProbe::row_of(const Holder& holder) const {
  const fs::path folder = root_ / "proc" / std::to_string(holder.pid);
  ProcessRow row;
  row.command = shown_command(folder);
  if (row.command.empty()) return std::nullopt;  // ended meanwhile
  row.pid = holder.pid;
  row.user = user_name(holder.memory.uid);
  row.held = holder.held;
  row.rss = holder.memory.rss;
  row.gpu = holder.gpu;
  row.orphan = holder.orphan;
  row.container = container_name(folder);
  return row;
}

ProcessList ProcHostProbe::processes(std::size_t limit, const std::vector<std::int64_t>& exclude_pids,
                                     const GpuReading& gpu) {
  ProcessList list;
  std::vector<Holder> holders;
  std::error_code ended;
  for (fs::directory_iterator entry{root_ / "proc", ended}, end; !ended && entry != end; entry.increment(ended)) {
    const auto pid = parse_number(entry->path().filename().string());
    if (!pid || std::ranges::find(exclude_pids, *pid) != exclude_pids.end()) continue;
    auto holder = read_holder(*pid, gpu);
    if (!holder) continue;
    list.anon += holder->memory.rss_anon.value_or(Bytes{});
    holders.push_back(*holder);
  }
  std::ranges::sort(holders, {},
                    [](const Holder& holder) { return std::tuple{!holder.orphan, -holder.held.count(), holder.pid}; });
  for (const auto& holder : holders) {  // B10
    if (list.rows.size() == limit) break;
    if (auto row = row_of(holder)) list.rows.push_back(std::move(*row));
  }
  return list;
}

std::vector<ProcessRow> ProcHostProbe::rows_of(const std::vector<std::int64_t>& pids, const GpuReading& gpu) {
  std::vector<ProcessRow> rows;
  for (const auto pid : pids) {
    const auto holder = read_holder(pid, gpu);
    if (!holder) continue;
    if (auto row = row_of(*holder)) rows.push_back(std::move(*row));
  }
  return rows;
}

bool ProcHostProbe::has_nvidia_driver() {
  std::error_code unreadable;
  return fs::exists(root_ / "proc/driver/nvidia/version", unreadable) ||
         fs::exists(root_ / "dev/nvidiactl", unreadable);
}

std::string ProcHostProbe::user_name(std::optional<std::int64_t> uid) const {
  if (!uid) return "?";
  const auto user = users_.find(*uid);
  return user != users_.end() ? user->second : std::to_string(*uid);
}

}  // namespace dgxmm::host
