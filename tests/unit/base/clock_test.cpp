#include "base/clock.h"

#include <gtest/gtest.h>

namespace dgxmm {
namespace {

using std::chrono::milliseconds;

TEST(Clock, TimesAreWrittenInUtcWithMilliseconds) {
  EXPECT_EQ(format_time(WallTime{milliseconds{0}}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_time(WallTime{milliseconds{1'795'987'811'042}}), "2026-11-29T21:30:11.042Z");
}

TEST(Clock, LeapDaysAndTimesBefore1970AreRight) {
  EXPECT_EQ(format_time(WallTime{milliseconds{1'709'164'800'000}}), "2024-02-29T00:00:00.000Z");
  EXPECT_EQ(format_time(WallTime{milliseconds{-1}}), "1969-12-31T23:59:59.999Z");
}

TEST(Clock, TheSteadyClockDoesNotGoBack) {
  const SystemClock clock;
  const auto before = clock.steady();
  EXPECT_LE(before, clock.steady());
}

}  // namespace
}  // namespace dgxmm
