#include "app/api/views.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace dgxmm::api {
namespace {

double value(Bytes bytes) { return static_cast<double>(bytes.count()); }

}  // namespace

std::string metrics_page(service::Service& service, const std::string& version) {
  prometheus::Registry registry;
  const auto family = [&](const char* name, const char* help) -> prometheus::Family<prometheus::Gauge>& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  };
  family("dgxmm_build_info", "Always 1; the version is a label").Add({{"version", version}}).Set(1);

  const auto snapshot = service.sampler.latest();
  if (!snapshot->problem) {
    const auto& budget = snapshot->budget;
    auto& quantities = family("dgxmm_budget_bytes", "The memory budget of the host, by quantity");
    const std::pair<const char*, Bytes> rows[] = {{"mem_total", budget.mem_total},
                                                  {"mem_available", budget.mem_available},
                                                  {"safety_margin", budget.safety_margin},
                                                  {"os_reserve", budget.os_reserve},
                                                  {"usable", budget.usable},
                                                  {"committed", budget.committed},
                                                  {"used", budget.used},
                                                  {"measured_by_managed", budget.measured_by_managed},
                                                  {"ready_gap", budget.ready_gap},
                                                  {"external", budget.external},
                                                  {"free_for_new", budget.free_for_new}};
    for (const auto& [name, bytes] : rows) quantities.Add({{"quantity", name}}).Set(value(bytes));
  }
  family("dgxmm_host_class", "1 for how CPU and GPU memory relate on this host")
      .Add({{"class", std::string{host::name_of(snapshot->gpu.host_class)}}})
      .Set(1);
  if (const auto held = snapshot->gpu.held_by_all()) {
    family("dgxmm_gpu_bytes", "GPU memory of all processes; absent when it is unknown").Add({}).Set(value(*held));
  }
  auto& reserved = family("dgxmm_deployment_reserved_bytes", "Memory reserved for a deployment");
  auto& measured =
      family("dgxmm_deployment_measured_bytes", "Memory that a deployment holds, by part; unknown parts are absent");
  auto& states = family("dgxmm_deployment_state", "1 for the state that a deployment is in");
  for (const auto& entry : snapshot->deployments) {
    const auto* deployment = service.table.find(entry.id);
    if (deployment == nullptr) continue;
    const prometheus::Labels labels{{"id", std::to_string(entry.id.value)}, {"name", deployment->name}};
    const auto with = [&](const char* key, std::string text) {
      auto extended = labels;
      extended.emplace(key, std::move(text));
      return extended;
    };
    reserved.Add(labels).Set(value(entry.reserved));
    states.Add(with("state", std::string{deployment::name_of(entry.state)})).Set(1);
    if (!entry.measured) continue;
    const std::pair<const char*, std::optional<Bytes>> parts[] = {{"anon", entry.measured->anon},
                                                                  {"kernel", entry.measured->kernel},
                                                                  {"shmem", entry.measured->shmem},
                                                                  {"gpu", entry.measured->gpu}};
    for (const auto& [name, bytes] : parts) {
      if (bytes) measured.Add(with("part", name)).Set(value(*bytes));
    }
  }
  std::int64_t kills = 0;
  for (const auto& floor : service.estimates.floors()) kills += floor.kills;
  family("dgxmm_out_of_memory_kills", "Proven out-of-memory kills of engines, but for those that were forgotten")
      .Add({})
      .Set(static_cast<double>(kills));
  family("dgxmm_last_event_id", "Id of the newest event").Add({}).Set(static_cast<double>(service.events.last_id()));
  return prometheus::TextSerializer{}.Serialize(registry.Collect());
}

}  // namespace dgxmm::api
