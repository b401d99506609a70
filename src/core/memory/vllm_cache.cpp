#include "core/memory/vllm_cache.h"

#include "core/memory/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

namespace dgxmm::memory::vllm {
namespace {

using model::Attention;
using model::AttentionKind;

/// Tokens of a block where nothing asks for more, and of every layer with a window (vllm/config/cache.py).
constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kSparseLatentBlock = 64;
constexpr std::int64_t kSparseBlock = 128;
/// Blocks of latents are raised in these steps beside a state.
constexpr std::int64_t kLatentAlignment = 128;
constexpr std::int64_t kIndexValuesPerScale = 128;
/// With asynchronous scheduling, which is the default (vllm/config/scheduler.py).
constexpr std::int64_t kBatchesInFlight = 2;

/// The cache of one layer, as KVCacheSpec has it.
struct Spec {
  CacheKind kind = CacheKind::full;
  std::int64_t block = kBlock;
  std::int64_t page = 0;  ///< bytes
  std::int64_t window = 0;
  // Layers of other shapes never share a group, even when their pages are as large.
  std::int64_t heads = 0;
  std::int64_t key_length = 0;
  std::int64_t value_length = 0;

  [[nodiscard]] bool has_window() const { return kind == CacheKind::window || kind == CacheKind::chunked; }
  friend bool operator==(const Spec&, const Spec&) = default;
};

/// The layers that have caches: the trunk, and those that draft.
std::vector<const model::Layer*> cached_layers(const model::ModelDescription& model, const CacheRules& rules) {
  std::vector<const model::Layer*> layers;
  for (const auto& layer : model.layers) layers.push_back(&layer);
  if (rules.mtp) {
    for (const auto& layer : model.nextn_layers) layers.push_back(&layer);
  }
  if (rules.draft != nullptr) {
    for (const auto& layer : rules.draft->layers) layers.push_back(&layer);
  }
  return layers;
}

CacheKind kind_of(const Attention& attention) {
  switch (attention.kind) {
    case AttentionKind::sliding_window: return CacheKind::window;
    case AttentionKind::chunked: return CacheKind::chunked;
    case AttentionKind::full:
    case AttentionKind::mla:
    case AttentionKind::bidirectional: return CacheKind::full;
  }
  return CacheKind::full;
}

bool keeps_tokens(const Attention& attention) {
  return attention.kind != AttentionKind::bidirectional && !attention.shares_kv;
}

/// AttentionSpec and MLAAttentionSpec.page_size_bytes for one token. A latent is one vector for all heads.
/// `sparse`: the model has indexers, so that all its latents go through the backend for them.
std::int64_t bytes_per_token(const Attention& attention, const KvType& type, bool sparse) {
  if (attention.kind != AttentionKind::mla) {
    return attention.n_head_kv * type.head(attention.key_length, attention.value_length);
  }
  if (sparse && is_ds_mla(type)) {
    return fp8_ds_mla(attention.kv_lora_rank.value_or(0), attention.rope_length.value_or(0));
  }
  return type.latent(attention.key_length);
}

/// The key by which a sparse layer selects: 8 bit with float32 scales beside latents (DeepSeek V3.2), else 16 bit
/// (MiniMax M3).
std::int64_t index_bytes_per_token(const Attention& attention) {
  const auto length = attention.indexer_key_length.value_or(0);
  return attention.kind == AttentionKind::mla ? length + 4 * ceil_div(length, kIndexValuesPerScale) : kHalf * length;
}

bool is_sparse(const Attention& attention) { return attention.indexer_key_length.has_value(); }

/// What the attention backends prefer for layers that keep everything.
std::int64_t preferred_block(const std::vector<const model::Layer*>& layers) {
  std::int64_t block = kBlock;
  for (const auto* layer : layers) {
    if (!layer->attention || !is_sparse(*layer->attention)) continue;
    block = std::max(block, layer->attention->kind == AttentionKind::mla ? kSparseLatentBlock : kSparseBlock);
  }
  return block;
}

Spec attention_spec(const Attention& attention, CacheKind kind, const KvType& type, std::int64_t block, bool sparse) {
  Spec spec{.kind = kind,
            .block = block,
            .page = bytes_per_token(attention, type, sparse) * block,
            .heads = attention.n_head_kv,
            .key_length = attention.key_length,
            .value_length = attention.value_length};
  if (spec.has_window()) spec.window = attention.window.value_or(0);
  return spec;
}

/// MambaSpec: the convolution in the type of the model, with room for tokens that are drafted.
std::int64_t state_bytes(const model::RecurrentState& state, std::int64_t speculative_tokens) {
  const auto conv = state.conv_elements + (state.conv_keeps_drafts ? speculative_tokens * state.convolved : 0);
  return conv * kHalf + state.state_elements * (state.keeps_float32 ? 4 : kHalf);
}

std::vector<Spec> layer_specs(const model::ModelDescription& model, const CacheRules& rules) {
  constexpr std::size_t kOuter = 2;
  const auto layers = cached_layers(model, rules);
  const bool has_state = std::ranges::any_of(layers, [](const auto* layer) { return layer->recurrent.has_value(); });
  const bool has_latents = std::ranges::any_of(
      layers, [](const auto* layer) { return layer->attention && layer->attention->kind == AttentionKind::mla; });
  const bool sparse =
      std::ranges::any_of(layers, [](const auto* layer) { return layer->attention && is_sparse(*layer->attention); });
  const auto block = preferred_block(layers);
  // Latents cannot share a pool with windows: those are then kept whole.
  const bool windows = rules.hybrid_manager && !has_latents;
  std::vector<Spec> specs;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& layer = *layers[i];
    if (layer.attention && keeps_tokens(*layer.attention)) {
      const auto& attention = *layer.attention;
      auto type = rules.kv_type;
      const bool outer = i < kOuter || i + kOuter >= model.layers.size();
      if (type.outer_layers_16bit && outer && !has_state) type.head = sixteen_bit;
      auto kind = kind_of(attention);
      if (!windows) kind = CacheKind::full;
      specs.push_back(attention_spec(attention, kind, type, kind == CacheKind::full ? block : kBlock, sparse));
      if (is_sparse(attention)) {
        specs.push_back({.kind = CacheKind::full,
                         .block = block,
                         .page = index_bytes_per_token(attention) * block,
                         .heads = 1,
                         .key_length = *attention.indexer_key_length});
      }
    }
    if (layer.cross_attention) {
      specs.push_back(attention_spec(*layer.cross_attention, CacheKind::cross, rules.kv_type, block, sparse));
    }
    if (layer.recurrent) {
      specs.push_back(
          {.kind = CacheKind::state, .block = 0, .page = state_bytes(*layer.recurrent, rules.speculative_tokens)});
    }
  }
  return specs;
}

/// Beside a state, blocks of attention are raised until one page holds a state; states are padded up to it
/// (HybridAttentionMambaModelConfig, vllm/model_executor/models/config.py).
void align_to_state(std::vector<Spec>& specs, bool latents) {
  const auto keeps_all = [](const Spec& spec) { return spec.kind == CacheKind::full; };
  const auto first = std::ranges::find_if(specs, keeps_all);
  std::int64_t state = 0;
  for (const auto& spec : specs) {
    if (spec.kind == CacheKind::state) state = std::max(state, spec.page);
  }
  if (first == specs.end() || state == 0) return;
  const auto alignment = latents ? std::max(first->block, kLatentAlignment) : first->block;
  const auto per_token = first->page / first->block;
  const auto block = std::max(first->block, alignment * ceil_div(state, alignment * per_token));
  for (auto& spec : specs) {
    if (!keeps_all(spec)) continue;
    spec.page = spec.page / spec.block * block;
    spec.block = block;
  }
}

/// Makes all pages as large as the largest: a smaller page of attention gets more tokens when that comes out even, and
/// is padded otherwise, as states are (unify_kv_cache_spec_page_size).
void unify_pages(std::vector<Spec>& specs) {
  const auto largest = std::ranges::max(specs, {}, &Spec::page).page;
  for (auto& spec : specs) {
    if (spec.kind != CacheKind::state && largest % spec.page == 0) spec.block *= largest / spec.page;
    spec.page = largest;
  }
}

/// Layers with equal specs, in the order in which they first occur.
std::vector<std::pair<Spec, std::int64_t>> buckets_of(const std::vector<Spec>& specs) {
  std::vector<std::pair<Spec, std::int64_t>> buckets;
  for (const auto& spec : specs) {
    const auto found = std::ranges::find(buckets, spec, [](const auto& bucket) { return bucket.first; });
    if (found == buckets.end()) {
      buckets.emplace_back(spec, 1);
    } else {
      ++found->second;
    }
  }
  return buckets;
}

std::int64_t state_pages(const CacheRules& rules, bool attention) {
  // A model without attention has no prefix caching; with it a second state is kept to go on from.
  return (rules.prefix_caching && attention ? 2 : 1) + rules.speculative_tokens;
}

CacheGroup group_of(const Spec& spec, std::int64_t layers, std::int64_t pages) {
  return {.kind = spec.kind,
          .layers = layers,
          .block = spec.block,
          .window = spec.window,
          .state_pages = spec.kind == CacheKind::state ? pages : 0};
}

/// One group for all: every layer has the same spec, or all keep every token in blocks of one length.
bool is_uniform(const std::vector<Spec>& specs) {
  const auto& first = specs.front();
  return std::ranges::all_of(specs, [&](const Spec& spec) { return spec == first; }) ||
         std::ranges::all_of(
             specs, [&](const Spec& spec) { return spec.kind == CacheKind::full && spec.block == first.block; });
}

/// get_kv_cache_groups: every bucket is cut into groups of about the same number of layers.
void group_buckets(CachePlan& plan, std::vector<Spec> specs, std::int64_t pages_of_state) {
  unify_pages(specs);
  const auto buckets = buckets_of(specs);
  constexpr auto kLayers = [](const auto& bucket) { return bucket.second; };
  const auto smallest = std::ranges::min(buckets, {}, kLayers).second;
  const auto largest = std::ranges::max(buckets, {}, kLayers).second;
  const auto size = 2 * largest < 3 * smallest ? largest : smallest;
  for (const auto& [spec, layers] : buckets) {
    const auto count = ceil_div(layers, size);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto dealt = layers / count + (i < layers % count ? 1 : 0);
      plan.groups.push_back(group_of(spec, dealt, pages_of_state));
    }
  }
  plan.bytes_per_block = Bytes{size * specs.front().page};
}

