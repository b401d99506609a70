#include "core/host/readings.h"
#include "core/host/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace dgxmm::host {

std::optional<ProcessStat> parse_proc_stat(std::string_view text) {
  // A program names itself, so `comm` may hold anything, ") R 1 (" included: only the outermost parentheses count.
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;

  // proc(5) numbers the fields from 1; the ones behind `comm` start with the third.
  constexpr std::size_t kFirst = 3;
  constexpr std::size_t kState = 3, kParent = 4, kSession = 6, kStartTime = 22;
  std::array<std::string_view, kStartTime - kFirst + 1> fields;
  auto rest = trim(text.substr(close + 1));
  for (auto& field : fields) field = take_until(rest, ' ');

  const auto pid = parse_count(trim(text.substr(0, open)));
  const auto parent = parse_count(fields[kParent - kFirst]);
  const auto session = parse_count(fields[kSession - kFirst]);
  const auto start_text = fields[kStartTime - kFirst];
  std::uint64_t start_time = 0;
  const auto start = std::from_chars(start_text.data(), start_text.data() + start_text.size(), start_time);
  const bool start_is_whole = start.ec == std::errc{} && start.ptr == start_text.data() + start_text.size();
  if (!pid || !parent || !session || !start_is_whole || fields[kState - kFirst].size() != 1) return std::nullopt;
  return ProcessStat{.pid = *pid,
                     .parent_pid = *parent,
                     .state = fields[kState - kFirst].front(),
                     .session = *session,
                     .start_time_ticks = start_time,
                     .comm = std::string{text.substr(open + 1, close - open - 1)}};
}

ProcessMemory parse_proc_status(std::string_view text) {
  ProcessMemory memory;
  const std::array<std::pair<std::string_view, std::optional<Bytes>*>, 6> fields{{
      {"VmRSS", &memory.rss},
      {"RssAnon", &memory.rss_anon},
      {"RssFile", &memory.rss_file},
      {"RssShmem", &memory.rss_shmem},
      {"HugetlbPages", &memory.hugetlb},
      {"VmSwap", &memory.swap},
  }};
  while (!text.empty()) {
    auto value = take_until(text, '\n');
    const auto key = take_until(value, ':');
    for (const auto& [name, target] : fields) {
      if (key == name) *target = parse_kib(value);
    }
    if (key == "Uid") {
      auto ids = trim(value);
      memory.uid = parse_count(take_until(ids, '\t'));  // real, effective, saved, file system
    }
  }
  return memory;
}

std::optional<ProcessIdentity> parse_process_mark(std::string_view mark) {
  const auto pid = parse_count(take_until(mark, ':'));
  const auto start = parse_count(mark);
  if (!pid || !start) return std::nullopt;
  return ProcessIdentity{.pid = *pid, .start_time_ticks = static_cast<std::uint64_t>(*start)};
}

std::optional<ProcessIdentity> parse_first_process(std::string_view environment) {
  const std::string beginning = std::string{kFirstProcessVariable} + "=";
  while (!environment.empty()) {
    auto value = take_until(environment, '\0');
    if (!value.starts_with(beginning)) continue;
    value.remove_prefix(beginning.size());
    return parse_process_mark(value);
  }
  return std::nullopt;
}

std::vector<std::string> parse_cmdline(std::string_view bytes) {
  bytes = bytes.substr(0, bytes.find_last_not_of('\0') + 1);
  std::vector<std::string> arguments;
  while (!bytes.empty()) arguments.emplace_back(take_until(bytes, '\0'));
  return arguments;
}

std::vector<OwnerlessMemory> parse_unattached_segments(std::string_view text) {
  // proc(5), /proc/sysvipc/shm: a line of titles, then key, shmid, perms, size, cpid, lpid, nattch, uid, gid, cuid,
  // cgid, three times, rss and swap.
  constexpr std::size_t kId = 1, kAttached = 6, kUser = 7, kResident = 14, kFields = 15;
  static_cast<void>(take_until(text, '\n'));
  std::vector<OwnerlessMemory> found;
  while (!text.empty()) {
    auto line = trim(take_until(text, '\n'));
    std::array<std::string_view, kFields> fields;
    for (auto& field : fields) {
      field = take_until(line, ' ');
      line = trim(line);
    }
    const auto attached = parse_count(fields[kAttached]);
    const auto resident = parse_count(fields[kResident]);
    if (attached != 0 || !resident || *resident == 0) continue;
    found.push_back({.name = "System V segment " + std::string{fields[kId]},
                     .size = Bytes{*resident},
                     .user = std::string{fields[kUser]}});
  }
  return found;
}

}  // namespace dgxmm::host
