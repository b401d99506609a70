#include "app/service/supervisor.h"

#include "app/dto/dto.h"
#include "app/service/engine_calls.h"
#include "app/service/membership.h"
#include "app/service/orphans.h"
#include "base/log.h"
#include "base/masking.h"
#include "base/secret.h"
#include "core/deployment/readiness.h"
#include "core/engine/engine.h"
#include "core/engine/vllm.h"
#include "core/memory/start_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;

constexpr auto kLoadingPoll = 100ms;
constexpr auto kUnreachablePoll = 500ms;
constexpr auto kHelpDeadline = 10s;
constexpr auto kContainerHelpDeadline = 60s;
constexpr auto kOutdatedPoll = 30s;
constexpr auto kReleasePoll = 50ms;
constexpr auto kGuardPoll = 200ms;
constexpr auto kGuardGrace = 500ms;  // the host has about two seconds left
// Minutes have been observed on GB10 between the end of an engine and the return of its memory.
constexpr auto kReleaseLimit = 240s;
// What a dead group may keep: page tables and slab of the kernel that are freed later.
constexpr Bytes kReleasedBelow = mib(4);
// One that refuses connections, or answers with an error, does not serve; a long prompt on a busy host may keep it from
// answering for much longer.
constexpr auto kRefusingUntilUnknown = 10s;
constexpr auto kSilentUntilUnknown = 60s;
// An engine whose core has died ends its server a few seconds later, or never.
constexpr auto kOverUntilEnded = 20s;
// One that is used has its time stored this often at most. What was not stored shows by its counters after a restart.
constexpr auto kIdleWorthStoring = 30s;
constexpr std::string_view kHostRestarted = "host_restarted";
constexpr std::size_t kFailureLines = 20;
// So many lines of the log are looked through for one that is worth showing: our own questions leave most of them.
constexpr std::size_t kRoutineLinesPerLine = 50;
// Of an engine that once served, only its last words can be the cause of its end.
constexpr std::size_t kLoadingLines = 500;
constexpr std::size_t kLastWords = 40;
// GB10: loading takes minutes; at least 10 s per GiB of weights are allowed.
constexpr double kSecondsPerGib = 10;

std::chrono::milliseconds seconds(double s) { return std::chrono::milliseconds{static_cast<std::int64_t>(s * 1000)}; }

bool released(const std::optional<memory::Measured>& measured) {
  if (!measured) return true;
  return measured->anon.value_or(Bytes{0}) + measured->shmem.value_or(Bytes{0}) + measured->gpu.value_or(Bytes{0}) <
         kReleasedBelow;
}

/// The device to keep engines to where not all share the host's memory: what they take on the others is not planned.
std::optional<std::string> engine_device(const host::GpuReading& gpu) {
  if (gpu.host_class != host::HostClass::mixed) return std::nullopt;
  const auto shared = std::ranges::find(gpu.devices, host::HostClass::integrated, &host::GpuDevice::host_class);
  return shared == gpu.devices.end() ? std::nullopt : std::optional{shared->uuid};
}

/// Nothing more is to be done about it by a watcher.
bool is_ending(const Deployment& deployment) {
  return deployment.state == deployment::State::stopping || deployment::is_final(deployment.state);
}

/// Who may have sent a signal that nobody here asked for: candidates, no finding.
std::string guard_candidates(const std::vector<std::string>& guards) {
  return fmt::format("{} run{} on this host and may have ended it to free memory: `journalctl -u {}` says whether",
                     fmt::join(guards, " and "), guards.size() == 1 ? "s" : "", fmt::join(guards, " -u "));
}

Failure wants_key() {
  return {"engine_wants_key",
          "it is alive, but wants an API key that dgxmm does not have",
          "take the key out of its image (VLLM_API_KEY, LLAMA_API_KEY): it listens on this host alone",
          {}};
}

Failure not_guarded() {
  return {"engine_not_guarded",
          "it answers calls that control it from everybody on this host: its vLLM did not load dgxmm's guard",
          "deploy it without --sleep-mode, or use a vLLM whose server takes --middleware",
          {}};
}

Failure over_but_answering(const engine::LogReader& reader, std::vector<std::string> last_lines) {
  const auto reason = reader.failure().value_or(engine::FailureReason{});
  return {reason.code, reason.message + "; its server went on answering", reason.hint, std::move(last_lines)};
}

Failure describe(const memory::StartDanger& danger, std::vector<std::string> last_lines) {
  auto message = danger.lost_per_second
                     ? fmt::format("only {} were left on the host, {} less each second: ended before the host ran out",
                                   format_bytes(danger.available), format_bytes(*danger.lost_per_second))
                     : fmt::format(
                           "only {} were left on the host, less than start_floor_gib ({}): ended before the "
                           "host ran out",
                           format_bytes(danger.available), format_bytes(danger.floor));
  return {"start_guard", std::move(message), "ask for less or stop something first; it is not tried again by itself",
          std::move(last_lines)};
}

Failure not_ready_in_time(const deployment::ReadinessLimit& limit, SteadyTime now,
                          std::vector<std::string> last_lines) {
  const auto whole = [](std::chrono::milliseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
  };
  auto message = fmt::format("it did not become ready within {} s", whole(limit.taken(now)));
  if (const auto still = limit.still(now)) message += fmt::format("; it last got on {} s before", whole(*still));
  return {"ready_timeout", std::move(message),
          "look at its log; raise `ready_timeout_s` if the model only needs longer", std::move(last_lines)};
}

}  // namespace

std::string Identity::instance_name(DeploymentId id) const { return fmt::format("{}{}", instance_prefix, id.value); }
std::string Identity::log_path(DeploymentId id) const { return fmt::format("{}/logs/{}.log", state_dir, id.value); }

