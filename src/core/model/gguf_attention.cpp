// Attention of GGUF models: head sizes, latents, indexers and shared caches.
#include "core/model/gguf_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace dgxmm::model {
namespace {

// Have `attention.kv_lora_rank`. Without the two `_mla` lengths beside it the engine decompresses before it caches, and
// the model is plain attention with all its heads (llama_hparams::is_mla).
constexpr auto kLatent =
    std::to_array<std::string_view>({"bailingmoe3", "deepseek2", "deepseek2-ocr", "deepseek32", "dots3note", "glm-dsa",
                                     "kimi-k3", "kimi-linear", "minicpm3", "mistral4", "plm"});
constexpr auto kIndexed =
    std::to_array<std::string_view>({"deepseek32", "deepseek4", "dots3note", "glm-dsa", "minimax-m3"});
// No memory object at all (llama_model::create_memory); the models that write by denoising are among them.
constexpr auto kEncoders = std::to_array<std::string_view>(
    {"bert", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe",
     "modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1", "wavtokenizer-dec"});

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

struct HeadSizes {
  std::int64_t key = 0;
  std::int64_t value = 0;
};

struct Latent {
  std::int64_t rank = 0;
  std::int64_t rope = 0;
  HeadSizes decompressed;
};

/// What makes it MLA; nothing for plain attention.
std::optional<Latent> read_latent(HyperParameters& read, const HeadSizes& sizes) {
  const auto key = read.optional("attention.key_length_mla", kMaxGgufLength).value_or(0);
  const auto value = read.optional("attention.value_length_mla", kMaxGgufLength).value_or(0);
  if (key == 0 && value == 0) return std::nullopt;
  Latent latent{.rank = read.required("attention.kv_lora_rank", kMaxGgufLength),
                .rope = read.required("rope.dimension_count", kMaxGgufLength),
                .decompressed = {.key = key, .value = value}};
  if (read.error()) return std::nullopt;
  if (key == 0 || value == 0) {
    read.refuse("bad_model_file",
                fmt::format("{} is {}, but {} is {}: latent attention needs both", read.key("attention.key_length_mla"),
                            key, read.key("attention.value_length_mla"), value));
  } else if (sizes.key != latent.rank + latent.rope) {
    read.refuse("bad_model_file",
                fmt::format("{} is {}, but {} {} and {} {} make {}", read.key("attention.key_length"), sizes.key,
                            read.key("attention.kv_lora_rank"), latent.rank, read.key("rope.dimension_count"),
                            latent.rope, latent.rank + latent.rope));
  }
  return latent;
}

/// One 1 a layer that has an indexer (llama_model::create_memory).
PerLayer read_indexed_layers(HyperParameters& read, LayerCounts layers, const ModelDescription& model) {
  PerLayer indexed(static_cast<std::size_t>(layers.all), 0);
  const auto architecture = read.architecture();
  if (!contains(kIndexed, architecture)) return indexed;
  if (architecture == "glm-dsa") {
    if (auto types = read.per_layer("attention.indexer.types", layers.all, layers.nextn, kMaxGgufLayers)) {
      for (std::size_t i = 0; i < indexed.size(); ++i) indexed[i] = (*types)[i] == 1 ? 1 : 0;
      return indexed;
    }
  }
  constexpr std::int64_t kLongContext = 1'048'576;
  const bool shares_indexers = architecture == "glm-dsa" && model.training_context >= kLongContext;
  const auto dense =
      architecture == "minimax-m3" ? read.optional("leading_dense_block_count", kMaxGgufLayers).value_or(0) : 0;
  const auto end = architecture == "minimax-m3" ? layers.all : layers.trunk();
  for (std::int64_t i = dense; i < end; ++i) {
    const bool has = !shares_indexers || i < 2 || (i - 2) % 4 == 0;
    indexed[static_cast<std::size_t>(i)] = has ? 1 : 0;
  }
  return indexed;
}

/// The first layer that reads the cache of an earlier one.
std::int64_t first_sharing_layer(HyperParameters& read, LayerCounts layers) {
  if (read.architecture() == "gemma3n") return std::min<std::int64_t>(20, layers.all);  // not in the file
  const auto sharing = read.optional("attention.shared_kv_layers", layers.all).value_or(0);
  return layers.all - sharing;
}

/// DeepSeek V4: how many older tokens of a layer become one.
std::optional<PerLayer> read_compression(HyperParameters& read, LayerCounts layers, ModelDescription& model) {
  if (read.architecture() != "deepseek4") return std::nullopt;
  model.hyper_connections = read.optional("hyper_connection.count", kMaxGgufHeads).value_or(0);
  constexpr std::string_view kRatios = "attention.compress_ratios";
  auto ratios = read.per_layer(kRatios, layers.all, layers.nextn, 128);
  if (!ratios) {
    read.refuse("bad_model_file", fmt::format("the key {} is missing", read.key(kRatios)));
    return std::nullopt;
  }
  for (const auto ratio : *ratios) {
    if (ratio != 0 && ratio != 4 && ratio != 128) {
      read.refuse("model_not_supported",
                  fmt::format("{} has {}, and 0, 4 and 128 are known", read.key(kRatios), ratio));
    }
  }
  return ratios;
}

void check_heads(HyperParameters& read, std::size_t layer, const Attention& attention, std::int64_t embedding) {
  if (attention.n_head == 0 || attention.n_head_kv == 0) {
    read.refuse("model_not_supported",
                fmt::format("layer {} has no attention; that is not known of '{}'", layer, read.architecture()));
  } else if (attention.n_head % attention.n_head_kv != 0) {
    read.refuse("bad_model_file",
                fmt::format("{} {} is not a multiple of {} {} in layer {}", read.key("attention.head_count"),
                            attention.n_head, read.key("attention.head_count_kv"), attention.n_head_kv, layer));
  } else if (attention.key_length == 0 || attention.value_length == 0) {
    read.refuse("bad_model_file", fmt::format("{} {} gives no room to {} {}", read.key("embedding_length"), embedding,
                                              read.key("attention.head_count"), attention.n_head));
  }
}

}  // namespace

