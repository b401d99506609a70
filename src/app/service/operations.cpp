#include "app/service/operations.h"

#include "app/service/operation_document.h"
#include "base/log.h"
#include "base/masking.h"
#include "base/numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;
using deployment::State;

constexpr std::size_t kRememberedOperations = 64;
// `stop` returns when the memory is back; the host's own counters may follow a little later.
constexpr auto kMemoryLimit = 60s;
constexpr auto kMemoryPoll = 100ms;

const planner::Plan* find_plan(const planner::Plans& plans, const std::string& id) {
  const auto found = std::ranges::find(plans.plans, id, &planner::Plan::id);
  return found == plans.plans.end() ? nullptr : &*found;
}

/// A plan is executed only as it was shown. When the request fits by now there are no plans: nothing is stopped for it.
const planner::Plan* find_unchanged(const planner::Plan& shown, const planner::Plans& now, bool even_if_busy) {
  const auto* plan = find_plan(now, shown.id);
  return plan != nullptr && planner::is_as_shown(shown, *plan, even_if_busy) ? plan : nullptr;
}

/// What speaks against it by now; "" when something else has changed.
std::string what_changed(const planner::Plan& shown, const planner::Plans& now, bool even_if_busy) {
  const auto* plan = find_plan(now, shown.id);
  if (plan == nullptr) return {};
  const auto reasons = planner::new_reasons(shown, *plan, even_if_busy);
  if (reasons.empty()) return {};
  const bool only_busy = planner::is_as_shown(shown, *plan, true);
  return fmt::format("{} by now{}", fmt::join(reasons, ", "), only_busy ? " (--even-if-busy carries it out)" : "");
}

/// Right after a restart one that has served has not been asked again yet.
bool serves(const Deployment& deployment) {
  return deployment.state == State::ready || deployment.state == State::sleeping ||
         (deployment.state == State::unknown && deployment.ready_at);
}

/// The deployment that gives way in a step.
std::optional<DeploymentId> victim_of(const dto::OperationStep& step) { return step.stops ? step.stops : step.sleeps; }

/// That was begun and not taken back.
bool stays_away(const dto::OperationStep& step) {
  return victim_of(step) && step.state != "waiting" && step.state != "undone";
}

/// Somebody wants it to end, and it has not begun to.
bool is_cancelled(const dto::Operation& operation) { return operation.cancelled_at && !operation.failure; }

std::unexpected<Error> cancelled() {
  return fail("cancelled", "it was cancelled", "ask for the plans again when you want it after all");
}

/// It was asleep when it was stopped.
bool slept_before(const dto::OperationStep& step) { return step.stops && step.level; }

std::unexpected<Error> shutting_down() { return fail("shutting_down", "dgxmm is shutting down"); }

}  // namespace

struct Operations::Running {
  Shared operation;
  Wanted wanted;
  planner::Plan plan;   ///< as it was shown
  Prepared under_plan;  ///< the request as the plan has it, of a new deployment
  bool even_if_busy = false;
  std::optional<TurnQueue::Turn> turn;

  [[nodiscard]] const Prepared& prepared() const { return wanted.prepared; }
};

Operations::Operations(ports::Store& store, Admission& admission, Supervisor& supervisor, DeploymentTable& table,
                       EventLog& events, Sampler& sampler, Clock& clock, ports::EventLoop& loop)
    : store_(store),
      admission_(admission),
      supervisor_(supervisor),
      table_(table),
      events_(events),
      sampler_(sampler),
      clock_(clock),
      loop_(loop) {}

