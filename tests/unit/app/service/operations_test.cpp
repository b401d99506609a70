#include "app/dto/scenario.h"
#include "unit/app/support/daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
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

TEST_F(Operations, P11_WhatCannotBeUndoneIsShownUntilSomebodyActs) {
  const auto shown = [&](Daemon& now) {
    const auto failure = now.at(first).failure;
    const auto warnings = now.service->sampler.refresh()->warnings;
    const bool warned = std::ranges::any_of(
        warnings, [](const auto& warning) { return warning.message.starts_with("a: stopped for plan stop:"); });
    EXPECT_EQ(warned, failure.has_value());
    const auto health = now.request("GET", "/healthz");
    EXPECT_EQ(health.status, 200) << "the daemon itself is well";
    EXPECT_EQ(member(health, "detail").starts_with("a: stopped for plan stop:"), warned) << health.body;
    return failure && failure->code == dto::kNotBroughtBack;
  };
  const auto take_away = [&] {
    world.host.held_by_others = gib(40);
    const auto set = plan_set();
    world.runtime.next.dies_after = 500ms;
    const auto before = world.runtime.engines().size();
    const auto id = member(apply(set, stop_first()), "id");
    ASSERT_TRUE(daemon.loop->run_until([&] { return world.runtime.engines().size() == before + 1; }));
    world.host.held_by_others = gib(50);
    world.runtime.next = {};
    expect_operation(id, "failed");
  };
  EXPECT_FALSE(shown(daemon));
  take_away();
  EXPECT_TRUE(shown(daemon));
  EXPECT_EQ(daemon.at(first).failure->hint, "when there is room: `dgxmm start a`");
  EXPECT_EQ(daemon.request("POST", path_of(first, "/start")).status, 409);
  EXPECT_TRUE(shown(daemon)) << "it is still away";
  world.host.held_by_others = gib(40);
  EXPECT_EQ(daemon.request("POST", path_of(first, "/start")).status, 202);
  EXPECT_FALSE(shown(daemon));
  daemon.expect_state(first, State::ready);
  take_away();
  EXPECT_EQ(daemon.request("POST", path_of(first, "/stop")).status, 200);
  EXPECT_FALSE(shown(daemon)) << "it may stay away";
  daemon.kill();
  Daemon next{world};
  EXPECT_FALSE(shown(next));
}