bool is_latent_architecture(std::string_view architecture) { return contains(kLatent, architecture); }
bool is_indexed_architecture(std::string_view architecture) { return contains(kIndexed, architecture); }
bool is_encoder_architecture(std::string_view architecture) { return contains(kEncoders, architecture); }
bool shares_kv_architecture(std::string_view architecture) {
  return architecture == "gemma3n" || architecture == "gemma4";
}

std::vector<std::optional<Attention>> read_attention(HyperParameters& read, LayerCounts layers,
                                                     const AttentionKeys& keys, const std::vector<Mixing>& mixing,
                                                     ModelDescription& model) {
  const auto architecture = read.architecture();
  // Absent, these are the engine's own rules, not missing fields (load_hparams).
  const auto quotient = keys.heads.front() == 0 ? 0 : model.embedding_length / keys.heads.front();
  const HeadSizes plain{.key = read.optional("attention.key_length", kMaxGgufLength).value_or(quotient),
                        .value = read.optional("attention.value_length", kMaxGgufLength).value_or(quotient)};
  const HeadSizes windowed{.key = read.optional("attention.key_length_swa", kMaxGgufLength).value_or(plain.key),
                           .value = read.optional("attention.value_length_swa", kMaxGgufLength).value_or(plain.value)};
  const auto windows = read_windows(read, layers, model);
  const auto latent = read_latent(read, plain);
  const auto indexed = read_indexed_layers(read, layers, model);
  const auto indexer_length = contains(kIndexed, architecture)
                                  ? read.required("attention.indexer.key_length", kMaxGgufLength)
                                  : std::int64_t{0};
  const auto compression = read_compression(read, layers, model);
  const auto first_sharing = first_sharing_layer(read, layers);

  std::vector<std::optional<Attention>> attentions(static_cast<std::size_t>(layers.all));
  for (std::size_t i = 0; i < attentions.size() && !read.error(); ++i) {
    const bool is_nextn = static_cast<std::int64_t>(i) >= layers.trunk();
    const bool headless = keys.heads[i] == 0 || keys.kv_heads[i] == 0;
    // DeciLM drops the attention of some layers; lists often end with the trunk.
    if (!mixing[i].attention || (headless && (is_nextn || architecture == "deci"))) continue;
    Attention attention{.n_head = keys.heads[i], .n_head_kv = keys.kv_heads[i]};
    const auto& sizes = windows[i] ? windowed : plain;
    attention.key_length = sizes.key;
    attention.value_length = sizes.value;
    attention.window = windows[i];
    if (windows[i]) {
      attention.kind = architecture == "llama4" ? AttentionKind::chunked : AttentionKind::sliding_window;
    }
    if (latent) {
      if (!windows[i]) attention.kind = AttentionKind::mla;
      attention.kv_lora_rank = latent->rank;
      attention.rope_length = latent->rope;
      attention.mla_key_length = latent->decompressed.key;
      attention.mla_value_length = latent->decompressed.value;
      attention.keeps_values = false;
    }
    if (compression) {
      attention.compress_ratio = (*compression)[i];
      attention.keeps_values = false;
    }
    // Compressed tokens are selected, a few of which a window would keep anyway.
    const bool selects = compression ? (*compression)[i] == 4 : indexed[i] != 0 && !windows[i];
    if (selects) attention.indexer_key_length = indexer_length;
    if (contains(kEncoders, architecture)) attention.kind = AttentionKind::bidirectional;
    attention.shares_kv = static_cast<std::int64_t>(i) >= first_sharing;
    attention.gates_query = architecture == "qwen3next" || architecture == "qwen35" || architecture == "qwen35moe";
    check_heads(read, i, attention, model.embedding_length);
    attentions[i] = attention;
  }
  return attentions;
}

}  // namespace dgxmm::model
