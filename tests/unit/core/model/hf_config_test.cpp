#include "core/model/hf_config.h"

#include "tools/hf_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dgxmm::model {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string code(const Result<HfConfig>& result) { return result ? "ok" : result.error().code; }
std::string message(const Result<HfConfig>& result) { return result ? "ok" : result.error().message; }

Result<HfConfig> parse(const std::string& text) { return parse_hf_config("m/config.json", text); }

/// A Llama config with members added or replaced: the last of two equal keys counts.
Result<HfConfig> with(const std::string& members, const testing::DenseHf& shape = {}) {
  auto text = testing::dense_config(shape);
  text.back() = ',';
  return parse(text + members + "}");
}

TEST(HfConfig, ADenseConfigIsRead) {
  const auto config = parse(testing::dense_config());
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->architecture, "LlamaForCausalLM");
  const Layer layer{.attention = Attention{.n_head = 4, .n_head_kv = 2, .key_length = 16, .value_length = 16},
                    .feed_forward_length = 128};
  EXPECT_EQ(config->layers, std::vector<Layer>(2, layer));
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->vocabulary, 256);
  EXPECT_EQ(config->context, 4096);
  EXPECT_EQ(config->tied_embeddings, false);
  EXPECT_EQ(config->dtype, "bfloat16");
  EXPECT_FALSE(config->experts);
  EXPECT_FALSE(config->quantization);
  EXPECT_TRUE(config->missing_fields.empty());
}

TEST(HfConfig, I5_ANullHeadDimIsTheQuotient) {
  const auto config = with(R"("head_dim":null)", {.hidden = 6144, .heads = 48, .kv_heads = 8});
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->layers.front().attention->key_length, 128);
}

TEST(HfConfig, AHeadDimOfItsOwnWins) {
  EXPECT_EQ(with(R"("head_dim":128)")->layers.front().attention->key_length, 128);
}

TEST(HfConfig, AbsentKvHeadsAreAsManyAsHeads) {
  const auto config = with(R"("num_key_value_heads":null)");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->layers.front().attention->n_head_kv, 4);
  EXPECT_TRUE(config->missing_fields.empty()) << "the engine's own rule, not a gap";
}

TEST(HfConfig, I10_AMissingDimensionIsNeverFilledByADefault) {
  for (const auto* key :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "intermediate_size"}) {
    const auto config = with("\"" + std::string{key} + "\":null");
    EXPECT_EQ(code(config), "bad_model_file") << key;
    EXPECT_NE(message(config).find("cannot estimate"), std::string::npos) << message(config);
    EXPECT_NE(message(config).find(key), std::string::npos) << message(config);
    EXPECT_NE(message(config).find("m/config.json"), std::string::npos);
  }
}

TEST(HfConfig, E7_AMissingContextIsTheEnginesDefaultAndIsRecorded) {
  const auto config = with(R"("max_position_embeddings":null)");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->context, 2048);
  EXPECT_EQ(config->missing_fields, std::vector<std::string>{"max_position_embeddings"});
}

TEST(HfConfig, OlderNamesOfDimensionsAreUnderstood) {
  const auto config =
      parse(R"({"architectures":["InternLM2ForCausalLM"],"n_layer":3,"n_embd":32,"n_head":4,"n_inner":64,
                                "vocab_size":10,"n_positions":512,"dtype":"float16"})");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->layers.size(), 3U);
  EXPECT_EQ(config->context, 512);
  EXPECT_EQ(config->dtype, "float16");
}

TEST(HfConfig, WrongTypesAreErrorsWithTheirPath) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_key_value_heads":[2,"2"])", "num_key_value_heads[1]: expected a whole number"},
      {R"("num_hidden_layers":"32")", "num_hidden_layers: expected a whole number"},
      {R"("hidden_size":64.0)", "hidden_size: expected a whole number"},
      {R"("hidden_size":-64)", "hidden_size: expected a whole number"},
      {R"("hidden_size":99999999999999999999)", "hidden_size: expected a whole number"},
      {R"("hidden_size":1048577)", "hidden_size: expected a whole number up to 1048576"},
      {R"("vocab_size":{})", "vocab_size: expected a whole number"},
      {R"("vocab_size":true)", "vocab_size: expected a whole number"},
      {R"("max_position_embeddings":1073741825)",
       "m/config.json: max_position_embeddings: expected a whole number up to 1073741824"},
      {R"("num_hidden_layers":0)", "num_hidden_layers: expected more than 0"},
      {R"("head_dim":"128")", "head_dim: expected a whole number"},
      {R"("tie_word_embeddings":1)", "tie_word_embeddings: expected true or false"},
      {R"("torch_dtype":16)", "torch_dtype: expected text"},
      {R"("architectures":"LlamaForCausalLM")", "architectures: expected a list"},
      {R"("architectures":[])", "architectures: expected a list"},
      {R"("architectures":[1])", "architectures[0]: expected text"},
      {R"("architectures":null)", "architectures: expected a list"},
      {R"("layer_types":"full")", "layer_types: expected a list"},
      {R"("layer_types":["full_attention",1])", "layer_types[1]: expected text"},
      {R"("quantization_config":"fp8")", "quantization_config: expected an object"},
      {R"("rope_scaling":{},"sliding_window":"4096")", "sliding_window: expected a whole number"},
      {R"("num_local_experts":8)", "num_experts_per_tok is missing"},
  };
  for (const auto& [members, expected] : cases) {
    const auto config = with(members);
    EXPECT_EQ(code(config), "bad_model_file") << members;
    EXPECT_NE(message(config).find(expected), std::string::npos) << message(config);
  }
}

