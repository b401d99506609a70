#include "core/planner/plans.h"

#include "core/engine/request.h"
#include "core/planner/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace dgxmm::planner {
namespace {

using deployment::State;
using engine::EngineConfig;
using engine::LlamaCppConfig;
using engine::VllmConfig;

constexpr std::int64_t kShortestContext = 4096;  // P2
constexpr std::size_t kMostStopPlans = 4;        // P7
/// P12: a context below this part of what was asked is no longer what was asked.
constexpr std::int64_t kLeastContextPart = 4;

/// half, quarter, … of `value`, down to `least`.
std::vector<std::int64_t> halvings(std::int64_t value, std::int64_t least) {
  std::vector<std::int64_t> result;
  for (auto part = value / 2; part >= least; part /= 2) result.push_back(part);
  return result;
}

/// Everything that stays the same while the plans are made.
struct Situation {
  const PlanInput& input;
  const Estimator& estimator;
  memory::Estimate as_asked;
  Bytes free_now;
};

Bytes short_by(const Plan& plan) { return std::max(plan.needed - plan.free_after, Bytes{}); }

/// Fills in what follows from `needed` and `free_after`.
Plan settled(Plan plan) {
  plan.shortfall = short_by(plan);
  plan.fits = plan.shortfall == Bytes{};
  plan.left = plan.free_after - plan.needed;
  return plan;
}

/// P12: what makes a plan unsafe, whatever it is.
void judge_room(const PlanInput& input, const memory::Estimate& estimate, Plan& plan) {
  if (!plan.fits) return;
  if (plan.left < input.min_headroom) {
    plan.unsafe.push_back(fmt::format("leaves {}, less than the headroom of {}", format_bytes(plan.left),
                                      format_bytes(input.min_headroom)));
  }
  if (estimate.confidence == memory::Confidence::low && plan.left < estimate.part("margin")) {
    plan.unsafe.push_back("the estimate is a guess in part, and its margin would not fit a second time");
  }
}

// ---- Another configuration of the request: P1, P2, P3

/// "needs 46.0 GiB instead of 78.0 GiB"; the saving alone where that would show the same figure twice.
std::string describe_saving(Bytes needed, Bytes as_asked) {
  const auto now = format_bytes(needed);
  const auto before = format_bytes(as_asked);
  if (now == before) return fmt::format("saves {}", format_bytes(as_asked - needed));
  return fmt::format("needs {} instead of {}", now, before);
}

/// The request under another configuration; nothing when that cannot be had or does not make the request smaller.
std::optional<Plan> reconfigured(const Situation& situation, PlanKind kind, std::string id, std::string_view what,
                                 EngineConfig config) {
  if (!engine::check(config)) return std::nullopt;
  const auto estimate = situation.estimator(config);
  if (!estimate || estimate->total >= situation.as_asked.total) return std::nullopt;
  Plan plan = settled({
      .id = std::move(id),
      .kind = kind,
      .needed = estimate->total,
      .free_before = situation.free_now,
      .free_after = situation.free_now,
      .config = std::move(config),
      .confidence = estimate->confidence,
  });
  plan.title = fmt::format("{}: {}", what, describe_saving(plan.needed, situation.as_asked.total));
  if (!plan.fits) plan.title += fmt::format(", still {} too much", format_bytes(plan.shortfall));
  judge_room(situation.input, *estimate, plan);
  const auto asked = context_of(situation.input.config);
  if (kind == PlanKind::ctx && context_of(plan.config) * kLeastContextPart < asked) {
    plan.unsafe.push_back(fmt::format("a context of {} is under a quarter of the {} that were asked for",
                                      context_of(plan.config), asked));
  }
  return plan;
}

/// The smaller of that type and q8_0.
engine::CacheType at_most_q8_0(engine::CacheType type) {
  using engine::CacheType;
  const bool wider = type == CacheType::f32 || type == CacheType::f16 || type == CacheType::bf16;
  return wider ? CacheType::q8_0 : type;
}

/// P1
std::optional<Plan> smaller_cache_type(const Situation& situation) {
  auto config = situation.input.config;
  std::string type;
  std::string cache = "KV";
  if (auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    const auto k = at_most_q8_0(llamacpp->cache_type_k);
    const auto v = at_most_q8_0(llamacpp->cache_type_v);
    if (v == llamacpp->cache_type_v) cache = "K";
    if (k == llamacpp->cache_type_k) cache = "V";
    type = "q8_0";
    llamacpp->cache_type_k = k;
    llamacpp->cache_type_v = v;
  } else {
    type = "fp8";
    std::get<VllmConfig>(config).kv_cache_dtype = type;
  }
  return reconfigured(situation, PlanKind::kv, "kv:" + type, fmt::format("Keep the {} cache as {}", cache, type),
                      std::move(config));
}

/// P2, P3: the first of ever smaller candidates that fits, else the smallest that can be had.
template <class MakePlan>
std::optional<Plan> first_that_fits(const std::vector<std::int64_t>& candidates, MakePlan make_plan) {
  std::optional<Plan> smallest;
  for (const auto candidate : candidates) {
    auto plan = make_plan(candidate);
    if (!plan) continue;
    if (plan->fits) return plan;
    if (!smallest || plan->needed < smallest->needed) smallest = std::move(plan);
  }
  return smallest;
}

std::optional<Plan> shorter_context(const Situation& situation) {  // P2
  const auto& config = situation.input.config;
  return first_that_fits(halvings(context_of(config), kShortestContext), [&](std::int64_t context) {
    return reconfigured(situation, PlanKind::ctx, fmt::format("ctx:{}", context),
                        fmt::format("Shorten the context to {} tokens", context), with_context(config, context));
  });
}

std::optional<Plan> fewer_sequences(const Situation& situation) {  // P3
  const auto& config = situation.input.config;
  const auto* word = kind_of(config) == engine::EngineKind::llamacpp ? "slot" : "sequence";
  return first_that_fits(halvings(sequences_of(config), 1), [&](std::int64_t sequences) {
    return reconfigured(situation, PlanKind::seqs, fmt::format("seqs:{}", sequences),
                        fmt::format("Serve {} {}{} at a time", sequences, word, sequences == 1 ? "" : "s"),
                        with_sequences(config, sequences));
  });
}

// ---- Stopping a deployment: P6

bool asleep(const Candidate& candidate) { return candidate.memory.state == State::sleeping; }

/// Unknown is treated as busy: stopping it may cut off a request.
bool may_be_busy(const Candidate& candidate) { return !asleep(candidate) && candidate.busy.value_or(true); }

/// B7: a part that counts is unknown, so that what it holds is known only in part.
bool rests_on_unknown(const memory::DeploymentMemory& memory) {
  return memory.holds_memory && (!memory.measured || !memory.measured->anon || !memory.measured->gpu);
}

/// P8, least disruptive first: not busy, lower priority, longest idle.
auto rank(const Candidate& candidate) {
  using Seconds = std::chrono::seconds;
  const auto idle = asleep(candidate) ? Seconds::max() : candidate.idle_since.value_or(Seconds{});
  return std::tuple{may_be_busy(candidate), candidate.priority, -idle.count(), candidate.memory.id};
}

std::vector<const Candidate*> ranked_victims(const PlanInput& input) {
  std::vector<const Candidate*> victims;
  for (const auto& candidate : input.deployments) {
    const auto state = candidate.memory.state;
    if (state != State::stopping && !deployment::is_final(state)) victims.push_back(&candidate);
  }
  std::ranges::sort(victims, {}, [](const Candidate* candidate) { return rank(*candidate); });
  return victims;
}

Bytes free_for_new(const PlanInput& input, Bytes mem_available, const Candidate* without) {
  std::vector<memory::DeploymentMemory> deployments;
  for (const auto& candidate : input.deployments) {
    if (&candidate != without) deployments.push_back(candidate.memory);
  }
  return memory::compute_budget(input.mem_total, mem_available, deployments, input.budget_settings).free_for_new;
}

/// P10: the budget once the deployment is gone. MemAvailable rises by what it holds: its measure; and where a part of
/// that is unknown, what the budget credits it with until then (B4), or that would turn into external memory.
Bytes free_without(const PlanInput& input, const Candidate& victim) {
  const auto& memory = victim.memory;
  Bytes given_back = memory.measured && memory.holds_memory ? memory.measured->total() : Bytes{};
  if (rests_on_unknown(memory)) given_back += memory::ready_gap_of(memory);
  return free_for_new(input, input.mem_available + given_back, &victim);
}

std::string format_idle(std::chrono::seconds idle) {
  using namespace std::chrono;
  if (idle < minutes{1}) return fmt::format("{} s", idle.count());
  if (idle < hours{2}) return fmt::format("{} min", duration_cast<minutes>(idle).count());
  if (idle < days{2}) return fmt::format("{} h", duration_cast<hours>(idle).count());
  return fmt::format("{} days", duration_cast<days>(idle).count());
}

std::string activity(const Candidate& candidate) {
  if (asleep(candidate)) return "asleep";
  if (!candidate.busy) return "activity unknown";
  if (*candidate.busy) return "busy";
  return candidate.idle_since ? "idle for " + format_idle(*candidate.idle_since) : "idle";
}

/// P12: what makes it unsafe to stop this one.
void judge_victim(const PlanInput& input, const Candidate& victim, Plan& plan) {
  if (may_be_busy(victim)) {
    plan.unsafe.push_back(victim.busy ? fmt::format("{} is busy", victim.name)
                                      : fmt::format("{} may be busy: its engine did not say", victim.name));
  }
  if (victim.pinned) plan.unsafe.push_back(fmt::format("{} is pinned", victim.name));
  if (victim.priority > input.priority) {
    plan.unsafe.push_back(
        fmt::format("{} has the higher priority ({} against {})", victim.name, victim.priority, input.priority));
  }
  if (rests_on_unknown(victim.memory)) {
    plan.unsafe.push_back(fmt::format("what {} holds is known only in part", victim.name));
  }
}

std::vector<Plan> stops(const Situation& situation) {
  const auto& input = situation.input;
  std::vector<Plan> plans;
  for (const auto* victim : ranked_victims(input)) {
    Plan plan = settled({
        .id = fmt::format("stop:{}", victim->memory.id.value),
        .kind = PlanKind::stop,
        .needed = situation.as_asked.total,
        .free_before = situation.free_now,
        .free_after = free_without(input, *victim),
        .config = input.config,
        .confidence = situation.as_asked.confidence,
        .stops = {victim->memory.id},
    });
    // P7: alone it must be enough.
    if (!plan.fits) continue;
    plan.title = fmt::format("Stop {} ({}): frees {}", victim->name, activity(*victim),
                             format_bytes(plan.free_after - plan.free_before));
    judge_victim(input, *victim, plan);
    judge_room(input, situation.as_asked, plan);
    plans.push_back(std::move(plan));
    if (plans.size() == kMostStopPlans) break;
  }
  return plans;
}

// ---- All of them

/// A stable partition. (std::stable_partition of libstdc++ 12 warns with clang, of a deprecated call of its own.)
std::vector<Plan> fitting_first(const std::vector<Plan>& plans) {
  std::vector<Plan> result;
  std::ranges::copy_if(plans, std::back_inserter(result), &Plan::fits);
  std::ranges::copy_if(plans, std::back_inserter(result), std::not_fn(&Plan::fits));
  return result;
}

/// P12: at most one, the mildest safe one.
void recommend(std::vector<Plan>& plans) {
  static constexpr std::array kMildestFirst{PlanKind::kv,    PlanKind::mix,  PlanKind::sleep, PlanKind::ctx,
                                            PlanKind::quant, PlanKind::seqs, PlanKind::stop};
  for (const auto kind : kMildestFirst) {
    const auto found = std::ranges::find_if(
        plans, [&](const Plan& plan) { return plan.kind == kind && plan.fits && plan.unsafe.empty(); });
    if (found == plans.end()) continue;
    found->recommended = true;
    return;
  }
}

std::string summarize(const Plans& plans) {
  const auto room = plans.free_for_new < Bytes{}
                        ? fmt::format("the host is over-committed by {}", format_bytes(-plans.free_for_new))
                        : fmt::format("{} are free", format_bytes(plans.free_for_new));
  auto text = fmt::format("Needs {}, {}", format_bytes(plans.needed), room);
  if (plans.fits_now) return text + ": it fits.";
  text += fmt::format(": {} too little", format_bytes(plans.shortfall));
  const auto fitting = std::ranges::count(plans.plans, true, &Plan::fits);
  if (fitting == 0) return text + ", and no plan makes it fit.";
  return text + fmt::format("; {} plan{} make{} it fit.", fitting, fitting == 1 ? "" : "s", fitting == 1 ? "s" : "");
}

}  // namespace

Result<Plans> make_plans(const PlanInput& input, const Estimator& estimator) {
  auto as_asked = estimator(input.config);
  if (!as_asked) return fail(as_asked.error());
  const Situation situation{
      .input = input,
      .estimator = estimator,
      .as_asked = std::move(*as_asked),
      .free_now = free_for_new(input, input.mem_available, nullptr),
  };

  Plans result;
  result.needed = situation.as_asked.total;
  result.free_for_new = situation.free_now;
  result.shortfall = std::max(result.needed - result.free_for_new, Bytes{});
  result.fits_now = result.shortfall == Bytes{};
  if (!result.fits_now) {
    for (auto& plan : {smaller_cache_type(situation), shorter_context(situation), fewer_sequences(situation)}) {
      if (plan) result.plans.push_back(plan.value());
    }
    std::ranges::move(stops(situation), std::back_inserter(result.plans));
    result.plans = fitting_first(result.plans);
    recommend(result.plans);
  }
  result.summary = summarize(result);
  return result;
}

}  // namespace dgxmm::planner
