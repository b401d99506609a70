#include "unit/app/support/daemon.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

// The daemon ends while it carries out a plan, and the next one ends what it had begun.

EngineScript slow_engine() {
  EngineScript script;
  script.start_takes = 300ms;
  script.start_returns_after = 300ms;
  script.loading_takes = 1s;
  script.stop_takes = 1s;
  return script;
}

/// A host with room for one model, one that serves, and a plan that stops it for another.
class Interrupted : public ::testing::Test {
 protected:
  Interrupted() {
    world.host.held_by_others = gib(40);
    world.runtime.next = slow_engine();
    daemon = std::make_unique<Daemon>(world);
    first = daemon->deploy_ready();
  }
  void apply() {
    const auto plans = daemon->request("POST", "/api/v1/plans", R"({"model": "/models/b.gguf"})");
    const auto path = "/api/v1/plans/" + member(plans, "plan_set") + "/stop:" + std::to_string(first.value) + "/apply";
    EXPECT_EQ(daemon->request("POST", path).status, 202);
  }
  enum class End { killed, in_order };
  void restart(End end = End::killed) {
    if (end == End::killed) daemon->kill();
    daemon.reset();
    daemon = std::make_unique<Daemon>(world);
  }
  const dto::Operation& operation() { return *daemon->service->operations.find("1"); }
  void expect_operation(const std::string& state) {
    EXPECT_TRUE(daemon->loop->run_until([&] { return operation().state == state; })) << "it is " << operation().state;
  }
  bool has_event(const std::string& beginning) {
    return std::ranges::any_of(daemon->events(), [&](const auto& event) { return event.starts_with(beginning); });
  }

 public:
  World world;
  std::unique_ptr<Daemon> daemon;
  DeploymentId first;
};

TEST_F(Interrupted, P11_WhatWasBeingStoppedServesAgain) {
  apply();
  daemon->loop->run_for(500ms);
  ASSERT_EQ(daemon->at(first).state, State::stopping);
  restart();
  EXPECT_EQ(operation().state, "running");
  expect_operation("failed");
  EXPECT_EQ(operation().failure.value().code, "interrupted");
  EXPECT_EQ(operation().steps.front().state, "undone");
  EXPECT_EQ(daemon->at(first).state, State::ready);
  EXPECT_TRUE(has_event("operation.failed: plan stop:1 failed: dgxmm was ended"));
}

