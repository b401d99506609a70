#include "core/engine/idle.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace dgxmm::engine {
namespace {

WallTime at(int seconds) { return WallTime{std::chrono::seconds{1'700'000'000 + seconds}}; }
Activity idle(std::optional<std::int64_t> work_done) {
  return {.requests_running = 0, .requests_waiting = 0, .work_done = work_done, .sleep_level = {}};
}
Activity busy() { return {.requests_running = 1, .requests_waiting = 0, .work_done = 7, .sleep_level = {}}; }

TEST(Idle, P8_RunsFromTheFirstAnswerWithoutRequests) {
  EXPECT_EQ(idle_after({}, busy(), at(1)), std::nullopt);
  EXPECT_EQ(idle_after({}, Activity{}, at(1)), std::nullopt) << "not known";
  const auto first = idle_after({}, idle(7), at(2));
  EXPECT_EQ(first, (Idle{.since = at(2), .work_done = 7}));
  EXPECT_EQ(idle_after(first, idle(7), at(4)), first);
  EXPECT_EQ(idle_after(first, busy(), at(6)), std::nullopt);
}

TEST(Idle, P8_EndsWhenACounterMoves) {
  const Idle before{.since = at(2), .work_done = 7};
  EXPECT_EQ(idle_after(before, idle(8), at(4)), (Idle{.since = at(4), .work_done = 8}));
  EXPECT_EQ(idle_after(before, idle(3), at(4)), (Idle{.since = at(4), .work_done = 3})) << "another process";
  EXPECT_EQ(idle_after(before, idle({}), at(4)), (Idle{.since = at(4), .work_done = {}}));
}

TEST(Idle, P8_GoesOnOverAMissedAnswerByItsCounters) {
  const auto missed = idle_after(Idle{.since = at(2), .work_done = 7}, Activity{}, at(4));
  EXPECT_EQ(missed, (Idle{.since = at(2), .work_done = 7, .watched = false}));
  EXPECT_EQ(idle_after(missed, idle(7), at(6)), (Idle{.since = at(2), .work_done = 7}));
  EXPECT_EQ(idle_after(missed, idle(9), at(6)), (Idle{.since = at(6), .work_done = 9}));
}

TEST(Idle, P8_WithoutCountersOnlyAsLongAsEveryAnswerCame) {
  const auto first = idle_after({}, idle({}), at(2));
  EXPECT_EQ(idle_after(first, idle({}), at(4)), first);
  const auto missed = idle_after(first, Activity{}, at(6));
  EXPECT_EQ(idle_after(missed, idle({}), at(8)), (Idle{.since = at(8), .work_done = {}}));
}

}  // namespace
}  // namespace dgxmm::engine
