#include "core/deployment/state.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace dgxmm::deployment {
namespace {

using enum State;
using enum Event;

constexpr State kStates[] = {starting, loading, ready, sleeping, stopping, stopped, failed, unknown};
constexpr Event kEvents[] = {start_requested, instance_started, engine_ready,     fell_asleep,    wake_requested,
                             woke_up,         stop_requested,   instance_gone,    instance_ended, start_failed,
                             ready_timeout,   unreachable,      reachable_loading};

/// Every transition there is; a pair that is not here is illegal.
const std::map<std::pair<State, Event>, State> kTable{
    {{stopped, start_requested}, starting},  {{failed, start_requested}, starting},
    {{starting, instance_started}, loading}, {{loading, engine_ready}, ready},
    {{ready, engine_ready}, ready},          {{unknown, engine_ready}, ready},
    {{ready, fell_asleep}, sleeping},        {{unknown, fell_asleep}, sleeping},
    {{loading, fell_asleep}, sleeping},      {{sleeping, woke_up}, ready},
    {{sleeping, wake_requested}, loading},   {{starting, stop_requested}, stopping},
    {{loading, stop_requested}, stopping},   {{ready, stop_requested}, stopping},
    {{sleeping, stop_requested}, stopping},  {{unknown, stop_requested}, stopping},
    {{stopping, stop_requested}, stopping},  {{stopping, instance_gone}, stopped},
    {{starting, instance_ended}, failed},    {{loading, instance_ended}, failed},
    {{ready, instance_ended}, failed},       {{sleeping, instance_ended}, failed},
    {{unknown, instance_ended}, failed},     {{starting, start_failed}, failed},
    {{loading, start_failed}, failed},       {{loading, ready_timeout}, failed},
    {{unknown, ready_timeout}, failed},      {{starting, unreachable}, unknown},
    {{loading, unreachable}, unknown},       {{ready, unreachable}, unknown},
    {{sleeping, unreachable}, unknown},      {{unknown, unreachable}, unknown},
    {{loading, reachable_loading}, loading}, {{unknown, reachable_loading}, loading},
};

TEST(DeploymentState, EveryPairOfStateAndEventIsInTheTableOrIllegal) {
  for (const auto state : kStates) {
    for (const auto event : kEvents) {
      SCOPED_TRACE(std::string{name_of(state)} + " / " + std::string{name_of(event)});
      const auto result = next(state, event);
      const auto expected = kTable.find({state, event});
      if (expected != kTable.end()) {
        ASSERT_TRUE(result) << result.error().message;
        EXPECT_EQ(*result, expected->second);
      } else {
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().code, "illegal_transition");
      }
    }
  }
}

TEST(DeploymentState, AnIllegalEventIsNamedInWords) {
  const auto result = next(stopped, engine_ready);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "a deployment that is stopped cannot be one that just began to serve");
}

TEST(DeploymentState, StatesAndEventsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const auto state : kStates) names.insert(name_of(state));
  for (const auto event : kEvents) names.insert(name_of(event));
  EXPECT_EQ(names.size(), std::size(kStates) + std::size(kEvents));
}

TEST(DeploymentState, B2_EveryStateIsCountedInOneWay) {
  for (const auto state : kStates) {
    SCOPED_TRACE(name_of(state));
    EXPECT_EQ(int{counts_reserved(state)} + int{counts_measured(state)} + int{is_final(state)}, 1);
  }
}

TEST(DeploymentState, AnythingThatRunsCanBeStopped) {
  for (const auto state : kStates) {
    SCOPED_TRACE(name_of(state));
    EXPECT_EQ(next(state, stop_requested).has_value(), !is_final(state));
  }
}

TEST(DeploymentState, AStopIsNeverReportedAsAFailure) {
  for (const auto event : kEvents) {
    const auto result = next(stopping, event);
    EXPECT_TRUE(!result || *result != failed) << name_of(event);
  }
}

}  // namespace
}  // namespace dgxmm::deployment
