#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// D20: the host is restarted, and what served comes back, one after the other.

constexpr auto kSmall = R"("model": "/models/a.gguf", "priority": 1)";
constexpr auto kImportant = R"("model": "/models/b.gguf", "priority": 9)";

/// The ids of all engines that were started, in that order.
std::vector<std::int64_t> started(World& world) {
  std::vector<std::int64_t> ids;
  for (const auto* engine : world.runtime.engines()) ids.push_back(engine->spec.deployment.value);
  return ids;
}

TEST(Restoring, D20_WhatServedIsStartedAgainTheMostImportantFirstAndOneAtATime) {
  World world;
  DeploymentId small;
  DeploymentId important;
  DeploymentId stopped;
  {
    Daemon daemon{world};
    small = daemon.deploy_ready(kSmall);
    important = daemon.deploy_ready(kImportant);
    stopped = daemon.deploy_ready(R"("model": "/models/a.gguf", "priority": 10)");
    EXPECT_EQ(daemon.request("POST", path_of(stopped, "/stop")).status, 200);
    daemon.kill();
  }
  world.runtime.reboot();
  Daemon daemon{world};
  daemon.expect_state(important, State::loading);
  daemon.loop->run_for(2s);
  EXPECT_EQ(daemon.at(small).state, State::failed) << "not two at a time";
  EXPECT_EQ(daemon.at(small).failure->code, "host_restarted");
  daemon.expect_state(small, State::ready);
  EXPECT_EQ(daemon.at(important).state, State::ready);
  EXPECT_EQ(daemon.at(stopped).state, State::stopped);
  EXPECT_THAT(started(world), ElementsAre(small.value, important.value, stopped.value, important.value, small.value));
}

TEST(Restoring, D20_ContainersComeBackTooByTheirPriorityWhenDockerAnswers) {
  World world;
  DeploymentId process;
  DeploymentId container;
  {
    Daemon daemon{world};
    process = daemon.deploy_ready(kSmall);
    container = daemon.deploy_ready(R"("model": "/models/b.gguf", "image": "llama:1", "priority": 9)");
    daemon.kill();
  }
  world.runtime.reboot();
  world.runtime.containers_answer = false;
  Daemon daemon{world};
  daemon.loop->run_for(5s);
  EXPECT_EQ(world.runtime.engines().size(), 2U) << "the container comes first";
  world.runtime.containers_answer = true;
  daemon.expect_state(process, State::ready);
  EXPECT_EQ(daemon.at(container).state, State::ready);
  EXPECT_THAT(started(world), ElementsAre(process.value, container.value, container.value, process.value));
}

TEST(Restoring, D20_WithoutDockerTheOthersDoNotWaitForEver) {
  World world;
  DeploymentId process;
  {
    Daemon daemon{world};
    process = daemon.deploy_ready(kSmall);
    daemon.deploy_ready(R"("model": "/models/b.gguf", "image": "llama:1", "priority": 9)");
    daemon.kill();
  }
  world.runtime.reboot();
  world.runtime.containers_answer = false;
  Daemon daemon{world};
  daemon.expect_state(process, State::ready);
}

TEST(Restoring, D20_WhatDoesNotFitAnyMoreStaysDownAndSaysWhy) {
  World world;
  DeploymentId small;
  DeploymentId important;
  {
    Daemon daemon{world};
    small = daemon.deploy_ready(kSmall);
    important = daemon.deploy_ready(kImportant);
    daemon.kill();
  }
  world.runtime.reboot();
  world.host.held_by_others = world.host.mem_total - gib(12) - gib(8);  // room for one
  Daemon daemon{world};
  daemon.expect_state(important, State::ready);
  daemon.loop->run_for(5s);
  EXPECT_EQ(daemon.at(small).state, State::failed);
  EXPECT_THAT(daemon.at(small).failure->message, HasSubstr("could not be started again"));
  EXPECT_THAT(daemon.at(small).failure->message, HasSubstr(" needs "));
  world.host.held_by_others = gib(4);
  daemon.loop->run_for(60s);
  EXPECT_EQ(daemon.at(small).state, State::failed) << "it is not tried for ever";
}

TEST(Restoring, D20_NotWhatWasKilledForLackOfMemory) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    daemon.kill();
  }
  world.runtime.end(world.runtime.newest(id)->instance.pid,
                    {.exit_code = {}, .signal = 9, .oom_killed = true, .evidence = "oom_kill 1"});
  world.runtime.reboot();
  Daemon daemon{world};
  daemon.loop->run_for(60s);
  EXPECT_EQ(daemon.at(id).failure->code, "out_of_memory");
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

TEST(Restoring, D20_CanBeSwitchedOffAndThenIsForgotten) {
  World world;
  settings::Settings off;
  off.restore_after_reboot = "off";
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    daemon.kill();
  }
  world.runtime.reboot();
  {
    Daemon daemon{world, off};
    daemon.loop->run_for(60s);
    EXPECT_EQ(daemon.at(id).failure->code, "host_restarted");
  }
  Daemon daemon{world};
  daemon.loop->run_for(60s);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

TEST(Restoring, D20_ADaemonThatIsKilledInBetweenGoesOnAndAStopIsObeyed) {
  World world;
  DeploymentId small;
  DeploymentId important;
  {
    Daemon daemon{world};
    small = daemon.deploy_ready(kSmall);
    important = daemon.deploy_ready(kImportant);
    daemon.kill();
  }
  world.runtime.reboot();
  {
    Daemon daemon{world};
    daemon.expect_state(important, State::loading);
    daemon.kill();
  }
  {
    Daemon daemon{world};
    daemon.expect_state(important, State::ready);
    daemon.expect_state(small, State::ready);
    daemon.kill();
  }
  world.runtime.reboot();
  Daemon daemon{world};
  daemon.expect_state(important, State::loading);
  EXPECT_EQ(daemon.request("POST", path_of(small, "/stop")).status, 200);
  daemon.expect_state(important, State::ready);
  daemon.loop->run_for(60s);
  EXPECT_EQ(daemon.at(small).state, State::failed) << "it was wanted no more";
}

TEST(Restoring, D20_ASleeperSleepsAgain) {
  World world;
  auto model = small_model("/models/hf");
  model.format = model::Format::safetensors;
  world.models.models["/models/hf"] = model;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready(R"("model": "/models/hf", "context": 4096, "sequences": 4, "sleep_mode": true)");
    EXPECT_EQ(daemon.request("POST", path_of(id, "/sleep?level=2")).status, 200);
    daemon.kill();
  }
  world.runtime.reboot();
  Daemon daemon{world};
  daemon.expect_state(id, State::ready);
  daemon.expect_state(id, State::sleeping);
  EXPECT_EQ(daemon.at(id).sleep_level, 2);
}

TEST(Restoring, D20_WithoutARestartOfTheHostNothingIsStartedByItself) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    daemon.kill();
  }
  world.runtime.end(world.runtime.newest(id)->instance.pid, {.exit_code = 1, .signal = {}, .evidence = {}});
  Daemon daemon{world};
  daemon.loop->run_for(60s);
  EXPECT_EQ(daemon.at(id).state, State::failed);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

}  // namespace
}  // namespace dgxmm::testing
