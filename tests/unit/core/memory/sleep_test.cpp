#include "core/memory/sleep.h"

#include <gtest/gtest.h>

#include <vector>

namespace dgxmm::memory {
namespace {

Estimate estimate_of(Bytes weights, Bytes kv, Bytes runtime) {
  Estimate estimate;
  estimate.parts = {
      {.name = "weights", .size = weights}, {.name = "kv", .size = kv}, {.name = "state"}, {.name = "activations"},
      {.name = "runtime", .size = runtime}, {.name = "margin"}};
  estimate.total = estimate.formula = weights + kv + runtime;
  return estimate;
}

TEST(Sleep, P10_TheMeasuredSizeComesFirst) {
  EXPECT_EQ(size_asleep(estimate_of(gib(30), gib(20), gib(3)), 1, gib(37)), gib(37));
}

TEST(Sleep, P10_UnmeasuredItKeepsItsRuntimeAndAtLevel1PinnedCopiesOfItsWeights) {
  const auto estimate = estimate_of(gib(60), gib(20), gib(3));
  EXPECT_EQ(size_asleep(estimate, 1, {}), gib(3) + gib(87));
  EXPECT_EQ(size_asleep(estimate, 2, {}), gib(3));
}

TEST(Sleep, FreesNothingRatherThanLessThanNothing) {
  EXPECT_EQ(freed_by_sleep(gib(53), gib(33)), gib(20));
  EXPECT_EQ(freed_by_sleep(gib(30), gib(33)), Bytes{0});
}

TEST(Sleep, PinnedCopiesTakeMoreThanTheWeights) { EXPECT_EQ(pinned_copies(gib(100)), gib(145)); }

TEST(Sleep, WakingFromLevel1HoldsWeightsCopiesAndCacheAtOnce) {
  const auto estimate = estimate_of(gib(20), gib(10), gib(3));
  EXPECT_EQ(wake_peak(estimate, 1, {}), gib(3) + gib(29) + gib(20) + gib(10));
  EXPECT_EQ(wake_peak(estimate, 1, gib(24)), gib(24) + gib(20) + gib(10)) << "the copies are in what was measured";
}

TEST(Sleep, WakingFromLevel2HoldsNoCopies) {
  EXPECT_EQ(wake_peak(estimate_of(gib(20), gib(10), gib(3)), 2, {}), gib(33));
}

TEST(Sleep, ThePeakIsNeverBelowWhatItReserves) {
  auto estimate = estimate_of(gib(20), gib(10), gib(3));
  estimate.total = gib(60);
  EXPECT_EQ(wake_peak(estimate, 2, gib(1)), gib(60));
}

TEST(Sleep, E5_AWakeThatTakesMoreThanIsLeftIsSeenBefore) {
  // A pool of 121.69 GiB: 60 are held by one that is awake, 35 by one that sleeps and wakes up to 66.
  const auto sleeper = estimate_of(gib(24), gib(31), gib(3));
  EXPECT_GT(needed_to_wake(sleeper, 1, gib(35), gib(35)), gib(12));
}

TEST(Sleep, WhatIsCountedAlreadyIsNotNeededAgain) {
  const auto estimate = estimate_of(gib(20), gib(10), gib(3));
  EXPECT_EQ(needed_to_wake(estimate, 2, gib(4), gib(4)), gib(30));
  // The part on the GPU is not known: what it holds by the formula, less the part that is counted.
  EXPECT_EQ(needed_to_wake(estimate, 2, {}, gib(1)), gib(32));
}

TEST(Sleep, TheLastRecordIsOfThatModelConfigurationAndLevel) {
  const auto record = [](const char* model, const char* configuration, int level, Bytes asleep) {
    return SleepRecord{.fingerprint = model,
                       .configuration_key = configuration,
                       .level = level,
                       .asleep = asleep,
                       .freed = gib(1),
                       .recorded_at = {}};
  };
  const std::vector records{record("m", "c", 1, gib(1)), record("m", "c", 1, gib(2)), record("m", "c", 2, gib(3)),
                            record("m", "d", 1, gib(4)), record("n", "c", 1, gib(5))};
  ASSERT_NE(last_sleep(records, "m", "c", 1), nullptr);
  EXPECT_EQ(last_sleep(records, "m", "c", 1)->asleep, gib(2));
  EXPECT_EQ(last_sleep(records, "m", "c", 2)->asleep, gib(3));
  EXPECT_EQ(last_sleep(records, "o", "c", 1), nullptr);
}

}  // namespace
}  // namespace dgxmm::memory
