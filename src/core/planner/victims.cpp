#include "core/planner/sets.h"
#include "core/planner/situation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

// Other deployments give way (P5 to P10).
namespace dgxmm::planner {
namespace {

using deployment::State;

bool asleep(const Candidate& candidate) { return candidate.memory.state == State::sleeping; }

/// Unknown is treated as busy: stopping it may cut off a request.
bool may_be_busy(const Candidate& candidate) { return !asleep(candidate) && candidate.busy.value_or(true); }

/// B7: a part that counts is unknown, so that what it holds is known only in part.
bool rests_on_unknown(const memory::DeploymentMemory& memory) {
  return memory.holds_memory && (!memory.measured || !memory.measured->anon || !memory.measured->gpu);
}

Bytes held(const memory::DeploymentMemory& memory) {
  return memory.measured && memory.holds_memory ? memory.measured->total() : Bytes{};
}

/// P8, least disruptive first: not busy, lower priority, longest idle.
auto rank(const Candidate& candidate) {
  using Seconds = std::chrono::seconds;
  const auto idle = asleep(candidate) ? Seconds::max() : candidate.idle_since.value_or(Seconds{});
  return std::tuple{may_be_busy(candidate), candidate.priority, -idle.count(), candidate.memory.id};
}

std::string activity(const Candidate& candidate) {
  if (asleep(candidate)) return "asleep";
  if (!candidate.busy) return "activity unknown";
  if (*candidate.busy) return "busy";
  return candidate.idle_since ? "idle for " + format_seconds(*candidate.idle_since) : "idle";
}

/// Whom it cuts off, in words.
std::string interruption(const Candidate& candidate) {
  if (asleep(candidate)) return "is asleep";
  if (!candidate.busy) return "may be answering requests";
  if (!*candidate.busy) return candidate.idle_since ? "is " + activity(candidate) : "is idle";
  if (!candidate.requests) return "is answering requests";
  return fmt::format("has {} request{} in flight", *candidate.requests, *candidate.requests == 1 ? "" : "s");
}

/// P12: what makes it unsafe that this one gives way.
void judge_victim(const PlanInput& input, const Candidate& victim, Plan& plan) {
  const auto add = [&](Risk::Kind kind, std::string text) {
    plan.unsafe.push_back({.kind = kind, .victim = victim.memory.id, .text = std::move(text)});
  };
  using enum Risk::Kind;
  if (may_be_busy(victim)) {
    add(victim.busy ? busy : perhaps_busy, victim.busy
                                               ? fmt::format("{} is busy", victim.name)
                                               : fmt::format("{} may be busy: its engine did not say", victim.name));
  }
  if (victim.pinned) add(pinned, fmt::format("{} is pinned", victim.name));
  if (victim.priority > input.priority) {
    add(priority,
        fmt::format("{} has the higher priority ({} against {})", victim.name, victim.priority, input.priority));
  }
  if (rests_on_unknown(victim.memory)) {
    add(unknown_measure, fmt::format("what {} holds is known only in part", victim.name));
  }
}

/// A candidate, and what may be done with it: the mildest first, without a level for a stop.
struct Option {
  const Candidate* candidate = nullptr;
  std::vector<const SleepLevel*> levels;