Supervisor::Supervisor(World world, DeploymentTable& table, EventLog& events, Sampler& sampler, Estimates& estimates,
                       StartJournal& start_journal, const settings::Settings& settings, Identity identity)
    : world_(world),
      table_(table),
      events_(events),
      sampler_(sampler),
      estimates_(estimates),
      start_journal_(start_journal),
      settings_(settings),
      identity_(std::move(identity)),
      starts_("start", seconds(settings.queue_limit_s), world.loop, world.clock) {}

Deployment* Supervisor::current(Watch watch) {
  auto* deployment = table_.find(watch.id);
  if (deployment == nullptr || deployment->generation != watch.generation || world_.loop.stopping()) return nullptr;
  return deployment;
}

// --- starting

void Supervisor::start(DeploymentId id) {
  auto* deployment = table_.find(id);
  if (deployment == nullptr) return;
  ++deployment->generation;
  deployment->progress = {};
  deployment->activity = {};
  deployment->idle.reset();
  deployment->sleep_level.reset();
  deployment->outdated.clear();
  deployment->wake_peak = {};
  world_.loop.spawn(fmt::format("start {}", deployment->name), run_start({id, deployment->generation}));
}

ports::Task<std::set<std::string, std::less<>>> Supervisor::supported_flags(std::string executable,
                                                                            std::optional<container::Image> image) {
  const auto id = image ? image->id : std::string{};
  if (const auto known = flags_of_images_.find(id); image && known != flags_of_images_.end()) co_return known->second;
  std::vector<std::string> arguments{image ? std::string{} : executable, "--help"};
  const auto deadline = image ? kContainerHelpDeadline : kHelpDeadline;
  const auto help = co_await world_.runtime.output_of(std::move(arguments), deadline, id);
  if (!help) {
    log::warning("{} --help: {}; it is given the flags of the current build", printable(image ? id : executable),
                 help.error().message);
    const bool may_answer_later = help.error().code == "docker_unreachable" || help.error().code == "shutting_down";
    if (image && !may_answer_later) flags_of_images_[id] = {};
    co_return std::set<std::string, std::less<>>{};
  }
  auto flags = engine::parse_help_flags(*help);
  if (image) flags_of_images_.insert_or_assign(id, flags);
  co_return flags;
}

/// Nothing for a process.
ports::Task<Result<std::optional<container::Image>>> Supervisor::provide_image(Watch watch) {
  const auto* deployment = current(watch);
  if (deployment == nullptr || !engine::in_container(deployment->request)) {
    co_return Result<std::optional<container::Image>>{std::nullopt};
  }
  auto reference = deployment->request.image.value_or("");
  ports::PullWatcher watcher = [this, watch](const std::string& phase) { return note_pull(watch, phase); };
  auto image = co_await world_.runtime.provide_image(std::move(reference), std::move(watcher));
  if (!image) co_return fail(image.error());
  co_return std::optional{std::move(*image)};
}

/// A pull goes on as long as the deployment is to start.
bool Supervisor::note_pull(Watch watch, const std::string& phase) {
  auto* deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::starting) return false;
  if (deployment->progress.phase == phase) return true;
  deployment->progress.phase = phase;
  events_.publish("deployment.progress", watch.id, fmt::format("{}: {}", deployment->name, phase),
                  {{"name", deployment->name}, {"phase", phase}});
  return true;
}

ports::Task<Supervisor::Surroundings> Supervisor::look_around(Watch watch, std::optional<container::Image> image) {
  Surroundings found;
  found.image = std::move(image);
  const auto* deployment = current(watch);
  if (deployment == nullptr) co_return found;
  auto models = engine::models_of(deployment->model_path, deployment->config);
  // vLLM takes a minute to say what it knows.
  if (engine::kind_of(deployment->config) == engine::EngineKind::llamacpp) {
    found.flags = co_await supported_flags(settings_.llama_server, found.image);
  }
  if (found.image) found.links = co_await estimates_.linked_files(std::move(models));
  co_return found;
}

engine::LaunchSpec Supervisor::launch_spec(const Deployment& deployment, const Surroundings& surroundings) const {
  const bool contained = engine::in_container(deployment.request);
  engine::LaunchSpec spec{.executable = contained ? std::string{} : executable_of(deployment),
                          .image_entrypoint = {},
                          .model_path = deployment.model_path,
                          .served_name = deployment.served_name,
                          .host = contained ? "0.0.0.0" : "127.0.0.1",
                          .port = contained ? engine::kContainerPort : deployment.port,
                          .config = deployment.config,
                          .supported_flags = surroundings.flags,
                          .guard_secret = deployment.guard_secret};
  if (surroundings.image) spec.image_entrypoint = surroundings.image->entrypoint;
  if (engine::kind_of(deployment.config) == engine::EngineKind::vllm) {
    const auto snapshot = sampler_.latest();
    spec.kv_cache = deployment.estimate.pool();
    const auto meminfo = sampler_.meminfo();
    const auto seen_free =
        meminfo ? engine::seen_free(meminfo->mem_available, meminfo->mem_free, spec.kv_cache.has_value()) : Bytes{};
    spec.gpu_memory_utilization = engine::gpu_memory_utilization(
        deployment.reserved(), snapshot->mem_total, seen_free, engine::taken_before_the_first_look(most_taken_first()));
  }
  return spec;
}

std::optional<Bytes> Supervisor::most_taken_first() const {
  std::optional<Bytes> most;
  for (const auto* deployment : table_.all()) most = std::max(most, deployment->taken_first);
  return most;
}

