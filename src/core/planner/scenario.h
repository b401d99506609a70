#pragma once
#include "base/result.h"
#include "core/engine/request.h"
#include "core/memory/calibration.h"
#include "core/memory/estimate.h"
#include "core/model/companions.h"
#include "core/model/layout.h"
#include "core/planner/durations.h"
#include "core/planner/plans.h"

#include <optional>
#include <vector>

namespace dgxmm::planner {

/// A host that is only described, with all that its plans are made of: to share a case, and to replay it.
struct Scenario {
  PlanInput host;  ///< memory, settings and deployments; the rest of it is not read
  memory::Placement placement = memory::Placement::gpu;
  memory::EstimateSettings estimate_settings;
  engine::ConfigDefaults defaults;
  std::vector<model::ModelDescription> models;  ///< on its disk
  std::vector<model::Projector> projectors;     ///< on its disk
  std::vector<memory::CalibrationRecord> records;
  std::vector<memory::OomFloor> floors;
  std::vector<DurationRecord> durations;         ///< how long it took there, of these models
  std::optional<engine::DeployRequest> request;  ///< the one in question
};

/// The plans for a request on that host. `request.model` and `request.draft_model` are names or paths of the scenario's
/// models, `request.mmproj` is the path of one of its projectors. Errors: `model_not_found`, those of engine::resolve
/// and make_plans.
Result<Plans> plans_of(const Scenario& scenario, const engine::DeployRequest& request);

/// Without paths, images, names that people gave to deployments, ports and labels. Names of models stay: what fits is
/// about them.
Scenario masked(Scenario scenario);

}  // namespace dgxmm::planner