TEST(HfConfig, ContradictionsNameBothSides) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_key_value_heads":3)", "num_attention_heads 4 is not a multiple of num_key_value_heads 3"},
      {R"("num_key_value_heads":0)", "num_key_value_heads 0"},
      {R"("layer_types":["full_attention"])", "layer_types has 1 element, but num_hidden_layers is 2"},
      {R"("hidden_size":3)", "hidden_size 3 gives no room to num_attention_heads 4"},
      {R"("num_experts":4,"num_experts_per_tok":8)", "num_experts_per_tok is 8, but there are 4 experts"},
  };
  for (const auto& [members, expected] : cases) {
    const auto config = with(members);
    EXPECT_EQ(code(config), "bad_model_file") << members;
    EXPECT_NE(message(config).find(expected), std::string::npos) << message(config);
  }
}

TEST(HfConfig, ContradictionsOfOtherLayoutsNameBothSides) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("architectures":["Qwen3NextForCausalLM"],"full_attention_interval":2,
          "layer_types":["full_attention","linear_attention"])",
       "full_attention_interval 2 makes layer 0 linear attention, but layer_types says the opposite"},
      {R"("architectures":["NemotronHForCausalLM"],"hybrid_override_pattern":"M*-")",
       "hybrid_override_pattern has 3 elements, but num_hidden_layers is 2"},
      {R"("architectures":["KimiLinearForCausalLM"],"linear_attn_config":{"full_attn_layers":[1],"kda_layers":[1]})",
       "layer 1 is in both of linear_attn_config.full_attn_layers and kda_layers"},
      {R"("architectures":["KimiLinearForCausalLM"],"linear_attn_config":{"full_attn_layers":[1],"kda_layers":[]})",
       "layer 2 is in none of linear_attn_config.full_attn_layers and kda_layers"},
      {R"("architectures":["Gemma2ForCausalLM"],"sliding_window":null)",
       "layer 0 has a window, but sliding_window is missing"},
      {R"("architectures":["DeepseekV4ForCausalLM"],"sliding_window":128,"index_head_dim":128,"compress_ratios":[4])",
       "compress_ratios has 1 element, but there are 2 layers"},
      {R"("architectures":["MiniMaxM3ForCausalLM"],
          "sparse_attention_config":{"sparse_index_dim":128,"sparse_attention_freq":[0]})",
       "sparse_attention_config.sparse_attention_freq has 1 element, but there are 2 layers"},
      {R"("architectures":["MiMoV2FlashForCausalLM"],"hybrid_layer_pattern":[0,1],"sliding_window":128,
          "swa_num_key_value_heads":3)",
       "swa_num_attention_heads 4 is not a multiple of swa_num_key_value_heads 3"},
      {R"("architectures":["GraniteMoeHybridForCausalLM"],"layer_types":["mamba","attention"],"mamba_expand":2,
          "mamba_n_heads":3,"mamba_d_head":16,"mamba_d_state":8,"mamba_n_groups":1,"mamba_d_conv":4)",
       "Mamba layers are 128 wide, but have 3 heads of 16"},
      {R"("num_key_value_heads":[2])", "num_key_value_heads has 1 element, but there are 2 layers"},
      {R"("architectures":["GlmMoeDsaForCausalLM"],"kv_lora_rank":32,"qk_rope_head_dim":8,"qk_nope_head_dim":8,
          "v_head_dim":8,"index_head_dim":128,"index_topk_freq":4,"indexer_types":["full","shared"])",
       "index_topk_freq 4 gives layer 1 an indexer, but indexer_types says the opposite"},
      {R"("architectures":["DeepseekV3ForCausalLM"],"kv_lora_rank":512)", "qk_rope_head_dim is missing"},
      {R"("architectures":["DeciLMForCausalLM"],"block_configs":[{"attention":{"n_heads_in_group":0}},{}])",
       "block_configs[1].attention: expected an object"},
      {R"("architectures":["JambaForCausalLM"],"attn_layer_period":0)", "attn_layer_period: expected more than 0"},
      {R"("architectures":["Gemma3ForCausalLM"],"sliding_window_pattern":0)",
       "sliding_window_pattern: expected more than 0"},
      {R"("architectures":["Llama4ForConditionalGeneration"],"attention_chunk_size":8192,"no_rope_layers":[1])",
       "no_rope_layers has 1 element, but num_hidden_layers is 2"},
  };
  for (const auto& [members, expected] : cases) {
    const auto config = with(members);
    EXPECT_EQ(code(config), "bad_model_file") << members;
    EXPECT_NE(message(config).find(expected), std::string::npos) << message(config);
  }
}

