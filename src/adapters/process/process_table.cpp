#include "adapters/process/process_table.h"

#include "adapters/process/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <poll.h>
#include <set>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace dgxmm::process {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCommandLimitBytes = 64 * 1024;

fs::path proc(std::int64_t pid, std::string_view file) { return fmt::format("/proc/{}/{}", pid, file); }

std::vector<host::ProcessStat> all_processes() {
  std::vector<host::ProcessStat> found;
  std::error_code ended;
  for (fs::directory_iterator entry{"/proc", ended}, end; !ended && entry != end; entry.increment(ended)) {
    const std::string name = entry->path().filename().string();
    std::int64_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size()) continue;
    if (auto stat = read_stat(pid)) found.push_back(std::move(*stat));
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

std::vector<std::int64_t> tree_members(const ports::Instance& instance) {
  if (instance.boot_id != boot_id()) return {};
  auto processes = all_processes();
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
    if (!is_dead(process)) members.push_back(process.pid);
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

std::vector<std::pair<std::string, host::ProcessStat>> marked_processes() {
  std::vector<std::pair<std::string, host::ProcessStat>> found;
  for (auto& process : all_processes()) {
    const auto environment = environment_of(process.pid);
    const auto name = variable_of(environment, kNameVariable);
    const auto mark = variable_of(environment, kFirstProcessVariable);
    if (name && mark == mark_of(process.pid, process.start_time_ticks)) found.emplace_back(*name, std::move(process));
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

}  // namespace dgxmm::process
