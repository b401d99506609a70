#pragma once
#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "core/engine/config.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dgxmm::planner {

enum class PlanKind { kv, ctx, seqs, quant, mix, sleep, stop };

/// A deployment as the planner sees it.
struct Candidate {
  memory::DeploymentMemory memory;
  std::string name;
  std::int64_t priority = 0;
  bool pinned = false;
  std::optional<bool> busy;                        ///< absent: the engine did not say; ranked as busy
  std::optional<std::chrono::seconds> idle_since;  ///< time without a request; absent: never seen idle
};

/// One way to make the request fit.
struct Plan {
  std::string id;  ///< "kv:q8_0", "ctx:16384", "seqs:2", "stop:3"
  PlanKind kind = PlanKind::kv;
  std::string title;  ///< one sentence for people
  bool fits = false;
  Bytes needed;                 ///< what the request takes under this plan
  Bytes free_before;            ///< free_for_new now
  Bytes free_after;             ///< free_for_new when the plan's actions are done and before the request starts
  Bytes shortfall;              ///< what is still missing; 0 when it fits
  Bytes left;                   ///< free_for_new once the request runs; negative when it does not fit
  engine::EngineConfig config;  ///< of the request under this plan
  memory::Confidence confidence = memory::Confidence::estimated;
  std::vector<DeploymentId> stops;  ///< deployments that are stopped, ids ascending
  std::vector<std::string> unsafe;  ///< P12: reasons; empty = safe
  bool recommended = false;
};

struct PlanInput {
  Bytes mem_total;
  Bytes mem_available;
  memory::BudgetSettings budget_settings;
  std::vector<Candidate> deployments;
  engine::EngineConfig config;  ///< of the request
  std::int64_t priority = 0;    ///< of the request
  Bytes min_headroom = gib(2);  ///< P12
};

/// Estimates the request under another configuration, with calibration. A failure means that this configuration
/// cannot be had, and its plan is left out.
using Estimator = std::function<Result<memory::Estimate>(const engine::EngineConfig&)>;

struct Plans {
  bool fits_now = false;
  Bytes needed;
  Bytes free_for_new;
  Bytes shortfall;          ///< 0 when it fits now
  std::vector<Plan> plans;  ///< P1, P2, P3, P6 in their order, those that fit first
  std::string summary;      ///< one sentence, also when nothing helps
};

/// Plans for a request that does not fit; none when it fits now. Pure: the same input gives the same plans. Errors:
/// those of the estimator for the request as asked.
Result<Plans> make_plans(const PlanInput& input, const Estimator& estimator);

}  // namespace dgxmm::planner
