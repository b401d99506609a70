#include "core/memory/estimate.h"
#include "unit/core/memory/dense_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
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
  model.weights.float32_tensors = gib(16);
  const auto result = estimate_vllm(model, serving(8192), {});
  EXPECT_EQ(result->part("weights"), gib(8));
  EXPECT_THAT(result->parts[0].detail, HasSubstr("float32 halved"));
}

TEST(EstimateVllm, E2_AFewFloat32TensorsStayAsTheyAre) {
  auto model = dense_model({.weights = gib(16)});
  model.weights.float32_tensors = gib(1);
  EXPECT_EQ(estimate_vllm(model, serving(8192), {})->part("weights"), gib(16));
}

TEST(EstimateVllm, E2_WhatIsNotLoadedIsNotCounted) {
  auto model = dense_model({.weights = gib(16)});
  model.weights.files = gib(16) + kib(40);
  model.weights.nextn_tensors = gib(2);
  model.weights.unused_output = gib(1);
  const auto result = estimate_vllm(model, serving(8192), {});
  EXPECT_EQ(result->part("weights"), gib(13));
  EXPECT_THAT(result->parts[0].detail, HasSubstr("less 2.0 GiB: layers for multi-token prediction are not loaded"));
}

TEST(EstimateVllm, E2_TheVocabularyIsPaddedInEmbeddingAndOutput) {
  auto model = dense_model({.vocabulary = 151669});  // 11 rows short of a multiple of 64
  const auto weights = model.weights.tensors;
  EXPECT_EQ(estimate_vllm(model, serving(8192), {})->part("weights"), weights + Bytes{2 * 11 * 4096 * 2});
  model.weights.tied_embeddings = true;
  EXPECT_EQ(estimate_vllm(model, serving(8192), {})->part("weights"), weights + Bytes{11 * 4096 * 2});
}

// gpt-oss: 2880 becomes 2944 and 3072, about 9 % more.
TEST(EstimateVllm, E2_Mxfp4ExpertsArePadded) {
  auto model = dense_model({.embedding = 2880, .experts = 128, .experts_used = 4, .expert_feed_forward = 2880});
  model.quantization = "mxfp4";
  model.weights.expert_tensors = Bytes{2880 * 2880 * 100};
  EXPECT_EQ(estimate_vllm(model, serving(8192), {})->part("weights"),
            model.weights.tensors + Bytes{(2944 * 3072 - 2880 * 2880) * 100});
}

// DeepSeek-V3: 33.5 MB in each of 61 layers, 2.05 GB together.
TEST(EstimateVllm, E2_LatentAttentionKeepsCopiesOfItsUpProjections) {
  auto model = dense_model({.layers = 61, .heads = 128});
  for (auto& layer : model.layers) {
    layer.attention = model::Attention{.kind = model::AttentionKind::mla,
                                       .n_head = 128,
                                       .n_head_kv = 1,
                                       .key_length = 576,
                                       .value_length = 512,
                                       .kv_lora_rank = 512,
                                       .rope_length = 64,
                                       .mla_key_length = 192,
                                       .mla_value_length = 128};
  }
  const auto result = estimate_vllm(model, serving(8192), {});
  EXPECT_EQ(result->part("weights"), model.weights.tensors + Bytes{std::int64_t{61} * 512 * 128 * 256 * 2});
  EXPECT_THAT(result->parts[0].detail, HasSubstr("16-bit copies of the up-projections of MLA"));
}