// DeepSeek V4 packs its caches into one slab; a page is a whole number of these (vllm/models/deepseek_v4).
constexpr std::int64_t kCompressedPageUnit = 576;
constexpr std::int64_t kCompressedRow = 584;  ///< fp8_ds_mla of a head of 512
constexpr std::int64_t kCompressedHead = 512;
constexpr std::int64_t kCompressedIndex = 128;
constexpr std::int64_t kCompressedBlock = 256;

constexpr std::int64_t packed(std::int64_t bytes) { return ceil_div(bytes, kCompressedPageUnit) * kCompressedPageUnit; }

struct CompressedPages {
  static constexpr std::int64_t kWindowBlock = 64;
  static constexpr std::int64_t kWindow = packed(kWindowBlock * kCompressedRow);
  // Of a block of 256 tokens, four to one or 128 to one.
  static constexpr std::int64_t kMain4 = packed(kCompressedBlock / 4 * kCompressedRow);
  static constexpr std::int64_t kIndex4 = packed(kCompressedBlock / 4 * (kCompressedIndex + 4));
  static constexpr std::int64_t kMain128 = packed(kCompressedBlock / 128 * kCompressedRow);
  // What the compressors hold of tokens that are not compressed yet, in float32.
  static constexpr std::int64_t kState4Block = 4;
  static constexpr std::int64_t kState4 = packed(kState4Block * 2 * 2 * kCompressedHead * 4);
  static constexpr std::int64_t kIndexState4 = packed(kState4Block * 2 * 2 * kCompressedIndex * 4);
  static constexpr std::int64_t kState128Block = 8;
  static constexpr std::int64_t kState128 = packed(kState128Block * 2 * kCompressedHead * 4);
};

