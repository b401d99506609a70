#include "core/engine/request.h"
#include "core/planner/plans.h"
#include "unit/core/planner/plans_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Any host, against the rules written down as they are said: slowly, and by trying everything.
namespace dgxmm::planner {
namespace {

using deployment::State;
using engine::EngineConfig;
using engine::LlamaCppConfig;
using engine::VllmConfig;

struct RandomInput {
  std::mt19937 random;

  std::int64_t upto(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>{0, most}(random); }
  bool one_in(std::int64_t n) { return upto(n - 1) == 0; }
  Bytes gibs(std::int64_t most) { return mib(upto(most * 1024)); }

  Candidate candidate(std::int64_t id, std::int64_t largest) {
    static constexpr State kStates[] = {State::starting, State::loading, State::ready,    State::ready,
                                        State::ready,    State::ready,   State::sleeping, State::stopping,
                                        State::stopped,  State::failed,  State::unknown};
    Candidate c{.name = "d" + std::to_string(id), .priority = upto(3) - 1, .pinned = one_in(6)};
    c.memory = {.id = {id}, .state = kStates[upto(std::size(kStates) - 1)], .reserved = gibs(largest)};
    c.memory.holds_memory = !one_in(7);
    if (!one_in(6)) c.memory.measured = measured(gibs(8), one_in(4) ? std::nullopt : std::optional{gibs(largest)});
    if (!one_in(4)) c.busy = one_in(2);
    if (!one_in(3)) c.idle_since = std::chrono::seconds{upto(5)};
    if (one_in(2)) {
      c.sleep_levels.push_back({.level = 1, .size_asleep = gibs(largest), .learned = one_in(2), .wake_peak = gibs(90)});
    }
    if (one_in(2)) {
      c.sleep_levels.push_back({.level = 2, .size_asleep = gibs(8), .learned = one_in(2), .wake_peak = gibs(90)});
    }
    return c;
  }

  /// Ready, wholly measured, and able to sleep.
  Candidate sleeper(std::int64_t id, std::int64_t largest) {
    auto c = candidate(id, largest);
    const auto size = gib(2) + gibs(largest);
    c.memory = {.id = {id}, .state = State::ready, .reserved = size, .measured = measured(gib(1), size - gib(1))};
    c.sleep_levels = {
        {.level = 1, .size_asleep = scale_up(size, 40 + upto(50), 100), .learned = one_in(2), .wake_peak = size},
        {.level = 2, .size_asleep = scale_up(size, 10, 100), .learned = one_in(2), .wake_peak = size}};
    return c;
  }

  PlanInput make() {
    PlanInput input{.mem_total = gib(128), .mem_available = gibs(128)};
    const bool small_ones = one_in(2);
    const bool orderly = one_in(2);
    for (std::int64_t id = 1, count = upto(8); id <= count; ++id) {
      input.deployments.push_back(orderly ? sleeper(id, small_ones ? 14 : 40) : candidate(id, small_ones ? 16 : 60));
    }
    if (orderly) {
      input.mem_available = input.mem_total - gibs(20);
      for (const auto& c : input.deployments) input.mem_available -= c.memory.measured->total();
    }
    std::ranges::shuffle(input.deployments, random);
    if (one_in(2)) {
      input.config =
          LlamaCppConfig{.ctx_size = 256 + upto(65536),
                         .parallel = 1 + upto(15),
                         .kv_unified = one_in(2),
                         .flash_attn = one_in(4) ? engine::FlashAttention::off : engine::FlashAttention::automatic};
    } else {
      input.config =
          VllmConfig{.max_model_len = 1 + upto(65536), .max_num_seqs = 1 + upto(15), .max_num_batched_tokens = 8192};
    }
    for (auto count = upto(3); count > 0; --count) {
      const auto size = gibs(60);
      const auto name = "q" + std::to_string(count);
      input.quantizations.push_back({.name = name,
                                     .path = "/" + name,
                                     .quantization = name,
                                     .file_bytes = gib(1 + upto(3)),
                                     .config = input.config,
                                     .estimator = one_in(8) ? cannot_be_had() : always(size)});
    }
    input.priority = upto(3) - 1;
    return input;
  }