TEST_F(Operations, P11_WhatCannotBeUndoneIsShownAfterARestartToo) {
  const auto set = plan_set();
  world.runtime.next.dies_after = 500ms;
  const auto id = member(apply(set, stop_first()), "id");
  ASSERT_TRUE(daemon.loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  world.host.held_by_others = gib(50);
  expect_operation(id, "failed");
  daemon.kill();
  Daemon next{world};
  ASSERT_TRUE(next.at(first).failure);
  EXPECT_EQ(next.at(first).failure->code, dto::kNotBroughtBack);
}

// --- only as it was shown

TEST_F(Operations, P11_P12_AReasonThatWasNotShownIsAChange) {
  daemon.loop->run_for(10s);  // it is known to be idle by then
  const auto set = plan_set();
  const auto change = [&](const std::string& body) {
    EXPECT_EQ(daemon.request("PATCH", path_of(first), body).status, 200);
  };
  for (const auto& [worse, better, reason] :
       {std::tuple{R"({"pinned": true})", R"({"pinned": false})", "a is pinned"},
        std::tuple{R"({"priority": 5})", R"({"priority": 0})", "a has the higher priority"}}) {
    change(worse);
    const auto refused = apply(set, stop_first());
    EXPECT_EQ(refused.status, 409) << refused.body;
    EXPECT_EQ(member(refused, "code"), "plan_changed");
    EXPECT_NE(refused.body.find(reason), std::string::npos) << "the new plans say it: " << refused.body;
    EXPECT_EQ(daemon.at(first).state, State::ready);
    change(better);
  }
  world.runtime.newest(first)->script.requests = 1;
  daemon.loop->run_for(10s);
  const auto refused = apply(set, stop_first());
  EXPECT_EQ(member(refused, "code"), "plan_changed");
  EXPECT_TRUE(member(refused, "detail").starts_with("a is busy by now (--even-if-busy carries it out): Needs"))
      << refused.body;
  EXPECT_EQ(world.runtime.newest(first)->stops, 0);
}

TEST_F(Operations, P11_OneThatHasChangedByItsTurnComesWithTheNewPlans) {
  daemon.loop->run_for(10s);
  const auto set = plan_set();
  auto turn = daemon.loop->run(daemon.service->admission.turns().take({.what = "the test"}));
  const auto id = member(apply(set, stop_first()), "id");
  EXPECT_EQ(daemon.request("PATCH", path_of(first), R"({"pinned": true})").status, 200);
  turn->release();
  expect_operation(id, "failed");
  EXPECT_EQ(operation(id).at("failure").at("code").as_string(), "plan_changed");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"waiting", "waiting", "waiting"}));
  const std::string now{operation(id).at("new_plan_set").as_string()};
  const auto plans = daemon.request("GET", "/api/v1/plans/" + now);
  EXPECT_EQ(plans.status, 200) << plans.body;
  EXPECT_NE(plans.body.find("a is pinned"), std::string::npos) << plans.body;
  EXPECT_EQ(apply(now, stop_first()).status, 202) << "as it is shown by now";
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
  auto turn = daemon.loop->run(daemon.service->admission.turns().take({.what = "the test"}));
  const auto id = member(apply(set, stop_first()), "id");
  daemon.tcp_ports.taken.insert(8123);
  turn->release();
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
  world.runtime.newest(first)->script.requests = 1;
  daemon.loop->run_for(10s);
  const auto response = apply(plan_set(), stop_first());
  ASSERT_EQ(response.status, 202) << response.body;
  EXPECT_EQ(member(response, "model"), "b");
  EXPECT_NE(member(response, "title").find("Stop a (busy)"), std::string::npos) << response.body;
  EXPECT_EQ(json_of(response).at("unsafe").at(0).as_string(), "a is busy");
  expect_operation(member(response, "id"), "succeeded");
}

TEST_F(Operations, LatestMeansTheNewestSetThatHasThePlan) {
  daemon.loop->run_for(10s);
  plan_set();
  plan_set();
  const auto response = apply("latest", stop_first());
  EXPECT_EQ(response.status, 202);
  expect_operation(member(response, "id"), "succeeded");
}

TEST_F(Operations, P11_LatestIsRefusedWhenSeveralRequestsHaveThePlan) {
  daemon.loop->run_for(10s);
  const auto mine = plan_set();
  const auto yours = plan_set(R"("model": "/models/b.gguf", "name": "yours")");
  const auto refused = apply("latest", stop_first());
  EXPECT_EQ(refused.status, 409) << refused.body;
  EXPECT_EQ(member(refused, "code"), "plan_ambiguous");
  for (const auto& set : {mine, yours}) {
    EXPECT_NE(member(refused, "detail").find(set + "/" + stop_first() + " for b"), std::string::npos) << refused.body;
  }
  EXPECT_EQ(daemon.at(first).state, State::ready);
  EXPECT_EQ(apply(mine, stop_first()).status, 202);
}