Result<CachePlan> plan_compressed(const model::ModelDescription& model, const CacheRules& rules, CachePlan plan) {
  using P = CompressedPages;
  std::int64_t ratio4 = 0;
  std::int64_t ratio128 = 0;
  std::int64_t window = 0;
  const auto cached = cached_layers(model, rules);
  for (const auto* layer : cached) {
    const auto* attention = layer->attention ? &*layer->attention : nullptr;
    const bool known = attention != nullptr && attention->compress_ratio && attention->window.value_or(0) > 0 &&
                       attention->key_length == kCompressedHead &&
                       attention->indexer_key_length.value_or(kCompressedIndex) == kCompressedIndex;
    const auto ratio = known ? *attention->compress_ratio : -1;
    if (ratio != 0 && ratio != 4 && ratio != 128) {
      return fail(
          "model_not_supported",
          fmt::format("{} ({}): compresses tokens in a way whose layout is not known", model.name, model.architecture),
          "known are ratios of 4 and 128 with heads of 512 and index keys of 128", model.path);
    }
    ratio4 += ratio == 4 ? 1 : 0;
    ratio128 += ratio == 128 ? 1 : 0;
    window = *attention->window;
  }
  const auto layers = static_cast<std::int64_t>(cached.size());
  const auto half = ceil_div(layers, 2);
  plan.groups = {{.kind = CacheKind::full, .layers = 2 * ratio4 + ratio128, .block = kCompressedBlock},
                 {.kind = CacheKind::window, .layers = half, .block = P::kWindowBlock, .window = window},
                 {.kind = CacheKind::window, .layers = layers - half, .block = P::kWindowBlock, .window = window},
                 {.kind = CacheKind::window, .layers = 2 * ratio4, .block = P::kState4Block, .window = 8},
                 {.kind = CacheKind::window, .layers = ratio128, .block = P::kState128Block, .window = 128}};
  std::erase_if(plan.groups, [](const CacheGroup& group) { return group.layers == 0; });
  plan.bytes_per_block = Bytes{std::max({ratio4 * (P::kMain4 + P::kIndex4) + ratio128 * P::kMain128, half * P::kWindow,
                                         ratio4 * (P::kState4 + P::kIndexState4), ratio128 * P::kState128})};
  // The check counts a padded tuple of the three kinds of pages for every page.
  plan.checked_per_block = std::max({half, ratio4, ratio128}) * Bytes{P::kMain4 + P::kIndex4 + P::kMain128};
  return plan;
}

}  // namespace

