// Plans that are cancelled, that meet somebody busy, or that wait for their turn (P11, P13).
#include "unit/app/support/daemon.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

EngineScript slow_engine() {
  EngineScript script;
  script.start_takes = 300ms;
  script.loading_takes = 2s;
  script.stop_takes = 1s;
  return script;
}

/// A host with room for one of the models, and one that has it.
class Cancelling : public ::testing::Test {
 protected:
  Cancelling() {
    world.host.held_by_others = gib(40);
    world.runtime.next = slow_engine();
    daemon = std::make_unique<Daemon>(world);
    first = daemon->deploy_ready();
    daemon->loop->run_for(10s);  // it is known to be idle by then
  }
  std::string plan_set() {
    return member(daemon->request("POST", "/api/v1/plans", R"({"model": "/models/b.gguf"})"), "plan_set");
  }
  std::string path(const std::string& set, const std::string& query = {}) {
    return fmt::format("/api/v1/plans/{}/stop:{}/apply{}", set, first.value, query);
  }
  std::string apply(const std::string& query = {}) {
    const auto response = daemon->request("POST", path(plan_set(), query));
    EXPECT_EQ(response.status, 202) << response.body;
    return member(response, "id");
  }
  ports::HttpResponse cancel(const std::string& id) {
    return daemon->request("POST", "/api/v1/operations/" + id + "/cancel");
  }
  const dto::Operation& operation(const std::string& id) { return *daemon->service->operations.find(id); }
  void expect_operation(const std::string& id, const std::string& state) {
    EXPECT_TRUE(daemon->loop->run_until([&] { return operation(id).state == state; })) << operation(id).state;
  }
  std::vector<std::string> steps(const std::string& id) {
    std::vector<std::string> result;
    for (const auto& step : operation(id).steps) result.push_back(step.state);
    return result;
  }
  bool has_event(const std::string& beginning) {
    return std::ranges::any_of(daemon->events(), [&](const auto& event) { return event.starts_with(beginning); });
  }
  FakeRuntime::Engine& engine() { return *world.runtime.newest(first); }

 public:
  World world;
  std::unique_ptr<Daemon> daemon;
  DeploymentId first;
};

TEST_F(Cancelling, P11_AtAnyMomentWhatWasDoneIsUndone) {
  std::set<std::vector<std::string>> seen;
  for (auto moment = 0ms; moment < 5s; moment += 100ms) {
    SCOPED_TRACE(moment.count());
    const auto id = apply();
    daemon->loop->run_for(moment);
    if (operation(id).state != "running") {
      EXPECT_EQ(operation(id).state, "succeeded");
      EXPECT_EQ(member(cancel(id), "code"), "operation_ended");
      break;
    }
    const auto answer = cancel(id);
    EXPECT_EQ(answer.status, 202) << answer.body;
    EXPECT_EQ(cancel(id).status, 202) << "once more changes nothing";
    expect_operation(id, "cancelled");
    seen.insert(steps(id));
    EXPECT_EQ(operation(id).failure->code, "cancelled");
    EXPECT_EQ(daemon->at(first).state, State::ready);
    for (const auto* other : daemon->service->table.all()) {
      if (other->id != first) EXPECT_TRUE(deployment::is_final(other->state)) << other->name;
    }
    EXPECT_EQ(world.runtime.running_count(), 1U);
    EXPECT_EQ(daemon->budget().committed, std::max(daemon->at(first).reserved(), slow_engine().holds.total()));
    EXPECT_TRUE(has_event("operation.cancelled: plan stop:"));
    EXPECT_EQ(daemon->service->trouble(), std::nullopt);
  }
  EXPECT_GE(seen.size(), 2U) << "before it was stopped, and while the new one loaded";
  EXPECT_EQ(member(cancel("99"), "code"), "operation_not_found");
}

TEST_F(Cancelling, P11_WhileItWaitsForItsTurnItLeavesTheQueueAndNothingWasDone) {
  auto turn = daemon->loop->run(daemon->service->admission.turns().take({.what = "somebody else"}));
  const auto id = apply();
  daemon->loop->run_for(1s);
  EXPECT_EQ(json_of(daemon->request("GET", "/api/v1/operations/" + id)).at("queue_place").as_int64(), 1);
  EXPECT_EQ(cancel(id).status, 202);
  expect_operation(id, "running");  // its undo, of nothing, waits for the turn as well
  turn->release();
  expect_operation(id, "cancelled");
  EXPECT_THAT(steps(id), ElementsAre("waiting", "waiting", "waiting"));
  EXPECT_EQ(engine().stops, 0);
}

