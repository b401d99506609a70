// The architectures of vLLM's registry, with the fields that their published files have.
#include "core/model/hf_config.h"
#include "tools/hf_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace dgxmm::model {
namespace {

std::string describe(const Layer& layer) {
  std::string text;
  if (const auto& state = layer.recurrent)
    text = fmt::format("state {}/{}", state->conv_elements, state->state_elements);
  const auto& attention = layer.attention;
  if (!attention) return text;
  switch (attention->kind) {
    case AttentionKind::full: text += "full"; break;
    case AttentionKind::sliding_window: text += fmt::format("window{}", attention->window.value_or(0)); break;
    case AttentionKind::chunked: text += fmt::format("chunk{}", attention->window.value_or(0)); break;
    case AttentionKind::mla: text += "mla"; break;
    case AttentionKind::bidirectional: text += "bidirectional"; break;
  }
  text += fmt::format(" {}x{}/{}", attention->n_head_kv, attention->key_length, attention->value_length);
  if (attention->shares_kv) text += " shared";
  if (attention->compress_ratio) text += fmt::format(" ratio {}", *attention->compress_ratio);
  if (attention->indexer_key_length) text += fmt::format(" index {}", *attention->indexer_key_length);
  return text;
}

/// "3 window2048 4x128/128, 1 full 4x128/128": equal layers together, in the order in which they first occur.
std::string describe(const std::vector<Layer>& layers) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const auto& layer : layers) {
    const auto text = describe(layer);
    const auto found = std::ranges::find(kinds, text, [](const auto& kind) { return kind.first; });
    found == kinds.end() ? (void)kinds.emplace_back(text, 1) : (void)++found->second;
  }
  std::vector<std::string> texts;
  for (const auto& [text, count] : kinds) texts.push_back(fmt::format("{} {}", count, text));
  return fmt::format("{}", fmt::join(texts, ", "));
}

struct Case {
  const char* architecture;
  const char* members;
  const char* layers;     ///< kind, KV heads x elements of K / V; state: convolution / recurrent
  const char* uncertain;  ///< what is not known, with | between
};

