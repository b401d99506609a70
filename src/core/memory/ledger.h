#pragma once
#include "base/bytes.h"
#include "core/host/warning.h"
#include "core/memory/budget.h"

#include <optional>
#include <span>
#include <vector>

namespace dgxmm::memory {

/// What the ledger is made from, all of about one moment.
struct LedgerReadings {
  Bytes mem_total;
  Bytes mem_available;
  std::optional<Bytes> mem_free;
  std::optional<Bytes> shmem;    ///< of the whole host
  std::optional<Bytes> hugetlb;  ///< the pools, used or not
  std::span<const DeploymentMemory> deployments;
  std::span<const Measured> containers;  ///< of others, by their groups
  /// Processes of others outside containers; without `shmem`: a process's own figure counts a shared page for each that
  /// maps it, so that part is found from the host's.
  std::span<const Measured> processes;
  std::optional<Bytes> ownerless;  ///< shared memory that no process has open; absent: could not be looked for
  /// Where the GPU has a memory of its own, what lies there is no part of any sum.
  bool gpu_shares_memory = true;
};

/// Who holds the host's memory: MemTotal in parts that add up to it, to the byte.
///
///     MemTotal = deployments + containers + processes + shared memory + ownerless + hugepages + rest     (used)
///              + page cache + free                                                                      (available)
///
/// and, of what is available: margin and reserve, what is promised to deployments that have not taken it yet, and what
/// is free for new ones.
struct Ledger {
  Bytes mem_total, mem_available, used;
  Bytes deployments;  ///< what is known of each, GPU memory included; as the next two
  Bytes containers;
  Bytes processes;
  std::optional<Bytes> shared_memory;  ///< outside of deployments and containers, in use by processes
  std::optional<Bytes> ownerless;      ///< outside of them, and in use by nobody (D14)
  std::optional<Bytes> hugepages;
  /// Used, and none of the above: the kernel, drivers, page tables, what ended programs left behind, and whatever is
  /// unknown of the above. Negative: something was counted twice.
  Bytes rest;
  /// The same when nothing of the above is unknown.
  std::optional<Bytes> unattributed;
  std::optional<Bytes> page_cache;  ///< and other memory that the kernel gives back when it is asked for
  std::optional<Bytes> free;
  Bytes promised;  ///< to deployments that are starting or unknown, and not taken yet

  friend bool operator==(const Ledger&, const Ledger&) = default;
};

/// What is available, in its two parts; absent when MemFree is.
struct AvailableParts {
  std::optional<Bytes> page_cache;  ///< and other memory that the kernel gives back when it is asked for
  std::optional<Bytes> free;
};
AvailableParts available_parts(Bytes mem_available, std::optional<Bytes> mem_free);

/// Pure.
Ledger make_ledger(const LedgerReadings& readings);

/// Of what nobody seems to hold: more than an idle kernel and its drivers explain, or less than nothing; and of shared
/// memory that nobody uses, when it is much.
std::vector<host::Warning> ledger_warnings(const Ledger& ledger);

}  // namespace dgxmm::memory