Result<CachePlan> plan_cache(const model::ModelDescription& model, const CacheRules& rules) {
  CachePlan plan{.groups = {},
                 .bytes_per_block = {},
                 .checked_per_block = {},
                 .tokens_in_flight = kBatchesInFlight * rules.max_num_batched_tokens,
                 .encoder_tokens = rules.max_num_batched_tokens};
  if (rules.mtp && model.nextn_layers.size() > 1) plan.drafted_window = rules.speculative_tokens - 1;
  // One item is always encoded whole (compute_mm_encoder_budget, vllm/v1/core/encoder_cache_manager.py).
  for (const auto& encoder : model.encoders) plan.encoder_tokens = std::max(plan.encoder_tokens, encoder.item_tokens);
  if (std::ranges::any_of(
          model.layers, [](const model::Layer& layer) { return layer.attention && layer.attention->compress_ratio; })) {
    return plan_compressed(model, rules, std::move(plan));
  }
  auto specs = layer_specs(model, rules);
  if (specs.empty()) return plan;
  const auto is_state = [](const Spec& spec) { return spec.kind == CacheKind::state; };
  const bool attention = !std::ranges::all_of(specs, is_state);
  if (std::ranges::any_of(specs, is_state)) {
    const bool latents = std::ranges::any_of(model.layers, [](const model::Layer& layer) {
      return layer.attention && layer.attention->kind == AttentionKind::mla;
    });
    align_to_state(specs, latents);
  }
  if (is_uniform(specs)) {
    for (const auto& spec : specs) plan.bytes_per_block += Bytes{spec.page};
    plan.groups = {group_of(specs.front(), static_cast<std::int64_t>(specs.size()), state_pages(rules, attention))};
  } else {
    group_buckets(plan, std::move(specs), state_pages(rules, attention));
  }
  plan.checked_per_block = plan.bytes_per_block;
  return plan;
}

std::int64_t request_blocks(const CachePlan& plan, const CacheGroup& group, std::int64_t length) {
  switch (group.kind) {
    case CacheKind::full: return ceil_div(length, group.block);
    // A window may begin anywhere in a block.
    case CacheKind::window:
      return ceil_div(std::min(group.window - 1 + plan.drafted_window + plan.tokens_in_flight, length), group.block) +
             1;
    case CacheKind::chunked: return ceil_div(std::min(group.window + plan.tokens_in_flight, length), group.block);
    case CacheKind::state: return group.state_pages;
    case CacheKind::cross: return ceil_div(plan.encoder_tokens, group.block);
  }
  return 0;
}

std::int64_t request_blocks(const CachePlan& plan, std::int64_t length) {
  return std::accumulate(
      plan.groups.begin(), plan.groups.end(), std::int64_t{0},
      [&](std::int64_t sum, const CacheGroup& group) { return sum + request_blocks(plan, group, length); });
}

Bytes request_bytes(const CachePlan& plan, std::int64_t length) {
  return plan.checked_per_block * request_blocks(plan, length);
}

std::int64_t longest_context(const CachePlan& plan, Bytes pool, std::int64_t most) {
  // What a request takes never falls with its length.
  std::int64_t fits = 0;
  std::int64_t beyond = most + 1;
  while (beyond - fits > 1) {
    const auto middle = fits + (beyond - fits) / 2;
    (request_bytes(plan, middle) <= pool ? fits : beyond) = middle;
  }
  return fits;
}

}  // namespace dgxmm::memory::vllm
