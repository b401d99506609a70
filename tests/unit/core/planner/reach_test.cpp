#include "core/planner/reach.h"

#include "core/engine/request.h"
#include "core/planner/variants.h"
#include "unit/core/memory/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace dgxmm::planner {
namespace {

using engine::CacheType;
using engine::EngineConfig;
using engine::LlamaCppConfig;
using engine::VllmConfig;

constexpr std::int64_t kTrained = 32768;

/// 1 GiB, 1 MiB a token of f16 cache, less for smaller names, 100 MiB a slot or sequence.
Result<memory::Estimate> simple_estimate(const EngineConfig& config) {
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    const auto part = llamacpp->cache_type_k == CacheType::f16 ? 4 : llamacpp->cache_type_k == CacheType::q8_0 ? 2 : 1;
    return memory::Estimate{.total = gib(1) + kib(256) * llamacpp->ctx_size * part + mib(100) * llamacpp->parallel};
  }
  const auto& vllm = std::get<VllmConfig>(config);
  const auto tokens = vllm.kv_tokens.value_or(2 * vllm.max_model_len);
  const auto part = vllm.kv_cache_dtype == "fp8" ? 1 : 2;
  return memory::Estimate{.total = gib(1) + kib(512) * tokens * part + mib(100) * vllm.max_num_seqs};
}

LlamaCppConfig slots(std::int64_t ctx_size, std::int64_t parallel, bool unified) {
  return {.ctx_size = ctx_size, .parallel = parallel, .kv_unified = unified};
}

Reach reach_of(const EngineConfig& config, Bytes free) { return reach(config, kTrained, free, simple_estimate); }

TEST(Reach, TheLongestContextIsWhatFitsAndOneStepMoreDoesNot) {
  // 1 GiB + 100 MiB + n MiB <= 9 GiB, in steps of 256
  const auto found = reach_of(slots(4096, 1, true), gib(9));
  ASSERT_TRUE(found.longest_context);
  EXPECT_EQ(found.longest_context->value, 7936);
  EXPECT_EQ(found.longest_context->needed, gib(1) + mib(100 + 7936));
  EXPECT_FALSE(found.whole_context);
  EXPECT_EQ(std::get<LlamaCppConfig>(found.longest_context->config).ctx_size, 7936);
}

TEST(Reach, F13_TheWholeTrainingContextIsSaidToBeThat) {
  const auto found = reach_of(slots(4096, 1, true), gib(100));
  ASSERT_TRUE(found.longest_context);
  EXPECT_EQ(found.longest_context->value, kTrained);
  EXPECT_TRUE(found.whole_context);
}

TEST(Reach, AContextBeyondTheTrainingThatWasAskedForIsOneToo) {
  const auto found = reach_of(slots(2 * kTrained, 1, true), gib(100));
  EXPECT_EQ(found.longest_context->value, 2 * kTrained);
}

TEST(Reach, DividedSlotsAreCountedEachASharedPoolOnce) {
  const auto divided = reach_of(slots(8192, 4, false), gib(9));
  ASSERT_TRUE(divided.longest_context);
  EXPECT_EQ(std::get<LlamaCppConfig>(divided.longest_context->config).ctx_size, 4 * divided.longest_context->value);
  const auto shared = reach_of(slots(8192, 4, true), gib(9));
  EXPECT_EQ(std::get<LlamaCppConfig>(shared.longest_context->config).ctx_size, shared.longest_context->value);
  EXPECT_GT(shared.longest_context->value, divided.longest_context->value);
}

TEST(Reach, EachOfTheMostSequencesCanFillItsContext) {
  // 1 GiB + n x (100 MiB + 1 GiB) <= 9 GiB
  const auto found = reach_of(slots(1024, 1, true), gib(9));
  ASSERT_TRUE(found.most_sequences);
  EXPECT_EQ(found.most_sequences->value, 7);
  const auto& config = std::get<LlamaCppConfig>(found.most_sequences->config);
  EXPECT_EQ(config.ctx_size, 7 * 1024);
  EXPECT_EQ(config.parallel, 7);

  const auto vllm =
      reach_of(VllmConfig{.max_model_len = 1024, .max_num_seqs = 4, .max_num_batched_tokens = 2048}, gib(9));
  ASSERT_TRUE(vllm.most_sequences);
  EXPECT_EQ(vllm.most_sequences->value, 7);
  EXPECT_EQ(std::get<VllmConfig>(vllm.most_sequences->config).kv_tokens, 7 * 1024);
}

