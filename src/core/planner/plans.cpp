#include "core/planner/plans.h"

#include "core/planner/situation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::planner {
namespace {

/// A stable partition. (std::stable_partition of libstdc++ 12 warns with clang, of a deprecated call of its own.)
std::vector<Plan> fitting_first(const std::vector<Plan>& plans) {
  std::vector<Plan> result;
  std::ranges::copy_if(plans, std::back_inserter(result), &Plan::fits);
  std::ranges::copy_if(plans, std::back_inserter(result), std::not_fn(&Plan::fits));
  return result;
}

/// P12: where a plan stands in the order of recommendation. A combination that shortens the context is as a shorter
/// context.
int place_of(const Plan& plan) {
  switch (plan.kind) {
    case PlanKind::kv: return 0;
    case PlanKind::mix: return plan.shortens_context ? 3 : 1;
    case PlanKind::sleep: return 2;
    case PlanKind::ctx: return 3;
    case PlanKind::quant: return 4;
    case PlanKind::seqs: return 5;
    case PlanKind::stop: return 6;
  }
  return 6;
}

std::string reason_for(const Plan& plan) {
  switch (plan.kind) {
    case PlanKind::kv: return "nothing is interrupted, and context and model stay as asked";
    case PlanKind::mix:
      return plan.shortens_context ? "nothing is interrupted, and no single change is enough"
                                   : "nothing is interrupted, the whole context stays, and no single change is enough";
    case PlanKind::sleep:
      return "the request stays as asked, and whoever sleeps comes back without being deployed again";
    case PlanKind::ctx: return "nothing is interrupted, and the model stays as asked";
    case PlanKind::quant: return "nothing is interrupted, and context and sequences stay as asked";
    case PlanKind::seqs: return "nothing is interrupted, and each request keeps its context";
    case PlanKind::stop:
      return "no change of the request itself is safe and enough, and nobody is using what is stopped";
  }
  return {};
}

/// P12: at most one, the mildest safe one.
void recommend(std::vector<Plan>& plans) {
  Plan* best = nullptr;
  for (auto& plan : plans) {
    if (!plan.fits || !plan.unsafe.empty()) continue;
    if (best == nullptr || place_of(plan) < place_of(*best)) best = &plan;
  }
  if (best == nullptr) return;
  best->recommended = true;
  best->why = "the mildest safe plan: " + reason_for(*best);
}

bool is_of_requests(const Risk& risk) { return risk.kind == Risk::Kind::busy || risk.kind == Risk::Kind::perhaps_busy; }

std::string summarize(const Plans& plans) {
  const auto room = plans.free_for_new < Bytes{}
                        ? fmt::format("the host is over-committed by {}", format_bytes(-plans.free_for_new))
                        : fmt::format("{} are free", format_bytes(plans.free_for_new));
  auto text = fmt::format("Needs {}, {}", format_bytes(plans.needed), room);
  if (plans.fits_now) return text + ": it fits.";
  text += fmt::format(": {} too little", format_bytes(plans.shortfall));
  const auto fitting = std::ranges::count(plans.plans, true, &Plan::fits);
  if (fitting > 0) {
    return text + fmt::format("; {} plan{} make{} it fit.", fitting, fitting == 1 ? "" : "s", fitting == 1 ? "s" : "");
  }
  text += ", and no plan makes it fit";
  if (plans.missing_without_all && *plans.missing_without_all < plans.shortfall) {
    text += fmt::format(": with everything stopped it would still be {} too little",
                        format_bytes(*plans.missing_without_all));
  }
  return text + ".";
}

}  // namespace

std::vector<std::string> reasons_of(const Plan& plan) {
  std::vector<std::string> reasons;
  for (const auto& risk : plan.unsafe) reasons.push_back(risk.text);
  return reasons;
}

bool interrupts(const Plan& plan, DeploymentId victim) {
  return std::ranges::any_of(plan.unsafe,
                             [&](const Risk& risk) { return is_of_requests(risk) && risk.victim == victim; });
}

std::vector<std::string> new_reasons(const Plan& shown, const Plan& now, bool even_if_busy) {
  const auto was_shown = [&](const Risk& risk) {
    if (even_if_busy && is_of_requests(risk)) return true;
    return std::ranges::any_of(shown.unsafe, [&](const Risk& other) {
      const bool as_bad =
          other.kind == risk.kind || (other.kind == Risk::Kind::busy && risk.kind == Risk::Kind::perhaps_busy);
      return as_bad && other.victim == risk.victim;
    });
  };
  std::vector<std::string> reasons;
  for (const auto& risk : now.unsafe) {
    if (!was_shown(risk)) reasons.push_back(risk.text);
  }
  return reasons;
}

bool is_as_shown(const Plan& shown, const Plan& now, bool even_if_busy) {
  return now.id == shown.id && now.fits && now.stops == shown.stops && now.sleeps == shown.sleeps &&
         now.config == shown.config && now.model_path == shown.model_path &&
         new_reasons(shown, now, even_if_busy).empty();
}

Plan settled(Plan plan) {
  plan.left = plan.free_after - plan.needed;
  plan.fits = plan.left >= Bytes{};
  plan.shortfall = plan.fits ? Bytes{} : -plan.left;
  return plan;
}

void judge_room(const PlanInput& input, const memory::Estimate& estimate, Plan& plan) {
  if (!plan.fits) return;
  if (plan.left < input.min_headroom) {
    plan.unsafe.push_back({.kind = Risk::Kind::headroom,
                           .text = fmt::format("leaves {}, less than the headroom of {}", format_bytes(plan.left),
                                               format_bytes(input.min_headroom))});
  }
  if (estimate.confidence == memory::Confidence::low && plan.left < estimate.part("margin")) {
    plan.unsafe.push_back({.kind = Risk::Kind::margin,
                           .text = "the estimate is a guess in part, and its margin would not fit a second time"});
  }
}

Result<Plans> make_plans(const PlanInput& input, const Estimator& estimator) {
  auto as_asked = estimator(input.config);
  if (!as_asked) return fail(as_asked.error());
  const Situation situation{
      .input = input,
      .estimator = estimator,
      .as_asked = std::move(*as_asked),
      .free_now = free_after(input, {}),
  };

  Plans result;
  result.needed = situation.as_asked.total;
  result.free_for_new = situation.free_now;
  result.shortfall = std::max(result.needed - result.free_for_new, Bytes{});
  result.fits_now = result.shortfall == Bytes{};
  if (!result.fits_now) {
    auto& plans = result.plans;
    for (auto& plan : {smaller_cache_type(situation), shorter_context(situation), fewer_sequences(situation)}) {
      if (plan) plans.push_back(plan.value());
    }
    const bool one_is_enough = std::ranges::any_of(plans, &Plan::fits);
    if (auto plan = smaller_quantization(situation)) plans.push_back(std::move(*plan));
    if (!one_is_enough) {
      if (auto plan = combination(situation)) plans.push_back(std::move(*plan));
    }
    std::ranges::move(sleeps(situation), std::back_inserter(plans));
    std::ranges::move(stops(situation), std::back_inserter(plans));
    plans = fitting_first(plans);
    recommend(plans);
    result.missing_without_all = missing_without_all(situation);
  }
  result.summary = summarize(result);
  return result;
}

}  // namespace dgxmm::planner