TEST_F(Interrupted, P11_ADeploymentThatWasStartedForItAndServesMakesItSucceed) {
  apply();
  ASSERT_TRUE(daemon->loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  daemon->loop->run_for(500ms);
  restart();
  expect_operation("succeeded");
  EXPECT_EQ(daemon->at(first).state, State::stopped);
  EXPECT_EQ(daemon->at(*operation().deployment).state, State::ready);
  EXPECT_EQ(operation().steps.back().state, "done");
}

TEST_F(Interrupted, P11_ADeploymentThatDiedMeanwhileGivesWayToTheFirst) {
  apply();
  ASSERT_TRUE(daemon->loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  daemon->loop->run_for(500ms);
  daemon->kill();
  world.runtime.end(world.runtime.engines().back()->instance.pid, {.exit_code = 1, .signal = {}, .evidence = {}});
  daemon = std::make_unique<Daemon>(world);
  expect_operation("failed");
  EXPECT_EQ(operation().failure.value().code, "engine_died");
  EXPECT_EQ(daemon->at(first).state, State::ready);
}

TEST_F(Interrupted, P11_WhatCannotBeUndoneIsNamedWithTheWayToDoIt) {
  apply();
  daemon->loop->run_for(500ms);
  daemon->kill();
  world.host.held_by_others = gib(52);
  daemon = std::make_unique<Daemon>(world);
  expect_operation("failed");
  EXPECT_EQ(operation().steps.front().state, "undo_failed");
  EXPECT_EQ(operation().failure.value().message,
            "dgxmm was ended while it carried out the plan; stopped for it and not running again: a");
  EXPECT_NE(operation().failure.value().hint.find("`dgxmm start a`"), std::string::npos);
  EXPECT_TRUE(has_event("operation.failed: plan stop:1 failed: dgxmm was ended"));
  EXPECT_EQ(daemon->at(first).state, State::stopped);
  EXPECT_EQ(daemon->budget().committed, Bytes{0});
}

TEST_F(Interrupted, OneThatStillWaitedForItsTurnStopsNothing) {
  auto turn = daemon->loop->run(daemon->service->admission.turns().take({.what = "the test"}));
  apply();
  daemon->kill();
  turn->release();
  daemon = std::make_unique<Daemon>(world);
  expect_operation("failed");
  daemon->loop->run_for(1min);
  EXPECT_EQ(daemon->at(first).state, State::ready);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
  EXPECT_EQ(operation().steps.front().state, "waiting");
}

TEST_F(Interrupted, OperationsKeepTheirNumbersAndEndOnlyOnce) {
  apply();
  daemon->loop->run_for(500ms);
  restart();
  expect_operation("failed");
  const auto engines = world.runtime.engines().size();
  restart(End::in_order);
  daemon->loop->run_for(1min);
  EXPECT_EQ(operation().state, "failed");
  EXPECT_EQ(world.runtime.engines().size(), engines);
  apply();
  EXPECT_EQ(daemon->service->operations.all().back()->id, "2");
}

TEST(InterruptedPlan, RowThatCannotBeReadIsNamedAndStopsTheStart) {
  World world;
  world.store.add_operation(R"({"plan": 3})");
  const auto error = error_at_start(world);
  EXPECT_EQ(error.code, "bad_state");
  EXPECT_NE(error.message.find("operation 1 "), std::string::npos);
}

/// The daemon is ended at every moment of a plan, whose new deployment may serve or die.
struct Life {
  std::chrono::milliseconds step;
  bool in_order;
  bool new_one_dies;
};

class EndedAnywhere : public ::testing::TestWithParam<Life> {};

TEST_P(EndedAnywhere, P11_OneOfTheTwoServesAndNothingIsLostDoubledOrUncounted) {
  const auto [step, in_order, new_one_dies] = GetParam();
  std::set<std::string> seen;
  for (auto moment = 0ms; moment < 7s; moment += step) {
    SCOPED_TRACE(moment.count());
    World world;
    world.host.held_by_others = gib(40);
    world.runtime.next = slow_engine();
    auto before = std::make_unique<Daemon>(world);
    const auto first = before->deploy_ready();
    before->loop->run_for(1min);
    const auto plans = before->request("POST", "/api/v1/plans", R"({"model": "/models/b.gguf"})");
    const auto path = "/api/v1/plans/" + member(plans, "plan_set") + "/stop:" + std::to_string(first.value) + "/apply";
    if (new_one_dies) world.runtime.next.dies_after = 700ms;
    before->send("POST", path);
    for (auto passed = 0ms; passed < moment; passed += 10ms) {
      before->loop->run_for(10ms);
      if (world.runtime.engines().size() == 2) world.runtime.next = slow_engine();
    }
    if (!in_order) before->kill();
    before.reset();
    world.runtime.next = slow_engine();

    Daemon after{world};
    after.loop->run_for(5min);
    const auto operation = after.service->operations.find("1");
    if (!operation) {  // it was not accepted yet
      EXPECT_EQ(moment, 0ms);
      continue;
    }
    const bool succeeded = operation->state == "succeeded";
    EXPECT_EQ(operation->state, succeeded ? "succeeded" : "failed");
    const auto serving = succeeded ? operation->deployment.value() : first;
    for (const auto* deployment : after.service->table.all()) {
      if (deployment->id == serving) {
        EXPECT_EQ(deployment->state, State::ready);
      } else {
        EXPECT_TRUE(deployment::is_final(deployment->state)) << deployment->name;
      }
    }
    EXPECT_LE(after.service->table.all().size(), 2U);
    EXPECT_EQ(world.runtime.running_count(), 1U);
    EXPECT_EQ(after.budget().committed, std::max(after.at(serving).reserved(), slow_engine().holds.total()));
    EXPECT_EQ(after.service->trouble(), std::nullopt);
    seen.insert(operation->state);
  }
  EXPECT_TRUE(seen.contains("failed"));
  EXPECT_NE(seen.contains("succeeded"), new_one_dies);
}

INSTANTIATE_TEST_SUITE_P(Every, EndedAnywhere,
                         ::testing::Values(Life{50ms, false, false}, Life{70ms, true, false}, Life{50ms, false, true},
                                           Life{70ms, true, true}),
                         [](const auto& life) {
                           return std::string{life.param.in_order ? "InOrder" : "Killed"} +
                                  (life.param.new_one_dies ? "NewOneDies" : "NewOneServes");
                         });

}  // namespace
}  // namespace dgxmm::testing