void Supervisor::note_first_look(Deployment& deployment, const engine::LogReader& reader) {
  constexpr Bytes kMost = gib(16);  // more is of something else that took memory at the same time
  const auto seen = reader.first_seen_free();
  if (!seen || !deployment.available_at_launch) return;
  const auto taken = *deployment.available_at_launch - *seen;
  if (taken > Bytes{} && taken <= kMost) deployment.taken_first = taken;
}

const std::string& Supervisor::executable_of(const Deployment& deployment) const {
  return engine::kind_of(deployment.config) == engine::EngineKind::vllm ? settings_.vllm : settings_.llama_server;
}

ports::InstanceSpec Supervisor::spec_of(const Deployment& deployment, const Surroundings& surroundings) const {
  auto launch = launch_spec(deployment, surroundings);
  auto command = engine::make_command(launch);
  launch.gpu_memory_utilization.reset();  // follows what is free at the moment
  auto lasting = engine::make_command(launch);
  ports::InstanceSpec spec{.deployment = deployment.id,
                           .name = identity_.instance_name(deployment.id),
                           .arguments = std::move(command.arguments),
                           .lasting_arguments = std::move(lasting.arguments),
                           .environment = std::move(command.environment),
                           .log_path = identity_.log_path(deployment.id),
                           .before_start = {},
                           .module = {},
                           .container = {}};
  if (can_sleep(deployment)) spec.module = engine::kGuard;
  if (const auto device = engine_device(sampler_.latest()->gpu)) {
    spec.environment.emplace_back("CUDA_VISIBLE_DEVICES", *device);
  }
  auto* const tcp_ports = &world_.tcp_ports;
  spec.before_start = [tcp_ports, port = deployment.port] { tcp_ports->release(port); };
  if (!engine::in_container(deployment.request)) return spec;
  spec.environment.emplace_back("HOME", engine::kContainerHome);
  auto mounts = engine::model_mounts(deployment.model_path, deployment.config);
  for (const auto& link : surroundings.links) mounts.push_back({.source = link.file, .target = link.path});
  spec.container = container::Settings{.image = deployment.request.image.value_or(""),
                                       .mounts = std::move(mounts),
                                       .gpu = world_.gpu_present,
                                       .shm_size = engine::shared_memory_limit(deployment.config),
                                       .host_port = deployment.port,
                                       .container_port = engine::kContainerPort,
                                       .cache_folder = std::string{engine::kContainerHome}};
  return spec;
}

/// D6: somebody took the port between our letting go of it and the engine's binding it.
bool Supervisor::move_to_another_port(Deployment& deployment) {
  if (deployment.state != deployment::State::starting || deployment.request.port) return false;
  const auto port = world_.tcp_ports.hold(std::nullopt);
  if (!port) return false;
  log::warning("{}: port {} was taken by another program, port {} is tried", deployment.name, deployment.port, *port);
  deployment.port = *port;
  table_.save_fact(deployment);
  return true;
}

void Supervisor::start_failed(Deployment& deployment, const Error& error) {
  world_.tcp_ports.release(deployment.port);                    // it may not have come to that
  if (deployment.state != deployment::State::starting) return;  // asked to stop: `finish_stopping` goes on from here
  deployment.failure = Failure{error.code, error.message, error.hint, {}};
  table_.apply(deployment, deployment::Event::start_failed, error.message);
  sampler_.refresh();
}

ports::Task<> Supervisor::run_start(Watch watch) {
  // Before its turn: others may start while it is pulled.
  const auto image = co_await provide_image(watch);
  if (!image) {
    if (auto* failed = current(watch)) start_failed(*failed, image.error());
    co_return;
  }
  const auto* asked = current(watch);
  if (asked == nullptr) co_return;
  TurnQueue::Claim claim{.what = "start " + asked->name, .priority = asked->priority, .deployment = watch.id};
  const auto turn = co_await starts_.take(std::move(claim));
  if (!turn) {
    if (auto* failed = current(watch)) start_failed(*failed, turn.error());
    co_return;
  }
  if (const auto* waiting = current(watch); waiting == nullptr || waiting->state != deployment::State::starting) {
    co_return;
  }
  being_started_.insert(watch.id);
  Membership starting{being_started_, watch.id};
  const auto surroundings = co_await look_around(watch, *image);
  auto* deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::starting) co_return;
  const StartOnRecord on_record{start_journal_, watch.id};
  co_await start_journal_.begin(watch.id);
  deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::starting) co_return;
  if (can_sleep(*deployment) && deployment->guard_secret.empty()) {
    deployment->guard_secret = make_secret();
    table_.save_fact(*deployment);
  }
  auto spec = spec_of(*deployment, surroundings);
  world_.logs.remove(spec.log_path);
  deployment->available_at_launch = sampler_.mem_available();
  auto started = co_await world_.runtime.start(std::move(spec));
  deployment = current(watch);
  const bool port_lost = deployment != nullptr && !started && started.error().code == "port_taken";
  if (port_lost && move_to_another_port(*deployment)) {
    auto again = spec_of(*deployment, surroundings);
    started = co_await world_.runtime.start(std::move(again));
  }
  starting.end();

  deployment = current(watch);
  if (deployment == nullptr) co_return;
  if (!started) {
    start_failed(*deployment, started.error());
    co_return;
  }
  set_instance(*deployment, std::move(*started));
  if (deployment->state != deployment::State::starting) {  // asked to stop: `finish_stopping` goes on from here
    table_.save_fact(*deployment);
    co_return;
  }
  table_.apply(*deployment, deployment::Event::instance_started,
               fmt::format("loading, {}", deployment->instance->shown()));
  sampler_.refresh();
  watch_instance(*deployment, true);
  co_await guard_start(watch);
}

