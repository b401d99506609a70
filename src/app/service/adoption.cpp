// The part of the supervisor that goes on with what an earlier daemon had started.
#include "app/service/membership.h"
#include "app/service/orphans.h"
#include "app/service/supervisor.h"
#include "base/log.h"
#include "core/engine/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;

constexpr auto kAskedPoll = 50ms;

/// What became of it, or how its stop goes, only the engine that runs the containers knows.
bool waits_for_containers(const Deployment& deployment) {
  if (!engine::in_container(deployment.request) || deployment::is_final(deployment.state)) return false;
  return !deployment.instance || deployment.state == deployment::State::stopping;
}

}  // namespace

void Supervisor::reconcile() {
  std::map<std::string, ports::Instance> owned;
  for (auto& [name, instance] : world_.runtime.find_owned()) {
    const bool ours = name.starts_with(identity_.instance_prefix) && !instance.is_container();
    if (ours) owned.emplace(name, std::move(instance));
  }

  for (auto* deployment : table_.all()) {
    if (deployment::is_final(deployment->state)) continue;
    const auto found = owned.find(identity_.instance_name(deployment->id));
    if (!deployment->instance && found != owned.end()) {
      set_instance(*deployment, found->second);  // the daemon was killed between starting it and storing that
    }
    if (found != owned.end()) owned.erase(found);
    if (!waits_for_containers(*deployment)) adopt(*deployment);
  }
  for (const auto& [name, instance] : owned) report_unknown(name, instance);
  world_.loop.spawn("find containers again", reconcile_containers());
}

/// Goes on with what an earlier daemon had started, or ends what was left of it.
void Supervisor::adopt(Deployment& deployment) {
  if (deployment.state == deployment::State::stopping) {
    begin_stopping(deployment);
    return;
  }
  if (!deployment.instance) {
    end_unasked(
        deployment, deployment::Event::instance_ended,
        {"engine_ended", "dgxmm ended before its engine was started", "start it again", log_tail(deployment.id, 20)},
        Result<void>{});
    return;
  }
  ++deployment.generation;
  if (world_.runtime.presence(*deployment.instance) == ports::Presence::gone) {
    ask_after(deployment);
    return;
  }
  const bool was_serving = deployment.ready_at.has_value();
  const auto shown = deployment.instance->shown();
  if (!was_serving) {
    const bool unborn = deployment.state == deployment::State::starting;
    table_.apply(deployment, unborn ? deployment::Event::instance_started : deployment::Event::reachable_loading,
                 fmt::format("adopted, {}, still loading", shown));
  } else {
    table_.apply(deployment, deployment::Event::unreachable,
                 fmt::format("adopted, {}; asking whether it still serves", shown));
  }
  watch_instance(deployment, !was_serving);
  if (was_serving) return;
  world_.loop.spawn(fmt::format("guard {}", deployment.name),
                    guard_adopted_start({deployment.id, deployment.generation}));
}

/// C5: how it ended may still be known, by its exit code or by what its cgroup or Docker counted.
void Supervisor::ask_after(Deployment& deployment) {
  asked_after_.insert(deployment.id);
  table_.apply(deployment, deployment::Event::unreachable,
               fmt::format("{} has ended while dgxmm was not running; asking how", deployment.instance->shown()));
  world_.loop.spawn(fmt::format("ask how {} ended", deployment.name),
                    learn_end({deployment.id, deployment.generation}, *deployment.instance));
}

ports::Task<> Supervisor::learn_end(Watch watch, ports::Instance instance) {
  const Membership asked{asked_after_, watch.id};
  co_await watch_exit(watch, std::move(instance));
}

