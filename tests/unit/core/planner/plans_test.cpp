#include "core/planner/plans.h"

#include "core/engine/request.h"
#include "unit/core/memory/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace dgxmm::planner {
namespace {

using deployment::State;
using engine::EngineConfig;
using engine::LlamaCppConfig;
using engine::VllmConfig;
using memory::Measured;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Measured measured(Bytes host, std::optional<Bytes> gpu) {
  return {.anon = host, .kernel = Bytes{}, .shmem = Bytes{}, .gpu = gpu};
}

/// A ready, idle deployment that holds exactly what it reserved.
Candidate idle(std::int64_t id, Bytes size) {
  return {.memory = {.id = {id}, .state = State::ready, .reserved = size, .measured = measured(gib(1), size - gib(1))},
          .name = "model-" + std::to_string(id),
          .busy = false,
          .idle_since = std::chrono::minutes{12}};
}

/// A host of 112 GiB (100 usable) on which the deployments and `external` are all that is used.
PlanInput host(std::vector<Candidate> deployments, Bytes external = {}) {
  PlanInput input{.mem_total = gib(112)};
  Bytes used = external;
  for (const auto& d : deployments) {
    if (d.memory.measured && d.memory.holds_memory) used += d.memory.measured->total();
  }
  input.mem_available = input.mem_total - used;
  input.deployments = std::move(deployments);
  input.config = LlamaCppConfig{.ctx_size = 32768, .parallel = 4};
  return input;
}

memory::Estimate estimate_of(Bytes size) { return {.total = size, .formula = size}; }

Estimator always(Bytes size) {
  return [=](const EngineConfig&) { return estimate_of(size); };
}

/// 10 GiB, 1 GiB a 1024 tokens of f16 cache, half of that for q8_0 or fp8; 1 GiB a slot or sequence.
Result<memory::Estimate> simple_estimate(const EngineConfig& config) {
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    const bool small = llamacpp->cache_type_k != engine::CacheType::f16;
    return estimate_of(gib(10) + mib(llamacpp->ctx_size) * (small ? 1 : 2) + gib(llamacpp->parallel));
  }
  const auto& vllm = std::get<VllmConfig>(config);
  const auto tokens = vllm.kv_tokens.value_or(2 * vllm.max_model_len);
  return estimate_of(gib(10) + mib(tokens) * (vllm.kv_cache_dtype == "fp8" ? 1 : 2) + gib(vllm.max_num_seqs));
}

std::vector<std::string> ids_of(const Plans& plans) {
  std::vector<std::string> ids;
  for (const auto& plan : plans.plans) ids.push_back(plan.id);
  return ids;
}

const Plan& find(const Plans& plans, std::string_view id) {
  const auto found = std::ranges::find(plans.plans, id, &Plan::id);
  if (found == plans.plans.end()) throw std::runtime_error("no plan " + std::string{id});
  return *found;
}

Plans plans_of(const PlanInput& input, const Estimator& estimator = simple_estimate) {
  return make_plans(input, estimator).value();
}

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
  EXPECT_THAT(ids_of(plans), ElementsAre("kv:q8_0", "ctx:4096", "seqs:1")) << "none fits, not even a stop";
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
  EXPECT_THAT(plan.unsafe, IsEmpty()) << "a quarter is not under a quarter";
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
  EXPECT_THAT(plan.unsafe, IsEmpty());
  EXPECT_THAT(find(plans, "stop:2").unsafe, ElementsAre(HasSubstr("leaves 0 B, less than the headroom")));
  EXPECT_EQ(plans.summary, "Needs 60.0 GiB, 30.0 GiB are free: 30.0 GiB too little; 2 plans make it fit.");
}

