// Plans that put deployments to sleep (P5, P11).
#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Calls = EngineScript::Calls;

/// A deployment that can sleep, and a request that its sleep makes room for.
class SleepPlans : public ::testing::Test {
 protected:
  SleepPlans() {
    auto model = small_model("/models/hf");
    model.format = model::Format::safetensors;
    world.models.models["/models/hf"] = model;
    daemon = std::make_unique<Daemon>(world);
    sleeper = daemon->deploy_ready(
        R"("model": "/models/hf", "context": 4096, "sequences": 4, "sleep_mode": true, "name": "sleeper")");
    daemon->loop->run_for(10s);  // it is known to be idle by then
    const auto needed =
        Bytes{json_of(daemon->request("POST", "/api/v1/plans", kRequest)).at("needed_bytes").as_int64()};
    // Others hold as much as leaves one GiB too little.
    for (int i = 0; i < 3; ++i) world.host.held_by_others += daemon->budget().free_for_new - needed + gib(1);
  }

  boost::json::value plans() { return json_of(daemon->request("POST", "/api/v1/plans", kRequest)); }
  std::string plan_id() { return "sleep:" + std::to_string(sleeper.value); }
  std::string apply() {
    const auto set = std::string{plans().at("plan_set").as_string()};
    const auto response = daemon->request("POST", "/api/v1/plans/" + set + "/" + plan_id() + "/apply");
    EXPECT_EQ(response.status, 202) << response.body;
    return member(response, "id");
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
  FakeRuntime::Engine& engine() { return *world.runtime.newest(sleeper); }

  static constexpr const char* kRequest = R"({"model": "/models/b.gguf", "ctx_size": 32768, "cache_type_k": "q4_0",
      "cache_type_v": "q4_0", "name": "new"})";

 public:
  World world;
  std::unique_ptr<Daemon> daemon;
  DeploymentId sleeper;
};

TEST_F(SleepPlans, P5_APlanNamesTheLevelAndWhatWakingTakes) {
  const auto shown = plans();
  const auto& all = shown.at("plans").as_array();
  const auto plan = std::ranges::find_if(all, [&](const auto& p) { return p.at("id").as_string() == plan_id(); });
  ASSERT_NE(plan, all.end()) << shown;
  EXPECT_EQ(plan->at("sleeps").at(0).at("id").as_int64(), sleeper.value);
  EXPECT_EQ(plan->at("sleeps").at(0).at("level").as_int64(), 2);
  EXPECT_THAT(std::string{plan->at("title").as_string()}, HasSubstr("Put sleeper (idle"));
}

TEST_F(SleepPlans, P5_OneThatWasNotStartedForItIsNotPutToSleep) {
  daemon->request("POST", path_of(sleeper, "/stop"));
  sleeper = daemon->deploy_ready(R"("model": "/models/hf", "context": 4096, "sequences": 4)");
  for (const auto& plan : plans().at("plans").as_array()) EXPECT_NE(plan.at("kind").as_string(), "sleep");
}

TEST_F(SleepPlans, P11_ItSleepsThenTheMemoryIsWaitedForThenTheDeploy) {
  const auto id = apply();
  expect_operation(id, "succeeded");
  EXPECT_THAT(steps(id), ElementsAre("done", "done", "done"));
  EXPECT_EQ(operation(id).steps[0].what, "put sleeper to sleep (level 2)");
  EXPECT_EQ(daemon->at(sleeper).state, State::sleeping);
  EXPECT_EQ(daemon->at(sleeper).sleep_level, 2);
  EXPECT_EQ(daemon->at(operation(id).deployment.value()).state, State::ready);
}

