// llama.cpp's caches, states and checkpoints for layers of every kind.
#include "core/engine/engine.h"
#include "core/memory/estimate.h"
#include "core/memory/llamacpp_cache.h"
#include "core/memory/llamacpp_compute.h"
#include "unit/core/memory/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::memory {
namespace {

using engine::CacheType;
using engine::FlashAttention;
using engine::LlamaCppConfig;
using llamacpp::CacheKind;
using model::AttentionKind;
using ::testing::HasSubstr;

/// f16: 2 KV heads of 64, so 512 bytes a layer and token.
model::ModelDescription small_model(std::int64_t layers, std::string architecture = "llama") {
  auto model = dense_model({.layers = layers, .embedding = 256, .heads = 4, .kv_heads = 2, .head_size = 64});
  model.architecture = std::move(architecture);
  return model;
}
constexpr std::int64_t kCell = 512;

LlamaCppConfig config_of(std::int64_t ctx_size, std::int64_t parallel = 1, bool unified = false) {
  return {.ctx_size = ctx_size, .parallel = parallel, .kv_unified = unified, .cache_ram_mib = 0};
}

std::vector<llamacpp::Cache> caches_of(const model::ModelDescription& model, const LlamaCppConfig& config) {
  const auto context = llamacpp::resolve_context(model, config, Placement::gpu).value();
  return llamacpp::kv_caches(model, config, context).value();
}

Estimate estimate_of(const model::ModelDescription& model, const LlamaCppConfig& config) {
  return estimate_llamacpp(model, config, {}, Placement::gpu).value();
}

/// Every second layer has a window.
model::ModelDescription windowed_model(std::int64_t layers, std::int64_t window) {
  auto model = small_model(layers, "gpt-oss");
  for (std::size_t i = 0; i < model.layers.size(); i += 2) {
    model.layers[i].attention->kind = AttentionKind::sliding_window;
    model.layers[i].attention->window = window;
  }
  return model;
}

TEST(LlamaCppWindows, E3_CellsOfAWindowFollowSlotsMicroBatchAndPool) {
  const auto cells = [](const LlamaCppConfig& config) {
    const auto caches = caches_of(windowed_model(4, 1000), config);
    EXPECT_EQ(caches.size(), 2U);
    EXPECT_EQ(caches[1].kind, CacheKind::window);
    EXPECT_EQ(caches[1].layers, 2);
    EXPECT_EQ(caches[1].size, Bytes{caches[1].cells * caches[1].streams * 2 * kCell});
    return std::pair{caches[1].cells, caches[1].streams};
  };
  using Cells = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(cells(config_of(32768)), (Cells{1536, 1}));           // 1000 + 512
  EXPECT_EQ(cells(config_of(32768, 4, true)), (Cells{4608, 1}));  // 4 x 1000 + 512
  EXPECT_EQ(cells(config_of(32768, 4, false)), (Cells{1536, 4}));
  EXPECT_EQ(cells(config_of(1024)), (Cells{1024, 1}));  // no more than everything
  auto config = config_of(32768);
  config.ubatch = 2048;
  EXPECT_EQ(cells(config), (Cells{3072, 1}));
  config.swa_full = true;
  EXPECT_EQ(cells(config), (Cells{32768, 1}));
}

TEST(LlamaCppWindows, E3_AWindowLargerThanTheContextIsTheContext) {
  const auto caches = caches_of(windowed_model(4, 1 << 20), config_of(4096, 4, true));
  EXPECT_EQ(caches[1].cells, 4096);
}

TEST(LlamaCppWindows, E3_WithoutFlashAttentionVIsAsWideAsTheWidestOfBothCaches) {
  auto model = windowed_model(2, 256);
  model.layers[1].attention->n_head_kv = 1;
  auto config = config_of(4096);
  config.flash_attn = FlashAttention::off;
  const auto caches = caches_of(model, config);
  EXPECT_EQ(caches[0].size, Bytes{4096 * (64 + 128) * 2}) << "K of one head, V of two";
}

TEST(LlamaCppWindows, E6_CheckpointsOfAWindowAreGrowthOfRuntime) {
  const auto result = estimate_of(windowed_model(20, 512), config_of(8192, 2));
  const Bytes checkpoint{512 * 10 * kCell};  // 2.5 MiB, measured: 2.506 MiB with its ids
  EXPECT_EQ(result.part("runtime"), mib(512) + checkpoint * (2 * engine::kContextCheckpoints));
  EXPECT_THAT(result.parts[4].detail, HasSubstr("8 checkpoints of 2.5 MiB"));
  auto full = config_of(8192, 2);
  full.swa_full = true;
  EXPECT_EQ(estimate_of(windowed_model(20, 512), full).part("runtime"), mib(512)) << "nothing is ever dropped";
  EXPECT_EQ(estimate_of(small_model(20), config_of(8192, 2)).part("runtime"), mib(512));
}

TEST(LlamaCppWindows, E6_TheBoundOfCheckpointsIsOnTheCommandLine) {
  const auto command = engine::make_command({.executable = "llama-server", .config = config_of(4096)});
  const auto flag = std::ranges::find(command.arguments, "--ctx-checkpoints");
  ASSERT_NE(flag, command.arguments.end());
  EXPECT_EQ(*(flag + 1), std::to_string(engine::kContextCheckpoints));
}

model::ModelDescription latent_model(std::int64_t layers) {
  auto model = small_model(layers, "deepseek2");
  for (auto& layer : model.layers) {
    layer.attention = model::Attention{.kind = AttentionKind::mla,
                                       .n_head = 128,
                                       .n_head_kv = 1,
                                       .key_length = 576,
                                       .value_length = 512,
                                       .kv_lora_rank = 512,
                                       .rope_length = 64,
                                       .mla_key_length = 192,
                                       .keeps_values = false};
  }
  return model;
}

TEST(LlamaCppLatent, E3_DeepSeekV3KeepsOneLatentPerTokenAndLayer) {
  EXPECT_EQ(estimate_of(latent_model(61), config_of(32768)).part("kv"), mib(2196));
}

TEST(LlamaCppLatent, E9_KeysAndValuesMustHaveOneTypeBecauseTheyAreOneTensor) {
  auto config = config_of(4096);
  config.cache_type_k = CacheType::q8_0;
  const auto result = estimate_llamacpp(latent_model(2), config, {}, Placement::gpu);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "bad_configuration");
  EXPECT_THAT(result.error().message, HasSubstr("model does not support different K (q8_0) and V (f16) cache types"));
  config.cache_type_v = CacheType::q8_0;
  EXPECT_EQ(estimate_of(latent_model(2), config).part("kv"), Bytes{4096 * 2 * 612});
}

