// The part of the supervisor that puts engines to sleep and wakes them up.
#include "app/service/engine_calls.h"
#include "app/service/membership.h"
#include "app/service/supervisor.h"
#include "core/engine/guard.h"
#include "core/engine/request.h"
#include "core/memory/sleep.h"

#include <fmt/format.h>

#include <chrono>
#include <ranges>
#include <utility>
#include <variant>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;

// Requests in flight are finished first; then weights are copied, at 1 GiB in two seconds or faster, or read again.
constexpr auto kDrainLimit = 120s;
constexpr double kSecondsPerGib = 2;
constexpr double kReloadSecondsPerGib = 10;
constexpr auto kPartLimit = 60s;
constexpr int kGpuReadings = 2;  // after so many, one has begun and ended since
constexpr auto kEndPoll = 50ms;
constexpr auto kEndLimit = 2s;
constexpr std::size_t kLastLines = 200;

Error cannot_sleep(const Deployment& deployment) {
  if (engine::kind_of(deployment.config) != engine::EngineKind::vllm) {
    return {"cannot_sleep",
            fmt::format("{} runs with llama.cpp, which cannot sleep", deployment.name),
            "stop it instead",
            {}};
  }
  return {"cannot_sleep",
          fmt::format("{} was started without sleep_mode", deployment.name),
          "deploy it again with --sleep-mode, or stop it instead",
          {}};
}

Error not_ready(const Deployment& deployment) {
  return {"not_ready",
          fmt::format("{} is {}", deployment.name, deployment::name_of(deployment.state)),
          "only one that is ready can be put to sleep",
          {}};
}

std::chrono::milliseconds seconds_of(double s) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(s * 1000)};
}

std::chrono::milliseconds limit_for(const Deployment& deployment, double seconds_per_gib) {
  return seconds_of(deployment.estimate.part("weights").gib() * seconds_per_gib);
}

std::unexpected<Error> ended(const std::string& name) {
  return fail("not_ready", fmt::format("{} ended, or was stopped, while it fell asleep", name));
}

std::string in_flight(const engine::Activity& activity) {
  if (!activity.busy()) return "does not say whether requests are in flight";
  const auto requests = activity.requests_running.value_or(0) + activity.requests_waiting.value_or(0);
  return fmt::format("has {} request{} in flight", requests, requests == 1 ? "" : "s");
}

std::string freed_text(const std::optional<Bytes>& freed) {
  if (!freed) return "; what it gave back is not known";
  if (*freed < Bytes{}) return fmt::format("; it takes {} more than before", format_bytes(-*freed));
  return fmt::format(", {} given back", format_bytes(*freed));
}

}  // namespace

ports::Task<Result<void>> Supervisor::post(Watch watch, engine::EngineCall call, std::chrono::milliseconds deadline) {
  const auto* deployment = current(watch);
  if (deployment == nullptr) co_return fail("not_ready", "it has ended");
  ports::HttpCall request;
  request.target.port = deployment->port;
  if (!deployment->guard_secret.empty()) request.headers.emplace_back(engine::kGuardHeader, deployment->guard_secret);
  request.method = "POST";
  request.path = std::move(call.path);
  request.body = std::move(call.body);
  if (!request.body.empty()) request.headers.emplace_back("Content-Type", "application/json");
  request.deadline = deadline;
  const auto reply = co_await world_.http.call(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (reply->status == 200) co_return Result<void>{};
  if (reply->status == 404) {
    co_return fail("cannot_sleep", "this vLLM has no calls for sleeping", "it may be too old");
  }
  co_return fail("sleep_failed", fmt::format("the engine answered with status {}", reply->status),
                 "the last lines of its log say why");
}

ports::Task<std::optional<bool>> Supervisor::is_guarded(Watch watch) {
  constexpr int kUnauthorized = 401;
  constexpr int kForbidden = 403;
  constexpr int kServerError = 500;
  const auto* deployment = current(watch);
  if (deployment == nullptr || !can_sleep(*deployment)) co_return true;
  const auto answer = co_await world_.http.call(get(deployment->port, engine::kIsSleepingPath));
  if (!answer || answer->status >= kServerError) co_return std::nullopt;
  // Not even a call that it does not have is answered otherwise.
  co_return answer->status == kUnauthorized || answer->status == kForbidden;
}

ports::Task<std::optional<int>> Supervisor::ask_sleep_level(Watch watch) {
  const auto* deployment = current(watch);
  if (deployment == nullptr) co_return std::nullopt;
  if (!can_sleep(*deployment)) co_return 0;
  const auto port = deployment->port;
  auto question = get(port, engine::kIsSleepingPath);
  if (!deployment->guard_secret.empty()) question.headers.emplace_back(engine::kGuardHeader, deployment->guard_secret);
  const auto answer = co_await world_.http.call(std::move(question));
  if (!answer) co_return std::nullopt;
  if (answer->status == 404) co_return 0;
  const auto asleep = engine::parse_is_sleeping(answer->body);
  if (answer->status != 200 || !asleep) co_return std::nullopt;
  if (!*asleep) co_return 0;
  const auto metrics = co_await world_.http.call(get(port, engine::kMetricsPath));
  if (!metrics || metrics->status != 200) co_return std::nullopt;
  const auto level = engine::parse_activity(engine::EngineKind::vllm, metrics->body).sleep_level.value_or(0);
  if (level == 0) co_return std::nullopt;
  co_return level;
}

std::optional<Bytes> Supervisor::held_by(const Deployment& deployment) {
  if (!deployment.instance) return std::nullopt;
  const auto measured = sampler_.measure(*deployment.instance);
  return measured ? measured->complete_total() : std::nullopt;
}

ports::Task<Deployment*> Supervisor::after_its_end(Watch watch) {
  const auto* before = current(watch);
  if (before == nullptr) co_return nullptr;
  const auto state = before->state;
  for (auto waited = 0ms; waited < kEndLimit; waited += kEndPoll) {
    co_await world_.loop.sleep_for(kEndPoll);
    auto* deployment = current(watch);
    if (deployment == nullptr || deployment->state != state) co_return deployment;
  }
  co_return current(watch);
}

ports::Task<Result<void>> Supervisor::check_idle(DeploymentId id) {
  auto* deployment = table_.find(id);
  if (deployment == nullptr || deployment->state != deployment::State::ready) co_return Result<void>{};
  const Watch watch{id, deployment->generation};
  co_await poll_activity(watch);
  deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::ready) co_return Result<void>{};
  if (!deployment->activity.busy().value_or(true)) co_return Result<void>{};
  co_return fail("busy", fmt::format("{} {}", deployment->name, in_flight(deployment->activity)), {}, deployment->name);
}

