#include "unit/app/support/daemon.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

namespace dgxmm::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

using namespace std::chrono_literals;
using deployment::State;

// Ending deployments, and starting them again.

TEST(Stop, ReturnsWhenTheMemoryIsBack) {
  World world;
  world.runtime.next.memory_lingers = 5s;
  Daemon daemon{world};
  const auto free_before = daemon.budget().free_for_new;
  const auto id = daemon.deploy_ready();
  const auto response = daemon.send("POST", path_of(id, "/stop"));
  daemon.loop->run_for(3s);
  EXPECT_FALSE(response->has_value());
  EXPECT_EQ(daemon.at(id).state, State::stopping);
  EXPECT_EQ(daemon.budget().committed, world.runtime.next.holds.total());  // B2
  daemon.loop->run_for(3s);
  ASSERT_TRUE(response->has_value());
  EXPECT_EQ((*response)->status, 200);
  EXPECT_EQ(member(**response, "state"), "stopped");
  EXPECT_EQ(daemon.budget().free_for_new, free_before);
  EXPECT_EQ(world.runtime.forgotten.size(), 1U);
  EXPECT_FALSE(daemon.at(id).failure);
}

TEST(Stop, OfWhatHasEndedDoesNothing) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  const auto last = daemon.service->events.last_id();
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.service->events.last_id(), last);
}

TEST(Stop, TwoAtOnceEndItOnceAndBothSucceed) {
  World world;
  world.runtime.next.stop_takes = 2s;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto first = daemon.send("POST", path_of(id, "/stop"));
  const auto second = daemon.send("POST", path_of(id, "/stop"));
  ASSERT_TRUE(daemon.loop->run_until([&] { return first->has_value() && second->has_value(); }));
  EXPECT_EQ((*first)->status, 200);
  EXPECT_EQ((*second)->status, 200);
  EXPECT_EQ(world.runtime.newest(id)->stops, 1);
}

TEST(Stop, WhileTheEngineIsBeingCreatedEndsItAsSoonAsItExists) {
  World world;
  world.runtime.next.start_takes = 2s;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  daemon.loop->run_for(500ms);
  const auto response = daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(member(response, "state"), "stopped");
  ASSERT_EQ(world.runtime.engines().size(), 1U);
  EXPECT_EQ(world.runtime.running_count(), 0U);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Stop, BeforeTheEngineIsCreatedStartsNoneAndLetsThePortGo) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  const auto response = daemon.send("POST", path_of(id, "/stop"));
  daemon.loop->run_ready();
  ASSERT_FALSE(daemon.tcp_ports.held.empty()) << "the start has not come that far";
  ASSERT_TRUE(daemon.loop->run_until([&] { return response->has_value(); }));
  EXPECT_EQ((*response)->status, 200);
  EXPECT_TRUE(world.runtime.engines().empty());
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Stop, OfAStartThatFailsMeanwhileIsNoError) {
  World world;
  world.runtime.next.start_takes = 2s;
  world.runtime.next.start_error = Error{"start_failed", "no memory for a process", {}, {}};
  Daemon daemon{world};
  const auto id = daemon.deploy();
  daemon.loop->run_for(500ms);
  const auto response = daemon.send("POST", path_of(id, "/stop"));
  ASSERT_TRUE(daemon.loop->run_until([&] { return response->has_value(); }));
  EXPECT_EQ((*response)->status, 200) << (*response)->body;
  EXPECT_EQ(member(**response, "state"), "stopped");
  EXPECT_FALSE(daemon.at(id).failure);
}

TEST(Stop, WhileLoadingOrSilentLeavesNoWatcherBehind) {
  World world;
  world.runtime.next.answers = EngineScript::Answers::never;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::loading);
  daemon.loop->run_for(1s);  // a question is under way
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  const auto last = daemon.service->events.last_id();
  daemon.loop->run_for(20min);
  EXPECT_EQ(daemon.service->events.last_id(), last);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
}

