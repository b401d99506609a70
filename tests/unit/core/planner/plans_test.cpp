#include "core/planner/plans.h"

#include "core/engine/request.h"
#include "unit/core/memory/dense_model.h"
#include "unit/core/planner/plans_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::planner {
namespace {

using deployment::State;
using engine::EngineConfig;
using engine::LlamaCppConfig;
using engine::VllmConfig;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Plans, P0_ARequestThatFitsNeedsNone) {
  const auto plans = plans_of(host({idle(1, gib(50))}), always(gib(50)));
  EXPECT_TRUE(plans.fits_now);
  EXPECT_EQ(plans.shortfall, Bytes{});
  EXPECT_THAT(plans.plans, IsEmpty());
  EXPECT_EQ(plans.summary, "Needs 50.0 GiB, 50.0 GiB are free: it fits.");
}

TEST(Plans, P0_OneByteTooMuchDoesNotFit) {
  const auto plans = plans_of(host({idle(1, gib(50))}), always(gib(50) + Bytes{1}));
  EXPECT_FALSE(plans.fits_now);
  EXPECT_EQ(plans.shortfall, Bytes{1});
}

TEST(Plans, P0_AnEstimateThatFailsIsTheAnswer) {
  const auto plans = make_plans(
      host({}), [](const EngineConfig&) -> Result<memory::Estimate> { return fail("model_not_supported", "no"); });
  ASSERT_FALSE(plans);
  EXPECT_EQ(plans.error().code, "model_not_supported");
}

// 78 GiB asked: 10 + 64 of cache + 4 slots.
TEST(Plans, P1_P2_P3_P6_InTheirOrder) {
  auto input = host({idle(3, gib(52)), idle(5, gib(45))});  // 3 GiB are free
  auto& config = std::get<LlamaCppConfig>(input.config);
  config.kv_unified = false;
  auto plans = plans_of(input);
  EXPECT_THAT(ids_of(plans), ElementsAre("stop:3+5", "kv:q8_0", "ctx:4096", "seqs:1")) << "none fits alone";
  input = host({idle(3, gib(80)), idle(5, gib(10))}, gib(5));  // 5 GiB are free
  plans = plans_of(input);
  EXPECT_THAT(ids_of(plans), ElementsAre("stop:3", "kv:q8_0", "ctx:4096", "seqs:1"))
      << "those that fit first, the rest as they were";
}

TEST(Plans, P1_BothCacheTypesBecomeQ8WhenThatIsSmaller) {
  auto input = host({}, gib(52));  // 48 free
  const auto plans = plans_of(input);
  const auto& plan = find(plans, "kv:q8_0");
  EXPECT_EQ(plan.kind, PlanKind::kv);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.needed, gib(46));
  EXPECT_EQ(plan.left, gib(2));
  EXPECT_EQ(plan.title, "Keep the KV cache as q8_0: needs 46.0 GiB instead of 78.0 GiB");
  const auto& config = std::get<LlamaCppConfig>(plan.config);
  EXPECT_EQ(config.cache_type_k, engine::CacheType::q8_0);
  EXPECT_EQ(config.cache_type_v, engine::CacheType::q8_0);
  EXPECT_EQ(config.ctx_size, 32768);
  EXPECT_TRUE(plan.recommended);
}

TEST(Plans, P1_NotOfferedWithoutFlashAttentionOrWhenNothingIsSaved) {
  auto input = host({}, gib(52));
  auto& config = std::get<LlamaCppConfig>(input.config);
  config.flash_attn = engine::FlashAttention::off;
  EXPECT_THAT(ids_of(plans_of(input)), testing::Not(testing::Contains("kv:q8_0")));
  config.flash_attn = engine::FlashAttention::automatic;
  config.cache_type_k = config.cache_type_v = engine::CacheType::q4_0;
  EXPECT_THAT(ids_of(plans_of(input)), testing::Not(testing::Contains("kv:q8_0")));
}

/// 1 GiB for each of K and V, and what the types make of it.
Result<memory::Estimate> estimate_by_types(const EngineConfig& config) {
  const auto size = [](engine::CacheType type) {
    if (type == engine::CacheType::f16) return mib(1024);
    return type == engine::CacheType::q8_0 ? mib(544) : mib(288);
  };
  const auto& llamacpp = std::get<LlamaCppConfig>(config);
  return estimate_of(gib(100) + size(llamacpp.cache_type_k) + size(llamacpp.cache_type_v));
}

TEST(Plans, P1_ATypeSmallerThanQ8IsKept) {
  using engine::CacheType;
  auto input = host({});
  auto& config = std::get<LlamaCppConfig>(input.config);
  for (const bool small_k : {true, false}) {
    config.cache_type_k = small_k ? CacheType::q4_0 : CacheType::f16;
    config.cache_type_v = small_k ? CacheType::f16 : CacheType::q4_0;
    const auto plans = plans_of(input, estimate_by_types);
    const auto& plan = find(plans, "kv:q8_0");
    const auto& smaller = std::get<LlamaCppConfig>(plan.config);
    EXPECT_EQ(smaller.cache_type_k, small_k ? CacheType::q4_0 : CacheType::q8_0);
    EXPECT_EQ(smaller.cache_type_v, small_k ? CacheType::q8_0 : CacheType::q4_0);
    EXPECT_THAT(plan.title, HasSubstr(small_k ? "Keep the V cache as q8_0" : "Keep the K cache as q8_0"));
  }
}

