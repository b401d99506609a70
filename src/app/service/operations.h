#pragma once
#include "app/dto/dto.h"
#include "app/service/admission.h"
#include "app/service/supervisor.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dgxmm::service {

/// Carries out plans (P11): the actions, the wait for their memory, the deploy; in reverse if any of it fails.
class Operations {
 public:
  Operations(Admission& admission, Supervisor& supervisor, DeploymentTable& table, EventLog& events, Sampler& sampler,
             Clock& clock, ports::EventLoop& loop);

  /// Checks that the plan still is as it was shown, and begins. Returns the operation, or the new plans when the host
  /// has changed; then, and when the request fits by now without any plan, nothing is done. Errors: `plan_not_found`,
  /// `does_not_fit` (the plan was shown as one that does not help).
  struct Begun {
    std::shared_ptr<const dto::Operation> operation;
    std::optional<PlanSet> changed;
  };
  Result<Begun> apply(const std::string& plan_set, const std::string& plan_id);

  [[nodiscard]] std::shared_ptr<const dto::Operation> find(const std::string& id) const;
  [[nodiscard]] std::vector<std::shared_ptr<const dto::Operation>> all() const;

 private:
  struct Running;
  ports::Task<> run(std::shared_ptr<Running> running);
  ports::Task<Result<DeploymentId>> carry_out(std::shared_ptr<Running> running);
  ports::Task<> undo(std::shared_ptr<Running> running);
  ports::Task<Result<DeploymentId>> carry_out_or_fail(std::shared_ptr<Running> running);
  ports::Task<Result<void>> readmit_or_fail(DeploymentId id);
  /// Waits until so much is free, within a limit; returns what is.
  ports::Task<Bytes> wait_for_memory(Bytes needed);
  void step(Running& running, std::size_t index, std::string state, std::string message = {});

  Admission& admission_;
  Supervisor& supervisor_;
  DeploymentTable& table_;
  EventLog& events_;
  Sampler& sampler_;
  Clock& clock_;
  ports::EventLoop& loop_;
  std::map<std::int64_t, std::shared_ptr<dto::Operation>> operations_;
  std::int64_t last_id_ = 0;
};

}  // namespace dgxmm::service