TEST(Plans, P7_OnlyStopsThatAreEnoughAloneAreOffered) {
  EXPECT_THAT(plans_of(host({idle(1, gib(40)), idle(2, gib(30))}), always(gib(65))).plans.size(), 1u);
  EXPECT_THAT(plans_of(host({idle(1, gib(40)), idle(2, gib(30))}), always(gib(90))).plans, IsEmpty());
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
  EXPECT_THAT(find(plans, "stop:3").unsafe, IsEmpty());
  EXPECT_THAT(find(plans, "stop:1").title, HasSubstr("(activity unknown)"));
  EXPECT_THAT(find(plans, "stop:1").unsafe, ElementsAre(HasSubstr("may be busy")));
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
  EXPECT_THAT(find(plans, "stop:1").unsafe, IsEmpty());
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
  EXPECT_THAT(plan.unsafe, ElementsAre("what model-1 holds is known only in part"));
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
  EXPECT_THAT(find(plans, "stop:1").unsafe, ElementsAre("what model-1 holds is known only in part"));
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
  EXPECT_THAT(find(plans, "stop:1").unsafe,
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
  EXPECT_THAT(find(plans_of(host({idle(1, gib(60))}), guess(gib(31))), "stop:1").unsafe,
              ElementsAre(HasSubstr("guess")));
  EXPECT_THAT(find(plans_of(host({idle(1, gib(60))}), guess(gib(30))), "stop:1").unsafe, IsEmpty());
}

TEST(Plans, P12_LessThanAQuarterOfTheContextIsUnsafe) {
  auto input = host({}, gib(76));  // 24 free
  const auto plans = plans_of(input);
  EXPECT_TRUE(find(plans, "ctx:4096").fits);
  EXPECT_THAT(find(plans, "ctx:4096").unsafe, ElementsAre(HasSubstr("under a quarter of the 32768")));
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

// ---- Any host, against the rules written down as they are said

struct RandomInput {
  std::mt19937 random;

  std::int64_t upto(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>{0, most}(random); }
  Bytes gibs(std::int64_t most) { return mib(upto(most * 1024)); }

  PlanInput make() {
    static constexpr State kStates[] = {State::starting, State::loading, State::ready,  State::ready,  State::sleeping,
                                        State::stopping, State::stopped, State::failed, State::unknown};
    PlanInput input{.mem_total = gib(128), .mem_available = gibs(128)};
    const auto count = upto(7);
    for (std::int64_t id = 1; id <= count; ++id) {
      Candidate c{.name = "d" + std::to_string(id), .priority = upto(3) - 1, .pinned = upto(5) == 0};
      c.memory = {.id = {id}, .state = kStates[upto(std::size(kStates) - 1)], .reserved = gibs(60)};
      c.memory.holds_memory = upto(6) != 0;
      if (upto(5) != 0) c.memory.measured = measured(gibs(10), upto(3) == 0 ? std::nullopt : std::optional{gibs(50)});
      if (upto(3) != 0) c.busy = upto(1) == 0;
      if (upto(2) != 0) c.idle_since = std::chrono::seconds{upto(5)};
      input.deployments.push_back(c);
    }
    std::ranges::shuffle(input.deployments, random);
    if (upto(1) == 0) {
      input.config =
          LlamaCppConfig{.ctx_size = 256 + upto(65536),
                         .parallel = 1 + upto(15),
                         .kv_unified = upto(1) == 0,
                         .flash_attn = upto(3) == 0 ? engine::FlashAttention::off : engine::FlashAttention::automatic};
    } else {
      input.config =
          VllmConfig{.max_model_len = 1 + upto(65536), .max_num_seqs = 1 + upto(15), .max_num_batched_tokens = 8192};
    }
    input.priority = upto(3) - 1;
    return input;
  }
};

Bytes held(const Candidate& c) {
  return c.memory.holds_memory && c.memory.measured ? c.memory.measured->total() : Bytes{};
}

/// P10 in words: the memory that is credited to it or measured comes back, and it is not in the list any more.
Bytes free_when_gone(const PlanInput& input, std::int64_t id) {
  std::vector<memory::DeploymentMemory> rest;
  Bytes available = input.mem_available;
  for (const auto& c : input.deployments) {
    if (c.memory.id.value != id) {
      rest.push_back(c.memory);
      continue;
    }
    available += held(c);
    const bool known = !c.memory.holds_memory || (c.memory.measured && c.memory.measured->gpu);
    if (!known && c.memory.state == State::ready && c.memory.reserved > held(c)) {
      available += c.memory.reserved - held(c);
    }
  }
  return memory::compute_budget(input.mem_total, available, rest, input.budget_settings).free_for_new;
}

/// P8: is `a` the less disruptive one?
bool before(const Candidate& a, const Candidate& b) {
  const auto sleeping = [](const Candidate& c) { return c.memory.state == State::sleeping; };
  const auto busy = [&](const Candidate& c) { return !sleeping(c) && c.busy.value_or(true); };
  if (busy(a) != busy(b)) return !busy(a);
  if (a.priority != b.priority) return a.priority < b.priority;
  if (sleeping(a) != sleeping(b)) return sleeping(a);
  const auto idle_a = a.idle_since.value_or(std::chrono::seconds{}),
             idle_b = b.idle_since.value_or(std::chrono::seconds{});
  if (!sleeping(a) && idle_a != idle_b) return idle_a > idle_b;
  return a.memory.id < b.memory.id;
}

/// The stop plans that must be there, in order: by trying every deployment.
std::vector<std::string> expected_stops(const PlanInput& input, Bytes needed) {
  std::vector<Candidate> enough;
  for (const auto& c : input.deployments) {
    const auto state = c.memory.state;
    if (state == State::stopping || state == State::stopped || state == State::failed) continue;
    if (free_when_gone(input, c.memory.id.value) >= needed) enough.push_back(c);
  }
  std::vector<std::string> ids;
  while (!enough.empty() && ids.size() < 4) {
    const auto best = std::ranges::min_element(enough, before);
    ids.push_back("stop:" + std::to_string(best->memory.id.value));
    enough.erase(best);
  }
  return ids;
}

/// The context or sequence count that P2 or P3 must offer: by trying all of them.
std::optional<std::int64_t> expected_part(std::int64_t value, std::int64_t least, Bytes free, Bytes asked, auto need_of,
                                          auto is_taken) {
  std::optional<std::int64_t> smallest;
  for (std::int64_t part = value / 2; part >= least; part /= 2) {
    if (!is_taken(part) || need_of(part) >= asked) continue;
    if (need_of(part) <= free) return part;
    smallest = part;
  }
  return smallest;
}

std::vector<std::string> expected_ids(const PlanInput& input) {
  const Bytes asked = simple_estimate(input.config)->total;
  const Bytes free = free_when_gone(input, -1);
  if (asked <= free) return {};
  std::vector<std::pair<std::string, bool>> ids;
  const auto offer = [&](const std::string& kind, std::optional<std::int64_t> n, auto need_of) {
    if (n) ids.emplace_back(kind + std::to_string(*n), need_of(*n) <= free);
  };
  const auto always_taken = [](std::int64_t) { return true; };
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&input.config)) {
    if (llamacpp->flash_attn != engine::FlashAttention::off) {
      const Bytes need = asked - mib(llamacpp->ctx_size);
      ids.emplace_back("kv:q8_0", need <= free);
    }
    const auto shorter = [&](std::int64_t ctx) { return gib(10) + mib(2 * ctx) + gib(llamacpp->parallel); };
    offer("ctx:", expected_part(llamacpp->ctx_size, 4096, free, asked, shorter, always_taken), shorter);
    const auto cells = [&](std::int64_t slots) {
      return llamacpp->kv_unified ? llamacpp->ctx_size : llamacpp->ctx_size / llamacpp->parallel * slots;
    };
    const auto fewer = [&](std::int64_t slots) { return gib(10) + mib(2 * cells(slots)) + gib(slots); };
    const auto is_taken = [&](std::int64_t slots) { return cells(slots) >= 256; };
    offer("seqs:", expected_part(llamacpp->parallel, 1, free, asked, fewer, is_taken), fewer);
  } else {
    const auto& vllm = std::get<VllmConfig>(input.config);
    ids.emplace_back("kv:fp8", asked - mib(2 * vllm.max_model_len) <= free);
    const auto shorter = [&](std::int64_t ctx) { return gib(10) + mib(4 * ctx) + gib(vllm.max_num_seqs); };
    offer("ctx:", expected_part(vllm.max_model_len, 4096, free, asked, shorter, always_taken), shorter);
    const auto fewer = [&](std::int64_t seqs) { return gib(10) + mib(4 * vllm.max_model_len) + gib(seqs); };
    offer("seqs:", expected_part(vllm.max_num_seqs, 1, free, asked, fewer, always_taken), fewer);
  }
  for (const auto& id : expected_stops(input, asked)) ids.emplace_back(id, true);
  std::vector<std::string> ordered;
  for (const bool fits : {true, false}) {
    for (const auto& [id, does] : ids) {
      if (does == fits) ordered.push_back(id);
    }
  }
  return ordered;
}

