#pragma once
#include "core/host/readings.h"
#include "core/memory/budget.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace dgxmm::docker {

/// The processes of containers, as the host's /proc shows them.
class ContainerProcesses {
 public:
  /// `root` is where /proc is found.
  explicit ContainerProcesses(const std::filesystem::path& root) : proc_(root / "proc") {}

  [[nodiscard]] std::optional<host::ProcessStat> find(std::int64_t pid) const;
  /// The first process of a container and all that descend from it: in a container nobody else takes over a child whose
  /// parent has ended. Empty when the first one is gone. Reads every process of the host.
  [[nodiscard]] std::vector<std::int64_t> tree_of(const host::ProcessStat& first) const;
  /// Their memory added up. Shared memory is counted once for each process that maps it, kernel memory not at all, so
  /// it is approximate; nothing when none of them can be read.
  [[nodiscard]] std::optional<memory::Measured> measure(const std::vector<std::int64_t>& pids) const;
  /// All threads of these processes, each as a process has it.
  [[nodiscard]] std::vector<host::ProcessStat> threads_of(const std::vector<std::int64_t>& pids) const;

 private:
  std::filesystem::path proc_;
};

}  // namespace dgxmm::docker