TEST(Plans, P1_ASavingThatRoundingHidesIsSaid) {
  const auto plans = plans_of(host({}, gib(90)), [](const EngineConfig& config) {
    const bool small = std::get<LlamaCppConfig>(config).cache_type_k == engine::CacheType::q8_0;
    return estimate_of(gib(100) - (small ? mib(45) : Bytes{}));
  });
  EXPECT_THAT(find(plans, "kv:q8_0").title, HasSubstr("Keep the KV cache as q8_0: saves 45.0 MiB,"));
}

TEST(Plans, P1_Vllm) {
  auto input = host({}, gib(52));
  input.config = VllmConfig{.max_model_len = 16384, .max_num_seqs = 4, .max_num_batched_tokens = 8192};
  const auto& plans = plans_of(input);
  EXPECT_EQ(std::get<VllmConfig>(find(plans, "kv:fp8").config).kv_cache_dtype, "fp8");
  std::get<VllmConfig>(input.config).kv_cache_dtype = "fp8";
  std::get<VllmConfig>(input.config).max_model_len = 65536;
  EXPECT_THAT(ids_of(plans_of(input)), testing::Not(testing::Contains("kv:fp8")));
}

TEST(Plans, P2_TheLargestHalvingThatFits) {
  const auto plans = plans_of(host({}, gib(60)));  // 40 free; 8192 tokens need 30, 16384 need 46
  const auto& plan = find(plans, "ctx:8192");
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(std::get<LlamaCppConfig>(plan.config).ctx_size, 8192);
  EXPECT_THAT(reasons_of(plan), IsEmpty()) << "a quarter is not under a quarter";
}

TEST(Plans, P2_TheSmallestWithItsShortfallWhenNoneFits) {
  const auto plans = plans_of(host({}, gib(90)));  // 10 free; 4096 tokens need 22
  const auto& plan = find(plans, "ctx:4096");
  EXPECT_FALSE(plan.fits);
  EXPECT_EQ(plan.shortfall, gib(12));
  EXPECT_EQ(plan.left, -gib(12));
  EXPECT_THAT(plan.title, HasSubstr("still 12.0 GiB too much"));
  EXPECT_THAT(plans.summary, HasSubstr("no plan makes it fit"));
}

TEST(Plans, P2_NeverBelow4096) {
  auto input = host({}, gib(99));
  std::get<LlamaCppConfig>(input.config).ctx_size = 8191;
  EXPECT_THAT(ids_of(plans_of(input)), ElementsAre("kv:q8_0", "seqs:1"));
  std::get<LlamaCppConfig>(input.config).ctx_size = 8192;
  EXPECT_THAT(ids_of(plans_of(input)), ElementsAre("kv:q8_0", "ctx:4096", "seqs:1"));
}

TEST(Plans, P2_AnExplicitPoolShrinksWithTheContext) {
  auto input = host({}, gib(70));  // 30 free
  input.config =
      VllmConfig{.max_model_len = 16384, .max_num_seqs = 4, .max_num_batched_tokens = 8192, .kv_tokens = 49152};
  const auto plans = plans_of(input);
  const auto& config = std::get<VllmConfig>(find(plans, "ctx:4096").config);
  EXPECT_EQ(config.max_model_len, 4096);
  EXPECT_EQ(config.kv_tokens, 12288);
}

TEST(Plans, P3_SeparateSlotsKeepTheirContext) {
  auto input = host({}, gib(52));  // 48 free
  auto& config = std::get<LlamaCppConfig>(input.config);
  config.kv_unified = false;
  const auto plans = plans_of(input);
  const auto& plan = find(plans, "seqs:2");
  EXPECT_EQ(std::get<LlamaCppConfig>(plan.config).parallel, 2);
  EXPECT_EQ(std::get<LlamaCppConfig>(plan.config).ctx_size, 16384);
  EXPECT_EQ(plan.needed, gib(44));
  EXPECT_TRUE(plan.fits);
}

TEST(Plans, P3_OnlyWhatTheEngineWouldTakeIsOffered) {
  auto input = host({}, gib(99));
  auto& config = std::get<LlamaCppConfig>(input.config);
  config = {.ctx_size = 512, .parallel = 4, .kv_unified = false};
  const auto plans = plans_of(input);
  EXPECT_THAT(ids_of(plans), ElementsAre("kv:q8_0", "seqs:2")) << "one slot would have 128 tokens";
  for (const auto& plan : plans.plans) EXPECT_TRUE(engine::check(plan.config)) << plan.id;
}

TEST(Plans, P3_AUnifiedPoolStaysAndIsLeftOutWhenNothingIsSaved) {
  auto input = host({}, gib(52));
  const auto plans = plans_of(input);
  EXPECT_EQ(std::get<LlamaCppConfig>(find(plans, "seqs:1").config).ctx_size, 32768);
  const auto same = plans_of(input, [](const EngineConfig& config) {
    return estimate_of(mib(std::get<LlamaCppConfig>(config).ctx_size) * 2);
  });
  EXPECT_THAT(ids_of(same), ElementsAre("ctx:16384"));
}

TEST(Plans, P1_P2_P3_ConfigurationsThatCannotBeHadAreLeftOut) {
  const auto input = host({}, gib(52));
  const auto plans = plans_of(input, [&](const EngineConfig& config) -> Result<memory::Estimate> {
    const auto& llamacpp = std::get<LlamaCppConfig>(config);
    if (config != input.config && llamacpp.ctx_size != 8192) return fail("bad_configuration", "no");
    return simple_estimate(config);
  });
  EXPECT_THAT(ids_of(plans), ElementsAre("ctx:8192"));
}

