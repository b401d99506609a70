// Attention of config.json models: heads, windows, latents, indexers and shared caches.
#include "base/counted.h"
#include "base/masking.h"
#include "core/model/hf_layers.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

namespace dgxmm::model {
namespace {

namespace bj = boost::json;

void refuse_length(HfReader& read, std::string_view key, std::size_t length, std::int64_t layers) {
  read.refuse("bad_model_file",
              fmt::format("{} has {}, but there are {}", read.name_of(key),
                          counted(static_cast<std::int64_t>(length), "element"), counted(layers, "layer")));
}

/// KV heads of every layer (get_total_num_kv_heads). Absent means as many as there are heads: vLLM's own rule, not a
/// missing field.
std::vector<std::int64_t> kv_heads(HfReader& read, HfFamily family, const HfDimensions& d) {
  static constexpr auto kNames = {"num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num",
                                  "num_attention_groups"};
  const auto all = [&](std::int64_t heads) { return std::vector(static_cast<std::size_t>(d.layers), heads); };
  const auto* list = read.find("num_key_value_heads");
  if (list != nullptr && list->is_array()) {
    auto heads = read.numbers("num_key_value_heads", kMaxHfCount).value_or(std::vector<std::int64_t>{});
    if (!read.error() && heads.size() != static_cast<std::size_t>(d.layers)) {
      refuse_length(read, "num_key_value_heads", heads.size(), d.layers);
    }
    return heads;
  }
  if (family == HfFamily::gpt2) {
    if (const auto* config = read.object("attn_config")) {  // MPT and DBRX
      auto inner = read.inside("attn_config", *config);
      const auto heads = inner.number({"kv_n_heads"}, kMaxHfCount);
      read.adopt(inner);
      return all(heads.value_or(d.heads));
    }
    const bool one = read.boolean("multi_query").value_or(false);
    if (one && !read.boolean("new_decoder_architecture").value_or(false)) return all(1);
  }
  for (const auto* name : kNames) {
    if (const auto heads = read.number({name}, kMaxHfCount)) return all(*heads);
  }
  return all(d.heads);
}

/// Nemotron-NAS says for every block how many heads share one of K and V.
void read_block_heads(HfReader& read, HfDimensions& d) {
  const auto* value = read.find("block_configs");
  const auto* list = value == nullptr ? nullptr : value->if_array();
  for (std::size_t i = 0; list != nullptr && i < std::min(list->size(), d.kv_heads.size()); ++i) {
    const auto* block = (*list)[i].if_object();
    const auto* attention = block == nullptr ? nullptr : block->if_contains("attention");
    const auto* keys = attention == nullptr ? nullptr : attention->if_object();
    const auto* sharing = keys == nullptr ? nullptr : keys->if_contains("n_heads_in_group");
    if (sharing == nullptr || sharing->is_null()) continue;
    const auto* heads = sharing->if_int64();
    if (heads == nullptr || *heads <= 0 || *heads > d.heads) {
      return read.malformed(fmt::format("block_configs[{}].attention.n_heads_in_group", i),
                            fmt::format("a whole number from 1 to {}", d.heads));
    }
    d.kv_heads[i] = d.heads / *heads;
  }
}

/// A value that the class of Gemma 3 has when the file leaves it out (Gemma3TextConfig, transformers 4.50).
std::int64_t or_class_default(HfReader& read, std::string_view name, std::int64_t most, std::int64_t fallback,
                              std::vector<std::string>& missing) {
  if (const auto value = read.number({name}, most)) return *value;
  missing.emplace_back(name);
  return fallback;
}

void check_heads(HfReader& read, const HfDimensions& d) {
  const auto bad = std::ranges::find_if(
      d.kv_heads, [&](std::int64_t heads) { return heads != 0 && (heads > d.heads || d.heads % heads != 0); });
  const bool none = std::ranges::all_of(d.kv_heads, [](std::int64_t heads) { return heads == 0; });
  if (bad != d.kv_heads.end() || none) {
    read.refuse("bad_model_file", fmt::format("{} {} is not a multiple of {} {}", read.name_of("num_attention_heads"),
                                              d.heads, read.name_of("num_key_value_heads"), none ? 0 : *bad));
  } else if (d.head_dim == 0 || d.value_dim == 0) {
    read.refuse("bad_model_file", fmt::format("{} {} gives no room to {} {}", read.name_of("hidden_size"),
                                              d.hidden_size, read.name_of("num_attention_heads"), d.heads));
  }
}

struct Latent {
  std::int64_t rank = 0;
  std::int64_t rope = 0;
  std::int64_t key_length = 0;
  std::int64_t value_length = 0;
};

/// MLA by family, or of an architecture that is not known by the fields that only MLA has.
bool has_latents(const HfReader& read, HfFamily family) {
  switch (family) {
    case HfFamily::latent:
    case HfFamily::longcat:
    case HfFamily::dots3_note:
    case HfFamily::kimi_linear:
    case HfFamily::bailing_linear:
    case HfFamily::bailing_kda: return read.is_set("kv_lora_rank");
    case HfFamily::unknown: return read.is_set("kv_lora_rank") && read.is_set("qk_rope_head_dim");
    default: return false;
  }
}

Latent read_latent(HfReader& read) {
  const auto rope = read.dimension({"qk_rope_head_dim"}, kMaxHfLength);
  return Latent{.rank = read.dimension({"kv_lora_rank"}, kMaxHfLength),
                .rope = rope,
                .key_length = read.dimension({"qk_nope_head_dim"}, kMaxHfLength) + rope,
                .value_length = read.dimension({"v_head_dim"}, kMaxHfLength)};
}

Attention latent_attention(const Latent& latent, std::int64_t heads) {
  return {.kind = AttentionKind::mla,
          .n_head = heads,
          .n_head_kv = 1,
          .key_length = latent.rank + latent.rope,
          .value_length = latent.rank,
          .kv_lora_rank = latent.rank,
          .rope_length = latent.rope,
          .mla_key_length = latent.key_length,
          .mla_value_length = latent.value_length,
          .keeps_values = false};
}

/// Of dots3_note, layers with a window have latents of their own, and the rows of the others are padded to as much
/// (Dots3NotePaddedMLAAttention, vllm/models/dots3_note/nvidia/model.py, 0.28).
std::optional<Attention> windowed_latents(HfReader& read, HfFamily family, const HfDimensions& d) {
  if (family != HfFamily::dots3_note || !read.is_set("swa_kv_lora_rank")) return std::nullopt;
  const auto rope = read.dimension({"swa_qk_rope_head_dim"}, kMaxHfLength);
  return latent_attention({.rank = read.dimension({"swa_kv_lora_rank"}, kMaxHfLength),
                           .rope = rope,
                           .key_length = read.dimension({"swa_qk_nope_head_dim"}, kMaxHfLength) + rope,
                           .value_length = read.dimension({"swa_v_head_dim"}, kMaxHfLength)},
                          read.number({"swa_num_attention_heads"}, kMaxHfCount).value_or(d.heads));
}

/// Which layers of sparse MLA have an indexer of their own; the others use that of an earlier one (deepseek_v2.py).
std::vector<bool> indexed_layers(HfReader& read, std::int64_t layers) {
  std::vector<bool> indexed(static_cast<std::size_t>(layers), true);
  if (const auto pattern = read.text("index_topk_pattern")) {
    if (pattern->size() < indexed.size()) {
      read.refuse("bad_model_file", fmt::format("{} has {} letters for {} layers", read.name_of("index_topk_pattern"),
                                                pattern->size(), layers));
      return indexed;
    }
    for (std::size_t i = 0; i < indexed.size(); ++i) indexed[i] = (*pattern)[i] != 'S';
    return indexed;
  }
  const auto period = read.number({"index_topk_freq"}, kMaxHfLayers).value_or(0);
  const auto offset = read.number({"index_skip_topk_offset"}, kMaxHfLayers).value_or(2);
  for (std::int64_t i = 0; period > 0 && i < layers; ++i) {
    indexed[static_cast<std::size_t>(i)] = std::max<std::int64_t>(i - offset + 1, 0) % period == 0;
  }
  // vLLM does not read the list that newer files have; where it says something else, one of the two is wrong.
  const auto types = period > 0 ? read.texts("indexer_types") : std::nullopt;
  for (std::size_t i = 0; types && i < std::min(types->size(), indexed.size()); ++i) {
    if (((*types)[i] == "full") == indexed[i]) continue;
    read.refuse("bad_model_file", fmt::format("{} {} gives layer {} {} indexer, but {} says the opposite",
                                              read.name_of("index_topk_freq"), period, i, indexed[i] ? "an" : "no",
                                              read.name_of("indexer_types")));
    break;
  }
  return indexed;
}

/// The length of the index key of every layer, 0 for those without.
std::vector<std::int64_t> index_lengths(HfReader& read, HfFamily family, std::int64_t layers) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(layers), 0);
  const bool sparse = family == HfFamily::latent || family == HfFamily::dots3_note;
  if (sparse && read.is_set("index_head_dim")) {
    const auto length = read.dimension({"index_head_dim"}, kMaxHfLength);
    const auto indexed = indexed_layers(read, layers);
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = indexed[i] ? length : 0;
  }
  if (family == HfFamily::minimax_m3) {
    const auto* config = read.object("sparse_attention_config");
    if (config == nullptr) return lengths;
    auto inner = read.inside("sparse_attention_config", *config);
    const auto length = inner.dimension({"sparse_index_dim"}, kMaxHfLength);
    const auto frequency = inner.numbers("sparse_attention_freq", 1);
    if (frequency && frequency->size() != lengths.size()) {
      refuse_length(inner, "sparse_attention_freq", frequency->size(), layers);
    }
    read.adopt(inner);
    if (read.error()) return lengths;
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = !frequency || (*frequency)[i] != 0 ? length : 0;
  }
  return lengths;
}

