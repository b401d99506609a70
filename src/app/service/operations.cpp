#include "app/service/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <system_error>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRememberedOperations = 64;
// `stop` returns when the memory is back; the host's own counters may follow a little later.
constexpr auto kMemoryLimit = 60s;
constexpr auto kMemoryPoll = 100ms;

const planner::Plan* find_plan(const PlanSet& set, const std::string& id) {
  const auto found = std::ranges::find(set.plans.plans, id, &planner::Plan::id);
  return found == set.plans.plans.end() ? nullptr : &*found;
}

/// A plan is executed only as it was shown. When the request fits by now there are no plans: nothing is stopped for it.
bool still_holds(const planner::Plan& shown, const planner::Plans& now) {
  const auto found = std::ranges::find(now.plans, shown.id, &planner::Plan::id);
  return found != now.plans.end() && found->fits && found->stops == shown.stops && found->config == shown.config;
}

}  // namespace

struct Operations::Running {
  std::shared_ptr<dto::Operation> operation;
  Prepared prepared;
  planner::Plan plan;
  std::vector<DeploymentId> stopped;
};

Operations::Operations(Admission& admission, Supervisor& supervisor, DeploymentTable& table, EventLog& events,
                       Sampler& sampler, Clock& clock, ports::EventLoop& loop)
    : admission_(admission),
      supervisor_(supervisor),
      table_(table),
      events_(events),
      sampler_(sampler),
      clock_(clock),
      loop_(loop) {}

Result<Operations::Begun> Operations::apply(const std::string& plan_set, const std::string& plan_id) {
  const auto* set = plan_set.empty() ? admission_.newest_set_with(plan_id) : admission_.find_set(plan_set);
  const auto* plan = set == nullptr ? nullptr : find_plan(*set, plan_id);
  if (plan == nullptr) {
    return fail("plan_not_found",
                fmt::format("there is no plan '{}'", plan_set.empty() ? plan_id : plan_set + "/" + plan_id),
                "plans are forgotten when the daemon restarts: ask for them again with `dgxmm plan`", plan_id);
  }
  if (!plan->fits) {
    return fail(
        "does_not_fit",
        fmt::format("plan {} does not make enough room: {} would be missing", plan_id, format_bytes(plan->shortfall)),
        "choose a plan that fits", plan_id);
  }
  auto running = std::make_shared<Running>();
  running->prepared = set->prepared;
  running->plan = *plan;
  const auto set_id = set->id;

  const auto snapshot = sampler_.refresh();
  if (snapshot->problem) return fail(*snapshot->problem);
  const auto now = admission_.plans_for(running->prepared);
  if (!now) return fail(now.error());
  if (!still_holds(running->plan, *now)) {
    auto changed = admission_.plan_prepared(running->prepared);
    if (!changed) return fail(changed.error());
    return Begun{.operation = {}, .changed = std::move(*changed)};
  }

  auto operation = std::make_shared<dto::Operation>();
  operation->id = fmt::format("{}", ++last_id_);
  operation->plan_set = set_id;
  operation->plan = plan_id;
  operation->state = "running";
  for (const auto id : running->plan.stops) {
    const auto* deployment = table_.find(id);
    operation->steps.push_back(
        {fmt::format("stop {}", deployment == nullptr ? std::to_string(id.value) : deployment->name), "waiting", {}});
  }
  operation->steps.push_back({"wait until the memory is free", "waiting", {}});
  operation->steps.push_back({fmt::format("start {}", running->prepared.model->name), "waiting", {}});
  running->operation = operation;
  operations_[last_id_] = operation;
  if (operations_.size() > kRememberedOperations) operations_.erase(operations_.begin());
  events_.publish("operation.started", std::nullopt,
                  fmt::format("carrying out plan {}: {}", plan_id, running->plan.title),
                  {{"operation", operation->id}, {"plan", plan_id}});
  loop_.spawn("plan " + plan_id, run(running));
  return Begun{.operation = operation, .changed = {}};
}