TEST(HfConfig, WhatIsNotJsonIsTold) {
  for (const auto& text :
       {std::string{}, std::string{"{"}, std::string{"[]"}, std::string{"null"}, std::string{"\xff\xfe"},
        testing::repeated('[', 10'000'000), R"({"a":)" + testing::repeated('{', 100'000)}) {
    EXPECT_EQ(code(parse(text)), "bad_model_file");
  }
}

// Each of these names another kind of layer; a file with nothing but the fields of a dense model contradicts it.
TEST(HfConfig, E9_OtherArchitecturesAreNeverReadAsDense) {
  for (const auto* architecture :
       {"GptOssForCausalLM", "Gemma4ForConditionalGeneration", "MambaForCausalLM", "Qwen3NextForCausalLM",
        "GraniteMoeHybridForCausalLM", "NemotronHForCausalLM", "JambaForCausalLM", "KimiLinearForCausalLM",
        "Lfm2ForCausalLM", "DeepseekV4ForCausalLM", "MiMoV2FlashForCausalLM", "WhisperForConditionalGeneration"}) {
    EXPECT_EQ(code(parse(testing::dense_config({.architecture = architecture}))), "bad_model_file") << architecture;
  }
}

TEST(HfConfig, E8_AnUnknownClassOfAKnownTypeSaysSo) {
  const auto config = with(R"("architectures":["BrandNewForCausalLM"],"model_type":"llama")");
  ASSERT_TRUE(config) << message(config);
  EXPECT_THAT(config->missing_fields,
              ElementsAre("architectures (BrandNewForCausalLM is not known, and is read as its model_type)"));
  const auto head = with(R"("architectures":["LlamaForCausalLMEagle3"],"model_type":"llama")");
  ASSERT_TRUE(head) << message(head);
  EXPECT_TRUE(head->missing_fields.empty());
}

TEST(HfConfig, Qwen3NextHasALayerForMultiTokenPredictionThatItsFilesDoNotMention) {
  const std::string members = R"("architectures":["Qwen3NextForCausalLM"],"model_type":"qwen3_next",
      "full_attention_interval":2,"linear_num_key_heads":16,"linear_num_value_heads":32,"linear_key_head_dim":128,
      "linear_value_head_dim":128,"linear_conv_kernel_dim":4)";
  const auto config = with(members);
  ASSERT_TRUE(config) << message(config);
  ASSERT_EQ(config->nextn_layers.size(), 1U);
  EXPECT_TRUE(config->nextn_layers.front().attention);
  EXPECT_FALSE(config->nextn_layers.front().recurrent);
  EXPECT_TRUE(with(members + R"(,"num_nextn_predict_layers":0)")->nextn_layers.empty());
}

TEST(HfConfig, E9_EveryRefusalHasAWayOut) {
  for (const auto* members : {R"("num_key_value_heads":"2")", R"("hidden_size":-1)", R"("architectures":null)",
                              R"("num_key_value_heads":3)", R"("quantization_config":7)"}) {
    const auto config = with(members);
    ASSERT_FALSE(config) << members;
    EXPECT_FALSE(config.error().hint.empty()) << members;
  }
}

TEST(HfConfig, E8_AnUnknownArchitectureIsReadWhenItsLayersAreCertainAndSaysSo) {
  const auto config = parse(testing::dense_config({.architecture = "BrandNewForCausalLM"}));
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->layers.front().attention->kind, AttentionKind::full);
  EXPECT_EQ(config->missing_fields, std::vector<std::string>{"architectures (BrandNewForCausalLM is not known)"});
  // What may give its layers something else is named, and counted as what keeps most.
  for (const auto* key : {"mamba_d_state", "kv_lora_rank", "linear_num_key_heads", "attn_layer_period", "index_topk"}) {
    const auto hinted = with(fmt::format(R"("architectures":["BrandNewForCausalLM"],"{}":16)", key));
    ASSERT_TRUE(hinted) << message(hinted);
    EXPECT_THAT(hinted->missing_fields, Contains(fmt::format("what {} makes of its layers", key)));
    EXPECT_EQ(hinted->layers, config->layers);
  }
  const auto listed =
      with(R"("architectures":["BrandNewForCausalLM"],"layer_types":["full_attention","linear_attention"])");
  ASSERT_TRUE(listed) << message(listed);
  EXPECT_THAT(listed->missing_fields, Contains("what 'linear_attention' in layer_types is"));
  EXPECT_EQ(listed->layers, config->layers);
  const auto off = with(R"("architectures":["BrandNewForCausalLM"],"kv_lora_rank":null,"add_cross_attention":false,
                           "chunk_size_feed_forward":0,"num_kv_shared_layers":0)");
  EXPECT_EQ(code(off), "ok") << message(off);
}

TEST(HfConfig, E8_KeysOfAnotherLayoutMakeAPlainModelUncertainUnlessTheyAreOff) {
  for (const auto* members :
       {R"("kv_lora_rank":512)", R"("attention_chunk_size":8192)", R"("block_configs":[{}])",
        R"("dual_chunk_attention_config":{"a":1})", R"("num_kv_shared_layers":10)",
        R"("per_layer_config":{"0":{"sliding_window":8}})", R"("layer_types":["linear_attention","full_attention"])"}) {
    const auto config = with(members);
    ASSERT_TRUE(config) << message(config);
    EXPECT_EQ(config->missing_fields.size(), 1U) << members;
  }
  for (const auto* members : {R"("kv_lora_rank":null)", R"("num_kv_shared_layers":0)", R"("text_config":null)",
                              R"("per_layer_config":{"0":{}})"}) {
    const auto config = with(members);
    ASSERT_TRUE(config) << message(config);
    EXPECT_THAT(config->missing_fields, IsEmpty()) << members;
  }
}

TEST(HfConfig, AWindowCountsForAllLayersUnlessTheyAreListedOrItIsOff) {
  const auto kinds = [](const std::string& members) {
    const auto config = with(members);
    std::string text;
    for (const auto& layer : config ? config->layers : std::vector<Layer>{}) {
      text += layer.attention->kind == AttentionKind::sliding_window ? 'w' : 'f';
    }
    return config ? text : message(config);
  };
  EXPECT_EQ(kinds(R"("sliding_window":null)"), "ff");
  EXPECT_EQ(kinds(R"("sliding_window":0)"), "ff");
  EXPECT_EQ(kinds(R"("sliding_window":131072,"use_sliding_window":false)"), "ff");
  EXPECT_EQ(kinds(R"("sliding_window":512,"layer_types":["full_attention","full_attention"])"), "ff");
  EXPECT_EQ(kinds(R"("sliding_window":512,"use_sliding_window":false,
                     "layer_types":["sliding_attention","full_attention"])"),
            "ff");
  EXPECT_EQ(kinds(R"("sliding_window":512)"), "ww");
  EXPECT_EQ(kinds(R"("sliding_window":512,"use_sliding_window":true,"max_window_layers":1)"), "fw");
  EXPECT_EQ(kinds(R"("sliding_window":512,"layer_types":["full_attention","sliding_attention"])"), "fw");
  EXPECT_EQ(kinds(R"("sliding_window":512,"sliding_window_pattern":2)"), "wf");
  EXPECT_EQ(kinds(R"("sliding_window":512,"sliding_window_pattern":"LG")"), "wf");
  EXPECT_EQ(with(R"("sliding_window":512)")->layers.front().attention->window, 512);
}