Result<Operations::Begun> Operations::apply(const std::string& plan_set, const std::string& plan_id,
                                            bool even_if_busy) {
  const auto* found = admission_.find_set(plan_set);
  if (plan_set.empty()) {
    const auto meant = find_meant(plan_id);
    if (!meant) return fail(meant.error());
    found = *meant;
  }
  const auto* shown = found == nullptr ? nullptr : find_plan(found->plans, plan_id);
  if (shown == nullptr) {
    return fail("plan_not_found",
                fmt::format("there is no plan '{}'", plan_set.empty() ? plan_id : plan_set + "/" + plan_id),
                "plans are forgotten when the daemon restarts: ask for them again with `dgxmm plan`", plan_id);
  }
  if (!shown->fits) {
    return fail(
        "does_not_fit",
        fmt::format("plan {} does not make enough room: {} would be missing", plan_id, format_bytes(shown->shortfall)),
        "choose a plan that fits", plan_id);
  }
  auto running = std::make_shared<Running>();
  running->wanted = found->wanted;
  running->plan = *shown;
  running->even_if_busy = even_if_busy;
  const PlanSet set = *found;  // making further plans may push it out
  const auto& plan = running->plan;
  if (!set.wanted.returns) {
    if (auto startable = admission_.check_startable(running->prepared().request, plan.config, plan.stops); !startable) {
      return fail(startable.error());
    }
  }

  const auto snapshot = sampler_.refresh();
  if (snapshot->problem) return fail(*snapshot->problem);
  const auto now = admission_.plans_for(running->wanted, *snapshot);
  if (!now) return fail(now.error());
  const auto* unchanged = find_unchanged(plan, *now, running->even_if_busy);
  if (unchanged == nullptr) {
    auto changed = admission_.plan_wanted(running->wanted, *snapshot);
    if (!changed) return fail(changed.error());
    return Begun{.operation = {},
                 .changed = std::move(*changed),
                 .what_changed = what_changed(plan, *now, running->even_if_busy)};
  }
  running->operation = add(set, *unchanged);
  const auto& operation = running->operation;
  events_.publish("operation.started", std::nullopt,
                  fmt::format("carrying out plan {} for {}{}: {}", plan_id, operation->model,
                              even_if_busy ? ", even if somebody is busy" : "", operation->title),
                  {{"operation", operation->id}, {"plan", plan_id}});
  loop_.spawn("plan " + plan_id, run(running));
  return Begun{.operation = operation, .changed = {}, .what_changed = {}};
}

Result<const PlanSet*> Operations::find_meant(const std::string& plan_id) const {
  const auto sets = admission_.newest_sets_with(plan_id);
  if (sets.empty()) return nullptr;
  const auto& set = *sets.front();
  if (sets.size() > 1) {
    std::vector<std::string> names;
    for (const auto* other : sets) names.push_back(fmt::format("{}/{} for {}", other->id, plan_id, name_of(*other)));
    return fail("plan_ambiguous",
                fmt::format("there are plans '{}' for several requests: {}", plan_id, fmt::join(names, ", ")),
                "name the set too", plan_id);
  }
  const auto reasons = planner::reasons_of(*find_plan(set.plans, plan_id));
  if (reasons.empty()) return &set;
  return fail("plan_unsafe",
              fmt::format("plan {}/{} for {} is unsafe: {}", set.id, plan_id, name_of(set), fmt::join(reasons, "; ")),
              fmt::format("`dgxmm apply {}/{}` carries it out all the same", set.id, plan_id), plan_id);
}

std::string Operations::name_of(const PlanSet& set) const {
  const auto* returning = set.wanted.returns ? table_.find(*set.wanted.returns) : nullptr;
  if (returning != nullptr) return returning->name;
  return set.wanted.prepared.model ? set.wanted.prepared.model->name : std::string{"a deployment that is gone"};
}

Result<std::shared_ptr<const dto::Operation>> Operations::cancel(const std::string& id) {
  const auto number = parse_number(id);
  const auto found = number ? operations_.find(*number) : operations_.end();
  if (found == operations_.end()) {
    return fail("operation_not_found", fmt::format("there is no operation '{}'", id), {}, "id");
  }
  auto& operation = *found->second;
  if (operation.state != "running") {
    const auto* deployed = operation.deployment ? table_.find(*operation.deployment) : nullptr;
    const bool serves = operation.state == "succeeded" && deployed != nullptr;
    return fail("operation_ended", fmt::format("plan {} has ended: {}", operation.plan, operation.state),
                serves ? fmt::format("`dgxmm stop {}` ends what it started", deployed->name) : std::string{}, "id");
  }
  if (operation.cancelled_at || operation.failure) return found->second;
  operation.cancelled_at = format_time(clock_.wall());
  try {
    save(operation);
  } catch (...) {
    operation.cancelled_at.reset();
    throw;
  }
  admission_.turns().cancel_operation(operation.id);
  events_.publish("operation.cancelling", std::nullopt,
                  fmt::format("plan {} is cancelled: what it did is undone", operation.plan),
                  {{"operation", operation.id}});
  return found->second;
}