  /// What frees the most.
  [[nodiscard]] Change strongest() const {
    if (levels.empty()) return {.candidate = candidate};
    return {.candidate = candidate, .level = *std::ranges::min_element(levels, {}, &SleepLevel::size_asleep)};
  }
};

void sort_by_rank(std::vector<Option>& options) {
  std::ranges::sort(options, {}, [](const Option& option) { return rank(*option.candidate); });
}

std::vector<Option> that_can_stop(const PlanInput& input) {
  std::vector<Option> options;
  for (const auto& candidate : input.deployments) {
    const auto state = candidate.memory.state;
    if (candidate.returns) continue;
    if (state != State::stopping && !deployment::is_final(state)) options.push_back({.candidate = &candidate});
  }
  sort_by_rank(options);
  return options;
}

/// Whether going to sleep like this frees anything, and can be taken back when nothing has come in its place.
bool is_usable(const Situation& situation, const Candidate& candidate, const SleepLevel& level) {
  const auto& memory = candidate.memory;
  if (!rests_on_unknown(memory) && level.size_asleep > held(memory)) return false;
  const auto free = free_after(situation.input, {{.candidate = &candidate, .level = &level}});
  return free > situation.free_now && free + level.size_asleep >= level.wake_peak;
}

std::vector<Option> that_can_sleep(const Situation& situation) {
  std::vector<Option> options;
  for (const auto& candidate : situation.input.deployments) {
    if (candidate.memory.state != State::ready || candidate.returns) continue;
    Option option{.candidate = &candidate};
    for (const auto& level : candidate.sleep_levels) {
      if (is_usable(situation, candidate, level)) option.levels.push_back(&level);
    }
    if (!option.levels.empty()) options.push_back(std::move(option));
  }
  sort_by_rank(options);
  return options;
}

bool is_enough(const Situation& situation, const std::vector<Change>& changes) {
  return free_after(situation.input, changes) >= situation.as_asked.total;
}

/// Each as mildly as is still enough, those first whom it would disturb most.
std::vector<Change> mildest(const Situation& situation, const std::vector<Option>& members) {
  std::vector<Change> changes;
  for (const auto& member : members) changes.push_back(member.strongest());
  for (auto i = members.size(); i-- > 0;) {
    for (const auto* level : members[i].levels) {
      auto milder = changes;
      milder[i].level = level;
      if (!is_enough(situation, milder)) continue;
      changes = std::move(milder);
      break;
    }
  }
  return changes;
}

/// P7 to P9: who gives way, set by set.
std::vector<std::vector<Change>> sets_of(const Situation& situation, const std::vector<Option>& options,
                                         std::size_t most) {
  std::vector<bool> busy;
  for (const auto& option : options) busy.push_back(may_be_busy(*option.candidate));
  const auto enough = [&](std::span<const std::size_t> members) {
    std::vector<Change> changes;
    for (const auto i : members) changes.push_back(options[i].strongest());
    return is_enough(situation, changes);
  };
  std::vector<std::vector<Change>> sets;
  for (const auto& members : find_sets(busy, most, enough)) {
    std::vector<Option> chosen;
    for (const auto i : members) chosen.push_back(options[i]);
    sets.push_back(mildest(situation, chosen));
  }
  return sets;
}

/// What the plans of a set have in common; the changes are in the order of rank.
Plan plan_for(const Situation& situation, PlanKind kind, const std::vector<Change>& changes) {
  const auto& input = situation.input;
  Plan plan = settled({
      .kind = kind,
      .needed = situation.as_asked.total,
      .free_before = situation.free_now,
      .free_after = free_after(input, changes),
      .config = input.config,
      .confidence = situation.as_asked.confidence,
      .takes = load_duration(input.load_takes, situation.as_asked.part("weights"), engine::kind_of(input.config)),
  });
  plan.frees = plan.free_after - plan.free_before;
  std::vector<std::int64_t> ids;
  for (const auto& change : changes) {
    ids.push_back(change.candidate->memory.id.value);
    judge_victim(input, *change.candidate, plan);
  }
  std::ranges::sort(ids);
  plan.id = fmt::format("{}:{}", kind == PlanKind::sleep ? "sleep" : "stop", fmt::join(ids, "+"));
  judge_room(input, situation.as_asked, plan);
  return plan;
}

std::string list_of(const std::vector<Change>& changes, const std::function<std::string(const Change&)>& describe) {
  std::string text;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (i > 0) text += i + 1 == changes.size() ? " and " : ", ";
    text += describe(changes[i]);
  }
  return text;
}

/// A sleeper that is stopped gives back what it holds asleep, and has to start awake: if that takes more than is free
/// then, the plan cannot be undone although nothing has come in its place.
void judge_way_back(const Situation& situation, const Candidate& victim, Plan& plan) {
  if (!asleep(victim)) return;
  const auto free = free_after(situation.input, {{.candidate = &victim}});
  if (free >= victim.memory.reserved) return;
  plan.unsafe.push_back({.kind = Risk::Kind::no_way_back,
                         .victim = victim.memory.id,
                         .text = fmt::format("{} could not be brought back: to start again it needs {}, and {} "
                                             "would be free",
                                             victim.name, format_bytes(victim.memory.reserved), format_bytes(free))});
}

Plan stop_plan(const Situation& situation, const std::vector<Change>& changes) {
  auto plan = plan_for(situation, PlanKind::stop, changes);
  for (const auto& change : changes) {
    const auto& victim = *change.candidate;
    plan.stops.push_back(victim.memory.id);
    plan.takes = plan.takes + stop_duration(victim.stop_takes, held(victim.memory));
    auto cost = fmt::format("service: {} {} and is stopped", victim.name, interruption(victim));
    if (victim.weights > Bytes{} || victim.load_takes) {
      cost += fmt::format("; to come back it loads again, {}",
                          describe(load_duration(victim.load_takes, victim.weights, victim.engine)));
      // Awake first: it cannot be started asleep.
      if (asleep(victim)) cost += fmt::format(", and takes {} for that", format_bytes(victim.memory.reserved));
    }
    plan.costs.push_back(std::move(cost));
    judge_way_back(situation, victim, plan);
  }
  std::ranges::sort(plan.stops);
  plan.title = fmt::format("Stop {}: frees {}",
                           list_of(changes,
                                   [](const Change& change) {
                                     return fmt::format("{} ({})", change.candidate->name, activity(*change.candidate));
                                   }),
                           format_bytes(plan.frees));
  return plan;
}

Plan sleep_plan(const Situation& situation, const std::vector<Change>& changes) {
  auto plan = plan_for(situation, PlanKind::sleep, changes);
  for (const auto& change : changes) {
    const auto& victim = *change.candidate;
    const auto& level = *change.level;
    const auto let_go = held(victim.memory) - level.size_asleep;
    plan.sleeps.push_back({.id = victim.memory.id, .level = level.level});
    plan.takes = plan.takes + sleep_duration(level.sleep_takes, let_go);
    const auto wakes = level.level == 1 ? sleep_duration(level.wake_takes, let_go)
                                        : load_duration(level.wake_takes, victim.weights, victim.engine);
    plan.costs.push_back(
        fmt::format("service: {} {} and answers no more until it is woken, which takes {} and up to {}", victim.name,
                    interruption(victim), describe(wakes), format_bytes(level.wake_peak)));
    if (!level.learned) {
      plan.costs.push_back(fmt::format("memory: {} has not slept like this yet; what it keeps, {}, is an estimate",
                                       victim.name, format_bytes(level.size_asleep)));
    }
  }
  std::ranges::sort(plan.sleeps, {}, &Sleep::id);
  plan.title = fmt::format("Put {} to sleep: frees {}",
                           list_of(changes,
                                   [](const Change& change) {
                                     return fmt::format("{} ({}, level {})", change.candidate->name,
                                                        activity(*change.candidate), change.level->level);
                                   }),
                           format_bytes(plan.frees));
  return plan;
}

}  // namespace

