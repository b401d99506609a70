#include "core/memory/assemble.h"
#include "core/memory/estimate.h"
#include "core/memory/limits.h"
#include "core/memory/rounding.h"
#include "core/memory/vllm_activations.h"
#include "core/memory/vllm_cache.h"
#include "core/memory/vllm_kv_types.h"
#include "core/memory/vllm_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dgxmm::memory {
namespace {

using engine::VllmConfig;

constexpr std::int64_t kMaxSequences = std::int64_t{1} << 16;
constexpr std::int64_t kMaxBatchedTokens = std::int64_t{1} << 20;

// The pool (E3). `kv_tokens` is what vLLM logs as "GPU KV cache size": as many requests of max_model_len at once as it
// holds, times their length. For layers that keep every token it is the tokens of the pool.

/// Blocks of a pool for `kv_tokens`, when one request takes `blocks`.
std::int64_t pool_blocks(std::int64_t kv_tokens, std::int64_t blocks, std::int64_t max_model_len) {
  return ceil_div(kv_tokens * blocks, max_model_len);  // below 2^62 by the limits of tokens and layers
}

/// Keeps the sum of all parts inside 64 bits.
constexpr Bytes kMostPool{std::int64_t{1} << 61};

struct Pool {
  std::int64_t tokens = 0;
  std::int64_t blocks = 0;
  std::int64_t state_blocks = 0;  ///< of them, those that states take
};

/// Errors: `bad_configuration` when one request cannot fit into the pool, which vLLM refuses at its start
/// (_check_enough_kv_cache_memory, vllm/v1/core/kv_cache_utils.py).
Result<Pool> size_pool(const VllmConfig& config, const vllm::CachePlan& plan) {
  const auto context = config.max_model_len;
  Pool pool{.tokens = config.kv_tokens.value_or(std::min(context * config.max_num_seqs, 2 * context))};
  const auto one_request = vllm::request_blocks(plan, context);
  pool.blocks = pool_blocks(pool.tokens, one_request, context);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(std::max(pool.blocks, one_request), plan.checked_per_block.count(), &bytes) ||
      Bytes{bytes} > kMostPool) {
    return fail("model_not_supported", "its layers would take an impossibly large KV cache");
  }
  if (pool.blocks < one_request) {
    return fail(
        "bad_configuration",
        fmt::format("a KV pool of {} tokens ({}) cannot hold one request of max_model_len {}, which takes {}",
                    pool.tokens, format_bytes(plan.checked_per_block * pool.blocks), context,
                    format_bytes(plan.checked_per_block * one_request)),
        // A request as long as the pool always fits.
        fmt::format("set kv_tokens to at least {}, or max_model_len to at most {}", context,
                    std::max(pool.tokens, vllm::longest_context(plan, plan.checked_per_block * pool.blocks, context))),
        "kv_tokens");
  }
  std::int64_t states = 0;
  for (const auto& group : plan.groups) {
    if (group.kind == vllm::CacheKind::state) states += vllm::request_blocks(plan, group, context);
  }
  if (one_request > 0) pool.state_blocks = pool.blocks * states / one_request;
  return pool;
}

std::string_view word_for(vllm::CacheKind kind) {
  switch (kind) {
    case vllm::CacheKind::full: return "full";
    case vllm::CacheKind::window: return "window";
    case vllm::CacheKind::chunked: return "chunked";
    case vllm::CacheKind::state: return "state";
    case vllm::CacheKind::cross: return "cross attention";
  }
  return "other";
}

/// "12 full of 16 tokens, 4 x 10 window 1024 of 16 tokens".
std::string describe_groups(const vllm::CachePlan& plan) {
  std::string text;
  for (auto group = plan.groups.begin(); group != plan.groups.end();) {
    const auto end = std::find_if(group, plan.groups.end(), [&](const auto& other) { return other != *group; });
    if (!text.empty()) text += ", ";
    if (end - group > 1) text += fmt::format("{} x ", end - group);
    text += fmt::format("{} {}", group->layers, word_for(group->kind));
    if (group->window > 0) text += fmt::format(" {}", group->window);
    if (group->kind != vllm::CacheKind::state) text += fmt::format(" of {} tokens", group->block);
    group = end;
  }
  return text;
}

