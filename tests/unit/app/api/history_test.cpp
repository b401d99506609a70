#include "unit/app/support/daemon.h"

#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;

boost::json::object history_of(Daemon& daemon) {
  const auto response = daemon.request("GET", "/api/v1/history");
  EXPECT_EQ(response.status, 200);
  return json_of(response).as_object();
}

/// The newest value of a column.
boost::json::value last(const boost::json::object& history, std::string_view column) {
  return history.at(column).as_array().back();
}

TEST(HistoryApi, TheLastHourIsKeptAndNoMore) {
  World world;
  Daemon daemon{world};
  EXPECT_EQ(history_of(daemon).at("time_s").as_array().size(), 1U) << "the picture begins at once";
  daemon.loop->run_for(3h);
  const auto history = history_of(daemon);
  EXPECT_EQ(history.at("interval_s").as_int64(), 10);
  const auto& times = history.at("time_s").as_array();
  ASSERT_EQ(times.size(), 360U);
  EXPECT_EQ(times.back().as_int64() - times.front().as_int64(), 3590);
  for (const auto& [name, column] : history) {
    if (column.is_array()) EXPECT_EQ(column.as_array().size(), times.size()) << name;
  }
}

TEST(HistoryApi, B3_TheFivePartsAreMemTotal) {
  World world;
  world.host.held_by_others = gib(20);
  world.host.page_cache = gib(7);
  world.host.swap_total = gib(4);
  world.host.swap_used = mib(300);
  world.host.pressed.some_avg10_permyriad = 250;
  world.runtime.next.holds.anon = gib(2);
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.loop->run_for(10s);
  const auto history = history_of(daemon);
  std::int64_t sum = 0;
  for (const auto* part :
       {"deployments_bytes", "ready_gap_bytes", "external_bytes", "page_cache_bytes", "free_bytes"}) {
    sum += last(history, part).as_int64();
  }
  EXPECT_EQ(sum, gib(64).count());
  EXPECT_EQ(history.at("mem_total_bytes").as_int64(), gib(64).count());
  EXPECT_EQ(last(history, "deployments_bytes").as_int64(), (gib(2) + mib(8)).count());
  EXPECT_EQ(last(history, "page_cache_bytes").as_int64(), gib(7).count());
  EXPECT_EQ(last(history, "committed_bytes").as_int64(), daemon.at(id).reserved().count());
  EXPECT_EQ(last(history, "swap_used_bytes").as_int64(), mib(300).count());
  EXPECT_EQ(last(history, "pressure_some_avg10_permyriad").as_int64(), 250);
}

TEST(HistoryApi, WhatIsNotKnownIsNull) {
  World world;
  Daemon daemon{world};
  auto history = history_of(daemon);
  for (const auto* part : {"page_cache_bytes", "free_bytes", "swap_used_bytes", "pressure_some_avg10_permyriad"}) {
    EXPECT_TRUE(last(history, part).is_null()) << part;
  }
  EXPECT_EQ(last(history, "external_bytes").as_int64(), gib(4).count());
  world.host.broken = true;
  daemon.loop->run_for(10s);
  history = history_of(daemon);
  EXPECT_TRUE(history.at("mem_total_bytes").is_null());
  EXPECT_EQ(history.at("time_s").as_array().size(), 2U);
  for (const auto* part : {"deployments_bytes", "ready_gap_bytes", "external_bytes", "committed_bytes"}) {
    EXPECT_TRUE(last(history, part).is_null()) << part;
    EXPECT_FALSE(history.at(part).as_array().front().is_null()) << part;
  }
}

TEST(HistoryApi, ASuspendedHostLeavesAGap) {
  World world;
  Daemon daemon{world};
  daemon.loop->run_for(10s);
  world.clock.shift_wall(8h);
  daemon.loop->run_for(10s);
  const auto history = history_of(daemon);
  const auto& times = history.at("time_s").as_array();
  const auto& external = history.at("external_bytes").as_array();
  ASSERT_EQ(times.size(), 4U);
  EXPECT_EQ(times[2].as_int64() - times[1].as_int64(), 10);
  EXPECT_TRUE(external[2].is_null());
  EXPECT_GT(times[3].as_int64() - times[2].as_int64(), 8 * 3600 - 60);
  EXPECT_FALSE(external[3].is_null());
}

TEST(HistoryApi, BudgetHasWhatTheBarDraws) {
  World world;
  world.host.page_cache = gib(7);
  world.host.swap_total = gib(4);
  world.host.swap_used = mib(300);
  world.host.pressed = {.some_avg10_permyriad = 250, .full_avg10_permyriad = 100};
  Daemon daemon{world};
  auto budget = json_of(daemon.request("GET", "/api/v1/budget"));
  EXPECT_EQ(budget.at("page_cache_bytes").as_int64(), gib(7).count());
  EXPECT_EQ(budget.at("free_bytes").as_int64() + budget.at("page_cache_bytes").as_int64(),
            budget.at("mem_available_bytes").as_int64());
  EXPECT_EQ(budget.at("swap_total_bytes").as_int64(), gib(4).count());
  EXPECT_EQ(budget.at("swap_used_bytes").as_int64(), mib(300).count());
  EXPECT_EQ(budget.at("pressure_some_avg10_permyriad").as_int64(), 250);
  EXPECT_EQ(budget.at("pressure_full_avg10_permyriad").as_int64(), 100);
  const auto revision = budget.at("revision").as_int64();
  world.host.swap_used = mib(301);
  budget = json_of(daemon.request("GET", "/api/v1/budget"));
  EXPECT_EQ(budget.at("revision").as_int64(), revision + 1) << "listeners are told";
}

}  // namespace
}  // namespace dgxmm::testing