Operations::Shared Operations::add(const PlanSet& set, const planner::Plan& plan) {
  const auto* returning = set.wanted.returns ? table_.find(*set.wanted.returns) : nullptr;
  const auto model = name_of(set);
  auto operation = std::make_shared<dto::Operation>();
  operation->plan_set = set.id;
  operation->plan = plan.id;
  operation->title = plan.title;
  operation->unsafe = planner::reasons_of(plan);
  operation->model = model;
  operation->state = "running";
  const auto wait = [&](std::string what, std::optional<DeploymentId> stops) -> dto::OperationStep& {
    operation->steps.push_back({.what = std::move(what), .state = "waiting", .message = {}, .stops = stops});
    return operation->steps.back();
  };
  for (const auto& sleep : plan.sleeps) {
    const auto* deployment = table_.find(sleep.id);
    auto& step =
        wait(fmt::format("put {} to sleep (level {})",
                         deployment == nullptr ? std::to_string(sleep.id.value) : deployment->name, sleep.level),
             std::nullopt);
    step.sleeps = sleep.id;
    step.level = sleep.level;
  }
  for (const auto id : plan.stops) {
    const auto* deployment = table_.find(id);
    auto& step = wait(fmt::format("stop {}", deployment == nullptr ? std::to_string(id.value) : deployment->name), id);
    if (deployment != nullptr && deployment->state == State::sleeping) step.level = deployment->sleep_level;
  }
  wait("wait until the memory is free", std::nullopt);
  const bool wakes = returning != nullptr && returning->state == State::sleeping;
  auto& last = wait(fmt::format("{} {}", wakes ? "wake" : "start", plan.model_name.empty() ? model : plan.model_name),
                    std::nullopt);
  if (wakes) {
    last.wakes = returning->id;
    last.level = returning->sleep_level;
  }

  if (operations_.size() >= kRememberedOperations) {
    const auto ended = [](const auto& entry) { return entry.second->state != "running"; };
    if (const auto oldest = std::ranges::find_if(operations_, ended); oldest != operations_.end()) {
      store_.remove_operation(oldest->first);
      unsaved_.erase(oldest->first);
      operations_.erase(oldest);
    }
  }
  const auto id = store_.add_operation(to_document(*operation));
  operation->id = std::to_string(id);
  operations_[id] = operation;
  return operation;
}

// --- carrying one out

ports::Task<> Operations::run(std::shared_ptr<Running> running) {
  const auto deployed = co_await carry_out_or_fail(running);
  auto turn = std::move(running->turn);
  running->turn.reset();
  co_await end(running->operation, deployed, std::move(turn));
}

/// An exception of the store must not leave an operation half done.
ports::Task<Result<DeploymentId>> Operations::carry_out_or_fail(std::shared_ptr<Running> running) {
  try {
    auto result = co_await carry_out(running);
    co_return result;
  } catch (const std::exception& error) {
    co_return fail("internal_error", error.what());
  }
}

ports::Task<Bytes> Operations::wait_for_memory(Shared operation, Bytes needed) {
  const auto limit = clock_.steady() + kMemoryLimit;
  while (needed > sampler_.refresh()->budget.free_for_new && clock_.steady() < limit && !loop_.stopping() &&
         !is_cancelled(*operation)) {
    co_await loop_.sleep_for(kMemoryPoll);
  }
  co_return sampler_.latest()->budget.free_for_new;
}

ports::Task<Result<void>> Operations::give_way(std::shared_ptr<Running> running, std::size_t index) {
  const auto step = running->operation->steps[index];
  const auto victim = victim_of(step).value();
  const bool interrupts = running->even_if_busy || planner::interrupts(running->plan, victim);
  Result<void> gave_way;
  if (!interrupts) gave_way = co_await supervisor_.check_idle(victim);
  if (loop_.stopping()) co_return shutting_down();
  if (!gave_way) {
    co_return fail("busy", gave_way.error().message + " by now",
                   "ask for the plans again, or carry it out with --even-if-busy", gave_way.error().where);
  }
  if (is_cancelled(*running->operation)) co_return cancelled();
  if (step.sleeps) {
    gave_way = co_await supervisor_.sleep(victim, static_cast<int>(step.level.value_or(1)), interrupts);
  } else {
    gave_way = co_await supervisor_.stop(victim);
  }
  co_return gave_way;
}

