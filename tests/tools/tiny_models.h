#pragma once
// Small models with random weights that a real llama-server loads: one of each kind of layers. Names and shapes of the
// tensors are those of src/models/*.cpp of llama.cpp; everything is f32.
#include "tools/gguf_writer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::testing {

/// Keys and tensors of one model as they are written down.
class TinyModel {
 public:
  TinyModel(std::string architecture, std::uint32_t layers, std::uint32_t vocabulary,
            std::string_view output_norm = "output_norm.weight")
      : architecture_(std::move(architecture)),
        vocabulary_(vocabulary) {
    writer_.key_text("general.architecture", architecture_).key_text("general.name", "tiny " + architecture_);
    key("block_count", layers).key("context_length", 32768).key("embedding_length", kEmbedding);
    writer_.key_f32(architecture_ + ".attention.layer_norm_rms_epsilon", 1e-5F);
    add_tokenizer(writer_, vocabulary, "{{ messages[0].content }}");
    tensor("token_embd.weight", {kEmbedding, vocabulary}).tensor(output_norm, {kEmbedding});
  }

  static constexpr std::uint32_t kEmbedding = 128;

  TinyModel& key(std::string_view suffix, std::uint32_t value) {
    writer_.key_u32(architecture_ + "." + std::string{suffix}, value);
    return *this;
  }
  TinyModel& keys(std::string_view suffix, const std::vector<std::int32_t>& values) {
    writer_.key_i32s(architecture_ + "." + std::string{suffix}, values);
    return *this;
  }
  TinyModel& real_key(std::string_view suffix, float value) {
    writer_.key_f32(architecture_ + "." + std::string{suffix}, value);
    return *this;
  }
  TinyModel& tensor(std::string_view name, const std::vector<std::uint64_t>& dims) {
    writer_.tensor(name, GgmlType::f32, dims);
    return *this;
  }
  /// A tensor of layer `layer`.
  TinyModel& tensor(std::uint32_t layer, std::string_view name, const std::vector<std::uint64_t>& dims) {
    return tensor("blk." + std::to_string(layer) + "." + std::string{name}, dims);
  }
  TinyModel& output() { return tensor("output.weight", {kEmbedding, vocabulary_}); }

  void write(const std::filesystem::path& path) const {
    const auto header = writer_.header();
    std::ofstream file{path, std::ios::binary};
    file << header << std::string((32 - header.size() % 32) % 32, '\0');
    std::mt19937 random{10587};
    std::vector<float> weights(1 << 14);
    for (auto left = writer_.file_size() - (header.size() + 31) / 32 * 32; left > 0;) {
      for (auto& weight : weights) weight = (static_cast<float>(random() % 2001) - 1000.0F) * 2e-5F;
      const auto piece = std::min<std::uint64_t>(left, weights.size() * sizeof(float));
      file.write(reinterpret_cast<const char*>(weights.data()), static_cast<std::streamsize>(piece));
      left -= piece;
    }
    if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  }

 private:
  std::string architecture_;
  std::uint32_t vocabulary_;
  GgufWriter writer_;
};

// The blocks that the models are made of, for layer i.
constexpr std::uint64_t kTinyEmbedding = TinyModel::kEmbedding;
constexpr std::uint32_t kTinyVocabulary = 512;
constexpr std::uint32_t kTinyFeedForward = 256;

inline void add_attention_keys(TinyModel& m, std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t size) {
  m.key("attention.head_count", heads).key("attention.head_count_kv", kv_heads);
  m.key("attention.key_length", size).key("attention.value_length", size);
}

inline void add_attention(TinyModel& m, std::uint32_t i, std::uint64_t q, std::uint64_t kv) {
  m.tensor(i, "attn_q.weight", {kTinyEmbedding, q}).tensor(i, "attn_k.weight", {kTinyEmbedding, kv});
  m.tensor(i, "attn_v.weight", {kTinyEmbedding, kv}).tensor(i, "attn_output.weight", {q, kTinyEmbedding});
}