// --- falling asleep

ports::Task<Result<void>> Supervisor::sleep(DeploymentId id, int level, bool force) {
  auto* deployment = table_.find(id);
  if (deployment == nullptr) co_return fail("deployment_not_found", fmt::format("there is no deployment {}", id.value));
  if (!can_sleep(*deployment)) co_return fail(cannot_sleep(*deployment));
  if (deployment->state == deployment::State::sleeping) {
    if (deployment->sleep_level == level) co_return Result<void>{};
    co_return fail("not_ready",
                   fmt::format("{} sleeps already, at level {}", deployment->name, deployment->sleep_level.value_or(1)),
                   "wake it first");
  }
  if (deployment->state != deployment::State::ready) co_return fail(not_ready(*deployment));
  const Watch watch{id, deployment->generation};
  Result<void> idle;
  if (!changing_sleep_.contains(id) && !force) idle = co_await check_idle(id);
  deployment = current(watch);
  if (deployment == nullptr) co_return fail("not_ready", "it was started anew meanwhile");
  if (deployment->state != deployment::State::ready) co_return fail(not_ready(*deployment));
  if (changing_sleep_.contains(id)) {
    co_return fail("not_ready", fmt::format("{} is falling asleep already", deployment->name), "wait for it");
  }
  if (!idle) {
    co_return fail("busy", idle.error().message,
                   fmt::format("with force they are finished first, within {} s", kDrainLimit.count()));
  }
  auto outcome = std::make_shared<Result<void>>(fail("internal", "putting it to sleep was broken off"));
  changing_sleep_.insert(id);
  // A task of its own: it goes on when whoever asked has left.
  world_.loop.spawn(fmt::format("put {} to sleep", deployment->name), run_sleep(watch, level, outcome));
  while (changing_sleep_.contains(id) && !world_.loop.stopping()) co_await events_.changed().wait_for(1s);
  if (world_.loop.stopping())
    co_return fail("shutting_down", "dgxmm is shutting down; it may fall asleep all the same");
  co_return *outcome;
}

ports::Task<> Supervisor::run_sleep(Watch watch, int level, std::shared_ptr<Result<void>> outcome) {
  const Membership changing{changing_sleep_, watch.id};
  const auto result = co_await fall_asleep(watch, level);
  *outcome = result;
  const auto* deployment = current(watch);
  if (deployment == nullptr || result) co_return;
  events_.publish(
      "deployment.sleep_failed", watch.id,
      fmt::format("{} is {}: {}", deployment->name, deployment::name_of(deployment->state), result.error().message),
      {{"name", deployment->name}});
}