TEST(HfConfig, AContextIsTheLeastOfItsKeysStretchedByRopeScaling) {
  EXPECT_EQ(with(R"("model_max_length":2048)")->context, 2048);
  EXPECT_EQ(with(R"("rope_scaling":{"rope_type":"linear","factor":2.0})")->context, 8192);
  EXPECT_EQ(with(R"("rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":1024})")->context,
            4096);
  // One that versions of vLLM understand differently is the smaller of what they say.
  const auto yarn = [](int factor, int original) {
    return with(
               fmt::format(R"("rope_scaling":{{"rope_type":"yarn","factor":{},"original_max_position_embeddings":{}}})",
                           factor, original))
        ->context;
  };
  EXPECT_EQ(yarn(4, 2048), 4096) << "max_position_embeddings is not stretched";
  EXPECT_EQ(yarn(2, 1024), 2048);
  for (const auto* type : {"su", "longrope", "llama3"}) {
    EXPECT_EQ(with(R"("rope_scaling":{"type":")" + std::string{type} + R"(","factor":8.0})")->context, 4096) << type;
  }
  EXPECT_EQ(with(R"("rope_scaling":{"rope_type":"linear","factor":1e308})")->context, kMostContext);
  EXPECT_EQ(with(R"("rope_scaling":{"rope_type":"linear","factor":"8"})")->context, 4096);
}

TEST(HfConfig, I1_I3_ALanguageModelInsideAWrapperIsTheOneThatCounts) {
  const auto nested = parse(R"({"architectures":["KimiK25ForConditionalGeneration"],"num_hidden_layers":33,
      "hidden_size":1024,"num_attention_heads":16,"vocab_size":7,"dtype":"bfloat16","tie_word_embeddings":false,
      "text_config":{"model_type":"qwen3","num_hidden_layers":40,"hidden_size":64,"num_attention_heads":4,
      "vocab_size":100,"intermediate_size":128,"max_position_embeddings":512}})");
  ASSERT_TRUE(nested) << message(nested);
  EXPECT_EQ(nested->layers.size(), 40U);
  EXPECT_EQ(nested->hidden_size, 64);
  EXPECT_EQ(nested->dtype, "bfloat16");
  EXPECT_EQ(nested->tied_embeddings, false);
  const auto omni = parse(R"({"architectures":["Qwen3OmniMoeForConditionalGeneration"],"thinker_config":{"text_config":{
      "model_type":"qwen3","num_hidden_layers":3,"hidden_size":64,"num_attention_heads":4,"vocab_size":100,
      "intermediate_size":128,"max_position_embeddings":512}}})");
  ASSERT_TRUE(omni) << message(omni);
  EXPECT_EQ(omni->layers.size(), 3U);
  const auto broken = with(R"("text_config":{"num_hidden_layers":40})");
  EXPECT_EQ(code(broken), "bad_model_file");
  EXPECT_NE(message(broken).find("text_config.hidden_size is missing"), std::string::npos) << message(broken);
}

TEST(HfConfig, I8_OlderModelsWithOneKvHead) {
  const auto heads = [](const std::string& members) {
    const auto config =
        parse(R"({"n_layer":2,"n_embd":2048,"n_head":16,"vocab_size":49280,"n_positions":2048,)" + members + "}");
    return config ? config->layers.front().attention->n_head_kv : -1;
  };
  EXPECT_EQ(heads(R"("architectures":["GPT2LMHeadModel"],"n_inner":null)"), 16);
  EXPECT_EQ(heads(R"("architectures":["GPTBigCodeForCausalLM"],"multi_query":true)"), 1);
  EXPECT_EQ(heads(R"("architectures":["FalconForCausalLM"],"multi_query":true)"), 1);
  EXPECT_EQ(heads(R"("architectures":["FalconForCausalLM"],"multi_query":true,"new_decoder_architecture":true,
                     "num_kv_heads":8)"),
            8);
  EXPECT_EQ(heads(R"("architectures":["DbrxForCausalLM"],"attn_config":{"kv_n_heads":8})"), 8);
}

TEST(HfConfig, EncodersKeepNothing) {
  const auto kind = [](const std::string& members) { return with(members)->layers.front().attention->kind; };
  EXPECT_EQ(kind(R"("architectures":["BertModel"])"), AttentionKind::bidirectional);
  EXPECT_EQ(kind(R"("architectures":["XLMRobertaForSequenceClassification"])"), AttentionKind::bidirectional);
  EXPECT_EQ(kind(R"("architectures":["Gemma3TextModel"],"model_type":"gemma3_text","sliding_window":512,
                    "use_bidirectional_attention":true)"),
            AttentionKind::bidirectional);
  EXPECT_EQ(kind(R"("architectures":["Qwen3Model"])"), AttentionKind::full) << "a decoder that is used for embeddings";
}

TEST(HfConfig, I12_KvHeadsMayDifferByLayerAndZeroIsNoCache) {
  const auto config = with(R"("num_hidden_layers":4,"num_attention_heads":16,"head_dim":128,
                              "num_key_value_heads":[8,8,0,4])");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->layers[1].attention->n_head_kv, 8);
  EXPECT_FALSE(config->layers[2].attention);
  EXPECT_EQ(config->layers[3].attention->n_head_kv, 4);
}

