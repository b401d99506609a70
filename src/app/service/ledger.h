#pragma once
#include "app/service/deployment_table.h"
#include "app/service/orphans.h"
#include "app/service/sampler.h"
#include "core/memory/ledger.h"
#include "ports/container_names.h"
#include "ports/event_loop.h"
#include "ports/host_probe.h"
#include "ports/memory_groups.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::service {

/// A container that is no deployment.
struct ForeignContainer {
  host::GroupOwner owner;
  std::string name, image;  ///< as its engine calls them; empty: not known
  std::size_t processes = 0;
  memory::Measured measured;  ///< approximate: its group cannot be read, and its processes are added up
  bool own = false;           ///< dgxmm itself runs in it
  std::string orphan_id;      ///< it is an orphan
};

/// Who holds the memory, at one moment.
struct LedgerReading {
  std::shared_ptr<const HostSnapshot> snapshot;
  memory::Ledger sums;                           ///< only without a `snapshot->problem`
  std::vector<ForeignContainer> containers;      ///< largest first, as the next two
  std::vector<host::ProcessGroup> processes;     ///< outside of containers, by unit
  std::optional<host::OwnerlessList> ownerless;  ///< absent: could not be looked for
  std::vector<host::ProcessRow> largest;         ///< the process view (B10): orphans of dgxmm first
  std::string names_problem;                     ///< why no container has a name
  std::vector<Orphan> orphans;
  std::vector<host::Warning> warnings;
};

/// Makes the ledger: what the sampler knows of the deployments, beside every other process and container of the host.
class LedgerReader {
 public:
  LedgerReader(Sampler& sampler, DeploymentTable& table, ports::HostProbe& host, const ports::MemoryGroups& groups,
               ports::ContainerNames& names, Orphans& orphans, ports::EventLoop& loop);

  /// Reads every process of the host: on demand. At most `rows` in the process view. `snapshot`: of the host, if it has
  /// just been read; else it is read now.
  ports::Task<LedgerReading> read(std::size_t rows, std::shared_ptr<const HostSnapshot> snapshot = {});

 private:
  /// The processes of one deployment.
  struct Members {
    const memory::DeploymentMemory* memory = nullptr;
    std::string container_id;
    std::vector<std::int64_t> pids;
  };

  [[nodiscard]] std::vector<Members> members_of(const HostSnapshot& snapshot) const;
  void put_orphans_first(LedgerReading& reading, std::size_t rows) const;
  void take_groups(LedgerReading& reading, const host::ProcessList& list, const std::vector<Members>& managed) const;
  [[nodiscard]] ForeignContainer measure(const host::ProcessGroup& group) const;

  Sampler& sampler_;
  DeploymentTable& table_;
  ports::HostProbe& host_;
  const ports::MemoryGroups& groups_;
  ports::ContainerNames& names_;
  Orphans& orphans_;
  ports::EventLoop& loop_;
};

}  // namespace dgxmm::service