TEST(LlamaCppLatent, E3_AnIndexerKeepsAShortKeyBesideTheLatent) {
  auto model = latent_model(3);
  model.architecture = "deepseek32";
  for (auto& layer : model.layers) layer.attention->indexer_key_length = 128;
  const auto caches = caches_of(model, config_of(4096));
  ASSERT_EQ(caches.size(), 2U);
  EXPECT_EQ(caches[1].kind, CacheKind::indexer);
  EXPECT_EQ(caches[1].size, Bytes{4096 * 3 * 128 * 2});
}

TEST(LlamaCppLatent, E3_AnIndexerOfPlainAttentionKeepsValuesThatItNeverReads) {
  auto model = small_model(2, "minimax-m3");
  model.layers[1].attention->indexer_key_length = 128;
  EXPECT_EQ(caches_of(model, config_of(4096))[1].size, Bytes{4096 * (128 + 64) * 2});
}

/// DeepSeek V4 Flash: 43 layers, of which 21 keep every fourth token and 20 every 128th.
model::ModelDescription compressed_model() {
  auto model = small_model(43, "deepseek4");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    auto& attention = *model.layers[i].attention;
    attention = {.kind = AttentionKind::sliding_window,
                 .n_head = 64,
                 .n_head_kv = 1,
                 .key_length = 512,
                 .value_length = 512,
                 .window = 128,
                 .compress_ratio = i < 2 ? 0 : (i % 2 == 0 ? 4 : 128),
                 .keeps_values = false};
    if (attention.compress_ratio == 4) attention.indexer_key_length = 128;
  }
  model.hyper_connections = 4;
  return model;
}