TEST(Reach, WhatCannotBeHadAtAllIsAbsent) {
  const auto found = reach_of(slots(4096, 1, true), gib(1));
  EXPECT_FALSE(found.longest_context);
  EXPECT_FALSE(found.whole_context);
  EXPECT_FALSE(found.most_sequences);
  for (const auto& row : found.settings) {
    EXPECT_FALSE(row.fits);
    EXPECT_FALSE(row.longest_context);
  }
}

TEST(Reach, NothingIsFreeOnAnOvercommittedHost) {
  EXPECT_FALSE(reach_of(slots(4096, 1, true), -gib(5)).longest_context);
}

TEST(Reach, EachSettingHasItsOwnReach) {
  const auto found = reach_of(slots(8192, 1, true), gib(6));
  std::vector<std::string> names;
  for (const auto& row : found.settings) names.push_back(row.name);
  ASSERT_THAT(names, testing::ElementsAre("KV cache f16", "KV cache q8_0", "KV cache q4_0", "no prompt cache"));
  EXPECT_TRUE(found.settings[0].as_asked);
  EXPECT_FALSE(found.settings[0].fits);
  EXPECT_TRUE(found.settings[1].fits);
  EXPECT_FALSE(found.settings[1].as_asked);
  EXPECT_LT(found.settings[0].longest_context->value, found.settings[1].longest_context->value);
  EXPECT_LT(found.settings[1].longest_context->value, found.settings[2].longest_context->value);
}

TEST(Reach, ATypeThatTheEngineWouldRefuseIsNotOffered) {
  auto config = slots(8192, 1, true);
  config.flash_attn = engine::FlashAttention::off;  // no quantized V without it
  const auto found = reach_of(config, gib(6));
  ASSERT_EQ(found.settings.size(), 2U);
  EXPECT_EQ(found.settings[0].name, "KV cache f16");
  EXPECT_EQ(found.settings[1].name, "no prompt cache");
}

TEST(Reach, ASettingThatCannotBeEstimatedDoesNotFit) {
  const auto none = [](const EngineConfig&) -> Result<memory::Estimate> { return fail("bad_configuration", "no"); };
  const auto found = reach(slots(8192, 1, true), kTrained, gib(100), none);
  EXPECT_FALSE(found.longest_context);
  EXPECT_FALSE(found.most_sequences);
  EXPECT_TRUE(found.settings.empty());
}

// With the real formulas, against trying every value.
TEST(Reach, IsTheSameAsTryingEveryValueOnRandomHosts) {
  std::mt19937_64 random{7};
  const auto model = memory::dense_model();
  const auto estimator = [&](const EngineConfig& config) {
    return memory::estimate(model, config, {}, memory::Placement::gpu);
  };
  const auto fits = [&](const EngineConfig& config, Bytes free) {
    const auto estimate = estimator(config);
    return engine::check(config) && estimate && estimate->total <= free;
  };
  for (int round = 0; round < 40; ++round) {
    const auto parallel = std::int64_t{1} << (random() % 4);
    const auto config = slots(static_cast<std::int64_t>(256 + random() % 4096) * parallel, parallel, random() % 2 == 0);
    const Bytes free = mib(static_cast<std::int64_t>(random() % 40'000));
    const auto found = reach(config, 16384, free, estimator);
    std::int64_t longest = 0;
    for (std::int64_t tokens = 256; tokens <= 16384; tokens += 256) {
      if (fits(with_context_per_sequence(config, tokens), free)) longest = tokens;
    }
    const auto asked = context_per_sequence_of(config);
    for (auto tokens = std::int64_t{16384} + 256; tokens < asked; tokens += 256) {
      if (fits(with_context_per_sequence(config, tokens), free)) longest = tokens;
    }
    if (asked > longest && asked > 16384 && fits(config, free)) longest = asked;
    EXPECT_EQ(found.longest_context ? found.longest_context->value : 0, longest) << "round " << round;
    std::int64_t most = 0;
    for (std::int64_t sequences = 1; sequences <= 256; ++sequences) {
      if (fits(with_full_sequences(config, sequences), free)) most = sequences;
    }
    EXPECT_EQ(found.most_sequences ? found.most_sequences->value : 0, most) << "round " << round;
  }
}

}  // namespace
}  // namespace dgxmm::planner
