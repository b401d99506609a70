#include "core/memory/estimate.h"
#include "core/memory/llamacpp_cache.h"
#include "core/memory/llamacpp_compute.h"
#include "unit/core/memory/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace dgxmm::memory {
namespace {

using engine::CacheType;
using engine::FlashAttention;
using engine::LlamaCppConfig;
using testing::ElementsAre;
using testing::HasSubstr;

LlamaCppConfig one_slot(std::int64_t ctx_size) { return {.ctx_size = ctx_size, .parallel = 1, .cache_ram_mib = 0}; }

std::vector<std::string> names_of(const Estimate& estimate) {
  std::vector<std::string> names;
  for (const auto& part : estimate.parts) names.push_back(part.name);
  return names;
}

llamacpp::Context context_of(const LlamaCppConfig& config, Placement placement = Placement::gpu) {
  return llamacpp::resolve_context(dense_model(), config, placement).value();
}

TEST(EstimateLlamaCpp, E1_SixPartsInTheirOrderAddUp) {
  const auto result = estimate(dense_model(), one_slot(8192), {}, Placement::gpu);
  ASSERT_TRUE(result);
  EXPECT_THAT(names_of(*result), ElementsAre("weights", "kv", "state", "activations", "runtime", "margin"));
  Bytes sum;
  for (const auto& part : result->parts) {
    sum += part.size;
    EXPECT_FALSE(part.detail.empty()) << part.name;
  }
  EXPECT_EQ(result->formula, sum);
  EXPECT_EQ(result->total, sum);
  EXPECT_EQ(result->part("state"), Bytes{});
  EXPECT_EQ(result->part("no such part"), Bytes{});
}

TEST(EstimateLlamaCpp, E3_CellsArePaddedForEverySlot) {
  auto config = one_slot(300);
  EXPECT_EQ(context_of(config).cells, 512);
  config = {.ctx_size = 300, .parallel = 4, .kv_unified = false};
  EXPECT_EQ(context_of(config).cells, 256);
  EXPECT_EQ(context_of(config).streams, 4);
  config = {.ctx_size = 5000, .parallel = 3, .kv_unified = false};
  EXPECT_EQ(context_of(config).cells, 1792);
  config = {.ctx_size = 5000, .parallel = 3, .kv_unified = true};
  EXPECT_EQ(context_of(config).cells, 5120);
  EXPECT_EQ(context_of(config).streams, 1);
}

TEST(EstimateLlamaCpp, E3_BatchesAreNoLargerThanTheContextAndMicroBatchesThanBatches) {
  EXPECT_EQ(context_of({.ctx_size = 300, .batch = 2048, .ubatch = 512}).batch, 300);
  EXPECT_EQ(context_of({.ctx_size = 300, .batch = 2048, .ubatch = 512}).ubatch, 300);
  EXPECT_EQ(context_of({.ctx_size = 8192, .batch = 256, .ubatch = 512}).ubatch, 256);
}

TEST(EstimateLlamaCpp, F7_QuantizedCacheOfMistralSmall) {
  const auto model = dense_model({.layers = 56, .embedding = 6144, .heads = 48});
  auto config = one_slot(49152);
  config.cache_type_k = config.cache_type_v = CacheType::q8_0;
  const auto result = estimate_llamacpp(model, config, {}, Placement::gpu);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->part("kv"), mib(5712));
}

TEST(EstimateLlamaCpp, E3_BytesOfEveryCacheType) {
  const std::pair<CacheType, std::int64_t> bytes_of_1024[] = {
      {CacheType::f32, 4096},  {CacheType::f16, 2048}, {CacheType::bf16, 2048},
      {CacheType::q8_0, 1088}, {CacheType::q5_1, 768}, {CacheType::q5_0, 704},
      {CacheType::q4_1, 640},  {CacheType::q4_0, 576}, {CacheType::iq4_nl, 576}};
  for (const auto& [type, bytes] : bytes_of_1024) EXPECT_EQ(llamacpp::row_bytes(type, 1024), Bytes{bytes});
}

TEST(EstimateLlamaCpp, E3_WithoutFlashAttentionEveryLayersVIsAsWideAsTheWidest) {
  auto model = dense_model({.layers = 2});
  model.layers[1].attention->n_head_kv = 2;
  auto config = one_slot(1024);
  config.flash_attn = FlashAttention::on;
  const auto with = estimate_llamacpp(model, config, {}, Placement::cpu);
  config.flash_attn = FlashAttention::off;
  const auto without = estimate_llamacpp(model, config, {}, Placement::cpu);
  ASSERT_TRUE(with && without);
  EXPECT_EQ(with->part("kv"), Bytes{1024 * 2 * 128 * (8 + 8 + 2 + 2)});
  EXPECT_EQ(without->part("kv"), Bytes{1024 * 2 * 128 * (8 + 8 + 2 + 8)});
}