ports::Task<Result<void>> Supervisor::fall_asleep(Watch watch, int level) {
  auto* deployment = current(watch);
  if (deployment == nullptr || !deployment->instance) co_return fail("not_ready", "it has ended");
  const auto name = deployment->name;
  const auto before = held_by(*deployment);
  const auto measured = sampler_.measure(*deployment->instance);
  const bool on_gpu = measured && measured->gpu.value_or(Bytes{}) > Bytes{};
  const auto limit = kDrainLimit + limit_for(*deployment, kSecondsPerGib);
  const auto begun = world_.clock.steady();
  auto result = co_await post(watch, engine::sleep_call(level), limit);
  if (!result && result.error().code == "deadline_exceeded") {
    result = fail("sleep_failed",
                  fmt::format("{} would not sleep within {} s", name,
                              std::chrono::duration_cast<std::chrono::seconds>(limit).count()),
                  "requests may be in flight that do not end");
    // It has stopped to serve, and waits.
    static_cast<void>(co_await post(watch, engine::wake_call(engine::kSchedulingTag), kPartLimit));
  }
  const auto now = co_await ask_sleep_level(watch);
  deployment = now ? current(watch) : co_await after_its_end(watch);
  if (deployment == nullptr || deployment->state != deployment::State::ready) {
    co_return ended(name);
  }
  last_answer_[watch.id] = world_.clock.steady();
  if (now == level) {
    record_sleep_time(*deployment, planner::Action::sleep, level, begun);
    if (on_gpu) {  // its figures are of a reading from before
      co_await world_.loop.sleep_for(kGpuReadings * seconds_of(settings_.budget_interval_s));
      deployment = current(watch);
      if (deployment == nullptr || deployment->state != deployment::State::ready) co_return ended(name);
    }
    const auto after = held_by(*deployment);
    deployment->failure.reset();
    slept(*deployment, level, before && after ? std::optional{*before - *after} : std::nullopt);
    co_return Result<void>{};
  }
  if (result) {
    result = fail("sleep_failed", fmt::format("{} said that it sleeps, and does not", name));
  } else if (result.error().code != "cannot_sleep") {
    result = fail("sleep_failed", result.error().message, result.error().hint);
  }
  if (now != 0) {  // neither asleep nor awake: what it holds is not known
    table_.apply(*deployment, deployment::Event::unreachable, "did not fall asleep, and does not say that it serves");
    sampler_.refresh();
  }
  co_return result;
}

std::optional<Bytes> Supervisor::freed_by_log(const Deployment& deployment) {
  for (const auto& line : std::views::reverse(world_.logs.tail(identity_.log_path(deployment.id), kLastLines))) {
    if (const auto freed = engine::parse_sleep_line(line)) return freed->total - freed->backed_up;
  }
  return std::nullopt;
}

void Supervisor::slept(Deployment& deployment, int level, std::optional<Bytes> freed) {
  if (!freed) freed = freed_by_log(deployment);
  const auto held = held_by(deployment);
  deployment.sleep_level = level;
  deployment.sleep_freed = freed;
  deployment.asleep = held;
  deployment.wake_peak = {};
  deployment.progress = {};
  if (held && freed) {
    estimates_.record_sleep({.fingerprint = deployment.fingerprint,
                             .configuration_key = engine::configuration_key(deployment.config),
                             .level = level,
                             .asleep = *held,
                             .freed = *freed,
                             .recorded_at = world_.clock.wall()});
  }
  table_.apply(deployment, deployment::Event::fell_asleep,
               fmt::format("sleeping (level {}){}", level, freed_text(freed)));
  sampler_.refresh();
}

void Supervisor::record_sleep_time(const Deployment& deployment, planner::Action action, int level, SteadyTime begun) {
  estimates_.record_duration({.fingerprint = deployment.fingerprint,
                              .action = action,
                              .level = level,
                              .took = std::chrono::ceil<std::chrono::seconds>(world_.clock.steady() - begun),
                              .recorded_at = world_.clock.wall()});
}

void Supervisor::note_sleep(Deployment& deployment) {
  const auto level = deployment.activity.sleep_level;
  if (!level) return;
  if (deployment.state == deployment::State::ready && *level > 0) {
    slept(deployment, *level, std::nullopt);
  } else if (deployment.state == deployment::State::sleeping && *level == 0) {
    deployment.sleep_level.reset();
    deployment.failure.reset();
    table_.apply(deployment, deployment::Event::woke_up, "woke up, by a call that was not dgxmm's");
    sampler_.refresh();
  }
}

// --- waking up

void Supervisor::wake(DeploymentId id) {
  auto* deployment = table_.find(id);
  if (deployment == nullptr || deployment->state != deployment::State::loading) return;
  changing_sleep_.insert(id);
  deployment->failure.reset();
  deployment->progress.phase = "waking up";
  world_.loop.spawn(fmt::format("wake {}", deployment->name), run_wake({id, deployment->generation}));
}