ports::Task<> Supervisor::check_outdated(Watch watch) {
  const auto* before = current(watch);
  if (before == nullptr || !engine::in_container(before->request)) co_return;
  auto reference = before->request.image.value_or("");
  const auto image = co_await world_.runtime.provide_image(std::move(reference), {});
  if (!image) co_return;  // nothing to compare with
  const auto is_another = [&](const Deployment& deployment) {
    return deployment.instance && deployment.instance->image && deployment.instance->image != image->id;
  };
  Surroundings surroundings;
  if (const auto* looked = current(watch); looked != nullptr && !is_another(*looked)) {
    surroundings = co_await look_around(watch, *image);
  }
  auto* deployment = current(watch);
  if (deployment == nullptr || is_ending(*deployment) || !deployment->instance) co_return;
  std::string reason;
  if (is_another(*deployment)) {
    reason = fmt::format("the image {} is another one by now", printable(deployment->request.image.value_or("")));
  } else if (!world_.runtime.is_as_specified(*deployment->instance, spec_of(*deployment, surroundings), *image)) {
    reason = "it would be started with other settings now";
  }
  if (reason == deployment->outdated) co_return;
  deployment->outdated = reason;
  const auto message = reason.empty() ? std::string{"up to date again"}
                                      : fmt::format("outdated: {}; it runs on until it is stopped", reason);
  events_.publish("deployment.outdated", watch.id, fmt::format("{}: {}", deployment->name, message),
                  {{"name", deployment->name}, {"outdated", reason}});
}

void Supervisor::set_instance(Deployment& deployment, ports::Instance instance) const {
  if (instance.boot_id.empty()) instance.boot_id = identity_.boot_id;
  deployment.instance = std::move(instance);
}

bool Supervisor::is_of_earlier_boot(const ports::Instance& instance) const {
  return !instance.boot_id.empty() && !identity_.boot_id.empty() && instance.boot_id != identity_.boot_id;
}

bool Supervisor::is_coming_up(const Deployment& deployment) const {
  if (deployment.state == deployment::State::loading) return true;
  return deployment.state == deployment::State::unknown &&
         (!deployment.ready_at || changing_sleep_.contains(deployment.id)) && !asked_after_.contains(deployment.id);
}

ports::Task<> Supervisor::guard_start(Watch watch) {
  memory::StartGuard guard{gib_from_decimal(settings_.start_floor_gib)};
  while (true) {
    const auto* deployment = current(watch);
    if (deployment == nullptr || !is_coming_up(*deployment)) co_return;
    if (const auto available = sampler_.mem_available()) {
      if (const auto danger = guard.judge(world_.clock.steady(), *available)) {
        co_await end_failing(watch, deployment::Event::ready_timeout,
                             describe(*danger, log_tail(watch.id, kFailureLines)), kGuardGrace);
        co_return;
      }
    }
    co_await world_.loop.sleep_for(kGuardPoll);
  }
}

void Supervisor::watch_instance(Deployment& deployment, bool read_log_from_start) {
  const Watch watch{deployment.id, deployment.generation};
  readers_[deployment.id] = engine::make_log_reader(engine::kind_of(deployment.config));
  deployment.progress = readers_[deployment.id]->progress();
  last_answer_[deployment.id] = world_.clock.steady();
  world_.loop.spawn(fmt::format("watch the end of {}", deployment.name), watch_exit(watch, *deployment.instance));
  world_.loop.spawn(fmt::format("watch {}", deployment.name), watch_engine(watch, read_log_from_start));
}

// --- watching

std::chrono::milliseconds Supervisor::loading_limit(const Deployment& deployment) const {
  const auto weights = deployment.estimate.part("weights");
  return std::max(seconds(settings_.ready_timeout_s), seconds(weights.gib() * kSecondsPerGib));
}