inline void add_feed_forward(TinyModel& m, std::uint32_t i, std::string_view norm = "ffn_norm.weight") {
  if (!norm.empty()) m.tensor(i, norm, {kTinyEmbedding});
  m.tensor(i, "ffn_gate.weight", {kTinyEmbedding, kTinyFeedForward});
  m.tensor(i, "ffn_up.weight", {kTinyEmbedding, kTinyFeedForward});
  m.tensor(i, "ffn_down.weight", {kTinyFeedForward, kTinyEmbedding});
}

inline void add_experts(TinyModel& m, std::uint32_t i, std::uint64_t experts, std::uint64_t size) {
  m.tensor(i, "ffn_gate_inp.weight", {kTinyEmbedding, experts});
  m.tensor(i, "ffn_gate_exps.weight", {kTinyEmbedding, size, experts});
  m.tensor(i, "ffn_up_exps.weight", {kTinyEmbedding, size, experts});
  m.tensor(i, "ffn_down_exps.weight", {size, kTinyEmbedding, experts});
}

/// The state of Mamba 2 and its relatives.
struct TinyState {
  std::uint64_t inner = 256, state = 32, groups = 2, heads = 8, kernel = 4;

  [[nodiscard]] std::uint64_t convolved() const { return inner + 2 * groups * state; }
};

inline void add_state_keys(TinyModel& m, const TinyState& s = {}) {
  const auto key = [&m](std::string_view name, std::uint64_t value) { m.key(name, static_cast<std::uint32_t>(value)); };
  key("ssm.conv_kernel", s.kernel), key("ssm.inner_size", s.inner), key("ssm.state_size", s.state);
  key("ssm.time_step_rank", s.heads), key("ssm.group_count", s.groups);
}

inline void add_mamba2(TinyModel& m, std::uint32_t i, const TinyState& s = {}) {
  m.tensor(i, "ssm_in.weight", {kTinyEmbedding, s.inner + s.convolved() + s.heads});
  m.tensor(i, "ssm_conv1d.weight", {s.kernel, s.convolved()}).tensor(i, "ssm_conv1d.bias", {s.convolved()});
  m.tensor(i, "ssm_dt.bias", {s.heads}).tensor(i, "ssm_a", {1, s.heads}).tensor(i, "ssm_d", {1, s.heads});
  m.tensor(i, "ssm_norm.weight", {s.inner / s.groups, s.groups}).tensor(i, "ssm_out.weight", {s.inner, kTinyEmbedding});
}

inline void add_kda(TinyModel& m, std::uint32_t i, std::uint64_t heads, std::uint64_t size) {
  const auto inner = heads * size;
  for (const auto* part : {"q", "k", "v"}) {
    m.tensor(i, "attn_" + std::string{part} + ".weight", {kTinyEmbedding, inner});
    m.tensor(i, "ssm_conv1d_" + std::string{part} + ".weight", {4, 1, inner});
  }
  m.tensor(i, "ssm_f_a.weight", {kTinyEmbedding, size}).tensor(i, "ssm_f_b.weight", {size, inner});
  m.tensor(i, "ssm_g_a.weight", {kTinyEmbedding, size}).tensor(i, "ssm_g_b.weight", {size, inner});
  m.tensor(i, "ssm_beta.weight", {kTinyEmbedding, heads}).tensor(i, "ssm_a", {1, heads});
  m.tensor(i, "ssm_dt.bias", {inner}).tensor(i, "ssm_norm.weight", {size});
}

inline void add_shared_expert(TinyModel& m, std::uint32_t i, std::uint64_t size) {
  m.tensor(i, "ffn_gate_shexp.weight", {kTinyEmbedding, size}).tensor(i, "ffn_up_shexp.weight", {kTinyEmbedding, size});
  m.tensor(i, "ffn_down_shexp.weight", {size, kTinyEmbedding});
}