ports::Task<> Supervisor::run_wake(Watch watch) {
  const Membership changing{changing_sleep_, watch.id};
  const auto* asked = current(watch);
  if (asked == nullptr) co_return;
  TurnQueue::Claim claim{.what = "wake " + asked->name, .priority = asked->priority, .deployment = watch.id};
  const auto turn = co_await starts_.take(std::move(claim));
  auto* deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::loading) co_return;
  if (!turn) {  // nothing was begun: it sleeps as it did
    deployment->failure = Failure{turn.error().code, turn.error().message, turn.error().hint, {}};
    deployment->progress = {};
    deployment->wake_peak = {};
    table_.apply(*deployment, deployment::Event::fell_asleep, "still asleep: " + turn.error().message);
    sampler_.refresh();
    co_return;
  }
  const StartOnRecord on_record{start_journal_, watch.id};
  co_await start_journal_.begin(watch.id);
  deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::loading) co_return;
  const auto begun = world_.clock.steady();
  world_.loop.spawn(fmt::format("guard {}", deployment->name), guard_start(watch));
  auto awake = co_await wake_by_parts(watch);
  deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::loading) co_return;
  if (!awake) {
    co_await wake_failed(watch, std::move(awake.error()));
    co_return;
  }
  const auto took = std::chrono::duration<double>(world_.clock.steady() - begun).count();
  record_sleep_time(*deployment, planner::Action::wake, deployment->sleep_level.value_or(1), begun);
  deployment->sleep_level.reset();
  deployment->wake_peak = {};
  deployment->progress = {};
  deployment->idle.reset();  // whoever woke it is about to use it
  last_answer_[watch.id] = world_.clock.steady();
  table_.apply(*deployment, deployment::Event::engine_ready, fmt::format("awake after {:.1f} s", took));
  sampler_.refresh();
}

ports::Task<Result<void>> Supervisor::wake_by_parts(Watch watch) {
  auto* deployment = current(watch);
  if (deployment == nullptr) co_return fail("not_ready", "it has ended");
  const auto level = deployment->sleep_level.value_or(1);
  const auto cache = deployment->estimate.pool();
  const auto weights_limit = kPartLimit + limit_for(*deployment, kSecondsPerGib);
  const auto reload_limit = kPartLimit + limit_for(*deployment, kReloadSecondsPerGib);

  deployment->progress.phase = "waking up: weights";
  auto done = co_await post(watch, engine::wake_call(engine::kWeightsTag), weights_limit);
  if (!done) co_return done;
  if (level == 2) {
    if (auto* reading = current(watch)) reading->progress.phase = "waking up: reading weights";
    done = co_await post(watch, engine::reload_weights_call(), reload_limit);
    if (!done) co_return done;
  }
  const auto floor = gib_from_decimal(settings_.start_floor_gib);
  if (const auto available = sampler_.mem_available(); available && *available < cache + floor) {
    co_return fail("memory_moved",
                   fmt::format("its weights are back, and only {} are left on the host: its cache of {} does not fit "
                               "above start_floor_gib ({})",
                               format_bytes(*available), format_bytes(cache), format_bytes(floor)),
                   "something else took memory meanwhile: see `dgxmm processes`, then wake it again");
  }
  if (auto* mapping = current(watch)) mapping->progress.phase = "waking up: KV cache";
  done = co_await post(watch, engine::wake_call(engine::kCacheTag), kPartLimit);
  if (!done) co_return done;
  const auto now = co_await ask_sleep_level(watch);
  if (now == 0) co_return Result<void>{};
  co_return fail("wake_failed", "it said that it is awake, and is not", "the last lines of its log may say why");
}

ports::Task<> Supervisor::wake_failed(Watch watch, Error error) {
  auto* deployment = current(watch);
  if (deployment == nullptr) co_return;
  const auto level = deployment->sleep_level.value_or(1);
  deployment->failure = Failure{error.code, error.message, error.hint, {}};
  if (error.code == "memory_moved") {  // there is room for what it held
    const auto limit = kPartLimit + limit_for(*deployment, kSecondsPerGib);
    const auto asleep = co_await post(watch, engine::sleep_call(level), limit);
    deployment = current(watch);
    if (deployment == nullptr || deployment->state != deployment::State::loading) co_return;
    if (asleep) {
      deployment->progress = {};
      deployment->wake_peak = {};
      table_.apply(*deployment, deployment::Event::fell_asleep, "sleeps again: " + error.message);
      sampler_.refresh();
      co_return;
    }
  }
  deployment = co_await after_its_end(watch);
  if (deployment == nullptr || deployment->state != deployment::State::loading) co_return;
  table_.apply(*deployment, deployment::Event::unreachable, "did not wake up: " + error.message);
  sampler_.refresh();
}

}  // namespace dgxmm::service
