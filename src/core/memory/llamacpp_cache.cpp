#include "core/memory/llamacpp_cache.h"

#include "core/engine/request.h"
#include "core/memory/limits.h"
#include "core/memory/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

namespace dgxmm::memory::llamacpp {
namespace {

using engine::CacheType;
using engine::FlashAttention;
using model::AttentionKind;

/// Cells are allocated in steps of this (llama_context's constructor, src/llama-context.cpp; since b6975 for every
/// model).
constexpr std::int64_t kCellPadding = 256;
constexpr std::int64_t kF32 = 4;
/// LLAMA_MAX_SEQ, src/llama-cparams.h.
constexpr std::int64_t kMaxSequences = 256;

/// A ggml type that a cache can have (ggml/src/ggml-common.h).
struct GgmlType {
  std::int64_t block;  ///< elements
  std::int64_t bytes;  ///< of a block
};

constexpr GgmlType ggml_type(CacheType type) {
  switch (type) {
    case CacheType::f32: return {1, 4};
    case CacheType::f16: return {1, 2};
    case CacheType::bf16: return {1, 2};
    case CacheType::q8_0: return {32, 34};
    case CacheType::q5_1: return {32, 24};
    case CacheType::q5_0: return {32, 22};
    case CacheType::q4_1: return {32, 20};
    case CacheType::q4_0: return {32, 18};
    case CacheType::iq4_nl: return {32, 18};
  }
  return {1, 4};
}

std::unexpected<Error> refused(std::string message, std::string hint, std::string where) {
  return fail("bad_configuration", std::move(message), std::move(hint), std::move(where));
}

/// What `-fa auto` becomes (src/llama-context.cpp; for CUDA ggml_cuda_get_best_fattn_kernel, ggml-cuda/fattn.cu, as
/// built without GGML_CUDA_FA_ALL_QUANTS).
bool uses_flash_attention(const engine::LlamaCppConfig& config, Placement placement) {
  if (config.flash_attn != FlashAttention::automatic) return config.flash_attn == FlashAttention::on;
  // A quantized V forces it on: where the GPU has no kernel for the pair, the operation moves to the CPU.
  if (is_quantized(config.cache_type_v) || placement == Placement::cpu) return true;
  const auto type = config.cache_type_k;
  return type == config.cache_type_v && (type == CacheType::f32 || type == CacheType::f16 || type == CacheType::bf16);
}

/// llama_init_from_model's check of one head size; it is skipped with `-fa off`.
Result<void> check_head_size(std::string_view letter, std::string_view field, CacheType type, std::int64_t head_size) {
  const auto ggml = ggml_type(type);
  if (head_size % ggml.block == 0) return {};
  return refused(
      fmt::format("llama.cpp refuses: {0} cache type {1} with block size {2} does not divide n_embd_head_{3}={4}",
                  letter, engine::name_of(type), ggml.block, letter == "K" ? "k" : "v", head_size),
      "use f16, bf16 or f32 for this model", std::string{field});
}

// Models whose main context has no cells for the layers of multi-token prediction (llama_model::create_memory); all
// others have them although they do not run these layers.
constexpr auto kTrunkOnly =
    std::to_array<std::string_view>({"deepseek32", "dots3note", "glm-dsa", "hy_v3", "mimo2", "minimax-01", "qwen35",
                                     "qwen35moe", "qwen3next", "step35"});

// Models whose context for drafting has cells for the layers of multi-token prediction alone; in that of others every
// layer has them (llama_model::create_memory).
constexpr auto kDraftsWithOwnCellsOnly =
    std::to_array<std::string_view>({"bailingmoe3", "deepseek32", "deepseek4", "dots3note", "glm-dsa", "hy_v3", "mimo2",
                                     "nemotron_h_moe", "qwen35", "qwen35moe", "qwen3next", "step35"});

// Models that can keep older copies of their state (llama_model_n_rs_seq; since b9180).
constexpr auto kRollBack = std::to_array<std::string_view>(
    {"bailingmoe3", "deepseek4", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe"});

bool is_among(std::span<const std::string_view> architectures, const model::ModelDescription& model) {
  return std::ranges::find(architectures, model.architecture) != architectures.end();
}

/// The layers that a context has memory for.
std::vector<const model::Layer*> layers_of(const model::ModelDescription& model, const Context& context) {
  const bool trunk = !context.is_mtp || !is_among(kDraftsWithOwnCellsOnly, model);
  const bool nextn = context.is_mtp || !is_among(kTrunkOnly, model);
  std::vector<const model::Layer*> layers;
  for (const auto& layer : model.layers) {
    if (trunk) layers.push_back(&layer);
  }
  for (const auto& layer : model.nextn_layers) {
    if (nextn) layers.push_back(&layer);
  }
  return layers;
}

/// The attention layers that have cells of their own.
std::vector<const model::Attention*> cached_layers(const model::ModelDescription& model, const Context& context) {
  std::vector<const model::Attention*> cached;
  for (const auto* layer : layers_of(model, context)) {
    if (layer->attention && !layer->attention->shares_kv && layer->attention->kind != AttentionKind::bidirectional) {
      cached.push_back(&*layer->attention);
    }
  }
  return cached;
}

/// Without flash attention V is kept transposed, with every layer as wide as the widest (src/llama-kv-cache.cpp).
std::int64_t widest_value(const model::ModelDescription& model) {
  std::int64_t widest = 0;
  for (const auto* layers : {&model.layers, &model.nextn_layers}) {
    for (const auto& layer : *layers) {
      if (layer.attention) widest = std::max(widest, layer.attention->n_head_kv * layer.attention->value_length);
    }
  }
  return widest;
}

/// llama_kv_cache_iswa's constructor: a slot's window, and the tokens that are computed while it moves.
std::int64_t window_cells(std::int64_t window, const engine::LlamaCppConfig& config, const Context& context) {
  if (config.swa_full) return context.cells;
  const auto windows = window * (config.kv_unified ? context.sequences : 1);
  return rounded_up(std::min(context.cells, windows + context.ubatch), kCellPadding);
}

/// Caches as they grow layer by layer.
class CacheBuilder {
 public:
  CacheBuilder(CacheKind kind, std::int64_t cells, std::int64_t streams)
      : cache_{.kind = kind, .cells = cells, .streams = streams} {}

  void add(Bytes cell, std::int64_t key_length) {
    cell_ += cell;
    cache_.layers += 1;
    cache_.key_length = std::max(cache_.key_length, key_length);
  }

  void finish(std::vector<Cache>& caches) {
    if (cache_.layers == 0) return;
    cache_.size = cell_ * cache_.cells * cache_.streams;
    caches.push_back(cache_);
  }

 private:
  Cache cache_;
  Bytes cell_;
};

/// llama_kv_cache_dsv4's constructor: a window of raw tokens in all layers, one token in place of 4 or 128 older ones,
/// and keys of an indexer for the former. Each slot has its own, unified or not.
Result<std::vector<Cache>> compressed_caches(std::span<const model::Attention* const> layers,
                                             const engine::LlamaCppConfig& config, const Context& context) {
  constexpr std::int64_t kSelected = 4;
  constexpr std::int64_t kHeavily = 128;
  const auto streams = context.sequences;
  if (context.cells > kMaxContext / streams) {
    return refused("this model keeps the whole context once for every slot: that is more than can be counted",
                   "ask for less context or fewer slots", "ctx_size");
  }
  const auto kept = [&](std::int64_t ratio) { return rounded_up((context.cells + ratio - 1) / ratio, kCellPadding); };
  std::int64_t window = 0;
  for (const auto* layer : layers) window = std::max(window, layer->window.value_or(context.cells));
  // A window per slot: as if they were not unified.
  auto separate = config;
  separate.kv_unified = false;
  CacheBuilder raw{CacheKind::window, window_cells(window, separate, context), streams};
  CacheBuilder selected{CacheKind::compressed, kept(kSelected), streams};
  CacheBuilder heavily{CacheKind::compressed, kept(kHeavily), streams};
  CacheBuilder indexer{CacheKind::indexer, kept(kSelected), streams};
  for (const auto* layer : layers) {
    const auto key = row_bytes(config.cache_type_k, layer->n_head_kv * layer->key_length);
    raw.add(key, layer->key_length);
    if (layer->compress_ratio == kSelected) selected.add(key, layer->key_length);
    if (layer->compress_ratio == kHeavily) heavily.add(key, layer->key_length);
    if (const auto length = layer->indexer_key_length) indexer.add(row_bytes(config.cache_type_k, *length), *length);
  }
  std::vector<Cache> caches;
  for (auto* cache : {&raw, &selected, &heavily, &indexer}) cache->finish(caches);
  return caches;
}

/// f32 elements of the compressors of one layer and slot (llama_kv_cache_dsv4): two tensors each.
std::int64_t compressor_elements(const model::Attention& layer) {
  if (layer.compress_ratio == 4) return 2 * 8 * 2 * (layer.key_length + layer.indexer_key_length.value_or(0));
  if (layer.compress_ratio == 128) return 2 * 128 * layer.key_length;
  return 0;
}

std::int64_t state_elements(const model::Layer& layer) {
  std::int64_t sum = 0;
  if (layer.recurrent) sum += layer.recurrent->conv_elements + layer.recurrent->state_elements;
  if (layer.attention && layer.attention->compress_ratio) sum += compressor_elements(*layer.attention);
  return sum;
}

/// f32 elements of one slot. In the main context only the trunk has a state.
std::int64_t state_elements(const model::ModelDescription& model, const Context& context) {
  std::int64_t sum = 0;
  if (context.is_mtp) {
    for (const auto* layer : layers_of(model, context)) sum += state_elements(*layer);
  } else {
    for (const auto& layer : model.layers) sum += state_elements(layer);
  }
  return sum;
}

/// Quantized rows are whole blocks.
Result<void> check_key_row(CacheType type, std::int64_t elements) {
  if (elements % ggml_type(type).block == 0) return {};
  return refused(fmt::format("a K row of {} elements cannot be stored as {}, which has blocks of {}", elements,
                             engine::name_of(type), ggml_type(type).block),
                 "use f16, bf16 or f32 for this model", "cache_type_k");
}

/// llama_init_from_model: where V is read out of K, they are one tensor.
Result<void> check_types(const model::ModelDescription& model, const engine::LlamaCppConfig& config) {
  const bool one_tensor = std::ranges::any_of(
      model.layers, [](const auto& layer) { return layer.attention && !layer.attention->keeps_values; });
  if (!one_tensor || config.cache_type_k == config.cache_type_v) return {};
  return refused(fmt::format("llama.cpp refuses: model does not support different K ({}) and V ({}) cache types",
                             engine::name_of(config.cache_type_k), engine::name_of(config.cache_type_v)),
                 "give cache_type_k and cache_type_v the same type", "cache_type_v");
}

}  // namespace

Bytes row_bytes(CacheType type, std::int64_t elements) {
  const auto ggml = ggml_type(type);
  return Bytes{elements / ggml.block * ggml.bytes};
}

bool is_quantized(CacheType type) { return ggml_type(type).block > 1; }

Result<Context> resolve_context(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                                Placement placement) {
  if (auto ok = check_setting("ctx_size", config.ctx_size, 1, kMaxContext); !ok) return fail(ok.error());
  if (auto ok = check_setting("parallel", config.parallel, 1, kMaxSequences); !ok) return fail(ok.error());
  if (auto ok = check_setting("batch", config.batch, 1, kMaxBatch); !ok) return fail(ok.error());
  if (auto ok = check_setting("ubatch", config.ubatch, 1, kMaxBatch); !ok) return fail(ok.error());
  if (auto ok = check_types(model, config); !ok) return fail(ok.error());
  if (config.flash_attn == FlashAttention::off) {
    if (is_quantized(config.cache_type_v)) {
      return refused("llama.cpp refuses: quantized V cache requires flash_attn to be enabled",
                     "set flash_attn to auto or on, or cache_type_v to f16", "cache_type_v");
    }
  } else {
    for (const auto& layer : model.layers) {
      if (!layer.attention) continue;
      const auto& attention = *layer.attention;
      if (auto ok = check_head_size("K", "cache_type_k", config.cache_type_k, attention.key_length); !ok) {
        return fail(ok.error());
      }
      if (auto ok = check_head_size("V", "cache_type_v", config.cache_type_v, attention.value_length); !ok) {
        return fail(ok.error());
      }
    }
  }

  Context context;
  context.sequences = config.parallel;
  context.streams = config.kv_unified ? 1 : config.parallel;
  // The slots share the pool, or each has its part of it; the part is rounded up, so the whole can grow.
  const auto part = config.kv_unified ? config.ctx_size : rounded_up(config.ctx_size, kCellPadding) / config.parallel;
  context.cells = rounded_up(part, kCellPadding);
  context.batch = std::min(config.ctx_size, config.batch);
  context.ubatch = std::min(context.batch, config.ubatch);
  // llama-server asks for one row of logits a slot (since b9460), and one for each token that was drafted.
  const auto drafted = config.spec_type == engine::SpecType::none ? 0 : config.spec_draft_n_max;
  context.output_rows = std::min(context.batch, context.sequences * (1 + drafted));
  if (config.spec_type == engine::SpecType::draft_mtp) context.rollback_states = drafted;
  context.flash_attention = uses_flash_attention(config, placement);
  return context;
}

bool is_compressed(const model::ModelDescription& model) {
  return std::ranges::any_of(model.layers,
                             [](const auto& layer) { return layer.attention && layer.attention->compress_ratio; });
}

Result<std::vector<Cache>> kv_caches(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                                     const Context& context) {
  const auto layers = cached_layers(model, context);
  for (const auto* layer : layers) {
    if (auto ok = check_key_row(config.cache_type_k, layer->n_head_kv * layer->key_length); !ok)
      return fail(ok.error());
    const auto indexer = layer->indexer_key_length.value_or(0);
    if (auto ok = check_key_row(config.cache_type_k, indexer); !ok) return fail(ok.error());
  }
  if (is_compressed(model)) return compressed_caches(layers, config, context);

  const auto widest = widest_value(model);
  std::int64_t window = 0;
  for (const auto* layer : layers) window = std::max(window, layer->window.value_or(0));
  CacheBuilder full{CacheKind::full, context.cells, context.streams};
  CacheBuilder windowed{CacheKind::window, window_cells(window, config, context), context.streams};
  CacheBuilder indexer{CacheKind::indexer, context.cells, context.streams};
  for (const auto* layer : layers) {
    Bytes cell = row_bytes(config.cache_type_k, layer->n_head_kv * layer->key_length);
    if (layer->keeps_values) {
      const auto v = context.flash_attention ? layer->n_head_kv * layer->value_length : widest;
      cell += row_bytes(config.cache_type_v, v);
    }
    (layer->window ? windowed : full).add(cell, layer->key_length);
    // The graph that drafts selects nothing (seen on b11669).
    if (const auto length = layer->indexer_key_length; length && !context.is_mtp) {
      Bytes key = row_bytes(config.cache_type_k, *length);
      // MiniMax M3: the indexer's cache is one of plain attention, V included, which is never read.
      if (layer->keeps_values) key += row_bytes(config.cache_type_v, layer->value_length);
      indexer.add(key, *length);
    }
  }
  std::vector<Cache> caches;
  for (auto* cache : {&full, &windowed, &indexer}) cache->finish(caches);
  return caches;
}

bool rolls_back(const model::ModelDescription& model) { return is_among(kRollBack, model); }

Bytes recurrent_state(const model::ModelDescription& model, const Context& context) {
  const auto copies = 1 + (rolls_back(model) ? context.rollback_states : 0);
  return Bytes{kF32 * state_elements(model, context)} * (context.sequences * copies);
}

Bytes checkpoint_size(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                      const Context& context) {
  Bytes size{kF32 * state_elements(model, context)};
  if (config.swa_full) return size;
  for (const auto* layer : cached_layers(model, context)) {
    if (!layer->window) continue;
    Bytes cell = row_bytes(config.cache_type_k, layer->n_head_kv * layer->key_length);
    if (layer->keeps_values) cell += row_bytes(config.cache_type_v, layer->n_head_kv * layer->value_length);
    size += cell * std::min(*layer->window, context.cells);
  }
  return size;
}

}  // namespace dgxmm::memory::llamacpp
