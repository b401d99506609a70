#include "adapters/host/quiet_host.h"

#include "base/numbers.h"

#include <algorithm>
#include <cstdlib>

namespace dgxmm::host {

Result<Meminfo> QuietHost::meminfo() {
  auto meminfo = host_.meminfo();
  if (!meminfo) return meminfo;
  meminfo->mem_available = meminfo->mem_total - held_by_others_ - held_by_engines_();
  if (meminfo->mem_free) meminfo->mem_free = std::min(*meminfo->mem_free, meminfo->mem_available);
  return meminfo;
}

std::optional<Bytes> held_by_others_in_tests() {
  const char* text = std::getenv("DGXMM_TEST_OTHERS_HOLD");  // before any thread is started
  const auto bytes = text == nullptr ? std::nullopt : parse_number(text);
  return bytes ? std::optional{Bytes{*bytes}} : std::nullopt;
}

}  // namespace dgxmm::host