TEST(EstimateLlamaCpp, E3_AutomaticFlashAttentionFollowsWhatTheDeviceHasKernelsFor) {
  struct Case {
    CacheType k, v;
    bool on_gpu;
  };
  for (const auto& c : {Case{CacheType::f16, CacheType::f16, true}, Case{CacheType::bf16, CacheType::bf16, true},
                        Case{CacheType::q8_0, CacheType::q8_0, true}, Case{CacheType::q4_1, CacheType::q8_0, true},
                        Case{CacheType::q8_0, CacheType::f16, false}, Case{CacheType::f16, CacheType::bf16, false}}) {
    auto config = one_slot(8192);
    config.cache_type_k = c.k;
    config.cache_type_v = c.v;
    EXPECT_EQ(context_of(config, Placement::gpu).flash_attention, c.on_gpu);
    EXPECT_TRUE(context_of(config, Placement::cpu).flash_attention);
  }
}

TEST(EstimateLlamaCpp, E9_QuantizedVWithoutFlashAttentionIsRefusedInTheEnginesWords) {
  auto config = one_slot(8192);
  config.flash_attn = FlashAttention::off;
  config.cache_type_v = CacheType::q8_0;
  const auto result = estimate_llamacpp(dense_model(), config, {}, Placement::gpu);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "bad_configuration");
  EXPECT_THAT(result.error().message, HasSubstr("quantized V cache requires flash_attn to be enabled"));
  EXPECT_EQ(result.error().where, "cache_type_v");
  config.cache_type_v = CacheType::f16;
  config.cache_type_k = CacheType::q8_0;
  EXPECT_TRUE(estimate_llamacpp(dense_model(), config, {}, Placement::gpu)) << "a quantized K alone works without";
}

TEST(EstimateLlamaCpp, E9_BlocksMustDivideTheHeadSizeWithFlashAttention) {
  const auto model = dense_model({.head_size = 80});
  auto config = one_slot(8192);
  config.cache_type_k = CacheType::q8_0;
  const auto result = estimate_llamacpp(model, config, {}, Placement::cpu);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "bad_configuration");
  EXPECT_THAT(result.error().message,
              HasSubstr("K cache type q8_0 with block size 32 does not divide n_embd_head_k=80"));
  config.flash_attn = FlashAttention::off;
  EXPECT_TRUE(estimate_llamacpp(model, config, {}, Placement::cpu)) << "8 x 80 is a multiple of 32";
}

TEST(EstimateLlamaCpp, E9_ARowThatIsNotWholeBlocksIsRefusedWithoutFlashAttentionToo) {
  auto config = one_slot(8192);
  config.cache_type_k = CacheType::q4_0;
  config.flash_attn = FlashAttention::off;
  const auto result = estimate_llamacpp(dense_model({.heads = 3, .kv_heads = 3, .head_size = 80}), config, {}, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "bad_configuration");
}

TEST(EstimateLlamaCpp, E5_CudaConvertsAQuantizedCacheOfOneLayer) {
  auto config = one_slot(131072);
  config.cache_type_k = config.cache_type_v = CacheType::q8_0;
  const auto context = context_of(config);
  const auto caches = llamacpp::kv_caches(dense_model(), config, context).value();
  EXPECT_EQ(llamacpp::compute_buffers(dense_model(), config, context, caches, Placement::gpu).scratch, mib(512));
  EXPECT_EQ(llamacpp::compute_buffers(dense_model(), config, context, caches, Placement::cpu).scratch, Bytes{});
  config.cache_type_k = config.cache_type_v = CacheType::f16;
  EXPECT_EQ(llamacpp::compute_buffers(dense_model(), config, context, caches, Placement::gpu).scratch, Bytes{});
}

/// The graph's and the host's buffer as one expression each, without layers, caches or roles.
struct Written {
  DenseShape s;
  LlamaCppConfig c;

  std::int64_t t() const {
    const auto tokens = std::min({c.ctx_size, c.batch, c.ubatch});
    return (tokens + c.parallel - 1) / c.parallel * c.parallel;
  }
  std::int64_t cells() const {
    const auto total = (c.ctx_size + 255) / 256 * 256;
    return c.kv_unified ? total : (total / c.parallel + 255) / 256 * 256;
  }
  bool fused() const { return c.flash_attn == FlashAttention::on; }
  std::int64_t q() const { return s.heads * s.head_size; }
  std::int64_t kv() const { return s.kv_heads * s.head_size; }
  std::int64_t inputs() const { return cells() * t() * (fused() ? 2 : 4) + (fused() ? 0 : 8 * t() * kv()); }

