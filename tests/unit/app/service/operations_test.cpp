#include "unit/app/support/daemon.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

/// A host with room for one of the models, and one that has it.
class Operations : public ::testing::Test {
 protected:
  Operations() {
    world.host.held_by_others = gib(40);
    first = daemon.deploy_ready();
  }

  /// Asks for the plans of a second deployment.
  std::string plan_set(const std::string& members = R"("model": "/models/b.gguf")") {
    const auto response = daemon.request("POST", "/api/v1/plans", "{" + members + "}");
    EXPECT_EQ(response.status, 200) << response.body;
    return member(response, "plan_set");
  }
  ports::HttpResponse apply(const std::string& set, const std::string& plan) {
    return daemon.request("POST", "/api/v1/plans/" + set + "/" + plan + "/apply");
  }
  std::string stop_first() { return "stop:" + std::to_string(first.value); }
  boost::json::value operation(const std::string& id) {
    return json_of(daemon.request("GET", "/api/v1/operations/" + id));
  }
  void expect_operation(const std::string& id, const std::string& state) {
    EXPECT_TRUE(daemon.loop->run_until([&] { return daemon.service->operations.find(id)->state == state; }))
        << "it is " << daemon.service->operations.find(id)->state;
  }
  std::vector<std::string> steps(const std::string& id) {
    std::vector<std::string> result;
    for (const auto& step : daemon.service->operations.find(id)->steps) result.push_back(step.state);
    return result;
  }

 public:
  World world;
  Daemon daemon{world};
  DeploymentId first;
};

TEST_F(Operations, P11_StopsThenWaitsForTheMemoryThenDeploys) {
  const auto response = apply(plan_set(), stop_first());
  ASSERT_EQ(response.status, 202) << response.body;
  const auto id = member(response, "id");
  expect_operation(id, "succeeded");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"done", "done", "done"}));
  EXPECT_EQ(daemon.at(first).state, State::stopped);
  const auto second = daemon.service->operations.find(id)->deployment.value();
  EXPECT_EQ(daemon.at(second).state, State::ready);
  EXPECT_EQ(daemon.at(second).model_name, "b");
  EXPECT_EQ(world.runtime.running_count(), 1U);
}

TEST_F(Operations, P11_WhenTheDeployFailsTheStopIsUndoneAndItIsSaid) {
  const auto set = plan_set();
  world.runtime.next.dies_after = 500ms;
  world.runtime.next.log = {"why it died"};
  const auto id = member(apply(set, stop_first()), "id");
  ASSERT_TRUE(daemon.loop->run_until([&] { return daemon.at(first).state == State::stopped; }));
  ASSERT_TRUE(daemon.loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  world.runtime.next = {};
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"undone", "done", "failed"}));
  EXPECT_EQ(daemon.at(first).state, State::ready);
  EXPECT_EQ(operation(id).at("failure").at("code").as_string(), "engine_died");
  EXPECT_EQ(operation(id).at("failure").at("last_lines").as_array().front().as_string(), "why it died");
}

TEST_F(Operations, P11_WhatCannotBeUndoneIsSaid) {
  const auto set = plan_set();
  world.runtime.next.dies_after = 500ms;
  const auto id = member(apply(set, stop_first()), "id");
  ASSERT_TRUE(daemon.loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  world.host.held_by_others = gib(50);  // somebody else is faster
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id).front(), "undo_failed");
  EXPECT_EQ(daemon.at(first).state, State::stopped);
  EXPECT_NE(daemon.service->operations.find(id)->steps.front().message.find("needs"), std::string::npos);
}

TEST_F(Operations, P11_ADeploymentThatIsStoppedWhileItStartsDoesNotKeepTheFirstFromComingBack) {
  const auto id = member(apply(plan_set(), stop_first()), "id");
  world.runtime.next.stop_takes = 90s;
  ASSERT_TRUE(daemon.loop->run_until([&] { return daemon.service->operations.find(id)->deployment.has_value(); }));
  const auto second = *daemon.service->operations.find(id)->deployment;
  daemon.expect_state(second, State::loading);
  const auto stopped = daemon.send("POST", path_of(second, "/stop"));
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id).front(), "undone");
  EXPECT_EQ(daemon.at(first).state, State::ready);
  EXPECT_EQ(daemon.at(second).state, State::stopped);
}

TEST_F(Operations, P11_MemoryThatSomebodyElseTakesEndsItWithinAMinute) {
  const auto set = plan_set();
  world.runtime.newest(first)->script.stop_takes = 1s;
  const auto id = member(apply(set, stop_first()), "id");
  daemon.loop->run_for(500ms);
  world.host.held_by_others = gib(50);
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"undo_failed", "failed", "waiting"}));
  EXPECT_EQ(operation(id).at("failure").at("code").as_string(), "does_not_fit");
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST_F(Operations, StopThatFailsEndsThePlanBeforeAnythingIsStarted) {
  world.runtime.newest(first)->script.survives_stop = true;
  const auto id = member(apply(plan_set(), stop_first()), "id");
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"failed", "waiting", "waiting"}));
  EXPECT_EQ(daemon.at(first).state, State::stopping);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