  static Estimator cannot_be_had() {
    return [](const EngineConfig&) -> Result<memory::Estimate> { return fail("bad_configuration", "no"); };
  }
};

Bytes held(const Candidate& c) {
  return c.memory.holds_memory && c.memory.measured ? c.memory.measured->total() : Bytes{};
}

bool is_known(const Candidate& c) { return !c.memory.holds_memory || (c.memory.measured && c.memory.measured->gpu); }

/// What becomes of deployments: their size asleep, or nothing when they are stopped.
using Fates = std::map<std::int64_t, std::optional<Bytes>>;

/// The host and its deployments when that has happened: what is measured of them or credited to them comes back, but
/// for what they keep.
std::pair<Bytes, std::vector<memory::DeploymentMemory>> host_after(const PlanInput& input, const Fates& fates) {
  std::vector<memory::DeploymentMemory> rest;
  Bytes available = input.mem_available;
  for (const auto& c : input.deployments) {
    const auto fate = fates.find(c.memory.id.value);
    if (fate == fates.end()) {
      rest.push_back(c.memory);
      continue;
    }
    available += held(c);
    if (!is_known(c) && c.memory.state == State::ready && c.memory.reserved > held(c)) {
      available += c.memory.reserved - held(c);
    }
    if (!fate->second) continue;
    available -= *fate->second;
    auto sleeping = c.memory;
    sleeping.state = State::sleeping;
    sleeping.measured = measured(*fate->second, Bytes{});
    rest.push_back(sleeping);
  }
  return {available, rest};
}

Bytes free_after(const PlanInput& input, const Fates& fates) {
  const auto [available, rest] = host_after(input, fates);
  return memory::compute_budget(input.mem_total, available, rest, input.budget_settings).free_for_new;
}

/// P8: is `a` the less disruptive one?
bool sleeping(const Candidate& c) { return c.memory.state == State::sleeping; }
bool busy(const Candidate& c) { return !sleeping(c) && c.busy.value_or(true); }
bool before(const Candidate& a, const Candidate& b) {
  if (busy(a) != busy(b)) return !busy(a);
  if (a.priority != b.priority) return a.priority < b.priority;
  if (sleeping(a) != sleeping(b)) return sleeping(a);
  const auto idle_a = a.idle_since.value_or(std::chrono::seconds{}),
             idle_b = b.idle_since.value_or(std::chrono::seconds{});
  if (!sleeping(a) && idle_a != idle_b) return idle_a > idle_b;
  return a.memory.id < b.memory.id;
}

/// The levels from which it frees something and could be woken again.
std::vector<SleepLevel> usable_levels(const PlanInput& input, const Candidate& c) {
  std::vector<SleepLevel> usable;
  if (c.memory.state != State::ready) return usable;
  for (const auto& level : c.sleep_levels) {
    const auto free = free_after(input, {{c.memory.id.value, level.size_asleep}});
    const bool keeps_more = is_known(c) && level.size_asleep > held(c);
    if (!keeps_more && free > free_after(input, {}) && free + level.size_asleep >= level.wake_peak) {
      usable.push_back(level);
    }
  }
  return usable;
}

/// Who may give way, by rank, and what they do at most.
struct Giver {
  Candidate candidate;
  std::optional<Bytes> size_asleep;  // absent: it is stopped
};

std::vector<Giver> givers(const PlanInput& input, bool by_sleep) {
  std::vector<Giver> result;
  for (const auto& c : input.deployments) {
    const auto state = c.memory.state;
    if (!by_sleep && state != State::stopping && state != State::stopped && state != State::failed) {
      result.push_back({.candidate = c, .size_asleep = {}});
    }
    const auto levels = usable_levels(input, c);
    if (!by_sleep || levels.empty()) continue;
    const auto least = std::ranges::min(levels, {}, &SleepLevel::size_asleep).size_asleep;
    result.push_back({.candidate = c, .size_asleep = least});
  }
  std::ranges::sort(result, [](const Giver& a, const Giver& b) { return before(a.candidate, b.candidate); });
  return result;
}

/// The ids of P5 or P6 that must be there, in their order.
std::vector<std::string> expected_sets(const PlanInput& input, Bytes needed, bool by_sleep) {
  const auto all = givers(input, by_sleep);
  const auto is_enough = [&](std::uint32_t chosen) {
    Fates fates;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((chosen >> i & 1U) != 0) fates[all[i].candidate.memory.id.value] = all[i].size_asleep;
    }
    return chosen != 0 && free_after(input, fates) >= needed;
  };
  const auto places = [&](std::uint32_t chosen) {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((chosen >> i & 1U) != 0) result.push_back(i);
    }
    return result;
  };
  std::vector<std::tuple<std::size_t, std::size_t, std::vector<std::size_t>>> sets;
  for (std::uint32_t chosen = 1; chosen < (1U << all.size()); ++chosen) {
    const auto members = places(chosen);
    if (members.size() > 3 || (members.size() > 1 && members.back() >= 8) || !is_enough(chosen)) continue;
    bool minimal = true;
    for (auto part = (chosen - 1) & chosen; part != 0; part = (part - 1) & chosen) minimal &= !is_enough(part);
    if (!minimal) continue;
    const auto busy_ones = std::ranges::count_if(members, [&](std::size_t i) { return busy(all[i].candidate); });
    sets.emplace_back(busy_ones, members.size(), members);
  }
  std::ranges::sort(sets);
  if (const std::size_t most = by_sleep ? 3 : 4; sets.size() > most) sets.resize(most);
  if (sets.empty()) {
    std::uint32_t greedy = 0;
    for (std::size_t i = 0; i < all.size() && !is_enough(greedy); ++i) greedy |= 1U << i;
    for (auto i = all.size(); i-- > 0 && is_enough(greedy);) {
      if (is_enough(greedy & ~(1U << i))) greedy &= ~(1U << i);
    }
    if (is_enough(greedy)) sets.emplace_back(0, 0, places(greedy));
  }
  std::vector<std::string> ids;
  for (const auto& set : sets) {
    std::set<std::int64_t> numbers;
    for (const auto i : std::get<2>(set)) numbers.insert(all[i].candidate.memory.id.value);
    std::string id;
    for (const auto number : numbers) id += (id.empty() ? "" : "+") + std::to_string(number);
    ids.push_back((by_sleep ? "sleep:" : "stop:") + id);
  }
  return ids;
}

