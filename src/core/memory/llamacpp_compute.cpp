#include "core/memory/llamacpp_compute.h"

#include <algorithm>
#include <cstdint>

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
  std::int64_t feed_forward = 0;
  std::int64_t vocabulary = 0;
};

Widths widths_of(const model::ModelDescription& model) {
  Widths widths{.embedding = model.embedding_length, .vocabulary = model.vocabulary};
  for (const auto& layer : model.layers) {
    const auto& attention = *layer.attention;
    widths.heads = std::max(widths.heads, attention.n_head);
    widths.q = std::max(widths.q, attention.n_head * attention.key_length);
    widths.k = std::max(widths.k, attention.n_head_kv * attention.key_length);
    widths.v = std::max(widths.v, attention.n_head_kv * attention.value_length);
    widths.feed_forward = std::max(widths.feed_forward, layer.feed_forward_length);
  }
  return widths;
}

/// Elements alive together per token in an attention block (build_attn, src/llama-graph.cpp): the residual stream and
/// its norm, Q before and after rotation, K and V.
std::int64_t attention_width(const Widths& w) { return 5 * w.embedding + 3 * w.q + 2 * (w.k + w.v); }

/// In a dense feed-forward block (build_ffn): gate and up, beside the stream.
std::int64_t dense_width(const Widths& w) { return 7 * w.embedding + 2 * w.feed_forward + 2 * (w.k + w.v); }

/// In a block of experts (build_moe_ffn): every used expert holds its own copies.
std::int64_t experts_width(const Widths& w, const model::Experts& experts) {
  const auto e = w.embedding;
  const auto used = experts.used_count;
  const auto inner = experts.feed_forward_length;
  const auto within = inner >= e ? 4 * e + 3 * used * inner : 4 * e + 2 * used * (e + inner);
  const auto summed = 5 * e + 2 * experts.shared_feed_forward_length + 2 * used * e;
  return std::max(within, summed);
}

std::int64_t widest_block(const Widths& w, const model::ModelDescription& model) {
  auto width = attention_width(w);
  if (w.feed_forward > 0) width = std::max(width, dense_width(w));
  if (model.experts) width = std::max(width, experts_width(w, *model.experts));
  return width;
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
  return Bytes{static_cast<std::int64_t>(caches.size()) * kI64 * tokens * w.v};
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
      (config.cache_type_k == CacheType::f32 ? w.k : 0) + (config.cache_type_v == CacheType::f32 ? w.v : 0);
  return Bytes{most_cells(caches, true) * kF16 * width};
}

/// CUDA's kernels convert the other types themselves, into the compute buffer (ggml-cuda/fattn-common.cuh, since
/// b9489).
Bytes cuda_scratch(const engine::LlamaCppConfig& config, const Context& context, std::span<const Cache> caches,
                   const Widths& w) {
  if (!context.flash_attention) return Bytes{};
  const auto converted = [](CacheType type) { return type != CacheType::f16 && type != CacheType::f32; };
  const auto width = (converted(config.cache_type_k) ? w.k : 0) + (converted(config.cache_type_v) ? w.v : 0);
  return Bytes{most_cells(caches, true) * kF16 * width};
}

Bytes graph_buffer(const model::ModelDescription& model, const engine::LlamaCppConfig& config, const Context& context,
                   std::span<const Cache> caches, const Widths& w, std::int64_t tokens) {
  const Bytes mask = masks(context, caches, tokens);
  const Bytes inputs = mask + scatter_positions(context, caches, w, tokens) + f16_copy(config, context, caches, w);
  constexpr std::int64_t kPositions = 64;  // per token, for ids, positions and outputs
  Bytes graph = inputs + Bytes{kF32 * tokens * (widest_block(w, model) + kPositions)};
  if (!context.flash_attention) {
    // The attention matrix itself, f32, over one stream's cells.
    const Bytes matrix{most_cells(caches, false) * tokens * w.heads * kF32};
    graph = std::max(graph, inputs + Bytes{kF32 * tokens * attention_width(w)} + matrix);
  }
  // llama-server asks for one row of logits a slot (n_outputs_max, since b9460).
  const auto rows = std::min({tokens, context.batch, context.sequences});
  const Bytes logits{kF32 * rows * (w.vocabulary + 5 * w.embedding) + 2 * kF32 * tokens * w.embedding};
  graph = std::max(graph, mask + logits);
  return scale_up(graph, 105, 100) + kFixed;
}

/// On a GPU the host keeps what is computed before the first layer: embeddings and masks.
Bytes host_buffer(const Context& context, std::span<const Cache> caches, const Widths& w, std::int64_t tokens) {
  const Bytes inputs = masks(context, caches, tokens) + scatter_positions(context, caches, w, tokens) +
                       Bytes{kF32 * tokens * (2 * w.embedding + 64)};
  return scale_up(inputs, 102, 100) + kFixed;
}

}  // namespace

ComputeBuffers compute_buffers(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                               const Context& context, std::span<const Cache> caches, Placement placement) {
  const auto widths = widths_of(model);
  const auto tokens = graph_tokens(context);
  ComputeBuffers buffers;
  buffers.device = graph_buffer(model, config, context, caches, widths, tokens);
  buffers.output = Bytes{kF32 * widths.vocabulary * context.sequences};  // output_reserve, src/llama-context.cpp
  if (placement == Placement::gpu) {
    buffers.host = host_buffer(context, caches, widths, tokens);
    buffers.scratch = cuda_scratch(config, context, caches, widths);
  }
  return buffers;
}

}  // namespace dgxmm::memory::llamacpp