ports::Task<Result<DeploymentId>> Operations::carry_out(std::shared_ptr<Running> running) {
  auto& operation = *running->operation;
  const auto& plan = running->plan;
  if (!running->wanted.returns) {
    auto request = engine::with_config(running->prepared().request, plan.config);
    if (!plan.model_path.empty()) request.model = plan.model_path;
    auto prepared = co_await admission_.prepare(std::move(request));
    if (!prepared) co_return fail(prepared.error());
    running->under_plan = std::move(*prepared);
  }
  TurnQueue::Claim claim{.what = fmt::format("plan {} for {}", plan.id, operation.model),
                         .priority = running->prepared().request.priority.value_or(0),
                         .operation = operation.id};
  auto turn = co_await admission_.turns().take(std::move(claim));
  if (is_cancelled(operation)) co_return cancelled();
  if (!turn) co_return fail(turn.error());
  running->turn.emplace(std::move(*turn));
  if (loop_.stopping()) co_return shutting_down();
  const auto memory_step = plan.sleeps.size() + plan.stops.size();
  const auto start_step = memory_step + 1;

  // Whoever had the turn before may have changed everything: an earlier apply of the same plan, say.
  const auto snapshot = sampler_.refresh();
  const auto now = admission_.plans_for(running->wanted, *snapshot);
  if (!now) co_return fail(now.error());
  if (find_unchanged(plan, *now, running->even_if_busy) == nullptr) {
    auto changed = admission_.plan_wanted(running->wanted, *snapshot);
    if (!changed) co_return fail(changed.error());
    operation.new_plan_set = changed->id;
    const auto what = what_changed(plan, *now, running->even_if_busy);
    co_return fail("plan_changed",
                   (what.empty() ? "the host has changed since the plan was made" : what) + ": " + now->summary,
                   fmt::format("the plans by now are set {}", changed->id));
  }
  if (!running->wanted.returns) {
    if (auto startable = admission_.check_startable(running->prepared().request, plan.config, plan.stops); !startable) {
      co_return fail(startable.error());
    }
  }

  for (std::size_t i = 0; i < memory_step; ++i) {
    begin_step(operation, i);
    const auto gave_way = co_await give_way(running, i);
    if (loop_.stopping()) co_return shutting_down();
    if (!gave_way) {
      end_step(operation, i, "failed", gave_way.error().message);
      co_return fail(gave_way.error());
    }
    end_step(operation, i, "done");
    if (is_cancelled(operation)) co_return cancelled();
  }

  begin_step(operation, memory_step);
  const auto free = co_await wait_for_memory(running->operation, plan.needed);
  if (loop_.stopping()) co_return shutting_down();
  if (is_cancelled(operation)) co_return cancelled();
  if (plan.needed > free) {
    const auto message = fmt::format("{} is needed, {} became free", format_bytes(plan.needed), format_bytes(free));
    end_step(operation, memory_step, "failed", message);
    co_return fail("does_not_fit", message, "something else took the memory; ask for the plans again");
  }
  end_step(operation, memory_step, "done", fmt::format("{} free", format_bytes(free)));

  begin_step(operation, start_step);
  const auto admitted = co_await admit(running);
  if (loop_.stopping()) co_return shutting_down();
  if (!admitted) {
    end_step(operation, start_step, "failed", admitted.error().message);
    co_return fail(admitted.error());
  }
  operation.deployment = *admitted;
  save(operation);  // before it exists
  if (operation.steps[start_step].wakes) {
    supervisor_.wake(*admitted);
  } else {
    supervisor_.start(*admitted);
  }
  running->turn.reset();
  auto served = co_await wait_until_it_serves(running->operation);
  co_return served;
}

ports::Task<Result<DeploymentId>> Operations::admit(std::shared_ptr<Running> running) {
  const auto returns = running->wanted.returns;
  if (returns) {
    Result<void> admitted;
    if (running->operation->steps.back().wakes) {
      admitted = admission_.admit_wake_in_turn(*returns);
    } else {
      admitted = co_await admission_.readmit_in_turn(*returns);
    }
    if (!admitted) co_return fail(admitted.error());
    co_return *returns;
  }
  const auto decision = admission_.admit_in_turn(running->under_plan);
  if (!decision) co_return fail(decision.error());
  if (!decision->admitted) co_return fail("does_not_fit", decision->refused->plans.summary);
  co_return *decision->admitted;
}

