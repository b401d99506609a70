#include "adapters/process/process_table.h"

#include "adapters/process/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <filesystem>
#include <memory>
#include <poll.h>
#include <set>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace dgxmm::process {
namespace {

constexpr std::size_t kCommandLimitBytes = 64 * 1024;

std::filesystem::path proc(std::int64_t pid, std::string_view file) { return fmt::format("/proc/{}/{}", pid, file); }

/// The processes that /proc shows, and the inodes of their folders. An inode of 1 stands for one that the kernel had no
/// memory to make: it tells nothing, and becomes 0 here.
std::unordered_map<std::int64_t, std::uint64_t> process_folders() {
  std::unordered_map<std::int64_t, std::uint64_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder{::opendir("/proc"), &::closedir};
  while (const auto* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const std::string_view name{entry->d_name};
    std::int64_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size()) continue;
    found.emplace(pid, entry->d_ino > 1 ? entry->d_ino : 0);
  }
  return found;
}

bool is_dead(const host::ProcessStat& stat) { return stat.state == 'Z' || stat.state == 'X'; }

std::optional<std::string> variable_of(std::span<const std::string> environment, std::string_view name) {
  const std::string beginning = fmt::format("{}=", name);
  for (const auto& variable : environment) {
    if (variable.starts_with(beginning)) return variable.substr(beginning.size());
  }
  return std::nullopt;
}

std::vector<std::string> environment_of(std::int64_t pid) {
  return host::parse_cmdline(read_text_file(proc(pid, "environ")).value_or(""));
}

std::string mark_of(std::int64_t pid, std::uint64_t start_time_ticks) {
  return fmt::format("{}:{}", pid, start_time_ticks);
}

bool environment_names(std::int64_t pid, const ports::Instance& instance) {
  return variable_of(environment_of(pid), kFirstProcessVariable) == mark_of(instance.pid, instance.start_time_ticks);
}

}  // namespace

const std::string& boot_id() {
  static const std::string kId = [] {
    std::string text = read_text_file("/proc/sys/kernel/random/boot_id").value_or("");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }();
  return kId;
}

std::optional<host::ProcessStat> read_stat(std::int64_t pid) {
  const auto text = read_text_file(proc(pid, "stat"));
  return text ? host::parse_proc_stat(*text) : std::nullopt;
}

std::vector<host::ProcessStat> threads_of(const std::vector<std::int64_t>& pids) {
  std::vector<host::ProcessStat> found;
  for (const auto pid : pids) {
    std::error_code gone;
    for (std::filesystem::directory_iterator task{proc(pid, "task"), gone}, end; !gone && task != end;
         task.increment(gone)) {
      auto stat = host::parse_proc_stat(read_text_file(task->path() / "stat").value_or(""));
      if (stat) found.push_back(std::move(*stat));
    }
  }
  return found;
}

host::ProcessMemory read_memory(std::int64_t pid) {
  return host::parse_proc_status(read_text_file(proc(pid, "status")).value_or(""));
}

std::string command_digest(std::span<const std::string> arguments) {
  constexpr std::uint64_t kOffsetBasis = 0xcbf29ce484222325;
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t digest = kOffsetBasis;
  for (const auto& argument : arguments) {
    for (const char byte : argument) digest = (digest ^ static_cast<unsigned char>(byte)) * kPrime;
    digest *= kPrime;
  }
  return fmt::format("{:016x}", digest);
}

std::optional<std::string> command_digest_of(std::int64_t pid) {
  const auto text = read_text_file(proc(pid, "cmdline"), kCommandLimitBytes);
  if (!text || text->empty()) return std::nullopt;
  return command_digest(host::parse_cmdline(*text));
}

bool is_same_process(const ports::Instance& instance) {
  if (instance.boot_id != boot_id()) return false;
  const auto stat = read_stat(instance.pid);
  if (!stat || stat->start_time_ticks != instance.start_time_ticks) return false;
  return stat->session == instance.pid || command_digest_of(instance.pid) == instance.command_digest;
}