TEST(HfConfig, PythonsInfinitiesAreRead) {
  EXPECT_EQ(code(with(R"("time_step_limit":[0.0,Infinity],"a":-Infinity,"b":[NaN],"c":"Infinity \" NaN")")), "ok");
  EXPECT_EQ(code(with(R"("hidden_size":NaN)")), "bad_model_file");
  EXPECT_EQ(code(with(R"("hidden_size":-Infinity)")), "bad_model_file");
}

TEST(HfConfig, TheCacheTypeOfACheckpointIsRead) {
  const auto type = [](const std::string& quantization) {
    const auto config = with(R"("quantization_config":)" + quantization);
    return config ? config->kv_cache_dtype : message(config);
  };
  EXPECT_EQ(type(R"({"quant_method":"modelopt","kv_cache_scheme":{"num_bits":8,"type":"float","dynamic":false}})"),
            "fp8_e4m3");
  EXPECT_EQ(type(R"({"quant_method":"modelopt_fp4","kv_cache_scheme":{"num_bits":4,"type":"float"}})"), "nvfp4");
  EXPECT_EQ(type(R"({"quant_method":"modelopt","kv_cache_scheme":{"num_bits":8,"type":"float","dynamic":true}})"), "");
  EXPECT_EQ(type(R"({"quant_method":"modelopt","kv_cache_quant_algo":"FP8"})"), "fp8_e4m3");
  EXPECT_EQ(type(R"({"quant_method":"modelopt","kv_cache_quant_algo":"NVFP4"})"), "nvfp4");
  EXPECT_EQ(type(R"({"quant_method":"compressed-tensors","kv_cache_scheme":{"num_bits":8}})"), "fp8");
  EXPECT_EQ(type(R"({"quant_method":"compressed-tensors","kv_cache_scheme":null})"), "");
  EXPECT_EQ(type(R"({"quant_method":"fp8","kv_cache_scheme":{"num_bits":8,"type":"float","dynamic":false}})"), "");
}

TEST(HfConfig, ExpertsOfTheFamiliesAreRead) {
  const auto mixtral = with(R"("architectures":["MixtralForCausalLM"],"num_local_experts":8,"num_experts_per_tok":2)");
  ASSERT_TRUE(mixtral) << message(mixtral);
  EXPECT_EQ(mixtral->experts, (Experts{.count = 8, .used_count = 2, .feed_forward_length = 128}));
  const auto qwen = with(R"("architectures":["Qwen2MoeForCausalLM"],"num_experts":60,"num_experts_per_tok":4,
                            "moe_intermediate_size":32,"shared_expert_intermediate_size":96)");
  ASSERT_TRUE(qwen) << message(qwen);
  EXPECT_EQ(qwen->experts,
            (Experts{.count = 60, .used_count = 4, .feed_forward_length = 32, .shared_feed_forward_length = 96}));
}

TEST(HfConfig, TheQuantizationIsNamed) {
  EXPECT_EQ(with(R"("quantization_config":{"quant_method":"fp8"})")->quantization, "fp8");
  EXPECT_EQ(with(R"("quantization_config":{"quant_method":"awq","bits":4})")->quantization, "awq-4bit");
  EXPECT_EQ(with(R"("quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"})")->quantization, "NVFP4");
  EXPECT_EQ(with(R"("quantization_config":{})")->quantization, "quantized");
}

TEST(HfConfig, HfQuantConfigCountsOnlyWhenConfigJsonSaysNothing) {
  const std::string text =
      R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8"}})";
  auto silent = with(R"("a":1)");
  ASSERT_TRUE(read_hf_quant_config(*silent, "m/hf_quant_config.json", text));
  EXPECT_EQ(silent->quantization, "NVFP4");
  EXPECT_EQ(silent->kv_cache_dtype, "fp8_e4m3");
  auto says = with(R"("quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION"})");
  ASSERT_TRUE(read_hf_quant_config(*says, "m/hf_quant_config.json", text));
  EXPECT_EQ(says->quantization, "MIXED_PRECISION");
  EXPECT_EQ(says->kv_cache_dtype, "");
  const auto broken = read_hf_quant_config(*silent, "m/hf_quant_config.json", "{");
  EXPECT_TRUE(broken) << "already known";
  auto other = with(R"("a":1)");
  EXPECT_EQ(read_hf_quant_config(*other, "m/hf_quant_config.json", "{").error().code, "bad_model_file");
  EXPECT_EQ(read_hf_quant_config(*other, "m/hf_quant_config.json", "[]").error().code, "bad_model_file");
  EXPECT_TRUE(read_hf_quant_config(*other, "m/hf_quant_config.json", "{}"));
  EXPECT_FALSE(other->quantization);
}

SafetensorsPart part_of(const testing::SafetensorsWriter& writer, std::string path = "m/model.safetensors") {
  const auto bytes = testing::SafetensorsWriter::with_length(writer.json());
  auto header = parse_safetensors(path, std::as_bytes(std::span{bytes}), writer.file_size());
  EXPECT_TRUE(header) << header.error().message;
  return {.path = std::move(path), .size = writer.file_size(), .header = std::move(*header)};
}

Result<ModelDescription> describe(const testing::DenseHf& shape, std::size_t shards = 1,
                                  const Digest& config_digest = {}) {
  const auto config = parse(testing::dense_config(shape));
  EXPECT_TRUE(config) << message(config);
  std::vector<SafetensorsPart> parts;
  for (const auto& writer : testing::dense_safetensors(shape, shards)) parts.push_back(part_of(writer));
  return describe_safetensors("m", "Test-Model-FP8", *config, config_digest, parts);
}

TEST(HfDescription, AFolderIsDescribedLayerByLayerWithAllItsFiles) {
  const auto model = describe({}, 2);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, Format::safetensors);
  EXPECT_EQ(model->name, "Test-Model-FP8");
  const Layer layer{.attention = Attention{.n_head = 4, .n_head_kv = 2, .key_length = 16, .value_length = 16},
                    .feed_forward_length = 128};
  EXPECT_EQ(model->layers, std::vector<Layer>(2, layer));
  EXPECT_EQ(model->files.size(), 2U);
  EXPECT_EQ(model->weights.files, model->files[0].size + model->files[1].size);
  const Bytes embedding{256 * 64 * 2};
  const Bytes per_layer{(2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128) * 2};
  EXPECT_EQ(model->weights.tensors, embedding * 2 + per_layer * 2 + Bytes{64 * 2});
  EXPECT_EQ(model->weights.token_embedding, embedding);
  EXPECT_FALSE(model->weights.tied_embeddings);
  EXPECT_EQ(model->weight_dtype, "bfloat16");
  EXPECT_EQ(model->quantization, "bf16");
}

TEST(HfDescription, WithoutADtypeTheTensorsTell) {
  const auto config = with(R"("torch_dtype":null,"tie_word_embeddings":null)");
  ASSERT_TRUE(config);
  const auto part = part_of(testing::dense_safetensors({.dtype = "float32", .tied = true}).front());
  const auto model = describe_safetensors("m", "m", *config, {}, {&part, 1});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->weight_dtype, "float32");
  EXPECT_TRUE(model->weights.tied_embeddings) << "no output matrix in the files";
}

