#include "app/api/views.h"

#include "app/dto/convert.h"
#include "app/service/learned.h"
#include "app/service/start_journal.h"
#include "base/masking.h"
#include "core/engine/cautions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace dgxmm::api {
namespace {

std::vector<dto::BudgetDeployment> shares_of(service::Service& service, const service::HostSnapshot& snapshot) {
  std::vector<dto::BudgetDeployment> rows;
  for (const auto& entry : snapshot.deployments) {
    const auto* deployment = service.table.find(entry.id);
    dto::BudgetDeployment row{.id = entry.id,
                              .name = deployment == nullptr ? std::string{} : deployment->name,
                              .state = std::string{deployment::name_of(entry.state)},
                              .reserved_bytes = entry.reserved,
                              .measured = {}};
    if (entry.measured) row.measured = dto::to_dto(*entry.measured);
    rows.push_back(std::move(row));
  }
  return rows;
}

bool serves(const service::Deployment& deployment) {
  return deployment.state == deployment::State::ready || deployment.state == deployment::State::sleeping;
}

dto::Activity activity_view(const service::Deployment& deployment) {
  dto::Activity view{.id = deployment.id, .busy = {}, .requests_in_flight = {}, .idle_since = {}};
  if (deployment.state == deployment::State::ready) {
    view.busy = deployment.activity.busy();
    view.requests_in_flight = deployment.activity.requests();
  }
  if (const auto since = deployment.idle_since(); since && serves(deployment)) view.idle_since = format_time(*since);
  return view;
}

}  // namespace

dto::Budget budget_view(service::Service& service, const service::HostSnapshot& snapshot) {
  auto view = dto::to_dto(snapshot.budget);
  dto::add_host_figures(view, snapshot.meminfo, snapshot.pressure);
  view.revision = snapshot.revision;
  view.time = format_time(snapshot.time);
  view.source = "daemon";
  view.warnings = dto::to_dto(snapshot.warnings);
  view.host_class = host::name_of(snapshot.gpu.host_class);
  view.host_class_evidence = snapshot.gpu.evidence;
  view.gpu_bytes = snapshot.gpu.held_by_all();
  view.gpu_at_least_bytes = dto::at_least(view.gpu_bytes, snapshot.gpu.held_at_least_by_all());
  view.gpu_estimate_bytes = snapshot.gpu_estimate;
  // Where no GPU shares the memory nobody was asked.
  if (snapshot.gpu.host_class != host::HostClass::none) view.gpu_age_s = snapshot.gpu.age.count() / 1000;
  view.deployments = shares_of(service, snapshot);
  return view;
}

dto::History history_view(service::Service& service, std::int64_t after) {
  const auto& history = service.history;
  const auto snapshot = service.sampler.latest();
  const auto mem_total = snapshot->problem ? std::nullopt : std::optional{snapshot->mem_total};
  return dto::to_dto(history.after(after), history.interval(), mem_total);
}

dto::Memory memory_view(service::Service& service, const service::LedgerReading& reading) {
  const auto& sums = reading.sums;
  const auto& budget = reading.snapshot->budget;
  dto::Memory view;
  view.revision = reading.snapshot->revision;
  view.time = format_time(reading.snapshot->time);
  view.mem_total_bytes = sums.mem_total;
  view.mem_available_bytes = sums.mem_available;
  view.used_bytes = sums.used;
  view.deployments_bytes = sums.deployments;
  view.containers_bytes = sums.containers;
  view.processes_bytes = sums.processes;
  view.shared_memory_bytes = sums.shared_memory;
  view.ownerless_shared_memory_bytes = sums.ownerless;
  view.hugepages_bytes = sums.hugepages;
  view.rest_bytes = sums.rest;
  view.unattributed_bytes = sums.unattributed;
  view.page_cache_bytes = sums.page_cache;
  view.free_bytes = sums.free;
  view.safety_margin_bytes = budget.safety_margin;
  view.os_reserve_bytes = budget.os_reserve;
  view.promised_bytes = sums.promised;
  view.free_for_new_bytes = budget.free_for_new;
  view.deployments = shares_of(service, *reading.snapshot);
  for (const auto& container : reading.containers) {
    view.containers.push_back({.id = printable(container.owner.name),
                               .name = container.name,
                               .image = container.image,
                               .runtime = container.owner.runtime,
                               .rootless_uid = container.owner.rootless_uid,
                               .processes = static_cast<std::int64_t>(container.processes),
                               .measured = dto::to_dto(container.measured),
                               .own = container.own,
                               .orphan_id = container.orphan_id});
  }
  for (const auto& group : reading.processes) {
    view.processes.push_back({.unit = printable(group.owner.name),
                              .user = group.user,
                              .processes = static_cast<std::int64_t>(group.processes),
                              .held_bytes = group.anon + group.gpu.value_or(group.gpu_at_least),
                              .anon_bytes = group.anon,
                              .gpu_bytes = group.gpu,
                              .gpu_at_least_bytes = dto::at_least(group.gpu, group.gpu_at_least),
                              .own = group.own});
  }
  const auto ownerless = reading.ownerless.value_or(host::OwnerlessList{});
  view.ownerless_certain = ownerless.certain;
  for (const auto& memory : ownerless.items) {
    view.ownerless_shared_memory.push_back({.name = memory.name, .bytes = memory.size, .user = memory.user});
  }
  view.names_unknown = reading.names_problem;
  view.warnings = dto::to_dto(reading.warnings);
  return view;
}

