#pragma once
#include "app/service/deployment_table.h"
#include "app/service/events.h"
#include "app/service/sampler.h"
#include "app/service/supervisor.h"
#include "ports/container_runtime.h"
#include "ports/host_probe.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::service {

/// An engine that was started by this installation, for a deployment that does not know it any more. What proves it:
/// the labels of its container, the name of its cgroup, or the marks in its environment.
struct Orphan {
  std::string id;    ///< of one run of it: a number that is given out again stands for another one
  std::string name;  ///< of the instance
  ports::Instance instance;
  std::vector<std::int64_t> pids;
  std::optional<memory::Measured> measured;
  std::string command;  ///< of its largest process, masked
};

/// "4711-1234567" (pid and start time) of a process, the first 12 digits of a container's id.
std::string orphan_id(const ports::Instance& instance);

/// Finds what earlier starts left behind, and ends it when a person asks for that. Nothing else is ever touched.
class Orphans {
 public:
  Orphans(ports::ContainerRuntime& runtime, ports::HostProbe& host, DeploymentTable& table, EventLog& events,
          Sampler& sampler, const Identity& identity, std::chrono::milliseconds grace);

  /// Looks at every process of the host: on demand.
  std::vector<Orphan> find();
  /// SIGTERM, then SIGKILL after the grace; returns when it is gone, and removes its container. Returns how it was.
  /// Errors: `orphan_not_found`, `still_running`, `docker_unreachable`, `shutting_down`.
  ports::Task<Result<Orphan>> stop(std::string id);

 private:
  [[nodiscard]] bool is_known(const std::string& name, const ports::Instance& instance);

  ports::ContainerRuntime& runtime_;
  ports::HostProbe& host_;
  DeploymentTable& table_;
  EventLog& events_;
  Sampler& sampler_;
  const Identity& identity_;
  std::chrono::milliseconds grace_;
};

}  // namespace dgxmm::service