TEST(HfDescription, C7_TheFingerprintFollowsFilesAndConfig) {
  const auto model = describe({});
  EXPECT_EQ(describe({})->fingerprint, model->fingerprint);
  EXPECT_NE(describe({}, 2)->fingerprint, model->fingerprint);
  EXPECT_NE(describe({}, 1, Digest{1, 2})->fingerprint, model->fingerprint);
}

Result<ModelDescription> describe(const std::string& members, const testing::SafetensorsWriter& writer) {
  const auto config = with(members);
  EXPECT_TRUE(config) << message(config);
  const auto part = part_of(writer);
  return describe_safetensors("m", "m", *config, {}, {&part, 1});
}

TEST(HfDescription, E2_LayersForMultiTokenPredictionAreToldApart) {
  const auto writer = testing::SafetensorsWriter{}
                          .tensor("model.layers.0.mlp.up_proj.weight", "BF16", {10})
                          .tensor("model.layers.1.mlp.up_proj.weight", "BF16", {10})
                          .tensor("model.layers.2.mlp.up_proj.weight", "BF16", {100})
                          .tensor("mtp.layers.0.mlp.up_proj.weight", "BF16", {1000})
                          .tensor("lm_head.weight", "BF16", {7});
  EXPECT_EQ(describe(R"("num_nextn_predict_layers":1)", writer)->weights.nextn_tensors, Bytes{2200});
  EXPECT_EQ(describe(R"("num_nextn_predict_layers":1)", writer)->nextn_layers.size(), 1U);
  EXPECT_EQ(describe(R"("num_nextn_predict_layers":0)", writer)->weights.nextn_tensors, Bytes{2000})
      << "a layer beyond the last is one only of models that have any";
}

TEST(HfDescription, E2_TensorsThatAreLoadedDifferentlyAreSummed) {
  const auto writer = testing::SafetensorsWriter{}
                          .tensor("model.embed_tokens.weight", "BF16", {10})
                          .tensor("lm_head.weight", "BF16", {10})
                          .tensor("model.visual.blocks.7.attn.qkv.weight", "BF16", {100})
                          .tensor("model.layers.0.mlp.experts.3.up_proj.weight", "BF16", {1000})
                          .tensor("model.layers.0.mlp.gate.weight", "F32", {5})
                          .tensor("model.layers.1.mlp.up_proj.weight", "BF16", {1});
  const auto tied = describe(R"("tie_word_embeddings":true)", writer);
  ASSERT_TRUE(tied);
  EXPECT_EQ(tied->weights.unused_output, Bytes{20});
  EXPECT_EQ(tied->weights.vision_tensors, Bytes{200});
  EXPECT_EQ(tied->weights.expert_tensors, Bytes{2000});
  EXPECT_EQ(tied->weights.float32_tensors, Bytes{20});
  EXPECT_EQ(describe(R"("tie_word_embeddings":false)", writer)->weights.unused_output, Bytes{});
  const auto quantized = describe(R"("quantization_config":{"quant_method":"fp8"})", writer);
  EXPECT_EQ(quantized->weights.float32_tensors, Bytes{}) << "scales stay as they are";
}

/// What config.json is said to be wrong about, with the tensors of the small dense model of `shape`.
Result<ModelDescription> described_as(const std::string& members, const testing::DenseHf& shape = {}) {
  return describe(members, testing::dense_safetensors(shape).front());
}

TEST(HfDescription, E9_AConfigOfAnotherModelIsRefusedWithBothFigures) {
  const std::pair<const char*, const char*> wrong[] = {
      {R"("num_hidden_layers":3)",
       "config.json says 3 layers, but its files hold tensors for 2 of them: layer 2 has none"},
      {R"("vocab_size":300)", "model.embed_tokens.weight has 256 rows, but vocab_size is 300"},
      {R"("hidden_size":32,"head_dim":16)", "model.embed_tokens.weight is 64 wide, but hidden_size is 32"},
      {R"("num_attention_heads":8,"head_dim":16)",
       "model.layers.0.self_attn.q_proj.weight has 64 rows, but config.json says 8 heads of 16"},
      {R"("num_key_value_heads":4)",
       "model.layers.0.self_attn.k_proj.weight has 32 rows, but config.json says 4 heads of 16"},
  };
  for (const auto& [members, what] : wrong) {
    const auto model = described_as(members);
    ASSERT_FALSE(model) << members;
    EXPECT_EQ(model.error().code, "bad_model_file");
    EXPECT_THAT(model.error().message, HasSubstr(what));
    EXPECT_NE(model.error().hint, "");
  }
  EXPECT_TRUE(described_as("\"a\":1")->contradictions.empty());
}

