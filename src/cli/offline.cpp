#include "cli/offline.h"

#include "app/dto/convert.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"
#include "core/model/catalog.h"
#include "ports/companions.h"

#include <memory>
#include <string_view>
#include <utility>

namespace dgxmm::cli {
namespace {

Result<std::string> path_of(ports::ModelFiles& files, const settings::Settings& settings, const std::string& model,
                            std::string_view field) {
  if (model.find('/') != std::string::npos && !model::is_repository_name(model)) return model;
  return model::find_model(files.scan(settings.searched_folders()), model, field);
}

/// One model with the request's settings.
Result<dto::SizedModel> size_up(ports::ModelFiles& files, const settings::Settings& settings,
                                engine::DeployRequest request, const std::string& path, memory::Placement placement) {
  auto model = files.describe(path);
  if (!model) return fail(model.error());
  auto companions = ports::describe_companions(files, request);
  if (!companions) return fail(companions.error());
  const auto shared = std::make_shared<const model::ModelDescription>(std::move(*model));
  const auto config = engine::resolve(request, *shared, settings.config_defaults());
  if (!config) return fail(config.error());
  auto estimator = [shared, placement, limits = settings.estimate(),
                    companions = std::move(*companions)](const engine::EngineConfig& other) {
    return memory::estimate(*shared, other, limits, placement, companions);
  };
  auto estimate = estimator(*config);
  if (!estimate) return fail(estimate.error());
  return dto::SizedModel{shared, *config, std::move(*estimate), std::move(estimator)};
}

std::vector<dto::SizedModel> other_quantizations(ports::ModelFiles& files, const settings::Settings& settings,
                                                 const engine::DeployRequest& request, const dto::SizedModel& asked,
                                                 memory::Placement placement) {
  std::vector<dto::SizedModel> others;
  for (const auto& entry : files.quantizations_of(*asked.model, settings.searched_folders())) {
    auto other = size_up(files, settings, request, entry.path, placement);
    if (other && other->model->fingerprint != asked.model->fingerprint) others.push_back(std::move(*other));
  }
  return others;
}

}  // namespace

Result<dto::Budget> offline_budget(ports::HostProbe& host, const settings::Settings& settings, WallTime now) {
  const auto meminfo = host.meminfo();
  if (!meminfo) return fail(meminfo.error());
  auto budget = dto::to_dto(memory::compute_budget(meminfo->mem_total, meminfo->mem_available, {}, settings.budget()));
  dto::add_host_figures(budget, *meminfo, host.pressure());
  budget.time = format_time(now);
  budget.source = "direct reading";
  return budget;
}

Result<dto::Fit> offline_fit(const OfflineParts& parts, const settings::Settings& settings,
                             engine::DeployRequest request, const std::optional<dto::GivenHost>& given, WallTime now) {
  const auto path = path_of(*parts.files, settings, request.model, "model");
  if (!path) return fail(path.error());
  if (request.draft_model && !request.draft_model->empty()) {
    auto draft = path_of(*parts.files, settings, *request.draft_model, "draft_model");
    if (!draft) return fail(draft.error());
    request.draft_model = std::move(*draft);
  }
  const bool elsewhere = given && given->mem_total;
  const auto placement = elsewhere || parts.host->has_nvidia_driver() ? memory::Placement::gpu : memory::Placement::cpu;
  const auto asked = size_up(*parts.files, settings, request, *path, placement);
  if (!asked) return fail(asked.error());

  dto::FitQuestion question{.asked = *asked,
                            .others = other_quantizations(*parts.files, settings, request, *asked, placement),
                            .situation = {},
                            .budget = {}};
  if (given) {
    question.place(*given, settings);
    return dto::make_fit(std::move(question));
  }
  auto budget = offline_budget(*parts.host, settings, now);
  if (!budget) return fail(budget.error());
  question.situation = {.mem_total = budget->mem_total_bytes,
                        .mem_available = budget->mem_available_bytes,
                        .budget_settings = settings.budget(),
                        .deployments = {},
                        .config = {},
                        .min_headroom = gib_from_decimal(settings.min_headroom_gib)};
  question.budget = std::move(*budget);
  return dto::make_fit(std::move(question));
}

dto::Models offline_models(ports::ModelFiles& files, const settings::Settings& settings, WallTime now) {
  const auto folders = settings.searched_folders();
  auto found = files.scan(folders);
  dto::Models result;
  for (const auto& folder : folders) result.folders.push_back(folder.path);
  for (const auto& entry : found.models) result.models.push_back(dto::to_dto(entry));
  result.warnings = std::move(found.problems);
  result.scanned_at = format_time(now);
  return result;
}

}  // namespace dgxmm::cli
