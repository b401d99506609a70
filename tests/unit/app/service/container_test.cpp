#include "unit/app/support/daemon.h"

#include <algorithm>
#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

// A deployment in a container: what it is started with, and what happens when the engine that runs it does not answer.

constexpr auto kInContainer = R"("model": "/models/a.gguf", "image": "llama:1")";

TEST(Contained, GetsItsModelReadOnlyAndAPortOfTheHost) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(kInContainer);
  const auto& spec = world.runtime.newest(id)->spec;
  ASSERT_TRUE(spec.container);
  EXPECT_EQ(spec.container->image, "llama:1");
  EXPECT_EQ(spec.container->host_port, daemon.at(id).port);
  EXPECT_NE(spec.container->container_port, spec.container->host_port);
  ASSERT_EQ(spec.container->mounts.size(), 1U);
  EXPECT_EQ(spec.container->mounts.front().source, daemon.at(id).model_path);
  EXPECT_EQ(spec.arguments.front(), "") << "the image's own entrypoint";
  const auto host = std::ranges::find(spec.arguments, "--host");
  EXPECT_EQ(*std::next(host), "0.0.0.0") << "of the container's network";
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Contained, IsShownWithItsImageAndId) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(kInContainer);
  const auto response = daemon.request("GET", path_of(id));
  EXPECT_EQ(member(response, "runtime"), "docker");
  EXPECT_EQ(member(response, "image"), "llama:1");
  EXPECT_EQ(member(response, "image_id"), "sha256:llama:1");
  EXPECT_EQ(member(response, "container").size(), 64U);
}

TEST(Contained, WithoutAnImageIsRefusedByItsField) {
  World world;
  Daemon daemon{world};
  const auto response =
      daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf", "runtime": "docker"})");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(member(response, "where"), "image");
  EXPECT_TRUE(world.store.deployments().empty());
}

TEST(Contained, D6_APortThatIsLostInBetweenIsReplacedOnce) {
  World world;
  world.runtime.next.start_error = Error{"port_taken", "the port is taken", {}, {}};
  world.runtime.next.start_errors = 1;
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  const auto first = daemon.at(id).port;
  daemon.expect_state(id, State::ready);
  EXPECT_NE(daemon.at(id).port, first);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Contained, D6_NotTwiceAndNotWhenThePortWasAskedFor) {
  World world;
  world.runtime.next.start_error = Error{"port_taken", "the port is taken", {}, {}};
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "port_taken");
  world.runtime.next.start_errors = 1;
  const auto asked = daemon.deploy(R"("model": "/models/a.gguf", "image": "llama:1", "port": 41234)");
  daemon.expect_state(asked, State::failed);
  EXPECT_EQ(daemon.at(asked).port, 41234);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Contained, AStartThatDockerRefusesHoldsNothing) {
  World world;
  world.runtime.containers_answer = false;
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "docker_unreachable");
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST(Contained, IsUnknownAndCountsInFullWhileDockerDoesNotAnswer) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(kInContainer);
  const auto committed = daemon.budget().committed;
  world.runtime.containers_answer = false;
  daemon.expect_state(id, State::unknown);
  EXPECT_EQ(daemon.budget().committed, committed);
  EXPECT_EQ(daemon.request("GET", "/api/v1/budget").status, 200);
  world.runtime.containers_answer = true;
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

TEST(Contained, D6_AfterARestartItIsReachedAtThePortThatItsContainerReallyPublishes) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready(kInContainer);
    daemon.kill();
  }
  auto& engine = *world.runtime.newest(id);
  engine.spec.container->host_port = 41999;  // what was stored of it was lost
  engine.instance.published_port = 41999;
  Daemon daemon{world};
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(daemon.at(id).port, 41999);
  EXPECT_EQ(member(daemon.request("GET", path_of(id)), "url"), "http://127.0.0.1:41999/v1");
  const auto events = daemon.events();
  const auto told = std::ranges::count_if(
      events, [](const auto& event) { return event.find("publishes port 41999") != std::string::npos; });
  EXPECT_EQ(told, 1);
}