TEST(HfDescription, E9_WhatTheEngineGoesOnWithIsNamed) {
  const auto more = described_as(R"("num_hidden_layers":1)");
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_THAT(more->contradictions, ElementsAre("config.json says 1 layer, its files hold tensors for 2"));
  const auto unknown = described_as(R"("architectures":["BrandNewForCausalLM"],"vocab_size":300)");
  ASSERT_TRUE(unknown) << unknown.error().message;
  EXPECT_THAT(unknown->contradictions, ElementsAre("model.embed_tokens.weight has 256 rows, but vocab_size is 300"));
  const auto one_layer = describe(R"("a":1)", testing::SafetensorsWriter{}
                                                  .tensor("model.layers.0.self_attn.k_proj.weight", "BF16", {32, 64})
                                                  .tensor("model.layers.1.self_attn.k_proj.weight", "BF16", {16, 64}));
  ASSERT_TRUE(one_layer);
  EXPECT_THAT(one_layer->contradictions, ElementsAre(HasSubstr("model.layers.1.self_attn.k_proj.weight has 16 rows")));
}

TEST(HfDescription, E9_TwoAttentionsInALayerAreNoContradiction) {
  const std::string members = R"("architectures":["LongcatFlashForCausalLM"],"kv_lora_rank":32,"qk_rope_head_dim":8,
      "qk_nope_head_dim":8,"v_head_dim":8)";
  const auto model = described_as(members);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->layers.size(), 4U);
  EXPECT_THAT(model->contradictions, IsEmpty());
  EXPECT_THAT(described_as(members + R"(,"num_hidden_layers":3)").error().message, HasSubstr("layer 2 has none"));
}

TEST(HfDescription, E9_FilesWithoutLayersContradictAConfigWithSome) {
  const auto bare =
      describe(R"("a":1)", testing::SafetensorsWriter{}.tensor("model.embed_tokens.weight", "BF16", {256, 64}));
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_THAT(bare->contradictions, ElementsAre("config.json says 2 layers, its files hold 1 tensor"));
  const auto named_otherwise =
      describe(R"("a":1)", testing::SafetensorsWriter{}
                               .tensor("transformer.h.0.attn.c_attn.weight", "BF16", {64, 192})
                               .tensor("transformer.h.1.attn.c_attn.weight", "BF16", {64, 192}));
  ASSERT_TRUE(named_otherwise);
  EXPECT_TRUE(named_otherwise->contradictions.empty());
}

TEST(HfDescription, E9_EncodersDraftsAndPackedWeightsContradictNothing) {
  const auto writer = testing::SafetensorsWriter{}
                          .tensor("model.language_model.layers.0.self_attn.q_proj.weight", "U8", {8, 64})
                          .tensor("model.language_model.layers.0.self_attn.k_proj.weight_packed", "U8", {32, 8})
                          .tensor("model.language_model.layers.1.input_layernorm.weight", "BF16", {64})
                          .tensor("vision_tower.encoder.layers.40.self_attn.q_proj.weight", "BF16", {7, 7})
                          .tensor("mtp.layers.5.self_attn.q_proj.weight", "BF16", {7, 7})
                          .tensor("talker.model.layers.30.self_attn.q_proj.weight", "BF16", {7, 7});
  const auto model = describe(R"("vision_config":{"hidden_size":32})", writer);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(model->contradictions.empty());
  // A query may come with a gate of its size.
  const auto gated = described_as(R"("num_attention_heads":2,"head_dim":16)");
  ASSERT_TRUE(gated) << gated.error().message;
  EXPECT_TRUE(gated->contradictions.empty());
}

TEST(HfDescription, E2_WhatEveryRankHoldsAndWhatCanBeQuantizedIsToldApart) {
  const auto model = describe({});
  ASSERT_TRUE(model);
  const Bytes layer{(2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128) * 2};
  EXPECT_EQ(model->weights.linear_tensors, layer * 2);
  EXPECT_EQ(model->weights.replicated_tensors, Bytes{64 * 2}) << "the norm";
  const auto others = describe(R"("num_nextn_predict_layers":1)",
                               testing::SafetensorsWriter{}
                                   .tensor("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", "BF16", {3, 5})
                                   .tensor("model.layers.1.mlp.gate.weight", "BF16", {3, 7})
                                   .tensor("model.layers.2.embed_tokens.weight", "BF16", {256, 64})
                                   .tensor("model.layers.2.shared_head.head.weight", "BF16", {256, 64})
                                   .tensor("model.layers.2.eh_proj.weight", "BF16", {64, 128})
                                   .tensor("talker.model.norm.weight", "BF16", {11}));
  ASSERT_TRUE(others) << others.error().message;
  EXPECT_EQ(others->weights.replicated_tensors, Bytes{2 * (15 + 21)});
  EXPECT_EQ(others->weights.linear_tensors, Bytes{});
  EXPECT_EQ(others->weights.nextn_copies, Bytes{2 * 2 * 256 * 64});
  EXPECT_EQ(others->weights.nextn_tensors, Bytes{2 * (2 * 256 * 64 + 64 * 128)});
  EXPECT_EQ(others->weights.speaking_tensors, Bytes{22});
}

TEST(HfDescription, E8_AnEncoderThatConfigJsonDoesNotDescribeIsAMissingField) {
  const auto writer = testing::SafetensorsWriter{}.tensor("vision_tower.x", "BF16", {10});
  EXPECT_THAT(describe(R"("a":1)", writer)->missing_fields, ElementsAre("vision_config or audio_config"));
  EXPECT_THAT(describe(R"("vision_config":{"hidden_size":8})", writer)->missing_fields, ::testing::IsEmpty());
}