// Rules: vllm/model_executor/models/*.py and vllm/models/* of 0.28; sizes: the published config.json files, where the
// comment names one, with fewer layers where they repeat.
constexpr Case kCases[] = {
    // OPT-6.7b: as many KV heads as heads, 4096 / 32 wide; the feed-forward part goes by another name.
    {"OPTForCausalLM", R"("num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"ffn_dim":16384,
        "max_position_embeddings":2048,"vocab_size":50272)",
     "32 full 32x128/128", ""},
    // GPT-J-6b.
    {"GPTJForCausalLM",
     R"("n_layer":28,"n_embd":4096,"n_head":16,"n_inner":null,"n_positions":2048,"vocab_size":50400)",
     "28 full 16x256/256", ""},
    // LongCat-Flash-Chat: two MLA in each of 28 layers, of 512 + 64.
    {"LongcatFlashForCausalLM", R"("num_layers":28,"hidden_size":6144,"ffn_hidden_size":12288,
        "expert_ffn_hidden_size":2048,"num_attention_heads":64,"kv_lora_rank":512,"q_lora_rank":1536,
        "qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,"n_routed_experts":512,"moe_topk":12,
        "zero_expert_num":256,"max_position_embeddings":131072,"vocab_size":131072)",
     "56 mla 1x576/512", ""},
    // bailing_hybrid of Ling 2.5: the last of each group of 8 is MLA; the others keep 32 heads x 128 x 128.
    {"BailingMoeV2_5ForCausalLM", R"("model_type":"bailing_hybrid","num_hidden_layers":18,"layer_group_size":8,
        "hidden_size":4096,"num_attention_heads":32,"head_dim":128,"kv_lora_rank":512,"qk_rope_head_dim":64,
        "qk_nope_head_dim":128,"v_head_dim":128,"intermediate_size":9216,"num_experts":256,"num_experts_per_tok":8,
        "moe_intermediate_size":1024,"num_shared_experts":1,"max_position_embeddings":131072,"vocab_size":157184)",
     "16 state 0/524288, 2 mla 1x576/512", ""},
    // bailing_hybrid of Ling 3: KDA of 32 heads x 128, (4 - 1) x 3 x 4096 before it; what fills no group of 8 is MLA
    // too.
    {"BailingMoeV3ForCausalLM", R"("model_type":"bailing_hybrid","num_hidden_layers":18,"layer_group_size":8,
        "hidden_size":4096,"num_attention_heads":32,"head_dim":128,"kv_lora_rank":512,"qk_rope_head_dim":64,
        "qk_nope_head_dim":128,"v_head_dim":128,"short_conv_kernel_size":4,"intermediate_size":9216,"num_experts":256,
        "num_experts_per_tok":8,"moe_intermediate_size":1024,"max_position_embeddings":131072,"vocab_size":157184)",
     "14 state 36864/524288, 4 mla 1x576/512", ""},
    // dots3_note: rows of all layers are as long as those with a window, 1024 + 64; how few these keep is not worked
    // out.
    {"Dots3NoteForCausalLM", R"("model_type":"dots3_note","num_hidden_layers":3,
        "layer_types":["deepseek_sparse_attention","sliding_attention","sliding_attention"],"hidden_size":5120,
        "num_attention_heads":128,"kv_lora_rank":512,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,
        "swa_num_attention_heads":64,"swa_kv_lora_rank":1024,"swa_qk_rope_head_dim":64,"swa_qk_nope_head_dim":192,
        "swa_v_head_dim":128,"sliding_window_size":512,"index_head_dim":128,"intermediate_size":13824,
        "max_position_embeddings":524288,"vocab_size":152064)",
     "1 mla 1x1088/512 index 128, 2 mla 1x1088/1024 index 128",
     "how few tokens latents with a window keep (counted as all)"},
    // MiniCPM3-4B is projected like MLA, but vLLM keeps 40 heads of 64 + 32 for K and for V.
    {"MiniCPM3ForCausalLM", R"("num_hidden_layers":62,"hidden_size":2560,"num_attention_heads":40,
        "num_key_value_heads":40,"kv_lora_rank":256,"q_lora_rank":768,"qk_nope_head_dim":64,"qk_rope_head_dim":32,
        "intermediate_size":6400,"max_position_embeddings":32768,"vocab_size":73448)",
     "62 full 40x96/96", ""},
    // Hunyuan-A13B: one number for each layer.
    {"HunYuanMoEV1ForCausalLM", R"("num_hidden_layers":4,"hidden_size":4096,"num_attention_heads":32,
        "num_key_value_heads":8,"attention_head_dim":128,"intermediate_size":3072,"moe_intermediate_size":[3072,3072,3072,3072],
        "num_experts":64,"moe_topk":[8,8,8,8],"num_shared_expert":[1,1,1,1],"use_cla":false,
        "max_position_embeddings":32768,"vocab_size":128167)",
     "4 full 8x128/128", ""},
    // ERNIE-4.5-VL-28B-A3B: one number for text and one for pictures.
    {"Ernie4_5_VLMoeForConditionalGeneration", R"("model_type":"ernie4_5_moe_vl","num_hidden_layers":28,
        "hidden_size":2560,"num_attention_heads":20,"num_key_value_heads":4,"intermediate_size":12288,
        "moe_num_experts":[64,64],"moe_intermediate_size":[1536,512],"moe_k":6,"moe_num_shared_experts":2,
        "max_position_embeddings":131072,"vocab_size":103424)",
     "28 full 4x128/128", ""},
    // Gemma-3n-E4B as it is published: a width for each layer.
    {"Gemma3nForConditionalGeneration", R"("text_config":{"model_type":"gemma3n_text","num_hidden_layers":5,
        "layer_types":["sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention"],
        "hidden_size":2048,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"sliding_window":512,
        "num_kv_shared_layers":1,"intermediate_size":[16384,16384,16384,16384,16384],"hidden_size_per_layer_input":256,
        "max_position_embeddings":32768,"vocab_size":262400})",
     "4 window512 2x256/256, 1 full 2x256/256 shared", ""},
    // Gemma 4 as transformers 5.15 and newer save it.
    {"Gemma4ForConditionalGeneration", R"("text_config":{"model_type":"gemma4_text","num_hidden_layers":3,
        "layer_types":["sliding_attention","sliding_attention","full_attention"],"hidden_size":2304,
        "num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"sliding_window":512,"intermediate_size":9216,
        "per_layer_config":{"02":{"head_dim":512,"num_key_value_heads":2}},"max_position_embeddings":131072,
        "vocab_size":262144})",
     "2 window512 4x256/256, 1 full 2x512/512", ""},
    // DeepSeek V4 as transformers 5 saves it.
    {"DeepseekV4ForCausalLM",
     R"("num_hidden_layers":2,"layer_types":["sliding_attention","compressed_sparse_attention"],
        "compress_rates":{"compressed_sparse_attention":4,"heavily_compressed_attention":128},"hidden_size":4096,
        "num_attention_heads":64,"num_key_value_heads":1,"head_dim":512,"index_head_dim":128,"sliding_window":128,
        "n_routed_experts":256,"num_experts_per_tok":6,"moe_intermediate_size":2048,"max_position_embeddings":1048576,
        "vocab_size":129280)",
     "1 window128 1x512/512 ratio 0, 1 window128 1x512/512 ratio 4 index 128", ""},
    // Kimi Linear as transformers 5 saves it: KDA of 32 heads x 128, kernel 4.
    {"KimiLinearForCausalLM", R"("num_hidden_layers":2,"layer_types":["linear_attention","full_attention"],
        "hidden_size":2304,"num_attention_heads":32,"num_key_value_heads":32,"kv_lora_rank":512,"qk_nope_head_dim":128,
        "qk_rope_head_dim":64,"v_head_dim":128,"linear_num_heads":32,"linear_head_dim":128,"linear_conv_kernel_dim":4,
        "intermediate_size":9216,"model_max_length":1048576,"vocab_size":163840)",
     "1 state 36864/524288, 1 mla 1x576/512", ""},
    // Olmo-Hybrid-7B: gated delta net of 30 heads, (4 - 1) x (2 x 30 x 96 + 30 x 192) before it, 30 x 192 x 96.
    {"OlmoHybridForCausalLM", R"("num_hidden_layers":2,"layer_types":["linear_attention","full_attention"],
        "hidden_size":3840,"num_attention_heads":30,"num_key_value_heads":30,"linear_num_key_heads":30,
        "linear_num_value_heads":30,"linear_key_head_dim":96,"linear_value_head_dim":192,"linear_conv_kernel_dim":4,
        "intermediate_size":11008,"max_position_embeddings":65536,"vocab_size":100352)",
     "1 state 34560/552960, 1 full 30x128/128", ""},
    // Trinity of Arcee: every fourth layer keeps all.
    {"AfmoeForCausalLM", R"("num_hidden_layers":4,"global_attn_every_n_layers":4,
        "layer_types":["sliding_attention","sliding_attention","sliding_attention","full_attention"],"hidden_size":2048,
        "num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"sliding_window":2048,"intermediate_size":6144,
        "num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":1024,"num_shared_experts":1,
        "max_position_embeddings":131072,"vocab_size":200192)",
     "3 window2048 4x128/128, 1 full 4x128/128", ""},
    // MiniMax as transformers has it: 16 heads x 64 x 64.
    {"MiniMaxForCausalLM", R"("num_hidden_layers":2,"layer_types":["linear_attention","full_attention"],
        "linear_attn_alpha_factor":1,"hidden_size":1024,"num_attention_heads":16,"num_key_value_heads":4,
        "intermediate_size":4096,"max_position_embeddings":131072,"vocab_size":32000)",
     "1 state 0/65536, 1 full 4x64/64", ""},
    // ColPali keeps a whole model of pictures in its file.
    {"ColPaliForRetrieval", R"("vlm_config":{"text_config":{"model_type":"gemma","num_hidden_layers":18,
        "hidden_size":2048,"num_attention_heads":8,"num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,
        "max_position_embeddings":8192,"vocab_size":257216}})",
     "18 full 1x256/256", ""},
    // Not in the list of families: MLA by the fields that only MLA has.
    {"BrandNewForCausalLM", R"("num_hidden_layers":4,"hidden_size":4096,"num_attention_heads":32,"kv_lora_rank":512,
        "qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,"intermediate_size":11008,
        "max_position_embeddings":32768,"vocab_size":32000)",
     "4 mla 1x576/512", "architectures (BrandNewForCausalLM is not known)|what kv_lora_rank makes of its layers"},
    // The same, with a gated delta net: (4 - 1) x (2 x 16 x 128 + 32 x 128), 32 x 128 x 128.
    {"BrandNewForCausalLM", R"("num_hidden_layers":2,"layer_types":["linear_attention","full_attention"],
        "hidden_size":2048,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"linear_num_key_heads":16,
        "linear_num_value_heads":32,"linear_key_head_dim":128,"linear_value_head_dim":128,"linear_conv_kernel_dim":4,
        "intermediate_size":11008,"max_position_embeddings":32768,"vocab_size":32000)",
     "1 state 24576/524288, 1 full 2x256/256",
     "architectures (BrandNewForCausalLM is not known)|what linear_num_key_heads makes of its layers|"
     "what linear_num_value_heads makes of its layers|what linear_key_head_dim makes of its layers|"
     "what linear_value_head_dim makes of its layers|what linear_conv_kernel_dim makes of its layers"},
};

