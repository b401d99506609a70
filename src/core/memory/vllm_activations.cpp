// What vLLM holds while tokens pass through the model, and beside it. Version of every rule here: 017e9f44
// (2026-08-17).
#include "core/memory/vllm_activations.h"

#include "base/counted.h"
#include "core/memory/rounding.h"
#include "core/memory/vllm_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace dgxmm::memory::vllm {
namespace {

using engine::VllmConfig;

// Widths of what a layer of vLLM's models holds at once for one token, in values of 16 bit (vllm/model_executor/models
// and layers).

std::int64_t attention_width(const model::Attention& attention, std::int64_t hidden) {
  if (attention.kind == model::AttentionKind::mla) {
    return 3 * hidden +
           attention.n_head * 2 * (attention.mla_key_length.value_or(0) + attention.mla_value_length.value_or(0));
  }
  const auto head = std::max(attention.key_length, attention.value_length);
  const auto queries = attention.n_head * (attention.gates_query ? 2 : 1);
  // The residual stream and its norm; Q, K and V before and after rotation.
  return 3 * hidden + 2 * (queries + 2 * attention.n_head_kv) * head;
}

/// Kernels for long inputs store a state for every chunk of tokens.
Bytes state_activations(const model::RecurrentState& state, std::int64_t hidden, std::int64_t tokens) {
  using model::RecurrentKind;
  constexpr std::int64_t kDeltaChunk = 64;
  constexpr std::int64_t kMambaChunk = 128;  // the least of the published files; 256 is as usual
  const bool delta = state.kind == RecurrentKind::gated_delta_net || state.kind == RecurrentKind::kda ||
                     state.kind == RecurrentKind::lightning;
  const Bytes values{kHalf * tokens * (3 * hidden + 4 * std::max(state.convolved, state.inner))};
  if (!delta && state.kind != RecurrentKind::mamba2) return values;
  const auto chunks = ceil_div(tokens, delta ? kDeltaChunk : kMambaChunk);
  return values + Bytes{chunks * state.state_elements * 4};
}

/// MLA decompresses what it keeps of earlier tokens, piece by piece (MLACommonMetadataBuilder).
Bytes latent_scratch(const model::ModelDescription& model, const VllmConfig& config) {
  constexpr std::int64_t kMostTokens = 65'536;
  constexpr std::int64_t kTokensOfSequence = 64;  // four blocks
  const auto tokens =
      std::min(kMostTokens, std::max(8 * config.max_model_len, kTokensOfSequence * config.max_num_seqs));
  std::int64_t widest = 0;
  for (const auto& layer : model.layers) {
    if (!layer.attention || layer.attention->kind != model::AttentionKind::mla) continue;
    const auto& a = *layer.attention;
    widest = std::max(
        widest, a.n_head * (a.mla_key_length.value_or(0) - a.rope_length.value_or(0) + a.mla_value_length.value_or(0)));
  }
  return Bytes{kHalf * tokens * widest};
}

/// Sparse MLA gathers index keys of long inputs, and scores them (sparse_attn_indexer.py).
Bytes indexer_scratch(const model::ModelDescription& model, const VllmConfig& config) {
  constexpr std::int64_t kGathered = 40;
  constexpr Bytes kScores = mib(512);  // VLLM_SPARSE_INDEXER_MAX_LOGITS_MB
  std::int64_t row = 0;
  std::int64_t ratio = 1;
  for (const auto& layer : model.layers) {
    if (!layer.attention || !layer.attention->indexer_key_length || layer.attention->keeps_values) continue;
    const auto length = *layer.attention->indexer_key_length;
    row = std::max(row, length + 4 * ceil_div(length, 128));
    ratio = std::max(ratio, layer.attention->compress_ratio.value_or(1));
  }
  return row == 0 ? Bytes{} : Bytes{kGathered * ceil_div(config.max_model_len, ratio) * row} + kScores;
}

/// Bytes alive together in the widest layer while `tokens` pass through it.
Bytes layer_activations(const model::ModelDescription& model, const VllmConfig& config) {
  const auto tokens = config.max_num_batched_tokens;
  // Of the three copies of the embedding that a layer holds, the residual stream may be several.
  const auto hidden = model.embedding_length;
  const Bytes streams{kHalf * tokens * hidden * std::max<std::int64_t>(model.hyper_connections - 1, 0)};
  // Gemma 3n and 4 carry an embedding for every layer along.
  const Bytes embeddings{kHalf * tokens * model.layer_embedding_length *
                         static_cast<std::int64_t>(model.layers.size())};
  const Bytes scratch = latent_scratch(model, config);
  Bytes widest;
  for (const auto& layer : model.layers) {
    if (layer.attention) {
      const bool latent = layer.attention->kind == model::AttentionKind::mla;
      const Bytes size{kHalf * tokens * attention_width(*layer.attention, hidden)};
      widest = std::max(widest, latent ? size + scratch : size);
    }
    if (layer.recurrent) widest = std::max(widest, state_activations(*layer.recurrent, hidden, tokens));
    // Gate, up and their product.
    widest = std::max(widest, Bytes{kHalf * tokens * (3 * hidden + 3 * layer.feed_forward_length)});
  }
  if (model.experts) {
    const auto& experts = *model.experts;
    const auto inner = experts.feed_forward_length;
    // Two workspaces of one copy of a token for each expert used, and the router's scores.
    const auto width = 4 * hidden + experts.used_count * (std::max(2 * inner, hidden) + std::max(inner, hidden)) +
                       3 * experts.shared_feed_forward_length;
    widest = std::max(widest, Bytes{kHalf * tokens * width + 12 * tokens * experts.count});
  }
  return widest + streams + embeddings;
}

/// The sampler's rows of logits: 16 bit 2, float32 copy 4, sorted values 4 and indices 8, softmax 4, cumulated 4
/// (vllm/v1/sample).
constexpr std::int64_t kSamplerBytesPerLogit = 26;
/// FlashInfer's workspace (394 MiB), and room for what is allocated now and then.
constexpr Bytes kWorkspace = mib(394 + 256);

/// Buffers of one row a sequence, held from the start (vllm/v1/worker/gpu): counts and a mask for penalties, all token
/// ids, block tables on both sides.
Bytes sequence_buffers(const VllmConfig& config, const CachePlan& plan, std::int64_t vocabulary) {
  const auto ids = 4 * config.max_model_len;
  std::int64_t blocks = 0;
  for (const auto& group : plan.groups) {
    blocks += 2 * 4 * (group.block == 0 ? group.state_pages : ceil_div(config.max_model_len, group.block));
  }
  const auto penalties = 4 * vocabulary + 4 * ceil_div(vocabulary, 32);
  return Bytes{config.max_num_seqs * (ids + blocks + penalties)};
}

struct EncoderRun {
  std::int64_t items = 0;
  std::int64_t patches = 0;  ///< of all of them
  Bytes size;
  Bytes cache;  ///< what they become, kept until the language model has taken it in
};

/// As many of the largest items as fit into what one step may encode (profile_run, vllm/v1/worker/gpu_model_runner.py).
EncoderRun encoder_run(const model::ModelDescription& model, const VllmConfig& config, const CachePlan& plan) {
  EncoderRun run;
  if (model.encoders.empty() || !loads_encoders(model, config)) return run;
  constexpr std::int64_t kCopies = 8;
  for (const auto& encoder : model.encoders) {
    auto items = std::max<std::int64_t>(plan.encoder_tokens / std::max<std::int64_t>(encoder.item_tokens, 1), 1);
    if (config.limit_mm_per_prompt.value_or(0) > 0) {
      items = std::min(items, config.max_num_seqs * *config.limit_mm_per_prompt);
    }
    const Bytes size{items * encoder.item_patches * encoder.width * kHalf * kCopies};
    if (size > run.size) run = {.items = items, .patches = items * encoder.item_patches, .size = size, .cache = {}};
  }
  run.cache = Bytes{plan.encoder_tokens * model.embedding_length * kHalf};
  return run;
}

}  // namespace