dto::Orphan orphan_view(const service::Orphan& orphan) {
  dto::Orphan view{.id = orphan.id,
                   .name = orphan.name,
                   .runtime = orphan.instance.runtime,
                   .pid = {},
                   .container = {},
                   .command = orphan.command,
                   .processes = static_cast<std::int64_t>(orphan.pids.size()),
                   .measured = {}};
  if (orphan.instance.pid != 0) view.pid = orphan.instance.pid;
  if (orphan.instance.is_container()) view.container = orphan.instance.container_id;
  if (orphan.measured) view.measured = dto::to_dto(*orphan.measured);
  return view;
}

dto::Processes processes_view(const service::LedgerReading& reading) {
  dto::Processes view;
  for (const auto& row : reading.largest) {
    auto process = dto::to_dto(row);
    const auto container =
        std::ranges::find(reading.containers, row.container, [](const auto& each) { return each.owner.name; });
    if (container != reading.containers.end()) process.container_name = container->name;
    const auto orphan = std::ranges::find_if(reading.orphans, [&](const service::Orphan& each) {
      return std::ranges::find(each.pids, row.pid) != each.pids.end();
    });
    if (orphan != reading.orphans.end()) process.orphan_id = orphan->id;
    view.processes.push_back(std::move(process));
  }
  if (!reading.snapshot->problem) view.unattributed_bytes = reading.sums.unattributed;
  view.warnings = dto::to_dto(reading.warnings);
  return view;
}

std::vector<dto::Process> holders_view(const service::LedgerReading& reading) {
  constexpr int kMost = 3;
  constexpr Bytes kLeast = mib(256);  // less is in nobody's way
  std::vector<dto::Process> holders;
  int others = 0;
  for (auto& process : processes_view(reading).processes) {
    const bool is_orphan = process.orphan || !process.orphan_id.empty();
    if (!is_orphan && (process.held_bytes < kLeast || ++others > kMost)) continue;
    holders.push_back(std::move(process));
  }
  return holders;
}

dto::Deployment deployment_view(service::Service& service, const service::Deployment& deployment) {
  dto::Deployment view;
  view.id = deployment.id;
  view.name = deployment.name;
  view.state = deployment::name_of(deployment.state);
  view.state_since = format_time(deployment.state_since);
  const bool on_its_way =
      deployment.state == deployment::State::starting || deployment.state == deployment::State::loading;
  if (on_its_way) view.phase = deployment.progress.phase;
  if (deployment.state == deployment::State::starting) {
    view.queue_place = service.supervisor.starts().place_of(deployment.id);
  }
  if (deployment.state == deployment::State::sleeping) view.sleep_level = deployment.sleep_level;
  view.asleep_bytes = deployment.asleep;
  view.sleep_freed_bytes = deployment.sleep_freed;
  if (const auto need = service.admission.wake_need(deployment)) {
    view.wake_needs_bytes = need->size;
    view.can_wake_now = need->is_free;
  }
  view.model = deployment.request.model;
  view.model_name = deployment.model_name;
  view.served_name = deployment.served_name;
  view.url = fmt::format("http://127.0.0.1:{}/v1", deployment.port);
  view.config = dto::to_dto(deployment.config);
  view.reserved_bytes = deployment.reserved();
  if (const auto* entry = service.sampler.latest()->find(deployment.id); entry != nullptr && entry->measured) {
    view.measured = dto::to_dto(*entry->measured);
  }
  view.estimate = dto::to_dto(deployment.estimate);
  view.footprint_bytes = deployment.footprint;
  auto activity = activity_view(deployment);
  view.busy = activity.busy;
  view.requests_in_flight = activity.requests_in_flight;
  view.idle_since = std::move(activity.idle_since);
  view.priority = deployment.priority;
  view.pinned = deployment.pinned;
  view.labels = deployment.labels;
  view.runtime = deployment.request.runtime.value_or("process");
  view.image = deployment.request.image;
  if (const auto& instance = deployment.instance; instance && !deployment::is_final(deployment.state)) {
    if (instance->pid != 0) view.pid = instance->pid;
    view.image_id = instance->image;
    if (instance->is_container()) view.container = instance->container_id;
    if (!deployment.outdated.empty()) view.outdated = deployment.outdated;
  }
  view.created_at = format_time(deployment.created_at);
  if (deployment.ready_at) view.ready_at = format_time(*deployment.ready_at);
  if (const auto& failure = deployment.failure) {
    view.failure = dto::Failure{failure->code, failure->message, failure->hint, failure->last_lines};
  }
  if (!deployment::is_final(deployment.state)) {
    view.notes = engine::cautions(deployment.config);
    std::ranges::move(service::suspicions(service.table, deployment.fingerprint, deployment.config),
                      std::back_inserter(view.notes));
  }
  return view;
}