  Bytes device() const {
    const auto e = s.embedding, ff = s.feed_forward, x = s.experts_used, ffe = s.expert_feed_forward;
    const auto attention = 5 * e + 3 * q() + 4 * kv();
    auto width = std::max(attention, ff > 0 ? 7 * e + 2 * ff + 4 * kv() : 0);
    if (s.experts > 0) {
      width = std::max({width, 4 * e + 3 * x * ffe + (ffe < e ? x * e : 0), 5 * e});
    }
    const auto streams = c.kv_unified ? 1 : c.parallel;
    const auto copies = fused() ? cells() * streams * 2 * kv() *
                                      ((c.cache_type_k == CacheType::f32) + (c.cache_type_v == CacheType::f32))
                                : 0;
    auto bytes = inputs() + copies + 4 * t() * (width + 64);
    if (!fused()) bytes = std::max(bytes, inputs() + 4 * t() * attention + cells() * t() * s.heads * 4);
    const auto rows = std::min({t(), c.ctx_size, c.batch, c.parallel});
    bytes = std::max(bytes, cells() * t() * (fused() ? 2 : 4) + 4 * rows * (s.vocabulary + 5 * e) + 8 * t() * e);
    return scale_up(Bytes{bytes}, 105, 100) + mib(1);
  }
  Bytes host() const { return scale_up(Bytes{inputs() + 4 * t() * (2 * s.embedding + 64)}, 102, 100) + mib(1); }
};

TEST(EstimateLlamaCpp, E5_ComputeBuffersAreTheWrittenFormulaForAnyShape) {
  std::mt19937 random{10587};
  const auto upto = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>{1, most}(random); };
  for (int i = 0; i < 3000; ++i) {
    DenseShape shape{.layers = upto(3), .embedding = 64 * upto(64), .heads = upto(64)};
    shape.kv_heads = upto(shape.heads);
    shape.head_size = 32 * upto(8);
    shape.feed_forward = upto(3) == 1 ? 0 : 64 * upto(300);
    shape.vocabulary = upto(2) == 1 ? upto(4096) : upto(1 << 20);
    if (upto(2) == 1) {
      shape.experts = 8 * upto(16);
      shape.experts_used = upto(8);
      shape.expert_feed_forward = 64 * upto(80);
    }
    LlamaCppConfig config{.ctx_size = upto(upto(2) == 1 ? 2000 : 100000), .parallel = upto(16)};
    config.kv_unified = upto(2) == 1;
    config.batch = upto(4096);
    config.ubatch = upto(2048);
    config.flash_attn = upto(2) == 1 ? FlashAttention::on : FlashAttention::off;
    config.cache_type_k = upto(3) == 1 ? CacheType::f32 : CacheType::f16;
    config.cache_type_v = upto(3) == 1 ? CacheType::f32 : CacheType::f16;
    const auto model = dense_model(shape);
    const auto context = llamacpp::resolve_context(model, config, Placement::gpu).value();
    const auto caches = llamacpp::kv_caches(model, config, context).value();
    const auto buffers = llamacpp::compute_buffers(model, config, context, caches, Placement::gpu);
    const Written written{shape, config};
    ASSERT_EQ(buffers.device, written.device()) << "case " << i;
    ASSERT_EQ(buffers.host, written.host()) << "case " << i;
    ASSERT_EQ(buffers.output, Bytes{shape.vocabulary * 4 * config.parallel});
  }
}

TEST(EstimateLlamaCpp, E6_F18_TheBoundOfThePromptCacheIsPartOfRuntime) {
  auto config = one_slot(8192);
  EXPECT_EQ(estimate_llamacpp(dense_model(), config, {}, Placement::gpu)->part("runtime"), mib(512));
  config.cache_ram_mib = 8192;
  const auto result = estimate_llamacpp(dense_model(), config, {}, Placement::gpu);
  EXPECT_EQ(result->part("runtime"), mib(512 + 8192));
  EXPECT_THAT(result->parts[4].detail, HasSubstr("512.0 MiB fixed + prompt cache of up to 8.0 GiB"));
  EXPECT_EQ(result->parts[4].source, Source::setting);
}

TEST(EstimateLlamaCpp, E6_AnUnboundedPromptCacheHasNoEstimate) {
  auto config = one_slot(8192);
  config.cache_ram_mib = -1;
  const auto result = estimate_llamacpp(dense_model(), config, {}, Placement::gpu);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().where, "cache_ram_mib");
}