TEST_F(SleepPlans, P11_ItIsWokenAgainWhenTheDeployFails) {
  world.runtime.next.dies_after = 500ms;
  const auto id = apply();
  ASSERT_TRUE(daemon->loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  world.host.held_by_others -= gib(8);  // the peak of waking up fits
  expect_operation(id, "failed");
  EXPECT_THAT(steps(id), ElementsAre("undone", "done", "failed"));
  EXPECT_EQ(daemon->at(sleeper).state, State::ready);
}

TEST_F(SleepPlans, P11_OneThatDiesOfBeingPutToSleepIsStartedAgain) {
  engine().script.sleep_calls = Calls::deadly;
  const auto id = apply();
  expect_operation(id, "failed");
  EXPECT_EQ(steps(id).front(), "undone") << operation(id).steps[0].message;
  EXPECT_EQ(daemon->at(sleeper).state, State::ready);
}

TEST_F(SleepPlans, P11_OneThatCannotBeWokenIsSaid) {
  world.runtime.next.dies_after = 500ms;
  const auto id = apply();
  ASSERT_TRUE(daemon->loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  world.host.held_by_others += gib(10);
  expect_operation(id, "failed");
  EXPECT_THAT(steps(id), ElementsAre("undo_failed", "done", "failed"));
  EXPECT_EQ(daemon->at(sleeper).state, State::sleeping);
  EXPECT_THAT(operation(id).failure->message, HasSubstr("put to sleep for it and not awake again: sleeper"));
  EXPECT_THAT(operation(id).failure->hint, HasSubstr("`dgxmm wake sleeper`"));
  ASSERT_TRUE(daemon->at(sleeper).failure);
  EXPECT_EQ(daemon->at(sleeper).failure->code, dto::kNotBroughtBack);
  EXPECT_EQ(daemon->at(sleeper).failure->hint, "when there is room: `dgxmm wake sleeper`");
  world.host.held_by_others -= gib(18);
  EXPECT_EQ(daemon->request("POST", path_of(sleeper, "/wake")).status, 202);
  EXPECT_FALSE(daemon->at(sleeper).failure);
}

/// A request that only stopping the sleeper, which sleeps at level 2, makes room for.
class StoppedSleepers : public SleepPlans {
 protected:
  StoppedSleepers() {
    world.runtime.newest(sleeper)->script.holds_asleep = {
        .anon = gib(3), .kernel = mib(8), .shmem = Bytes{0}, .gpu = Bytes{0}};
    EXPECT_EQ(daemon->request("POST", path_of(sleeper, "/sleep?level=2")).status, 200);
    leave_free(gib(19));
  }
  void leave_free(Bytes free) {
    for (int i = 0; i < 3; ++i) world.host.held_by_others += daemon->budget().free_for_new - free;
  }
  /// Of stopping the sleeper.
  boost::json::value plan() {
    set = json_of(daemon->request("POST", "/api/v1/plans", kLarge)).as_object();
    const auto& all = set.at("plans").as_array();
    const auto id = "stop:" + std::to_string(sleeper.value);
    const auto found = std::ranges::find_if(all, [&](const auto& p) { return p.at("id").as_string() == id; });
    if (found == all.end()) throw std::runtime_error(boost::json::serialize(set));
    return *found;
  }
  std::string apply_stop() {
    const std::string id{plan().at("id").as_string()};
    const std::string of{set.at("plan_set").as_string()};
    const auto response = daemon->request("POST", "/api/v1/plans/" + of + "/" + id + "/apply");
    EXPECT_EQ(response.status, 202) << response.body;
    return member(response, "id");
  }

  static constexpr const char* kLarge = R"({"model": "/models/b.gguf", "ctx_size": 114688, "parallel": 14,
      "name": "large"})";  // about 20.5 GiB
  boost::json::object set;
};

TEST_F(StoppedSleepers, P11_ItIsStartedAndPutToSleepAgainWhenTheDeployFails) {
  EXPECT_GT(plan().at("needed_bytes").as_int64(), gib(19).count());
  EXPECT_THAT(boost::json::serialize(plan().at("unsafe")), Not(HasSubstr("brought back")));
  world.runtime.next.dies_after = 500ms;
  const auto id = apply_stop();
  ASSERT_TRUE(daemon->loop->run_until([&] { return world.runtime.engines().size() == 2; }));
  world.runtime.next = {};
  world.runtime.next.holds_asleep = {.anon = gib(3), .kernel = mib(8), .shmem = Bytes{0}, .gpu = Bytes{0}};
  expect_operation(id, "failed");
  EXPECT_THAT(steps(id), ElementsAre("undone", "done", "failed"));
  EXPECT_EQ(operation(id).steps[0].message, "started again and asleep again");
  EXPECT_EQ(daemon->at(sleeper).state, State::sleeping);
  EXPECT_EQ(daemon->at(sleeper).sleep_level, 2);
  EXPECT_FALSE(daemon->at(sleeper).failure);
}