TEST_F(Operations, P12_LatestIsRefusedWhenThePlanIsUnsafe) {
  EXPECT_EQ(daemon.request("PATCH", path_of(first), R"({"pinned": true})").status, 200);
  daemon.loop->run_for(10s);
  const auto set = plan_set();
  const auto refused = apply("latest", stop_first());
  EXPECT_EQ(member(refused, "code"), "plan_unsafe") << refused.body;
  EXPECT_NE(member(refused, "detail").find("a is pinned"), std::string::npos) << refused.body;
  EXPECT_EQ(member(refused, "hint"), "`dgxmm apply " + set + "/" + stop_first() + "` carries it out all the same");
  EXPECT_EQ(daemon.at(first).state, State::ready);
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
    auto turn = daemon.loop->run(daemon.service->admission.turns().take({.what = "the test"}));
    id = member(apply(plan_set(), stop_first()), "id");
    world.host.held_by_others = gib(4);  // it fits by now: the plan has changed
    turn->release();
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

// --- plans of several stops, of other settings and of other quantizations

/// A host with room for two of the models, and two that have it: only both together make room for a large one.
class SeveralStops : public Operations {
 protected:
  SeveralStops() {
    world.host.held_by_others = gib(30);
    second = daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "second", "priority": -1)");
    const auto free = daemon.budget().free_for_new;
    // Leaves two GiB less than both of them hold.
    world.host.held_by_others += free - gib(2);
    large = fmt::format(R"("model": "/models/b.gguf", "ctx_size": {})", 32768);
  }
  std::string both() { return fmt::format("stop:{}+{}", first.value, second.value); }

 public:
  DeploymentId second;
  std::string large;
};

TEST_F(SeveralStops, P7_P11_AllAreStoppedBeforeTheDeploy) {
  const auto set = plan_set(large);
  const auto id = member(apply(set, both()), "id");
  expect_operation(id, "succeeded");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"done", "done", "done", "done"}));
  EXPECT_EQ(daemon.at(first).state, State::stopped);
  EXPECT_EQ(daemon.at(second).state, State::stopped);
  EXPECT_EQ(world.runtime.running_count(), 1U);
}

TEST_F(SeveralStops, P11_AllComeBackWithTheirConfigurationAndPriorityWhenTheDeployFails) {
  const auto before = daemon.at(second);
  const auto set = plan_set(large);
  world.runtime.next.dies_after = 500ms;
  const auto id = member(apply(set, both()), "id");
  ASSERT_TRUE(daemon.loop->run_until([&] { return world.runtime.engines().size() == 3; }));
  world.runtime.next = {};
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id), (std::vector<std::string>{"undone", "undone", "done", "failed"}));
  EXPECT_EQ(daemon.at(first).state, State::ready);
  EXPECT_EQ(daemon.at(second).state, State::ready);
  EXPECT_EQ(daemon.at(second).priority, -1);
  EXPECT_EQ(daemon.at(second).config, before.config);
  EXPECT_EQ(daemon.at(second).port, before.port);
}

// Undone in reverse it would be the second that gets the memory which is left.
TEST_F(SeveralStops, P11_TheMoreImportantOneComesBackFirst) {
  const auto set = plan_set(large);
  world.runtime.next.dies_after = 500ms;
  const auto id = member(apply(set, both()), "id");
  ASSERT_TRUE(daemon.loop->run_until([&] { return world.runtime.engines().size() == 3; }));
  world.runtime.next = {};
  world.host.held_by_others = gib(52) - daemon.at(first).reserved() - gib(1);
  expect_operation(id, "failed");
  EXPECT_EQ(daemon.at(first).state, State::ready);
  EXPECT_EQ(daemon.at(second).state, State::stopped);
  EXPECT_EQ(steps(id), (std::vector<std::string>{"undone", "undo_failed", "done", "failed"}));
}

TEST_F(Operations, P4_P11_AMixIsStartedWithAllOfItsSettings) {
  const auto shown =
      daemon.request("POST", "/api/v1/plans", R"({"model": "/models/b.gguf", "ctx_size": 131072, "parallel": 8})");
  const auto plans = json_of(shown);
  const auto mix = std::ranges::find_if(plans.at("plans").as_array(), [](const auto& plan) {
    return plan.at("kind").as_string() == "mix" && plan.at("fits").as_bool();
  });
  ASSERT_NE(mix, plans.at("plans").as_array().end()) << shown.body;
  const auto id = member(apply(member(shown, "plan_set"), std::string{mix->at("id").as_string()}), "id");
  expect_operation(id, "succeeded");
  const auto deployed = daemon.service->operations.find(id)->deployment.value();
  const auto& config = std::get<engine::LlamaCppConfig>(daemon.at(deployed).config);
  EXPECT_EQ(config.ctx_size, mix->at("config").at("ctx_size").as_int64());
  EXPECT_EQ(config.parallel, mix->at("config").at("parallel").as_int64());
  EXPECT_EQ(config.cache_type_k, engine::CacheType::q8_0);
  EXPECT_LT(config.ctx_size, 131072);
  EXPECT_LT(config.parallel, 8);
  EXPECT_EQ(daemon.at(first).state, State::ready) << "nothing is stopped";
}