ports::Task<Result<DeploymentId>> Operations::wait_until_it_serves(Shared operation) {
  const auto id = operation->deployment.value();
  const auto start_step = operation->steps.size() - 1;
  const bool wakes = operation->steps.back().wakes.has_value();
  const auto is_over = [operation] { return is_cancelled(*operation); };
  co_await supervisor_.settle(id, is_over);
  const auto limit = clock_.steady() + kMemoryLimit;
  // One that was waking up when an earlier daemon ended has not been asked yet.
  while (wakes && !loop_.stopping() && !is_over() && clock_.steady() < limit) {
    const auto* waking = table_.find(id);
    if (waking == nullptr || waking->state != State::unknown) break;
    co_await loop_.sleep_for(kMemoryPoll);
  }
  if (loop_.stopping()) co_return shutting_down();
  if (is_over()) co_return cancelled();
  const auto* deployment = table_.find(id);
  if (deployment != nullptr && (wakes ? deployment->state == State::ready : serves(*deployment))) {
    end_step(*operation, start_step, "done");
    co_return id;
  }
  Error error{"engine_died", wakes ? "the deployment did not wake up" : "the deployment did not become ready", {}, {}};
  if (deployment != nullptr && deployment->failure) {
    const auto& failure = *deployment->failure;
    error = Error{failure.code, failure.message, failure.hint, deployment->name};
  }
  end_step(*operation, start_step, "failed", error.message);
  co_return fail(std::move(error));
}

// --- its end

ports::Task<> Operations::end(Shared operation, Result<DeploymentId> deployed, std::optional<TurnQueue::Turn> turn) {
  // What a shutdown interrupts stays `running`: the next daemon goes on from what is stored.
  if (!deployed && loop_.stopping()) co_return;
  if (deployed) {
    operation->state = "succeeded";
    save_fact(*operation);
    events_.publish("operation.succeeded", *deployed, fmt::format("plan {} is done", operation->plan),
                    {{"operation", operation->id}});
    co_return;
  }
  const auto& error = deployed.error();
  for (std::size_t i = 0; i < operation->steps.size(); ++i) {  // one that was broken off
    const auto& step = operation->steps[i];
    if (step.state == "running" && !victim_of(step)) end_step(*operation, i, "failed", error.message);
  }
  operation->failure = dto::Failure{error.code, error.message, error.hint, {}};
  if (operation->deployment) {
    if (const auto* failed = table_.find(*operation->deployment); failed != nullptr && failed->failure) {
      operation->failure->last_lines = failed->failure->last_lines;
    }
  }
  save_fact(*operation);
  co_await undo_and_fail(operation, std::move(turn));
}

ports::Task<> Operations::undo_and_fail(Shared operation, std::optional<TurnQueue::Turn> turn) {
  co_await undo(operation, std::move(turn));
  if (loop_.stopping()) co_return;
  std::vector<std::string> lost;
  std::vector<std::string> asleep;
  for (const auto& step : operation->steps) {
    const auto* deployment = victim_of(step) ? table_.find(*victim_of(step)) : nullptr;
    if (!stays_away(step) || deployment == nullptr) continue;
    const bool has_ended = deployment::is_final(deployment->state);  // of its call to sleep, perhaps
    const bool is_lost = step.stops ? !serves(*deployment) : has_ended;
    const bool is_asleep = step.sleeps && deployment->state != State::ready && !has_ended;
    if (is_lost) lost.push_back(deployment->name);
    if (is_asleep) asleep.push_back(deployment->name);
    if (is_lost || is_asleep) note_not_back(*operation, step);
  }
  auto& failure = operation->failure.value();
  if (!asleep.empty()) {
    failure.message += fmt::format("; put to sleep for it and not awake again: {}", fmt::join(asleep, ", "));
    if (!failure.hint.empty()) failure.hint += "; ";
    failure.hint += fmt::format("when there is room again: `dgxmm wake {}`", fmt::join(asleep, "`, `dgxmm wake "));
  }
  if (!lost.empty()) {
    failure.message += fmt::format("; stopped for it and not running again: {}", fmt::join(lost, ", "));
    if (!failure.hint.empty()) failure.hint += "; ";
    failure.hint += fmt::format("when there is room again: `dgxmm start {}`", fmt::join(lost, "`, `dgxmm start "));
  }
  operation->state = failure.code == "cancelled" ? "cancelled" : "failed";
  save_fact(*operation);
  events_.publish("operation." + operation->state, std::nullopt,
                  fmt::format("plan {} {}: {}", operation->plan, operation->state, failure.message),
                  {{"operation", operation->id}});
}

