#pragma once
#include "app/service/deployment_table.h"
#include "app/service/estimates.h"
#include "app/service/sampler.h"
#include "app/service/turn_queue.h"
#include "base/ring.h"
#include "core/planner/plans.h"
#include "core/planner/scenario.h"
#include "ports/tcp_ports.h"

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace dgxmm::service {

/// What plans make room for.
struct Wanted {
  Prepared prepared;
  std::optional<DeploymentId> returns = {};  ///< not a new deployment, but one that is to wake up or to start again
};

/// The plans that were shown for one request; carried out only as shown.
struct PlanSet {
  std::string id;
  Wanted wanted;
  planner::Plans plans;
  std::int64_t revision = 0;  ///< of the snapshot that they were made from
};

/// Either a reservation, or the plans to make room for it.
struct Decision {
  std::optional<DeploymentId> admitted;
  std::optional<PlanSet> refused;
};

/// Decides, one request at a time, whether a deployment may start (P13). A reservation exists before anything starts.
/// What waking up would take now.
struct WakeNeed {
  Bytes size;                   ///< that has to be free
  std::optional<bool> is_free;  ///< null when the host cannot be read
};

class Admission {
 public:
  Admission(Estimates& estimates, Sampler& sampler, DeploymentTable& table, ports::TcpPorts& tcp_ports, Clock& clock,
            ports::EventLoop& loop);

  /// Takes its turn and decides. The deployment is `starting`; the caller starts it. Disks are read before the turn,
  /// so that one that hangs holds up nobody else. Errors, of each that takes its turn: those of `TurnQueue::take`.
  ports::Task<Result<Decision>> admit(engine::DeployRequest request);
  /// What `admit` does first. Errors: `bad_field`, those of Estimates::prepare.
  ports::Task<Result<Prepared>> prepare(engine::DeployRequest request);
  /// Decides on what was prepared, sized by what is known by now; the caller has the turn.
  Result<Decision> admit_in_turn(Prepared prepared);
  /// A stopped or failed deployment once more, with the configuration that it had, sized by what is known by now (C3,
  /// C5), and on its port; on another one only when nobody had asked for that port and it is taken by now. Errors:
  /// `deployment_not_found`, `already_running`, `name_taken`, `port_taken`, `does_not_fit`, those of
  /// Estimates::prepare.
  ports::Task<Result<void>> readmit_in_turn(DeploymentId id);
  /// Takes its turn and does that, or makes the plans for it. Errors: the same, but `does_not_fit`.
  ports::Task<Result<Decision>> readmit(DeploymentId id);

  /// Takes its turn and decides whether a sleeping deployment may wake up, on its peak. When it may, it is `loading`
  /// from here on, counted in full, and the caller wakes it. Errors: `deployment_not_found`, `not_sleeping`, those of
  /// reading the host.
  ports::Task<Result<Decision>> admit_wake(DeploymentId id);
  /// The same for one whose turn the caller already has. Errors: `does_not_fit` too.
  Result<void> admit_wake_in_turn(DeploymentId id);

  /// What that would be decided on now, by the newest snapshot; nothing for one that does not sleep.
  std::optional<WakeNeed> wake_need(const Deployment& deployment);

  /// Whether it could be started if there were memory: its engine, configuration, name and port, with the names and
  /// ports of those that are `leaving` counted as free. To be asked before anything is stopped for it. Errors:
  /// `bad_field`, `name_taken`, `port_taken`, and those of a host where nothing can be started: `host_not_supported`,
  /// `gpu_failed`, `gpu_driver_updated`.
  Result<void> check_startable(const engine::DeployRequest& request, const engine::EngineConfig& config,
                               std::span<const DeploymentId> leaving = {});

  /// What would have to happen; starts nothing. Also for what cannot be started, as a what-if.
  ports::Task<Result<PlanSet>> plan(engine::DeployRequest request);
  /// The host and its deployments, as the planner sees them.
  planner::PlanInput situation_of(const Prepared& prepared, const HostSnapshot& snapshot);
  /// This host, described: with what was learned of its models. Without a request: its memory and deployments. Errors:
  /// those of `Estimates::prepare` and of reading the host.
  ports::Task<Result<planner::Scenario>> describe_host(std::optional<engine::DeployRequest> request);
  /// The plans for a request, on one reading of the host.
  Result<planner::Plans> plans_for(const Wanted& wanted, const HostSnapshot& snapshot);
  /// The same, to be shown: they are remembered.
  Result<PlanSet> plan_wanted(const Wanted& wanted, const HostSnapshot& snapshot);

  /// A set that was shown.
  [[nodiscard]] const PlanSet* find_set(const std::string& id) const;
  /// Of each request that has a plan of that id its newest set, the newest first.
  [[nodiscard]] std::vector<const PlanSet*> newest_sets_with(const std::string& plan_id) const;

  TurnQueue& turns() { return turns_; }
  [[nodiscard]] const TurnQueue& turns() const { return turns_; }

 private:
  [[nodiscard]] Result<Prepared> sized_anew(Prepared prepared) const;
  [[nodiscard]] bool fits(const Prepared& prepared, const HostSnapshot& snapshot) const;
  // A decision and the plans that go with it are made on the same reading of the host.
  Result<Decision> decide(Prepared prepared, const HostSnapshot& snapshot);
  ports::Task<Result<Prepared>> prepare_again(DeploymentId id);
  Result<void> readmit_prepared(DeploymentId id, const Prepared& prepared, const HostSnapshot& snapshot);
  Result<void> let_wake(DeploymentId id, const HostSnapshot& snapshot);
  Result<DeploymentId> reserve(const Prepared& prepared);
  /// Errors: why it cannot be started again.
  Result<Deployment*> find_startable(DeploymentId id);
  /// What has to be free for one that sleeps to wake up.
  static Bytes needed_to_wake(const Deployment& deployment, const HostSnapshot& snapshot);
  /// The plans for one that is to return, as it is: no other configuration can be had.
  Result<planner::Plans> plans_to_return(const Wanted& wanted, const HostSnapshot& snapshot);
  Result<void> check_name_is_free(const std::string& name, std::span<const DeploymentId> leaving = {});
  /// P10; empty when it cannot sleep.
  std::vector<planner::SleepLevel> sleep_levels_of(const Deployment& deployment);
  /// Null when no deployment that has not ended has the port.
  const Deployment* owner_of(std::uint16_t port);
  Result<std::uint16_t> hold_port(std::optional<std::uint16_t> wanted);

  Estimates& estimates_;
  Sampler& sampler_;
  DeploymentTable& table_;
  ports::TcpPorts& tcp_ports_;
  Clock& clock_;
  ports::EventLoop& loop_;
  TurnQueue turns_;
  Ring<PlanSet> sets_;
  std::int64_t sets_made_ = 0;
};

}  // namespace dgxmm::service
