#include "core/model/hf_config.h"

#include "tools/hf_writer.h"

#include <gtest/gtest.h>

#include <string>

namespace dgxmm::model {
namespace {

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
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->hidden_size, 64);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->intermediate_size, 128);
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
  EXPECT_EQ(config->head_dim, 128);
}

TEST(HfConfig, AHeadDimOfItsOwnWins) { EXPECT_EQ(with(R"("head_dim":128)")->head_dim, 128); }

TEST(HfConfig, AbsentKvHeadsAreAsManyAsHeads) {
  const auto config = with(R"("num_key_value_heads":null)");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->kv_heads, 4);
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
  EXPECT_EQ(config->layers, 3);
  EXPECT_EQ(config->context, 512);
  EXPECT_EQ(config->dtype, "float16");
}

TEST(HfConfig, WrongTypesAreErrorsWithTheirPath) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("num_key_value_heads":[8,8,0,4])", "num_key_value_heads: expected a whole number"},
      {R"("num_hidden_layers":"32")", "num_hidden_layers: expected a whole number"},
      {R"("hidden_size":64.0)", "hidden_size: expected a whole number"},
      {R"("hidden_size":-64)", "hidden_size: expected a whole number"},
      {R"("hidden_size":99999999999999999999)", "hidden_size: expected a whole number"},
      {R"("hidden_size":1048577)", "hidden_size: expected a whole number up to 1048576"},
      {R"("vocab_size":{})", "vocab_size: expected a whole number"},
      {R"("vocab_size":true)", "vocab_size: expected a whole number"},
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
      {R"("sliding_window":"4096")", "sliding_window: expected a whole number"},
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
      {R"("layer_types":["full_attention"])", "layer_types has 1 elements, but num_hidden_layers is 2"},
      {R"("hidden_size":3)", "hidden_size 3 gives no room to num_attention_heads 4"},
      {R"("num_experts":4,"num_experts_per_tok":8)", "num_experts_per_tok is 8, but there are 4 experts"},
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

TEST(HfConfig, E9_OtherArchitecturesAreNeverReadAsDense) {
  for (const auto* architecture :
       {"Gemma3ForConditionalGeneration", "Gemma2ForCausalLM", "GptOssForCausalLM", "DeepseekV3ForCausalLM",
        "MambaForCausalLM", "Qwen3NextForCausalLM", "GraniteMoeHybridForCausalLM", "LlavaForConditionalGeneration",
        "FalconForCausalLM", "Cohere2ForCausalLM", "Llama4ForConditionalGeneration", "BertModel", "llamaforcausallm",
        ""}) {
    const auto config = parse(testing::dense_config({.architecture = architecture}));
    EXPECT_EQ(code(config), "model_not_supported") << architecture;
    EXPECT_NE(message(config).find(std::string{"architecture '"} + architecture + "' is not supported yet"),
              std::string::npos);
  }
}

TEST(HfConfig, KeysOfAnotherLayoutAreNotSupportedUnlessTheyAreOff) {
  for (const auto* members : {R"("kv_lora_rank":512)", R"("attention_chunk_size":8192)", R"("block_configs":[{}])",
                              R"("dual_chunk_attention_config":{})", R"("text_config":{"num_hidden_layers":40})",
                              R"("num_kv_shared_layers":10)", R"("layer_types":["full_attention","sliding_attention"])",
                              R"("layer_types":["linear_attention","full_attention"])"}) {
    EXPECT_EQ(code(with(members)), "model_not_supported") << members;
  }
  for (const auto* members : {R"("kv_lora_rank":null)", R"("num_kv_shared_layers":0)", R"("text_config":null)"}) {
    EXPECT_EQ(code(with(members)), "ok") << members;
  }
}

TEST(HfConfig, OnlyAWindowThatDropsTokensIsASlidingWindow) {
  for (const auto* members : {R"("sliding_window":null)", R"("sliding_window":0)", R"("sliding_window":4096)",
                              R"("sliding_window":131072)", R"("sliding_window":512,"use_sliding_window":false)",
                              R"("sliding_window":512,"layer_types":["full_attention","full_attention"])"}) {
    EXPECT_EQ(code(with(members)), "ok") << members;
  }
  for (const auto* members : {R"("sliding_window":4095)", R"("sliding_window":512,"use_sliding_window":true)",
                              R"("sliding_window":512,"layer_types":null)"}) {
    EXPECT_EQ(code(with(members)), "model_not_supported") << members;
  }
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

TEST(HfDescription, FilesWithoutTensorsAreNoModel) {
  const auto config = parse(testing::dense_config());
  const auto model = describe_safetensors("m", "m", *config, {}, {});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "bad_model_file");
}

}  // namespace
}  // namespace dgxmm::model