void Supervisor::take_over_port(const ports::Instance& instance) {
  const auto is_its = [&](const Deployment* deployment) {
    return deployment->instance && deployment->instance->container_id == instance.container_id;
  };
  const auto all = table_.all();
  const auto found = std::ranges::find_if(all, is_its);
  if (!instance.is_container() || !instance.published_port || found == all.end()) return;
  auto& deployment = **found;
  if (deployment::is_final(deployment.state) || deployment.port == *instance.published_port) return;
  const auto message = fmt::format("{}: its container publishes port {}, not {}", deployment.name,
                                   *instance.published_port, deployment.port);
  log::warning("{}", message);
  deployment.port = *instance.published_port;
  table_.save_fact(deployment);
  events_.publish("deployment.port_changed", deployment.id, message, {{"name", deployment.name}});
}

bool Supervisor::all_known() {
  const auto waits = [](const Deployment* deployment) {
    return engine::in_container(deployment->request) && !deployment::is_final(deployment->state);
  };
  return asked_after_.empty() && (containers_known_ || std::ranges::none_of(table_.all(), waits));
}

void Supervisor::report_unknown(const std::string& name, const ports::Instance& instance) {
  const auto end_it = fmt::format("dgxmm orphans --stop {}", orphan_id(instance));
  events_.publish("engine.unknown", std::nullopt,
                  fmt::format("an engine runs that dgxmm started and no longer knows, {} ({}): its memory counts as "
                              "external; end it with `{}`",
                              instance.shown(), name, end_it),
                  {{"pid", std::to_string(instance.pid)}, {"instance", name}, {"container", instance.container_id}});
}

ports::Task<> Supervisor::reconcile_containers() {
  std::set<DeploymentId> waiting;
  for (const auto* deployment : table_.all()) {
    if (waits_for_containers(*deployment)) waiting.insert(deployment->id);
  }
  co_await world_.runtime.until_known();
  if (world_.loop.stopping()) co_return;
  std::set<std::string> known;
  auto running = world_.runtime.find_owned();
  for (const auto& [name, instance] : running) take_over_port(instance);
  for (const auto* deployment : table_.all()) {
    if (deployment->instance) known.insert(deployment->instance->container_id);
    if (being_started_.contains(deployment->id)) known.insert(identity_.instance_name(deployment->id));
  }
  std::map<std::string, ports::Instance> owned;
  std::vector<std::pair<std::string, ports::Instance>> older;  // of an earlier start of the same deployment
  for (auto& [name, instance] : running) {
    const bool unclaimed = instance.is_container() && !known.contains(instance.container_id) && !known.contains(name);
    if (!unclaimed) continue;
    if (owned.contains(name)) {
      older.emplace_back(name, std::move(instance));
    } else {
      owned.emplace(name, std::move(instance));
    }
  }
  for (const auto id : waiting) {
    auto* deployment = table_.find(id);
    if (deployment == nullptr || !waits_for_containers(*deployment) || being_stopped_.contains(id)) continue;
    if (const auto found = owned.find(identity_.instance_name(id)); found != owned.end()) {
      if (!deployment->instance) set_instance(*deployment, found->second);
      owned.erase(found);
      take_over_port(*deployment->instance);
    }
    adopt(*deployment);
  }
  for (const auto& [name, instance] : owned) report_unknown(name, instance);
  for (const auto& [name, instance] : older) report_unknown(name, instance);
  sampler_.refresh();
  // What nobody has asked about by then, nobody will.
  while (!asked_after_.empty() && !world_.loop.stopping()) co_await world_.loop.sleep_for(kAskedPoll);
  if (world_.loop.stopping()) co_return;
  containers_known_ = true;
  world_.runtime.remove_leftovers();
  events_.changed().notify_all();
}

ports::Task<> Supervisor::guard_adopted_start(Watch watch) {
  const auto* asked = current(watch);
  if (asked == nullptr) co_return;
  TurnQueue::Claim claim{
      .what = "start " + asked->name, .priority = asked->priority, .deployment = watch.id, .patient = true};
  const auto turn = co_await starts_.take(std::move(claim));
  const StartOnRecord on_record{start_journal_, watch.id};
  co_await start_journal_.begin(watch.id);
  co_await guard_start(watch);
}

}  // namespace dgxmm::service
