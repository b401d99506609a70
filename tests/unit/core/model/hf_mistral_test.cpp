// params.json, Mistral's own description of a model.
#include "core/model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dgxmm::model {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result<HfConfig> parse(const std::string& members) {
  return parse_mistral_params(
      "m/params.json",
      R"({"dim":5120,"n_layers":40,"head_dim":128,"hidden_dim":32768,"n_heads":32,"n_kv_heads":8,
                                  "vocab_size":131072,"max_position_embeddings":131072,"norm_eps":1e-05)" +
          members + "}");
}

std::string message(const Result<HfConfig>& config) { return config ? "ok" : config.error().message; }

TEST(MistralParams, SayWhatConfigJsonWouldSay) {
  const auto config = parse(R"(,"tied_embeddings":false)");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->architecture, "MistralForCausalLM");
  const Layer layer{.attention = Attention{.n_head = 32, .n_head_kv = 8, .key_length = 128, .value_length = 128},
                    .feed_forward_length = 32768};
  EXPECT_EQ(config->layers, std::vector<Layer>(40, layer));
  EXPECT_EQ(config->hidden_size, 5120);
  EXPECT_EQ(config->vocabulary, 131072);
  EXPECT_EQ(config->context, 128'000) << "max_seq_len has this default, and the smaller one counts";
  EXPECT_EQ(config->tied_embeddings, false);
  EXPECT_THAT(config->missing_fields, IsEmpty());
  EXPECT_EQ(parse(R"(,"max_seq_len":32768)")->context, 32768);
}

TEST(MistralParams, E7_WithoutAContextThatOfTheEngineIsRecorded) {
  const auto config =
      parse_mistral_params("m/params.json", R"({"dim":64,"n_layers":1,"n_heads":4,"hidden_dim":64,"vocab_size":10})");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->context, 128'000);
  EXPECT_THAT(config->missing_fields, ElementsAre("max_position_embeddings"));
}

TEST(MistralParams, YarnDoesNotStretchTheContextBeyondWhatTheFileSays) {
  EXPECT_EQ(parse(R"(,"yarn":{"original_max_position_embeddings":16384,"factor":16,"beta":32})")->context, 128'000);
  EXPECT_EQ(parse(R"(,"yarn":{"original_max_position_embeddings":16384,"factor":2,"beta":32})")->context, 32'768);
}

TEST(MistralParams, AListOfWindowsIsRepeatedOverTheLayers) {
  const auto config = parse(R"(,"sliding_window":[null,4096,4096,4096])");
  ASSERT_TRUE(config) << message(config);
  EXPECT_EQ(config->layers[4].attention->kind, AttentionKind::full);
  EXPECT_EQ(config->layers[5].attention->kind, AttentionKind::sliding_window);
  EXPECT_EQ(config->layers[5].attention->window, 4096);
  EXPECT_EQ(parse(R"(,"sliding_window":[null])")->layers[0].attention->kind, AttentionKind::full);
}

TEST(MistralParams, ExpertsAreThoseOfMixtralOrOfMistralLarge3) {
  const auto mixtral = parse(R"(,"moe":{"num_experts":8,"num_experts_per_tok":2,"num_shared_experts":0})");
  ASSERT_TRUE(mixtral) << message(mixtral);
  EXPECT_EQ(mixtral->architecture, "MixtralForCausalLM");
  EXPECT_EQ(mixtral->experts, (Experts{.count = 8, .used_count = 2, .feed_forward_length = 32768}));
  const auto large = parse(R"(,"kv_lora_rank":512,"qk_rope_head_dim":64,"qk_nope_head_dim":128,"v_head_dim":128,
                              "moe":{"num_experts":128,"num_experts_per_tok":4,"expert_hidden_dim":4096,
                                     "num_shared_experts":1})");
  ASSERT_TRUE(large) << message(large);
  EXPECT_EQ(large->layers[0].attention->kind, AttentionKind::mla);
  EXPECT_EQ(large->experts,
            (Experts{.count = 128, .used_count = 4, .feed_forward_length = 4096, .shared_feed_forward_length = 4096}));
}

TEST(MistralParams, EncodersAndQuantizationAreRead) {
  const auto pixtral = parse(R"(,"quantization":{"qformat_weight":"fp8_e4m3","qscheme_act":"TENSOR"},
      "vision_encoder":{"hidden_size":1024,"image_size":1540,"max_image_size":1540,"patch_size":14,
                        "spatial_merge_size":2})");
  ASSERT_TRUE(pixtral) << message(pixtral);
  EXPECT_EQ(pixtral->quantization, "fp8");
  EXPECT_EQ(pixtral->encoders,
            (std::vector<Encoder>{{.input = "pictures", .width = 1024, .item_patches = 12100, .item_tokens = 3025}}));
  EXPECT_EQ(pixtral->layers.size(), 40U);
  const auto voxtral = parse(R"(,"multimodal":{"whisper_model_args":{"encoder_args":{"dim":1280,"n_layers":32,
                                               "max_source_positions":1500},"downsample_args":{"downsample_factor":4}}})");
  ASSERT_TRUE(voxtral) << message(voxtral);
  EXPECT_EQ(voxtral->encoders.at(0).width, 1280);
  EXPECT_EQ(parse(R"(,"quantization":{"qformat_weight":"nvfp4"})").error().code, "model_not_supported");
}

TEST(MistralParams, E9_ErrorsUseTheNamesOfTheFile) {
  EXPECT_EQ(message(parse(R"(,"n_layers":-1)")), "m/params.json: n_layers: expected a whole number up to 4096");
  EXPECT_EQ(message(parse(R"(,"dim":null)")), "m/params.json: cannot estimate this model: dim is missing");
  EXPECT_THAT(message(parse(R"(,"n_kv_heads":7)")), HasSubstr("n_heads 32 is not a multiple of n_kv_heads 7"));
  EXPECT_THAT(message(parse(R"(,"vision_encoder":{"hidden_size":8},"dim":"x")")), Not(HasSubstr("text_config")));
  EXPECT_EQ(parse(R"(,"dim":0)").error().where, "m/params.json");
}

TEST(MistralParams, E9_HostileValuesAreErrorsNotCrashes) {
  for (const auto* text : {"", "[]", "null", "{", "{}"}) {
    EXPECT_EQ(parse_mistral_params("m/params.json", text).error().code, "bad_model_file") << text;
  }
  for (const auto* value :
       {"null", "-1", "0", "[]", "{}", "\"x\"", "9223372036854775807", "1e300", "true", "[null,\"x\"]"}) {
    for (const auto* key : {"dim", "n_layers", "n_heads", "n_kv_heads", "hidden_dim", "head_dim", "vocab_size", "moe",
                            "yarn", "quantization", "sliding_window", "multimodal", "vision_encoder", "tied_embeddings",
                            "max_position_embeddings", "kv_lora_rank"}) {
      const auto config = parse(",\"" + std::string{key} + "\":" + value);
      if (!config) EXPECT_NE(config.error().message, "") << key << value;
    }
    for (const auto* inner : {R"("moe":{"num_experts":)", R"("yarn":{"factor":)", R"("vision_encoder":{"hidden_size":)",
                              R"("multimodal":{"whisper_model_args":)", R"("quantization":{"qformat_weight":)"}) {
      const auto config = parse("," + std::string{inner} + value + "}");
      if (!config) EXPECT_NE(config.error().message, "") << inner << value;
    }
  }
}

}  // namespace
}  // namespace dgxmm::model