TEST(Stop, ThatDoesNotSucceedSaysWhyStillCountsAndCanBeTriedAgain) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  auto& engine = *world.runtime.newest(id);
  engine.script.survives_stop = true;
  const auto refused = daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(member(refused, "code"), "still_running");
  EXPECT_EQ(daemon.at(id).state, State::stopping);
  EXPECT_EQ(daemon.budget().committed, engine.script.holds.total());
  engine.script.survives_stop = false;
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
}

TEST(Stop, MemoryThatDoesNotComeBackIsAnErrorAndStillCounts) {
  World world;
  world.runtime.next.memory_lingers = 10min;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto response = daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "memory_not_released");
  EXPECT_EQ(daemon.budget().committed, world.runtime.next.holds.total());
  daemon.loop->run_for(10min);
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST(Stop, OfAnEngineThatDiesAtThatMomentIsAStop) {
  World world;
  world.runtime.next.stop_takes = 1s;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto response = daemon.send("POST", path_of(id, "/stop"));
  daemon.loop->run_for(500ms);
  world.runtime.end(world.runtime.newest(id)->instance.pid, {.exit_code = 0, .signal = {}, .evidence = {}});
  ASSERT_TRUE(daemon.loop->run_until([&] { return response->has_value(); }));
  EXPECT_EQ((*response)->status, 200);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
  EXPECT_FALSE(daemon.at(id).failure);
}

TEST(Stop, WhileTheDaemonEndsIsGoneOnWithByTheNextOne) {
  World world;
  world.runtime.next.stop_takes = 1min;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy_ready();
    const auto response = daemon.send("POST", path_of(id, "/stop"));
    daemon.loop->run_for(1s);
  }
  Daemon daemon{world};
  daemon.expect_state(id, State::stopped);
  EXPECT_EQ(world.runtime.running_count(), 0U);
}

TEST(Stop, DuringAStartWhileTheDaemonEndsLosesNoEngine) {
  World world;
  world.runtime.next.start_takes = 2s;
  DeploymentId id;
  {
    Daemon daemon{world};
    id = daemon.deploy();
    daemon.loop->run_for(500ms);
    const auto response = daemon.send("POST", path_of(id, "/stop"));
    daemon.loop->run_for(500ms);
  }
  Daemon daemon{world};
  daemon.expect_state(id, State::stopped);
  EXPECT_EQ(world.runtime.running_count(), 0U) << "an engine runs that nobody counts";
}

TEST(Remove, OnlyWhatHasEndedAndTakesItsLogAlong) {
  World world;
  world.runtime.next.log = {"line"};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  EXPECT_EQ(daemon.request("DELETE", path_of(id)).status, 409);
  daemon.request("POST", path_of(id, "/stop"));
  ASSERT_EQ(world.logs.files.size(), 1U);
  EXPECT_EQ(daemon.request("DELETE", path_of(id)).status, 204);
  EXPECT_TRUE(world.logs.files.empty());
  EXPECT_TRUE(world.store.deployments().empty());
  EXPECT_EQ(daemon.request("DELETE", path_of(id)).status, 404);
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 404);
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 404);
}

TEST(StartAgain, ServesWithAnEngineOfItsOwn) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 202);
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 409);
  daemon.expect_state(id, State::ready);
  EXPECT_EQ(world.runtime.engines().size(), 2U);
  EXPECT_EQ(world.runtime.running_count(), 1U);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(StartAgain, WatchersOfTheEarlierStartLeaveTheNewOneAlone) {
  World world;
  world.runtime.next.answers = EngineScript::Answers::never;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::loading);
  daemon.loop->run_for(100ms);  // the first watcher waits 2 s for an answer
  daemon.request("POST", path_of(id, "/stop"));
  world.runtime.next = {};
  world.runtime.next.loading_takes = 5s;
  daemon.request("POST", path_of(id, "/start"));
  const auto before = daemon.service->events.last_id();
  daemon.expect_state(id, State::ready);
  daemon.loop->run_for(1min);
  int readies = 0;
  for (const auto& event : daemon.events(before)) readies += event.find("ready after") != std::string::npos ? 1 : 0;
  EXPECT_EQ(readies, 1);
  EXPECT_EQ(daemon.at(id).state, State::ready);
}

