#include "core/engine/cautions.h"
#include "core/engine/request.h"
#include "core/planner/situation.h"
#include "core/planner/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

// The request under other settings (P1 to P4½).
namespace dgxmm::planner {
namespace {

using engine::EngineConfig;
using engine::LlamaCppConfig;
using engine::VllmConfig;

constexpr std::int64_t kShortestContext = 4096;  // P2
/// P12: a context below this part of what was asked is no longer what was asked.
constexpr std::int64_t kLeastContextPart = 4;

/// half, quarter, … of `value`, down to `least`.
std::vector<std::int64_t> halvings(std::int64_t value, std::int64_t least) {
  std::vector<std::int64_t> result;
  for (auto part = value / 2; part >= least; part /= 2) result.push_back(part);
  return result;
}

/// "needs 46.0 GiB instead of 78.0 GiB"; the saving alone where that would show the same figure twice.
std::string describe_saving(Bytes needed, Bytes as_asked) {
  const auto now = format_bytes(needed);
  const auto before = format_bytes(as_asked);
  if (now == before) return fmt::format("saves {}", format_bytes(as_asked - needed));
  return fmt::format("needs {} instead of {}", now, before);
}

/// A change of the request in words.
struct Alternative {
  PlanKind kind = PlanKind::kv;
  std::string id;
  std::string what;                     ///< "Keep the KV cache as q8_0"
  std::vector<std::string> costs = {};  ///< "quality: …"
  EngineConfig config = {};
  std::optional<std::int64_t> context = {};  ///< the whole context, when it is shortened
};

/// The plan for a smaller size; nothing when it is not smaller.
std::optional<Plan> plan_for(const Situation& situation, Alternative alternative, const memory::Estimate& estimate,
                             std::optional<std::chrono::seconds> load_takes) {
  const auto& input = situation.input;
  const auto as_asked = situation.as_asked.total;
  if (estimate.total >= as_asked) return std::nullopt;
  Plan plan = settled({
      .id = std::move(alternative.id),
      .kind = alternative.kind,
      .needed = estimate.total,
      .free_before = situation.free_now,
      .free_after = situation.free_now,
      .frees = as_asked - estimate.total,
      .config = std::move(alternative.config),
      .confidence = estimate.confidence,
      .shortens_context = alternative.context.has_value(),
      .costs = std::move(alternative.costs),
  });
  plan.takes = load_duration(load_takes, estimate.part("weights"), engine::kind_of(plan.config));
  plan.title = fmt::format("{}: {}", alternative.what, describe_saving(plan.needed, as_asked));
  if (!plan.fits) plan.title += fmt::format(", still {} too much", format_bytes(plan.shortfall));
  judge_room(input, estimate, plan);
  const auto asked = context_of(input.config);
  if (alternative.context && *alternative.context * kLeastContextPart < asked) {
    plan.unsafe.push_back({.kind = Risk::Kind::context,
                           .text = fmt::format("a context of {} is under a quarter of the {} that were asked for",
                                               *alternative.context, asked)});
  }
  return plan;
}

/// The request under another configuration; nothing when that cannot be had or does not make the request smaller.
std::optional<Plan> reconfigured(const Situation& situation, Alternative alternative) {
  if (!engine::check(alternative.config)) return std::nullopt;
  const auto estimate = situation.estimator(alternative.config);
  if (!estimate) return std::nullopt;
  return plan_for(situation, std::move(alternative), *estimate, situation.input.load_takes);
}

/// The smaller of that type and q8_0.
engine::CacheType at_most_q8_0(engine::CacheType type) {
  using engine::CacheType;
  const bool wider = type == CacheType::f32 || type == CacheType::f16 || type == CacheType::bf16;
  return wider ? CacheType::q8_0 : type;
}

// Each takes a configuration that may have been changed already, so that they can be combined.

Alternative with_smaller_cache(EngineConfig config) {
  std::string type;
  std::string cache = "KV";
  std::string before;
  if (auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    const auto k = at_most_q8_0(llamacpp->cache_type_k);
    const auto v = at_most_q8_0(llamacpp->cache_type_v);
    before = engine::name_of(k != llamacpp->cache_type_k ? llamacpp->cache_type_k : llamacpp->cache_type_v);
    if (v == llamacpp->cache_type_v) cache = "K";
    if (k == llamacpp->cache_type_k) cache = "V";
    type = "q8_0";
    llamacpp->cache_type_k = k;
    llamacpp->cache_type_v = v;
  } else {
    type = "fp8";
    before = std::exchange(std::get<VllmConfig>(config).kv_cache_dtype, type);
  }
  std::vector<std::string> costs{fmt::format("quality: {} cache in {} instead of {}", cache, type, before)};
  for (const auto& caution : engine::cautions(config)) costs.push_back("trouble: " + caution);
  return {.kind = PlanKind::kv,
          .id = "kv:" + type,
          .what = fmt::format("Keep the {} cache as {}", cache, type),
          .costs = std::move(costs),
          .config = std::move(config)};
}

Alternative with_shorter_context(const EngineConfig& config, std::int64_t context) {
  return {.kind = PlanKind::ctx,
          .id = fmt::format("ctx:{}", context),
          .what = fmt::format("Shorten the context to {} tokens", context),
          .costs = {fmt::format("context: {} tokens instead of {}", context, context_of(config))},
          .config = with_context(config, context),
          .context = context};
}

Alternative with_fewer_sequences(const EngineConfig& config, std::int64_t sequences) {
  const auto* word = kind_of(config) == engine::EngineKind::llamacpp ? "slot" : "sequence";
  return {.kind = PlanKind::seqs,
          .id = fmt::format("seqs:{}", sequences),
          .what = fmt::format("Serve {} {}{} at a time", sequences, word, sequences == 1 ? "" : "s"),
          .costs = {fmt::format("service: {} request{} at once instead of {}, others wait", sequences,
                                sequences == 1 ? "" : "s", sequences_of(config))},
          .config = with_sequences(config, sequences)};
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

/// A place in the search for a combination: how often context and sequences are halved, and whether the cache changes.
struct Mix {
  std::size_t context = 0;
  std::size_t sequences = 0;
  bool cache = false;
};

/// In the order of mildness that `combination` states.
std::vector<Mix> mixes(std::size_t contexts, std::size_t sequences) {
  std::vector<Mix> result;
  for (std::size_t c = 0; c <= contexts; ++c) {
    for (std::size_t s = 0; s <= sequences; ++s) {
      for (const bool cache : {false, true}) {
        if (int{c > 0} + int{s > 0} + int{cache} > 1) result.push_back({c, s, cache});
      }
    }
  }
  std::ranges::sort(result, {},
                    [](const Mix& mix) { return std::tuple{mix.context + mix.sequences, mix.context, mix.cache}; });
  return result;
}

/// `next` was made from the configuration of `first`.
Alternative both(Alternative first, Alternative next) {
  if (first.id.empty()) return next;
  next.what[0] = static_cast<char>(next.what[0] - 'A' + 'a');
  first.id += "+" + next.id;
  first.what += ", " + next.what;
  first.costs.insert(first.costs.end(), next.costs.begin(), next.costs.end());
  first.config = std::move(next.config);
  if (next.context) first.context = next.context;
  return first;
}

}  // namespace

std::optional<Plan> smaller_cache_type(const Situation& situation) {
  return reconfigured(situation, with_smaller_cache(situation.input.config));
}

std::optional<Plan> shorter_context(const Situation& situation) {
  const auto& config = situation.input.config;
  return first_that_fits(halvings(context_of(config), kShortestContext), [&](std::int64_t context) {
    return reconfigured(situation, with_shorter_context(config, context));
  });
}

std::optional<Plan> fewer_sequences(const Situation& situation) {
  const auto& config = situation.input.config;
  return first_that_fits(halvings(sequences_of(config), 1), [&](std::int64_t sequences) {
    return reconfigured(situation, with_fewer_sequences(config, sequences));
  });
}

std::optional<Plan> smaller_quantization(const Situation& situation) {
  const auto& input = situation.input;
  std::vector<const OtherQuantization*> others;
  for (const auto& other : input.quantizations) others.push_back(&other);
  std::ranges::sort(others, [](const auto* a, const auto* b) {
    return std::tuple{-a->file_bytes, a->path} < std::tuple{-b->file_bytes, b->path};
  });
  std::optional<Plan> smallest;
  for (const auto* other : others) {
    const auto estimate = other->estimator(other->config);
    if (!estimate) continue;
    Alternative alternative{.kind = PlanKind::quant,
                            .id = "quant:" + other->name,
                            .what = fmt::format("Use {} in {}", other->name, other->quantization),
                            .config = other->config};
    const auto& asked = input.quantization;
    alternative.costs.push_back(
        fmt::format("quality: {}{}", other->quantization, asked.empty() ? std::string{} : " instead of " + asked));
    auto plan = plan_for(situation, std::move(alternative), *estimate, other->load_takes);
    if (!plan) continue;
    plan->model_path = other->path;
    plan->model_name = other->name;
    if (plan->fits) return plan;
    if (!smallest || plan->needed < smallest->needed) smallest = std::move(plan);
  }
  return smallest;
}

std::optional<Plan> combination(const Situation& situation) {
  const auto& asked = situation.input.config;
  const auto contexts = halvings(context_of(asked), kShortestContext);
  const auto counts = halvings(sequences_of(asked), 1);
  for (const auto& mix : mixes(contexts.size(), counts.size())) {
    Alternative alternative{.config = asked};
    if (mix.cache) alternative = with_smaller_cache(asked);
    if (mix.context > 0) {
      alternative = both(alternative, with_shorter_context(alternative.config, contexts[mix.context - 1]));
    }
    if (mix.sequences > 0) {
      alternative = both(alternative, with_fewer_sequences(alternative.config, counts[mix.sequences - 1]));
    }
    alternative.kind = PlanKind::mix;
    alternative.id.insert(0, "mix:");
    auto plan = reconfigured(situation, std::move(alternative));
    if (plan && plan->fits) return plan;
  }
  return std::nullopt;
}

}  // namespace dgxmm::planner