TEST(Plans, P1_P2_P3_WithTheRealEstimates) {
  const auto model = memory::dense_model();
  const auto real = [&](const EngineConfig& config) {
    return memory::estimate(model, config, {}, memory::Placement::gpu);
  };
  auto input = host({}, gib(90));
  input.config = LlamaCppConfig{.ctx_size = 131072, .parallel = 4, .kv_unified = false};
  const auto plans = plans_of(input, real);
  EXPECT_THAT(ids_of(plans), ElementsAre("ctx:32768", "seqs:1", "kv:q8_0"));
  EXPECT_FALSE(find(plans, "kv:q8_0").fits) << "half of 16 GiB, and scratch to convert it";
  for (const auto& plan : plans.plans) EXPECT_EQ(plan.needed, real(plan.config)->total) << plan.id;
}

TEST(Plans, P6_P10_AStopFreesWhatTheBudgetSaysWithoutIt) {
  const auto plans = plans_of(host({idle(1, gib(40)), idle(2, gib(30))}), always(gib(60)));
  EXPECT_EQ(plans.free_for_new, gib(30));
  EXPECT_THAT(ids_of(plans), ElementsAre("stop:1", "stop:2"));
  const auto& plan = find(plans, "stop:1");
  EXPECT_EQ(plan.free_after, gib(70));
  EXPECT_EQ(plan.left, gib(10));
  EXPECT_EQ(plan.title, "Stop model-1 (idle for 12 min): frees 40.0 GiB");
  EXPECT_THAT(plan.stops, ElementsAre(DeploymentId{1}));
  EXPECT_EQ(plan.config, host({}).config);
  EXPECT_THAT(reasons_of(plan), IsEmpty());
  EXPECT_THAT(reasons_of(find(plans, "stop:2")), ElementsAre(HasSubstr("leaves 0 B, less than the headroom")));
  EXPECT_EQ(plans.summary, "Needs 60.0 GiB, 30.0 GiB are free: 30.0 GiB too little; 2 plans make it fit.");
}

TEST(Plans, P7_OnlyStopsThatAreEnoughAloneAreOffered) {
  EXPECT_THAT(plans_of(host({idle(1, gib(40)), idle(2, gib(30))}), always(gib(65))).plans.size(), 1u);
  EXPECT_THAT(ids_of(plans_of(host({idle(1, gib(40)), idle(2, gib(30))}), always(gib(90)))), ElementsAre("stop:1+2"));
}

TEST(Plans, P7_AtMostFourStopsTheBestRanked) {
  std::vector<Candidate> deployments;
  for (std::int64_t id = 1; id <= 6; ++id) {
    deployments.push_back(idle(id, gib(15)));
    deployments.back().idle_since = std::chrono::seconds{id};
  }
  EXPECT_THAT(ids_of(plans_of(host(deployments), always(gib(20)))),
              ElementsAre("stop:6", "stop:5", "stop:4", "stop:3"));
}

TEST(Plans, P8_NotBusyThenLowerPriorityThenLongestIdle) {
  std::vector<Candidate> d;
  for (std::int64_t id = 1; id <= 4; ++id) d.push_back(idle(id, gib(20)));
  d[0].busy = true;
  d[0].priority = -5;
  d[1].priority = 1;
  d[2].idle_since = std::chrono::hours{3};
  EXPECT_THAT(ids_of(plans_of(host(d), always(gib(30)))), ElementsAre("stop:3", "stop:4", "stop:2", "stop:1"));
}

TEST(Plans, P8_AsleepCountsAsIdleAndUnknownAsBusy) {
  std::vector<Candidate> d{idle(1, gib(20)), idle(2, gib(20)), idle(3, gib(20))};
  d[0].busy.reset();
  d[2].memory.state = State::sleeping;
  d[2].busy.reset();
  d[2].idle_since.reset();
  const auto plans = plans_of(host(d), always(gib(50)));
  EXPECT_THAT(ids_of(plans), ElementsAre("stop:3", "stop:2", "stop:1"));
  EXPECT_THAT(find(plans, "stop:3").title, HasSubstr("(asleep)"));
  EXPECT_THAT(reasons_of(find(plans, "stop:3")), IsEmpty());
  EXPECT_THAT(find(plans, "stop:1").title, HasSubstr("(activity unknown)"));
  EXPECT_THAT(reasons_of(find(plans, "stop:1")), ElementsAre(HasSubstr("may be busy")));
}

TEST(Plans, P6_WhatIsEndingAlreadyIsNoVictim) {
  for (const auto state : {State::stopping, State::stopped, State::failed}) {
    SCOPED_TRACE(name_of(state));
    auto ending = idle(1, gib(60));
    ending.memory.state = state;
    EXPECT_THAT(plans_of(host({ending}), always(gib(70))).plans, IsEmpty());
  }
}

TEST(Plans, P6_AStartThatHoldsNothingYetGivesBackItsReservation) {
  auto starting = idle(1, gib(60));
  starting.memory = {.id = {1}, .state = State::starting, .reserved = gib(60), .measured = {}, .holds_memory = false};
  const auto plans = plans_of(host({starting}), always(gib(70)));
  EXPECT_EQ(find(plans, "stop:1").free_after, gib(100));
  EXPECT_THAT(reasons_of(find(plans, "stop:1")), IsEmpty());
}