TEST_F(Operations, PlanThatWaitedForItsTurnIsCheckedAgain) {
  const auto set = plan_set();
  // Both have been accepted before either of them runs.
  const auto one = daemon.send("POST", "/api/v1/plans/" + set + "/" + stop_first() + "/apply");
  const auto two = daemon.send("POST", "/api/v1/plans/" + set + "/" + stop_first() + "/apply");
  ASSERT_TRUE(daemon.loop->run_until([&] { return one->has_value() && two->has_value(); }));
  ASSERT_EQ((*one)->status, 202);
  ASSERT_EQ((*two)->status, 202);
  expect_operation(member(**one, "id"), "succeeded");
  expect_operation(member(**two, "id"), "failed");
  EXPECT_EQ(operation(member(**two, "id")).at("failure").at("code").as_string(), "plan_changed");
  daemon.loop->run_for(3min);
  EXPECT_EQ(daemon.at(first).state, State::stopped);
  EXPECT_EQ(daemon.service->table.all().size(), 2U);
}

TEST_F(Operations, PlanIsNotCarriedOutWhenTheRequestFitsByNow) {
  const auto set = plan_set();
  world.host.held_by_others = gib(4);
  const auto response = apply(set, stop_first());
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "plan_changed");
  EXPECT_NE(member(response, "hint").find("deploy it"), std::string::npos);
  EXPECT_EQ(daemon.at(first).state, State::ready) << "nothing has to be stopped";
}

TEST_F(Operations, PlanThatDoesNotHelpAnyMoreIsRefusedWithTheNewPlans) {
  const auto set = plan_set();
  world.host.held_by_others = gib(55);
  const auto response = apply(set, stop_first());
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "plan_changed");
  EXPECT_NE(json_of(response).at("plans").at("plan_set").as_string(), set);
  EXPECT_EQ(daemon.at(first).state, State::ready);
}

TEST_F(Operations, PlanThatWasShownAsNotFittingCannotBeApplied) {
  const auto response = apply(plan_set(), "kv:q8_0");
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "does_not_fit");
}

/// Nothing was stopped, and nothing is going to be.
void expect_untouched(Daemon& daemon, DeploymentId first) {
  daemon.loop->run_for(1min);
  EXPECT_EQ(daemon.at(first).state, State::ready);
  EXPECT_EQ(daemon.world.runtime.newest(first)->stops, 0);
  EXPECT_EQ(daemon.world.runtime.engines().size(), 1U);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST_F(Operations, P11_NothingIsStoppedForANameThatAnotherDeploymentHas) {
  world.host.held_by_others = gib(30);
  const auto other = daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "other", "ctx_size": 512)");
  world.host.held_by_others = gib(40) - daemon.at(other).reserved();
  const auto response = apply(plan_set(R"("model": "/models/b.gguf", "name": "other")"), stop_first());
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "name_taken") << response.body;
  EXPECT_EQ(daemon.at(first).state, State::ready);
  EXPECT_TRUE(daemon.service->operations.all().empty());
}

TEST_F(Operations, P11_NothingIsStoppedForAPortThatAnotherProgramHas) {
  daemon.tcp_ports.taken.insert(8123);
  const auto response = apply(plan_set(R"("model": "/models/b.gguf", "port": 8123)"), stop_first());
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "port_taken") << response.body;
  expect_untouched(daemon, first);
}

TEST_F(Operations, P11_WhatCouldBeStartedIsCheckedAgainWhenThePlansTurnComes) {
  const auto set = plan_set(R"("model": "/models/b.gguf", "port": 8123)");
  auto turn = daemon.loop->run(daemon.service->admission.turns().take());
  const auto id = member(apply(set, stop_first()), "id");
  daemon.tcp_ports.taken.insert(8123);
  turn.release();
  expect_operation(id, "failed");
  EXPECT_EQ(operation(id).at("failure").at("code").as_string(), "port_taken");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"waiting", "waiting", "waiting"}));
  expect_untouched(daemon, first);
}

TEST_F(Operations, P11_TheNameAndPortOfWhatIsStoppedAreFree) {
  const auto& old = daemon.at(first);
  const auto members = fmt::format(R"("model": "/models/b.gguf", "name": "{}", "port": {})", old.name, old.port);
  const auto id = member(apply(plan_set(members), stop_first()), "id");
  expect_operation(id, "succeeded");
  const auto second = daemon.service->operations.find(id)->deployment.value();
  EXPECT_EQ(daemon.at(second).name, old.name);
  EXPECT_EQ(daemon.at(second).port, old.port);
}

TEST_F(Operations, ARefusedNameIsNotPlannedFor) {
  const auto response = daemon.request("POST", "/api/v1/plans", R"({"model": "/models/b.gguf", "name": "-x"})");
  EXPECT_EQ(member(response, "code"), "bad_field");
}