TEST(StartAgain, ThatDoesNotFitChangesNothing) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.request("POST", path_of(id, "/stop"));
  world.host.held_by_others = gib(50);
  const auto response = daemon.request("POST", path_of(id, "/start"));
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "does_not_fit");
  EXPECT_EQ(daemon.at(id).state, State::stopped);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(StartAgain, UnderANameThatRunsMeanwhileIsRefused) {
  World world;
  Daemon daemon{world};
  const auto old = daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "chat")");
  daemon.request("POST", path_of(old, "/stop"));
  daemon.deploy_ready(R"("model": "/models/b.gguf", "name": "chat")");
  const auto response = daemon.request("POST", path_of(old, "/start"));
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "name_taken");
}

TEST(StartAgain, OnItsPort) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto port = daemon.at(id).port;
  daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 202);
  EXPECT_EQ(daemon.at(id).port, port);
}

TEST(StartAgain, TakesAnotherPortWhenItsOwnIsTakenAndSaysSo) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto port = daemon.at(id).port;
  daemon.request("POST", path_of(id, "/stop"));
  daemon.tcp_ports.taken.insert(port);
  const auto before = daemon.service->events.last_id();
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 202);
  EXPECT_NE(daemon.at(id).port, port);
  EXPECT_THAT(
      daemon.events(before),
      Contains(HasSubstr(fmt::format("starting again on port {}: its port {} is taken", daemon.at(id).port, port))));
  daemon.expect_state(id, State::ready);
}

TEST(StartAgain, OnAPortThatWasAskedForAndIsTakenIsRefused) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(R"("model": "/models/a.gguf", "port": 8123)");
  daemon.request("POST", path_of(id, "/stop"));
  daemon.tcp_ports.taken.insert(8123);
  const auto response = daemon.request("POST", path_of(id, "/start"));
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "port_taken");
  EXPECT_THAT(member(response, "hint"), HasSubstr("deploy again with another port"));
  EXPECT_EQ(daemon.at(id).state, State::stopped);
  EXPECT_EQ(daemon.at(id).port, 8123);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
  daemon.tcp_ports.taken.clear();
  EXPECT_EQ(daemon.request("POST", path_of(id, "/start")).status, 202);
  EXPECT_EQ(daemon.at(id).port, 8123);
}

TEST(StartAgain, OfWhatIsRemovedMeanwhileIsNotFound) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.request("POST", path_of(id, "/stop"));
  const auto started = daemon.send("POST", path_of(id, "/start"));
  const auto removed = daemon.send("DELETE", path_of(id));
  ASSERT_TRUE(daemon.loop->run_until([&] { return started->has_value() && removed->has_value(); }));
  EXPECT_EQ((*removed)->status, 204);
  EXPECT_EQ((*started)->status, 404);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(StartAgain, OfAModelThatIsGoneSaysSo) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.request("POST", path_of(id, "/stop"));
  world.models.models.clear();
  const auto response = daemon.request("POST", path_of(id, "/start"));
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(member(response, "code"), "model_not_found");
  EXPECT_EQ(daemon.at(id).state, State::stopped);
}

TEST(Runtime, ExceptionInAStartLeavesADeploymentThatCanBeStopped) {
  World world;
  world.runtime.start_throws = true;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  daemon.loop->run_for(1s);
  EXPECT_EQ(daemon.loop->failures().size(), 1U);
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon.at(id).state, State::stopped);
}

}  // namespace
}  // namespace dgxmm::testing