// 60 GiB reserved, 20 measured, all of it: the host has 40 GiB more than the reservation made believe, and the credit
// of the gap had hidden 10 GiB of others.
TEST(Plans, P10_AKnownMeasureBelowItsReservationFreesTheMeasureAndEndsTheCredit) {
  auto small = idle(1, gib(60));
  small.memory.measured = measured(gib(2), gib(18));
  const auto plans = plans_of(host({small}, gib(10)), always(gib(90)));
  EXPECT_EQ(plans.free_for_new, gib(40));
  EXPECT_EQ(find(plans, "stop:1").free_after, gib(90));
}

// The document's case without NVML: the GPU part is unknown, so what the reservation says is all that is known of it.
TEST(Plans, P10_P12_AnUnknownGpuPartIsFreedAsItWasCreditedAndUnsafe) {
  auto blind = idle(1, gib(60));
  blind.memory.measured = measured(gib(6), std::nullopt);
  const auto plans = plans_of(host({blind}, gib(54)), always(gib(70)));  // the 54 are its own GPU memory
  EXPECT_EQ(plans.free_for_new, gib(40));
  const auto& plan = find(plans, "stop:1");
  EXPECT_EQ(plan.free_after, gib(100));
  EXPECT_THAT(reasons_of(plan), ElementsAre("what model-1 holds is known only in part"));
}

TEST(Plans, P10_AMeasureLargerThanWhatTheHostSaysIsUsedDoesNotCreateMemory) {
  auto input = host({idle(1, gib(60))});
  input.mem_available += gib(30);  // read a moment later than the measure
  EXPECT_EQ(find(plans_of(input, always(gib(90))), "stop:1").free_after, gib(100));
}

TEST(Plans, P10_P12_AnUnknownHostPartIsUnsafeToo) {
  auto blind = idle(1, gib(60));
  blind.memory.measured->anon.reset();
  const auto plans = plans_of(host({blind}, gib(1)), always(gib(70)));
  EXPECT_EQ(find(plans, "stop:1").free_after, gib(100));
  EXPECT_THAT(reasons_of(find(plans, "stop:1")), ElementsAre("what model-1 holds is known only in part"));
}

TEST(Plans, P10_AnUnknownMeasureThatIsNotCreditedFreesNothing) {
  auto asleep = idle(1, gib(60));
  asleep.memory.state = State::sleeping;
  asleep.memory.measured.reset();
  EXPECT_THAT(plans_of(host({asleep}, gib(60)), always(gib(50))).plans, IsEmpty());
}

TEST(Plans, P12_BusyPinnedAndImportantVictimsAreUnsafe) {
  auto victim = idle(1, gib(60));
  victim.busy = true;
  victim.pinned = true;
  victim.priority = 7;
  auto input = host({victim});
  input.priority = 3;
  const auto plans = plans_of(input, always(gib(70)));
  EXPECT_THAT(reasons_of(find(plans, "stop:1")),
              ElementsAre("model-1 is busy", "model-1 is pinned", "model-1 has the higher priority (7 against 3)"));
  EXPECT_FALSE(find(plans, "stop:1").recommended);
}

TEST(Plans, P12_EqualPriorityIsSafe) {
  auto victim = idle(1, gib(60));
  victim.priority = 3;
  auto input = host({victim});
  input.priority = 3;
  EXPECT_TRUE(find(plans_of(input, always(gib(70))), "stop:1").recommended);
}

TEST(Plans, P12_ALowEstimateWantsItsMarginTwice) {
  const auto guess = [](Bytes margin) {
    return [=](const EngineConfig&) {
      auto estimate = estimate_of(gib(70));
      estimate.confidence = memory::Confidence::low;
      estimate.parts = {{.name = "margin", .size = margin}};
      return estimate;
    };
  };
  EXPECT_THAT(reasons_of(find(plans_of(host({idle(1, gib(60))}), guess(gib(31))), "stop:1")),
              ElementsAre(HasSubstr("guess")));
  EXPECT_THAT(reasons_of(find(plans_of(host({idle(1, gib(60))}), guess(gib(30))), "stop:1")), IsEmpty());
}

TEST(Plans, P12_LessThanAQuarterOfTheContextIsUnsafe) {
  auto input = host({}, gib(76));  // 24 free
  const auto plans = plans_of(input);
  EXPECT_TRUE(find(plans, "ctx:4096").fits);
  EXPECT_THAT(reasons_of(find(plans, "ctx:4096")), ElementsAre(HasSubstr("under a quarter of the 32768")));
}

TEST(Plans, P12_TheMildestSafePlanIsRecommendedNotTheFirst) {
  auto input = host({}, gib(50));
  auto& config = std::get<LlamaCppConfig>(input.config);
  config.kv_unified = false;
  input.min_headroom = gib(5);  // of the 50 free, kv leaves 4, ctx leaves 4, seqs leaves 6
  const auto plans = plans_of(input);
  EXPECT_TRUE(find(plans, "kv:q8_0").fits);
  EXPECT_FALSE(find(plans, "kv:q8_0").recommended);
  EXPECT_FALSE(find(plans, "ctx:16384").recommended);
  EXPECT_TRUE(find(plans, "seqs:2").recommended);
}

TEST(Plans, P12_AStopIsTheLastResort) {
  const auto plans = plans_of(host({idle(1, gib(50))}));
  EXPECT_TRUE(find(plans, "stop:1").fits && find(plans, "stop:1").unsafe.empty());
  EXPECT_TRUE(find(plans, "kv:q8_0").recommended);
}

TEST(Plans, P0_AnOvercommittedHostIsSaidSo) {
  const auto plans = plans_of(host({idle(1, gib(60))}, gib(50)), always(gib(20)));
  EXPECT_EQ(plans.free_for_new, -gib(10));
  EXPECT_EQ(plans.shortfall, gib(30));
  EXPECT_THAT(plans.summary, HasSubstr("the host is over-committed by 10.0 GiB: 30.0 GiB too little"));
}

