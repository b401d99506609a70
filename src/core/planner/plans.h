#pragma once
#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "core/engine/config.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"
#include "core/planner/durations.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::planner {

enum class PlanKind { kv, ctx, seqs, quant, mix, sleep, stop };

inline constexpr std::size_t kMostSleepPlans = 3;  ///< P7
inline constexpr std::size_t kMostStopPlans = 4;   ///< P7

/// One way in which a deployment can sleep (P5).
struct SleepLevel {
  std::int64_t level = 1;  ///< vLLM's: 1 keeps the weights in host memory, which is the same pool; 2 drops them
  Bytes size_asleep;       ///< P10: as it was last measured, else derived
  bool learned = false;    ///< it was measured
  Bytes wake_peak;         ///< what it holds at most while it wakes up
  std::optional<std::chrono::seconds> sleep_takes = {};  ///< as measured here, as for the next
  std::optional<std::chrono::seconds> wake_takes = {};
};

/// A deployment as the planner sees it.
struct Candidate {
  memory::DeploymentMemory memory;
  std::string name;
  std::int64_t priority = 0;
  bool pinned = false;
  std::optional<bool> busy;                        ///< absent: the engine did not say; ranked as busy
  std::optional<std::chrono::seconds> idle_since;  ///< time without a request; absent: never seen idle
  std::optional<std::int64_t> requests = {};       ///< in flight; absent: the engine did not say
  std::vector<SleepLevel> sleep_levels = {};       ///< the mildest first; empty: it cannot sleep
  Bytes weights = {};                              ///< that are read when it starts again
  engine::EngineKind engine = engine::EngineKind::llamacpp;
  std::optional<std::chrono::seconds> load_takes = {};  ///< from start to ready, as measured here
  std::optional<std::chrono::seconds> stop_takes = {};  ///< until its memory is back, as measured here
  bool returns = false;                                 ///< the request is to wake it up: it counts, and gives no way
};

/// A deployment that is put to sleep.
struct Sleep {
  DeploymentId id;
  std::int64_t level = 1;
  friend bool operator==(const Sleep&, const Sleep&) = default;
};

/// What makes a plan unsafe (P12).
struct Risk {
  enum class Kind {
    busy,
    perhaps_busy,  ///< its engine did not say
    pinned,
    priority,         ///< of the victim, above that of the request
    unknown_measure,  ///< what is freed rests on one
    no_way_back,      ///< what it did could not be undone
    headroom,
    margin,  ///< of an estimate that is a guess in part
    context,
  };
  Kind kind = Kind::headroom;
  DeploymentId victim = {};  ///< who gives way, where it is about one
  std::string text;          ///< for people; its figures may be others a moment later
};

/// One way to make the request fit.
struct Plan {
  std::string id;  ///< "kv:q8_0", "ctx:16384", "seqs:2", "quant:NAME", "mix:kv:q8_0+seqs:2", "sleep:3", "stop:3+5"
  PlanKind kind = PlanKind::kv;
  std::string title;  ///< one sentence for people
  bool fits = false;
  Bytes needed;                 ///< what the request takes under this plan
  Bytes free_before;            ///< free_for_new now
  Bytes free_after;             ///< free_for_new when the plan's actions are done and before the request starts
  Bytes shortfall;              ///< what is still missing; 0 when it fits
  Bytes left;                   ///< free_for_new once the request runs; negative when it does not fit
  Bytes frees;                  ///< less needed than as asked, or more free than now
  engine::EngineConfig config;  ///< of the request under this plan
  memory::Confidence confidence = memory::Confidence::estimated;
  std::string model_path = {};  ///< of another quantization; empty = the model that was asked for, as for its name
  std::string model_name = {};
  std::vector<Sleep> sleeps = {};   ///< deployments that are put to sleep, ids ascending
  std::vector<DeploymentId> stops;  ///< deployments that are stopped, ids ascending
  bool shortens_context = false;
  Duration takes = {};                  ///< until the request is served
  std::vector<std::string> costs = {};  ///< for people: "quality: …", "context: …", "service: …"
  std::vector<Risk> unsafe;             ///< empty = safe
  bool recommended = false;
  std::string why = {};  ///< of the recommended one: for people
};

/// The texts of its risks.
std::vector<std::string> reasons_of(const Plan& plan);

/// Whether the plan says that this one may have requests in flight.
bool interrupts(const Plan& plan, DeploymentId victim);

/// What `now` is unsafe for that was not shown; without requests in flight when `even_if_busy`.
std::vector<std::string> new_reasons(const Plan& shown, const Plan& now, bool even_if_busy = false);

/// Whether `now` does just what was shown, and has no new reasons. Its figures may be others.
bool is_as_shown(const Plan& shown, const Plan& now, bool even_if_busy = false);

/// Estimates the request under another configuration, with calibration. A failure means that this configuration
/// cannot be had, and its plan is left out.
using Estimator = std::function<Result<memory::Estimate>(const engine::EngineConfig&)>;

/// Another quantization of the requested model on disk (P4).
struct OtherQuantization {
  std::string name;
  std::string path;
  std::string quantization;  ///< label for people: "Q4_K_M"
  Bytes file_bytes;
  engine::EngineConfig config;  ///< the request resolved for it
  Estimator estimator;
  std::optional<std::chrono::seconds> load_takes = {};  ///< as measured here
};

struct PlanInput {
  Bytes mem_total;
  Bytes mem_available;
  memory::BudgetSettings budget_settings;
  std::vector<Candidate> deployments;
  engine::EngineConfig config;                          ///< of the request
  std::int64_t priority = 0;                            ///< of the request
  Bytes min_headroom = gib(2);                          ///< P12
  std::string quantization = {};                        ///< of the requested model, for people
  std::optional<std::chrono::seconds> load_takes = {};  ///< of the requested model, as measured here
  std::vector<OtherQuantization> quantizations = {};    ///< in any order; larger ones are left out
};

struct Plans {
  bool fits_now = false;
  Bytes needed;
  Bytes free_for_new;
  Bytes shortfall;                           ///< 0 when it fits now
  std::vector<Plan> plans;                   ///< P1 to P6 in their order, those that fit first
  std::optional<Bytes> missing_without_all;  ///< P9: still too little with everything stopped; absent: it would fit
  std::string summary;                       ///< one sentence, also when nothing helps
};

/// Plans for a request that does not fit; none when it fits now. Pure: the same input gives the same plans. Errors:
/// those of the estimator for the request as asked.
Result<Plans> make_plans(const PlanInput& input, const Estimator& estimator);

}  // namespace dgxmm::planner