TEST(EstimateLlamaCpp, E7_E8_MissingFieldsCostAFifthOfWhatRestsOnThem) {
  auto model = dense_model();
  model.missing_fields = {"llama.attention.key_length", "llama.attention.value_length"};
  const auto result = estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu);
  ASSERT_TRUE(result);
  const Bytes guessed = result->part("kv") + result->part("state") + result->part("activations");
  EXPECT_EQ(result->part("margin"), scale_up(guessed, 1, 5));
  EXPECT_EQ(result->confidence, Confidence::low);
  EXPECT_EQ(result->missing_fields, model.missing_fields);
  EXPECT_THAT(result->parts[5].detail, HasSubstr("llama.attention.key_length, llama.attention.value_length"));
}

TEST(EstimateLlamaCpp, E7_E8_NothingMissingIsNoMargin) {
  const auto result = estimate_llamacpp(dense_model(), one_slot(8192), {}, Placement::gpu);
  EXPECT_EQ(result->part("margin"), Bytes{});
  EXPECT_EQ(result->confidence, Confidence::estimated);
}

TEST(EstimateLlamaCpp, E8_EveryPartSaysWhereItComesFrom) {
  const auto result = estimate_llamacpp(dense_model({.tied = true}), one_slot(8192), {}, Placement::gpu);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->parts[0].source, Source::file_size);
  EXPECT_THAT(result->parts[0].detail, HasSubstr("token embedding (282.0 MiB) a second time"));
  EXPECT_EQ(result->parts[1].detail, "32 layers x 8 KV heads x 128, f16, 8192 cells");
}

TEST(EstimateLlamaCpp, E9_HostileSizesAreErrorsNotOverflows) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  for (const auto value : {kHuge, std::int64_t{0}, std::int64_t{-1}}) {
    auto model = dense_model();
    model.layers[0].attention->n_head_kv = value;
    EXPECT_FALSE(estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu));
    model = dense_model();
    model.layers[0].attention->key_length = value;
    EXPECT_FALSE(estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu));
    model = dense_model();
    model.embedding_length = value;
    EXPECT_FALSE(estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu));
    model = dense_model();
    model.vocabulary = value;
    EXPECT_FALSE(estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu));
    EXPECT_FALSE(estimate_llamacpp(dense_model(), one_slot(value), {}, Placement::gpu));
    auto config = one_slot(8192);
    config.parallel = value;
    EXPECT_FALSE(estimate_llamacpp(dense_model(), config, {}, Placement::gpu));
    model = dense_model();
    model.layers[0].recurrent = model::RecurrentState{.conv_elements = 1, .state_elements = value};
    EXPECT_EQ(estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu).has_value(), value == 0);
    model = dense_model();
    model.layers[0].attention->window = value;
    EXPECT_EQ(estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu).has_value(), value == 0);
    config = one_slot(8192);
    config.ubatch = value;
    EXPECT_FALSE(estimate_llamacpp(dense_model(), config, {}, Placement::gpu));
  }
  auto model = dense_model();
  model.layers.clear();
  EXPECT_EQ(estimate_llamacpp(model, one_slot(8192), {}, Placement::gpu).error().code, "model_not_supported");
}

TEST(EstimateLlamaCpp, E3_TheLargestSizesThatAreAcceptedDoNotOverflow) {
  auto model = dense_model({.layers = 1024,
                            .embedding = 1 << 20,
                            .heads = 1 << 14,
                            .kv_heads = 1 << 14,
                            .head_size = 64,
                            .feed_forward = 1 << 20,
                            .vocabulary = 1 << 24});
  LlamaCppConfig config{.ctx_size = 1 << 27,
                        .parallel = 256,
                        .kv_unified = false,
                        .cache_type_k = CacheType::f32,
                        .cache_type_v = CacheType::f32,
                        .batch = 1 << 16,
                        .ubatch = 1 << 16,
                        .cache_ram_mib = 0};
  for (const auto flash_attn : {FlashAttention::on, FlashAttention::off}) {
    config.flash_attn = flash_attn;
    const auto result = estimate_llamacpp(model, config, {}, Placement::gpu);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->part("kv"), Bytes{std::int64_t{1} << 60});
    EXPECT_GT(result->total, result->part("kv"));
  }
}

TEST(EstimateLlamaCpp, E3_E5_MoreContextOrSlotsNeverNeedLess) {
  const auto model = dense_model();
  for (const auto placement : {Placement::gpu, Placement::cpu}) {
    for (const bool unified : {true, false}) {
      Bytes before;
      for (std::int64_t ctx_size = 256; ctx_size <= 262144; ctx_size *= 2) {
        const LlamaCppConfig config{.ctx_size = ctx_size, .parallel = 4, .kv_unified = unified, .cache_ram_mib = 0};
        const auto total = estimate_llamacpp(model, config, {}, placement)->total;
        EXPECT_GE(total, before) << ctx_size;
        before = total;
      }
    }
  }
}

}  // namespace
}  // namespace dgxmm::memory