/// The request with context and sequences halved so often, and with a smaller cache: whether it can be had, and its
/// size; written down for simple_estimate.
std::optional<Bytes> size_of(const EngineConfig& config, std::int64_t context, std::int64_t sequences, bool cache) {
  if (const auto* asked = std::get_if<LlamaCppConfig>(&config)) {
    if (cache && asked->flash_attn == engine::FlashAttention::off) return std::nullopt;
    auto cells = context;
    if (!asked->kv_unified && sequences != asked->parallel) cells = context / asked->parallel * sequences;
    if (cells < 256) return std::nullopt;
    return gib(10) + mib(cells * (cache ? 1 : 2)) + gib(sequences);
  }
  return gib(10) + mib(2 * context * (cache ? 1 : 2)) + gib(sequences);
}

struct Asked {
  std::int64_t context = 0, sequences = 0;
  std::string cache;
};

Asked asked_of(const EngineConfig& config) {
  if (const auto* asked = std::get_if<LlamaCppConfig>(&config)) return {asked->ctx_size, asked->parallel, "kv:q8_0"};
  const auto& asked = std::get<VllmConfig>(config);
  return {asked.max_model_len, asked.max_num_seqs, "kv:fp8"};
}

/// P1 to P4½ in their order, with whether they fit.
std::vector<std::pair<std::string, bool>> expected_alternatives(const PlanInput& input, Bytes free, Bytes needed) {
  const auto asked = asked_of(input.config);
  std::vector<std::pair<std::string, bool>> ids;
  if (const auto size = size_of(input.config, asked.context, asked.sequences, true); size && *size < needed) {
    ids.emplace_back(asked.cache, *size <= free);
  }
  const auto offer = [&](const std::string& kind, std::int64_t value, std::int64_t least, auto size_with) {
    std::optional<std::pair<std::string, bool>> found;
    for (auto part = value / 2; part >= least && !(found && found->second); part /= 2) {
      const std::optional<Bytes> size = size_with(part);
      if (size && *size < needed) found = {kind + std::to_string(part), *size <= free};
    }
    if (found) ids.push_back(*found);
  };
  offer("ctx:", asked.context, 4096,
        [&](std::int64_t context) { return size_of(input.config, context, asked.sequences, false); });
  offer("seqs:", asked.sequences, 1,
        [&](std::int64_t sequences) { return size_of(input.config, asked.context, sequences, false); });
  const bool one_is_enough = std::ranges::any_of(ids, [](const auto& id) { return id.second; });

  const OtherQuantization* largest = nullptr;
  const OtherQuantization* smallest = nullptr;
  for (const auto& other : input.quantizations) {
    const auto size = other.estimator(other.config);
    if (!size || size->total >= needed) continue;
    const auto is_first = [&](const auto* best) {
      return best == nullptr || other.file_bytes > best->file_bytes ||
             (other.file_bytes == best->file_bytes && other.path < best->path);
    };
    if (size->total <= free && is_first(largest)) largest = &other;
    const auto size_of_smallest = smallest == nullptr ? Bytes{} : smallest->estimator(smallest->config)->total;
    if (smallest == nullptr || size->total < size_of_smallest ||
        (size->total == size_of_smallest && is_first(smallest))) {
      smallest = &other;
    }
  }
  if (const auto* other = largest != nullptr ? largest : smallest) {
    ids.emplace_back("quant:" + other->name, largest != nullptr);
  }

  if (one_is_enough) return ids;
  std::optional<std::tuple<int, int, bool>> mildest;
  std::string mix;
  for (int c = 0; c == 0 || asked.context >> c >= 4096; ++c) {
    for (int s = 0; s == 0 || asked.sequences >> s >= 1; ++s) {
      for (const bool cache : {false, true}) {
        if ((c > 0) + (s > 0) + cache < 2) continue;
        const auto size = size_of(input.config, asked.context >> c, asked.sequences >> s, cache);
        if (!size || *size > free || (mildest && *mildest < std::tuple{c + s, c, cache})) continue;
        mildest = {c + s, c, cache};
        mix = cache ? "+" + asked.cache : "";
        if (c > 0) mix += "+ctx:" + std::to_string(asked.context >> c);
        if (s > 0) mix += "+seqs:" + std::to_string(asked.sequences >> s);
      }
    }
  }
  if (mildest) ids.emplace_back("mix:" + mix.substr(1), true);
  return ids;
}