TEST_F(StoppedSleepers, P11_ADaemonThatIsKilledMeanwhilePutsItToSleepAllTheSame) {
  for (const auto moment : {100ms, 1000ms, 2000ms, 4000ms, 5000ms, 8000ms}) {
    SCOPED_TRACE(moment.count());
    world.runtime.next.dies_after = 500ms;
    const auto engines = world.runtime.engines().size();
    const auto id = apply_stop();
    ASSERT_TRUE(daemon->loop->run_until([&] { return world.runtime.engines().size() == engines + 1; }));
    world.runtime.next = {};
    world.runtime.next.holds_asleep = {.anon = gib(3), .kernel = mib(8), .shmem = Bytes{0}, .gpu = Bytes{0}};
    daemon->loop->run_for(moment);
    daemon->kill();
    daemon = std::make_unique<Daemon>(world);
    expect_operation(id, "failed");
    daemon->expect_state(sleeper, State::sleeping);
    EXPECT_EQ(daemon->at(sleeper).sleep_level, 2);
    daemon->loop->run_for(10s);
    leave_free(gib(19));
  }
}

TEST_F(StoppedSleepers, P12_OneThatCouldNotStartAgainIsUnsafe) {
  leave_free(daemon->at(sleeper).reserved() - gib(4));
  set = json_of(daemon->request("POST", "/api/v1/plans", kRequest)).as_object();
  for (const auto& p : set.at("plans").as_array()) {
    if (p.at("kind").as_string() != "stop") continue;
    EXPECT_THAT(boost::json::serialize(p.at("unsafe")), HasSubstr("could not be brought back"));
  }
}

TEST_F(SleepPlans, P11_ASleeperThatWillNotSleepEndsThePlan) {
  engine().script.sleep_calls = Calls::refused;
  const auto id = apply();
  expect_operation(id, "failed");
  EXPECT_THAT(steps(id), ElementsAre("failed", "waiting", "waiting"));
  EXPECT_EQ(daemon->at(sleeper).state, State::ready);
  EXPECT_EQ(operation(id).failure->code, "sleep_failed");
}

TEST_F(SleepPlans, P11_AVictimThatBecomesBusyStopsThePlan) {
  const auto set = std::string{plans().at("plan_set").as_string()};
  engine().script.requests = 1;  // not noticed yet
  const auto id = member(daemon->request("POST", "/api/v1/plans/" + set + "/" + plan_id() + "/apply"), "id");
  expect_operation(id, "failed");
  EXPECT_EQ(operation(id).failure->code, "busy");
  EXPECT_EQ(daemon->at(sleeper).state, State::ready);
  EXPECT_TRUE(engine().sleep_calls.empty());
}

TEST_F(SleepPlans, P11_ADaemonThatIsKilledWhileItSleepsWakesItAfterARestart) {
  world.runtime.next.loading_takes = 1min;
  const auto id = apply();
  ASSERT_TRUE(daemon->loop->run_until([&] { return daemon->at(sleeper).state == State::sleeping; }));
  daemon->kill();
  daemon = std::make_unique<Daemon>(world);
  world.host.held_by_others -= gib(8);
  ASSERT_TRUE(daemon->loop->run_until([&] { return operation(id).state != "running"; }));
  // Either it had got as far as the deployment, which then went on, or the sleep was undone.
  if (operation(id).state == "failed") {
    EXPECT_EQ(steps(id).front(), "undone");
    EXPECT_EQ(daemon->at(sleeper).state, State::ready);
  } else {
    EXPECT_EQ(daemon->at(sleeper).state, State::sleeping);
  }
}

}  // namespace
}  // namespace dgxmm::testing
