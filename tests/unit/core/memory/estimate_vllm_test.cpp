#include "core/memory/estimate.h"
#include "unit/core/memory/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

namespace dgxmm::memory {
namespace {

using engine::VllmConfig;
using testing::HasSubstr;

VllmConfig serving(std::int64_t context, std::int64_t sequences = 1) {
  return {.max_model_len = context, .max_num_seqs = sequences, .max_num_batched_tokens = 8192};
}

Bytes kv_of(const model::ModelDescription& model, const VllmConfig& config) {
  const auto result = estimate_vllm(model, config, {});
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->part("kv") : Bytes{};
}

struct Vector {
  const char* name;
  std::int64_t layers, kv_heads, head_size;
  std::int64_t bytes_per_token;
  std::int64_t bytes_per_block;
};

/// Public configurations, computed with vLLM's own planning code at 017e9f44.
constexpr Vector kVectors[] = {
    {"Llama-3.1-8B", 32, 8, 128, 131072, 2097152},    {"Llama-3.1-70B", 80, 8, 128, 327680, 5242880},
    {"Llama-3.1-405B", 126, 8, 128, 516096, 8257536}, {"Llama-3.2-3B", 28, 8, 128, 114688, 1835008},
    {"Llama-3.2-1B", 16, 8, 64, 32768, 524288},       {"Qwen2.5-7B", 28, 4, 128, 57344, 917504},
    {"Qwen3-0.6B", 28, 8, 128, 114688, 1835008},      {"Qwen3-8B", 36, 8, 128, 147456, 2359296},
    {"Qwen3-14B", 40, 8, 128, 163840, 2621440},       {"Qwen3-32B", 64, 8, 128, 262144, 4194304},
    {"Qwen3-30B-A3B", 48, 4, 128, 98304, 1572864},    {"Qwen3-235B-A22B", 94, 4, 128, 192512, 3080192},
    {"Mixtral-8x22B", 56, 8, 128, 229376, 3670016},   {"Phi-4", 40, 10, 128, 204800, 3276800},
    {"Granite-4.0-Micro", 40, 8, 64, 81920, 1310720}, {"MiniMax-M2.7", 62, 8, 128, 253952, 4063232},
};

TEST(EstimateVllm, E3_KvBytesOfKnownModels) {
  for (const auto& v : kVectors) {
    SCOPED_TRACE(v.name);
    const auto model = dense_model({.layers = v.layers, .kv_heads = v.kv_heads, .head_size = v.head_size});
    EXPECT_EQ(kv_of(model, serving(16)), Bytes{v.bytes_per_block});
    EXPECT_EQ(kv_of(model, serving(32768)), Bytes{v.bytes_per_token} * 32768);
  }
}

TEST(EstimateVllm, F20_OneRequestOfQwen3Coder) {
  const auto model = dense_model({.layers = 48, .kv_heads = 4});
  EXPECT_EQ(kv_of(model, serving(262144)), gib(24));
}

TEST(EstimateVllm, E3_ThePoolDefaultsToTheSmallerOfAllSequencesAndTwoContexts) {
  const auto one = kv_of(dense_model(), serving(4096, 1));
  EXPECT_EQ(kv_of(dense_model(), serving(4096, 2)), one * 2);
  EXPECT_EQ(kv_of(dense_model(), serving(4096, 64)), one * 2);
  auto config = serving(4096, 64);
  config.kv_tokens = 5 * 4096;
  EXPECT_EQ(kv_of(dense_model(), config), one * 5);
}

TEST(EstimateVllm, E3_ThePoolIsWholeBlocks) {
  EXPECT_EQ(kv_of(dense_model(), serving(4097)), Bytes{131072} * 4112);
  auto config = serving(16);
  config.kv_tokens = 17;
  EXPECT_EQ(kv_of(dense_model(), config), Bytes{131072} * 32);
}

TEST(EstimateVllm, E9_APoolBelowOneRequestSaysWhatWouldWork) {
  auto config = serving(8192);
  config.kv_tokens = 4090;
  const auto result = estimate_vllm(dense_model(), config, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "bad_configuration");
  EXPECT_EQ(result.error().where, "kv_tokens");
  EXPECT_EQ(result.error().hint, "set kv_tokens to at least 8192, or max_model_len to at most 4096");
  config.kv_tokens = 8192;
  EXPECT_TRUE(estimate_vllm(dense_model(), config, {}));
  config.kv_tokens.reset();
  config.max_model_len = 4096;
  EXPECT_TRUE(estimate_vllm(dense_model(), config, {}));
}

TEST(EstimateVllm, E3_BytesOfEveryCacheType) {
  const std::pair<const char*, std::int64_t> bytes_per_token[] = {
      {"auto", 131072},
      {"float16", 131072},
      {"bfloat16", 131072},
      {"fp8", 65536},
      {"fp8_e4m3", 65536},
      {"fp8_e5m2", 65536},
      {"int8_per_token_head", 67584},
      {"int4_per_token_head", 34816},
      {"nvfp4", 36864},
      {"turboquant_k8v4", 28 * 8 * (128 + 64 + 4) + 4 * 4096},
      {"turboquant_3bit_nc", 28 * 8 * (48 + 2 + 48 + 4) + 4 * 4096},
  };
  for (const auto& [name, bytes] : bytes_per_token) {
    SCOPED_TRACE(name);
    auto config = serving(16);
    config.kv_cache_dtype = name;
    EXPECT_EQ(kv_of(dense_model(), config), Bytes{bytes} * 16);
  }
}

TEST(EstimateVllm, E9_AnUnknownCacheTypeIsRefusedWithTheOnesThatExist) {
  for (const auto* name : {"fp4", "", "q8_0", "fp8_ds_mla"}) {
    auto config = serving(8192);
    config.kv_cache_dtype = name;
    const auto result = estimate_vllm(dense_model(), config, {});
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, "bad_configuration");
    EXPECT_THAT(result.error().hint, HasSubstr("auto, float16, bfloat16, fp8, "));
  }
}

TEST(EstimateVllm, E2_Float32IsHalvedAndNothingElseIs) {
  auto model = dense_model({.weights = gib(16)});
  EXPECT_EQ(estimate_vllm(model, serving(8192), {})->part("weights"), gib(16));
  model.weight_dtype = "float32";
  const auto result = estimate_vllm(model, serving(8192), {});
  EXPECT_EQ(result->part("weights"), gib(8));
  EXPECT_THAT(result->parts[0].detail, HasSubstr("float32 halved"));
}

TEST(EstimateVllm, E2_ATiedEmbeddingIsLoadedOnce) {
  EXPECT_EQ(estimate_vllm(dense_model({.weights = gib(2), .tied = true}), serving(8192), {})->part("weights"), gib(2));
}

// The worked figures of Qwen3-8B at 8192 batched tokens: 805 MB in the widest layer, 4.05 GB in the sampler.
TEST(EstimateVllm, E5_WorkedExampleOfQwen3_8B) {
  const auto model = dense_model({.layers = 36, .feed_forward = 12288, .vocabulary = 151936});
  const Bytes layer{std::int64_t{8192} * 2 * 3 * (4096 + 12288)};
  const Bytes sampler{std::int64_t{1024} * 151936 * 26};
  const Bytes stream{std::int64_t{2} * 8192 * 4096 * 2};
  const Bytes a_sequence{4 * 4096 + 2 * 4 * 256 + 4 * 151936 + 4 * 4748};
  EXPECT_EQ(estimate_vllm(model, serving(4096, 16), {})->part("activations"),
            scale_up(layer, 12, 10) + mib(650) + 16 * a_sequence);
  EXPECT_EQ(estimate_vllm(model, serving(4096, 1024), {})->part("activations"),
            scale_up(sampler + stream, 12, 10) + mib(650) + 1024 * a_sequence);
}

TEST(EstimateVllm, E5_ExpertsHoldACopyOfEachTokenForEachExpertUsed) {
  auto shape = DenseShape{.embedding = 2880, .heads = 64, .head_size = 64, .feed_forward = 0, .vocabulary = 1000};
  shape.experts = 128;
  shape.experts_used = 4;
  shape.expert_feed_forward = 2880;
  const auto result = estimate_vllm(dense_model(shape), serving(16), {});
  const Bytes layer{std::int64_t{8192} * 2 * (4 * 2880 + 4 * (5760 + 2880)) + std::int64_t{12} * 8192 * 128};
  EXPECT_THAT(result->parts[3].detail, HasSubstr("8192 batched tokens: " + format_bytes(layer)));
}

TEST(EstimateVllm, E6_EagerHasNoGraphs) {
  auto config = serving(8192);
  EXPECT_EQ(estimate_vllm(dense_model(), config, {})->part("runtime"), gib_from_decimal(4.5));
  config.enforce_eager = true;
  EXPECT_EQ(estimate_vllm(dense_model(), config, {})->part("runtime"), gib(3));
}

TEST(EstimateVllm, E7_MissingFieldsAddAFifth) {
  auto model = dense_model();
  model.missing_fields = {"head_dim"};
  const auto result = estimate_vllm(model, serving(8192), {});
  EXPECT_EQ(result->part("margin"), scale_up(result->part("kv") + result->part("activations"), 1, 5));
  EXPECT_EQ(result->confidence, Confidence::low);
}

TEST(EstimateVllm, E9_HostileSettingsAreErrorsNotOverflows) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  for (const auto value : {kHuge, std::int64_t{0}, std::int64_t{-1}}) {
    auto config = serving(8192);
    config.max_model_len = value;
    EXPECT_EQ(estimate_vllm(dense_model(), config, {}).error().where, "max_model_len");
    config = serving(8192);
    config.max_num_seqs = value;
    EXPECT_EQ(estimate_vllm(dense_model(), config, {}).error().where, "max_num_seqs");
    config = serving(8192);
    config.max_num_batched_tokens = value;
    EXPECT_EQ(estimate_vllm(dense_model(), config, {}).error().where, "max_num_batched_tokens");
    config = serving(8192);
    config.kv_tokens = value;
    EXPECT_EQ(estimate_vllm(dense_model(), config, {}).error().where, "kv_tokens");
  }
}

TEST(EstimateVllm, E9_OtherKindsOfLayersAreRefusedNotEstimatedAsDense) {
  auto model = dense_model();
  model.layers.back().attention->kind = model::AttentionKind::mla;
  EXPECT_EQ(estimate(model, serving(8192), {}, Placement::gpu).error().code, "model_not_supported");
}

}  // namespace
}  // namespace dgxmm::memory
