#pragma once
// The seeds of the fuzzers, made instead of kept: real models are too large to mutate, and binaries say nothing in a
// diff.
#include "tools/gguf_writer.h"
#include "tools/hf_writer.h"

#include <string>
#include <utility>
#include <vector>

namespace dgxmm::testing {

struct Seed {
  std::string name;
  std::string bytes;
};

inline Seed gguf_seed(std::string name, const GgufWriter& writer) {
  auto bytes = writer.header();
  bytes.resize(writer.file_size(), '\0');
  return {std::move(name), std::move(bytes)};
}

inline std::vector<Seed> gguf_seeds() {
  const DenseGguf tiny{.n_layer = 1, .n_embd = 32, .n_head = 2, .n_head_kv = 1, .n_ff = 32, .n_vocab = 4};
  std::vector<Seed> seeds;
  const auto with = [&](std::string name, const DenseGguf& shape, auto add) {
    GgufWriter w;
    add_dense_keys(w, shape);
    w.key_texts("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c", "d"});
    add(w);
    add_dense_tensors(w, shape);
    seeds.push_back(gguf_seed(std::move(name), w));
  };
  with("dense", tiny, [](GgufWriter&) {});
  with("tied",
       DenseGguf{.n_layer = 1, .n_embd = 32, .n_head = 2, .n_head_kv = 1, .n_ff = 32, .n_vocab = 4, .tied = true},
       [](GgufWriter& w) { w.alignment(64); });
  with("experts", tiny, [](GgufWriter& w) {
    w.key_u32("llama.expert_count", 8).key_u32("llama.expert_used_count", 2);
    w.key_u32s("llama.expert_feed_forward_length", {32});
  });
  with("split", tiny, [](GgufWriter& w) { w.key_u16("split.no", 0).key_u16("split.count", 2); });
  GgufWriter projector;
  projector.key_text("general.architecture", "clip").tensor("v.patch_embd.weight", GgmlType::f32, {4, 4});
  seeds.push_back(gguf_seed("projector", projector));
  with("nextn", DenseGguf{.n_layer = 2, .n_embd = 32, .n_head = 2, .n_head_kv = 1, .n_ff = 32, .n_vocab = 4},
       [](GgufWriter& w) { w.key_u32("llama.nextn_predict_layers", 1); });
  GgufWriter every_type;
  every_type.key_u8("a", 1).key_u16("b", 2).key_i32("c", -3).key_f32("d", 4.0F).key_bool("e", true).key_u64("f",
                                                                                                            1ULL << 63);
  every_type.key_i64("g", -1)
      .key_f64("h", 0.5)
      .key_text("i", "text")
      .key_i32s("j", {1, 2})
      .key_array<float>("k", 6, {1.0F});
  seeds.push_back(gguf_seed("every_type", every_type));
  return seeds;
}

inline std::vector<Seed> safetensors_seeds() {
  const DenseHf tiny{.layers = 1, .hidden = 4, .heads = 2, .kv_heads = 1, .intermediate = 4, .vocabulary = 4};
  auto bytes = SafetensorsWriter::with_length(dense_safetensors(tiny).front().json());
  bytes.resize(dense_safetensors(tiny).front().file_size(), '\0');
  return {{"dense", bytes}, {"empty", SafetensorsWriter::with_length("{}")}};
}

inline std::vector<Seed> hf_config_seeds() {
  return {
      {"dense", dense_config()},
      {"mistral",
       R"({"dim":64,"n_layers":2,"n_heads":4,"n_kv_heads":2,"hidden_dim":64,"vocab_size":100,"sliding_window":[null,8],
           "moe":{"num_experts":4,"num_experts_per_tok":2},"yarn":{"original_max_position_embeddings":8,"factor":2},
           "vision_encoder":{"hidden_size":8,"image_size":28,"patch_size":14},"tied_embeddings":true})"},
      {"encoders",
       R"({"architectures":["Mistral3ForConditionalGeneration"],"spatial_merge_size":2,"text_config":{
           "model_type":"mistral","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"vocab_size":100,
           "intermediate_size":64},"vision_config":{"hidden_size":8,"image_size":28,"patch_size":14},
           "audio_config":{"d_model":8}})"},
      {"experts",
       R"({"architectures":["Qwen3MoeForCausalLM"],"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
           "num_key_value_heads":2,"head_dim":32,"vocab_size":100,"num_experts":8,"num_experts_per_tok":2,
           "moe_intermediate_size":32,"sliding_window":null,"use_sliding_window":false,"dtype":"bfloat16",
           "quantization_config":{"quant_method":"fp8","bits":8},"layer_types":["full_attention","full_attention"]})"},
      {"nested",
       R"({"architectures":["Qwen3_5ForConditionalGeneration"],"text_config":{"model_type":"qwen3_5_text",
           "num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,
           "intermediate_size":64,"vocab_size":100,"layer_types":["linear_attention","full_attention"],
           "linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":8,"linear_value_head_dim":8,
           "linear_conv_kernel_dim":4,"mamba_ssm_dtype":"float32","mtp_num_hidden_layers":1}})"},
      {"latents",
       R"({"architectures":["DeepseekV32ForCausalLM"],"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
           "vocab_size":100,"intermediate_size":64,"kv_lora_rank":32,"qk_rope_head_dim":8,"qk_nope_head_dim":16,
           "v_head_dim":16,"index_head_dim":128,"index_topk_pattern":"FS","num_nextn_predict_layers":1})"},
      {"compressed",
       R"({"architectures":["DeepseekV4ForCausalLM"],"num_hidden_layers":3,"hidden_size":64,"num_attention_heads":4,
           "num_key_value_heads":1,"head_dim":512,"vocab_size":100,"intermediate_size":64,"index_head_dim":128,
           "sliding_window":128,"compress_ratios":[0,4,128,0]})"},
      {"kda",
       R"({"architectures":["KimiLinearForCausalLM"],"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
           "vocab_size":100,"intermediate_size":64,"kv_lora_rank":32,"qk_rope_head_dim":8,"qk_nope_head_dim":16,
           "v_head_dim":16,"linear_attn_config":{"full_attn_layers":[2],"kda_layers":[1],"num_heads":4,"head_dim":16,
           "short_conv_kernel_size":4}})"},
      {"pattern",
       R"({"architectures":["NemotronHForCausalLM"],"num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,
           "num_key_value_heads":2,"vocab_size":100,"intermediate_size":64,"hybrid_override_pattern":"M-*E",
           "mamba_num_heads":4,"mamba_head_dim":16,"ssm_state_size":8,"n_groups":1,"conv_kernel":4,
           "time_step_limit":[0.0,Infinity]})"},
      {"windows",
       R"({"architectures":["Gemma4ForConditionalGeneration"],"text_config":{"model_type":"gemma4_text",
           "num_hidden_layers":3,"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
           "global_head_dim":32,"num_global_key_value_heads":1,"intermediate_size":64,"vocab_size":100,
           "sliding_window":32,"num_kv_shared_layers":1,
           "layer_types":["sliding_attention","full_attention","sliding_attention"]}})"},
      {"blocks",
       R"({"architectures":["DeciLMForCausalLM"],"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
           "num_key_value_heads":null,"vocab_size":100,"intermediate_size":null,"block_configs":[
           {"attention":{"n_heads_in_group":2,"no_op":false},"ffn":{"ffn_mult":2.5}},
           {"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0}}]})"},
      {"index", R"({"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors"}})"},
  };
}

}  // namespace dgxmm::testing