/// A smaller quantization of b in the catalog.
void add_smaller_quantization(World& world) {
  auto& models = world.models.models;
  models["/models/b.gguf"].base_model = "b/32x4096";
  models["/models/b.gguf"].quantization = "Q8_0";
  models["/models/b.gguf"].fingerprint.digest = "b-q8";
  auto small = small_model("/models/b-q2.gguf");
  small.name = "b-q2";
  small.base_model = "b/32x4096";
  small.quantization = "Q2_K";
  small.fingerprint.digest = "b-q2";
  small.weights.files = small.weights.tensors = gib(1);
  small.files.front().size = gib(1);
  models["/models/b-q2.gguf"] = small;
  for (const auto* path : {"/models/b.gguf", "/models/b-q2.gguf"}) {
    world.models.catalog.models.push_back({.name = models[path].name,
                                           .path = path,
                                           .format = model::Format::gguf,
                                           .size = models[path].weights.files,
                                           .architecture = {},
                                           .quantization = models[path].quantization,
                                           .base_model = models[path].base_model,
                                           .problem = {}});
  }
}

class Quantizations : public ::testing::Test {
 public:
  World world;
  std::optional<Daemon> daemon;
  Quantizations() {
    add_smaller_quantization(world);
    daemon.emplace(world);
    world.host.held_by_others = gib(52) - gib(4);
  }
};

TEST_F(Quantizations, P4_P11_ThePlanStartsTheOtherFileUnderTheSameName) {
  const auto refused = daemon->request("POST", "/api/v1/deployments",
                                       R"({"model": "/models/b.gguf", "name": "chat", "ctx_size": 4096})");
  ASSERT_EQ(refused.status, 409) << refused.body;
  const auto plans = json_of(refused).at("plans");
  const auto& quant = *std::ranges::find_if(plans.at("plans").as_array(),
                                            [](const auto& plan) { return plan.at("kind").as_string() == "quant"; });
  EXPECT_EQ(quant.at("id").as_string(), "quant:b-q2");
  EXPECT_EQ(quant.at("model").as_string(), "/models/b-q2.gguf");
  EXPECT_TRUE(quant.at("fits").as_bool());
  EXPECT_EQ(quant.at("costs").at(0).as_string(), "quality: Q2_K instead of Q8_0");
  const std::string set{plans.at("plan_set").as_string()};
  const auto applied = daemon->request("POST", "/api/v1/plans/" + set + "/quant:b-q2/apply");
  ASSERT_EQ(applied.status, 202) << applied.body;
  const auto& operations = daemon->service->operations;
  const auto id = member(applied, "id");
  ASSERT_TRUE(daemon->loop->run_until([&] { return operations.find(id)->state == "succeeded"; }))
      << operations.find(id)->state;
  EXPECT_EQ(operations.find(id)->steps.back().what, "start b-q2");
  const auto& deployed = daemon->at(operations.find(id)->deployment.value());
  EXPECT_EQ(deployed.model_path, "/models/b-q2.gguf");
  EXPECT_EQ(deployed.name, "chat");
  EXPECT_EQ(world.runtime.running_count(), 1U);
}