/// What a layer for multi-token prediction has beside one of the trunk.
inline void add_nextn(TinyModel& m, std::uint32_t i) {
  m.tensor(i, "nextn.eh_proj.weight", {2 * kTinyEmbedding, kTinyEmbedding});
  m.tensor(i, "nextn.enorm.weight", {kTinyEmbedding}).tensor(i, "nextn.hnorm.weight", {kTinyEmbedding});
  m.tensor(i, "nextn.shared_head_norm.weight", {kTinyEmbedding});
}

/// Grouped-query attention and tied embeddings, with as many tokens as asked for.
inline TinyModel tiny_llama(std::uint32_t vocabulary = kTinyVocabulary) {
  TinyModel m{"llama", 4, vocabulary};
  m.key("feed_forward_length", kTinyFeedForward).key("rope.dimension_count", 32);
  add_attention_keys(m, 4, 2, 32);
  for (std::uint32_t i = 0; i < 4; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    add_attention(m, i, 128, 64);
    add_feed_forward(m, i);
  }
  return m;
}

/// Windows in five of six layers; tied embeddings.
inline TinyModel tiny_gemma3() {
  TinyModel m{"gemma3", 8, kTinyVocabulary};
  m.key("feed_forward_length", kTinyFeedForward).key("attention.sliding_window", 300);
  add_attention_keys(m, 4, 1, 64);
  for (std::uint32_t i = 0; i < 8; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding}).tensor(i, "post_attention_norm.weight", {kTinyEmbedding});
    m.tensor(i, "attn_q_norm.weight", {64}).tensor(i, "attn_k_norm.weight", {64});
    add_attention(m, i, 256, 64);
    add_feed_forward(m, i);
    m.tensor(i, "post_ffw_norm.weight", {kTinyEmbedding});
  }
  return m;
}

/// Windows in every second layer, attention sinks and experts.
inline TinyModel tiny_gpt_oss() {
  constexpr std::uint64_t kExperts = 4;
  constexpr std::uint64_t kSize = 64;
  TinyModel m{"gpt-oss", 4, kTinyVocabulary};
  m.key("feed_forward_length", kSize).key("expert_feed_forward_length", kSize).key("attention.sliding_window", 128);
  m.key("expert_count", kExperts).key("expert_used_count", 2).key("rope.dimension_count", 64);
  add_attention_keys(m, 4, 2, 64);
  for (std::uint32_t i = 0; i < 4; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding}).tensor(i, "post_attention_norm.weight", {kTinyEmbedding});
    add_attention(m, i, 256, 128);
    m.tensor(i, "attn_q.bias", {256}).tensor(i, "attn_k.bias", {128}).tensor(i, "attn_v.bias", {128});
    m.tensor(i, "attn_output.bias", {kTinyEmbedding}).tensor(i, "attn_sinks.weight", {4});
    add_experts(m, i, kExperts, kSize);
    m.tensor(i, "ffn_gate_inp.bias", {kExperts}).tensor(i, "ffn_gate_exps.bias", {kSize, kExperts});
    m.tensor(i, "ffn_up_exps.bias", {kSize, kExperts}).tensor(i, "ffn_down_exps.bias", {kTinyEmbedding, kExperts});
  }
  return m.output();
}