std::vector<host::ProcessStat> ProcessTable::look() {
  const auto folders = process_folders();
  const auto folder_of = [&folders](std::int64_t pid) {
    const auto found = folders.find(pid);
    return found == folders.end() ? std::uint64_t{0} : found->second;
  };
  std::unordered_map<std::int64_t, Known> known;
  std::vector<host::ProcessStat> processes;
  known.reserve(folders.size());
  processes.reserve(folders.size());
  for (const auto& [pid, folder] : folders) {
    const auto before = known_.find(pid);
    const bool same = before != known_.end() && folder != 0 && before->second.folder == folder &&
                      before->second.parent_folder == folder_of(before->second.stat.parent_pid);
    const auto session = same ? ::getsid(static_cast<pid_t>(pid)) : -1;
    Known entry;
    if (session >= 0) {
      entry = std::move(before->second);
      entry.stat.session = session;
    } else if (auto stat = read_stat(pid)) {
      entry = {.folder = folder, .parent_folder = folder_of(stat->parent_pid), .stat = std::move(*stat)};
    } else {
      continue;
    }
    processes.push_back(entry.stat);
    known.emplace(pid, std::move(entry));
  }
  known_ = std::move(known);
  return processes;
}

std::vector<std::int64_t> ProcessTable::tree_members(const ports::Instance& instance) {
  if (instance.boot_id != boot_id()) return {};
  auto processes = look();
  // A parent is older than its children: one pass in this order finds every descendant.
  std::ranges::sort(processes, {}, [](const auto& p) { return std::pair{p.start_time_ticks, p.pid}; });
  const auto first = std::ranges::find(processes, instance.pid, &host::ProcessStat::pid);
  const bool first_is_here = first != processes.end();
  // Its number was given away, which the kernel does only when its session is empty.
  if (first_is_here && first->start_time_ticks != instance.start_time_ticks) return {};

  std::set<std::int64_t> family{instance.pid};
  std::vector<std::int64_t> members;
  for (const auto& process : processes) {
    const bool in_session = process.session == instance.pid;
    const bool ours = first_is_here ? process.pid == instance.pid || in_session || family.contains(process.parent_pid)
                                    : in_session && environment_names(process.pid, instance);
    if (!ours) continue;
    family.insert(process.pid);
    // Whether it still lives is asked now: the table does not know.
    const auto now = read_stat(process.pid);
    if (now && now->start_time_ticks == process.start_time_ticks && !is_dead(*now)) members.push_back(process.pid);
  }
  return members;
}

std::optional<host::ProcessStat> first_process(std::span<const std::int64_t> pids) {
  std::optional<host::ProcessStat> first;
  for (const auto pid : pids) {
    auto process = read_stat(pid);
    if (!process || process->session != pid || is_dead(*process)) continue;
    if (!first || process->start_time_ticks < first->start_time_ticks) first = std::move(process);
  }
  return first;
}

std::vector<MarkedMember> marked_members() {
  std::vector<MarkedMember> found;
  for (const auto& [pid, folder] : process_folders()) {
    const auto process = read_stat(pid);
    if (!process || is_dead(*process)) continue;
    const auto environment = environment_of(pid);
    auto name = variable_of(environment, kNameVariable);
    const auto mark = variable_of(environment, kFirstProcessVariable);
    if (!name || !mark) continue;
    const auto first = host::parse_process_mark(*mark);
    if (!first) continue;
    const bool is_first = first->pid == pid && first->start_time_ticks == process->start_time_ticks;
    found.push_back({std::move(*name), pid, first->pid, first->start_time_ticks, is_first});
  }
  return found;
}

FileDescriptor open_pidfd(std::int64_t pid) {
  return FileDescriptor{static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0))};
}

bool has_ended(const FileDescriptor& pidfd) {
  pollfd waiting{.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) > 0;
}

bool send_signal(const FileDescriptor& pidfd, int signal) {
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

void signal_all(const std::function<std::vector<std::int64_t>()>& members, int signal) {
  // Handles first, then the list again: a number that is still a member's now is behind its handle.
  std::vector<std::pair<std::int64_t, FileDescriptor>> handles;
  for (const auto pid : members()) handles.emplace_back(pid, open_pidfd(pid));
  const auto still = members();
  for (const auto& [pid, handle] : handles) {
    if (handle && std::ranges::find(still, pid) != still.end()) send_signal(handle, signal);
  }
}

}  // namespace dgxmm::process
