#pragma once
#include "app/service/admission.h"
#include "app/service/catalog.h"
#include "app/service/ledger.h"
#include "app/service/operations.h"
#include "app/service/orphans.h"
#include "app/service/restoring.h"
#include "app/service/sampler.h"
#include "app/service/supervisor.h"

namespace dgxmm::service {

/// All services, wired; built once by the composition root. Everything happens on the loop's thread.
class Service {
 public:
  struct Ports {
    ports::HostProbe& host;
    ports::GpuProbe& gpu;
    const ports::MemoryGroups& memory_groups;
    ports::ContainerNames& container_names;
    ports::ModelFiles& model_files;
    ports::FolderWatch& folder_watch;
    ports::Store& store;
    ports::StartRecord& start_record;
    Supervisor::World world;
  };

  Service(Ports ports, const settings::Settings& settings, Identity identity);

  /// Reads the state, adopts what runs, and begins to sample. Errors: `bad_state`.
  Result<void> begin();

  /// Nothing when all is well, else what is wrong: for /healthz.
  [[nodiscard]] std::optional<std::string> trouble() const;

  const settings::Settings& settings;
  ports::HostProbe& host;
  ports::ContainerRuntime& runtime;
  ports::EventLoop& loop;
  Clock& clock;
  EventLog events;
  DeploymentTable table;
  Sampler sampler;
  memory::History history;  ///< of what the sampler read
  Catalog catalog;
  Estimates estimates;
  Admission admission;
  StartJournal start_journal;
  Supervisor supervisor;
  Orphans orphans;
  LedgerReader ledger;
  Operations operations;
  Restoring restoring;

 private:
  /// Reads the host, and keeps a point of it now and then.
  void sample();
  ports::Task<> sample_forever();
  ports::Task<> examine_forever();
  SteadyTime last_sample_;
};

}  // namespace dgxmm::service