// ---- P4, P4½

/// Always as large as said.
OtherQuantization quantization(const std::string& name, Bytes size, Bytes file) {
  return {.name = name,
          .path = "/models/" + name,
          .quantization = name,
          .file_bytes = file,
          .config = LlamaCppConfig{.ctx_size = 32768, .parallel = 4},
          .estimator = always(size)};
}

TEST(Plans, P4_TheLargestSmallerQuantizationThatFits) {
  auto input = host({}, gib(50));
  input.quantization = "Q8_0";
  input.quantizations = {quantization("Q4_K_M", gib(40), gib(20)), quantization("Q6_K", gib(48), gib(30)),
                         quantization("Q5_K_M", gib(44), gib(25)), quantization("bf16", gib(120), gib(90))};
  const auto plans = plans_of(input, always(gib(80)));
  EXPECT_THAT(ids_of(plans), ElementsAre("quant:Q6_K"));
  const auto& plan = find(plans, "quant:Q6_K");
  EXPECT_EQ(plan.kind, PlanKind::quant);
  EXPECT_EQ(plan.model_path, "/models/Q6_K");
  EXPECT_EQ(plan.needed, gib(48));
  EXPECT_EQ(plan.left, gib(2));
  EXPECT_EQ(plan.frees, gib(32));
  EXPECT_THAT(plan.costs, ElementsAre("quality: Q6_K instead of Q8_0"));
  EXPECT_TRUE(plan.recommended);
}

TEST(Plans, P4_TheSmallestWithItsShortfallWhenNoneFits) {
  auto input = host({}, gib(80));
  input.quantizations = {quantization("Q6_K", gib(48), gib(30)), quantization("Q4_K_M", gib(40), gib(20))};
  const auto plans = plans_of(input, always(gib(80)));
  const auto& plan = find(plans, "quant:Q4_K_M");
  EXPECT_FALSE(plan.fits);
  EXPECT_EQ(plan.shortfall, gib(20));
}

TEST(Plans, P4_WhatIsNotSmallerOrCannotBeHadIsLeftOut) {
  auto input = host({}, gib(50));
  input.quantizations = {quantization("bf16", gib(80), gib(90)), quantization("broken", gib(1), gib(1))};
  input.quantizations.back().estimator = [](const EngineConfig&) -> Result<memory::Estimate> {
    return fail("model_not_supported", "no");
  };
  EXPECT_THAT(plans_of(input, always(gib(80))).plans, IsEmpty());
}

TEST(Plans, P4_AnotherQuantizationDoesNotKeepACombinationAway) {
  auto input = host({}, gib(68));
  input.quantizations = {quantization("Q4_K_M", gib(20), gib(10))};
  std::get<LlamaCppConfig>(input.config).ctx_size = 65536;
  std::get<LlamaCppConfig>(input.config).parallel = 16;
  const auto plans = plans_of(input);  // 32 are free; 154 asked
  EXPECT_FALSE(find(plans, "ctx:4096").fits);
  EXPECT_TRUE(find(plans, "quant:Q4_K_M").fits);
  EXPECT_TRUE(std::ranges::any_of(plans.plans, [](const Plan& plan) { return plan.kind == PlanKind::mix; }));
}

// 28 free. Asked: 10 + 64 of cache + 16 slots. Alone: q8_0 58, 4096 tokens 34, one slot 75.
TEST(Plans, P4_MixIsTheFewestHalvingsThenTheLongestContextThenTheCacheAsItWas) {
  auto input = host({}, gib(72));
  std::get<LlamaCppConfig>(input.config).parallel = 16;
  const auto plans = plans_of(input);
  // Three halvings: 4096 with q8_0 takes 30, 8192 and 8 slots with q8_0 26.
  EXPECT_THAT(ids_of(plans), ElementsAre("mix:kv:q8_0+ctx:8192+seqs:8", "kv:q8_0", "ctx:4096", "seqs:1"));
  const auto& plan = plans.plans.front();
  const auto& config = std::get<LlamaCppConfig>(plan.config);
  EXPECT_EQ(config.ctx_size, 8192);
  EXPECT_EQ(config.parallel, 8);
  EXPECT_EQ(config.cache_type_k, engine::CacheType::q8_0);
  EXPECT_EQ(plan.needed, gib(26));
  EXPECT_EQ(plan.title,
            "Keep the KV cache as q8_0, shorten the context to 8192 tokens, serve 8 slots at a time: needs 26.0 GiB "
            "instead of 90.0 GiB");
  EXPECT_THAT(plan.costs,
              ElementsAre("quality: KV cache in q8_0 instead of f16", "context: 8192 tokens instead of 32768",
                          "service: 8 requests at once instead of 16, others wait"));
  EXPECT_THAT(reasons_of(plan), IsEmpty()) << "a quarter is not under a quarter";
}

// 18 free. Asked: 10 + 64 of cache + 1 slot; 4096 tokens alone take 19, with q8_0 15, and 8192 with q8_0 19.
TEST(Plans, P4_P12_AMixUnderAQuarterOfTheContextIsUnsafe) {
  auto input = host({}, gib(82));
  std::get<LlamaCppConfig>(input.config).parallel = 1;
  const auto plans = plans_of(input);
  const auto& plan = find(plans, "mix:kv:q8_0+ctx:4096");
  EXPECT_EQ(plan.needed, gib(15));
  EXPECT_THAT(reasons_of(plan), ElementsAre("a context of 4096 is under a quarter of the 32768 that were asked for"));
}

