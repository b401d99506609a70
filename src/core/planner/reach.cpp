#include "core/planner/reach.h"

#include "core/engine/request.h"
#include "core/planner/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <variant>

namespace dgxmm::planner {
namespace {

using engine::EngineConfig;
using engine::EngineKind;
using engine::LlamaCppConfig;
using engine::VllmConfig;

// llama.cpp rounds a context up to 256 cells, vLLM to blocks of 16 tokens at least: a step in between would be lost.
constexpr std::int64_t kLlamaCppContextStep = 256;
constexpr std::int64_t kVllmContextStep = 16;
// llama_max_parallel_sequences() of llama.cpp; the default of vLLM's server on a GB10.
constexpr std::int64_t kMostSlots = 256;
constexpr std::int64_t kMostSequences = 1024;

std::int64_t step_of(EngineKind kind) { return kind == EngineKind::llamacpp ? kLlamaCppContextStep : kVllmContextStep; }

/// What `config` needs, when it can be had and fits.
std::optional<Bytes> fitting(const EngineConfig& config, Bytes free, const Estimator& estimator) {
  if (!engine::check(config)) return std::nullopt;
  const auto estimate = estimator(config);
  if (!estimate || estimate->total > free) return std::nullopt;
  return estimate->total;
}

/// The largest of 1..most, times `step`, that fits: what fits for one value fits for a smaller one.
std::optional<Limit> largest(std::int64_t most, std::int64_t step, Bytes free, const Estimator& estimator,
                             const std::function<EngineConfig(std::int64_t)>& with) {
  const auto limit_at = [&](std::int64_t value) -> std::optional<Limit> {
    auto config = with(value);
    const auto needed = fitting(config, free, estimator);
    if (!needed) return std::nullopt;
    return Limit{.value = value, .needed = *needed, .config = std::move(config)};
  };
  if (auto all = limit_at(most)) return all;
  std::optional<Limit> best;
  std::int64_t fits = 0;
  auto does_not = (most + step - 1) / step;
  while (does_not - fits > 1) {
    const auto middle = fits + (does_not - fits) / 2;
    if (auto limit = limit_at(middle * step)) {
      best = std::move(limit);
      fits = middle;
    } else {
      does_not = middle;
    }
  }
  return best;
}

std::int64_t longest_worth_asking(const EngineConfig& config, std::int64_t training_context) {
  return std::max(training_context, context_per_sequence_of(config));
}

/// Settings worth comparing: they change the size, and not what can be asked of the model.
std::vector<std::pair<std::string, EngineConfig>> variants_of(const EngineConfig& config) {
  std::vector<std::pair<std::string, EngineConfig>> variants;
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    using engine::CacheType;
    for (const auto type : {CacheType::f16, CacheType::q8_0, CacheType::q4_0}) {
      auto variant = *llamacpp;
      variant.cache_type_k = variant.cache_type_v = type;
      variants.emplace_back(fmt::format("KV cache {}", engine::name_of(type)), variant);
    }
    auto variant = *llamacpp;
    variant.cache_ram_mib = 0;
    variants.emplace_back("no prompt cache", variant);
    return variants;
  }
  for (const auto* type : {"auto", "fp8"}) {
    auto variant = std::get<VllmConfig>(config);
    variant.kv_cache_dtype = type;
    variants.emplace_back(fmt::format("KV cache {}", type), variant);
  }
  return variants;
}

}  // namespace

std::optional<Limit> longest_context(const EngineConfig& config, std::int64_t training_context, Bytes free,
                                     const Estimator& estimator) {
  return largest(longest_worth_asking(config, training_context), step_of(engine::kind_of(config)), free, estimator,
                 [&](std::int64_t tokens) { return with_context_per_sequence(config, tokens); });
}

Reach reach(const EngineConfig& config, std::int64_t training_context, Bytes free, const Estimator& estimator) {
  Reach result;
  result.longest_context = longest_context(config, training_context, free, estimator);
  result.whole_context =
      result.longest_context && result.longest_context->value == longest_worth_asking(config, training_context);
  const auto most = engine::kind_of(config) == EngineKind::llamacpp ? kMostSlots : kMostSequences;
  result.most_sequences =
      largest(most, 1, free, estimator, [&](std::int64_t sequences) { return with_full_sequences(config, sequences); });
  for (auto& [name, variant] : variants_of(config)) {
    if (!engine::check(variant)) continue;
    const auto estimate = estimator(variant);
    if (!estimate) continue;
    result.settings.push_back({.name = name,
                               .as_asked = variant == config,
                               .needed = estimate->total,
                               .fits = estimate->total <= free,
                               .longest_context = longest_context(variant, training_context, free, estimator),
                               .config = variant});
  }
  return result;
}

}  // namespace dgxmm::planner