Part kv_part(const model::ModelDescription& model, const std::string& type, const vllm::CachePlan& plan,
             const Pool& pool) {
  Part part{.size = plan.checked_per_block * (pool.blocks - pool.state_blocks), .source = Source::formula};
  if (plan.groups.empty()) {
    part.detail = "none: the model computes all tokens at once";
    return part;
  }
  const bool plain = std::ranges::all_of(model.layers, [](const model::Layer& layer) {
    return layer.attention && layer.attention->kind == model::AttentionKind::full && !layer.attention->shares_kv &&
           !layer.attention->indexer_key_length && !layer.recurrent && !layer.cross_attention;
  });
  const auto layers = plain ? describe_attention(model) : "groups of layers: " + describe_groups(plan);
  part.detail = fmt::format("{}, {}, pool of {} tokens: {} blocks of {}", layers, type, pool.tokens, pool.blocks,
                            format_bytes(plan.bytes_per_block));
  return part;
}

/// E4
Part state_part(const vllm::CachePlan& plan, const Pool& pool) {
  Part part{.size = plan.checked_per_block * pool.state_blocks, .source = Source::formula};
  const auto group = std::ranges::find(plan.groups, vllm::CacheKind::state, &vllm::CacheGroup::kind);
  part.detail = group == plan.groups.end()
                    ? "none: no layer keeps a state"
                    : fmt::format("{} pages of the pool; each sequence holds {} in every group of layers with a state",
                                  pool.state_blocks, group->state_pages);
  return part;
}

/// E6
Part runtime(const VllmConfig& config, const EstimateSettings& settings) {
  Part part{.size = settings.vllm_runtime_fixed, .source = Source::setting};
  part.detail = format_bytes(settings.vllm_runtime_fixed) + " fixed";
  if (config.enforce_eager) {
    part.detail += ", no CUDA graphs (eager)";
  } else {
    part.size += settings.vllm_cuda_graph;
    part.detail += fmt::format(" + CUDA graphs {}", format_bytes(settings.vllm_cuda_graph));
  }
  return part;
}

Result<void> check_config(const VllmConfig& config) {
  if (auto ok = check_setting("max_model_len", config.max_model_len, 1, kMaxContext); !ok) return ok;
  if (auto ok = check_setting("max_num_seqs", config.max_num_seqs, 1, kMaxSequences); !ok) return ok;
  if (auto ok = check_setting("max_num_batched_tokens", config.max_num_batched_tokens, 1, kMaxBatchedTokens); !ok)
    return ok;
  if (config.kv_tokens) return check_setting("kv_tokens", *config.kv_tokens, 1, kMaxContext);
  return {};
}

}  // namespace

Result<Estimate> estimate_vllm(const model::ModelDescription& model, const VllmConfig& config,
                               const EstimateSettings& settings) {
  if (auto countable = check_countable(model); !countable) return fail(countable.error());
  if (auto ok = check_config(config); !ok) return fail(ok.error());
  const auto type = vllm::resolve_kv_type(config.kv_cache_dtype, model);
  if (!type) return fail(type.error());
  const auto plan =
      vllm::plan_cache(model, {.kv_type = *type, .max_num_batched_tokens = config.max_num_batched_tokens});
  if (!plan) return fail(plan.error());
  const auto pool = size_pool(config, *plan);
  if (!pool) return fail(pool.error());
  return assemble(model, {
                             .weights = vllm::weights(model),
                             .kv = kv_part(model, vllm::describe(*type, config.kv_cache_dtype, model), *plan, *pool),
                             .state = state_part(*plan, *pool),
                             .activations = vllm::activations(model, config, *plan),
                             .runtime = runtime(config, settings),
                         });
}

}  // namespace dgxmm::memory
