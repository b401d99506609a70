#include "app/service/orphans.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dgxmm::service {

std::string orphan_id(const ports::Instance& instance) {
  constexpr std::size_t kShortId = 12;
  if (instance.is_container()) return instance.container_id.substr(0, kShortId);
  return fmt::format("{}-{}", instance.pid, instance.start_time_ticks);
}

Orphans::Orphans(ports::ContainerRuntime& runtime, ports::HostProbe& host, DeploymentTable& table, EventLog& events,
                 Sampler& sampler, const Identity& identity, std::chrono::milliseconds grace)
    : runtime_(runtime),
      host_(host),
      table_(table),
      events_(events),
      sampler_(sampler),
      identity_(identity),
      grace_(grace) {}

bool Orphans::is_known(const std::string& name, const ports::Instance& instance) {
  return std::ranges::any_of(table_.all(), [&](const Deployment* deployment) {
    if (deployment::is_final(deployment->state)) return false;
    const auto& known = deployment->instance;
    // Being started, or waiting for Docker to say what became of it: the name is all that it has yet.
    if (!known) return identity_.instance_name(deployment->id) == name;
    if (known->is_container() || instance.is_container()) return known->container_id == instance.container_id;
    if (!known->cgroup.empty() && known->cgroup == instance.cgroup) return true;
    return known->pid == instance.pid && known->start_time_ticks == instance.start_time_ticks;
  });
}

std::vector<Orphan> Orphans::find() {
  std::vector<Orphan> found;
  const auto gpu = sampler_.latest()->gpu;
  for (auto& [name, instance] : runtime_.find_remains()) {
    if (!name.starts_with(identity_.instance_prefix) || is_known(name, instance)) continue;
    Orphan orphan{.id = orphan_id(instance),
                  .name = name,
                  .instance = instance,
                  .pids = runtime_.pids(instance),
                  .measured = sampler_.measure(instance),
                  .command = {}};
    auto rows = host_.rows_of(orphan.pids, gpu);
    const auto largest = std::ranges::max_element(rows, {}, &host::ProcessRow::held);
    if (largest != rows.end()) orphan.command = std::move(largest->command);
    found.push_back(std::move(orphan));
  }
  return found;
}

ports::Task<Result<Orphan>> Orphans::stop(std::string id) {
  auto all = find();
  const auto found = std::ranges::find(all, id, &Orphan::id);
  if (found == all.end()) {
    co_return fail("orphan_not_found", fmt::format("there is no orphan '{}'", id), "`dgxmm orphans` lists them", "id");
  }
  Orphan orphan = std::move(*found);
  const auto stopped = co_await runtime_.stop(orphan.instance, grace_);
  if (!stopped) co_return fail(stopped.error());
  runtime_.forget(orphan.instance);
  events_.publish("orphan.stopped", std::nullopt,
                  fmt::format("an engine that no deployment knows was stopped: {}", orphan.instance.shown()),
                  {{"instance", orphan.name}, {"id", orphan.id}});
  sampler_.refresh();
  co_return orphan;
}

}  // namespace dgxmm::service
