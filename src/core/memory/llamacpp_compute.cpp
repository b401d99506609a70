#include "core/memory/llamacpp_compute.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace dgxmm::memory::llamacpp {
namespace {

using engine::CacheType;

constexpr std::int64_t kF32 = 4;
constexpr std::int64_t kF16 = 2;
constexpr std::int64_t kI64 = 8;
/// Of any compute buffer, for inputs and alignment.
constexpr Bytes kFixed = mib(1);

/// Widths in elements, the largest of all layers: the graph's buffer serves one layer after the other.
struct Widths {
  std::int64_t embedding = 0;
  std::int64_t heads = 0;
  std::int64_t q = 0, k = 0, v = 0;  ///< over all heads
  std::int64_t kept_v = 0;           ///< of layers that keep V as such
  std::int64_t latent = 0;           ///< of MLA: Q against the latent, what is read out of it, and Q itself
  std::int64_t recurrent = 0;        ///< of a recurrent block
  std::int64_t state = 0;            ///< of one slot
  std::int64_t feed_forward = 0;
  std::int64_t vocabulary = 0;
  bool gates_query = false;
};

/// Elements alive together per token in a recurrent block (build_mamba2_layer, build_layer_attn_linear and others in
/// src/models): the residual stream, and what the input was projected to.
std::int64_t recurrent_width(const model::RecurrentState& state, std::int64_t e, std::int64_t feed_forward) {
  using model::RecurrentKind;
  switch (state.kind) {
    case RecurrentKind::mamba:
    case RecurrentKind::mamba2: return 4 * e + 2 * state.projected + state.convolved;
    case RecurrentKind::gated_delta_net: return 5 * e + 5 * state.convolved / 2 + 2 * state.inner;
    case RecurrentKind::kda: return 5 * e + 8 * state.inner;
    case RecurrentKind::rwkv: return 16 * e + 2 * feed_forward;
    case RecurrentKind::lightning: return 5 * e + 6 * state.inner;
    case RecurrentKind::short_conv: return 5 * e + 3 * state.convolved;
  }
  return 0;
}

void widen(Widths& widths, const model::Attention& attention) {
  const auto heads = attention.n_head;
  widths.heads = std::max(widths.heads, heads);
  widths.q = std::max(widths.q, heads * attention.key_length);
  widths.k = std::max(widths.k, attention.n_head_kv * attention.key_length);
  widths.v = std::max(widths.v, attention.n_head_kv * attention.value_length);
  if (attention.keeps_values) widths.kept_v = std::max(widths.kept_v, attention.n_head_kv * attention.value_length);
  if (const auto rank = attention.kv_lora_rank) {
    const auto key = attention.mla_key_length.value_or(0);
    widths.latent = std::max(widths.latent, heads * (2 * *rank + attention.rope_length.value_or(0) + 2 * key));
  }
  widths.gates_query = widths.gates_query || attention.gates_query;
}

Widths widths_of(const model::ModelDescription& model) {
  Widths widths{.embedding = model.embedding_length, .vocabulary = model.vocabulary};
  for (const auto* layers : {&model.layers, &model.nextn_layers}) {
    for (const auto& layer : *layers) {
      if (layer.attention) widen(widths, *layer.attention);
      if (const auto& state = layer.recurrent) {
        widths.recurrent =
            std::max(widths.recurrent, recurrent_width(*state, widths.embedding, layer.feed_forward_length));
        widths.state = std::max(widths.state, state->conv_elements + state->state_elements);
      }
      widths.feed_forward = std::max(widths.feed_forward, layer.feed_forward_length);
    }
  }
  return widths;
}

/// Elements alive together per token in an attention block (build_attn, src/llama-graph.cpp): the residual stream and
/// its norm, Q before and after rotation, K and V.
std::int64_t attention_width(const Widths& w) { return w.heads == 0 ? 0 : 5 * w.embedding + 3 * w.q + 2 * (w.k + w.v); }

/// In a dense feed-forward block (build_ffn): gate and up, beside the stream. Gemma norms what leaves the block, too.
std::int64_t dense_width(const Widths& w, const model::ModelDescription& model) {
  const auto streams = model.architecture.starts_with("gemma") ? 9 : 7;
  return streams * w.embedding + 2 * w.feed_forward + 2 * (w.k + w.v);
}

/// In a block of experts (build_moe_ffn): every used expert holds gate, up and their product, or its output, which is
/// summed in place; the shared ones come after it.
std::int64_t experts_width(const Widths& w, const model::Experts& experts) {
  const auto e = w.embedding;
  const auto inner = experts.feed_forward_length;
  const auto routed = 4 * e + experts.used_count * (3 * inner + (inner < e ? e : 0));
  return std::max(routed, 5 * e + 2 * experts.shared_feed_forward_length);
}

std::int64_t widest_block(const Widths& w, const model::ModelDescription& model, Placement placement) {
  auto width = w.latent > 0 ? 4 * w.embedding + w.latent : attention_width(w) + (w.gates_query ? 2 * w.q : 0);
  width = std::max(width, w.recurrent);
  if (w.feed_forward > 0) width = std::max(width, dense_width(w, model));
  if (model.experts) width = std::max(width, experts_width(w, *model.experts));
  // Where everything is on the host, so are the embeddings of the tokens.
  return width + (placement == Placement::cpu ? w.embedding : 0);
}

/// Tokens of the largest graph: every slot has the same number of rows in it.
std::int64_t graph_tokens(const Context& context) {
  const auto total_cells = context.cells * context.streams;
  const auto tokens = std::min(total_cells, context.ubatch);
  return (tokens + context.sequences - 1) / context.sequences * context.sequences;
}

/// Attention masks: one a cache, f16 for flash attention (build_attn_inp_kq_mask).
Bytes masks(const Context& context, std::span<const Cache> caches, std::int64_t tokens) {
  Bytes sum;
  for (const auto& cache : caches) sum += Bytes{cache.cells * tokens * (context.flash_attention ? kF16 : kF32)};
  return sum;
}

/// 64-bit positions at which a transposed V cache is written (build_input_v_idxs).
Bytes scatter_positions(const Context& context, std::span<const Cache> caches, const Widths& w, std::int64_t tokens) {
  if (context.flash_attention) return Bytes{};
  return Bytes{static_cast<std::int64_t>(caches.size()) * kI64 * tokens * w.kept_v};
}

/// One matrix a cache that spreads the outliers of what is quantized (build_attn_inp_k_rot; since b8619).
Bytes rotations(const engine::LlamaCppConfig& config, std::span<const Cache> caches) {
  constexpr std::int64_t kGroup = 64;
  Bytes sum;
  for (const auto& cache : caches) {
    if (!is_quantized(config.cache_type_k) || cache.key_length % kGroup != 0) continue;
    if (cache.kind != CacheKind::indexer) sum += Bytes{kF32 * cache.key_length * cache.key_length};
  }
  return sum;
}

std::int64_t most_cells(std::span<const Cache> caches, bool all_streams) {
  std::int64_t most = 0;
  for (const auto& cache : caches) most = std::max(most, cache.cells * (all_streams ? cache.streams : 1));
  return most;
}

/// Flash attention reads f16: the graph holds a converted copy of an f32 cache of one layer (build_attn_mha).
Bytes f16_copy(const engine::LlamaCppConfig& config, const Context& context, std::span<const Cache> caches,
               const Widths& w) {
  if (!context.flash_attention) return Bytes{};
  const auto width =
      (config.cache_type_k == CacheType::f32 ? w.k : 0) + (config.cache_type_v == CacheType::f32 ? w.kept_v : 0);
  return Bytes{most_cells(caches, true) * kF16 * width};
}

/// CUDA's kernels convert the other types themselves, into the compute buffer (ggml-cuda/fattn-common.cuh, since
/// b9489).
Bytes cuda_scratch(const engine::LlamaCppConfig& config, const Context& context, std::span<const Cache> caches,
                   const Widths& w) {
  if (!context.flash_attention) return Bytes{};
  const auto converted = [](CacheType type) { return type != CacheType::f16 && type != CacheType::f32; };
  const auto width = (converted(config.cache_type_k) ? w.k : 0) + (converted(config.cache_type_v) ? w.kept_v : 0);
  return Bytes{most_cells(caches, true) * kF16 * width};
}

/// Of every layer's own embedding, for all layers at once (Gemma 3n and 4).
std::int64_t layer_embeddings(const model::ModelDescription& model) {
  return model.layer_embedding_length * static_cast<std::int64_t>(model.layers.size());
}

/// Encoders attend within the batch: a mask of tokens by tokens, and without flash attention a matrix per head.
Bytes encoder_attention(const model::ModelDescription& model, const Context& context, const Widths& w,
                        std::int64_t tokens) {
  const bool encodes = std::ranges::any_of(model.layers, [](const auto& layer) {
    return layer.attention && layer.attention->kind == model::AttentionKind::bidirectional;
  });
  if (!encodes) return Bytes{};
  return Bytes{tokens * tokens * kF32 * (context.flash_attention ? 1 : 1 + w.heads)};
}

/// DeepSeek V4 (src/models/deepseek4.cpp): Q of all heads, the residual streams, and the scores of the indexer.
Bytes compressed_graph(const model::ModelDescription& model, const Context& context, std::span<const Cache> caches,
                       const Widths& w, std::int64_t tokens, Placement placement) {
  std::int64_t raw = 0;
  std::int64_t selected = 0;
  for (const auto& cache : caches) {
    auto& cells = cache.kind == CacheKind::window ? raw : selected;
    cells = std::max(cells, cache.cells);
  }
  auto width = 3 * w.q + model.hyper_connections * w.embedding + 64;
  if (placement == Placement::cpu) width += w.embedding;
  Bytes graph{kF32 * tokens * (width + 4 * selected + 2 * raw)};
  if (!context.flash_attention) graph += Bytes{kF32 * tokens * w.heads} * (selected + raw);
  return graph + recurrent_state(model, context);
}

/// Device buffers of these kinds of layers rest on the measured models alone; others may need half as much again.
bool is_measured(const model::ModelDescription& model) {
  static constexpr auto kMeasured = std::to_array<std::string_view>(
      {"deepseek32", "deepseek4", "falcon-h1", "granitehybrid", "jamba", "kimi-linear", "lfm2", "mamba", "mamba2",
       "nemotron_h", "qwen35", "qwen35moe", "qwen3next", "rwkv7"});
  const bool is_special = std::ranges::any_of(model.layers, [](const auto& layer) {
    return layer.recurrent || (layer.attention && (layer.attention->indexer_key_length ||
                                                   layer.attention->kind == model::AttentionKind::bidirectional));
  });
  return !is_special || std::ranges::find(kMeasured, model.architecture) != kMeasured.end();
}

Bytes graph_buffer(const model::ModelDescription& model, const engine::LlamaCppConfig& config, const Context& context,
                   std::span<const Cache> caches, const Widths& w, std::int64_t tokens, Placement placement) {
  const Bytes mask = masks(context, caches, tokens) + encoder_attention(model, context, w, tokens);
  const Bytes inputs = mask + scatter_positions(context, caches, w, tokens) + rotations(config, caches) +
                       f16_copy(config, context, caches, w) + Bytes{2 * kF32 * tokens * layer_embeddings(model)};
  constexpr std::int64_t kPositions = 64;  // per token, for ids, positions and outputs
  const auto width = widest_block(w, model, placement);
  Bytes graph = inputs + Bytes{kF32 * tokens * (width + kPositions)};
  if (is_compressed(model)) {
    graph = inputs + compressed_graph(model, context, caches, w, tokens, placement);
  } else if (!context.flash_attention) {
    // The attention matrix itself, f32, over one stream's cells.
    const Bytes matrix{most_cells(caches, false) * tokens * w.heads * kF32};
    const auto beside = attention_width(w) + (placement == Placement::cpu ? w.embedding : 0);
    graph = std::max(graph, inputs + Bytes{kF32 * tokens * beside} + matrix);
  }
  const bool selects = std::ranges::any_of(caches, [](const auto& c) { return c.kind == CacheKind::indexer; });
  if (selects && !is_compressed(model)) {
    // Scores of every token against every other, and their order (build_attn_indexer; fitted to deepseek32).
    graph = scale_up(graph, 135, 100) + Bytes{12 * context.cells * tokens};
  }
  graph += Bytes{2 * kF32 * w.state * context.sequences};
  const auto rows = std::min(tokens, context.output_rows);
  const Bytes logits{kF32 * rows * (w.vocabulary + 5 * w.embedding) + 2 * kF32 * tokens * w.embedding};
  graph = std::max(graph, mask + logits);
  if (!is_measured(model)) graph = scale_up(graph, 150, 100);
  return scale_up(graph, 105, 100) + kFixed;
}

/// On a GPU the host keeps what is computed before the first layer: embeddings and masks.
Bytes host_buffer(const model::ModelDescription& model, const engine::LlamaCppConfig& config, const Context& context,
                  std::span<const Cache> caches, const Widths& w, std::int64_t tokens) {
  const Bytes inputs = masks(context, caches, tokens) + scatter_positions(context, caches, w, tokens) +
                       rotations(config, caches) + encoder_attention(model, context, w, tokens) +
                       Bytes{kF32 * tokens * (2 * w.embedding + layer_embeddings(model) + 64)};
  return scale_up(inputs, 102, 100) + kFixed;
}

}  // namespace

ComputeBuffers compute_buffers(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                               const Context& context, std::span<const Cache> caches, Placement placement) {
  const auto widths = widths_of(model);
  const auto tokens = graph_tokens(context);
  ComputeBuffers buffers;
  buffers.device = graph_buffer(model, config, context, caches, widths, tokens, placement);
  buffers.output = Bytes{kF32 * widths.vocabulary *
                         std::max(context.sequences, context.output_rows)};  // output_reserve, src/llama-context.cpp
  if (placement == Placement::gpu) {
    buffers.host = host_buffer(model, config, context, caches, widths, tokens);
    buffers.scratch = cuda_scratch(config, context, caches, widths);
  }
  return buffers;
}

}  // namespace dgxmm::memory::llamacpp