/// Shown with the deployment until somebody acts.
void Operations::note_not_back(const dto::Operation& operation, const dto::OperationStep& step) {
  auto* deployment = table_.find(victim_of(step).value());
  const bool may_return = deployment->state == State::sleeping || deployment::is_final(deployment->state);
  if (!may_return) return;
  auto why = step.message.empty() ? std::string{} : ": " + step.message;
  const bool sleeps = deployment->state == State::sleeping;
  std::vector<std::string> last_lines;
  if (const auto& failure = deployment->failure; failure && failure->code != dto::kNotBroughtBack) {
    why += ": " + failure->message;
    last_lines = failure->last_lines;
  }
  deployment->failure =
      Failure{.code = std::string{dto::kNotBroughtBack},
              .message = fmt::format("{} for plan {} and not back{}", step.stops ? "stopped" : "put to sleep",
                                     operation.plan, why),
              .hint = fmt::format("when there is room: `dgxmm {} {}`", sleeps ? "wake" : "start", deployment->name),
              .last_lines = std::move(last_lines)};
  table_.save_fact(*deployment);
  sampler_.refresh();
}

/// In reverse, but the more important ones first: there may not be room for all of them any more. Those that slept are
/// last: nobody waits for them, and they take more until they sleep again.
std::vector<std::size_t> Operations::undo_order(const dto::Operation& operation) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < operation.steps.size(); ++i) {
    const auto& step = operation.steps[i];
    if (stays_away(step) && step.state != "undo_failed") order.push_back(i);
  }
  const auto priority_of = [&](std::size_t i) {
    const auto* deployment = table_.find(victim_of(operation.steps[i]).value());
    return deployment == nullptr ? 0 : deployment->priority;
  };
  std::ranges::sort(order, std::greater{},
                    [&](std::size_t i) { return std::tuple{!slept_before(operation.steps[i]), priority_of(i), i}; });
  return order;
}

/// What was to wake up goes back to sleep; everything else that was started is stopped. If it goes on holding memory,
/// the next steps say what that prevents.
ports::Task<> Operations::undo_admission(Shared operation) {
  const auto id = operation->deployment.value();
  const auto& last = operation->steps.back();
  if (!last.wakes) {
    static_cast<void>(co_await supervisor_.stop(id));
    co_return;
  }
  const auto level = static_cast<int>(last.level.value_or(1));
  co_await supervisor_.settle(id);  // a wake cannot be broken off
  const auto* deployment = table_.find(id);
  if (deployment == nullptr || deployment->state != State::ready || loop_.stopping()) co_return;
  const auto asleep = co_await supervisor_.sleep(id, level, true);
  if (!asleep) log::warning("operation {}: {}", operation->id, printable(asleep.error().message));
}

ports::Task<> Operations::undo(Shared operation, std::optional<TurnQueue::Turn> turn) {
  if (!turn) {
    // Before everybody else: what was taken from others is theirs.
    TurnQueue::Claim claim{.what = fmt::format("undo plan {}", operation->plan),
                           .priority = std::numeric_limits<std::int64_t>::max(),
                           .operation = operation->id,
                           .patient = true};
    auto taken = co_await admission_.turns().take(std::move(claim));
    if (!taken) co_return;
    turn.emplace(std::move(*taken));
  }
  if (loop_.stopping()) co_return;
  if (operation->deployment) {
    co_await undo_admission(operation);
    if (loop_.stopping()) co_return;
  }
  std::vector<std::size_t> restarted;
  for (const auto i : undo_order(*operation)) {
    const auto again = co_await start_again(operation, i);
    if (loop_.stopping()) co_return;
    if (!again) end_step(*operation, i, "undo_failed", again.error().message);
    if (!again || !*again) continue;
    if (slept_before(operation->steps[i])) {
      co_await end_undo(operation, i);  // until it sleeps it takes more than it gave back
      if (loop_.stopping()) co_return;
    } else {
      restarted.push_back(i);
    }
  }
  turn.reset();
  for (const auto i : restarted) {
    co_await end_undo(operation, i);
    if (loop_.stopping()) co_return;
  }
}

