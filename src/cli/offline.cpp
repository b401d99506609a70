#include "cli/offline.h"

#include "app/dto/convert.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"
#include "ports/companions.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

Result<std::string> path_of(ports::ModelFiles& files, const settings::Settings& settings, const std::string& model,
                            const std::string& field) {
  if (model.find('/') != std::string::npos) return model;
  std::vector<std::string> paths;
  for (const auto& entry : files.scan(settings.model_folders).models) {
    if (entry.name == model) paths.push_back(entry.path);
  }
  if (paths.size() == 1) return paths.front();
  if (paths.size() > 1) {
    return fail("model_ambiguous", fmt::format("there are {} models named '{}'", paths.size(), model),
                fmt::format("give the path, for example {}", paths.front()), field);
  }
  return fail("model_not_found", fmt::format("there is no model '{}', here or in the model folders", model),
              "give the path of a GGUF file or of a model folder, or set `model_folders`", field);
}

}  // namespace

Result<dto::Budget> offline_budget(ports::HostProbe& host, const settings::Settings& settings, WallTime now) {
  const auto meminfo = host.meminfo();
  if (!meminfo) return fail(meminfo.error());
  auto budget = dto::to_dto(memory::compute_budget(meminfo->mem_total, meminfo->mem_available, {}, settings.budget()));
  budget.time = format_time(now);
  budget.source = "direct reading";
  return budget;
}

Result<dto::Fit> offline_fit(const OfflineParts& parts, const settings::Settings& settings,
                             engine::DeployRequest request, WallTime now) {
  const auto path = path_of(*parts.files, settings, request.model, "model");
  if (!path) return fail(path.error());
  const auto model = parts.files->describe(*path);
  if (!model) return fail(model.error());
  if (request.draft_model && !request.draft_model->empty()) {
    auto draft = path_of(*parts.files, settings, *request.draft_model, "draft_model");
    if (!draft) return fail(draft.error());
    request.draft_model = std::move(*draft);
  }
  const auto companions = ports::describe_companions(*parts.files, request);
  if (!companions) return fail(companions.error());
  const auto config = engine::resolve(request, *model, settings.config_defaults());
  if (!config) return fail(config.error());
  const auto placement = parts.host->has_nvidia_driver() ? memory::Placement::gpu : memory::Placement::cpu;
  const auto estimate = memory::estimate(*model, *config, settings.estimate(), placement, *companions);
  if (!estimate) return fail(estimate.error());
  auto budget = offline_budget(*parts.host, settings, now);
  if (!budget) return fail(budget.error());
  return dto::make_fit(*model, *config, *estimate, std::move(*budget));
}

}  // namespace dgxmm::cli
