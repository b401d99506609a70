#include "core/planner/scenario.h"

#include "base/masking.h"
#include "core/model/companions.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

namespace dgxmm::planner {
namespace {

Result<const model::ModelDescription*> find_model(const Scenario& scenario, const std::string& name,
                                                  const char* field) {
  const auto found = std::ranges::find_if(scenario.models, [&](const auto& model) {
    return model.name == name || (!model.path.empty() && model.path == name);
  });
  if (found != scenario.models.end()) return &*found;
  return fail("model_not_found", fmt::format("{}: the scenario has no model '{}'", field, printable(name)),
              "its `models` lists those that it has", field);
}

/// With calibration, as the daemon of that host would have it.
Estimator estimator_of(const Scenario& scenario, const model::ModelDescription& model,
                       const model::Companions& companions) {
  return [&scenario, &model, companions](const engine::EngineConfig& config) -> Result<memory::Estimate> {
    auto formula = memory::estimate(model, config, scenario.estimate_settings, scenario.placement, companions);
    if (!formula) return formula;
    return memory::calibrate(std::move(*formula), model::fingerprint_of(model, companions).digest,
                             engine::configuration_key(config), scenario.records, scenario.floors);
  };
}

std::optional<std::chrono::seconds> load_time_of(const Scenario& scenario, const model::ModelDescription& model,
                                                 const model::Companions& companions) {
  return measured(scenario.durations, model::fingerprint_of(model, companions).digest, Action::load);
}

bool is_other_quantization(const model::ModelDescription& model, const model::ModelDescription& asked) {
  return &model != &asked && !asked.base_model.empty() && model.base_model == asked.base_model &&
         model.format == asked.format && model.fingerprint != asked.fingerprint;
}

}  // namespace

Result<Plans> plans_of(const Scenario& scenario, const engine::DeployRequest& request) {
  const auto asked = find_model(scenario, request.model, "model");
  if (!asked) return fail(asked.error());
  model::Companions companions;
  if (request.mmproj && *request.mmproj != "none") {
    const auto projector = std::ranges::find(scenario.projectors, *request.mmproj, &model::Projector::path);
    if (projector == scenario.projectors.end()) {
      return fail("model_not_found",
                  fmt::format("mmproj: the scenario has no projector '{}'", printable(*request.mmproj)),
                  "its `projectors` lists those that it has", "mmproj");
    }
    companions.projector = *projector;
  }
  if (request.draft_model && !request.draft_model->empty()) {
    const auto draft = find_model(scenario, *request.draft_model, "draft_model");
    if (!draft) return fail(draft.error());
    companions.draft = **draft;
  }
  auto config = engine::resolve(request, **asked, scenario.defaults);
  if (!config) return fail(config.error());

  auto input = scenario.host;
  input.config = std::move(*config);
  input.priority = request.priority.value_or(0);
  input.quantization = (*asked)->quantization;
  input.load_takes = load_time_of(scenario, **asked, companions);
  for (const auto& model : scenario.models) {
    if (!is_other_quantization(model, **asked)) continue;
    auto other = engine::resolve(request, model, scenario.defaults);
    if (!other) continue;
    input.quantizations.push_back({.name = model.name,
                                   .path = model.path.empty() ? model.name : model.path,
                                   .quantization = model.quantization,
                                   .file_bytes = model.weights.files,
                                   .config = std::move(*other),
                                   .estimator = estimator_of(scenario, model, companions),
                                   .load_takes = load_time_of(scenario, model, companions)});
  }
  return make_plans(input, estimator_of(scenario, **asked, companions));
}

Scenario masked(Scenario scenario) {
  const auto masked_name_of = [](std::ptrdiff_t place) { return fmt::format("projector-{}", place + 1); };
  const auto name_of = [&](const std::string& named) {
    const auto found = find_model(scenario, named, "model");
    return found ? (*found)->name : std::string{};
  };
  if (auto& request = scenario.request) {
    request->model = name_of(request->model);
    if (request->draft_model) request->draft_model = name_of(*request->draft_model);
    const auto projector = std::ranges::find(scenario.projectors, request->mmproj, &model::Projector::path);
    if (projector != scenario.projectors.end()) {
      request->mmproj = masked_name_of(projector - scenario.projectors.begin());
    } else if (request->mmproj != "none") {
      request->mmproj.reset();
    }
    request->name.reset();
    request->served_name.reset();
    request->port.reset();
    request->image.reset();  // a registry's name is a host's
    request->labels.clear();
  }
  for (auto& candidate : scenario.host.deployments) {
    candidate.name = fmt::format("deployment-{}", candidate.memory.id.value);
  }
  for (std::ptrdiff_t i = 0; i < std::ssize(scenario.projectors); ++i) {
    scenario.projectors[static_cast<std::size_t>(i)].path = masked_name_of(i);
  }
  for (auto& model : scenario.models) {
    model.path.clear();
    for (auto& file : model.files) file.path.clear();
    model.projectors.clear();
    model.notes.clear();
  }
  return scenario;
}

}  // namespace dgxmm::planner