/// MemAvailable rises by what is let go of: the measure; and where a part of that is unknown, what the budget credits
/// until then (B4), or that would turn into external memory.
Bytes free_after(const PlanInput& input, const std::vector<Change>& changes) {
  Bytes mem_available = input.mem_available;
  std::vector<memory::DeploymentMemory> deployments;
  deployments.reserve(input.deployments.size());
  for (const auto& candidate : input.deployments) {
    const auto change = std::ranges::find(changes, &candidate, &Change::candidate);
    if (change == changes.end()) {
      deployments.push_back(candidate.memory);
      continue;
    }
    const auto& memory = candidate.memory;
    mem_available += held(memory);
    if (rests_on_unknown(memory)) mem_available += memory::ready_gap_of(memory);
    if (change->level == nullptr) continue;
    auto sleeping = memory;
    sleeping.state = State::sleeping;
    sleeping.measured = memory::Measured{.anon = change->level->size_asleep, .kernel = {}, .shmem = {}, .gpu = Bytes{}};
    mem_available -= change->level->size_asleep;
    deployments.push_back(sleeping);
  }
  return memory::compute_budget(input.mem_total, mem_available, deployments, input.budget_settings).free_for_new;
}

std::vector<Plan> sleeps(const Situation& situation) {
  std::vector<Plan> plans;
  for (const auto& changes : sets_of(situation, that_can_sleep(situation), kMostSleepPlans)) {
    plans.push_back(sleep_plan(situation, changes));
  }
  return plans;
}

std::vector<Plan> stops(const Situation& situation) {
  std::vector<Plan> plans;
  for (const auto& changes : sets_of(situation, that_can_stop(situation.input), kMostStopPlans)) {
    plans.push_back(stop_plan(situation, changes));
  }
  return plans;
}

std::optional<Bytes> missing_without_all(const Situation& situation) {
  std::vector<Change> all;
  for (const auto& option : that_can_stop(situation.input)) all.push_back(option.strongest());
  const auto free = free_after(situation.input, all);
  if (free >= situation.as_asked.total) return std::nullopt;
  return situation.as_asked.total - free;
}

}  // namespace dgxmm::planner
