#include "core/host/readings.h"
#include "core/host/text.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace dgxmm::host {

Result<Meminfo> parse_meminfo(std::string_view text) {
  std::optional<Bytes> total;
  std::optional<Bytes> available;
  Meminfo info;
  const std::array<std::pair<std::string_view, std::optional<Bytes>*>, 18> fields{{
      {"MemTotal", &total},
      {"MemAvailable", &available},
      {"MemFree", &info.mem_free},
      {"Cached", &info.cached},
      {"Shmem", &info.shmem},
      {"SwapTotal", &info.swap_total},
      {"SwapFree", &info.swap_free},
      {"Hugetlb", &info.hugetlb},
      {"Active(anon)", &info.active_anon},
      {"Inactive(anon)", &info.inactive_anon},
      {"Active(file)", &info.active_file},
      {"Inactive(file)", &info.inactive_file},
      {"Unevictable", &info.unevictable},
      {"Slab", &info.slab},
      {"KernelStack", &info.kernel_stack},
      {"PageTables", &info.page_tables},
      {"SecPageTables", &info.sec_page_tables},
      {"Percpu", &info.percpu},
  }};
  while (!text.empty()) {
    auto value = take_until(text, '\n');
    const auto key = take_until(value, ':');
    for (const auto& [name, target] : fields) {
      if (key == name) *target = parse_kib(value);
    }
  }

  constexpr auto kUnusable = "meminfo_unusable";
  constexpr auto kWhere = "/proc/meminfo";
  constexpr auto kHint = "without it nothing can be promised, so nothing new is started";
  if (!total || total->count() == 0) return fail(kUnusable, "/proc/meminfo has no usable MemTotal", kHint, kWhere);
  if (!available) return fail(kUnusable, "/proc/meminfo has no usable MemAvailable", kHint, kWhere);
  if (*available > *total) {
    return fail(kUnusable, "/proc/meminfo says that more memory is available than there is", kHint, kWhere);
  }
  info.mem_total = *total;
  info.mem_available = *available;
  return info;
}

std::optional<Bytes> unlisted_memory(const Meminfo& meminfo) {
  Bytes listed;
  for (const auto* line :
       {&meminfo.mem_free, &meminfo.active_anon, &meminfo.inactive_anon, &meminfo.active_file, &meminfo.inactive_file,
        &meminfo.unevictable, &meminfo.slab, &meminfo.kernel_stack, &meminfo.page_tables}) {
    if (!*line) return std::nullopt;
    listed += **line;
  }
  // Older kernels do not have these, and then keep nothing of the kind.
  for (const auto* line : {&meminfo.sec_page_tables, &meminfo.percpu, &meminfo.hugetlb}) {
    listed += line->value_or(Bytes{});
  }
  return meminfo.mem_total - listed;
}

}  // namespace dgxmm::host