TEST(LlamaCppCompressed, E3_E4_DeepSeekV4AsMeasured) {
  const auto result = estimate_of(compressed_model(), config_of(32768));
  EXPECT_NEAR(static_cast<double>(result.part("kv").count()) / (1 << 20), 247.25, 0.005);
  EXPECT_NEAR(static_cast<double>(result.part("state").count()) / (1 << 20), 11.64, 0.005);
}

TEST(LlamaCppCompressed, E3_EverySlotHasTheWholeContextWhenUnified) {
  const auto one = estimate_of(compressed_model(), config_of(32768, 1, true));
  const auto four = estimate_of(compressed_model(), config_of(32768, 4, true));
  EXPECT_EQ(four.part("kv"), one.part("kv") * 4);
  EXPECT_EQ(four.part("state"), one.part("state") * 4);
}

TEST(LlamaCppCompressed, E9_MoreThanCanBeCountedIsRefused) {
  const auto result = estimate_llamacpp(compressed_model(), config_of(1 << 27, 256, true), {}, Placement::gpu);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "bad_configuration");
}

model::ModelDescription hybrid_model(std::string architecture) {
  auto model = small_model(4, std::move(architecture));
  for (const auto i : {0, 1, 2}) {
    model.layers[static_cast<std::size_t>(i)].attention.reset();
    model.layers[static_cast<std::size_t>(i)].recurrent =
        model::RecurrentState{.kind = model::RecurrentKind::gated_delta_net,
                              .conv_elements = 100,
                              .state_elements = 900,
                              .projected = 64,
                              .convolved = 32,
                              .inner = 32};
  }
  return model;
}

TEST(LlamaCppRecurrent, E4_StateIsF32PerSlotAndIndependentOfContext) {
  for (const std::int64_t ctx_size : {4096, 131072}) {
    const auto result = estimate_of(hybrid_model("qwen3next"), config_of(ctx_size, 4));
    EXPECT_EQ(result.part("state"), Bytes{1000 * 3 * 4 * 4});
    EXPECT_EQ(result.part("kv"), Bytes{ctx_size * kCell});
  }
  EXPECT_THAT(estimate_of(hybrid_model("qwen3next"), config_of(4096, 4)).parts[2].detail,
              HasSubstr("3 recurrent layers, f32, 4 slots"));
}

TEST(LlamaCppRecurrent, E4_OlderStatesAreKeptByTheModelsThatCanReturnToThem) {
  const auto state = [](const std::string& architecture) {
    return llamacpp::recurrent_state(hybrid_model(architecture), {.sequences = 2, .rollback_states = 3});
  };
  EXPECT_EQ(state("qwen3next"), Bytes{1000 * 3 * 4 * 2});
  EXPECT_EQ(state("qwen35"), Bytes{1000 * 3 * 4 * 2 * 4});
}

TEST(LlamaCppRecurrent, E3_E6_AModelWithoutAttentionHasNoCacheButCheckpoints) {
  auto model = hybrid_model("mamba2");
  model.layers.pop_back();
  const auto result = estimate_of(model, config_of(8192));
  EXPECT_EQ(result.part("kv"), Bytes{});
  EXPECT_EQ(result.parts[1].detail, "none: no layer keeps tokens");
  EXPECT_EQ(result.part("runtime"), mib(512) + Bytes{1000 * 3 * 4} * engine::kContextCheckpoints);
}

TEST(LlamaCppShared, E3_SharedLayersAndEncodersHaveNoCells) {
  auto model = small_model(4, "gemma4");
  model.layers[2].attention->shares_kv = model.layers[3].attention->shares_kv = true;
  EXPECT_EQ(estimate_of(model, config_of(4096)).part("kv"), Bytes{4096 * 2 * kCell});
  for (auto& layer : model.layers) layer.attention->kind = AttentionKind::bidirectional;
  EXPECT_EQ(estimate_of(model, config_of(4096)).part("kv"), Bytes{});
}

