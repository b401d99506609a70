#pragma once
#include "core/planner/plans.h"

#include <optional>
#include <string_view>
#include <vector>

// What the files of this folder share while the plans are made.
namespace dgxmm::planner {

/// Everything that stays the same.
struct Situation {
  const PlanInput& input;
  const Estimator& estimator;
  memory::Estimate as_asked;
  Bytes free_now;
};

/// Fills in what follows from `needed` and `free_after`.
Plan settled(Plan plan);

/// P12: what makes a plan unsafe, whatever it is.
void judge_room(const PlanInput& input, const memory::Estimate& estimate, Plan& plan);

// --- alternatives.cpp: the request itself changes

std::optional<Plan> smaller_cache_type(const Situation& situation);    ///< P1
std::optional<Plan> shorter_context(const Situation& situation);       ///< P2
std::optional<Plan> fewer_sequences(const Situation& situation);       ///< P3
std::optional<Plan> smaller_quantization(const Situation& situation);  ///< P4
/// P4½, the mildest that fits: the fewest halvings of context and sequences together, of them the longest context, of
/// them the cache as it was asked.
std::optional<Plan> combination(const Situation& situation);

// --- victims.cpp: others give way

/// A deployment and what is done with it; without a level it is stopped.
struct Change {
  const Candidate* candidate = nullptr;
  const SleepLevel* level = nullptr;
};

/// P10: free_for_new by the budget, computed again.
Bytes free_after(const PlanInput& input, const std::vector<Change>& changes);

std::vector<Plan> sleeps(const Situation& situation);  ///< P5, P7 to P10
std::vector<Plan> stops(const Situation& situation);   ///< P6, P7 to P10
/// P9: what is still missing when everything that can be stopped is stopped; nothing when that is enough.
std::optional<Bytes> missing_without_all(const Situation& situation);

}  // namespace dgxmm::planner
