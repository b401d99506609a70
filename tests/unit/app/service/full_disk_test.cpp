#include "unit/app/support/daemon.h"

#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

// Writes fail. Decisions are not made then; what happens in the world is followed all the same.

std::string stored_state(World& world) {
  const auto document = boost::json::parse(world.store.deployments().at(0).document);
  return std::string{document.at("state").as_string()};
}

TEST(FullDisk, ReservationThatCannotBeStoredIsNone) {
  World world;
  Daemon daemon{world};
  const auto before = daemon.budget();
  world.store.fail_writes = true;
  EXPECT_EQ(daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf"})").status, 500);
  EXPECT_TRUE(daemon.service->table.all().empty());
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
  EXPECT_EQ(daemon.budget(), before);
  world.store.fail_writes = false;
  daemon.deploy_ready();  // the turn was given back
}

TEST(FullDisk, StartThatCannotBeStoredIsNotMade) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.loop->run_for(20s);
  daemon.request("POST", path_of(id, "/stop"));
  const auto footprint = daemon.at(id).footprint;
  world.store.fail_writes = true;
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 500);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
  EXPECT_EQ(daemon.at(id).footprint, footprint);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
  EXPECT_EQ(world.runtime.running_count(), 0U);
  world.store.fail_writes = false;
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 202);
}

TEST(FullDisk, WhatHappensIsFollowedShownAsTroubleAndStoredLater) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  world.store.fail_writes = true;
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(stored_state(world), "starting");
  const auto trouble = daemon.request("GET", "/healthz");
  EXPECT_EQ(trouble.status, 503);
  EXPECT_NE(trouble.body.find("disk is full"), std::string::npos) << trouble.body;
  world.store.fail_writes = false;
  daemon.loop->run_for(3s);
  EXPECT_EQ(stored_state(world), "ready");
  EXPECT_EQ(daemon.request("GET", "/healthz").status, 200);
}

TEST(FullDisk, DaemonThatIsKilledBeforeItCouldStoreFindsTheEngineAgain) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy();
    world.store.fail_writes = true;
    daemon.expect_state(id, State::ready);
    daemon.kill();
  }
  world.store.fail_writes = false;
  Daemon daemon{world};
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

TEST(FullDisk, EngineThatDiesIsFailedAndCountsNothing) {
  World world;
  world.runtime.next.dies_after = 5s;
  world.runtime.next.death = {.exit_code = {}, .signal = 9, .oom_killed = true, .evidence = "oom_kill 1"};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.store.fail_writes = true;
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST(FullDisk, AnEngineCanBeStopped) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.store.fail_writes = true;
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
  EXPECT_EQ(world.runtime.running_count(), 0U);
}

TEST(FullDisk, ChangeOrRemovalThatCannotBeStoredChangesNothing) {
  World world;
  world.runtime.next.log = {"line"};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.request("POST", path_of(id, "/stop"));
  world.store.fail_writes = true;
  EXPECT_EQ(daemon.request("PATCH", path_of(id), R"({"priority": 7, "pinned": true})").status, 500);
  EXPECT_EQ(daemon.at(id).priority, 0);
  EXPECT_FALSE(daemon.at(id).pinned);
  EXPECT_EQ(daemon.request("DELETE", path_of(id)).status, 500);
  EXPECT_NE(daemon.service->table.find(id), nullptr);
  EXPECT_EQ(world.logs.files.size(), 1U);
}

TEST(FullDisk, EventsAreLostButWhoeverWaitsIsWoken) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto last = daemon.service->events.last_id();
  world.store.fail_writes = true;
  daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(daemon.service->events.last_id(), last);
  world.store.fail_writes = false;
  daemon.request("DELETE", path_of(id));
  ASSERT_EQ(daemon.events(last).size(), 1U);
  EXPECT_TRUE(daemon.events(last).front().starts_with("deployment.removed"));
}

TEST(FullDisk, C5_AKillThatCannotBeStoredCountsAtOnceAndIsStoredLater) {
  World world;
  world.runtime.next.dies_after = 5s;
  world.runtime.next.death = {.exit_code = {}, .signal = 9, .oom_killed = true, .evidence = "oom_kill 1"};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.store.fail_writes = true;
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.service->estimates.floors().size(), 1U);
  EXPECT_TRUE(world.store.oom_floors().empty());
  world.store.fail_writes = false;
  daemon.loop->run_for(3s);
  EXPECT_EQ(world.store.oom_floors().size(), 1U);
}

}  // namespace
}  // namespace dgxmm::testing
