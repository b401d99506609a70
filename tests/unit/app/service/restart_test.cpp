#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;
using ::testing::HasSubstr;

// The daemon is killed, and the next one goes on with what runs.

TEST(Adoption, ServingEngineIsTakenOverNotRestartedAndStillCounted) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    daemon.loop->run_for(20s);
    daemon.kill();
  }
  Daemon daemon{world};
  EXPECT_EQ(daemon.at(id).state, State::unknown) << "until it has answered";
  EXPECT_EQ(daemon.budget().committed, daemon.at(id).reserved());
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
  EXPECT_EQ(daemon.budget().committed, daemon.at(id).reserved());
  daemon.loop->run_for(1min);
  EXPECT_EQ(world.store.calibrations().size(), 1U) << "that start was recorded already";
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST(Adoption, P8_TheIdleTimeGoesOnUnlessSomethingWasDoneMeanwhile) {
  for (const bool used : {false, true}) {
    World world;
    DeploymentId id;
    std::optional<WallTime> since;
    {
      Daemon daemon{world};
      id = daemon.deploy_ready();
      world.runtime.newest(id)->script.work_done = 100;
      daemon.loop->run_for(1h);
      since = daemon.at(id).idle_since();
      ASSERT_TRUE(since);
      daemon.kill();
    }
    if (used) ++world.runtime.newest(id)->script.work_done;
    const auto restarted = world.clock.wall();
    Daemon daemon{world};
    EXPECT_FALSE(daemon.at(id).idle_since()) << "until it has answered";
    daemon.expect_state(id, State::ready);
    daemon.loop->run_for(10s);
    ASSERT_TRUE(daemon.at(id).idle_since());
    if (used) {
      EXPECT_GE(*daemon.at(id).idle_since(), restarted);
    } else {
      EXPECT_EQ(daemon.at(id).idle_since(), since);
    }
  }
}

TEST(Adoption, EngineThatStillLoadsIsLoadingAndCanStillTimeOut) {
  World world;
  world.runtime.next.answers = EngineScript::Answers::never;
  settings::Settings settings;
  settings.ready_timeout_s = 10;
  DeploymentId id;
  {
    Daemon daemon{world, settings};
    id = daemon.deploy();
    daemon.expect_state(id, State::loading);
    daemon.kill();
  }
  Daemon daemon{world, settings};
  EXPECT_EQ(daemon.at(id).state, State::loading);
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "ready_timeout");
}

TEST(Adoption, EngineThatExistsButWasNotStoredYetIsFound) {
  World world;
  world.runtime.next.start_returns_after = 1s;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy();
    daemon.loop->run_for(500ms);
    ASSERT_EQ(world.runtime.running_count(), 1U);
    ASSERT_EQ(daemon.at(id).state, State::starting);
    daemon.kill();
  }
  Daemon daemon{world};
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

TEST(Adoption, EngineThatEndedMeanwhileIsFailedWithItsLastLines) {
  World world;
  world.runtime.next.log = {"the last words"};
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    daemon.kill();
  }
  world.runtime.end(world.runtime.newest(id)->instance.pid, {.exit_code = 1, .signal = {}, .evidence = {}});
  Daemon daemon{world};
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "engine_died");
  EXPECT_THAT(daemon.at(id).failure->message, HasSubstr("while dgxmm was not running with exit code 1"));
  EXPECT_EQ(daemon.at(id).failure->last_lines.front(), "the last words");
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

/// The proof is there until the daemon has asked, of an engine in a container also when Docker answers late.
TEST(Adoption, C5_AnEndForLackOfMemoryWhileTheDaemonWasDownIsLearnt) {
  for (const std::string members :
       {R"("model": "/models/a.gguf")", R"("model": "/models/a.gguf", "image": "llama:1")"}) {
    SCOPED_TRACE(members);
    World world;
    DeploymentId id;
    {
      Daemon daemon{world};
      id = daemon.deploy_ready(members);
      daemon.kill();
    }
    world.runtime.end(world.runtime.newest(id)->instance.pid,
                      {.exit_code = {}, .signal = 9, .oom_killed = true, .evidence = "memory.events: oom_kill 1"});
    world.runtime.containers_answer = false;
    Daemon daemon{world};
    daemon.loop->run_for(3s);
    world.runtime.containers_answer = true;
    daemon.expect_state(id, State::failed);
    EXPECT_EQ(daemon.at(id).failure->code, "out_of_memory");
    ASSERT_EQ(world.store.oom_floors().size(), 1U);
    EXPECT_EQ(world.store.oom_floors().front().evidence, "memory.events: oom_kill 1");
  }
}