TEST(HfRegistry, E9_EachFamilyHasTheLayersThatItsSourceGivesIt) {
  for (const auto& [architecture, members, layers, uncertain] : kCases) {
    const auto config =
        parse_hf_config("m/config.json", fmt::format(R"({{"architectures":["{}"],{}}})", architecture, members));
    ASSERT_TRUE(config) << architecture << ": " << config.error().message;
    EXPECT_EQ(describe(config->layers), layers) << architecture;
    EXPECT_EQ(fmt::format("{}", fmt::join(config->missing_fields, "|")), uncertain) << architecture;
  }
}

TEST(HfRegistry, ANumberForEachLayerCountsAsTheLargest) {
  const auto config = parse_hf_config(
      "m/config.json",
      R"({"architectures":["HunYuanMoEV1ForCausalLM"],"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,
          "intermediate_size":[100,300],"moe_intermediate_size":[96,128],"num_experts":[8,16],"moe_topk":[2,4],
          "num_shared_expert":[1,2],"max_position_embeddings":4096,"vocab_size":256})");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(config->experts);
  EXPECT_EQ(config->experts->count, 16);
  EXPECT_EQ(config->experts->used_count, 4);
  EXPECT_EQ(config->experts->feed_forward_length, 128);
  EXPECT_EQ(config->experts->shared_feed_forward_length, 2 * 128);
  EXPECT_EQ(config->layers.front().feed_forward_length, 300);
}