std::vector<dto::Activity> activities_view(service::Service& service) {
  std::vector<dto::Activity> views;
  for (const auto* deployment : service.table.all()) {
    if (serves(*deployment)) views.push_back(activity_view(*deployment));
  }
  return views;
}

dto::Operation operation_view(service::Service& service, const dto::Operation& operation) {
  auto view = operation;
  view.queue_place = service.admission.turns().place_of_operation(operation.id);
  return view;
}

dto::Queue queue_view(service::Service& service) {
  dto::Queue view;
  const auto add = [&](const std::string& name, const service::TurnQueue& queue) {
    for (const auto& waiting : queue.waiting()) {
      const auto& claim = waiting.claim;
      dto::QueueEntry entry{.id = waiting.id,
                            .queue = name,
                            .what = claim.what,
                            .priority = claim.priority,
                            .place = waiting.place,
                            .since = format_time(waiting.since),
                            .deployment = claim.deployment,
                            .operation = {}};
      if (!claim.operation.empty()) entry.operation = claim.operation;
      view.waiting.push_back(std::move(entry));
    }
  };
  add("admission", service.admission.turns());
  add("start", service.supervisor.starts());
  if (const auto& holder = service.admission.turns().holder()) view.deciding = holder->what;
  if (const auto& holder = service.supervisor.starts().holder()) view.starting = holder->what;
  return view;
}

dto::Plans plans_view(const service::PlanSet& set) {
  auto view = dto::to_dto(set.plans);
  view.plan_set = set.id;
  return view;
}

dto::Calibrations calibrations_view(service::Service& service, const ports::Learned& learned) {
  using service::id_of;
  std::map<std::string, std::string> names;
  for (const auto* deployment : service.table.all()) names[deployment->fingerprint] = deployment->model_name;
  dto::Calibrations view;
  for (const auto& record : learned.records) {
    view.records.push_back({id_of(record), names[record.fingerprint], record.fingerprint, record.configuration_key,
                            record.measured, record.formula, format_time(record.recorded_at)});
  }
  for (const auto& floor : learned.oom_floors) {
    view.oom_floors.push_back({id_of(floor), names[floor.fingerprint], floor.fingerprint, floor.configuration_key,
                               floor.killed_size, floor.kills, floor.evidence, format_time(floor.recorded_at)});
  }
  for (const auto& duration : learned.durations) {
    dto::Duration row{.id = id_of(duration),
                      .model = names[duration.fingerprint],
                      .fingerprint = duration.fingerprint,
                      .action = std::string{planner::name_of(duration.action)},
                      .level = {},
                      .took_s = duration.took.count(),
                      .recorded_at = format_time(duration.recorded_at)};
    if (duration.level > 0) row.level = duration.level;
    view.durations.push_back(std::move(row));
  }
  for (const auto& record : learned.sleep_records) {
    view.asleep.push_back({id_of(record), names[record.fingerprint], record.fingerprint, record.configuration_key,
                           record.level, record.asleep, record.freed, format_time(record.recorded_at)});
  }
  return view;
}

}  // namespace dgxmm::api
