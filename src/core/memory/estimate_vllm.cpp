#include "base/counted.h"
#include "core/memory/assemble.h"
#include "core/memory/estimate.h"
#include "core/memory/limits.h"
#include "core/memory/rounding.h"
#include "core/memory/vllm_activations.h"
#include "core/memory/vllm_cache.h"
#include "core/memory/vllm_kv_types.h"
#include "core/memory/vllm_ranks.h"
#include "core/memory/vllm_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
                    : fmt::format("{} of the pool; each sequence holds {} in every group of layers with a state",
                                  counted(pool.state_blocks, "page"), group->state_pages);
  return part;
}

/// E6. Layers that draft have graphs of their own, counted by how many they are beside those of the model.
Part runtime(const model::ModelDescription& model, const model::ModelDescription* draft, const VllmConfig& config,
             const EstimateSettings& settings) {
  Part part{.size = settings.vllm_runtime_fixed, .source = Source::setting};
  part.detail = format_bytes(settings.vllm_runtime_fixed) + " fixed";
  if (config.enforce_eager) {
    part.detail += ", no CUDA graphs (eager)";
  } else {
    part.size += settings.vllm_cuda_graph;
    part.detail += fmt::format(" + CUDA graphs {}", format_bytes(settings.vllm_cuda_graph));
    const auto layers = static_cast<std::int64_t>(model.layers.size());
    std::size_t drafting = draft == nullptr ? 0 : draft->layers.size();
    if (config.spec_method == "mtp") drafting = model.nextn_layers.size();
    if (drafting > 0) {
      const auto graphs = scale_up(settings.vllm_cuda_graph, static_cast<std::int64_t>(drafting), layers);
      part.size += graphs;
      part.detail += fmt::format(" and {} for the layers that draft", format_bytes(graphs));
    }
  }
  if (const auto cache = config.mm_processor_cache_gb.value_or(0); cache > 0) {
    // Kept by the API process and by the engine (vllm/multimodal/cache.py).
    constexpr std::int64_t kProcesses = 2;
    part.size += gib(kProcesses * cache);
    part.detail +=
        fmt::format(" + prepared pictures and sound, up to {} in {} processes", format_bytes(gib(cache)), kProcesses);
  }
  return part;
}

Result<void> check_config(const VllmConfig& config) {
  if (auto ok = check_setting("max_model_len", config.max_model_len, 1, kMaxContext); !ok) return ok;
  if (auto ok = check_setting("max_num_seqs", config.max_num_seqs, 1, kMaxSequences); !ok) return ok;
  if (auto ok = check_setting("max_num_batched_tokens", config.max_num_batched_tokens, 1, kMaxBatchedTokens); !ok)
    return ok;
  const std::pair<std::string_view, std::array<std::int64_t, 3>> others[] = {
      {"kv_tokens", {config.kv_tokens.value_or(1), 1, kMaxContext}},
      {"tensor_parallel_size", {config.tensor_parallel_size, 1, 256}},
      {"num_speculative_tokens", {config.num_speculative_tokens, 0, 64}},
      {"max_loras", {config.max_loras, 1, 1024}},
      {"max_lora_rank", {config.max_lora_rank, 1, 512}},
      {"limit_mm_per_prompt", {config.limit_mm_per_prompt.value_or(0), 0, 999}},
      {"mm_processor_cache_gb", {config.mm_processor_cache_gb.value_or(0), 0, 1024}},
  };
  for (const auto& [field, numbers] : others) {
    if (auto ok = check_setting(field, numbers[0], numbers[1], numbers[2]); !ok) return ok;
  }
  return {};
}