TEST(LlamaCppNextn, E3_LayersForMultiTokenPredictionAreCachedByMostModelsThoughNotRun) {
  const auto layers_of = [](const std::string& architecture) {
    auto model = small_model(4, architecture);
    model.nextn_layers = {model.layers.front()};
    return caches_of(model, config_of(4096)).front().layers;
  };
  EXPECT_EQ(layers_of("glm4moe"), 5);
  EXPECT_EQ(layers_of("deepseek2"), 5);
  for (const auto* architecture : {"qwen35", "qwen35moe", "qwen3next", "glm-dsa", "deepseek32", "step35", "mimo2"}) {
    EXPECT_EQ(layers_of(architecture), 4) << architecture;
  }
}

TEST(LlamaCppNextn, E2_TheirWeightsAreNotLoadedAndTheFileSizeIsNamed) {
  auto model = small_model(4, "glm4moe");
  model.weights.nextn_tensors = gib(1);
  const auto result = estimate_of(model, config_of(4096));
  EXPECT_EQ(result.part("weights"), gib(3));
  EXPECT_THAT(result.parts[0].detail, HasSubstr("of 4.0 GiB without the layers for multi-token prediction (1.0 GiB)"));
}

TEST(LlamaCppWeights, E2_ATiedEmbeddingIsLoadedTwiceOnAGpuAndByGemma4Everywhere) {
  const auto weights = [](const std::string& architecture, Placement placement) {
    auto model = small_model(2, architecture);
    model.weights.tied_embeddings = true;
    return estimate_llamacpp(model, config_of(4096), {}, placement)->part("weights") - model.weights.files;
  };
  const auto copy = small_model(2).weights.token_embedding;
  EXPECT_EQ(weights("gemma3", Placement::gpu), copy);
  EXPECT_EQ(weights("gemma3", Placement::cpu), Bytes{});
  EXPECT_EQ(weights("gemma4", Placement::cpu), copy);
}

TEST(LlamaCppBuffers, E5_EveryLayersOwnEmbeddingIsInBothBuffers) {
  auto model = small_model(4, "gemma4");
  const auto config = config_of(4096);
  const auto context = llamacpp::resolve_context(model, config, Placement::gpu).value();
  const auto caches = llamacpp::kv_caches(model, config, context).value();
  const auto without = llamacpp::compute_buffers(model, config, context, caches, Placement::gpu);
  model.layer_embedding_length = 256;
  const auto with = llamacpp::compute_buffers(model, config, context, caches, Placement::gpu);
  EXPECT_EQ(with.device - without.device, scale_up(Bytes{8 * 512 * 256 * 4}, 105, 100));
  EXPECT_GE(with.host - without.host, Bytes{4 * 512 * 256 * 4});
}

TEST(LlamaCppBuffers, E5_AKindThatWasNotMeasuredHasHalfAsMuchAgain) {
  const auto device = [](const std::string& architecture) {
    const auto model = hybrid_model(architecture);
    const auto config = config_of(65536);
    const auto context = llamacpp::resolve_context(model, config, Placement::gpu).value();
    const auto caches = llamacpp::kv_caches(model, config, context).value();
    return llamacpp::compute_buffers(model, config, context, caches, Placement::gpu).device - mib(1);
  };
  EXPECT_NEAR(static_cast<double>(device("minimax-01").count()), 1.5 * static_cast<double>(device("qwen35").count()),
              4.0);
}

TEST(LlamaCppBuffers, E3_E5_MoreContextSlotsOrTokensNeverNeedLessForAnyKind) {
  auto windowed = windowed_model(4, 512);
  for (const auto& model : {windowed, latent_model(2), compressed_model(), hybrid_model("qwen35")}) {
    Bytes before;
    for (std::int64_t ctx_size = 256; ctx_size <= 262144; ctx_size *= 2) {
      const auto total = estimate_of(model, config_of(ctx_size, 4, true)).total;
      EXPECT_GE(total, before) << model.architecture << " " << ctx_size;
      before = total;
    }
    EXPECT_GE(estimate_of(model, config_of(8192, 8, true)).total, estimate_of(model, config_of(8192, 2, true)).total);
  }
}

}  // namespace
}  // namespace dgxmm::memory