/// Latent attention, one dense layer before those with experts; with an indexer as DeepSeek V3.2 has it, and `nextn`
/// layers for multi-token prediction.
inline TinyModel tiny_deepseek2(bool has_indexer = false, std::uint32_t nextn = 0) {
  constexpr std::uint32_t kLayers = 3;
  constexpr std::uint64_t kHeads = 4, kRank = 64, kRope = 32, kNope = 32, kValue = 32, kQueryRank = 48;
  constexpr std::uint64_t kExperts = 4, kSize = 64, kIndexer = 64;
  TinyModel m{has_indexer ? "deepseek32" : "deepseek2", kLayers + nextn, kTinyVocabulary};
  if (nextn > 0) m.key("nextn_predict_layers", nextn);
  m.key("feed_forward_length", kTinyFeedForward).key("attention.head_count", kHeads);
  m.key("attention.head_count_kv", 1).key("attention.key_length", kRank + kRope);
  m.key("attention.value_length", kRank).key("attention.key_length_mla", kNope + kRope);
  m.key("attention.value_length_mla", kValue).key("attention.kv_lora_rank", kRank);
  m.key("attention.q_lora_rank", kQueryRank);
  m.key("rope.dimension_count", kRope).key("leading_dense_block_count", 1).key("expert_gating_func", 1);
  m.key("expert_count", kExperts).key("expert_used_count", 2).key("expert_shared_count", 1);
  m.key("expert_feed_forward_length", kSize).real_key("expert_weights_scale", 1.0F);
  if (has_indexer) {
    m.key("attention.indexer.head_count", 2).key("attention.indexer.key_length", kIndexer);
    m.key("attention.indexer.top_k", 64).real_key("rope.scaling.yarn_log_multiplier", 0.1F);
    m.real_key("attention.layer_norm_epsilon", 1e-6F);
  }
  for (std::uint32_t i = 0; i < kLayers + nextn; ++i) {
    if (i >= kLayers) add_nextn(m, i);
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    m.tensor(i, "attn_q_a.weight", {kTinyEmbedding, kQueryRank}).tensor(i, "attn_q_a_norm.weight", {kQueryRank});
    m.tensor(i, "attn_q_b.weight", {kQueryRank, kHeads * (kNope + kRope)});
    m.tensor(i, "attn_kv_a_mqa.weight", {kTinyEmbedding, kRank + kRope}).tensor(i, "attn_kv_a_norm.weight", {kRank});
    m.tensor(i, "attn_k_b.weight", {kNope, kRank, kHeads}).tensor(i, "attn_v_b.weight", {kRank, kValue, kHeads});
    m.tensor(i, "attn_output.weight", {kHeads * kValue, kTinyEmbedding});
    if (has_indexer) {
      m.tensor(i, "indexer.k_norm.weight", {kIndexer}).tensor(i, "indexer.k_norm.bias", {kIndexer});
      m.tensor(i, "indexer.proj.weight", {kTinyEmbedding, 2})
          .tensor(i, "indexer.attn_k.weight", {kTinyEmbedding, kIndexer});
      m.tensor(i, "indexer.attn_q_b.weight", {kQueryRank, 2 * kIndexer});
    }
    if (i == 0) {
      add_feed_forward(m, i);
      continue;
    }
    m.tensor(i, "ffn_norm.weight", {kTinyEmbedding});
    add_experts(m, i, kExperts, kSize);
    add_shared_expert(m, i, kSize);
  }
  return m.output();
}

/// Gated delta nets in three of four layers, gated attention in the others; `nextn` layers for multi-token prediction,
/// and experts as Qwen 3.5 MoE has them.
inline TinyModel tiny_qwen35(std::uint32_t nextn = 0, bool has_experts = false) {
  constexpr std::uint32_t kLayers = 8;
  constexpr std::uint64_t kExperts = 4, kSize = 64;
  const TinyState s{.inner = 128, .heads = 4};
  TinyModel m{has_experts ? "qwen35moe" : "qwen35", kLayers + nextn, kTinyVocabulary};
  m.key("feed_forward_length", kTinyFeedForward).key("full_attention_interval", 4).key("rope.dimension_count", 16);
  m.keys("rope.dimension_sections", {3, 3, 2, 0});
  if (nextn > 0) m.key("nextn_predict_layers", nextn);
  if (has_experts) {
    m.key("expert_count", kExperts).key("expert_used_count", 2).key("expert_feed_forward_length", kSize);
    m.key("expert_shared_feed_forward_length", kSize);
  }
  add_state_keys(m, s);
  add_attention_keys(m, 4, 2, 64);
  for (std::uint32_t i = 0; i < kLayers + nextn; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding}).tensor(i, "post_attention_norm.weight", {kTinyEmbedding});
    if (i % 4 == 3 || i >= kLayers) {
      m.tensor(i, "attn_q.weight", {kTinyEmbedding, 512}).tensor(i, "attn_k.weight", {kTinyEmbedding, 128});
      m.tensor(i, "attn_v.weight", {kTinyEmbedding, 128}).tensor(i, "attn_output.weight", {256, kTinyEmbedding});
      m.tensor(i, "attn_q_norm.weight", {64}).tensor(i, "attn_k_norm.weight", {64});
    } else {
      m.tensor(i, "attn_qkv.weight", {kTinyEmbedding, s.convolved()});
      m.tensor(i, "attn_gate.weight", {kTinyEmbedding, s.inner});
      m.tensor(i, "ssm_conv1d.weight", {s.kernel, s.convolved()}).tensor(i, "ssm_dt.bias", {s.heads});
      m.tensor(i, "ssm_a", {s.heads}).tensor(i, "ssm_beta.weight", {kTinyEmbedding, s.heads});
      m.tensor(i, "ssm_alpha.weight", {kTinyEmbedding, s.heads}).tensor(i, "ssm_norm.weight", {s.state});
      m.tensor(i, "ssm_out.weight", {s.inner, kTinyEmbedding});
    }
    if (has_experts) {
      add_experts(m, i, kExperts, kSize);
      add_shared_expert(m, i, kSize);
      m.tensor(i, "ffn_gate_inp_shexp.weight", {kTinyEmbedding});
    } else {
      add_feed_forward(m, i, {});
    }
    if (i >= kLayers) add_nextn(m, i);
  }
  return m.output();
}

