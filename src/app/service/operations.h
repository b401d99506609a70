#pragma once
#include "app/dto/dto.h"
#include "app/service/admission.h"
#include "app/service/supervisor.h"
#include "ports/store.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dgxmm::service {

/// Carries out plans (P11): the actions, the wait for their memory, the deploy; in reverse if any of it fails. What it
/// is about to do is stored before each step and how that went after it, so that the next daemon can finish what this
/// one had begun.
class Operations {
 public:
  Operations(ports::Store& store, Admission& admission, Supervisor& supervisor, DeploymentTable& table,
             EventLog& events, Sampler& sampler, Clock& clock, ports::EventLoop& loop);

  /// Reads what an earlier daemon left. Errors: a row that cannot be read, named.
  Result<void> load();

  /// Ends what an earlier daemon did not get to the end of; returns at once. A deployment that it had started and that
  /// comes to serve makes the operation succeed. Else it fails, and what it had stopped is started again, as the budget
  /// allows. To be called when the deployments have been reconciled.
  void resume();

  /// Checks that the plan still is as it was shown and could be started, and begins. Returns the operation, or the new
  /// plans when the host has changed; then, and when the request fits by now without any plan, nothing is done. Errors:
  /// `plan_not_found`, `plan_ambiguous`, `plan_unsafe`, `does_not_fit` (the plan was shown as one that does not help),
  /// those of `Admission::check_startable`. `even_if_busy`: also when somebody who gives way has got requests in flight
  /// since the plan was shown.
  struct Begun {
    std::shared_ptr<const dto::Operation> operation;
    std::optional<PlanSet> changed;
    std::string what_changed;  ///< a sentence's beginning; empty: the plans tell
  };
  Result<Begun> apply(const std::string& plan_set, const std::string& plan_id, bool even_if_busy = false);

  /// Ends one that runs: what it has done is undone. An action under way is waited for. One that is being undone
  /// already is left alone. Throws when that cannot be stored. Errors: `operation_not_found`, `operation_ended`.
  Result<std::shared_ptr<const dto::Operation>> cancel(const std::string& id);

  /// Tries again to store what could not be; called at every tick.
  void retry_unsaved();

  [[nodiscard]] std::shared_ptr<const dto::Operation> find(const std::string& id) const;
  [[nodiscard]] std::vector<std::shared_ptr<const dto::Operation>> all() const;

 private:
  struct Running;
  using Shared = std::shared_ptr<dto::Operation>;  // outlives its place in the list

  ports::Task<> run(std::shared_ptr<Running> running);
  ports::Task<Result<DeploymentId>> carry_out_or_fail(std::shared_ptr<Running> running);
  ports::Task<Result<DeploymentId>> carry_out(std::shared_ptr<Running> running);
  ports::Task<Result<DeploymentId>> wait_until_it_serves(Shared operation);
  ports::Task<Result<void>> give_way(std::shared_ptr<Running> running, std::size_t index);
  /// The last step: reserves, or lets return, what the plan is for. Its id.
  ports::Task<Result<DeploymentId>> admit(std::shared_ptr<Running> running);
  /// `turn`: that it still has, if it does.
  ports::Task<> end(Shared operation, Result<DeploymentId> deployed, std::optional<TurnQueue::Turn> turn);
  ports::Task<> end_earlier(Shared operation);
  ports::Task<> undo_and_fail(Shared operation, std::optional<TurnQueue::Turn> turn);
  ports::Task<> undo(Shared operation, std::optional<TurnQueue::Turn> turn);
  /// Takes back the last step.
  ports::Task<> undo_admission(Shared operation);
  std::vector<std::size_t> undo_order(const dto::Operation& operation);
  /// Waits for one that was started or woken again, and puts it back to sleep if it slept.
  ports::Task<> end_undo(Shared operation, std::size_t index);
  ports::Task<> wait_while_unknown(DeploymentId id);
  void note_not_back(const dto::Operation& operation, const dto::OperationStep& step);
  /// The set of a plan that is named without it: "stop:3" may be a plan for anybody's request, so it has to be for one
  /// alone, and a safe one. Null: there is none. Errors: `plan_ambiguous`, `plan_unsafe`.
  [[nodiscard]] Result<const PlanSet*> find_meant(const std::string& plan_id) const;
  /// Of the model, or of the deployment, that it is about.
  [[nodiscard]] std::string name_of(const PlanSet& set) const;
  /// Takes back a step. False: there is nothing to be waited for.
  ports::Task<Result<bool>> start_again(Shared operation, std::size_t index);
  ports::Task<Result<bool>> start_again_or_throw(Shared operation, std::size_t index);
  /// Takes back the sleep of a step. As above.
  ports::Task<Result<bool>> wake_again(Shared operation, std::size_t index);
  /// Starts a victim that has ended, once its memory is there. As above.
  ports::Task<Result<bool>> start_anew(Shared operation, std::size_t index, DeploymentId id);
  /// Waits until so much is free, within a limit, or until it is cancelled; returns what is.
  ports::Task<Bytes> wait_for_memory(Shared operation, Bytes needed);

  Shared add(const PlanSet& set, const planner::Plan& plan);
  /// Something is about to be done. Throws when that cannot be stored: then it must not be done.
  void begin_step(dto::Operation& operation, std::size_t index, std::string state = "running");
  /// Something has been done, whether that can be stored or not.
  void end_step(dto::Operation& operation, std::size_t index, std::string state, std::string message = {});
  void publish_step(const dto::Operation& operation, std::size_t index);
  void save(const dto::Operation& operation);
  void save_fact(const dto::Operation& operation);

  ports::Store& store_;
  Admission& admission_;
  Supervisor& supervisor_;
  DeploymentTable& table_;
  EventLog& events_;
  Sampler& sampler_;
  Clock& clock_;
  ports::EventLoop& loop_;
  std::map<std::int64_t, Shared> operations_;
  std::set<std::int64_t> unsaved_;
};

}  // namespace dgxmm::service