TEST(EstimateVllm, E2_OneThatMaySleepHoldsWholeSegments) {
  auto model = dense_model();
  model.weights.tensors += Bytes{1};
  auto config = serving(4096, 4);
  const auto plain = estimate_vllm(model, config, {})->part("weights");
  config.sleep_mode = true;
  const auto segments = estimate_vllm(model, config, {})->part("weights");
  EXPECT_EQ(segments.count() % mib(2).count(), 0);
  EXPECT_GT(segments, plain);
  EXPECT_LT(segments - plain, mib(2));
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
  const Bytes block{2359296};
  const Bytes a_sequence{4 * 4096 + 2 * 4 * 256 + 4 * 151936 + 4 * 4748};
  EXPECT_EQ(estimate_vllm(model, serving(4096, 16), {})->part("activations"),
            scale_up(layer, 12, 10) + mib(650) + 16 * a_sequence + block);
  EXPECT_EQ(estimate_vllm(model, serving(4096, 1024), {})->part("activations"),
            scale_up(sampler + stream, 12, 10) + mib(650) + 1024 * a_sequence + block);
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
  const std::pair<const char*, std::function<void(VllmConfig&, std::int64_t)>> fields[] = {
      {"tensor_parallel_size", [](VllmConfig& c, std::int64_t n) { c.tensor_parallel_size = n; }},
      {"num_speculative_tokens", [](VllmConfig& c, std::int64_t n) { c.num_speculative_tokens = n; }},
      {"max_loras", [](VllmConfig& c, std::int64_t n) { c.max_loras = n; }},
      {"max_lora_rank", [](VllmConfig& c, std::int64_t n) { c.max_lora_rank = n; }},
      {"limit_mm_per_prompt", [](VllmConfig& c, std::int64_t n) { c.limit_mm_per_prompt = n; }},
      {"mm_processor_cache_gb", [](VllmConfig& c, std::int64_t n) { c.mm_processor_cache_gb = n; }}};
  for (const auto& [field, set] : fields) {
    for (const auto value : {kHuge, std::int64_t{-1}}) {
      auto config = serving(8192);
      set(config, value);
      EXPECT_EQ(estimate_vllm(dense_model(), config, {}).error().where, field);
    }
  }
}

model::ModelDescription seeing_model() {
  auto model = dense_model({.embedding = 1024, .weights = gib(8)});
  model.encoders = {{.input = "pictures", .width = 1000, .item_patches = 4096, .item_tokens = 1024}};
  model.weights.vision_tensors = gib(1);
  return model;
}

// As many of the largest pictures as fit into the batched tokens, and the tokens that they become.
TEST(EstimateVllm, E5_EncodersTakeWhatOneStepMayEncode) {
  auto config = serving(4096);
  const auto detail = [&](const model::ModelDescription& model) {
    return estimate_vllm(model, config, {})->parts[3].detail;
  };
  EXPECT_THAT(detail(seeing_model()),
              HasSubstr(fmt::format("encoder for 32768 patches of 8 items: {}, and their 8192 tokens: {}",
                                    format_bytes(Bytes{std::int64_t{8} * 4096 * 1000 * 2 * 8}),
                                    format_bytes(Bytes{8192 * 1024 * 2}))));
  config.max_num_batched_tokens = 512;
  EXPECT_THAT(detail(seeing_model()), HasSubstr("encoder for 4096 patches of 1 item: ")) << "one is encoded whole";
  EXPECT_THAT(detail(seeing_model()), HasSubstr("their 1024 tokens: "));
  EXPECT_THAT(detail(dense_model()), testing::Not(HasSubstr("encoder")));
  config = serving(4096);
  config.limit_mm_per_prompt = 3;
  EXPECT_THAT(detail(seeing_model()), HasSubstr("12288 patches of 3 items"));
}

TEST(EstimateVllm, E2_E5_EncodersThatAreSwitchedOffAreNotCounted) {
  const auto loaded = estimate_vllm(seeing_model(), serving(4096), {});
  EXPECT_EQ(loaded->part("weights"), gib(8));
  EXPECT_THAT(loaded->parts[0].detail, HasSubstr("1.0 GiB of them see or hear"));
  auto text_only = serving(4096);
  text_only.language_model_only = true;
  auto none = serving(4096);
  none.limit_mm_per_prompt = 0;
  for (const auto& config : {text_only, none}) {
    const auto result = estimate_vllm(seeing_model(), config, {});
    EXPECT_EQ(result->part("weights"), gib(7));
    EXPECT_EQ(result->part("activations"),
              estimate_vllm(dense_model({.embedding = 1024}), serving(4096), {})->part("activations"));
  }
  auto model = seeing_model();
  model.weights.float32_tensors = model.weights.tensors;
  EXPECT_EQ(estimate_vllm(model, text_only, {})->part("weights"), gib(4) - mib(512));
}

TEST(EstimateVllm, E6_PreparedPicturesAreHostMemoryOfTwoProcesses) {
  auto config = serving(4096);
  config.mm_processor_cache_gb = 3;
  const auto result = estimate_vllm(seeing_model(), config, {});
  EXPECT_EQ(result->part("runtime"), gib_from_decimal(4.5) + gib(6));
  EXPECT_THAT(result->parts[4].detail, HasSubstr("prepared pictures and sound, up to 3.0 GiB in 2 processes"));
}

