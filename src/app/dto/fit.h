#pragma once
#include "app/dto/dto.h"
#include "base/result.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"
#include "core/model/layout.h"
#include "core/planner/plans.h"
#include "core/settings/settings.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

// The answer to "will it fit?", the same from the daemon and without one.
namespace dgxmm::dto {

/// A host that is only described: one of the two.
struct GivenHost {
  std::optional<Bytes> mem_total;  ///< of a host with a GPU in the same pool and nothing running
  std::optional<Bytes> free;       ///< what new deployments may take
};

/// From "121.69GiB" as `host` or as `free`; nothing when neither is given. Errors: `bad_size`, `bad_field` naming it.
Result<std::optional<GivenHost>> read_given_host(const std::optional<std::string>& host,
                                                 const std::optional<std::string>& free);

/// A model with settings, and what it takes with them.
struct SizedModel {
  std::shared_ptr<const model::ModelDescription> model;
  engine::EngineConfig config;
  memory::Estimate estimate;
  planner::Estimator estimator;  ///< for other settings
};

struct FitQuestion {
  SizedModel asked;
  std::vector<SizedModel> others;  ///< the same model in other quantizations
  planner::PlanInput situation;    ///< the host; its `config` is not read
  std::optional<Budget> budget;    ///< of the host, when there is more to say than what is free
  std::string host = "this host";  ///< or what was described

  /// On a host that is only described, instead.
  void place(const GivenHost& given, const settings::Settings& settings);
};

/// Errors: those of planner::make_plans.
Result<Fit> make_fit(FitQuestion question);

}  // namespace dgxmm::dto