TEST(Contained, OfTwoContainersOfADeploymentTheOneOfItsLastStartIsAdoptedAndTheOtherIsAnOrphan) {
  World world;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy(kInContainer);
    const auto before_its_start = world.store.deployments().front();
    daemon.expect_state(id, State::ready);
    const auto again = daemon.loop->run(world.runtime.start(world.runtime.newest(id)->spec));
    ASSERT_TRUE(again);
    daemon.kill();
    world.store.update_deployment(before_its_start);
  }
  const auto engines = world.runtime.engines();
  ASSERT_EQ(engines.size(), 2U);
  Daemon daemon{world};
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(daemon.at(id).instance->container_id, engines.back()->instance.container_id);
  const auto orphans = daemon.service->orphans.find();
  ASSERT_EQ(orphans.size(), 1U);
  EXPECT_EQ(orphans.front().instance.container_id, engines.front()->instance.container_id);
}

TEST(Contained, OneThatWasLoadingGoesOnLoading) {
  World world;
  world.runtime.next.loading_takes = 60s;
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  daemon.expect_state(id, State::loading);
  world.runtime.containers_answer = false;
  daemon.expect_state(id, State::unknown);
  world.runtime.containers_answer = true;
  daemon.expect_state(id, State::loading);
  daemon.expect_state(id, State::ready);
}

TEST(Contained, TheGuardOfAStartAndItsTurnOutliveASilentDocker) {
  World world;
  world.runtime.next.loading_takes = 60s;
  world.runtime.killed_without_docker = true;
  Daemon daemon{world};
  const auto first = daemon.deploy(kInContainer);
  daemon.expect_state(first, State::loading);
  const auto second = daemon.deploy(R"("model": "/models/b.gguf")");
  world.runtime.containers_answer = false;
  daemon.expect_state(first, State::unknown);
  daemon.loop->run_for(5s);
  EXPECT_EQ(world.runtime.engines().size(), 1U) << "a second engine loads beside it";
  world.host.held_by_others = gib(64) - gib(6) - gib(3);
  EXPECT_TRUE(daemon.loop->run_until([&] { return world.runtime.running_count() == 0; }, 10s)) << "nobody watches it";
  world.host.held_by_others = gib(4);
  daemon.expect_state(first, State::failed);
  EXPECT_EQ(daemon.at(first).failure->code, "start_guard");
  daemon.expect_state(second, State::ready);
}

TEST(Contained, TheGuardGoesOnWhenDockerAnswersAgain) {
  World world;
  world.runtime.next.loading_takes = 60s;
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  daemon.expect_state(id, State::loading);
  world.runtime.containers_answer = false;
  daemon.expect_state(id, State::unknown);
  world.runtime.containers_answer = true;
  daemon.expect_state(id, State::loading);
  world.host.held_by_others = gib(64) - gib(6) - gib(3);
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "start_guard");
}

TEST(Contained, AStopThatDockerDoesNotAnswerFailsAndTheMemoryStaysCounted) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(kInContainer);
  world.runtime.containers_answer = false;
  const auto response = daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(member(response, "code"), "docker_unreachable");
  EXPECT_EQ(daemon.at(id).state, State::stopping);
  EXPECT_GT(daemon.budget().committed, Bytes{0});
  world.runtime.containers_answer = true;
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
}

/// Kills the daemon at every moment of a life; the next one has to wait for Docker before it knows what became of it.
TEST(Contained, KilledAtAnyMomentNoContainerIsLostStartedTwiceOrLeftUncounted) {
  for (auto moment = 0ms; moment < 6s; moment += 50ms) {
    SCOPED_TRACE(moment.count());
    World world;
    world.runtime.next.start_takes = 300ms;
    world.runtime.next.start_returns_after = 300ms;
    world.runtime.next.loading_takes = 1s;
    world.runtime.next.stop_takes = 1s;
    const auto [id, stops] = break_off(world, {}, kInContainer, moment);

    world.runtime.containers_answer = false;
    Daemon after{world};
    after.loop->run_for(5s);
    const bool ended = deployment::is_final(after.at(id).state);
    EXPECT_EQ(after.budget().committed > Bytes{0}, !ended) << "what is not known counts";
    EXPECT_TRUE(!ended || world.runtime.running_count() == 0);
    world.runtime.containers_answer = true;
    after.loop->run_for(30s);
    EXPECT_LE(world.runtime.engines().size(), 1U);
    const bool runs = world.runtime.running_count() == 1;
    EXPECT_EQ(after.at(id).state, stops ? State::stopped : runs ? State::ready : State::failed);
    EXPECT_EQ(after.budget().committed > Bytes{0}, runs);
    EXPECT_EQ(after.service->trouble(), std::nullopt);
  }
}