TEST(EstimateVllm, E2_WhatSpeaksIsNotLoaded) {
  auto model = dense_model({.weights = gib(8)});
  model.weights.speaking_tensors = gib(2);
  EXPECT_EQ(estimate_vllm(model, serving(4096), {})->part("weights"), gib(6));
}

/// With one layer for multi-token prediction.
model::ModelDescription drafting_model() {
  auto model = dense_model({.weights = gib(8)});
  model.nextn_layers = {model.layers.back()};
  model.weights.nextn_tensors = gib(1);
  model.weights.nextn_copies = mib(256);
  return model;
}

TEST(EstimateVllm, E2_E3_LayersThatDraftAreLoadedAndHaveCaches) {
  const auto model = drafting_model();
  auto config = serving(4096);
  const auto off = estimate_vllm(model, config, {});
  config.spec_method = "mtp";
  config.num_speculative_tokens = 2;
  const auto on = estimate_vllm(model, config, {});
  ASSERT_TRUE(on) << on.error().message;
  EXPECT_EQ(off->part("weights"), gib(7));
  EXPECT_EQ(on->part("weights"), gib(8) - mib(256));
  EXPECT_EQ(on->part("kv"), scale_up(off->part("kv"), 33, 32));
  EXPECT_EQ(on->part("runtime") - off->part("runtime"), scale_up(gib_from_decimal(1.5), 1, 32));
  EXPECT_THAT(on->parts[3].detail, HasSubstr("sampler for 3 rows of logits"));
  config.spec_method = "ngram";
  const auto ngram = estimate_vllm(model, config, {});
  EXPECT_EQ(ngram->part("weights"), gib(7));
  EXPECT_EQ(ngram->part("kv"), off->part("kv"));
  EXPECT_THAT(ngram->parts[3].detail, HasSubstr("sampler for 3 rows of logits"));
}

/// A model of two layers that drafts.
model::Companions small_draft() {
  auto draft = dense_model({.name = "small",
                            .layers = 2,
                            .embedding = 1024,
                            .heads = 8,
                            .kv_heads = 4,
                            .head_size = 64,
                            .vocabulary = 128256,
                            .weights = gib(1)});
  draft.format = model::Format::safetensors;
  return {.draft = draft};
}

VllmConfig drafting(std::int64_t context, std::string method = "draft_model") {
  auto config = serving(context);
  config.spec_method = std::move(method);
  config.draft_model = "/models/small";
  config.num_speculative_tokens = 4;
  return config;
}

TEST(EstimateVllm, E2_E3_ADraftModelIsLoadedAndHasCachesInTheSamePool) {
  const auto model = dense_model({.weights = gib(8)});
  const auto alone = estimate_vllm(model, serving(4096), {});
  const auto result = estimate_vllm(model, drafting(4096), {}, small_draft());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->part("weights"), gib(9));
  EXPECT_THAT(result->parts[0].detail, HasSubstr("small to draft with (1 file): 1.0 GiB"));
  EXPECT_EQ(result->part("kv") - alone->part("kv"), Bytes{std::int64_t{2} * 4 * 64 * 2 * 2 * 4096});
  EXPECT_EQ(result->part("runtime") - alone->part("runtime"), scale_up(gib_from_decimal(1.5), 2, 32));
  EXPECT_THAT(result->parts[3].detail, HasSubstr("sampler for 5 rows of logits"));
}

TEST(EstimateVllm, E3_AnEagleHeadKeepsChunksWhole) {
  auto model = dense_model();
  for (auto& layer : model.layers) {
    layer.attention->kind = model::AttentionKind::chunked;
    layer.attention->window = 1024;
  }
  auto head = small_draft();
  head.draft->layers.resize(1);
  head.draft->layers[0].attention = model.layers[0].attention;
  head.draft->layers[0].attention->kind = model::AttentionKind::full;
  const auto whole = Bytes{std::int64_t{33} * 8 * 128 * 2 * 2 * 131072};
  EXPECT_EQ(estimate_vllm(model, drafting(131072, "eagle3"), {}, head)->part("kv"), whole);
  EXPECT_LT(estimate_vllm(model, drafting(131072), {}, head)->part("kv"), whole);
}