ports::Task<> Operations::run(std::shared_ptr<Running> running) {
  auto& operation = *running->operation;
  const auto deployed = co_await carry_out_or_fail(running);
  if (deployed) {
    operation.state = "succeeded";
    operation.deployment = *deployed;
    events_.publish("operation.succeeded", *deployed, fmt::format("plan {} is done", operation.plan),
                    {{"operation", operation.id}});
    co_return;
  }
  operation.failure = dto::Failure{deployed.error().code, deployed.error().message, deployed.error().hint, {}};
  if (operation.deployment) {
    if (const auto* failed = table_.find(*operation.deployment); failed != nullptr && failed->failure) {
      operation.failure->last_lines = failed->failure->last_lines;
    }
  }
  co_await undo(running);
  operation.state = "failed";
  events_.publish("operation.failed", std::nullopt,
                  fmt::format("plan {} failed: {}", operation.plan, deployed.error().message),
                  {{"operation", operation.id}});
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

ports::Task<Result<void>> Operations::readmit_or_fail(DeploymentId id) {
  try {
    auto result = co_await admission_.readmit_in_turn(id);
    co_return result;
  } catch (const std::exception& error) {
    co_return fail("internal_error", error.what());
  }
}

ports::Task<Bytes> Operations::wait_for_memory(Bytes needed) {
  const auto limit = clock_.steady() + kMemoryLimit;
  while (needed > sampler_.refresh()->budget.free_for_new && clock_.steady() < limit && !loop_.stopping()) {
    co_await loop_.sleep_for(kMemoryPoll);
  }
  co_return sampler_.latest()->budget.free_for_new;
}

ports::Task<Result<DeploymentId>> Operations::carry_out(std::shared_ptr<Running> running) {
  auto turn = co_await admission_.turns().take();
  if (loop_.stopping()) co_return fail("shutting_down", "dgxmm is shutting down");
  auto& operation = *running->operation;
  const auto& plan = running->plan;
  const auto memory_step = plan.stops.size();
  const auto start_step = memory_step + 1;

  // Whoever had the turn before may have changed everything: an earlier apply of the same plan, say.
  sampler_.refresh();
  const auto now = admission_.plans_for(running->prepared);
  if (!now) co_return fail(now.error());
  if (!still_holds(plan, *now)) {
    co_return fail("plan_changed", "the host has changed since the plan was made: " + now->summary,
                   "ask for the plans again");
  }

  for (std::size_t i = 0; i < plan.stops.size(); ++i) {
    step(*running, i, "running");
    const auto id = plan.stops[i];
    running->stopped.push_back(id);
    const auto stopped = co_await supervisor_.stop(id);
    if (!stopped) {
      step(*running, i, "failed", stopped.error().message);
      co_return fail(stopped.error());
    }
    step(*running, i, "done");
  }

  step(*running, memory_step, "running");
  const auto free = co_await wait_for_memory(plan.needed);
  if (plan.needed > free) {
    const auto message = fmt::format("{} is needed, {} became free", format_bytes(plan.needed), format_bytes(free));
    step(*running, memory_step, "failed", message);
    co_return fail("does_not_fit", message, "something else took the memory; ask for the plans again");
  }
  step(*running, memory_step, "done", fmt::format("{} free", format_bytes(free)));

  step(*running, start_step, "running");
  auto request = engine::with_config(running->prepared.request, plan.config);
  const auto decision = co_await admission_.admit_in_turn(std::move(request));
  if (!decision) {
    step(*running, start_step, "failed", decision.error().message);
    co_return fail(decision.error());
  }
  if (!decision->admitted) {
    const auto& message = decision->refused->plans.summary;
    step(*running, start_step, "failed", message);
    co_return fail("does_not_fit", message);
  }
  const auto id = *decision->admitted;
  operation.deployment = id;
  supervisor_.start(id);
  turn.release();
  co_await supervisor_.settle(id);
  const auto* deployment = table_.find(id);
  if (deployment == nullptr || deployment->state != deployment::State::ready) {
    Error error{"engine_died", "the deployment did not become ready", {}, {}};
    if (deployment != nullptr && deployment->failure) {
      error =
          Error{deployment->failure->code, deployment->failure->message, deployment->failure->hint, deployment->name};
    }
    step(*running, start_step, "failed", error.message);
    co_return fail(std::move(error));
  }
  step(*running, start_step, "done");
  co_return id;
}

ports::Task<> Operations::undo(std::shared_ptr<Running> running) {
  if (loop_.stopping()) co_return;  // what is being stopped goes on being stopped after the restart
  auto turn = co_await admission_.turns().take();
  if (const auto deployed = running->operation->deployment) {
    const auto stopped = co_await supervisor_.stop(*deployed);
    static_cast<void>(stopped);  // if it goes on holding memory, the next lines say what that prevents
  }
  std::vector<std::size_t> restarted;
  for (auto i = running->stopped.size(); i-- > 0;) {
    const auto id = running->stopped[i];
    const auto* deployment = table_.find(id);
    if (deployment == nullptr || deployment->state != deployment::State::stopped) continue;
    co_await wait_for_memory(deployment->reserved());
    const auto readmitted = co_await readmit_or_fail(id);
    if (!readmitted) {
      step(*running, i, "undo_failed", readmitted.error().message);
      continue;
    }
    supervisor_.start(id);
    restarted.push_back(i);
  }
  turn.release();
  for (const auto i : restarted) {
    const auto id = running->stopped[i];
    co_await supervisor_.settle(id);
    const auto* deployment = table_.find(id);
    const bool back = deployment != nullptr && deployment->state == deployment::State::ready;
    step(*running, i, back ? "undone" : "undo_failed", back ? "started again" : "could not be started again");
  }
}

void Operations::step(Running& running, std::size_t index, std::string state, std::string message) {
  auto& operation = *running.operation;
  auto& changed = operation.steps.at(index);
  changed.state = std::move(state);
  changed.message = std::move(message);
  const auto text = changed.message.empty() ? fmt::format("{}: {}", changed.what, changed.state)
                                            : fmt::format("{}: {} ({})", changed.what, changed.state, changed.message);
  events_.publish("operation.step", std::nullopt, text,
                  {{"operation", operation.id}, {"step", std::to_string(index)}, {"state", changed.state}});
}

std::shared_ptr<const dto::Operation> Operations::find(const std::string& id) const {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(id.data(), id.data() + id.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != id.data() + id.size()) return nullptr;
  const auto found = operations_.find(number);
  return found == operations_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const dto::Operation>> Operations::all() const {
  std::vector<std::shared_ptr<const dto::Operation>> result;
  for (const auto& [id, operation] : operations_) result.push_back(operation);
  return result;
}

}  // namespace dgxmm::service