std::vector<std::string> expected_ids(const PlanInput& input) {
  const Bytes needed = simple_estimate(input.config)->total;
  const Bytes free = free_after(input, {});
  if (needed <= free) return {};
  auto ids = expected_alternatives(input, free, needed);
  for (const bool by_sleep : {true, false}) {
    for (const auto& id : expected_sets(input, needed, by_sleep)) ids.emplace_back(id, true);
  }
  std::vector<std::string> ordered;
  for (const bool fits : {true, false}) {
    for (const auto& [id, does] : ids) {
      if (does == fits) ordered.push_back(id);
    }
  }
  return ordered;
}

std::string kind_of_id(const Plan& plan) { return plan.id.substr(0, plan.id.find(':')); }

TEST(PlanProperties, P1toP10_OnAnyHostWhatTryingEverythingFinds) {
  RandomInput random{std::mt19937{20261129}};
  std::map<std::string, int> seen;
  for (int i = 0; i < 2000; ++i) {
    const auto input = random.make();
    const auto plans = plans_of(input);
    ASSERT_EQ(ids_of(plans), expected_ids(input)) << "case " << i;
    for (const auto& plan : plans.plans) {
      seen[kind_of_id(plan) + (plan.fits ? "+" : "-")] += 1;
      const auto members = plan.stops.size() + plan.sleeps.size();
      if (members > 0) seen[kind_of_id(plan) + std::to_string(std::min<std::size_t>(members, 4))] += 1;
    }
  }
  for (const auto* kind : {"kv+", "kv-", "ctx+", "ctx-", "seqs+", "seqs-", "quant+", "quant-", "mix+", "sleep1",
                           "sleep2", "sleep3", "stop1", "stop2", "stop3", "stop4"}) {
    EXPECT_GT(seen[kind], 40) << kind << ": the cases must reach every kind of plan";
  }
  EXPECT_GT(seen["sleep4"], 10);
}

