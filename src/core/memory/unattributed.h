#pragma once
#include "base/bytes.h"

#include <optional>
#include <string>

namespace dgxmm::memory {

/// Who is known to hold the memory that is used.
struct KnownHolders {
  Bytes used;           ///< MemTotal − MemAvailable
  Bytes managed;        ///< measured in the deployments, GPU memory included
  Bytes managed_shmem;  ///< of it, shared memory
  Bytes external_anon;  ///< private memory of all other processes
  Bytes external_gpu;   ///< GPU memory of all other processes
  Bytes shmem;          ///< of the whole host: a process's own figure counts a shared page for each that maps it
  Bytes hugetlb;        ///< the pools, used or not
};

/// What is left of `used`: the kernel, drivers, what nobody owns any more. Negative: something was counted twice.
Bytes unattributed(const KnownHolders& known);

/// A sentence when that is more than an idle kernel and its drivers explain, or less than nothing.
std::optional<std::string> unattributed_warning(Bytes unattributed);

}  // namespace dgxmm::memory