TEST(Plans, P4_NoMixWhenOneChangeIsEnough) {
  const auto plans = plans_of(host({}, gib(60)));
  EXPECT_TRUE(find(plans, "ctx:8192").fits);
  EXPECT_THAT(ids_of(plans), testing::Not(testing::Contains(testing::StartsWith("mix:"))));
}

TEST(Plans, P12_AMixThatKeepsTheContextIsMilderThanSleepAndOneThatDoesNotIsAsAContext) {
  auto sleeper = idle(1, gib(60));
  sleeper.sleep_levels = {{.level = 2, .size_asleep = gib(2), .wake_peak = gib(60)}};
  auto input = host({sleeper}, gib(4));  // 36 free
  auto& config = std::get<LlamaCppConfig>(input.config);
  config = {.ctx_size = 16384, .parallel = 32};
  EXPECT_EQ(plans_of(input).needed, gib(74));
  // q8_0 and 8 slots take 34: the context stays.
  auto plans = plans_of(input);
  EXPECT_TRUE(find(plans, "mix:kv:q8_0+seqs:8").recommended);
  EXPECT_THAT(find(plans, "mix:kv:q8_0+seqs:8").why, HasSubstr("the whole context stays"));
  EXPECT_TRUE(find(plans, "sleep:1").fits);
  input = host({sleeper}, gib(15));  // 25 free: q8_0, 4096 tokens and 4 slots
  std::get<LlamaCppConfig>(input.config) = {.ctx_size = 16384, .parallel = 32};
  plans = plans_of(input);
  EXPECT_TRUE(find(plans, "sleep:1").recommended) << testing::PrintToString(ids_of(plans));
}

// ---- P5

/// Ready, holds what it reserved, and sleeps at both of vLLM's levels.
Candidate sleeper(std::int64_t id, Bytes size, Bytes level_1, Bytes level_2) {
  auto candidate = idle(id, size);
  candidate.engine = engine::EngineKind::vllm;
  candidate.sleep_levels = {{.level = 1, .size_asleep = level_1, .learned = true, .wake_peak = size},
                            {.level = 2, .size_asleep = level_2, .learned = true, .wake_peak = size}};
  return candidate;
}

TEST(Plans, P5_P10_ASleeperFreesWhatTheBudgetSaysWhenItCountsAsMeasuredAsleep) {
  auto victim = sleeper(3, gib(60), gib(40), gib(5));
  victim.weights = gib(30);
  const auto plans = plans_of(host({victim}, gib(10)), always(gib(48)));  // 30 are free
  EXPECT_THAT(ids_of(plans), ElementsAre("sleep:3", "stop:3"));
  const auto& plan = find(plans, "sleep:3");
  EXPECT_EQ(plan.kind, PlanKind::sleep);
  EXPECT_THAT(plan.sleeps, ElementsAre(Sleep{.id = {3}, .level = 1}));
  EXPECT_THAT(plan.stops, IsEmpty());
  EXPECT_EQ(plan.free_after, gib(50));
  EXPECT_EQ(plan.frees, gib(20));
  EXPECT_EQ(plan.title, "Put model-3 (idle for 12 min, level 1) to sleep: frees 20.0 GiB");
  EXPECT_TRUE(plan.recommended);
  EXPECT_THAT(plan.costs, ElementsAre(HasSubstr("up to 60.0 GiB")));
}

TEST(Plans, P5_TheDeeperLevelOnlyWhenTheMilderIsNotEnough) {
  const auto input = host({sleeper(3, gib(60), gib(40), gib(5))}, gib(10));  // 30 free; 50 at level 1, 85 at level 2
  EXPECT_THAT(find(plans_of(input, always(gib(50))), "sleep:3").sleeps, ElementsAre(Sleep{.id = {3}, .level = 1}));
  EXPECT_THAT(find(plans_of(input, always(gib(51))), "sleep:3").sleeps, ElementsAre(Sleep{.id = {3}, .level = 2}));
  EXPECT_THAT(ids_of(plans_of(input, always(gib(86)))), ElementsAre("stop:3"));
}

TEST(Plans, P5_OfSeveralThoseStayMildThatRankAsMoreDisruptive) {
  auto a = sleeper(1, gib(30), gib(20), gib(2));
  auto b = sleeper(2, gib(30), gib(20), gib(2));
  b.priority = 1;
  auto input = host({a, b}, gib(10));  // 30 are free; level 1 frees 10, level 2 28
  input.priority = 1;
  const auto plans = plans_of(input, always(gib(66)));
  EXPECT_THAT(find(plans, "sleep:1+2").sleeps, ElementsAre(Sleep{.id = {1}, .level = 2}, Sleep{.id = {2}, .level = 1}));
}

TEST(Plans, P5_WhatIsNotReadyOrCannotSleepIsNotPutToSleep) {
  for (const auto state : {State::starting, State::loading, State::sleeping, State::unknown}) {
    SCOPED_TRACE(name_of(state));
    auto victim = sleeper(3, gib(60), gib(20), gib(5));
    victim.memory.state = state;
    EXPECT_THAT(ids_of(plans_of(host({victim}, gib(10)), always(gib(50)))), ElementsAre("stop:3"));
  }
  EXPECT_THAT(ids_of(plans_of(host({idle(3, gib(60))}, gib(10)), always(gib(50)))), ElementsAre("stop:3"));
}

