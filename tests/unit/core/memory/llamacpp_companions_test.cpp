// What llama-server loads beside a model: a draft model, the model's own layers for drafting, a projector.
#include "core/memory/llamacpp_companions.h"

#include "core/memory/estimate.h"
#include "core/memory/llamacpp_compute.h"
#include "unit/core/memory/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::memory {
namespace {

using engine::CacheType;
using engine::LlamaCppConfig;
using engine::SpecType;
using ::testing::HasSubstr;

constexpr std::int64_t kVocabulary = 1000;
constexpr std::int64_t kEmbedding = 256;

/// f16: 2 KV heads of 64, so 512 bytes a layer and token.
constexpr std::int64_t kCell = 512;

model::ModelDescription small_model(std::int64_t layers, std::string name = "model") {
  auto model = dense_model({.name = std::move(name),
                            .layers = layers,
                            .embedding = kEmbedding,
                            .heads = 4,
                            .kv_heads = 2,
                            .head_size = 64,
                            .vocabulary = kVocabulary,
                            .weights = mib(100),
                            .token_embedding = mib(10)});
  model.tokenizer = "gpt2";
  return model;
}

/// Qwen 3.5: every fourth layer has attention, the others a state; one layer for multi-token prediction behind them.
model::ModelDescription mtp_model(std::size_t nextn = 1, std::string architecture = "qwen35") {
  auto model = small_model(8);
  model.architecture = std::move(architecture);
  model.nextn_layers.assign(nextn, model.layers.front());
  const model::RecurrentState state{
      .kind = model::RecurrentKind::gated_delta_net, .conv_elements = 600, .state_elements = 10'000, .inner = 128};
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (i % 4 != 3) model.layers[i] = {.attention = {}, .recurrent = state, .feed_forward_length = 512};
  }
  model.weights.nextn_tensors = mib(5);
  return model;
}
constexpr Bytes kStateOfASlot{6 * (600 + 10'000) * 4};

LlamaCppConfig config_of(std::int64_t ctx_size, std::int64_t parallel = 1) {
  return {.ctx_size = ctx_size, .parallel = parallel, .kv_unified = false, .cache_ram_mib = 0};
}

LlamaCppConfig drafting(SpecType type, LlamaCppConfig config) {
  config.spec_type = type;
  if (type == SpecType::draft_simple) config.draft_model = "/m/small.gguf";
  return config;
}

Estimate estimate_of(const model::ModelDescription& model, const LlamaCppConfig& config,
                     const model::Companions& companions = {}) {
  auto result = estimate_llamacpp(model, config, {}, Placement::cpu, companions);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : Estimate{};
}

Error refused(const model::ModelDescription& model, const LlamaCppConfig& config,
              const model::Companions& companions = {}) {
  const auto result = estimate_llamacpp(model, config, {}, Placement::cpu, companions);
  return result ? Error{"ok", "ok", {}, {}} : result.error();
}

std::string detail(const Estimate& estimate, std::size_t part) { return estimate.parts.at(part).detail; }

TEST(LlamaCppDraft, E2_E3_ADraftModelIsASecondModelAtTheSameContextAndSlots) {
  const auto model = small_model(8);
  const auto draft = small_model(2, "small");
  const auto config = drafting(SpecType::draft_simple, config_of(3000, 3));
  const auto alone = estimate_of(model, config_of(3000, 3));
  const auto both = estimate_of(model, config, {.draft = draft, .projector = {}});
  EXPECT_EQ(both.part("weights"), mib(200));
  EXPECT_EQ(both.part("kv") - alone.part("kv"), Bytes{3 * 1024 * 2 * kCell}) << "1000 tokens a slot, rounded up";
  EXPECT_EQ(both.part("state"), Bytes{});
  EXPECT_GT(both.part("activations") - alone.part("activations"), mib(1));
  EXPECT_EQ(both.part("runtime"), alone.part("runtime")) << "no checkpoints of a model that keeps everything";
  EXPECT_THAT(detail(both, 0), HasSubstr("+ 100.0 MiB of the draft model small: 1 file"));
  EXPECT_THAT(detail(both, 1), HasSubstr("; to draft 3.0 MiB: 2 layers x 2 KV heads x 64, f16, 1024 cells x 3 slots"));
  EXPECT_THAT(detail(both, 3), HasSubstr(" to draft"));
}

TEST(LlamaCppDraft, E3_CacheTypesOfADraftAreItsOwn) {
  auto config = drafting(SpecType::draft_simple, config_of(4096));
  config.cache_type_k = config.cache_type_v = CacheType::q8_0;
  const model::Companions companions{.draft = small_model(2, "small"), .projector = {}};
  const auto f16 = estimate_of(small_model(8), config, companions);
  EXPECT_EQ(f16.part("kv"), Bytes{4096 * (8 * kCell * 34 / 64 + 2 * kCell)}) << "it does not inherit q8_0";
  config.cache_type_k_draft = config.cache_type_v_draft = CacheType::q8_0;
  EXPECT_EQ(estimate_of(small_model(8), config, companions).part("kv"), Bytes{4096 * 10 * kCell * 34 / 64});
}

TEST(LlamaCppDraft, E4_ADraftModelWithAStateKeepsOneASlot) {
  const model::Companions companions{.draft = mtp_model(), .projector = {}};
  const auto result = estimate_of(small_model(8), drafting(SpecType::draft_simple, config_of(4096, 2)), companions);
  EXPECT_EQ(result.part("state"), kStateOfASlot * 2);
  EXPECT_EQ(result.part("weights"), mib(100 + 95)) << "its own layers for multi-token prediction stay out";
}

TEST(LlamaCppMtp, E2_TheLayersForMultiTokenPredictionAreLoadedWhenTheyDraft) {
  const auto model = mtp_model();
  EXPECT_EQ(estimate_of(model, config_of(4096)).part("weights"), mib(95));
  const auto result = estimate_of(model, drafting(SpecType::draft_mtp, config_of(4096)));
  EXPECT_EQ(result.part("weights"), mib(100));
  EXPECT_THAT(detail(result, 0), HasSubstr("with the layers for multi-token prediction (5.0 MiB)"));
}

TEST(LlamaCppMtp, E3_TheSecondContextHasCellsForTheLayersThatDraft) {
  const auto model = mtp_model();
  EXPECT_EQ(estimate_of(model, config_of(4096, 2)).part("kv"), Bytes{4096 * 2 * kCell});
  EXPECT_EQ(estimate_of(model, drafting(SpecType::draft_mtp, config_of(4096, 2))).part("kv"),
            Bytes{4096 * (2 + 1) * kCell});
  auto of_all = mtp_model(1, "deepseek2");  // allocated for every layer, in both contexts
  of_all.layers = small_model(8).layers;
  EXPECT_EQ(estimate_of(of_all, drafting(SpecType::draft_mtp, config_of(4096))).part("kv"),
            Bytes{4096 * (9 + 9) * kCell});
}

TEST(LlamaCppMtp, E3_TheContextThatDraftsHasNoIndexer) {
  auto model = small_model(8);
  model.architecture = "deepseek32";
  for (auto& layer : model.layers) layer.attention->indexer_key_length = 64;
  model.nextn_layers.assign(1, model.layers.front());
  const auto main = estimate_of(model, config_of(4096)).part("kv");
  EXPECT_EQ(estimate_of(model, drafting(SpecType::draft_mtp, config_of(4096))).part("kv") - main, Bytes{4096 * kCell});
}

TEST(LlamaCppMtp, LatentAttentionRefusesDifferentTypesOfTheDraftToo) {
  auto model = small_model(8);
  model.architecture = "deepseek2";
  for (auto& layer : model.layers) layer.attention->keeps_values = false;
  model.nextn_layers.assign(1, model.layers.front());
  auto config = drafting(SpecType::draft_mtp, config_of(4096));
  config.cache_type_k_draft = CacheType::q8_0;
  const auto error = refused(model, config);
  EXPECT_EQ(error.where, "cache_type_v_draft");
  EXPECT_THAT(error.hint, HasSubstr("cache_type_k_draft"));
  config.cache_type_v_draft = CacheType::q8_0;
  EXPECT_EQ(refused(model, config).code, "ok");
}

TEST(LlamaCppMtp, E4_OlderCopiesOfTheStateAreKeptOnlyWhereTheModelCanGoBack) {
  auto config = drafting(SpecType::draft_mtp, config_of(4096, 2));
  const auto four = estimate_of(mtp_model(), config);
  EXPECT_EQ(four.part("state"), kStateOfASlot * 2 * (1 + 3)) << "llama-server drafts 3 tokens unless told otherwise";
  EXPECT_THAT(detail(four, 2), HasSubstr("6 recurrent layers, f32, 2 slots x 4 to take drafts back"));
  config.spec_draft_n_max = 1;
  EXPECT_EQ(estimate_of(mtp_model(), config).part("state"), kStateOfASlot * 2 * 2);
  EXPECT_EQ(estimate_of(mtp_model(1, "qwen3next"), config).part("state"), kStateOfASlot * 2);
  const model::Companions companions{.draft = small_model(2), .projector = {}};
  EXPECT_EQ(estimate_of(mtp_model(), drafting(SpecType::draft_simple, config_of(4096, 2)), companions).part("state"),
            kStateOfASlot * 2)
      << "only its own layers draft so";
}

TEST(LlamaCppMtp, E5_RowsOfLogitsAndHandedOverStatesAreCounted) {
  const auto model = mtp_model();
  const auto main = llamacpp::resolve_context(model, drafting(SpecType::draft_mtp, config_of(4096, 2)), {}).value();
  EXPECT_EQ(main.output_rows, 2 * (1 + 3));
  EXPECT_EQ(main.rollback_states, 3);
  const auto config = drafting(SpecType::draft_mtp, config_of(4096, 2));
  EXPECT_EQ(llamacpp::handed_over(model, config, main), Bytes{2 * 2048 * kEmbedding * 4});
  EXPECT_EQ(llamacpp::handed_over(model, config_of(4096, 2), main), Bytes{});
  const auto caches = llamacpp::kv_caches(model, config, main).value();
  EXPECT_EQ(llamacpp::compute_buffers(model, config, main, caches, {}).output, Bytes{8 * kVocabulary * 4});
  const auto added =
      estimate_of(model, config).part("activations") - estimate_of(model, config_of(4096, 2)).part("activations");
  EXPECT_GT(added, llamacpp::handed_over(model, config, main));
}

TEST(LlamaCppMtp, E6_CheckpointsHoldTheDraftsCacheToo) {
  const auto model = mtp_model();
  const auto alone = estimate_of(model, config_of(4096, 2)).part("runtime");
  EXPECT_EQ(alone, mib(512) + kStateOfASlot * 2 * engine::kContextCheckpoints);
  const auto mtp = estimate_of(model, drafting(SpecType::draft_mtp, config_of(4096, 2)));
  EXPECT_EQ(mtp.part("runtime") - alone, Bytes{4096 * kCell} * engine::kContextCheckpoints)
      << "the cells of both slots, once for each checkpoint";
  EXPECT_THAT(detail(mtp, 4), HasSubstr("8 checkpoints of 1.2 MiB with the draft's cache"));
  // A state that cannot be taken back is kept once more, from before the draft.
  const model::Companions companions{.draft = small_model(1), .projector = {}};
  const auto simple = estimate_of(model, drafting(SpecType::draft_simple, config_of(4096, 2)), companions);
  EXPECT_THAT(detail(simple, 4), HasSubstr("10 checkpoints of 1.2 MiB"));
}

TEST(LlamaCppMtp, WhatTheServerRefusesIsRefusedByTheSameRule) {
  const auto config = drafting(SpecType::draft_mtp, config_of(4096));
  const auto without = refused(small_model(8), config);
  EXPECT_EQ(without.code, "bad_configuration");
  EXPECT_EQ(without.where, "spec_type");
  EXPECT_THAT(without.message, HasSubstr("model has no layers for multi-token prediction"));
  EXPECT_EQ(refused(mtp_model(1, "exaone-moe"), config).where, "spec_type");
  EXPECT_EQ(refused(mtp_model(2), config).where, "spec_type") << "an assertion in its graph";
  EXPECT_EQ(refused(mtp_model(2, "step35"), config).code, "ok");
  auto types = config;
  types.cache_type_v_draft = CacheType::q8_0;
  types.flash_attn = engine::FlashAttention::off;
  EXPECT_EQ(refused(mtp_model(), types).where, "cache_type_v_draft");
}

TEST(LlamaCppDraft, ADraftWithAnotherVocabularyIsRefusedWithBothNamed) {
  const auto config = drafting(SpecType::draft_simple, config_of(4096));
  const auto with = [&](std::int64_t vocabulary, std::string tokenizer) {
    auto draft = small_model(2, "small");
    draft.vocabulary = vocabulary;
    draft.tokenizer = std::move(tokenizer);
    return refused(small_model(8), config, {.draft = std::move(draft), .projector = {}});
  };
  EXPECT_EQ(with(kVocabulary + 128, "gpt2").code, "ok");
  EXPECT_EQ(with(kVocabulary - 128, "gpt2").code, "ok");
  EXPECT_EQ(with(kVocabulary, "").code, "ok") << "not known, so nothing is claimed";
  for (const auto& error :
       {with(kVocabulary + 129, "gpt2"), with(kVocabulary - 129, "gpt2"), with(kVocabulary, "llama")}) {
    EXPECT_EQ(error.code, "bad_configuration");
    EXPECT_EQ(error.where, "draft_model");
    EXPECT_THAT(error.message, HasSubstr("llama.cpp would not draft with small"));
  }
}

TEST(LlamaCppDraft, ACompanionThatWasNotReadOrNotAskedForIsNeverIgnored) {
  const model::Companions draft{.draft = small_model(2), .projector = {}};
  const model::Companions projector{.draft = {}, .projector = model::Projector{}};
  EXPECT_EQ(refused(small_model(8), drafting(SpecType::draft_simple, config_of(4096))).where, "draft_model");
  EXPECT_EQ(refused(small_model(8), config_of(4096), draft).where, "draft_model");
  EXPECT_EQ(refused(small_model(8), config_of(4096), projector).where, "mmproj");
  auto config = config_of(4096);
  config.mmproj = "/m/mmproj.gguf";
  EXPECT_EQ(refused(small_model(8), config).where, "mmproj");
  auto folder = draft;
  folder.draft->format = model::Format::safetensors;
  EXPECT_EQ(refused(small_model(8), drafting(SpecType::draft_simple, config_of(4096)), folder).where, "draft_model");
}

TEST(LlamaCppDraft, E8_WhatIsMissingOfADraftLowersTheConfidence) {
  model::Companions companions{.draft = small_model(2), .projector = {}};
  companions.draft->missing_fields = {"llama.rope"};
  const auto result = estimate_of(small_model(8), drafting(SpecType::draft_simple, config_of(4096)), companions);
  EXPECT_EQ(result.confidence, Confidence::low);
  EXPECT_THAT(result.missing_fields, ::testing::ElementsAre("llama.rope"));
  EXPECT_GT(result.part("margin"), Bytes{});
}

TEST(LlamaCppProjector, E2_E5_IsItsWeightsAndBuffersToPlanWith) {
  auto config = config_of(4096);
  config.mmproj = "/m/mmproj.gguf";
  const auto with = [&](Bytes tensors) {
    const model::Projector projector{.path = config.mmproj, .file = tensors + mib(1), .tensors = tensors};
    return estimate_of(small_model(8), config, {.draft = {}, .projector = projector});
  };
  const auto alone = estimate_of(small_model(8), config_of(4096));
  EXPECT_EQ(with(mib(100)).part("weights") - alone.part("weights"), mib(101));
  EXPECT_EQ(with(mib(100)).part("activations") - alone.part("activations"), mib(512));
  EXPECT_EQ(with(gib(1)).part("activations") - alone.part("activations"), gib(2));
  EXPECT_THAT(detail(with(gib(1)), 3), HasSubstr("up to 2.0 GiB for pictures or sound"));
}

TEST(LlamaCppDraft, HostileSizesNeitherOverflowNorCrash) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  auto config = config_of(4096);
  config.mmproj = "/m/mmproj.gguf";
  const model::Projector projector{.path = config.mmproj, .file = Bytes{kMost}, .tensors = Bytes{kMost}};
  EXPECT_EQ(refused(small_model(8), config, {.draft = {}, .projector = projector}).where, "mmproj");
  auto draft = small_model(2);
  draft.weights.files = Bytes{kMost};
  EXPECT_EQ(
      refused(small_model(8), drafting(SpecType::draft_simple, config_of(4096)), {.draft = draft, .projector = {}})
          .code,
      "model_not_supported");
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{64}, kMost}) {
    auto many = drafting(SpecType::draft_mtp, config_of(4096));
    many.spec_draft_n_max = n;
    EXPECT_EQ(refused(mtp_model(), many).where, "spec_draft_n_max");
  }
  // The largest of everything that is accepted.
  auto largest = mtp_model();
  largest.layers.assign(1000, {.attention = {},
                               .recurrent = model::RecurrentState{.conv_elements = std::int64_t{1} << 34,
                                                                  .state_elements = std::int64_t{1} << 33}});
  largest.nextn_layers.front().attention->n_head = largest.nextn_layers.front().attention->n_head_kv = 1 << 14;
  auto many = drafting(SpecType::draft_mtp, config_of(1 << 27, 256));
  many.kv_unified = true;
  many.spec_draft_n_max = engine::kMostDrafted;
  many.cache_type_k_draft = many.cache_type_v_draft = CacheType::f32;
  const auto result = estimate_of(largest, many);
  for (const auto& part : result.parts) EXPECT_GE(part.size, Bytes{}) << part.name;
  EXPECT_GT(result.total, result.part("state"));
}

}  // namespace
}  // namespace dgxmm::memory