/// DeepSeek V4 as transformers 5 saves it: a word for each layer, and what the words mean.
std::vector<std::int64_t> compression_by_words(HfReader& read) {
  std::vector<std::int64_t> ratios;
  const auto words = read.texts("layer_types").value_or(std::vector<std::string>{});
  const auto* rates = read.object("compress_rates");
  if (read.error() || rates == nullptr) return ratios;
  auto inner = read.inside("compress_rates", *rates);
  for (const auto& word : words) {
    ratios.push_back(word == "sliding_attention" ? 0 : inner.dimension({word}, kMaxHfLength));
  }
  read.adopt(inner);
  return ratios;
}

/// DeepSeek V4: how many older tokens become one, by layer; MTP layers may follow.
std::vector<std::int64_t> compression(HfReader& read, std::int64_t layers) {
  if (read.find("compress_ratios") == nullptr && read.find("compress_rates") != nullptr) {
    return compression_by_words(read);
  }
  auto ratios = read.numbers("compress_ratios", kMaxHfLength).value_or(std::vector<std::int64_t>{});
  if (!read.error() && ratios.size() < static_cast<std::size_t>(layers)) {
    refuse_length(read, "compress_ratios", ratios.size(), layers);
  }
  return ratios;
}

/// Head sizes of the layers that a family treats on their own: full ones of Gemma 4, those with a window of MiMo V2.
std::optional<Attention> other_heads(HfReader& read, HfFamily family, const HfDimensions& d) {
  if (family == HfFamily::gemma4 && read.is_set("global_head_dim")) {
    const auto size = read.dimension({"global_head_dim"}, kMaxHfLength);
    // K and V are both stored, even where they are equal (attention_k_eq_v).
    const auto heads = read.number({"num_global_key_value_heads"}, kMaxHfCount).value_or(d.kv_heads.front());
    if (!read.error() && (heads == 0 || d.heads % heads != 0)) {
      read.refuse("bad_model_file", fmt::format("{} {} is not a multiple of {} {}", read.name_of("num_attention_heads"),
                                                d.heads, read.name_of("num_global_key_value_heads"), heads));
    }
    return Attention{.n_head = d.heads, .n_head_kv = heads, .key_length = size, .value_length = size};
  }
  const bool by_fields = family == HfFamily::unknown && read.is_set("swa_num_key_value_heads");
  if (family == HfFamily::mimo_v2 || by_fields) {
    const auto key = read.number({"swa_head_dim"}, kMaxHfLength).value_or(d.head_dim);
    const auto heads = read.number({"swa_num_attention_heads"}, kMaxHfCount).value_or(d.heads);
    const auto kv = read.number({"swa_num_key_value_heads"}, kMaxHfCount).value_or(d.kv_heads.front());
    if (!read.error() && (kv == 0 || heads % kv != 0 || heads == 0 || key == 0)) {
      read.refuse("bad_model_file",
                  fmt::format("{} {} is not a multiple of {} {}", read.name_of("swa_num_attention_heads"), heads,
                              read.name_of("swa_num_key_value_heads"), kv));
    }
    return Attention{.n_head = heads,
                     .n_head_kv = kv,
                     .key_length = key,
                     .value_length = read.number({"swa_v_head_dim"}, kMaxHfLength).value_or(d.value_dim)};
  }
  return std::nullopt;
}