Fates fates_of(const PlanInput& input, const Plan& plan) {
  Fates fates;
  for (const auto id : plan.stops) fates[id.value] = std::nullopt;
  for (const auto& sleep : plan.sleeps) {
    for (const auto& c : input.deployments) {
      if (c.memory.id != sleep.id) continue;
      fates[sleep.id.value] = std::ranges::find(c.sleep_levels, sleep.level, &SleepLevel::level)->size_asleep;
    }
  }
  return fates;
}

TEST(PlanProperties, P10_TheBudgetOfTheHostWithThePlanDoneIsWhatThePlanSays) {
  RandomInput random{std::mt19937{7}};
  for (int i = 0; i < 1000; ++i) {
    const auto input = random.make();
    for (const auto& plan : plans_of(input).plans) {
      SCOPED_TRACE(plan.id);
      auto [available, rest] = host_after(input, fates_of(input, plan));
      ASSERT_EQ(memory::compute_budget(input.mem_total, available, rest, input.budget_settings).free_for_new,
                plan.free_after);
      rest.push_back({.id = {99}, .state = State::starting, .reserved = plan.needed, .holds_memory = false});
      ASSERT_EQ(memory::compute_budget(input.mem_total, available, rest, input.budget_settings).free_for_new,
                plan.left);
    }
  }
}

TEST(PlanProperties, P5_NoMemberOfASleepPlanCouldSleepMoreMildly) {
  RandomInput random{std::mt19937{8}};
  int mixed = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto input = random.make();
    for (const auto& plan : plans_of(input).plans) {
      for (const auto& sleep : plan.sleeps) {
        const auto& c =
            *std::ranges::find_if(input.deployments, [&](const auto& d) { return d.memory.id == sleep.id; });
        for (const auto& level : usable_levels(input, c)) {
          if (level.level == sleep.level) break;
          auto fates = fates_of(input, plan);
          fates[sleep.id.value] = level.size_asleep;
          ASSERT_LT(free_after(input, fates), plan.needed) << plan.id;
          ++mixed;
        }
      }
    }
  }
  EXPECT_GT(mixed, 100);
}

/// P12: the places of the recommended kinds.
int place_of(const Plan& plan) {
  static const std::vector<std::string> kOrder{"kv", "mix", "sleep", "ctx", "quant", "seqs", "stop"};
  auto kind = kind_of_id(plan);
  if (kind == "mix" && plan.id.find("ctx:") != std::string::npos) kind = "ctx";
  return static_cast<int>(std::ranges::find(kOrder, kind) - kOrder.begin());
}