/// Layers of Mamba 2, of attention and of a feed-forward part only.
inline TinyModel tiny_nemotron_h() {
  TinyModel m{"nemotron_h", 6, kTinyVocabulary};
  constexpr std::int32_t kFf = kTinyFeedForward;
  m.keys("feed_forward_length", {0, kFf, 0, 0, kFf, 0}).keys("attention.head_count_kv", {0, 0, 2, 0, 0, 0});
  m.key("attention.head_count", 4).key("attention.key_length", 32).key("attention.value_length", 32);
  m.key("rope.dimension_count", 32).real_key("attention.layer_norm_epsilon", 1e-5F);
  add_state_keys(m);
  for (std::uint32_t i = 0; i < 6; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    if (i == 1 || i == 4) {
      m.tensor(i, "ffn_up.weight", {kTinyEmbedding, kTinyFeedForward});
      m.tensor(i, "ffn_down.weight", {kTinyFeedForward, kTinyEmbedding});
    } else if (i == 2) {
      add_attention(m, i, 128, 64);
    } else {
      add_mamba2(m, i);
    }
  }
  return m.output();
}

/// Mamba 2 or attention, and a feed-forward part in every layer.
inline TinyModel tiny_granite_hybrid() {
  TinyModel m{"granitehybrid", 4, kTinyVocabulary};
  m.key("feed_forward_length", kTinyFeedForward).key("attention.head_count", 4).key("rope.dimension_count", 32);
  m.keys("attention.head_count_kv", {0, 2, 0, 2}).real_key("logit_scale", 1.0F);
  add_state_keys(m);
  for (std::uint32_t i = 0; i < 4; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    if (i % 2 == 1) {
      add_attention(m, i, 128, 64);
    } else {
      add_mamba2(m, i);
    }
    add_feed_forward(m, i);
  }
  return m;
}

/// No attention at all.
inline TinyModel tiny_mamba2() {
  TinyModel m{"mamba2", 4, kTinyVocabulary};
  m.key("feed_forward_length", 0).key("attention.head_count", 0);
  add_state_keys(m);
  for (std::uint32_t i = 0; i < 4; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    add_mamba2(m, i);
  }
  return m;
}

/// Attention and Mamba 2 beside each other in every layer.
inline TinyModel tiny_falcon_h1() {
  TinyModel m{"falcon-h1", 3, kTinyVocabulary};
  m.key("feed_forward_length", kTinyFeedForward).key("rope.dimension_count", 32);
  add_attention_keys(m, 4, 2, 32);
  add_state_keys(m);
  for (std::uint32_t i = 0; i < 3; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    add_attention(m, i, 128, 64);
    add_mamba2(m, i);
    add_feed_forward(m, i, "ffn_norm");
  }
  return m.output();
}