TEST_F(Quantizations, P4_TheLargestThatFitsIsFoundAmongMany) {
  auto& models = world.models.models;
  models["/models/b.gguf"].weights.files = gib(30);
  world.models.catalog.models[0].size = gib(30);
  // By name, those that come first are larger than what was asked for, or too large.
  for (int i = 0; i < 60; ++i) {
    const auto path = fmt::format("/models/b-{:02}.gguf", i);
    auto other = small_model(path);
    other.base_model = "b/32x4096";
    other.fingerprint.digest = path;
    other.weights.files = other.weights.tensors = mib(60 * 512) - mib(256) * (i - 40);
    models[path] = other;
    world.models.catalog.models.push_back({.name = other.name,
                                           .path = path,
                                           .format = model::Format::gguf,
                                           .size = other.weights.files,
                                           .architecture = {},
                                           .quantization = "Q",
                                           .base_model = other.base_model,
                                           .problem = {}});
  }
  world.host.held_by_others = gib(52) - gib(29);
  daemon->kill();
  daemon.emplace(world);
  const auto body = R"({"model": "/models/b.gguf", "ctx_size": 4096, "cache_type_k": "q4_0", "cache_type_v": "q4_0"})";
  for (const auto* target : {"/api/v1/plans", "/api/v1/deployments"}) {
    auto plans = json_of(daemon->request("POST", target, body));
    if (plans.as_object().contains("plans") && plans.at("plans").is_object()) plans = plans.at("plans");
    const auto quant = std::ranges::find_if(plans.at("plans").as_array(),
                                            [](const auto& plan) { return plan.at("kind").as_string() == "quant"; });
    ASSERT_NE(quant, plans.at("plans").as_array().end()) << plans;
    EXPECT_TRUE(quant->at("fits").as_bool()) << *quant;
    EXPECT_LT(quant->at("left_bytes").as_int64(), mib(256).count()) << "the next larger one would not fit: " << *quant;
  }
}

TEST_F(Quantizations, P4_FitShowsLargerOnesToo) {
  world.host.held_by_others = gib(20);
  const auto fit = daemon->request("POST", "/api/v1/fit", R"({"model": "/models/b-q2.gguf", "ctx_size": 4096})");
  const auto others = json_of(fit).at("reach").at("quantizations").as_array();
  ASSERT_EQ(others.size(), 1U) << fit.body;
  EXPECT_EQ(others[0].at("quantization").as_string(), "Q8_0");
}

TEST_F(Quantizations, P4_FitNamesItAsThePlanThatHelps) {
  const auto fit = daemon->request("POST", "/api/v1/fit", R"({"model": "/models/b.gguf", "ctx_size": 4096})");
  EXPECT_EQ(member(fit, "verdict"), "fits_after") << fit.body;
  EXPECT_EQ(json_of(fit).at("after").at("kind").as_string(), "quant") << fit.body;
}

/// The plans in words, without what an export masks.
std::vector<std::string> figures(const boost::json::value& plans) {
  std::vector<std::string> result;
  for (const auto& plan : plans.at("plans").as_array()) {
    result.push_back(fmt::format("{} {} {}", std::string{plan.at("id").as_string()}, plan.at("needed_bytes").as_int64(),
                                 plan.at("left_bytes").as_int64()));
  }
  return result;
}

TEST_F(Quantizations, P0_AnExportedScenarioHasThePlansOfThisHost) {
  world.host.held_by_others = gib(20);
  daemon->deploy_ready(R"("model": "/models/a.gguf", "name": "secret")");
  world.host.held_by_others = gib(40);
  const auto body = R"({"model": "/models/b.gguf", "ctx_size": 65536, "name": "hidden"})";
  const auto plans = json_of(daemon->request("POST", "/api/v1/plans", body));
  const auto exported = daemon->request("POST", "/api/v1/scenario", body);
  ASSERT_EQ(exported.status, 200) << exported.body;
  for (const auto* masked : {"/models", "secret", "hidden"}) {
    EXPECT_EQ(exported.body.find(masked), std::string::npos) << masked;
  }
  const auto scenario = dto::read_scenario(exported.body, [](const std::string&) -> Result<model::ModelDescription> {
    return fail("model_not_found", "all are described");
  });
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto replayed = planner::plans_of(*scenario, *scenario->request);
  ASSERT_TRUE(replayed) << replayed.error().message;
  std::vector<std::string> figures_replayed;
  for (const auto& plan : replayed->plans) {
    figures_replayed.push_back(fmt::format("{} {} {}", plan.id, plan.needed.count(), plan.left.count()));
  }
  EXPECT_EQ(figures_replayed, figures(plans));
  EXPECT_GT(figures_replayed.size(), 4U);
  const auto host = daemon->request("GET", "/api/v1/scenario");
  EXPECT_EQ(host.status, 200);
  EXPECT_EQ(json_of(host).as_object().if_contains("request"), nullptr);
}