// The pinned copies of level 1 stay while the cache is mapped again: with them the engine would need more than there
// is.
TEST(Plans, P5_ALevelThatCouldNotBeWokenFromIsNotOffered) {
  auto victim = sleeper(3, gib(60), gib(40), gib(5));
  victim.sleep_levels[0].wake_peak = gib(91);
  const auto input = host({victim}, gib(10));  // 90 without it
  EXPECT_THAT(find(plans_of(input, always(gib(40))), "sleep:3").sleeps, ElementsAre(Sleep{.id = {3}, .level = 2}));
  victim.sleep_levels[0].wake_peak = gib(90);
  EXPECT_THAT(find(plans_of(host({victim}, gib(10)), always(gib(40))), "sleep:3").sleeps,
              ElementsAre(Sleep{.id = {3}, .level = 1}));
}

TEST(Plans, P5_ASizeAsleepThatWasNotLearnedIsSaid) {
  auto victim = sleeper(3, gib(60), gib(20), gib(5));
  victim.sleep_levels[0].learned = false;
  const auto plans = plans_of(host({victim}, gib(10)), always(gib(50)));
  EXPECT_THAT(find(plans, "sleep:3").costs, testing::Contains(HasSubstr("has not slept like this yet")));
}

TEST(Plans, P5_P12_ABusyPinnedOrImportantSleeperIsUnsafe) {
  auto victim = sleeper(3, gib(60), gib(20), gib(5));
  victim.busy = true;
  victim.requests = 2;
  victim.pinned = true;
  victim.priority = 1;
  const auto plans = plans_of(host({victim}, gib(10)), always(gib(50)));
  EXPECT_THAT(reasons_of(find(plans, "sleep:3")),
              ElementsAre("model-3 is busy", "model-3 is pinned", "model-3 has the higher priority (1 against 0)"));
  EXPECT_THAT(find(plans, "sleep:3").costs, ElementsAre(HasSubstr("model-3 has 2 requests in flight")));
}

TEST(Plans, P7_AtMostThreeSleepAndFourStopPlans) {
  std::vector<Candidate> deployments;
  for (std::int64_t id = 1; id <= 6; ++id) deployments.push_back(sleeper(id, gib(16), gib(5), gib(4)));
  const auto plans = plans_of(host(deployments), always(gib(14)));
  EXPECT_THAT(ids_of(plans), ElementsAre("sleep:1", "sleep:2", "sleep:3", "stop:1", "stop:2", "stop:3", "stop:4"));
}

// ---- what could not be undone

/// Asleep, with 5 GiB of the 60 that it takes awake.
Candidate asleep(std::int64_t id) {
  auto candidate = sleeper(id, gib(60), gib(40), gib(5));
  candidate.memory.state = State::sleeping;
  candidate.memory.measured = measured(gib(5), Bytes{});
  candidate.weights = gib(30);
  return candidate;
}

TEST(Plans, P11_P12_AStoppedSleeperThatCouldNotStartAgainIsUnsafe) {
  const auto plans = plans_of(host({asleep(3)}, gib(45)), always(gib(52)));  // 50 free, 55 without it
  const auto& plan = find(plans, "stop:3");
  EXPECT_TRUE(plan.fits);
  EXPECT_THAT(reasons_of(plan), ElementsAre("model-3 could not be brought back: to start again it needs 60.0 GiB, "
                                            "and 55.0 GiB would be free"));
  EXPECT_FALSE(plan.recommended);
  EXPECT_THAT(plan.costs,
              ElementsAre(AllOf(HasSubstr("model-3 is asleep and is stopped"), HasSubstr("takes 60.0 GiB"))));
}

TEST(Plans, P11_P12_AStoppedSleeperThatCouldStartAgainIsSafe) {
  const auto plans = plans_of(host({asleep(3)}, gib(40)), always(gib(57)));  // 55 free, 60 without it
  EXPECT_THAT(reasons_of(find(plans, "stop:3")), IsEmpty());
}

// ---- what was shown

/// The only plan, as shown or a moment later.
Plan stop_of(const Candidate& victim, Bytes external = gib(10)) {
  return find(plans_of(host({victim}, external), always(gib(60))), "stop:1");
}

TEST(AsShown, P11_EveryReasonThatWasNotShownIsAChange) {
  const auto calm = idle(1, gib(60));
  const auto shown = stop_of(calm);
  ASSERT_THAT(reasons_of(shown), IsEmpty());
  EXPECT_TRUE(is_as_shown(shown, stop_of(calm, gib(11)))) << "other figures";
  auto now = calm;
  now.busy = true;
  EXPECT_FALSE(is_as_shown(shown, stop_of(now)));
  EXPECT_TRUE(is_as_shown(stop_of(now), shown)) << "it got better";
  now.busy.reset();
  EXPECT_FALSE(is_as_shown(shown, stop_of(now)));
  now = calm;
  now.pinned = true;
  EXPECT_FALSE(is_as_shown(shown, stop_of(now)));
  now = calm;
  now.priority = 3;
  EXPECT_FALSE(is_as_shown(shown, stop_of(now)));
  now = calm;
  now.memory.measured->gpu.reset();
  EXPECT_FALSE(is_as_shown(shown, stop_of(now)));
  EXPECT_FALSE(is_as_shown(shown, stop_of(calm, gib(39)))) << "less than the headroom is left";
}