TEST(HfConfig, E5_EncodersAreReadInTheWaysOfTheirFamilies) {
  const auto encoders = [](const std::string& members) {
    const auto config = with(members);
    EXPECT_TRUE(config) << message(config);
    return config ? config->encoders : std::vector<Encoder>{};
  };
  using List = std::vector<Encoder>;
  EXPECT_EQ(encoders(R"("a":1)"), List{});
  // Pictures of one size: Gemma 3, and Pixtral, of whose patches 2 x 2 become one token.
  EXPECT_EQ(
      encoders(R"("mm_tokens_per_image":256,"vision_config":{"hidden_size":1152,"image_size":896,"patch_size":14})"),
      (List{{.input = "pictures", .width = 1152, .item_patches = 4096, .item_tokens = 256}}));
  EXPECT_EQ(
      encoders(R"("spatial_merge_size":2,"vision_config":{"hidden_size":1024,"image_size":1540,"patch_size":14})"),
      (List{{.input = "pictures", .width = 1024, .item_patches = 12100, .item_tokens = 3025}}));
  // Tiles and their overview: InternVL, Llama 4, LLaVA-NeXT.
  EXPECT_EQ(encoders(R"("downsample_ratio":0.5,"max_dynamic_patch":12,
                        "vision_config":{"hidden_size":1024,"image_size":[448,448],"patch_size":[14,14]})"),
            (List{{.input = "pictures", .width = 1024, .item_patches = 13 * 1024, .item_tokens = 13 * 256}}));
  EXPECT_EQ(encoders(R"("vision_config":{"model_type":"llama4_vision_model","hidden_size":1408,"image_size":336,
                        "patch_size":14,"pixel_shuffle_ratio":0.5})"),
            (List{{.input = "pictures", .width = 1408, .item_patches = 17 * 576, .item_tokens = 17 * 144}}));
  EXPECT_EQ(encoders(R"("image_grid_pinpoints":[[336,672],[672,672],["x"],7],
                        "vision_config":{"hidden_size":1024,"image_size":336,"patch_size":14})"),
            (List{{.input = "pictures", .width = 1024, .item_patches = 5 * 576, .item_tokens = 5 * 576}}));
  // Any size: Qwen2-VL names its width differently, Qwen3-VL says how many patches it merges.
  EXPECT_EQ(
      encoders(R"("vision_config":{"embed_dim":1280,"hidden_size":3584,"spatial_patch_size":14})"),
      (List{{.input = "pictures", .width = 1280, .item_patches = 65536, .item_tokens = 16384, .token_pixels = 784}}));
  EXPECT_EQ(
      encoders(R"("vision_config":{"hidden_size":1152,"image_size":336,"patch_size":16,"temporal_patch_size":2,
                        "spatial_merge_size":2})"),
      (List{{.input = "pictures", .width = 1152, .item_patches = 65536, .item_tokens = 16384, .token_pixels = 1024}}));
  EXPECT_EQ(encoders(R"("audio_config":{"d_model":1280,"max_source_positions":1500})"),
            (List{{.input = "sound", .width = 1280, .item_patches = 1500, .item_tokens = 375}}));
}

TEST(HfConfig, E5_ThePreprocessorBoundsThePicturesOfAnySize) {
  const auto largest = [](const std::string& text) {
    auto config = with(R"("vision_config":{"hidden_size":1280,"patch_size":14,"temporal_patch_size":2})");
    EXPECT_TRUE(read_preprocessor_config(*config, "m/preprocessor_config.json", text));
    EXPECT_EQ(config->encoders.at(0).item_patches, 4 * config->encoders.at(0).item_tokens);
    return config->encoders.at(0).item_tokens;
  };
  EXPECT_EQ(largest(R"({"max_pixels":12845056})"), 16384);
  EXPECT_EQ(largest(R"({"size":{"longest_edge":1003520,"shortest_edge":3136}})"), 1280);
  for (const auto* text :
       {"{}", R"({"max_pixels":-1})", R"({"max_pixels":"x"})", R"({"max_pixels":1})", R"({"size":7})"}) {
    EXPECT_EQ(largest(text), 16384) << text;
  }
  auto config = with(R"("vision_config":{"hidden_size":64,"image_size":28,"patch_size":14})");
  const auto before = config->encoders;
  EXPECT_TRUE(read_preprocessor_config(*config, "m/preprocessor_config.json", R"({"max_pixels":12845056})"));
  EXPECT_EQ(config->encoders, before) << "of one size, whatever comes in";
  EXPECT_EQ(read_preprocessor_config(*config, "m/preprocessor_config.json", "[").error().code, "bad_model_file");
}

TEST(HfConfig, E9_AnEncoderThatIsNotUnderstoodIsAMissingFieldAndNeverACrash) {
  for (const auto* value : {"null", "-1", "0", "[]", "[[1]]", "{}", "\"x\"", "9223372036854775807", "1e300", "true"}) {
    SCOPED_TRACE(value);
    const std::string v{value};
    const auto config =
        with(R"("spatial_merge_size":)" + v + R"(,"max_dynamic_patch":)" + v + R"(,"downsample_ratio":)" + v +
             R"(,"image_grid_pinpoints":[[)" + v + "," + v + R"(]],"vision_config":{"hidden_size":)" + v +
             R"(,"image_size":)" + v + R"(,"patch_size":)" + v + R"(},"audio_config":{"d_model":)" + v + "}");
    ASSERT_TRUE(config) << message(config);
    EXPECT_TRUE(config->encoders.empty());
    EXPECT_THAT(config->missing_fields, ElementsAre("vision_config.hidden_size", "audio_config.d_model"));
    const auto width_only =
        with(R"("spatial_merge_size":)" + v + R"(,"vision_config":{"hidden_size":64,"image_size":)" + v +
             R"(,"patch_size":)" + v + "}");
    ASSERT_TRUE(width_only);
    EXPECT_EQ(width_only->encoders.at(0).item_tokens, 16384) << "a bound, not a guess";
  }
}

TEST(HfDescription, FilesWithoutTensorsAreNoModel) {
  const auto config = parse(testing::dense_config());
  const auto model = describe_safetensors("m", "m", *config, {}, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "bad_model_file");
}

}  // namespace
}  // namespace dgxmm::model