/// Tokens of the window or chunk; 0 where no layer has one.
std::int64_t read_window(HfReader& read, HfFamily family, const std::vector<HfMix>& mixes, HfMix kind,
                         std::string_view key) {
  const auto first = std::ranges::find(mixes, kind);
  if (first == mixes.end()) return 0;
  constexpr std::int64_t kGemma3 = 4096;  // Gemma3TextConfig
  const auto window =
      read.number({key, "sliding_window_size"}, INT64_MAX).value_or(family == HfFamily::gemma3 ? kGemma3 : 0);
  if (window <= 0) {
    read.refuse("bad_model_file",
                fmt::format("layer {} has a window, but {} is missing", first - mixes.begin(), read.name_of(key)));
  }
  return std::min(window, kMostContext);
}

/// What `per_layer_config` of transformers 5.15 and newer changes in one layer (get_per_layer_hf_configs).
void apply_layer_config(HfReader& read, const bj::object& changes, Attention& a, std::vector<std::string>& missing) {
  a.n_head = read.number({"num_attention_heads"}, kMaxHfCount).value_or(a.n_head);
  if (a.kind == AttentionKind::mla) {
    Latent latent{.rank = read.number({"kv_lora_rank"}, kMaxHfLength).value_or(a.kv_lora_rank.value_or(0)),
                  .rope = read.number({"qk_rope_head_dim"}, kMaxHfLength).value_or(a.rope_length.value_or(0)),
                  .key_length = {},
                  .value_length = read.number({"v_head_dim"}, kMaxHfLength).value_or(a.mla_value_length.value_or(0))};
    const auto nope = a.mla_key_length.value_or(0) - a.rope_length.value_or(0);
    latent.key_length = read.number({"qk_nope_head_dim"}, kMaxHfLength).value_or(nope) + latent.rope;
    const auto index = a.indexer_key_length;
    a = latent_attention(latent, a.n_head);
    a.indexer_key_length = index;
  } else {
    const auto size = read.number({"head_dim"}, kMaxHfLength);
    a.n_head_kv = read.number({"num_key_value_heads"}, kMaxHfCount).value_or(a.n_head_kv);
    a.key_length = size.value_or(a.key_length);
    a.value_length = size.value_or(a.value_length);
  }
  if (!read.error() && (a.n_head <= 0 || a.n_head_kv <= 0 || a.key_length <= 0 || a.n_head % a.n_head_kv != 0)) {
    read.malformed("num_key_value_heads", fmt::format("a divisor of {} heads, of more than 0 elements", a.n_head));
  }
  static constexpr auto kKnown =
      std::to_array<std::string_view>({"num_attention_heads", "num_key_value_heads", "head_dim", "kv_lora_rank",
                                       "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "intermediate_size"});
  for (const auto& [key, value] : changes) {
    if (std::ranges::find(kKnown, std::string_view{key}) != kKnown.end()) continue;
    auto doubt = fmt::format("what {} in per_layer_config changes", printable(key));
    if (std::ranges::find(missing, doubt) == missing.end()) missing.push_back(std::move(doubt));
  }
}

/// Its keys are numbers of layers, such as "05".
void apply_layer_configs(HfReader& read, std::vector<std::optional<Attention>>& attentions,
                         std::vector<std::string>& missing) {
  const auto* configs = read.object("per_layer_config");
  if (configs == nullptr || read.error()) return;
  auto all = read.inside("per_layer_config", *configs);
  for (const auto& [key, value] : *configs) {
    std::size_t layer = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    const auto* changes = value.if_object();
    if (error != std::errc{} || end != key.data() + key.size() || layer >= attentions.size() || changes == nullptr) {
      return read.malformed(fmt::format("per_layer_config.{}", printable(key)),
                            fmt::format("an object for a layer up to {}", attentions.size() - 1));
    }
    if (!attentions[layer]) continue;
    auto one = all.inside(key, *changes);
    apply_layer_config(one, *changes, *attentions[layer], missing);
    read.adopt(one);
    if (read.error()) return;
  }
}

}  // namespace

void read_heads(HfReader& read, HfFamily family, HfDimensions& d, std::vector<std::string>& missing) {
  if (family == HfFamily::gemma3) {
    d.heads = or_class_default(read, "num_attention_heads", kMaxHfCount, 8, missing);
    d.kv_heads.assign(static_cast<std::size_t>(d.layers),
                      or_class_default(read, "num_key_value_heads", kMaxHfCount, 4, missing));
    d.head_dim = or_class_default(read, "head_dim", kMaxHfLength, 256, missing);
  } else {
    d.heads = read.dimension({"num_attention_heads", "n_head", "n_heads", "decoder_attention_heads"}, kMaxHfCount);
    if (read.error()) return;
    d.kv_heads = kv_heads(read, family, d);
    if (family == HfFamily::nemotron_nas) read_block_heads(read, d);
    // get_head_size: head_dim when it is more than 0, else the quotient.
    d.head_dim = read.number({"head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels"}, kMaxHfLength)
                     .value_or(0);
    if (d.head_dim == 0) d.head_dim = d.hidden_size / d.heads;
    if (family == HfFamily::minicpm3) {
      d.head_dim =
          read.dimension({"qk_nope_head_dim"}, kMaxHfLength) + read.dimension({"qk_rope_head_dim"}, kMaxHfLength);
      d.kv_heads.assign(d.kv_heads.size(), d.heads);
    }
  }
  if (read.error()) return;
  d.value_dim = d.head_dim;
  if (family == HfFamily::mimo_v2) d.value_dim = read.number({"v_head_dim"}, kMaxHfLength).value_or(d.head_dim);
  if (d.heads == 0) return read.malformed("num_attention_heads", "more than 0");
  // Latents have no heads of K and V; what the file says of them is not used.
  if (family == HfFamily::latent || has_latents(read, family)) return;
  check_heads(read, d);
}

std::vector<std::optional<Attention>> read_hf_attention(HfReader& read, HfFamily family, const HfDimensions& d,
                                                        const std::vector<HfMix>& mixes,
                                                        std::vector<std::string>& missing) {
  const auto latent = has_latents(read, family) ? std::optional{read_latent(read)} : std::nullopt;
  const auto windowed = windowed_latents(read, family, d);
  const auto indices = index_lengths(read, family, d.layers);
  const auto other = other_heads(read, family, d);
  const auto other_mix = family == HfFamily::gemma4 ? HfMix::full : HfMix::window;
  const auto window = read_window(read, family, mixes, HfMix::window, "sliding_window");
  const auto chunk = read_window(read, family, mixes, HfMix::chunked, "attention_chunk_size");
  const auto ratios = family == HfFamily::deepseek_v4 ? compression(read, d.layers) : std::vector<std::int64_t>{};
  const auto index = family == HfFamily::deepseek_v4 ? read.dimension({"index_head_dim"}, kMaxHfLength) : 0;
  const bool shares = family == HfFamily::gemma3n || family == HfFamily::gemma4;
  const auto sharing = shares ? read.number({"num_kv_shared_layers"}, d.layers).value_or(0) : 0;
  const bool gated = read.boolean("attn_output_gate").value_or(false);
  // EmbeddingGemma; Gemma 4 has a text here, for its pictures.
  const auto* bidirectional = read.find("use_bidirectional_attention");
  const bool encoder = family == HfFamily::encoder ||
                       (bidirectional != nullptr && bidirectional->is_bool() && bidirectional->get_bool());

  bool kept_whole = false;
  std::vector<std::optional<Attention>> attentions(static_cast<std::size_t>(d.layers));
  for (std::size_t i = 0; i < attentions.size() && !read.error(); ++i) {
    const auto mix = mixes[i];
    // A list of KV heads says 0 for layers whose attention was taken out.
    if (mix == HfMix::nothing || mix == HfMix::state || (!latent && d.kv_heads[i] == 0)) continue;
    Attention attention{
        .n_head = d.heads, .n_head_kv = d.kv_heads[i], .key_length = d.head_dim, .value_length = d.value_dim};
    if (latent) attention = latent_attention(*latent, d.heads);
    if (windowed && mix == HfMix::window) attention = *windowed;
    if (windowed) attention.key_length = std::max(attention.key_length, windowed->key_length);
    if (other && mix == other_mix) attention = *other;
    if (latent && mix == HfMix::window) {
      kept_whole = true;  // as vLLM keeps latents beside windows of other layers
    } else if (mix == HfMix::window) {
      attention.kind = AttentionKind::sliding_window;
      attention.window = window;
    } else if (mix == HfMix::chunked) {
      attention.kind = AttentionKind::chunked;
      attention.window = chunk;
    }
    if (encoder) attention.kind = AttentionKind::bidirectional;
    if (indices[i] > 0) attention.indexer_key_length = indices[i];
    if (!ratios.empty()) {
      attention.compress_ratio = ratios[i];
      attention.keeps_values = false;
      if (ratios[i] == 4) attention.indexer_key_length = index;
    }
    attention.shares_kv = static_cast<std::int64_t>(i) >= d.layers - sharing;
    attention.gates_query = gated;
    attentions[i] = attention;
  }
  if (kept_whole) missing.emplace_back("how few tokens latents with a window keep (counted as all)");
  apply_layer_configs(read, attentions, missing);
  return attentions;
}

}  // namespace dgxmm::model
