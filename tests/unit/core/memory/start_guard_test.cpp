#include "core/memory/start_guard.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

namespace dgxmm::memory {
namespace {

using std::chrono::milliseconds;

/// Index of the first reading at which the start has to end.
std::optional<std::size_t> ended_at(const std::vector<double>& available_gib, milliseconds step, Bytes floor) {
  StartGuard guard{floor};
  SteadyTime now{};
  for (std::size_t i = 0; i < available_gib.size(); ++i, now += step) {
    if (guard.judge(now, gib_from_decimal(available_gib[i]))) return i;
  }
  return std::nullopt;
}

TEST(StartGuard, EndsAStartThatWillPassTheFloorWithinTwoSeconds) {
  // Field case: no action at 29 (6 GiB/s), the end at 20 (9 GiB/s).
  EXPECT_EQ(ended_at({40, 38, 35, 29, 20, 9}, milliseconds{1000}, gib(8)), 4U);
}

TEST(StartGuard, BearsReadingsFurtherApart) {
  // Field case on GB10, one reading in two seconds: no action at 23.79, the end at 10.61 (6.6 GiB/s).
  EXPECT_EQ(ended_at({29.1, 23.79, 10.61}, milliseconds{2000}, gib(4)), 2U);
}

TEST(StartGuard, ThePaceIsThatOfTheLastSecondHoweverOftenItIsRead) {
  // 250 ms: one sudden GiB is no pace of 4 GiB/s.
  EXPECT_EQ(ended_at({12, 12, 12, 12, 11, 11, 11, 11, 11}, milliseconds{250}, gib(8)), std::nullopt);
  // 3 GiB within a second, 2 above the floor: reached in less than two.
  EXPECT_EQ(ended_at({13, 12.25, 11.5, 10.75, 10}, milliseconds{250}, gib(8)), 4U);
}

TEST(StartGuard, TheFloorItselfNeedsNoPace) {
  EXPECT_EQ(ended_at({3.9}, milliseconds{250}, gib(4)), 0U);
  EXPECT_EQ(ended_at({4.0}, milliseconds{250}, gib(4)), std::nullopt);
  StartGuard guard{gib(4)};
  const auto danger = guard.judge({}, gib(3));
  ASSERT_TRUE(danger);
  EXPECT_FALSE(danger->lost_per_second);
}

TEST(StartGuard, MemoryThatComesBackIsNoDanger) {
  EXPECT_EQ(ended_at({10, 20, 30, 20, 30}, milliseconds{250}, gib(4)), std::nullopt);
}

TEST(StartGuard, SaysHowFastItWasLost) {
  StartGuard guard{gib(8)};
  guard.judge(SteadyTime{}, gib(29));
  const auto danger = guard.judge(SteadyTime{} + milliseconds{1000}, gib(20));
  ASSERT_TRUE(danger && danger->lost_per_second);
  EXPECT_EQ(*danger->lost_per_second, gib(9));
  EXPECT_EQ(danger->available, gib(20));
}

}  // namespace
}  // namespace dgxmm::memory