Part activations(const model::ModelDescription& model, const model::ModelDescription* draft, const VllmConfig& config,
                 const CachePlan& plan) {
  const auto tokens = config.max_num_batched_tokens;
  // Drafted tokens are checked with logits of their own.
  const auto rows = std::min(config.max_num_seqs * (1 + config.num_speculative_tokens), tokens);
  Bytes layer = layer_activations(model, config);
  if (draft != nullptr) layer = std::max(layer, layer_activations(*draft, config));
  const Bytes sampler{rows * model.vocabulary * kSamplerBytesPerLogit};
  const Bytes stream{2 * kHalf * tokens * model.embedding_length};
  const auto encoder = encoder_run(model, config, plan);
  const Bytes buffers = sequence_buffers(config, plan, model.vocabulary);
  const Bytes workspace = kWorkspace + indexer_scratch(model, config);
  const auto null_block =
      plan.groups.empty() ? std::string{}
                          : fmt::format("; a block that is never handed out: {}", format_bytes(plan.bytes_per_block));
  const auto encoding = encoder.items == 0
                            ? std::string{}
                            : fmt::format("; encoder for {} patches of {}: {}, and their {} tokens: {}",
                                          encoder.patches, counted(encoder.items, "item"), format_bytes(encoder.size),
                                          plan.encoder_tokens, format_bytes(encoder.cache));
  const Bytes most = std::max({layer, sampler + stream, encoder.size}) + encoder.cache;
  return {.size = scale_up(most, 120, 100) + workspace + buffers + plan.bytes_per_block,
          .source = Source::formula,
          .detail = fmt::format(
              "{} batched tokens: {}; sampler for {} {}: {}; buffers of the sequences: {}; "
              "workspace: {}{}{}",
              tokens, format_bytes(layer), rows, config.num_speculative_tokens > 0 ? "rows of logits" : "sequences",
              format_bytes(sampler), format_bytes(buffers), format_bytes(workspace), encoding, null_block)};
}

}  // namespace dgxmm::memory::vllm