TEST(EstimateVllm, E9_ADraftThatIsNotThereOrOfAnotherFormatIsRefused) {
  EXPECT_EQ(estimate_vllm(dense_model(), drafting(4096), {}).error().where, "draft_model");
  auto gguf = small_draft();
  gguf.draft->format = model::Format::gguf;
  EXPECT_EQ(estimate_vllm(dense_model(), drafting(4096), {}, gguf).error().where, "draft_model");
  auto odd = small_draft();
  odd.draft->layers.clear();
  EXPECT_EQ(estimate_vllm(dense_model(), drafting(4096), {}, odd).error().code, "model_not_supported");
}

TEST(EstimateVllm, E8_DoubtsAboutTheDraftAreDoubtsAboutTheWhole) {
  auto unsure = small_draft();
  unsure.draft->missing_fields = {"head_dim"};
  const auto result = estimate_vllm(dense_model(), drafting(4096), {}, unsure);
  EXPECT_EQ(result->confidence, Confidence::low);
  EXPECT_EQ(result->missing_fields, std::vector<std::string>{"draft_model: head_dim"});
}

TEST(EstimateVllm, E9_LayersThatDraftMustBeInTheFiles) {
  auto model = drafting_model();
  model.weights.nextn_tensors = Bytes{};
  auto config = serving(4096);
  config.spec_method = "mtp";
  config.num_speculative_tokens = 1;
  EXPECT_EQ(estimate_vllm(model, config, {}).error().where, "spec_method");
}

// Several layers that draft keep a longer window: one token for each drafted beyond the first.
TEST(EstimateVllm, E3_SeveralLayersThatDraftLengthenWindows) {
  auto model = drafting_model();
  for (auto& layer : model.layers) {
    layer.attention->kind = model::AttentionKind::sliding_window;
    layer.attention->window = 128;
  }
  model.nextn_layers = {model.layers.back(), model.layers.back()};
  const auto blocks = [&](std::int64_t drafted) {
    auto config = serving(65536);
    config.spec_method = "mtp";
    config.num_speculative_tokens = drafted;
    const auto result = estimate_vllm(model, config, {});
    EXPECT_TRUE(result);
    return result->part("kv").count() / (34 * 16 * 8 * 128 * 2 * 2);
  };
  EXPECT_EQ(blocks(2), (127 + 1 + 16384) / 16 + 1);
  EXPECT_EQ(blocks(4), (127 + 3 + 16384) / 16 + 2);
}

TEST(EstimateVllm, E2_E3_ARankHoldsItsShare) {
  auto model = dense_model({.heads = 32, .kv_heads = 2, .weights = gib(8)});
  model.weights.replicated_tensors = mib(64);
  auto config = serving(4096);
  const auto whole = estimate_vllm(model, config, {});
  config.tensor_parallel_size = 2;
  const auto half = estimate_vllm(model, config, {});
  ASSERT_TRUE(half) << half.error().message;
  EXPECT_EQ(half->part("kv") * 2, whole->part("kv"));
  EXPECT_EQ(half->part("weights"), scale_up(gib(8) + mib(64), 1, 2));
  EXPECT_THAT(half->parts[0].detail, HasSubstr("held by the other of 2 ranks"));
  config.tensor_parallel_size = 8;  // each of the two KV heads is held by four ranks
  const auto eighth = estimate_vllm(model, config, {});
  EXPECT_EQ(eighth->part("kv"), half->part("kv"));
  const Bytes share = mib(64) + scale_up(gib(8) - mib(64), 1, 8);
  const Bytes repeated{std::int64_t{32} * (8 - 2) * 2 * 128 * 4096 * 2 / 8};
  EXPECT_EQ(eighth->part("weights"), share + repeated);
}

TEST(EstimateVllm, E9_HeadsThatCannotBeSharedAreRefused) {
  for (const std::int64_t ranks : {3, 5, 64}) {
    auto config = serving(4096);
    config.tensor_parallel_size = ranks;
    const auto result = estimate_vllm(dense_model(), config, {});
    ASSERT_FALSE(result) << ranks;
    EXPECT_EQ(result.error().where, "tensor_parallel_size");
  }
  auto model = dense_model();
  model.layers[3].attention.reset();
  model.layers[3].recurrent = model::RecurrentState{.state_elements = 300, .shares = 3};
  auto config = serving(4096);
  config.tensor_parallel_size = 2;
  EXPECT_THAT(estimate_vllm(model, config, {}).error().message, HasSubstr("3 heads or channels"));
}

