#include "adapters/host/proc_host_probe.h"

#include "adapters/host/examiner.h"
#include "base/files.h"
#include "base/masking.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <system_error>
#include <tuple>
#include <utility>

namespace dgxmm::host {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCommandLimitBytes = 64 * 1024;
constexpr std::size_t kEnvironmentLimitBytes = std::size_t{1024} * 1024;
constexpr std::size_t kMapsLimitBytes = std::size_t{16} * 1024 * 1024;

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

/// One group for each owner, in no order.
class Groups {
 public:
  ProcessGroup& of(const std::optional<CgroupPath>& cgroup) {
    auto owner = cgroup ? group_owner(cgroup->path) : GroupOwner{};
    const auto [found, is_new] = groups_.try_emplace({owner.kind, owner.path});
    if (is_new) {
      found->second.cgroup_version = cgroup ? cgroup->version : 2;
      found->second.gpu = Bytes{};
      found->second.owner = std::move(owner);
    }
    return found->second;
  }
  std::vector<ProcessGroup> take() {
    std::vector<ProcessGroup> result;
    for (auto& [key, group] : groups_) result.push_back(std::move(group));
    return result;
  }

 private:
  std::map<std::pair<GroupOwner::Kind, std::string>, ProcessGroup> groups_;
};

/// Identity of a file as /proc and stat() both know it.
using FileId = std::pair<std::uint64_t, std::uint64_t>;

/// Files that a process maps: "address perms offset major:minor inode path" (proc(5)); device numbers are hexadecimal.
void take_mapped(std::string_view maps, std::map<FileId, OwnerlessMemory>& candidates) {
  std::istringstream lines{std::string{maps}};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::string address, permissions, offset, device;
    std::uint64_t inode = 0;
    if (!(words >> address >> permissions >> offset >> device >> inode) || inode == 0) continue;
    unsigned major = 0;
    unsigned minor = 0;
    char colon = 0;
    std::istringstream numbers{device};
    if (numbers >> std::hex >> major >> colon >> minor) candidates.erase({makedev(major, minor), inode});
  }
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

std::optional<SwapCounters> ProcHostProbe::swap_counters() {
  return parse_swap_counters(read_text_file(root_ / "proc/vmstat").value_or(""));
}

ExaminedHost ProcHostProbe::examined() { return read_examined_host(root_); }

struct ProcHostProbe::Holder {
  std::int64_t pid = 0;
  ProcessMemory memory;
  Bytes held;
  std::optional<Bytes> gpu;
  Orphanhood orphan = Orphanhood::none;
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
    const auto first = parse_first_process(read_text_file(folder / "environ", kEnvironmentLimitBytes).value_or(""));
    const auto first_now = first ? stat_of(first->pid) : std::nullopt;
    const bool engine_ended =
        first && (!first_now || first_now->start_time_ticks != first->start_time_ticks || first_now->state == 'Z');
    holder.orphan = orphanhood_of(*stat, stat_of(stat->parent_pid), container_name(folder), engine_ended);
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
  Groups groups;
  std::error_code no_link;
  const auto own_pid = parse_number(fs::read_symlink(root_ / "proc/self", no_link).string());
  std::vector<Holder> holders;
  std::error_code ended;
  for (fs::directory_iterator entry{root_ / "proc", ended}, end; !ended && entry != end; entry.increment(ended)) {
    const auto pid = parse_number(entry->path().filename().string());
    if (!pid) continue;
    const auto cgroup = [&] {
      return parse_proc_cgroup(read_text_file(root_ / "proc" / std::to_string(*pid) / "cgroup").value_or(""));
    };
    if (std::ranges::find(exclude_pids, *pid) != exclude_pids.end()) {
      if (const auto path = cgroup()) list.left_out.emplace_back(*pid, group_owner(path->path));
      continue;
    }
    auto holder = read_holder(*pid, gpu);
    if (!holder) continue;
    auto& group = groups.of(cgroup());
    const auto user = user_name(holder->memory.uid);
    group.user = group.processes == 0 || group.user == user ? user : std::string{};
    ++group.processes;
    group.anon += holder->memory.rss_anon.value_or(Bytes{});
    group.shmem += holder->memory.rss_shmem.value_or(Bytes{});
    const auto known = group.gpu.value_or(group.gpu_at_least) + holder->gpu.value_or(Bytes{});
    group.gpu = group.gpu && holder->gpu ? std::optional{known} : std::nullopt;
    group.gpu_at_least = group.gpu ? Bytes{} : known;
    group.own = group.own || own_pid == *pid;
    holders.push_back(*holder);
  }
  list.groups = groups.take();
  std::ranges::sort(holders, {}, [](const Holder& holder) {
    return std::tuple{holder.orphan != Orphanhood::certain, -holder.held.count(), holder.pid};
  });
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

std::optional<OwnerlessList> ProcHostProbe::ownerless_memory() {
  // Smaller ones are many, and not what a host runs out of.
  constexpr Bytes kLeast = mib(16);
  constexpr std::int64_t kBlock = 512;  // of st_blocks, whatever the file system
  const fs::path folder = root_ / "dev/shm";
  std::error_code unreadable;
  std::map<FileId, OwnerlessMemory> candidates;
  fs::recursive_directory_iterator entry{folder, fs::directory_options::skip_permission_denied, unreadable};
  if (unreadable) return std::nullopt;
  for (const fs::recursive_directory_iterator end; !unreadable && entry != end; entry.increment(unreadable)) {
    struct stat file{};
    if (::lstat(entry->path().c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    const Bytes size{file.st_blocks * kBlock};
    if (size < kLeast) continue;
    candidates[{file.st_dev, file.st_ino}] = {
        .name = "/dev/shm/" + printable(fs::relative(entry->path(), folder).string()),
        .size = size,
        .user = user_name(file.st_uid)};
  }
  auto segments = parse_unattached_segments(read_text_file(root_ / "proc/sysvipc/shm").value_or(""));
  std::erase_if(segments, [&](const OwnerlessMemory& segment) { return segment.size < kLeast; });
  for (auto& segment : segments) segment.user = user_name(parse_number(segment.user));

  OwnerlessList list;
  std::error_code ended;
  for (fs::directory_iterator process{root_ / "proc", ended}, end; !candidates.empty() && !ended && process != end;
       process.increment(ended)) {
    if (!parse_number(process->path().filename().string())) continue;
    const auto maps = read_text_file(process->path() / "maps", kMapsLimitBytes);
    if (maps) take_mapped(*maps, candidates);
    std::error_code denied;
    for (fs::directory_iterator open{process->path() / "fd", denied}, last; !denied && open != last;
         open.increment(denied)) {
      struct stat file{};
      if (::stat(open->path().c_str(), &file) == 0) candidates.erase({file.st_dev, file.st_ino});
    }
    std::error_code gone;
    const bool there = fs::exists(process->path() / "status", gone);
    if (there && (!maps || denied == std::errc::permission_denied)) list.certain = false;
  }
  for (auto& [id, file] : candidates) segments.push_back(std::move(file));
  list.items = std::move(segments);
  std::ranges::sort(list.items, {},
                    [](const OwnerlessMemory& memory) { return std::pair{-memory.size.count(), memory.name}; });
  return list;
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
