#include "adapters/docker/container_processes.h"

#include "base/files.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

namespace dgxmm::docker {

namespace fs = std::filesystem;

std::optional<host::ProcessStat> ContainerProcesses::find(std::int64_t pid) const {
  return host::parse_proc_stat(read_text_file(proc_ / fmt::format("{}/stat", pid)).value_or(""));
}

std::vector<std::int64_t> ContainerProcesses::tree_of(const host::ProcessStat& first) const {
  const auto now = find(first.pid);
  if (!now || now->start_time_ticks != first.start_time_ticks) return {};
  std::vector<host::ProcessStat> all;
  std::error_code gone;
  for (fs::directory_iterator entry{proc_, gone}, end; !gone && entry != end; entry.increment(gone)) {
    const auto pid = parse_number<std::int64_t>(entry->path().filename().string());
    auto stat = pid ? find(*pid) : std::nullopt;
    if (stat) all.push_back(std::move(*stat));
  }
  // A parent is older than its children: one pass in this order finds every descendant.
  std::ranges::sort(all, {}, [](const auto& process) { return std::pair{process.start_time_ticks, process.pid}; });
  std::set<std::int64_t> family{first.pid};
  for (const auto& process : all) {
    if (family.contains(process.parent_pid)) family.insert(process.pid);
  }
  return {family.begin(), family.end()};
}

std::optional<memory::Measured> ContainerProcesses::measure(const std::vector<std::int64_t>& pids) const {
  memory::Measured measured{.anon = {}, .kernel = {}, .shmem = {}, .gpu = {}, .approximate = true};
  const auto add = [](std::optional<Bytes>& sum, std::optional<Bytes> part) {
    if (part) sum = sum.value_or(Bytes{}) + *part;
  };
  for (const auto pid : pids) {
    const auto memory = host::parse_proc_status(read_text_file(proc_ / fmt::format("{}/status", pid)).value_or(""));
    add(measured.anon, memory.rss_anon);
    add(measured.shmem, memory.rss_shmem);
  }
  if (!measured.anon && !measured.shmem) return std::nullopt;
  return measured;
}

std::vector<host::ProcessStat> ContainerProcesses::threads_of(const std::vector<std::int64_t>& pids) const {
  std::vector<host::ProcessStat> found;
  for (const auto pid : pids) {
    std::error_code gone;
    for (fs::directory_iterator task{proc_ / fmt::format("{}/task", pid), gone}, end; !gone && task != end;
         task.increment(gone)) {
      auto stat = host::parse_proc_stat(read_text_file(task->path() / "stat").value_or(""));
      if (stat) found.push_back(std::move(*stat));
    }
  }
  return found;
}

}  // namespace dgxmm::docker