TEST_F(Cancelling, P11_ADaemonThatIsKilledAfterwardsUndoesItAllTheSame) {
  for (const auto moment : {100ms, 1500ms, 3000ms}) {
    SCOPED_TRACE(moment.count());
    const auto id = apply();
    daemon->loop->run_for(moment);
    EXPECT_EQ(cancel(id).status, 202);
    daemon->kill();
    daemon = std::make_unique<Daemon>(world);
    expect_operation(id, "cancelled");
    EXPECT_EQ(daemon->at(first).state, State::ready);
    EXPECT_EQ(world.runtime.running_count(), 1U);
    daemon->loop->run_for(10s);
  }
}

TEST_F(Cancelling, P11_AVictimThatBecameBusySinceStopsThePlan) {
  const auto set = plan_set();
  engine().script.requests = 2;  // not noticed yet
  const auto id = member(daemon->request("POST", path(set)), "id");
  expect_operation(id, "failed");
  EXPECT_EQ(operation(id).failure->code, "busy");
  EXPECT_THAT(operation(id).failure->message, HasSubstr("has 2 requests in flight by now"));
  EXPECT_THAT(operation(id).failure->hint, HasSubstr("--even-if-busy"));
  EXPECT_THAT(steps(id), ElementsAre("failed", "waiting", "waiting"));
  EXPECT_EQ(daemon->at(first).state, State::ready);
  EXPECT_EQ(engine().stops, 0);
}

TEST_F(Cancelling, P11_EvenIfBusyItIsStopped) {
  const auto set = plan_set();
  engine().script.requests = 2;
  const auto id = member(daemon->request("POST", path(set, "?even_if_busy=1")), "id");
  expect_operation(id, "succeeded");
}

TEST_F(Cancelling, P11_APlanThatWasShownWithABusyVictimIsCarriedOutAsShown) {
  engine().script.requests = 2;
  daemon->loop->run_for(10s);
  const auto id = apply();
  ASSERT_FALSE(operation(id).unsafe.empty());
  expect_operation(id, "succeeded");
}

TEST_F(Cancelling, P13_TheUndoHasItsTurnBeforeThoseThatWaitAlready) {
  const auto id = apply();
  daemon->loop->run_for(500ms);
  // It would take what the first has to get back.
  const auto other = daemon->send("POST", "/api/v1/deployments", R"({"model": "/models/b.gguf", "name": "other"})");
  daemon->loop->run_for(100ms);
  EXPECT_EQ(cancel(id).status, 202);
  expect_operation(id, "cancelled");
  EXPECT_THAT(steps(id).front(), "undone");
  ASSERT_TRUE(daemon->loop->run_until([&] { return other->has_value(); }));
  EXPECT_EQ((*other)->status, 409);
}

/// Those that wait, by the API.
class Queueing : public Cancelling {
 protected:
  boost::json::value queue() { return json_of(daemon->request("GET", "/api/v1/queue")); }
};

TEST_F(Queueing, WhoWaitsIsShownInTheOrderOfTheTurnsAndCanBeTakenOut) {
  auto turn = daemon->loop->run(daemon->service->admission.turns().take({.what = "the test"}));
  const auto low = daemon->send("POST", "/api/v1/deployments", R"({"model": "/models/b.gguf", "name": "low"})");
  const auto high =
      daemon->send("POST", "/api/v1/deployments", R"({"model": "/models/b.gguf", "name": "high", "priority": 3})");
  const auto operation_id = apply();
  daemon->loop->run_for(1s);
  const auto shown = queue();
  EXPECT_EQ(shown.at("deciding").as_string(), "the test");
  const auto& waiting = shown.at("waiting").as_array();
  ASSERT_EQ(waiting.size(), 3U);
  EXPECT_EQ(waiting[0].at("what").as_string(), "deploy high");
  EXPECT_EQ(waiting[0].at("place").as_int64(), 1);
  EXPECT_EQ(waiting[1].at("what").as_string(), "deploy low");
  EXPECT_EQ(waiting[2].at("operation").as_string(), operation_id);

  const auto place = "/api/v1/queue/" + std::string{waiting[1].at("id").as_string()};
  EXPECT_EQ(daemon->request("DELETE", place).status, 204);
  ASSERT_TRUE(daemon->loop->run_until([&] { return low->has_value(); }));
  EXPECT_EQ((*low)->status, 409);
  EXPECT_EQ(member(**low, "code"), "cancelled");
  EXPECT_EQ(daemon->request("DELETE", place).status, 404);
  turn->release();
  ASSERT_TRUE(daemon->loop->run_until([&] { return high->has_value(); }));
  EXPECT_EQ((*high)->status, 409) << "does not fit";
}

