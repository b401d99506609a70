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
  const std::array<std::pair<std::string_view, std::optional<Bytes>*>, 8> fields{{
      {"MemTotal", &total},
      {"MemAvailable", &available},
      {"MemFree", &info.mem_free},
      {"Cached", &info.cached},
      {"Shmem", &info.shmem},
      {"SwapTotal", &info.swap_total},
      {"SwapFree", &info.swap_free},
      {"Hugetlb", &info.hugetlb},
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

}  // namespace dgxmm::host