// A and B of q, k, v, o, gate, up and down of every layer, of the embedding and of the output.
TEST(EstimateVllm, E2_LoraAdaptersTakeRoomInEveryMatrix) {
  const auto model = dense_model({.layers = 2});
  auto config = serving(4096);
  const auto without = estimate_vllm(model, config, {})->part("weights");
  config.enable_lora = true;
  config.max_loras = 3;
  config.max_lora_rank = 32;
  constexpr std::int64_t kLayer = (4096 + 4096) + 2 * (4096 + 1024) + (4096 + 4096) + 3 * (4096 + 14336);
  const auto result = estimate_vllm(model, config, {});
  EXPECT_EQ(result->part("weights") - without, Bytes{3 * 32 * 2 * (2 * kLayer + 2 * (4096 + 128256))});
  EXPECT_THAT(result->parts[0].detail, HasSubstr("room for LoRA adapters, 3 of rank 32"));
}

TEST(EstimateVllm, E2_LinearWeightsShrinkWhenTheyAreQuantizedWhileLoading) {
  auto model = dense_model({.weights = gib(16)});
  model.weights.linear_tensors = gib(8);
  model.weights.expert_tensors = gib(4);
  const std::pair<const char*, Bytes> expected[] = {{"fp8", gib(12)},
                                                    {"fp8_per_block", gib(12)},
                                                    {"int8_per_channel_weight_only", gib(12)},
                                                    {"experts_int8", gib(14)},
                                                    {"mxfp8", gib(12) + mib(128)},
                                                    {"mxfp4", gib(10) + mib(128)},
                                                    {"nvfp4_per_token", gib(10) + mib(256)}};
  for (const auto& [name, size] : expected) {
    auto config = serving(4096);
    config.quantization = name;
    EXPECT_EQ(estimate_vllm(model, config, {})->part("weights"), size) << name;
  }
  model.weights.linear_tensors = Bytes{};
  model.quantization = "awq-4bit";
  auto config = serving(4096);
  config.quantization = "fp8";
  const auto refused = estimate_vllm(model, config, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "quantization");
  EXPECT_THAT(refused.error().message, HasSubstr("awq-4bit"));
}

TEST(EstimateVllm, E7_E9_AContradictionLowersTheConfidenceAndAddsAMargin) {
  auto model = dense_model();
  model.contradictions = {"config.json says 2 layers, its files hold tensors for 3"};
  const auto result = estimate_vllm(model, serving(4096), {});
  EXPECT_EQ(result->confidence, Confidence::low);
  EXPECT_EQ(result->contradictions, model.contradictions);
  EXPECT_EQ(result->part("margin"), scale_up(result->part("kv") + result->part("activations"), 1, 5));
}

// F9: an embedding model is its weights and what runs it.
TEST(EstimateVllm, F9_AnEncoderKeepsNothing) {
  auto model = dense_model({.layers = 24, .embedding = 1024, .heads = 16, .kv_heads = 16, .head_size = 64});
  for (auto& layer : model.layers) layer.attention->kind = model::AttentionKind::bidirectional;
  const auto result = estimate_vllm(model, serving(8192), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->part("kv"), Bytes{});
  EXPECT_EQ(result->part("state"), Bytes{});
}

TEST(EstimateVllm, E9_ACacheBeyondAllMeasureIsRefusedNotOverflown) {
  auto model = dense_model({.layers = 1000, .heads = 1, .kv_heads = 1, .head_size = 1});
  for (std::size_t i = 0; i < model.layers.size(); i += 2) {
    model.layers[i].recurrent = model::RecurrentState{.state_elements = std::int64_t{1} << 34};
    model.layers[i].attention->kind = model::AttentionKind::sliding_window;
    model.layers[i].attention->window = std::int64_t{1} << 30;
    model.layers[i].attention->key_length = 3;  // pages that do not divide the largest are padded up to it
    model.layers[i].attention->value_length = 3;
  }
  const auto result = estimate_vllm(model, serving(std::int64_t{1} << 27), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "model_not_supported");
}

TEST(EstimateVllm, E9_ASizeThatNoModelHasIsRefused) {
  auto model = dense_model();
  model.layers.back().attention->n_head_kv = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(estimate(model, serving(8192), {}, Placement::gpu).error().code, "model_not_supported");
}

}  // namespace
}  // namespace dgxmm::memory