/// The share of one rank of what drafts tokens; nothing when no model does.
Result<std::optional<model::ModelDescription>> draft_of(const VllmConfig& config, const model::Companions& companions) {
  const auto* method = engine::spec_method_named(config.spec_method);
  const bool wanted = method != nullptr && method->has_model;
  if (!wanted) return std::nullopt;
  if (!companions.draft) {
    return fail("bad_configuration", fmt::format("spec_method {} needs a draft model", config.spec_method),
                "name one with draft_model", "draft_model");
  }
  const auto& draft = *companions.draft;
  if (draft.format != model::Format::safetensors) {
    return fail("bad_configuration", "draft_model: vLLM drafts with a folder with safetensors, and this is a GGUF file",
                "name such a folder", "draft_model");
  }
  if (auto countable = check_countable(draft); !countable) return fail(countable.error());
  auto rank = vllm::rank_of(draft, config.tensor_parallel_size);
  if (!rank) return fail(rank.error());
  return std::move(*rank);
}

bool sees_chunks(const model::Layer& layer) {
  return layer.attention && layer.attention->kind == model::AttentionKind::chunked;
}

/// What is loaded beside the model, as part of its weights.
Result<void> add_draft(Part& weights, const model::ModelDescription& draft, const model::ModelDescription& rank,
                       const VllmConfig& config) {
  const auto part = vllm::weights(draft, rank, {.tensor_parallel_size = config.tensor_parallel_size});
  if (!part) return fail(part.error());
  weights.size += part->size;
  weights.detail += fmt::format("; {} to draft with ({}): {}", draft.name, part->detail, format_bytes(part->size));
  return {};
}

using Doubts = std::vector<std::string>;

/// What is not certain of the draft is not certain of the whole.
Doubts of_the_draft(const Doubts& doubts) {
  Doubts named;
  for (const auto& doubt : doubts) named.push_back("draft_model: " + doubt);
  return named;
}

}  // namespace

Result<Estimate> estimate_vllm(const model::ModelDescription& model, const VllmConfig& config,
                               const EstimateSettings& settings, const model::Companions& companions) {
  if (auto countable = check_countable(model); !countable) return fail(countable.error());
  if (auto ok = check_config(config); !ok) return fail(ok.error());
  const auto drafting = draft_of(config, companions);
  if (!drafting) return fail(drafting.error());
  const auto* draft = *drafting ? &**drafting : nullptr;
  const auto type = vllm::resolve_kv_type(config.kv_cache_dtype, model);
  if (!type) return fail(type.error());
  const auto rank = vllm::rank_of(model, config.tensor_parallel_size);
  if (!rank) return fail(rank.error());
  // Chunks are kept whole beside an EAGLE head (VllmConfig.__post_init__, vllm/config/vllm.py).
  const auto* method = engine::spec_method_named(config.spec_method);
  const bool head = method != nullptr && method->is_eagle;
  const auto plan =
      vllm::plan_cache(*rank, {.kv_type = *type,
                               .max_num_batched_tokens = config.max_num_batched_tokens,
                               .speculative_tokens = config.num_speculative_tokens,
                               .draft = draft,
                               .mtp = config.spec_method == "mtp",
                               .hybrid_manager = !head || std::ranges::none_of(model.layers, sees_chunks)});
  if (!plan) return fail(plan.error());
  const auto pool = size_pool(config, *plan);
  if (!pool) return fail(pool.error());
  auto weights = vllm::weights(model, *rank, config);
  if (!weights) return fail(weights.error());
  if (draft != nullptr) {
    if (auto ok = add_draft(*weights, *companions.draft, *draft, config); !ok) return fail(ok.error());
  }
  auto estimate =
      assemble(model, {
                          .weights = std::move(*weights),
                          .kv = kv_part(*rank, vllm::describe(*type, config.kv_cache_dtype, model), *plan, *pool),
                          .state = state_part(*plan, *pool),
                          .activations = vllm::activations(*rank, draft, config, *plan),
                          .runtime = runtime(model, draft, config, settings),
                          .missing_fields = draft != nullptr ? of_the_draft(draft->missing_fields) : Doubts{},
                          .contradictions = draft != nullptr ? of_the_draft(draft->contradictions) : Doubts{},
                      });
  if (!plan->groups.empty()) estimate.null_block = plan->bytes_per_block;
  return estimate;
}

}  // namespace dgxmm::memory