ports::Task<> Operations::end_undo(Shared operation, std::size_t index) {
  const auto step = operation->steps.at(index);
  const auto id = victim_of(step).value();
  co_await supervisor_.settle(id);
  co_await wait_while_unknown(id);
  if (loop_.stopping()) co_return;
  const auto* deployment = table_.find(id);
  if (step.sleeps) {
    const bool awake = deployment != nullptr && deployment->state == State::ready;
    end_step(*operation, index, awake ? "undone" : "undo_failed", awake ? "awake again" : "could not be woken");
    co_return;
  }
  const bool back = deployment != nullptr && serves(*deployment);
  std::string message = back ? "started again" : "could not be started again";
  if (back && slept_before(step)) {
    // Not with requests in flight: then somebody wants it awake.
    const auto asleep = co_await supervisor_.sleep(id, static_cast<int>(*step.level), false);
    if (loop_.stopping()) co_return;
    message = asleep ? "started again and asleep again" : "started again, and awake: " + asleep.error().message;
  }
  end_step(*operation, index, back ? "undone" : "undo_failed", std::move(message));
}

/// An exception of the store must not keep the rest from being undone.
ports::Task<Result<bool>> Operations::start_again(Shared operation, std::size_t index) {
  try {
    auto started = co_await start_again_or_throw(operation, index);
    co_return started;
  } catch (const std::exception& error) {
    co_return fail("internal_error", error.what());
  }
}

/// Right after a restart it has not been asked yet.
ports::Task<> Operations::wait_while_unknown(DeploymentId id) {
  const auto limit = clock_.steady() + kMemoryLimit;
  while (!loop_.stopping() && clock_.steady() < limit) {
    const auto* deployment = table_.find(id);
    if (deployment == nullptr || deployment->state != State::unknown) co_return;
    co_await loop_.sleep_for(kMemoryPoll);
  }
}

ports::Task<Result<bool>> Operations::wake_again(Shared operation, std::size_t index) {
  const auto id = operation->steps.at(index).sleeps.value();
  const auto limit = clock_.steady() + kMemoryLimit;
  co_await wait_while_unknown(id);
  if (loop_.stopping()) co_return false;
  const auto* deployment = table_.find(id);
  if (deployment == nullptr) co_return fail("deployment_not_found", "it has been removed");
  if (deployment->state == State::unknown) co_return fail("unreachable", "its engine does not answer");
  if (deployment->state == State::loading) co_return true;  // woken by somebody else
  // It would not sleep, and the step says why; or nobody had asked it to yet.
  if (deployment->state == State::ready) co_return operation->steps.at(index).state != "failed";
  if (deployment->state == State::failed) {  // it died of the call
    auto started = co_await start_anew(operation, index, id);
    co_return started;
  }
  if (deployment->state != State::sleeping) co_return false;
  begin_step(*operation, index, "undoing");
  while (!loop_.stopping()) {
    const auto admitted = admission_.admit_wake_in_turn(id);
    if (admitted) {
      supervisor_.wake(id);
      co_return true;
    }
    if (admitted.error().code != "does_not_fit" || clock_.steady() >= limit) co_return fail(admitted.error());
    co_await loop_.sleep_for(kMemoryPoll);
  }
  co_return false;
}

ports::Task<Result<bool>> Operations::start_again_or_throw(Shared operation, std::size_t index) {
  if (operation->steps.at(index).sleeps) {
    auto woken = co_await wake_again(operation, index);
    co_return woken;
  }
  const auto id = operation->steps.at(index).stops.value();
  const auto state = operation->steps.at(index).state;
  const auto* deployment = table_.find(id);
  if (deployment != nullptr && deployment->state == State::stopping && state == "running") {
    const auto stopped = co_await supervisor_.stop(id);  // begun by the daemon before this one
    if (loop_.stopping()) co_return false;
    end_step(*operation, index, stopped ? "done" : "failed", stopped ? std::string{} : stopped.error().message);
    deployment = table_.find(id);
  }
  if (deployment == nullptr) co_return fail("deployment_not_found", "it has been removed");
  if (deployment->state == State::stopping) co_return false;  // the step says why
  // It was not stopped, and the step says why; or it is back already, by the daemon before this one.
  if (!deployment::is_final(deployment->state)) co_return state != "failed";
  // One that failed by itself was not stopped by the plan; one that failed on its way back was cut off by a restart.
  if (deployment->state == State::failed && state != "undoing") co_return false;
  auto started = co_await start_anew(operation, index, id);
  co_return started;
}