ports::Task<> Supervisor::watch_engine(Watch watch, bool read_log_from_start) {
  const auto log_path = identity_.log_path(watch.id);
  const auto follower = world_.logs.follow(log_path, read_log_from_start);
  const auto reader = readers_[watch.id];
  std::optional<SteadyTime> compared_at;
  std::optional<SteadyTime> over_at;
  if (current(watch) == nullptr) co_return;
  const auto limit = loading_limit(*current(watch));
  deployment::ReadinessLimit readiness{world_.clock.steady(), limit};
  std::optional<SteadyTime> unhealthy_since;

  while (true) {
    auto* deployment = current(watch);
    if (deployment == nullptr || is_ending(*deployment)) co_return;
    for (const auto& line : follower->read_new()) {
      reader->read_line(line);
      if (!engine::is_routine_line(line)) readiness.saw_line(world_.clock.steady(), line);
    }
    if (reader->is_over() && !over_at) over_at = world_.clock.steady();
    if (over_at && world_.clock.steady() - *over_at > kOverUntilEnded && deployment->instance) {
      auto failure = over_but_answering(*reader, log_tail(watch.id, kFailureLines));
      co_await end_failing(watch, deployment::Event::instance_ended, std::move(failure),
                           seconds(settings_.stop_grace_s));
      co_return;
    }

    if (const auto reason = why_unknown(*deployment); !reason.empty()) {
      if (deployment->state != deployment::State::unknown) {
        deployment->activity = {};
        note_idle(*deployment);
        table_.apply(*deployment, deployment::Event::unreachable, reason);
        sampler_.refresh();
      }
      co_await world_.loop.sleep_for(kUnreachablePoll);
      continue;
    }
    if (deployment->state == deployment::State::unknown && !deployment->ready_at) {
      table_.apply(*deployment, deployment::Event::reachable_loading, "it runs, and is still loading");
      readiness = deployment::ReadinessLimit{world_.clock.steady(), limit};
    }

    if (changing_sleep_.contains(watch.id)) {
      co_await world_.loop.sleep_for(kLoadingPoll);
      continue;
    }
    const bool has_served =
        deployment->state == deployment::State::ready || deployment->state == deployment::State::sleeping;
    if (!has_served) {
      if (const auto progress = reader->progress();
          progress != deployment->progress && deployment->state == deployment::State::loading) {
        deployment->progress = progress;
        events_.publish("deployment.progress", watch.id, fmt::format("{}: {}", deployment->name, progress.phase),
                        {{"name", deployment->name}, {"phase", progress.phase}});
      }
      const auto port = deployment->port;
      auto served_name = deployment->served_name;
      const auto answer = co_await serves_model(port, std::move(served_name));
      deployment = current(watch);
      if (deployment == nullptr || is_ending(*deployment)) co_return;
      if (answer == Serving::wants_key && deployment->state == deployment::State::loading) {
        co_await end_failing(watch, deployment::Event::ready_timeout, wants_key(), seconds(settings_.stop_grace_s));
        co_return;
      }
      std::optional<int> asleep;
      std::optional<bool> guarded;
      if (answer == Serving::yes) guarded = co_await is_guarded(watch);
      if (guarded) asleep = co_await ask_sleep_level(watch);
      deployment = current(watch);
      if (deployment == nullptr || is_ending(*deployment)) co_return;
      if (guarded == false && deployment->state == deployment::State::loading) {
        co_await end_failing(watch, deployment::Event::ready_timeout, not_guarded(), seconds(settings_.stop_grace_s));
        co_return;
      }
      if (asleep == 0) {
        for (const auto& line : follower->read_new()) reader->read_line(line);
        became_ready(*deployment, *reader);
      } else if (asleep) {
        slept(*deployment, *asleep, deployment->sleep_level == asleep ? deployment->sleep_freed : std::nullopt);
      } else if (deployment->state == deployment::State::loading) {
        const auto now = world_.clock.steady();
        if (const auto available = sampler_.mem_available()) readiness.saw_available(now, *available);
        if (readiness.is_over(now)) {
          auto failure = not_ready_in_time(readiness, now, log_tail(watch.id, kFailureLines));
          co_await end_failing(watch, deployment::Event::ready_timeout, std::move(failure),
                               seconds(settings_.stop_grace_s));
          co_return;
        }
      }
      co_await world_.loop.sleep_for(kLoadingPoll);
    } else {
      world_.logs.trim(log_path);
      const bool unhealthy = co_await says_unhealthy(watch);
      if (unhealthy) {
        const auto now = world_.clock.steady();
        if (!unhealthy_since) unhealthy_since = now;
        deployment = current(watch);
        if (deployment == nullptr || is_ending(*deployment)) co_return;
        if (now - *unhealthy_since >= kRefusingUntilUnknown && !changing_sleep_.contains(watch.id)) {
          deployment->activity = {};
          note_idle(*deployment);
          table_.apply(*deployment, deployment::Event::unreachable, "its process runs, and says that it is not well");
          sampler_.refresh();
          continue;
        }
      } else {
        unhealthy_since.reset();
      }
      co_await poll_activity(watch);
      if (const auto now = world_.clock.steady(); !compared_at || now - *compared_at >= kOutdatedPoll) {
        compared_at = now;
        co_await check_outdated(watch);
      }
      co_await world_.loop.sleep_for(seconds(settings_.budget_interval_s));
    }
  }
}

ports::Task<Supervisor::Serving> Supervisor::serves_model(std::uint16_t port, std::string served_name) {
  constexpr int kUnauthorized = 401;
  const auto health = co_await world_.http.call(get(port, engine::kHealthPath));
  if (!health || health->status != 200) co_return Serving::no;
  const auto models = co_await world_.http.call(get(port, engine::kModelsPath));
  if (models && models->status == kUnauthorized) co_return Serving::wants_key;
  if (!models || models->status != 200) co_return Serving::no;
  const auto named = engine::names_model(models->body, served_name);
  co_return named && *named ? Serving::yes : Serving::no;
}

void Supervisor::became_ready(Deployment& deployment, const engine::LogReader& reader) {
  start_journal_.end(deployment.id);
  const auto now = world_.clock.wall();
  const bool first_time = !deployment.ready_at.has_value();
  if (const auto accounting = reader.accounting()) deployment.engine_device_bytes = accounting->device;
  if (first_time) note_first_look(deployment, reader);
  if (first_time) deployment.ready_at = now;
  deployment.sleep_level.reset();
  deployment.wake_peak = {};
  deployment.failure.reset();
  last_answer_[deployment.id] = world_.clock.steady();
  const auto took = std::chrono::duration<double>(*deployment.ready_at - deployment.state_since).count();
  if (first_time) {
    const auto load_took = std::chrono::ceil<std::chrono::seconds>(now - deployment.state_since);
    deployment.load_took = load_took;
    estimates_.record_duration({.fingerprint = deployment.fingerprint,
                                .action = planner::Action::load,
                                .took = load_took,
                                .recorded_at = now});
  }
  table_.apply(deployment, deployment::Event::engine_ready,
               first_time ? fmt::format("ready after {:.1f} s, serving '{}' on port {}", took, deployment.served_name,
                                        deployment.port)
                          : "serving");
  sampler_.refresh();
  if (!deployment.footprint)
    world_.loop.spawn(fmt::format("calibrate {}", deployment.name), calibrate({deployment.id, deployment.generation}));
}