TEST(Adoption, B2_EngineThatEndedMeanwhileAndLeftMemoryIsStoppingUntilItIsBack) {
  World world;
  world.runtime.next.memory_lingers = 30s;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    daemon.kill();
  }
  world.runtime.end(world.runtime.newest(id)->instance.pid, {.exit_code = 1, .signal = {}, .evidence = {}});
  Daemon daemon{world};
  daemon.expect_state(id, State::stopping);
  EXPECT_EQ(daemon.budget().committed, world.runtime.next.holds.total());
  daemon.expect_state(id, State::stopped);
}

TEST(Adoption, AnotherProcessWithTheSamePidIsNotTheEngine) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    daemon.kill();
  }
  world.runtime.newest(id)->instance.start_time_ticks += 1;
  world.runtime.newest(id)->spec.name = "something else";
  Daemon daemon{world};
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(world.runtime.newest(id)->stops, 0) << "a stranger was stopped";
}

TEST(Adoption, AnOrderlyEndOfTheDaemonLeavesTheEnginesRunning) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
  }
  EXPECT_EQ(world.runtime.running_count(), 1U);
  Daemon daemon{world};
  daemon.expect_state(id, State::ready);
}

/// Kills the daemon at every moment of a life, and looks whether the next one has everything under control.
class KilledAnywhere : public ::testing::TestWithParam<int> {};

TEST_P(KilledAnywhere, NoEngineIsLostStartedTwiceOrLeftUncounted) {
  const auto step = std::chrono::milliseconds{GetParam()};
  for (auto moment = 0ms; moment < 6s; moment += step) {
    SCOPED_TRACE(moment.count());
    World world;
    world.runtime.next.start_takes = 300ms;
    world.runtime.next.start_returns_after = 300ms;
    world.runtime.next.loading_takes = 1s;
    world.runtime.next.stop_takes = 1s;
    world.runtime.next.holds.anon = gib(8);  // more than is reserved
    settings::Settings settings;
    settings.calibration_delay_s = 1;
    const auto [id, stops] = break_off(world, settings, R"("model": "/models/a.gguf")", moment);

    Daemon after{world, settings};
    after.loop->run_for(30s);
    const auto& deployment = after.at(id);
    EXPECT_LE(world.runtime.engines().size(), 1U);
    const bool runs = world.runtime.running_count() == 1;
    EXPECT_EQ(deployment.state, stops ? State::stopped : runs ? State::ready : State::failed);
    EXPECT_EQ(after.budget().committed, runs ? world.runtime.next.holds.total() : Bytes{0});
    EXPECT_EQ(after.budget().external, world.host.held_by_others);
    if (runs) EXPECT_GE(world.store.calibrations().size(), 1U);
    EXPECT_EQ(after.service->trouble(), std::nullopt);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, KilledAnywhere, ::testing::Values(50, 37));

TEST(Adoption, RowThatCannotBeReadIsNamedAndStopsTheStart) {
  World world;
  world.store.add_deployment("broken", R"({"name": 3})");
  const auto error = error_at_start(world);
  EXPECT_EQ(error.code, "bad_state");
  EXPECT_NE(error.message.find("'broken'"), std::string::npos);
}

TEST(Adoption, EngineThatNoDeploymentKnowsIsNamedAndLeftAlone) {
  World world;
  {
    Daemon daemon{world};
    daemon.deploy_ready();
    daemon.kill();
  }
  world.store.remove_deployment(DeploymentId{1});  // as if the state had been lost
  Daemon daemon{world};
  const auto events = daemon.service->events.after(0, 100);
  const auto named = std::ranges::find(events, "engine.unknown", &dto::Event::type);
  ASSERT_NE(named, events.end());
  EXPECT_NE(named->message.find("`dgxmm orphans --stop "), std::string::npos) << named->message;
  EXPECT_EQ(world.runtime.running_count(), 1U);
}

}  // namespace
}  // namespace dgxmm::testing