ports::Task<Result<bool>> Operations::start_anew(Shared operation, std::size_t index, DeploymentId id) {
  const auto* deployment = table_.find(id);
  if (deployment == nullptr) co_return fail("deployment_not_found", "it has been removed");
  co_await wait_for_memory(operation, deployment->reserved());
  if (loop_.stopping()) co_return false;
  begin_step(*operation, index, "undoing");
  const auto readmitted = co_await admission_.readmit_in_turn(id);
  if (!readmitted) co_return fail(readmitted.error());
  supervisor_.start(id);
  co_return true;
}

// --- after a restart

Result<void> Operations::load() {
  for (const auto& stored : store_.operations()) {
    auto operation = from_document(stored);
    if (!operation) {
      return fail(
          "bad_state",
          fmt::format("operation {} in the database cannot be read: {}", stored.id, operation.error().message),
          "the database was changed by another program or version; restore it, or start with an empty --state-dir",
          operation.error().where);
    }
    operations_[stored.id] = std::make_shared<dto::Operation>(std::move(*operation));
  }
  return {};
}

void Operations::resume() {
  for (const auto& [id, operation] : operations_) {
    if (operation->state == "running") loop_.spawn("end plan " + operation->plan, end_earlier(operation));
  }
}

ports::Task<> Operations::end_earlier(Shared operation) {
  if (operation->failure) {  // it was being undone
    co_await undo_and_fail(operation, std::nullopt);
    co_return;
  }
  if (operation->deployment) {
    const auto deployed = co_await wait_until_it_serves(operation);
    co_await end(operation, deployed, std::nullopt);
    co_return;
  }
  Result<DeploymentId> interrupted = cancelled();
  if (!operation->cancelled_at) {
    interrupted = fail("interrupted", "dgxmm was ended while it carried out the plan", "ask for the plans again");
  }
  co_await end(operation, interrupted, std::nullopt);
}

// --- what is kept of it

void Operations::begin_step(dto::Operation& operation, std::size_t index, std::string state) {
  auto& step = operation.steps.at(index);
  auto before = std::exchange(step, {.what = step.what,
                                     .state = std::move(state),
                                     .message = {},
                                     .stops = step.stops,
                                     .sleeps = step.sleeps,
                                     .level = step.level,
                                     .wakes = step.wakes});
  try {
    save(operation);
  } catch (...) {
    step = std::move(before);
    throw;
  }
  publish_step(operation, index);
}

void Operations::end_step(dto::Operation& operation, std::size_t index, std::string state, std::string message) {
  auto& step = operation.steps.at(index);
  step.state = std::move(state);
  step.message = std::move(message);
  save_fact(operation);
  publish_step(operation, index);
}

void Operations::publish_step(const dto::Operation& operation, std::size_t index) {
  const auto& step = operation.steps.at(index);
  const auto text = step.message.empty() ? fmt::format("{}: {}", step.what, step.state)
                                         : fmt::format("{}: {} ({})", step.what, step.state, step.message);
  events_.publish("operation.step", std::nullopt, text,
                  {{"operation", operation.id}, {"step", std::to_string(index)}, {"state", step.state}});
}

void Operations::save(const dto::Operation& operation) {
  const auto id = parse_number(operation.id).value();
  store_.update_operation({id, to_document(operation)});
  unsaved_.erase(id);
}

void Operations::save_fact(const dto::Operation& operation) {
  try {
    save(operation);
  } catch (const std::exception& error) {
    log::error("operation {}: how it went could not be stored, and will be tried again: {}", operation.id,
               error.what());
    unsaved_.insert(parse_number(operation.id).value());
  }
}

void Operations::retry_unsaved() {
  for (const auto id : std::set<std::int64_t>{unsaved_}) save_fact(*operations_.at(id));
}

std::shared_ptr<const dto::Operation> Operations::find(const std::string& id) const {
  const auto number = parse_number(id);
  const auto found = number ? operations_.find(*number) : operations_.end();
  return found == operations_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const dto::Operation>> Operations::all() const {
  std::vector<std::shared_ptr<const dto::Operation>> result;
  for (const auto& [id, operation] : operations_) result.push_back(operation);
  return result;
}

}  // namespace dgxmm::service