TEST_F(Queueing, ARequestWhoseTurnDoesNotComeIsTurnedAwayAndHealthzSaysWhoHasIt) {
  auto turn = daemon->loop->run(daemon->service->admission.turns().take({.what = "the test"}));
  const auto waiting = daemon->send("POST", "/api/v1/deployments", R"({"model": "/models/b.gguf", "name": "new"})");
  daemon->loop->run_for(59min);
  EXPECT_EQ(daemon->request("GET", "/healthz").status, 200);
  daemon->loop->run_for(2min);
  ASSERT_TRUE(waiting->has_value());
  EXPECT_EQ((*waiting)->status, 503);
  EXPECT_EQ(member(**waiting, "code"), "queue_timeout");
  const auto health = daemon->request("GET", "/healthz");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(member(health, "detail"), HasSubstr("the admission queue does not move: the test has had the turn"));
  turn->release();
  EXPECT_EQ(daemon->request("GET", "/healthz").status, 200);
}

TEST_F(Queueing, StartsThatWaitForOthersToLoadHaveAPlaceAndAStopEndsTheWaiting) {
  world.host.held_by_others = gib(4);
  world.runtime.next.loading_takes = 1min;
  const auto a = daemon->deploy(R"("model": "/models/a.gguf", "name": "one")");
  daemon->loop->run_for(1s);
  const auto b = daemon->deploy(R"("model": "/models/a.gguf", "name": "two")");
  const auto c = daemon->deploy(R"("model": "/models/a.gguf", "name": "three", "priority": 7)");
  daemon->loop->run_for(1s);
  const auto place_of = [&](DeploymentId id) { return json_of(daemon->request("GET", path_of(id))).at("queue_place"); };
  EXPECT_TRUE(place_of(a).is_null());
  EXPECT_EQ(place_of(c), 1);
  EXPECT_EQ(place_of(b), 2);
  EXPECT_EQ(daemon->request("POST", path_of(c, "/stop")).status, 200);
  EXPECT_EQ(place_of(b), 1);
  EXPECT_EQ(queue().at("starting").as_string(), "start one");
  daemon->expect_state(b, State::ready);
  EXPECT_EQ(daemon->at(c).state, State::stopped);
}

TEST_F(Queueing, AStartThatIsTakenOutFailsAndReservesNothingAnyMore) {
  world.host.held_by_others = gib(4);
  world.runtime.next.loading_takes = 1min;
  const auto a = daemon->deploy(R"("model": "/models/a.gguf", "name": "one")");
  daemon->loop->run_for(1s);
  const auto committed = daemon->budget().committed;
  const auto b = daemon->deploy(R"("model": "/models/a.gguf", "name": "two")");
  daemon->loop->run_for(1s);
  EXPECT_GT(daemon->budget().committed, committed);
  const auto id = std::string{queue().at("waiting").at(0).at("id").as_string()};
  EXPECT_EQ(daemon->request("DELETE", "/api/v1/queue/" + id).status, 204);
  daemon->expect_state(b, State::failed);
  EXPECT_EQ(daemon->at(b).failure->code, "cancelled");
  EXPECT_EQ(daemon->budget().committed, committed);
  daemon->expect_state(a, State::ready);
}

TEST_F(Queueing, AStartAgainThatDoesNotFitComesWithPlansThatCanBeCarriedOut) {
  ASSERT_EQ(daemon->request("POST", path_of(first, "/stop")).status, 200);
  const auto second = daemon->deploy_ready(R"("model": "/models/b.gguf", "name": "second")");
  daemon->loop->run_for(10s);
  const auto answer = daemon->request("POST", path_of(first, "/start"));
  ASSERT_EQ(answer.status, 409) << answer.body;
  EXPECT_THAT(member(answer, "detail"), HasSubstr("starting again: Needs "));
  const auto set = std::string{json_of(answer).at("plans").at("plan_set").as_string()};
  const auto plan = fmt::format("/api/v1/plans/{}/stop:{}/apply", set, second.value);
  const auto id = member(daemon->request("POST", plan), "id");
  expect_operation(id, "succeeded");
  EXPECT_EQ(operation(id).deployment, first);
  EXPECT_EQ(daemon->at(first).state, State::ready);
  EXPECT_EQ(daemon->at(second).state, State::stopped);
  EXPECT_EQ(daemon->service->table.all().size(), 2U) << "it is the same deployment";
}