TEST_F(Operations, P12_AnOperationSaysWhosePlanItIsAndWhatSpeaksAgainstIt) {
  const auto set = plan_set();
  world.runtime.newest(first)->script.requests = 1;
  daemon.loop->run_for(10s);
  const auto response = apply(set, stop_first());
  ASSERT_EQ(response.status, 202) << response.body;
  EXPECT_EQ(member(response, "model"), "b");
  EXPECT_NE(member(response, "title").find("Stop a (busy)"), std::string::npos) << response.body;
  EXPECT_EQ(json_of(response).at("unsafe").at(0).as_string(), "a is busy") << "by now";
  expect_operation(member(response, "id"), "succeeded");
}

TEST_F(Operations, LatestMeansTheNewestSetThatHasThePlan) {
  plan_set();
  const auto response = apply("latest", stop_first());
  EXPECT_EQ(response.status, 202);
  expect_operation(member(response, "id"), "succeeded");
}

TEST_F(Operations, UnknownSetsPlansAndOperationsAreNotFound) {
  const auto set = plan_set();
  EXPECT_EQ(apply("999", stop_first()).status, 404);
  EXPECT_EQ(apply(set, "stop:999").status, 404);
  EXPECT_EQ(apply("latest", "stop:999").status, 404);
  EXPECT_EQ(daemon.request("GET", "/api/v1/plans/999").status, 404);
  EXPECT_EQ(daemon.request("GET", "/api/v1/plans/" + set).status, 200);
  const auto id = member(apply(set, stop_first()), "id");
  for (const auto& other : {id + "x", std::string{"x"}, std::string{"999"}, std::string{"-1"}}) {
    EXPECT_EQ(daemon.request("GET", "/api/v1/operations/" + other).status, 404) << other;
  }
}

TEST_F(Operations, AskingForPlansStartsAndReservesNothing) {
  const auto before = daemon.budget();
  const auto last = daemon.service->events.last_id();
  plan_set();
  EXPECT_EQ(daemon.budget(), before);
  EXPECT_EQ(daemon.service->events.last_id(), last);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST_F(Operations, FullDiskEndsAnOperationInsteadOfLeavingItRunning) {
  const auto set = plan_set();
  world.runtime.newest(first)->script.stop_takes = 1s;
  const auto id = member(apply(set, stop_first()), "id");
  daemon.loop->run_for(500ms);
  world.store.fail_writes = true;
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id).front(), "undo_failed");
  EXPECT_EQ(daemon.at(first).state, State::stopped);
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
  world.store.fail_writes = false;
  EXPECT_EQ(daemon.request("POST", path_of(first, "/start")).status, 202) << "the turn was given back";
  daemon.expect_state(first, State::ready);
}

TEST_F(Operations, FullDiskRefusesAPlanBeforeAnythingIsDone) {
  const auto set = plan_set();
  world.store.fail_writes = true;
  EXPECT_EQ(apply(set, stop_first()).status, 500);
  world.store.fail_writes = false;
  expect_untouched(daemon, first);
  EXPECT_TRUE(daemon.service->operations.all().empty());
}

TEST_F(Operations, HowOneEndedIsStoredWhenTheDiskHasRoomAgain) {
  const auto set = plan_set();
  const auto id = member(apply(set, stop_first()), "id");
  ASSERT_TRUE(daemon.loop->run_until([&] { return daemon.service->operations.find(id)->deployment.has_value(); }));
  world.store.fail_writes = true;
  expect_operation(id, "succeeded");
  world.store.fail_writes = false;
  daemon.loop->run_for(10s);
  EXPECT_NE(world.store.operations().at(0).document.find("succeeded"), std::string::npos);
}

TEST_F(Operations, OldOnesAreForgottenAndNumbersAreNotUsedAgain) {
  std::string id;
  for (int i = 0; i < 66; ++i) {
    auto turn = daemon.loop->run(daemon.service->admission.turns().take());
    id = member(apply(plan_set(), stop_first()), "id");
    world.host.held_by_others = gib(4);  // it fits by now: the plan has changed
    turn.release();
    expect_operation(id, "failed");
    world.host.held_by_others = gib(40);
  }
  EXPECT_EQ(id, "66");
  EXPECT_EQ(daemon.service->operations.all().size(), 64U);
  EXPECT_EQ(world.store.operations().size(), 64U);
}

TEST_F(Operations, DaemonThatStopsDuringAPlanStartsNothing) {
  world.runtime.newest(first)->script.stop_takes = 1min;
  apply(plan_set(), stop_first());
  daemon.loop->run_for(1s);
  EXPECT_TRUE(daemon.loop->stop());
  EXPECT_EQ(world.store.deployments().size(), 1U);
  EXPECT_EQ(daemon.at(first).state, State::stopping);
}

}  // namespace
}  // namespace dgxmm::testing