ports::Task<> Supervisor::poll_activity(Watch watch) {
  auto* deployment = current(watch);
  if (deployment == nullptr) co_return;
  const auto call = get(deployment->port, engine::kMetricsPath);
  const auto metrics = co_await world_.http.call(call);
  deployment = current(watch);
  if (deployment == nullptr || is_ending(*deployment) || changing_sleep_.contains(watch.id)) co_return;

  const auto now = world_.clock.steady();
  if (metrics && metrics->status == 200) {
    last_answer_[watch.id] = now;
    deployment->activity = engine::parse_activity(engine::kind_of(deployment->config), metrics->body);
    note_idle(*deployment);
    note_sleep(*deployment);
    co_return;
  }
  deployment->activity = {};
  note_idle(*deployment);
  const bool silent = !metrics && metrics.error().code == "deadline_exceeded";
  if (now - last_answer_[watch.id] < (silent ? kSilentUntilUnknown : kRefusingUntilUnknown)) co_return;
  const auto reason = metrics ? fmt::format("status {}", metrics->status) : metrics.error().message;
  table_.apply(*deployment, deployment::Event::unreachable,
               fmt::format("its process runs, but port {} does not answer: {}", deployment->port, reason));
  sampler_.refresh();
}

void Supervisor::note_idle(Deployment& deployment) {
  const auto now = world_.clock.wall();
  deployment.idle = engine::idle_after(deployment.idle, deployment.activity, now);
  const auto since = deployment.idle_since();
  if (!since || since == deployment.idle_since_stored || now - *since < kIdleWorthStoring) return;
  deployment.idle_since_stored = since;
  table_.save_fact(deployment);
}

std::string Supervisor::why_unknown(const Deployment& deployment) {
  if (!deployment.instance) return {};
  if (world_.runtime.presence(*deployment.instance) == ports::Presence::unreachable) {
    return "what runs it does not answer: whether it still runs is not known, and its memory stays counted";
  }
  // Whether it still works can be told by no answer: the driver may block whatever touches the GPU.
  const auto snapshot = sampler_.latest();
  if (!snapshot || !snapshot->gpu.no_starts || snapshot->gpu.no_starts->code != host::kGpuFailed) return {};
  const auto* entry = snapshot->find(deployment.id);
  const bool without_gpu = entry != nullptr && entry->measured && entry->measured->gpu == Bytes{0};
  return without_gpu ? std::string{} : snapshot->gpu.no_starts->message + ": whether it still works is not known";
}

/// D10: an engine whose core has died may go on answering about its metrics.
ports::Task<bool> Supervisor::says_unhealthy(Watch watch) {
  const auto* deployment = current(watch);
  if (deployment == nullptr) co_return false;
  const auto call = get(deployment->port, engine::kHealthPath);
  const auto answer = co_await world_.http.call(call);
  co_return answer && answer->status >= 500;
}

ports::Task<> Supervisor::end_failing(Watch watch, deployment::Event event, Failure failure,
                                      std::chrono::milliseconds grace) {
  auto* deployment = current(watch);
  if (deployment == nullptr || !deployment->instance) co_return;
  const auto instance = *deployment->instance;
  // Its end is ours: the exit watcher must not report it as a crash.
  ++deployment->generation;
  const Watch ours{watch.id, deployment->generation};
  const auto stopped = co_await world_.runtime.stop(instance, grace);
  deployment = current(ours);
  if (deployment == nullptr || is_ending(*deployment)) co_return;
  end_unasked(*deployment, event, std::move(failure), stopped);
}

// --- the end

ports::Task<> Supervisor::watch_exit(Watch watch, ports::Instance instance) {
  const auto status = co_await world_.runtime.wait(instance);
  auto* deployment = current(watch);
  if (deployment == nullptr || is_ending(*deployment)) co_return;

  // What it started may live on and hold memory: that ends too before the deployment counts nothing (B2).
  const auto cleaned = co_await world_.runtime.stop(instance, 0ms);
  deployment = current(watch);
  if (deployment == nullptr || is_ending(*deployment)) co_return;
  if (status.oom_killed) {  // before its end is stored: else a daemon that dies in between would forget the kill
    estimates_.record_out_of_memory(deployment->fingerprint, deployment->config, deployment->reserved(),
                                    status.evidence, world_.clock.wall());
  }
  auto failure = describe_end(*deployment, status);
  deployment->ended_with_host = failure.code == kHostRestarted && deployment->ready_at;  // D20
  end_unasked(*deployment, deployment::Event::instance_ended, std::move(failure), cleaned);
}

/// B2: it is `failed`, and counts nothing, only when nothing of it holds memory any more; until then it is `stopping`.
void Supervisor::end_unasked(Deployment& deployment, deployment::Event event, Failure failure,
                             const Result<void>& stopped) {
  if (auto suspicion = start_journal_.take_suspicion(deployment.id); suspicion && failure.code != "out_of_memory") {
    suspicion->last_lines = std::move(failure.last_lines);
    failure = std::move(*suspicion);
    deployment.ended_with_host = false;
  }
  start_journal_.end(deployment.id);
  const auto message = failure.message;
  deployment.failure = std::move(failure);
  if (!deployment.instance) {  // it had not come to that
    table_.apply(deployment, event, message);
  } else if (stopped && released(sampler_.measure(*deployment.instance))) {
    world_.runtime.forget(*deployment.instance);
    table_.apply(deployment, event, message);
  } else {
    table_.apply(deployment, deployment::Event::stop_requested, message + "; its memory is not back yet");
    begin_stopping(deployment);
  }
  sampler_.refresh();
}