/// The driver gives memory back when it pleases.
class Release : public Cancelling {
 protected:
  /// What it holds is on the GPU but for a little.
  void hold_on_gpu() { engine().script.holds = {.anon = gib(1), .kernel = mib(8), .shmem = Bytes{0}, .gpu = gib(9)}; }
  std::chrono::milliseconds now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(world.clock.steady().time_since_epoch());
  }
};

TEST_F(Release, C14_ThePlanGoesOnOnlyWhenTheMemoryIsMeasurablyBack) {
  world.host.held_by_others = gib(30);
  hold_on_gpu();
  world.host.held_by_others = gib(38);
  daemon->loop->run_for(5s);
  const auto id = apply();
  ASSERT_TRUE(daemon->loop->run_until([&] { return operation(id).steps.front().state == "running"; }));
  engine().script.driver_keeps = {{60s, gib(9)}, {180s, gib(8)}, {230s, gib(7)}};
  ASSERT_TRUE(daemon->loop->run_until([&] { return engine().ended.has_value(); }));
  const auto ended = *engine().ended;
  EXPECT_TRUE(daemon->loop->run_until([&] { return operation(id).steps.front().state == "done"; }));
  const auto waited = world.clock.steady() - ended;
  EXPECT_GE(waited, 230s);
  EXPECT_LE(waited, 230s + 100ms) << "noticed at once";
  EXPECT_EQ(world.runtime.engines().size(), 1U) << "nothing was started before";
  expect_operation(id, "succeeded");
}

TEST_F(Release, C14_MemoryThatDoesNotComeBackEndsThePlanAndIsSaid) {
  hold_on_gpu();
  world.host.held_by_others = gib(38);
  daemon->loop->run_for(5s);
  const auto id = apply();
  ASSERT_TRUE(daemon->loop->run_until([&] { return operation(id).steps.front().state == "running"; }));
  engine().script.driver_keeps = {{1h, gib(9)}};
  expect_operation(id, "failed");
  EXPECT_EQ(operation(id).failure->code, "memory_not_released");
  EXPECT_THAT(operation(id).failure->message, HasSubstr("of the 10.0 GiB that it held, 1.0 GiB have come back"));
  EXPECT_THAT(operation(id).failure->message, HasSubstr("no process of it is left"));
  EXPECT_EQ(daemon->at(first).state, State::stopping) << "until then it counts";
  EXPECT_EQ(world.runtime.engines().size(), 1U);
}

TEST_F(Release, C14_AProcessThatStillHoldsMemoryOnTheGpuIsNamed) {
  hold_on_gpu();
  const auto pid = engine().instance.pid;
  world.gpu.reading.processes->push_back({.pid = pid, .start_time_ticks = 1, .used = gib(9)});
  const auto answer = daemon->request("POST", path_of(first, "/stop"));
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(member(answer, "code"), "memory_not_released");
  EXPECT_THAT(member(answer, "detail"), HasSubstr(fmt::format("process {} still holds 9.0 GiB on the GPU", pid)));
  world.gpu.reading.processes->clear();
  EXPECT_EQ(daemon->request("POST", path_of(first, "/stop")).status, 200) << "once more, when it has gone";
}

TEST_F(Release, WhatOtherDeploymentsTakeMeanwhileIsNotTakenForMemoryThatIsStillHeld) {
  world.host.held_by_others = gib(4);
  hold_on_gpu();
  const auto other = daemon->deploy(R"("model": "/models/b.gguf", "name": "other")");
  ASSERT_TRUE(daemon->loop->run_until([&] { return world.runtime.newest(other) != nullptr; }));
  auto& growing = *world.runtime.newest(other);
  growing.script.holds.anon = gib(1);
  daemon->loop->run_for(5s);
  const auto stopped = daemon->send("POST", path_of(first, "/stop"));
  daemon->loop->run_for(500ms);
  growing.script.holds.anon = gib(9);
  daemon->loop->run_for(10s);
  ASSERT_TRUE(stopped->has_value());
  EXPECT_EQ((*stopped)->status, 200);
}

}  // namespace
}  // namespace dgxmm::testing