/// Short convolutions in place of attention in some layers.
inline TinyModel tiny_lfm2() {
  TinyModel m{"lfm2", 4, kTinyVocabulary, "token_embd_norm.weight"};
  m.key("feed_forward_length", kTinyFeedForward).key("attention.head_count", 4).key("shortconv.l_cache", 3);
  m.keys("attention.head_count_kv", {0, 2, 0, 2});
  for (std::uint32_t i = 0; i < 4; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    if (i % 2 == 1) {
      add_attention(m, i, 128, 64);
      m.tensor(i, "attn_q_norm.weight", {32}).tensor(i, "attn_k_norm.weight", {32});
    } else {
      m.tensor(i, "shortconv.conv.weight", {3, kTinyEmbedding});
      m.tensor(i, "shortconv.in_proj.weight", {kTinyEmbedding, 3 * kTinyEmbedding});
      m.tensor(i, "shortconv.out_proj.weight", {kTinyEmbedding, kTinyEmbedding});
    }
    add_feed_forward(m, i);
  }
  return m;
}

/// Windows with heads of their own size, shared caches and an embedding for every layer.
inline TinyModel tiny_gemma4() {
  constexpr std::uint32_t kLayers = 6;
  constexpr std::uint64_t kOwn = 32;
  TinyModel m{"gemma4", kLayers, kTinyVocabulary};
  m.key("feed_forward_length", kTinyFeedForward).key("attention.sliding_window", 300);
  m.keys("attention.sliding_window_pattern", {1, 0, 1, 0, 1, 0}).key("attention.shared_kv_layers", 2);
  m.key("attention.head_count", 4).key("attention.head_count_kv", 1);
  m.key("attention.key_length", 128).key("attention.value_length", 128);
  m.key("attention.key_length_swa", 64).key("attention.value_length_swa", 64);
  m.key("embedding_length_per_layer_input", kOwn).key("rope.dimension_count", 128).key("rope.dimension_count_swa", 64);
  m.tensor("per_layer_token_embd.weight", {kOwn * kLayers, kTinyVocabulary});
  m.tensor("per_layer_model_proj.weight", {kTinyEmbedding, kOwn * kLayers})
      .tensor("per_layer_proj_norm.weight", {kOwn});
  m.tensor("rope_freqs.weight", {64});
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    const std::uint64_t size = i % 2 == 1 ? 128 : 64;
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding}).tensor(i, "post_attention_norm.weight", {kTinyEmbedding});
    add_attention(m, i, 4 * size, size);
    m.tensor(i, "attn_q_norm.weight", {size}).tensor(i, "attn_k_norm.weight", {size});
    add_feed_forward(m, i);
    m.tensor(i, "post_ffw_norm.weight", {kTinyEmbedding}).tensor(i, "layer_output_scale.weight", {1});
    m.tensor(i, "inp_gate.weight", {kTinyEmbedding, kOwn}).tensor(i, "proj.weight", {kOwn, kTinyEmbedding});
    m.tensor(i, "post_norm.weight", {kTinyEmbedding});
  }
  return m;
}

