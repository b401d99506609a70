#include "core/memory/unattributed.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::memory {
namespace {

constexpr Bytes kMostExpected = gib(12);
// The counters are not read at one moment.
constexpr Bytes kTolerance = mib(512);

}  // namespace

Bytes unattributed(const KnownHolders& known) {
  const auto external_shmem = std::max(known.shmem - known.managed_shmem, Bytes{});
  return known.used - known.managed - known.external_anon - known.external_gpu - external_shmem - known.hugetlb;
}

std::optional<std::string> unattributed_warning(Bytes unattributed) {
  if (unattributed > kMostExpected) {
    return fmt::format(
        "{} are used and belong to no process that can be seen: memory of a driver, CUDA managed memory, or what an "
        "ended process left behind",
        format_bytes(unattributed));
  }
  if (unattributed < -kTolerance) {
    return fmt::format(
        "the processes together hold {} more than is used: some memory is counted twice, for example "
        "memory that processes share after a fork",
        format_bytes(-unattributed));
  }
  return std::nullopt;
}

}  // namespace dgxmm::memory