TEST(Contained, OneThatNoDeploymentKnowsIsNamedWithWhatEndsIt) {
  World world;
  {
    Daemon daemon{world};
    daemon.deploy_ready(kInContainer);
    daemon.kill();
  }
  world.store.remove_deployment(DeploymentId{1});
  Daemon daemon{world};
  daemon.loop->run_for(1s);
  const auto events = daemon.service->events.after(0, 100);
  const auto named = std::ranges::find(events, "engine.unknown", &dto::Event::type);
  ASSERT_NE(named, events.end());
  EXPECT_NE(named->message.find("`dgxmm orphans --stop "), std::string::npos) << named->message;
  EXPECT_EQ(world.runtime.running_count(), 1U);
}

TEST(Contained, AnImageThatIsMissingIsPulledAndThePullIsItsPhase) {
  World world;
  world.runtime.images.pull_takes = 10s;
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  daemon.loop->run_for(2s);
  const auto pulling = daemon.request("GET", path_of(id));
  EXPECT_EQ(member(pulling, "state"), "starting");
  EXPECT_EQ(member(pulling, "phase"), "pulling the image, 1.0 of 2.0 GiB");
  EXPECT_GT(daemon.budget().committed, Bytes{0}) << "P13: it is reserved already";
  daemon.expect_state(id, State::ready);
}

TEST(Contained, OthersStartWhileAnImageIsPulled) {
  World world;
  world.runtime.images.pull_takes = 60s;
  Daemon daemon{world};
  const auto slow = daemon.deploy(kInContainer);
  const auto process = daemon.deploy(R"("model": "/models/b.gguf")");
  daemon.expect_state(process, State::ready);
  EXPECT_EQ(daemon.at(slow).state, State::starting);
}

TEST(Contained, AStopBreaksOffThePull) {
  World world;
  world.runtime.images.pull_takes = 1h;
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  daemon.loop->run_for(1s);
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
  daemon.loop->run_for(1s);
  EXPECT_EQ(world.runtime.pulls_broken_off, 1);
  EXPECT_TRUE(world.runtime.engines().empty());
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Contained, APullThatFailsIsOneSentenceAndHoldsNothing) {
  World world;
  world.runtime.images.error = Error{"registry_denied", "the image llama:1 is not handed over", "log in", {}};
  Daemon daemon{world};
  const auto id = daemon.deploy(kInContainer);
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "registry_denied");
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST(Contained, D8_OneWhoseImageIsAnotherByNowRunsOnAndIsMarkedUntilItIsStartedAgain) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(kInContainer);
  EXPECT_EQ(member(daemon.request("GET", path_of(id)), "outdated"), "");
  world.runtime.images.ids["llama:1"] = "sha256:newer";
  daemon.loop->run_for(60s);
  const auto response = daemon.request("GET", path_of(id));
  EXPECT_EQ(member(response, "state"), "ready");
  EXPECT_EQ(member(response, "outdated"), "the image llama:1 is another one by now");
  EXPECT_EQ(world.runtime.engines().size(), 1U) << "it is left alone";

  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 202);
  daemon.expect_state(id, State::ready);
  daemon.loop->run_for(60s);
  EXPECT_EQ(member(daemon.request("GET", path_of(id)), "outdated"), "");
  EXPECT_EQ(world.runtime.newest(id)->instance.image, "sha256:newer");
}

TEST(Contained, D8_OneThatWasMadeOtherwiseIsAdoptedAndMarked) {
  World world;
  {
    Daemon daemon{world};
    daemon.deploy_ready(kInContainer);
    daemon.kill();
  }
  world.runtime.images.as_specified = false;
  Daemon daemon{world};
  daemon.expect_state(DeploymentId{1}, State::ready);
  daemon.loop->run_for(5s);
  EXPECT_EQ(member(daemon.request("GET", path_of(DeploymentId{1})), "outdated"),
            "it would be started with other settings now");
  EXPECT_EQ(world.runtime.running_count(), 1U);
}

}  // namespace
}  // namespace dgxmm::testing