/// Kimi's delta attention, and latent attention in every second layer.
inline TinyModel tiny_kimi_linear() {
  constexpr std::uint64_t kHeads = 4, kSize = 32, kInner = kHeads * kSize, kRank = 64, kRope = 32, kNope = 32;
  constexpr std::uint64_t kExperts = 4, kExpert = 64;
  TinyModel m{"kimi-linear", 4, kTinyVocabulary};
  m.key("feed_forward_length", kTinyFeedForward).key("attention.head_count", kHeads);
  m.keys("attention.head_count_kv", {0, 1, 0, 1}).key("attention.key_length", kRank + kRope);
  m.key("attention.value_length", kRank).key("attention.key_length_mla", kNope + kRope);
  m.key("attention.value_length_mla", kNope).key("attention.kv_lora_rank", kRank).key("rope.dimension_count", kRope);
  m.key("ssm.conv_kernel", 4).key("kda.head_dim", kSize).key("leading_dense_block_count", 1);
  m.key("expert_count", kExperts).key("expert_used_count", 2).key("expert_feed_forward_length", kExpert);
  m.key("expert_shared_count", 1).key("expert_gating_func", 2).real_key("expert_weights_scale", 1.0F);
  for (std::uint32_t i = 0; i < 4; ++i) {
    m.tensor(i, "attn_norm.weight", {kTinyEmbedding});
    if (i % 2 == 1) {
      m.tensor(i, "attn_q.weight", {kTinyEmbedding, kHeads * (kNope + kRope)});
      m.tensor(i, "attn_kv_a_mqa.weight", {kTinyEmbedding, kRank + kRope}).tensor(i, "attn_kv_a_norm.weight", {kRank});
      m.tensor(i, "attn_k_b.weight", {kNope, kRank, kHeads}).tensor(i, "attn_v_b.weight", {kRank, kNope, kHeads});
    } else {
      add_kda(m, i, kHeads, kSize);
    }
    m.tensor(i, "attn_output.weight", {kInner, kTinyEmbedding}).tensor(i, "ffn_norm.weight", {kTinyEmbedding});
    if (i == 0) {
      add_feed_forward(m, i, {});
    } else {
      add_experts(m, i, kExperts, kExpert);
      add_shared_expert(m, i, kExpert);
      m.tensor(i, "exp_probs_b.bias", {kExperts});
    }
  }
  return m.output();
}

/// A projector for pictures of 56 x 56 points, for models with the embedding of the others here (Gemma 3's kind). Its
/// weights are zeros.
inline GgufWriter tiny_projector() {
  constexpr std::uint32_t kWidth = 64, kFeedForward = 128, kLayers = 2, kPatch = 14, kImage = 56;
  GgufWriter w;
  w.key_text("general.architecture", "clip").key_text("general.type", "mmproj");
  w.key_bool("clip.has_vision_encoder", true).key_text("clip.projector_type", "gemma3").key_bool("clip.use_gelu", true);
  w.key_u32("clip.vision.image_size", kImage).key_u32("clip.vision.patch_size", kPatch);
  w.key_u32("clip.vision.embedding_length", kWidth).key_u32("clip.vision.feed_forward_length", kFeedForward);
  w.key_u32("clip.vision.projection_dim", TinyModel::kEmbedding).key_u32("clip.vision.block_count", kLayers);
  w.key_u32("clip.vision.attention.head_count", 4).key_f32("clip.vision.attention.layer_norm_epsilon", 1e-6F);
  w.key_f32s("clip.vision.image_mean", {0.5F, 0.5F, 0.5F}).key_f32s("clip.vision.image_std", {0.5F, 0.5F, 0.5F});
  const auto tensor = [&w](const std::string& name, const std::vector<std::uint64_t>& dims) {
    w.tensor(name, GgmlType::f32, dims);
  };
  const auto with_bias = [&](const std::string& name, const std::vector<std::uint64_t>& dims) {
    tensor(name + ".weight", dims);
    tensor(name + ".bias", {dims.back()});
  };
  with_bias("v.patch_embd", {kPatch, kPatch, 3, kWidth});
  tensor("v.position_embd.weight", {kWidth, (kImage / kPatch) * (kImage / kPatch)});
  with_bias("v.post_ln", {kWidth});
  for (std::uint32_t i = 0; i < kLayers; ++i) {
    const auto block = "v.blk." + std::to_string(i) + ".";
    for (const auto* part : {"attn_q", "attn_k", "attn_v", "attn_out"}) with_bias(block + part, {kWidth, kWidth});
    with_bias(block + "ln1", {kWidth});
    with_bias(block + "ln2", {kWidth});
    with_bias(block + "ffn_up", {kWidth, kFeedForward});
    with_bias(block + "ffn_down", {kFeedForward, kWidth});
  }
  tensor("mm.input_projection.weight", {TinyModel::kEmbedding, kWidth});
  tensor("mm.soft_emb_norm.weight", {kWidth});
  return w;
}

}  // namespace dgxmm::testing