Failure Supervisor::describe_end(Deployment& deployment, const ports::ExitStatus& status) {
  Failure failure;
  failure.last_lines = log_tail(deployment.id, kFailureLines);
  // The watcher reads the log at intervals: take in what came last before asking what it says.
  const auto reader = engine::make_log_reader(engine::kind_of(deployment.config));
  const auto lines = deployment.ready_at ? kLastWords : kLoadingLines;
  for (const auto& line : world_.logs.tail(identity_.log_path(deployment.id), lines)) reader->read_line(line);
  if (!deployment.ready_at) note_first_look(deployment, *reader);
  const bool changing = changing_sleep_.contains(deployment.id);
  const auto* when = asked_after_.contains(deployment.id)                         ? "while dgxmm was not running"
                     : deployment.state == deployment::State::sleeping            ? "while it slept"
                     : changing && deployment.state == deployment::State::loading ? "while waking up"
                     : changing                                                   ? "while falling asleep"
                     : deployment.ready_at                                        ? "while serving"
                                                                                  : "while loading";
  const auto guards = sampler_.guards_running();
  if (status.oom_killed) {
    failure.code = "out_of_memory";
    failure.message = fmt::format("the kernel killed it for lack of memory {}: {}", when, status.evidence);
    failure.hint =
        "the next estimate for this configuration is 10 % higher; try a shorter context or a smaller KV type";
  } else if (is_of_earlier_boot(*deployment.instance)) {
    failure.code = kHostRestarted;
    failure.message = "the host was restarted, and it ended with it";
    failure.hint = "start it again";
  } else if (const auto reason = reader->failure()) {
    failure.code = reason->code;
    failure.message = reason->message;
    failure.hint = reason->hint;
  } else if (status.exit_code) {
    failure.code = "engine_died";
    failure.message = fmt::format("the engine ended {} with exit code {}", when, *status.exit_code);
    failure.hint = "its last lines say why";
  } else if (status.signal == 9) {
    failure.code = "engine_killed";
    failure.message = fmt::format("the engine was killed by SIGKILL {}, cause unknown", when);
    failure.hint =
        guards.empty()
            ? "someone, or an out-of-memory guard, killed it; there is no evidence of the kernel's OOM killer"
            : "there is no evidence of the kernel's OOM killer; " + guard_candidates(guards);
  } else if (status.signal) {
    failure.code = "engine_died";
    failure.message = fmt::format("the engine died of signal {} {}", *status.signal, when);
    failure.hint = "its last lines say why";
    if (status.signal == 15 && !guards.empty()) failure.hint = guard_candidates(guards);
  } else {
    failure.code = "engine_ended";
    failure.message =
        fmt::format("the engine ended {}; how is not known, since an earlier daemon had started it", when);
    failure.hint = "its last lines may say why; start it again";
  }
  return failure;
}

ports::Task<Result<void>> Supervisor::stop(DeploymentId id) {
  auto* deployment = table_.find(id);
  if (deployment == nullptr) co_return fail("deployment_not_found", fmt::format("there is no deployment {}", id.value));
  if (deployment::is_final(deployment->state)) {
    if (deployment->failure && deployment->failure->code == dto::kNotBroughtBack) {  // it may stay away
      deployment->failure.reset();
      table_.save_fact(*deployment);
      sampler_.refresh();
    }
    if (std::exchange(deployment->ended_with_host, false)) table_.save_fact(*deployment);  // it is wanted no more
    co_return Result<void>{};
  }
  starts_.cancel(id);
  if (!being_stopped_.contains(id)) {  // else somebody asked before; a stop that failed is tried again
    deployment->failure.reset();
    table_.apply(*deployment, deployment::Event::stop_requested, "stopping");
    sampler_.refresh();
    begin_stopping(*deployment);
  }
  while (!world_.loop.stopping()) {
    deployment = table_.find(id);
    if (deployment == nullptr || deployment::is_final(deployment->state)) co_return Result<void>{};
    if (!being_stopped_.contains(id)) {
      const auto failure =
          deployment->failure.value_or(Failure{"still_running", "the stop was broken off", "try again", {}});
      co_return fail(failure.code, failure.message, failure.hint, deployment->name);
    }
    co_await events_.changed().wait_for(1s);
  }
  co_return fail("shutting_down", "dgxmm is shutting down; the deployment is still being stopped");
}

void Supervisor::begin_stopping(const Deployment& deployment) {
  being_stopped_.insert(deployment.id);
  world_.loop.spawn(fmt::format("stop {}", deployment.name), finish_stopping(deployment.id));
}

ports::Task<> Supervisor::finish_stopping(DeploymentId id) {
  Membership stopping{being_stopped_, id};
  while (being_started_.contains(id) && !world_.loop.stopping()) co_await world_.loop.sleep_for(kReleasePoll);
  auto* deployment = table_.find(id);
  if (deployment == nullptr || world_.loop.stopping()) co_return;
  world_.tcp_ports.release(deployment->port);
  if (!deployment->instance && engine::in_container(deployment->request)) {
    // It may have come to a container all the same, before an earlier daemon ended.
    co_await world_.runtime.until_known();
    deployment = table_.find(id);
    if (deployment == nullptr || world_.loop.stopping()) co_return;
    for (auto& [name, instance] : world_.runtime.find_owned()) {
      if (name != identity_.instance_name(id)) continue;
      deployment->instance = std::move(instance);
      break;
    }
  }
  std::string freed;
  if (deployment->instance) {
    const auto begun = world_.clock.steady();
    const auto before = look_before_stopping(*deployment);
    const auto& instance = before.instance;
    if (before.measured) freed = fmt::format(", {} released", format_bytes(before.measured->total()));
    auto stopped = co_await world_.runtime.stop(instance, seconds(settings_.stop_grace_s));
    const auto limit = world_.clock.steady() + kReleaseLimit;
    while (stopped && !world_.loop.stopping()) {
      const auto missing = still_held(id, before);
      if (!missing) break;
      if (world_.clock.steady() > limit) {
        stopped = fail("memory_not_released",
                       fmt::format("it has ended, but its memory is not back after {} s: {}",
                                   std::chrono::duration_cast<std::chrono::seconds>(kReleaseLimit).count(), *missing),
                       "`dgxmm processes` shows who holds memory; stop it again when that has gone");
        break;
      }
      co_await world_.loop.sleep_for(kReleasePoll);
    }
    if (world_.loop.stopping()) co_return;
    deployment = table_.find(id);
    if (deployment == nullptr) co_return;
    stopping.end();  // before the event that wakes those who wait for it
    if (!stopped) {
      deployment->failure = Failure{stopped.error().code, stopped.error().message, stopped.error().hint, {}};
      table_.apply(*deployment, deployment::Event::stop_requested, stopped.error().message);
      sampler_.refresh();
      co_return;
    }
    const auto took = world_.clock.steady() - begun;
    estimates_.record_duration({.fingerprint = deployment->fingerprint,
                                .action = planner::Action::stop,
                                .took = std::chrono::ceil<std::chrono::seconds>(took),
                                .recorded_at = world_.clock.wall()});
    world_.runtime.forget(instance);
    deployment->instance.reset();
  }
  readers_.erase(id);
  table_.apply(*deployment, deployment::Event::instance_gone, "stopped" + freed);
  sampler_.refresh();
}