TEST(HfRegistry, E9_WhatPerLayerConfigSaysMustBePossible) {
  for (const auto* config : {R"({"2":{"head_dim":512}})", R"({"x":{"head_dim":512}})", R"({"0":7})",
                             R"({"0":{"head_dim":0}})", R"({"0":{"num_key_value_heads":3}})"}) {
    auto text = testing::dense_config();
    text.back() = ',';
    const auto read = parse_hf_config("m/config.json", text + R"("per_layer_config":)" + config + "}");
    ASSERT_FALSE(read) << config;
    EXPECT_EQ(read.error().code, "bad_model_file");
    EXPECT_THAT(read.error().message, ::testing::HasSubstr("per_layer_config")) << config;
  }
}

// All of vllm/model_executor/models/registry.py of 0.28 but what drafts and what has no language model.
constexpr const char* kArchitectures[] = {"AXK1ForCausalLM",
                                          "AfmoeForCausalLM",
                                          "ApertusForCausalLM",
                                          "ArceeForCausalLM",
                                          "ArcticForCausalLM",
                                          "AriaForConditionalGeneration",
                                          "AudioFlamingo3ForConditionalGeneration",
                                          "BagelForConditionalGeneration",
                                          "BailingMoeForCausalLM",
                                          "BailingMoeV2ForCausalLM",
                                          "BailingMoeV2_5ForCausalLM",
                                          "BailingMoeV3ForCausalLM",
                                          "BeeForConditionalGeneration",
                                          "BertForMaskedLM",
                                          "BertForSequenceClassification",
                                          "BertForTokenClassification",
                                          "BertModel",
                                          "BertSpladeSparseEmbeddingModel",
                                          "BgeM3EmbeddingModel",
                                          "Blip2ForConditionalGeneration",
                                          "BloomForCausalLM",
                                          "CLIPModel",
                                          "ChameleonForConditionalGeneration",
                                          "ChatGLMForConditionalGeneration",
                                          "ChatGLMModel",
                                          "Cheers",
                                          "CheersForConditionalGeneration",
                                          "Cohere2ForCausalLM",
                                          "Cohere2MoeForCausalLM",
                                          "Cohere2VisionForConditionalGeneration",
                                          "CohereAsrForConditionalGeneration",
                                          "CohereForCausalLM",
                                          "ColBERTJinaRobertaModel",
                                          "ColBERTLfm2Model",
                                          "ColBERTModernBertModel",
                                          "ColModernVBertForRetrieval",
                                          "ColPaliForRetrieval",
                                          "ColQwen3",
                                          "ColQwen3_5",
                                          "Cosmos3EdgeForConditionalGeneration",
                                          "Cosmos3ForConditionalGeneration",
                                          "CwmForCausalLM",
                                          "DbrxForCausalLM",
                                          "DeciLMForCausalLM",
                                          "DeepseekForCausalLM",
                                          "DeepseekOCR2ForCausalLM",
                                          "DeepseekOCRForCausalLM",
                                          "DeepseekV2ForCausalLM",
                                          "DeepseekV32ForCausalLM",
                                          "DeepseekV3ForCausalLM",
                                          "DeepseekV4ForCausalLM",
                                          "DeepseekVLV2ForCausalLM",
                                          "DiffusionGemmaForBlockDiffusion",
                                          "Dots3NoteForCausalLM",
                                          "DotsOCRForCausalLM",
                                          "Eagle2_5_VLForConditionalGeneration",
                                          "Ernie4_5ForCausalLM",
                                          "Ernie4_5_MoeForCausalLM",
                                          "Ernie4_5_VLMoeForConditionalGeneration",
                                          "Exaone4ForCausalLM",
                                          "Exaone4_5_ForConditionalGeneration",
                                          "ExaoneForCausalLM",
                                          "ExaoneMoeForCausalLM",
                                          "Fairseq2LlamaForCausalLM",
                                          "FalconForCausalLM",
                                          "FalconH1ForCausalLM",
                                          "FalconMambaForCausalLM",
                                          "FireRedASR2ForConditionalGeneration",
                                          "FireRedLIDForConditionalGeneration",
                                          "FlexOlmoForCausalLM",
                                          "FunASRForConditionalGeneration",
                                          "FunAudioChatForConditionalGeneration",
                                          "GLM4VForCausalLM",
                                          "GPT2ForSequenceClassification",
                                          "GPT2LMHeadModel",
                                          "GPTJForCausalLM",
                                          "GPTNeoXForCausalLM",
                                          "Gemma2ForCausalLM",
                                          "Gemma2Model",
                                          "Gemma3ForCausalLM",
                                          "Gemma3ForConditionalGeneration",
                                          "Gemma3TextModel",
                                          "Gemma3nForCausalLM",
                                          "Gemma3nForConditionalGeneration",
                                          "Gemma4ForCausalLM",
                                          "Gemma4ForConditionalGeneration",
                                          "Gemma4UnifiedForConditionalGeneration",
                                          "GemmaForCausalLM",
                                          "Glm4ForCausalLM",
                                          "Glm4MoeForCausalLM",
                                          "Glm4MoeLiteForCausalLM",
                                          "Glm4vForConditionalGeneration",
                                          "Glm4vMoeForConditionalGeneration",
                                          "GlmAsrForConditionalGeneration",
                                          "GlmForCausalLM",
                                          "GlmMoeDsaForCausalLM",
                                          "GlmOcrForConditionalGeneration",
                                          "GptOssForCausalLM",
                                          "Granite4VisionForConditionalGeneration",
                                          "GraniteForCausalLM",
                                          "GraniteMoeForCausalLM",
                                          "GraniteMoeHybridForCausalLM",
                                          "GraniteMoeSharedForCausalLM",
                                          "GraniteSpeechForConditionalGeneration",
                                          "GraniteSpeechPlusForConditionalGeneration",
                                          "GritLM",
                                          "GteModel",
                                          "GteNewForSequenceClassification",
                                          "GteNewModel",
                                          "H2OVLChatModel",
                                          "HCXVisionForCausalLM",
                                          "HCXVisionV2ForCausalLM",
                                          "HF_ColBERT",
                                          "HYV3ForCausalLM",
                                          "HfMoondream",
                                          "HrmTextForCausalLM",
                                          "HunYuanDenseV1ForCausalLM",
                                          "HunYuanMoEV1ForCausalLM",
                                          "HunYuanVLForConditionalGeneration",
                                          "HyperCLOVAXForCausalLM",
                                          "IQuestCoderForCausalLM",
                                          "IQuestLoopCoderForCausalLM",
                                          "Idefics3ForConditionalGeneration",
                                          "InklingForCausalLM",
                                          "InklingForConditionalGeneration",
                                          "InternLM2ForCausalLM",
                                          "InternLM2ForRewardModel",
                                          "InternLM3ForCausalLM",
                                          "InternS1ForConditionalGeneration",
                                          "InternS1ProForConditionalGeneration",
                                          "InternS2MobiusForConditionalGeneration",
                                          "InternS2PreviewForConditionalGeneration",
                                          "InternVLChatModel",
                                          "InternVLForConditionalGeneration",
                                          "IsaacForConditionalGeneration",
                                          "Jais2ForCausalLM",
                                          "JambaForCausalLM",
                                          "JambaForSequenceClassification",
                                          "JinaEmbeddingsV5Model",
                                          "JinaForRanking",
                                          "JinaVLForRanking",
                                          "KananaVForConditionalGeneration",
                                          "KeyeForConditionalGeneration",
                                          "KeyeVL1_5ForConditionalGeneration",
                                          "KimiK25ForConditionalGeneration",
                                          "KimiK3ForConditionalGeneration",
                                          "KimiLinearForCausalLM",
                                          "KimiVLForConditionalGeneration",
                                          "LLaMAForCausalLM",
                                          "LagunaForCausalLM",
                                          "Lfm2ForCausalLM",
                                          "Lfm2MoeForCausalLM",
                                          "Lfm2VlForConditionalGeneration",
                                          "LightOnOCRForConditionalGeneration",
                                          "Llama4ForCausalLM",
                                          "Llama4ForConditionalGeneration",
                                          "LlamaBidirectionalForSequenceClassification",
                                          "LlamaBidirectionalModel",
                                          "LlamaForCausalLM",
                                          "LlamaModel",
                                          "LlamaNemotronVLForSequenceClassification",
                                          "LlamaNemotronVLModel",
                                          "Llama_Nemotron_Nano_VL",
                                          "LlavaForConditionalGeneration",
                                          "LlavaNextForConditionalGeneration",
                                          "LlavaNextVideoForConditionalGeneration",
                                          "LlavaOnevision2ForConditionalGeneration",
                                          "LlavaOnevisionForConditionalGeneration",
                                          "LongcatFlashForCausalLM",
                                          "LongcatFlashNgramForCausalLM",
                                          "MPTForCausalLM",
                                          "Mamba2ForCausalLM",
                                          "MambaForCausalLM",
                                          "MellumForCausalLM",
                                          "MiDashengLMModel",
                                          "MiMoForCausalLM",
                                          "MiMoV2FlashForCausalLM",
                                          "MiMoV2ForCausalLM",
                                          "MiMoV2OmniForCausalLM",
                                          "MiniCPM3ForCausalLM",
                                          "MiniCPMForCausalLM",
                                          "MiniCPMO",
                                          "MiniCPMV",
                                          "MiniCPMV4_6ForConditionalGeneration",
                                          "MiniMaxM2ForCausalLM",
                                          "MiniMaxM3SparseForCausalLM",
                                          "MiniMaxM3SparseForConditionalGeneration",
                                          "Ministral3ForCausalLM",
                                          "Mistral3ForConditionalGeneration",
                                          "MistralForCausalLM",
                                          "MistralLarge3ForCausalLM",
                                          "MistralModel",
                                          "MixtralForCausalLM",
                                          "ModernBertForSequenceClassification",
                                          "ModernBertForTokenClassification",
                                          "ModernBertModel",
                                          "Molmo2ForConditionalGeneration",
                                          "MolmoForCausalLM",
                                          "Moondream3ForCausalLM",
                                          "MoonshotKimiaForCausalLM",
                                          "MossAudioModel",
                                          "MossTranscribeDiarizeForConditionalGeneration",
                                          "MptForCausalLM",
                                          "MuseGlimmerForCausalLM",
                                          "MuseGlimmerForConditionalGeneration",
                                          "NVLM_D",
                                          "NemotronForCausalLM",
                                          "NemotronHForCausalLM",
                                          "NemotronHPuzzleForCausalLM",
                                          "NemotronH_Nano_Omni_Reasoning_V3",
                                          "NemotronH_Nano_VL_V2",
                                          "NemotronH_Super_Omni_Reasoning_V3",
                                          "NemotronParseForConditionalGeneration",
                                          "NomicBertModel",
                                          "OPTForCausalLM",
                                          "Olmo3ForCausalLM",
                                          "OlmoHybridForCausalLM",
                                          "OlmoeForCausalLM",
                                          "OpenAIPrivacyFilterForTokenClassification",
                                          "OpenCUAForConditionalGeneration",
                                          "OpenPanguVLForConditionalGeneration",
                                          "OpenVLAForActionPrediction",
                                          "OpsColQwen3Model",
                                          "OrionForCausalLM",
                                          "Ovis",
                                          "Ovis2_5",
                                          "Ovis2_6ForCausalLM",
                                          "Ovis2_6_MoeForCausalLM",
                                          "PaddleOCRVLForConditionalGeneration",
                                          "PaliGemmaForConditionalGeneration",
                                          "PanguEmbeddedForCausalLM",
                                          "PanguProMoEV2ForCausalLM",
                                          "PanguUltraMoEForCausalLM",
                                          "Param2MoEForCausalLM",
                                          "Phi3ForCausalLM",
                                          "Phi3VForCausalLM",
                                          "Phi4ForCausalLMV",
                                          "Phi4MMForCausalLM",
                                          "PhiForCausalLM",
                                          "PhiMoEForCausalLM",
                                          "PixtralForConditionalGeneration",
                                          "Plamo3ForCausalLM",
                                          "QianfanOCRForConditionalGeneration",
                                          "Qwen2AudioForConditionalGeneration",
                                          "Qwen2ForCausalLM",
                                          "Qwen2ForProcessRewardModel",
                                          "Qwen2ForRewardModel",
                                          "Qwen2Model",
                                          "Qwen2MoeForCausalLM",
                                          "Qwen2VLForConditionalGeneration",
                                          "Qwen2_5OmniForConditionalGeneration",
                                          "Qwen2_5OmniModel",
                                          "Qwen2_5_VLForConditionalGeneration",
                                          "Qwen3ASRForConditionalGeneration",
                                          "Qwen3ASRForcedAlignerForTokenClassification",
                                          "Qwen3ASRRealtimeGeneration",
                                          "Qwen3ForCausalLM",
                                          "Qwen3MoeForCausalLM",
                                          "Qwen3NextForCausalLM",
                                          "Qwen3OmniMoeForConditionalGeneration",
                                          "Qwen3VLForConditionalGeneration",
                                          "Qwen3VLMoeForConditionalGeneration",
                                          "Qwen3VLNemotronEmbedModel",
                                          "Qwen3_5ForCausalLM",
                                          "Qwen3_5ForConditionalGeneration",
                                          "Qwen3_5MoeForCausalLM",
                                          "Qwen3_5MoeForConditionalGeneration",
                                          "RForConditionalGeneration",
                                          "RWForCausalLM",
                                          "Rnj1ForCausalLM",
                                          "RobertaForMaskedLM",
                                          "RobertaForSequenceClassification",
                                          "RobertaForTokenClassification",
                                          "RobertaModel",
                                          "SarvamMLAForCausalLM",
                                          "SarvamMoEForCausalLM",
                                          "SeedOssForCausalLM",
                                          "SiglipModel",
                                          "SkyworkR1VChatModel",
                                          "SmolVLMForConditionalGeneration",
                                          "SolarForCausalLM",
                                          "StableLMEpochForCausalLM",
                                          "StableLmForCausalLM",
                                          "Step1ForCausalLM",
                                          "Step3TextForCausalLM",
                                          "Step3VLForConditionalGeneration",
                                          "Step3p5ForCausalLM",
                                          "Step3p7ForConditionalGeneration",
                                          "StepVLForConditionalGeneration",
                                          "TeleChat2ForCausalLM",
                                          "TeleChat3ForCausalLM",
                                          "TeleFLMForCausalLM",
                                          "UltravoxModel",
                                          "UnlimitedOCRForCausalLM",
                                          "VoxtralForConditionalGeneration",
                                          "VoxtralRealtimeGeneration",
                                          "VoyageQwen3BidirectionalEmbedModel",
                                          "WhisperForConditionalGeneration",
                                          "XLMRobertaForSequenceClassification",
                                          "XLMRobertaForTokenClassification",
                                          "XLMRobertaModel",
                                          "Zamba2ForCausalLM"};

TEST(HfRegistry, E9_NoArchitectureIsRefusedForItsName) {
  for (const auto* architecture : kArchitectures) {
    const auto config = parse_hf_config("m/config.json", testing::dense_config({.architecture = architecture}));
    if (config) continue;
    // A family whose layers need more fields says which.
    EXPECT_EQ(config.error().code, "bad_model_file") << architecture;
    EXPECT_THAT(config.error().message, ::testing::ContainsRegex("missing|neither .* is there")) << architecture;
    EXPECT_THAT(config.error().hint, ::testing::Not(::testing::HasSubstr("download"))) << architecture;
  }
}

}  // namespace
}  // namespace dgxmm::model