TEST(Plans, P1toP10_OnAnyHostWhatTryingEverythingFinds) {
  RandomInput random{std::mt19937{20261129}};
  std::map<std::string, int> seen;
  for (int i = 0; i < 5000; ++i) {
    const auto input = random.make();
    const auto plans = plans_of(input);
    ASSERT_EQ(ids_of(plans), expected_ids(input)) << "case " << i;
    for (const auto& plan : plans.plans) seen[plan.id.substr(0, plan.id.find(':')) + (plan.fits ? "+" : "-")] += 1;
  }
  for (const auto* kind : {"kv+", "kv-", "ctx+", "ctx-", "seqs+", "seqs-", "stop+"}) {
    EXPECT_GT(seen[kind], 100) << kind << ": the cases must reach every kind of plan";
  }
}

TEST(Plans, P10_P12_EveryPlanAddsUpAndTheRecommendedOneIsSafe) {
  RandomInput random{std::mt19937{99}};
  for (int i = 0; i < 5000; ++i) {
    const auto input = random.make();
    const auto plans = plans_of(input);
    std::set<std::string> ids;
    int recommended = 0;
    for (const auto& plan : plans.plans) {
      SCOPED_TRACE(plan.id);
      ASSERT_TRUE(ids.insert(plan.id).second);
      ASSERT_EQ(plan.left, plan.free_after - plan.needed);
      ASSERT_EQ(plan.fits, plan.left >= Bytes{});
      ASSERT_EQ(plan.shortfall, plan.fits ? Bytes{} : -plan.left);
      ASSERT_EQ(plan.free_before, plans.free_for_new);
      ASSERT_EQ(plan.needed, simple_estimate(plan.config)->total);
      ASSERT_EQ(plan.stops.size(), plan.kind == PlanKind::stop ? 1u : 0u);
      ASSERT_TRUE(plan.stops.empty() ? plan.needed < plans.needed : plan.free_after > plan.free_before);
      for (const auto& c : input.deployments) {
        if (plan.stops != std::vector{c.memory.id}) continue;
        const bool asleep = c.memory.state == State::sleeping;
        if (c.pinned || c.priority > input.priority || (!asleep && c.busy.value_or(true))) {
          ASSERT_FALSE(plan.unsafe.empty());
        }
      }
      if (plan.fits && plan.left < input.min_headroom) {
        ASSERT_FALSE(plan.unsafe.empty());
      }
      if (plan.recommended) {
        ++recommended;
        ASSERT_TRUE(plan.fits && plan.unsafe.empty());
      }
    }
    const bool any_safe =
        std::ranges::any_of(plans.plans, [](const Plan& plan) { return plan.fits && plan.unsafe.empty(); });
    ASSERT_EQ(recommended, any_safe ? 1 : 0);
  }
}

}  // namespace
}  // namespace dgxmm::planner