TEST(AsShown, P11_AReasonThatWasShownIsNone) {
  auto pinned = idle(1, gib(60));
  pinned.pinned = true;
  EXPECT_TRUE(is_as_shown(stop_of(pinned), stop_of(pinned)));
  EXPECT_TRUE(is_as_shown(stop_of(pinned, gib(39)), stop_of(pinned, mib(39400))))
      << "the headroom was said to be short";
  auto busy = idle(1, gib(60));
  busy.busy = true;
  auto silent = busy;
  silent.busy.reset();
  EXPECT_TRUE(is_as_shown(stop_of(busy), stop_of(silent)));
  EXPECT_FALSE(is_as_shown(stop_of(silent), stop_of(busy)));
  EXPECT_FALSE(is_as_shown(stop_of(pinned), stop_of(busy))) << "another reason";
  EXPECT_TRUE(is_as_shown(stop_of(idle(1, gib(60))), stop_of(busy), true)) << "even if it is busy";
  EXPECT_FALSE(is_as_shown(stop_of(idle(1, gib(60))), stop_of(pinned), true));
  EXPECT_TRUE(interrupts(stop_of(busy), {1}) && interrupts(stop_of(silent), {1}));
  EXPECT_FALSE(interrupts(stop_of(busy), {2}) || interrupts(stop_of(pinned), {1}));
}

// ---- P7 to P9

TEST(Plans, P7_IdsOfASetAreSortedAndNoMemberCanBeDropped) {
  auto early = idle(12, gib(20));
  early.idle_since = std::chrono::hours{5};
  const auto plans = plans_of(host({early, idle(3, gib(20)), idle(5, gib(20)), idle(7, gib(40))}), always(gib(40)));
  EXPECT_THAT(ids_of(plans), ElementsAre("stop:7", "stop:3+12", "stop:5+12", "stop:3+5"));
  const auto& plan = find(plans, "stop:3+12");
  EXPECT_THAT(plan.stops, ElementsAre(DeploymentId{3}, DeploymentId{12}));
  EXPECT_EQ(plan.free_after, gib(40));
  EXPECT_EQ(plan.title, "Stop model-12 (idle for 5 h) and model-3 (idle for 12 min): frees 40.0 GiB");
}

TEST(Plans, P8_ASetOfIdleOnesComesBeforeASingleBusyOne) {
  auto busy = idle(1, gib(60));
  busy.busy = true;
  const auto plans = plans_of(host({busy, idle(2, gib(15)), idle(3, gib(15))}), always(gib(35)));
  EXPECT_THAT(ids_of(plans), ElementsAre("stop:2+3", "stop:1"));
}

TEST(Plans, P9_WhenThreeAreNotEnoughTheGreedySetWithoutWhatItDoesNotNeed) {
  std::vector<Candidate> deployments;
  for (std::int64_t id = 1; id <= 10; ++id) deployments.push_back(idle(id, gib(10)));
  deployments[1].memory = idle(2, gib(1)).memory;  // 9 are free
  EXPECT_THAT(ids_of(plans_of(host(deployments), always(gib(49)))), ElementsAre("stop:1+3+4+5"));
}

TEST(Plans, P9_WhenEverythingIsNotEnoughTheAnswerSaysByHowMuch) {
  const auto plans = plans_of(host({idle(1, gib(40)), idle(2, gib(30))}, gib(10)), always(gib(97)));
  EXPECT_THAT(plans.plans, IsEmpty());
  EXPECT_EQ(plans.missing_without_all, gib(7));
  EXPECT_EQ(plans.summary,
            "Needs 97.0 GiB, 20.0 GiB are free: 77.0 GiB too little, and no plan makes it fit: with everything stopped "
            "it would still be 7.0 GiB too little.");
}

TEST(Plans, P12_EveryUnsafeMemberOfASetIsNamed) {
  auto pinned = idle(1, gib(30));
  pinned.pinned = true;
  auto busy = idle(2, gib(30));
  busy.busy = true;
  const auto plans = plans_of(host({pinned, busy}, gib(10)), always(gib(80)));
  EXPECT_THAT(reasons_of(find(plans, "stop:1+2")), ElementsAre("model-1 is pinned", "model-2 is busy"));
  EXPECT_FALSE(find(plans, "stop:1+2").recommended);
}

// ---- How long it takes

TEST(Plans, P0_TimesAreThoseMeasuredHereElseBySizeAndMarked) {
  const auto sized = [](const EngineConfig&) {
    auto estimate = estimate_of(gib(40));
    estimate.parts = {{.name = "weights", .size = gib(30)}};
    return estimate;
  };
  auto victim = sleeper(3, gib(60), gib(20), gib(5));
  auto input = host({victim}, gib(10));
  EXPECT_EQ(find(plans_of(input, sized), "stop:3").takes,
            (Duration{.value = std::chrono::seconds{10 + 30 + 5 + 3}, .measured = false}));
  input.load_takes = std::chrono::seconds{25};
  EXPECT_EQ(find(plans_of(input, sized), "sleep:3").takes,
            (Duration{.value = std::chrono::seconds{25 + 1 + 10}, .measured = false}));
  input.deployments[0].sleep_levels[0].sleep_takes = std::chrono::seconds{4};
  EXPECT_EQ(find(plans_of(input, sized), "sleep:3").takes,
            (Duration{.value = std::chrono::seconds{29}, .measured = true}));
  input.deployments[0].stop_takes = std::chrono::seconds{2};
  EXPECT_EQ(find(plans_of(input, sized), "stop:3").takes,
            (Duration{.value = std::chrono::seconds{27}, .measured = true}));
  EXPECT_EQ(describe({.value = std::chrono::seconds{29}, .measured = true}), "about 29 s (measured)");
  EXPECT_EQ(describe({.value = std::chrono::minutes{5}, .measured = false}), "about 5 min (by size)");
}

}  // namespace
}  // namespace dgxmm::planner