TEST(PlanProperties, P10_P12_EveryPlanAddsUpAndTheFirstSafeOneIsRecommended) {
  RandomInput random{std::mt19937{99}};
  for (int i = 0; i < 2000; ++i) {
    const auto input = random.make();
    const auto plans = plans_of(input);
    std::set<std::string> ids;
    const Plan* best = nullptr;
    int sleep_plans = 0, stop_plans = 0;
    for (const auto& plan : plans.plans) {
      SCOPED_TRACE(plan.id);
      ASSERT_TRUE(ids.insert(plan.id).second);
      ASSERT_EQ(plan.left, plan.free_after - plan.needed);
      ASSERT_EQ(plan.fits, plan.left >= Bytes{});
      ASSERT_EQ(plan.shortfall, plan.fits ? Bytes{} : -plan.left);
      ASSERT_EQ(plan.free_before, plans.free_for_new);
      ASSERT_EQ(plan.frees, plans.needed - plan.needed + plan.free_after - plan.free_before);
      ASSERT_GT(plan.frees, Bytes{});
      if (plan.kind != PlanKind::quant) {
        ASSERT_EQ(plan.needed, simple_estimate(plan.config)->total);
        ASSERT_TRUE(engine::check(plan.config) || plan.config == input.config);
      }
      ASSERT_EQ(plan.stops.empty(), plan.kind != PlanKind::stop);
      ASSERT_EQ(plan.sleeps.empty(), plan.kind != PlanKind::sleep);
      ASSERT_EQ(plan.model_path.empty(), plan.kind != PlanKind::quant);
      ASSERT_FALSE(plan.title.empty());
      ASSERT_FALSE(plan.costs.empty());
      ASSERT_GT(plan.takes.value.count(), 0);
      sleep_plans += plan.sleeps.empty() ? 0 : 1;
      stop_plans += plan.stops.empty() ? 0 : 1;
      const auto fates = fates_of(input, plan);
      for (const auto& c : input.deployments) {
        if (!fates.contains(c.memory.id.value)) continue;
        if (c.pinned || c.priority > input.priority || busy(c) || !is_known(c)) {
          ASSERT_FALSE(plan.unsafe.empty());
        }
      }
      if (plan.fits && plan.left < input.min_headroom) {
        ASSERT_FALSE(plan.unsafe.empty());
      }
      const bool safe = plan.fits && plan.unsafe.empty();
      if (safe && (best == nullptr || place_of(plan) < place_of(*best))) best = &plan;
    }
    ASSERT_LE(sleep_plans, 3);
    ASSERT_LE(stop_plans, 4);
    for (const auto& plan : plans.plans) {
      ASSERT_EQ(plan.recommended, &plan == best) << plan.id;
      ASSERT_EQ(plan.why.empty(), &plan != best) << plan.id;
    }
    if (!plans.fits_now) {
      const bool some_stop = stop_plans > 0;
      ASSERT_EQ(plans.missing_without_all.has_value(), !some_stop) << "case " << i;
    }
  }
}

TEST(PlanProperties, P0_TheSameHostInAnotherOrderGivesTheSamePlans) {
  RandomInput random{std::mt19937{5}};
  for (int i = 0; i < 1000; ++i) {
    auto input = random.make();
    const auto plans = plans_of(input);
    std::ranges::shuffle(input.deployments, random.random);
    std::ranges::shuffle(input.quantizations, random.random);
    const auto again = plans_of(input);
    ASSERT_EQ(again.summary, plans.summary);
    ASSERT_EQ(ids_of(again), ids_of(plans));
    for (std::size_t k = 0; k < plans.plans.size(); ++k) {
      ASSERT_EQ(again.plans[k].title, plans.plans[k].title);
      ASSERT_EQ(again.plans[k].sleeps, plans.plans[k].sleeps);
      ASSERT_EQ(again.plans[k].left, plans.plans[k].left);
      ASSERT_EQ(again.plans[k].recommended, plans.plans[k].recommended);
    }
  }
}

}  // namespace
}  // namespace dgxmm::planner
