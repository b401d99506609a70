#include "app/api/views.h"

#include "app/dto/convert.h"

#include <fmt/format.h>

#include <map>
#include <string>

namespace dgxmm::api {

dto::Budget budget_view(service::Service& service, const service::HostSnapshot& snapshot) {
  auto view = dto::to_dto(snapshot.budget);
  view.revision = snapshot.revision;
  view.time = format_time(snapshot.time);
  view.source = "daemon";
  view.warnings = snapshot.warnings;
  view.host_class = host::name_of(snapshot.gpu.host_class);
  view.host_class_evidence = snapshot.gpu.evidence;
  view.gpu_bytes = snapshot.gpu.held_by_all();
  view.gpu_estimate_bytes = snapshot.gpu_estimate;
  // Where no GPU shares the memory nobody was asked.
  if (snapshot.gpu.host_class != host::HostClass::none) view.gpu_age_s = snapshot.gpu.age.count() / 1000;
  for (const auto& entry : snapshot.deployments) {
    const auto* deployment = service.table.find(entry.id);
    dto::BudgetDeployment row{.id = entry.id,
                              .name = deployment == nullptr ? std::string{} : deployment->name,
                              .state = std::string{deployment::name_of(entry.state)},
                              .reserved_bytes = entry.reserved,
                              .measured = {}};
    if (entry.measured) row.measured = dto::to_dto(*entry.measured);
    view.deployments.push_back(std::move(row));
  }
  return view;
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
  if (deployment.state == deployment::State::sleeping) view.sleep_level = deployment.sleep_level;
  view.asleep_bytes = deployment.asleep;
  view.sleep_freed_bytes = deployment.sleep_freed;
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
  if (deployment.state == deployment::State::ready) view.busy = deployment.activity.busy();
  if (deployment.idle_since) view.idle_since = format_time(*deployment.idle_since);
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
  return view;
}

dto::Plans plans_view(const service::PlanSet& set) {
  auto view = dto::to_dto(set.plans);
  view.plan_set = set.id;
  return view;
}

dto::Calibrations calibrations_view(service::Service& service) {
  std::map<std::string, std::string> names;
  for (const auto* deployment : service.table.all()) names[deployment->fingerprint] = deployment->model_name;
  dto::Calibrations view;
  for (const auto& record : service.estimates.records()) {
    view.records.push_back({names[record.fingerprint], record.fingerprint, record.configuration_key, record.measured,
                            record.formula, format_time(record.recorded_at)});
  }
  for (const auto& floor : service.estimates.floors()) {
    view.oom_floors.push_back({names[floor.fingerprint], floor.fingerprint, floor.configuration_key, floor.killed_size,
                               floor.kills, floor.evidence, format_time(floor.recorded_at)});
  }
  return view;
}

}  // namespace dgxmm::api