TEST_F(Quantizations, P0_AnExportHasTheProjectorAndTheTimesOfItsModels) {
  world.models.projectors["/models/eyes.gguf"] = {
      .path = "/models/eyes.gguf", .file = gib(1), .tensors = gib(1), .fingerprint = {.digest = "eyes"}};
  world.host.held_by_others = gib(20);
  const auto seen = daemon->deploy_ready(R"("model": "/models/b.gguf", "mmproj": "/models/eyes.gguf")");
  world.host.held_by_others = gib(40);
  const auto body = R"({"model": "/models/b.gguf", "ctx_size": 65536, "mmproj": "/models/eyes.gguf"})";
  const auto exported = daemon->request("POST", "/api/v1/scenario", body);
  ASSERT_EQ(exported.status, 200) << exported.body;
  EXPECT_EQ(exported.body.find("/models"), std::string::npos);
  const auto scenario = dto::read_scenario(exported.body, [](const std::string&) -> Result<model::ModelDescription> {
    return fail("model_not_found", "all are described");
  });
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto replayed = planner::plans_of(*scenario, *scenario->request).value();
  const auto plans = json_of(daemon->request("POST", "/api/v1/plans", body));
  EXPECT_EQ(replayed.needed.count(), plans.at("needed_bytes").as_int64());
  ASSERT_FALSE(replayed.plans.empty());
  for (const auto& plan : replayed.plans) {
    if (plan.kind != planner::PlanKind::kv) continue;
    EXPECT_TRUE(plan.takes.measured);
    EXPECT_EQ(plan.takes.value, daemon->at(seen).load_took);
  }
}

TEST_F(Operations, TimesThatWereMeasuredAreShownAndSurviveTheDaemon) {
  ASSERT_EQ(daemon.request("POST", path_of(first, "/stop")).status, 200);
  const auto durations = json_of(daemon.request("GET", "/api/v1/calibration")).at("durations").as_array();
  ASSERT_EQ(durations.size(), 2U);
  EXPECT_EQ(durations[0].at("action").as_string(), "load");
  EXPECT_EQ(durations[0].at("model").as_string(), "a");
  EXPECT_EQ(durations[1].at("action").as_string(), "stop");
  EXPECT_EQ(durations[1].at("took_s").as_int64(), 1);
  EXPECT_EQ(world.store.durations().size(), 2U);
}

TEST_F(Operations, P0_TheLoadTimeThatWasMeasuredIsWhatAPlanTakes) {
  const auto set = plan_set(R"("model": "/models/a.gguf")");
  const auto plans = json_of(daemon.request("GET", "/api/v1/plans/" + set));
  const auto loading = daemon.at(first).load_took.value().count();
  EXPECT_GE(loading, 3) << "as the engine is told to take";
  EXPECT_LE(loading, 5);
  bool stops = false;
  for (const auto& plan : plans.at("plans").as_array()) {
    const bool is_stop = plan.at("kind").as_string() == "stop";
    stops = stops || is_stop;
    EXPECT_EQ(plan.at("takes_measured").as_bool(), !is_stop) << "how long stopping takes was not measured";
    if (is_stop) {
      EXPECT_GT(plan.at("takes_s").as_int64(), loading);
    } else {
      EXPECT_EQ(plan.at("takes_s").as_int64(), loading);
    }
  }
  EXPECT_TRUE(stops);
}

}  // namespace
}  // namespace dgxmm::testing
