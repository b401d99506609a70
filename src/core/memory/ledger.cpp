#include "core/memory/ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::memory {
namespace {

constexpr Bytes kMostExpected = gib(12);
// The counters are not read at one moment.
constexpr Bytes kTolerance = mib(512);
constexpr Bytes kMuchOwnerless = gib(1);

/// A sum that knows whether all of its parts were known.
struct Sum {
  Bytes known;
  bool complete = true;

  void add(std::optional<Bytes> part) {
    known += part.value_or(Bytes{});
    complete = complete && part.has_value();
  }
};

}  // namespace

AvailableParts available_parts(Bytes mem_available, std::optional<Bytes> mem_free) {
  if (!mem_free) return {};
  // MemFree has pages that the kernel keeps for itself, which MemAvailable leaves out.
  const auto free = std::min(*mem_free, mem_available);
  return {.page_cache = mem_available - free, .free = free};
}

Ledger make_ledger(const LedgerReadings& readings) {
  Ledger ledger{.mem_total = readings.mem_total,
                .mem_available = readings.mem_available,
                .used = readings.mem_total - readings.mem_available};
  bool complete = true;
  Bytes attributed;
  const auto add_holder = [&](Bytes& line, const Measured& measured, bool with_shmem) {
    Sum sum;
    sum.add(measured.anon);
    // Of a process tree the kernel's part cannot be told: it is small, and stays in the rest.
    sum.add(measured.approximate ? measured.kernel.value_or(Bytes{}) : measured.kernel);
    if (with_shmem) sum.add(measured.shmem);
    if (readings.gpu_shares_memory) {
      sum.add(measured.gpu);
      if (!measured.gpu) sum.known += measured.gpu_at_least;
    }
    line += sum.known;
    complete = complete && sum.complete;
  };
  const auto add_line = [&](std::optional<Bytes> line) {
    attributed += line.value_or(Bytes{});
    complete = complete && line.has_value();
  };

  Bytes grouped_shmem;
  for (const auto& deployment : readings.deployments) {
    if (deployment.holds_memory) {
      const auto measured = deployment.measured.value_or(Measured{});
      add_holder(ledger.deployments, measured, true);
      grouped_shmem += measured.shmem.value_or(Bytes{});
    }
    if (!deployment::counts_reserved(deployment.state) || deployment.state == deployment::State::ready) continue;
    const auto taken = deployment.measured && deployment.holds_memory ? deployment.measured->total() : Bytes{};
    ledger.promised += std::max(deployment.reserved - taken, Bytes{});
  }
  for (const auto& container : readings.containers) {
    add_holder(ledger.containers, container, true);
    grouped_shmem += container.shmem.value_or(Bytes{});
  }
  for (const auto& process : readings.processes) add_holder(ledger.processes, process, false);
  attributed += ledger.deployments + ledger.containers + ledger.processes;

  if (readings.shmem) {
    const auto outside = *readings.shmem - grouped_shmem;
    // A file that nobody has open may be charged to a group that lives on: no more than there is outside of them.
    if (readings.ownerless) ledger.ownerless = std::clamp(*readings.ownerless, Bytes{}, std::max(outside, Bytes{}));
    ledger.shared_memory = outside - ledger.ownerless.value_or(Bytes{});
    attributed += ledger.ownerless.value_or(Bytes{});
  }
  add_line(ledger.shared_memory);
  ledger.hugepages = readings.hugetlb;
  add_line(ledger.hugepages);

  ledger.rest = ledger.used - attributed;
  if (complete) ledger.unattributed = ledger.rest;
  const auto available = available_parts(readings.mem_available, readings.mem_free);
  ledger.page_cache = available.page_cache;
  ledger.free = available.free;
  return ledger;
}

std::vector<host::Warning> ledger_warnings(const Ledger& ledger) {
  std::vector<host::Warning> warnings;
  if (ledger.ownerless && *ledger.ownerless >= kMuchOwnerless) {
    warnings.push_back(
        {.code = "ownerless_shared_memory",
         .message = fmt::format("{} of shared memory are in use by nobody: programs that ended left them behind",
                                format_bytes(*ledger.ownerless)),
         .hint = "`dgxmm memory` names the files; removing them gives the memory back"});
  }
  if (!ledger.unattributed) return warnings;
  if (*ledger.unattributed > kMostExpected) {
    warnings.push_back(
        {.code = "unattributed",
         .message = fmt::format("{} are used and belong to no process that can be seen: memory of a driver, CUDA "
                                "managed memory, or what an ended process left behind",
                                format_bytes(*ledger.unattributed)),
         .hint = "look for engines that ended badly (`dgxmm processes`); a restart of the host gives it back"});
  }
  if (*ledger.unattributed < -kTolerance) {
    warnings.push_back(
        {.code = "counted_twice",
         .message = fmt::format("the processes together hold {} more than is used: some memory is counted twice, for "
                                "example memory that processes share after a fork",
                                format_bytes(-*ledger.unattributed)),
         .hint = {}});
  }
  return warnings;
}

}  // namespace dgxmm::memory