Supervisor::Held Supervisor::look_before_stopping(const Deployment& deployment) {
  Held held{.instance = *deployment.instance, .others = held_by_others(deployment.id)};
  held.pids = world_.runtime.pids(held.instance);
  held.measured = sampler_.measure(held.instance);
  held.available = sampler_.mem_available();
  return held;
}

Bytes Supervisor::held_by_others(DeploymentId id) const {
  Bytes sum;
  for (const auto& entry : sampler_.latest()->deployments) {
    if (entry.id != id && entry.measured) sum += entry.measured->total();
  }
  return sum;
}

std::optional<std::string> Supervisor::still_held(DeploymentId id, const Held& before) {
  if (const auto measured = sampler_.measure(before.instance); !released(measured)) {
    return fmt::format("its group still holds {}", format_bytes(measured->total()));
  }
  const auto gpu = sampler_.gpu_now();
  for (const auto pid : before.pids) {
    if (const auto* process = gpu.find(pid)) {
      return fmt::format("its process {} still holds {} on the GPU", pid,
                         process->used ? format_bytes(*process->used) : "an unknown amount");
    }
  }
  // Memory of the host is free when its group is empty. What was on the GPU comes back when the driver is done with it,
  // which has taken minutes on GB10: then only MemAvailable tells.
  const bool on_gpu = before.measured && before.measured->gpu != Bytes{0};
  const auto available = sampler_.mem_available();
  if (!on_gpu || !before.available || !available) return std::nullopt;
  const auto held = before.measured->total();
  const auto taken_by_others = std::max(held_by_others(id) - before.others, Bytes{});
  const auto risen = *available - *before.available + taken_by_others;
  if (risen >= Bytes{held.count() / 10 * 9}) return std::nullopt;
  return fmt::format(
      "of the {} that it held, {} have come back, and no process of it is left: the driver, or something "
      "that dgxmm does not manage, has the rest",
      format_bytes(held), format_bytes(std::max(risen, Bytes{})));
}

ports::Task<> Supervisor::settle(DeploymentId id, std::function<bool()> give_up) {
  while (!world_.loop.stopping() && !(give_up && give_up())) {
    const auto* deployment = table_.find(id);
    if (deployment == nullptr) co_return;
    const bool under_way =
        deployment->state == deployment::State::starting || is_coming_up(*deployment) || asked_after_.contains(id);
    if (!under_way) co_return;
    co_await events_.changed().wait_for(1s);
  }
}

// --- learning

ports::Task<> Supervisor::calibrate(Watch watch) {
  co_await world_.loop.sleep_for(seconds(settings_.calibration_delay_s));  // C1
  auto* deployment = current(watch);
  if (deployment == nullptr || deployment->state != deployment::State::ready || !deployment->instance) co_return;
  if (deployment->footprint) co_return;  // became ready twice within the delay
  const auto measured = sampler_.measure(*deployment->instance);
  if (!measured) {
    log::warning("{}: its memory could not be measured, nothing was learned", deployment->name);
    co_return;
  }
  const auto footprint = memory::footprint(*measured, deployment->engine_device_bytes);
  estimates_.record({.fingerprint = deployment->fingerprint,
                     .configuration_key = engine::configuration_key(deployment->config),
                     .measured = footprint,
                     .formula = deployment->estimate.formula,
                     .recorded_at = world_.clock.wall(),
                     .image = deployment->instance->image.value_or("")});
  deployment->footprint = footprint;
  table_.save_fact(*deployment);
  events_.publish("calibration.recorded", watch.id,
                  fmt::format("{}: takes {}, the formula says {}", deployment->name, format_bytes(footprint),
                              format_bytes(deployment->estimate.formula)),
                  {{"name", deployment->name},
                   {"measured_bytes", std::to_string(footprint.count())},
                   {"formula_bytes", std::to_string(deployment->estimate.formula.count())}});
}

std::optional<std::string> Supervisor::shown_line(std::string_view line) {
  if (engine::is_routine_line(line)) return std::nullopt;
  return printable(mask_text(line));
}

std::vector<std::string> Supervisor::log_tail(DeploymentId id, std::size_t lines) {
  std::vector<std::string> result;
  for (const auto& line : world_.logs.tail(identity_.log_path(id), kRoutineLinesPerLine * lines)) {
    if (auto shown = shown_line(line)) result.push_back(std::move(*shown));
  }
  if (result.size() > lines) result.erase(result.begin(), result.end() - static_cast<std::ptrdiff_t>(lines));
  return result;
}

}  // namespace dgxmm::service
