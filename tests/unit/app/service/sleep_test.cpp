#include "core/memory/sleep.h"

#include "core/engine/request.h"
#include "unit/app/support/daemon.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Calls = EngineScript::Calls;

constexpr const char* kSleeper = R"("model": "/models/hf", "context": 4096, "sequences": 4, "sleep_mode": true)";

/// A host with vLLM and a model that may sleep.
struct SleepWorld : World {
  SleepWorld() {
    auto model = small_model("/models/hf");
    model.format = model::Format::safetensors;
    models.models["/models/hf"] = model;
  }
};

class Sleeping : public ::testing::Test {
 protected:
  ports::HttpResponse sleep(DeploymentId id, const std::string& query = {}) {
    return daemon->request("POST", path_of(id, "/sleep" + query));
  }
  ports::HttpResponse wake(DeploymentId id) { return daemon->request("POST", path_of(id, "/wake")); }
  DeploymentId deploy_asleep(const std::string& query = {}) {
    const auto id = daemon->deploy_ready(kSleeper);
    const auto answer = sleep(id, query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return id;
  }
  FakeRuntime::Engine& engine(DeploymentId id) { return *world.runtime.newest(id); }
  void restart() {
    daemon->kill();
    daemon = std::make_unique<Daemon>(world);
  }

  SleepWorld world;
  std::unique_ptr<Daemon> daemon = std::make_unique<Daemon>(world);
};

// --- falling asleep

TEST_F(Sleeping, B2_AsleepItCountsWhatIsMeasuredAndNoMore) {
  const auto id = daemon->deploy_ready(kSleeper);
  EXPECT_EQ(daemon->budget().committed, daemon->at(id).reserved());
  const auto answer = sleep(id);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(member(answer, "state"), "sleeping");
  EXPECT_EQ(json_of(answer).at("sleep_level"), 1);
  EXPECT_EQ(daemon->budget().committed, gib(5) + mib(8));
  EXPECT_THAT(engine(id).sleep_calls, ElementsAre("/sleep?level=1&mode=wait"));
}

TEST_F(Sleeping, P10_WhatItHeldAndWhatItGaveBackIsRemembered) {
  const auto id = deploy_asleep();
  EXPECT_EQ(daemon->at(id).asleep, gib(5) + mib(8));
  EXPECT_EQ(daemon->at(id).sleep_freed, gib(1));
  restart();
  const auto& deployment = daemon->at(id);
  EXPECT_EQ(deployment.asleep, gib(5) + mib(8));
  EXPECT_EQ(deployment.sleep_freed, gib(1));
  EXPECT_EQ(daemon->service->estimates.measured_asleep(deployment.fingerprint, deployment.config, 1), gib(5) + mib(8));
  EXPECT_EQ(daemon->service->estimates.measured_asleep(deployment.fingerprint, deployment.config, 2), std::nullopt);
}

TEST_F(Sleeping, WhereTheGpuIsNotMeasuredTheAllocatorsOwnWordsCount) {
  world.gpu.reading.processes.reset();
  const auto id = daemon->deploy_ready(kSleeper);
  world.logs.files[daemon->service->supervisor.identity().log_path(id)].emplace_back(
      "CuMemAllocator: sleep freed 5.00 GiB memory in total, of which 4.00 GiB is backed up in CPU and the rest 1.00 "
      "GiB is discarded directly.");
  ASSERT_EQ(sleep(id).status, 200);
  EXPECT_EQ(daemon->at(id).sleep_freed, gib(1));
  EXPECT_EQ(daemon->at(id).asleep, std::nullopt) << "a part of it is not known";
  EXPECT_EQ(daemon->service->estimates.measured_asleep(daemon->at(id).fingerprint, daemon->at(id).config, 1),
            std::nullopt);
}

TEST_F(Sleeping, OneThatWasNotStartedForItIsRefused) {
  const auto vllm = daemon->deploy_ready(R"("model": "/models/hf", "context": 4096, "sequences": 4)");
  const auto llamacpp = daemon->deploy_ready();
  for (const auto id : {vllm, llamacpp}) {
    const auto answer = sleep(id);
    EXPECT_EQ(answer.status, 409);
    EXPECT_EQ(member(answer, "code"), "cannot_sleep");
    EXPECT_EQ(daemon->at(id).state, State::ready);
  }
  EXPECT_THAT(member(sleep(vllm), "hint"), HasSubstr("--sleep-mode"));
  EXPECT_TRUE(engine(vllm).sleep_calls.empty());
}

TEST_F(Sleeping, RequestsInFlightRefuseItUnlessItIsForced) {
  const auto id = daemon->deploy_ready(kSleeper);
  engine(id).script.requests = 2;
  const auto refused = sleep(id);
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(member(refused, "code"), "busy");
  EXPECT_THAT(member(refused, "detail"), HasSubstr("has 2 requests in flight"));
  EXPECT_TRUE(engine(id).sleep_calls.empty());
  EXPECT_EQ(sleep(id, "?force=1").status, 200);
  EXPECT_THAT(engine(id).sleep_calls, ElementsAre("/sleep?level=1&mode=wait")) << "they are finished, not aborted";
}

TEST_F(Sleeping, AnotherLevelThanTwoIsRefused) {
  const auto id = daemon->deploy_ready(kSleeper);
  for (const auto* level : {"0", "3", "", "x", "11"}) {
    const auto answer = sleep(id, std::string{"?level="} + level);
    EXPECT_EQ(answer.status, 400) << level;
    EXPECT_EQ(member(answer, "where"), "level");
  }
}

TEST_F(Sleeping, AskedTwiceItSleepsOnceAndAnotherLevelIsAnError) {
  const auto id = deploy_asleep();
  EXPECT_EQ(sleep(id).status, 200);
  EXPECT_EQ(sleep(id, "?level=2").status, 409);
  EXPECT_EQ(engine(id).sleep_calls.size(), 1U);
}

TEST_F(Sleeping, OneThatWillNotSleepStillServesAndSaysWhy) {
  const auto id = daemon->deploy_ready(kSleeper);
  engine(id).script.sleep_calls = Calls::refused;
  const auto answer = sleep(id);
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(member(answer, "code"), "sleep_failed");
  EXPECT_THAT(member(answer, "detail"), HasSubstr("status 500"));
  EXPECT_EQ(daemon->at(id).state, State::ready);
  EXPECT_EQ(daemon->budget().committed, daemon->at(id).reserved());
  EXPECT_THAT(daemon->events(), Contains(HasSubstr("deployment.sleep_failed")));
}

TEST_F(Sleeping, RequestsThatDoNotEndBreakItOffAndMayGoOn) {
  const auto id = daemon->deploy_ready(kSleeper);
  engine(id).script.requests = 1;
  engine(id).script.sleep_calls = Calls::never_answered;
  const auto answer = sleep(id, "?force=1");
  EXPECT_EQ(member(answer, "code"), "sleep_failed");
  EXPECT_THAT(member(answer, "detail"), HasSubstr("would not sleep within"));
  EXPECT_EQ(engine(id).sleep_calls.back(), "/wake_up?tags=scheduling");
  EXPECT_EQ(daemon->at(id).state, State::ready);
}

TEST_F(Sleeping, OneThatDiesOfItHasFailed) {
  const auto id = daemon->deploy_ready(kSleeper);
  engine(id).script.sleep_calls = Calls::deadly;
  EXPECT_EQ(sleep(id).status, 409);
  daemon->expect_state(id, State::failed);
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("while falling asleep"));
  EXPECT_EQ(daemon->budget().committed, Bytes{0});
}

TEST_F(Sleeping, OneThatDiesAsleepHasFailed) {
  const auto id = deploy_asleep();
  world.runtime.end(engine(id).instance.pid, {.exit_code = 1, .signal = {}, .evidence = {}});
  daemon->expect_state(id, State::failed);
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("while it slept"));
}

TEST_F(Sleeping, B2_OneThatNoLongerAnswersAsleepIsUnknownAndCountedInFull) {
  const auto id = deploy_asleep();
  engine(id).script.answers = EngineScript::Answers::never;
  daemon->expect_state(id, State::unknown);
  EXPECT_EQ(daemon->budget().committed, daemon->at(id).reserved());
  engine(id).script.answers = EngineScript::Answers::normally;
  daemon->expect_state(id, State::sleeping);
}

TEST_F(Sleeping, ItCanBeStopped) {
  const auto id = deploy_asleep();
  EXPECT_EQ(daemon->request("POST", path_of(id, "/stop")).status, 200);
  EXPECT_EQ(daemon->at(id).state, State::stopped);
  EXPECT_EQ(daemon->budget().committed, Bytes{0});
}

// --- by somebody else, and after a restart

TEST_F(Sleeping, ByAnotherCallIsNoticed) {
  const auto id = daemon->deploy_ready(kSleeper);
  engine(id).asleep = {"weights", "kv_cache"};
  engine(id).sleep_level = 2;
  daemon->expect_state(id, State::sleeping);
  EXPECT_EQ(daemon->at(id).sleep_level, 2);
  engine(id).asleep.clear();
  engine(id).sleep_level = 0;
  daemon->expect_state(id, State::ready);
  EXPECT_EQ(daemon->at(id).sleep_level, std::nullopt);
  EXPECT_THAT(daemon->events(), Contains(HasSubstr("not dgxmm's")));
}

TEST_F(Sleeping, FoundAsleepAfterARestartItSleepsOn) {
  const auto id = deploy_asleep("?level=2");
  restart();
  daemon->expect_state(id, State::sleeping);
  EXPECT_EQ(daemon->at(id).sleep_level, 2);
  EXPECT_EQ(daemon->budget().committed, gib(5) + mib(8));
  EXPECT_EQ(engine(id).sleep_calls.size(), 1U) << "nothing is called for it";
}

TEST_F(Sleeping, KilledInTheMiddleOfAWakeItIsFoundAsItIs) {
  const auto id = deploy_asleep();
  engine(id).script.wake_takes = 30s;
  ASSERT_EQ(wake(id).status, 202);
  daemon->loop->run_for(5s);
  EXPECT_EQ(daemon->at(id).state, State::loading);
  restart();
  daemon->expect_state(id, State::sleeping);
  EXPECT_EQ(wake(id).status, 202);
  daemon->expect_state(id, State::ready);
}

// --- waking up

TEST_F(Sleeping, WakesPartByPartAndServes) {
  const auto id = deploy_asleep();
  const auto answer = wake(id);
  ASSERT_EQ(answer.status, 202) << answer.body;
  EXPECT_EQ(member(answer, "state"), "loading");
  daemon->expect_state(id, State::ready);
  EXPECT_THAT(engine(id).sleep_calls,
              ElementsAre("/sleep?level=1&mode=wait", "/wake_up?tags=weights", "/wake_up?tags=kv_cache"));
  EXPECT_EQ(daemon->at(id).sleep_level, std::nullopt);
}

TEST_F(Sleeping, FromLevel2TheWeightsAreReadAgainBeforeTheCacheIsMapped) {
  const auto id = deploy_asleep("?level=2");
  ASSERT_EQ(wake(id).status, 202);
  daemon->expect_state(id, State::ready);
  EXPECT_THAT(engine(id).sleep_calls, ElementsAre("/sleep?level=2&mode=wait", "/wake_up?tags=weights",
                                                  "/collective_rpc", "/wake_up?tags=kv_cache"));
}

TEST_F(Sleeping, P13_FromTheFirstMomentOfItsWakeItsPeakIsCounted) {
  world.runtime.next.holds_asleep.anon = gib(20);  // copies of its weights that take far more than they
  const auto id = deploy_asleep();
  const auto usual = daemon->at(id).estimate.total;
  const auto peak = memory::wake_peak(daemon->at(id).estimate, 1, gib(20) + mib(8));
  ASSERT_GT(peak, usual);
  ASSERT_EQ(wake(id).status, 202);
  EXPECT_EQ(daemon->budget().committed, peak);
  daemon->expect_state(id, State::ready);
  EXPECT_EQ(daemon->at(id).reserved(), usual) << "what it holds is measured by then";
}

TEST_F(Sleeping, E5_AWakeThatDoesNotFitIsRefusedOnItsPeakAndStaysAsleep) {
  const auto id = deploy_asleep();
  const auto& deployment = daemon->at(id);
  const auto needed = memory::needed_to_wake(deployment.estimate, 1, gib(5) + mib(8), gib(5) + mib(8));
  world.host.held_by_others += daemon->budget().free_for_new - needed + Bytes{1};
  const auto answer = wake(id);
  EXPECT_EQ(answer.status, 409) << answer.body;
  EXPECT_EQ(member(answer, "code"), "does_not_fit");
  EXPECT_THAT(member(answer, "detail"), HasSubstr("waking up"));
  EXPECT_EQ(daemon->at(id).state, State::sleeping);
  EXPECT_EQ(engine(id).sleep_calls.size(), 1U);
  world.host.held_by_others -= Bytes{1};
  EXPECT_EQ(wake(id).status, 202) << "to the byte";
}

TEST_F(Sleeping, E5_WhatWakingUpNeedsAndWhetherThatIsFreeIsShownBeforeItIsAskedFor) {
  const auto awake = daemon->deploy_ready(kSleeper);
  const auto shown = [&](DeploymentId id) {
    daemon->budget();
    return json_of(daemon->request("GET", path_of(id)));
  };
  EXPECT_TRUE(shown(awake).at("wake_needs_bytes").is_null());
  EXPECT_TRUE(shown(awake).at("can_wake_now").is_null());

  const auto slept = json_of(sleep(awake));
  const auto needed = memory::needed_to_wake(daemon->at(awake).estimate, 1, gib(5) + mib(8), gib(5) + mib(8));
  EXPECT_EQ(slept.at("wake_needs_bytes").as_int64(), needed.count());
  EXPECT_TRUE(slept.at("can_wake_now").as_bool());

  world.host.held_by_others += daemon->budget().free_for_new - needed;
  EXPECT_TRUE(shown(awake).at("can_wake_now").as_bool()) << "to the byte";
  world.host.held_by_others += Bytes{1};
  EXPECT_FALSE(shown(awake).at("can_wake_now").as_bool());
  EXPECT_EQ(shown(awake).at("wake_needs_bytes").as_int64(), needed.count());
  EXPECT_EQ(wake(awake).status, 409) << "as it was shown";
  world.host.held_by_others -= Bytes{1};

  world.gpu.reading.no_starts = Error{"gpu_failed", "a GPU of this host has failed", "", ""};
  EXPECT_FALSE(shown(awake).at("can_wake_now").as_bool());
  world.gpu.reading.no_starts.reset();
  world.host.broken = true;
  EXPECT_TRUE(shown(awake).at("can_wake_now").is_null()) << "not known";
}

TEST_F(Sleeping, E5_OneThatFallsAsleepAndCouldNotBeWokenAgainSaysSo) {
  const auto id = daemon->deploy_ready(kSleeper);
  world.host.held_by_others = world.host.mem_total - world.runtime.held() - gib(1);
  const auto slept = json_of(sleep(id));
  EXPECT_EQ(slept.at("state").as_string(), "sleeping");
  EXPECT_FALSE(slept.at("can_wake_now").as_bool());
}

TEST_F(Sleeping, AWakeThatDoesNotFitNeverComesWithTheWordThatItFits) {
  const auto id = deploy_asleep();
  // Another reserves more than it holds and than everybody else does: what is external counts as nothing (B3).
  daemon->deploy_ready(R"("model": "/models/a.gguf", "name": "other", "cache_ram_mib": 16384)");
  const auto free = [&] { return daemon->budget().free_for_new; };
  const auto needed = memory::needed_to_wake(daemon->at(id).estimate, 1, gib(5) + mib(8), gib(5) + mib(8));
  const auto spare = free() - needed + Bytes{1};
  ASSERT_GT(spare, Bytes{});
  world.host.mem_total -= spare;
  world.host.held_by_others = gib(1);
  ASSERT_EQ(daemon->budget().external, Bytes{});
  ASSERT_EQ(free(), needed - Bytes{1});
  const auto answer = wake(id);
  ASSERT_EQ(answer.status, 409) << answer.body;
  const auto plans = json_of(answer).at("plans");
  EXPECT_FALSE(plans.at("fits_now").as_bool());
  EXPECT_EQ(plans.at("shortfall_bytes").as_int64(), 1);
  EXPECT_EQ(plans.at("free_for_new_bytes").as_int64(), free().count());
  EXPECT_THAT(member(answer, "detail"), HasSubstr("too little"));
  for (const auto& plan : plans.at("plans").as_array()) {
    EXPECT_EQ(plan.at("id").as_string(), "stop:2") << "it does not give way to itself";
  }
}

TEST_F(Sleeping, AWakeThatDoesNotFitComesWithPlansThatCanBeCarriedOut) {
  const auto id = deploy_asleep();
  const auto other = daemon->deploy_ready(R"("model": "/models/a.gguf", "name": "other", "cache_ram_mib": 16384)");
  engine(other).script.holds.anon = daemon->at(other).reserved();
  world.host.held_by_others += daemon->budget().free_for_new - mib(512);
  const auto answer = wake(id);
  ASSERT_EQ(answer.status, 409) << answer.body;
  const auto plans = json_of(answer).at("plans");
  bool stops_other = false;
  for (const auto& plan : plans.at("plans").as_array()) {
    const auto plan_id = std::string{plan.at("id").as_string()};
    EXPECT_NE(plan_id, "stop:" + std::to_string(id.value));
    EXPECT_TRUE(plan_id.starts_with("stop:") || plan_id.starts_with("sleep:")) << plan_id;
    stops_other = stops_other || plan_id == "stop:" + std::to_string(other.value);
  }
  EXPECT_TRUE(stops_other);

  const auto plan =
      fmt::format("/api/v1/plans/{}/stop:{}/apply", plans.at("plan_set").as_string().c_str(), other.value);
  const auto operation = member(daemon->request("POST", plan), "id");
  const auto& operations = daemon->service->operations;
  ASSERT_TRUE(daemon->loop->run_until([&] { return operations.find(operation)->state != "running"; }));
  const auto& done = *operations.find(operation);
  EXPECT_EQ(done.state, "succeeded");
  EXPECT_EQ(done.steps.back().what, "wake " + daemon->at(id).name);
  EXPECT_EQ(done.deployment, id);
  EXPECT_EQ(daemon->at(id).state, State::ready);
  EXPECT_EQ(daemon->at(other).state, State::stopped);
}

TEST_F(Sleeping, P11_APlanForAWakeThatIsCancelledLeavesItAsleepAndStartsTheOtherAgain) {
  const auto id = deploy_asleep();
  const auto other = daemon->deploy_ready(R"("model": "/models/a.gguf", "name": "other", "cache_ram_mib": 16384)");
  engine(other).script.holds.anon = daemon->at(other).reserved();
  world.host.held_by_others += daemon->budget().free_for_new - mib(512);
  const auto set = std::string{json_of(wake(id)).at("plans").at("plan_set").as_string()};
  const auto apply = fmt::format("/api/v1/plans/{}/stop:{}/apply", set, other.value);
  const auto operation = member(daemon->request("POST", apply), "id");
  const auto& operations = daemon->service->operations;
  ASSERT_TRUE(daemon->loop->run_until([&] { return daemon->at(id).state == State::loading; }));
  EXPECT_EQ(daemon->request("POST", "/api/v1/operations/" + operation + "/cancel").status, 202);
  ASSERT_TRUE(daemon->loop->run_until([&] { return operations.find(operation)->state != "running"; }));
  EXPECT_EQ(operations.find(operation)->state, "cancelled");
  EXPECT_EQ(daemon->at(id).state, State::sleeping);
  EXPECT_EQ(daemon->at(other).state, State::ready);
}

TEST_F(Sleeping, HowLongSleepAndWakeTakeIsMeasuredAndKept) {
  const auto id = deploy_asleep();
  ASSERT_EQ(wake(id).status, 202);
  daemon->expect_state(id, State::ready);
  const auto& estimates = daemon->service->estimates;
  const auto fingerprint = daemon->at(id).fingerprint;
  const auto level = 1;
  EXPECT_EQ(estimates.measured_duration(fingerprint, planner::Action::sleep, level), 1s) << "half a second, rounded up";
  EXPECT_EQ(estimates.measured_duration(fingerprint, planner::Action::wake, level), 3s) << "two parts of a second";
  EXPECT_EQ(world.store.durations().size(), 3U) << "and its load";
}

TEST_F(Sleeping, OnlyOneThatSleepsIsWoken) {
  const auto id = daemon->deploy_ready(kSleeper);
  const auto answer = wake(id);
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(member(answer, "code"), "not_sleeping");
  EXPECT_EQ(daemon->request("POST", "/api/v1/deployments/nobody/wake").status, 404);
  EXPECT_EQ(daemon->request("POST", "/api/v1/deployments/nobody/sleep").status, 404);
}

TEST_F(Sleeping, AWakeWaitsForTheStartBeforeIt) {
  const auto id = deploy_asleep();
  world.runtime.next.loading_takes = 20s;
  const auto other = daemon->deploy();
  daemon->expect_state(other, State::loading);
  ASSERT_EQ(wake(id).status, 202);
  daemon->loop->run_for(10s);
  EXPECT_EQ(daemon->at(id).state, State::loading);
  EXPECT_EQ(engine(id).sleep_calls.size(), 1U);
  daemon->expect_state(other, State::ready);
  daemon->expect_state(id, State::ready);
}

TEST_F(Sleeping, AStartWaitsForTheWakeBeforeIt) {
  const auto id = deploy_asleep();
  engine(id).script.wake_takes = 20s;
  ASSERT_EQ(wake(id).status, 202);
  daemon->loop->run_for(1s);
  const auto other = daemon->deploy();
  daemon->loop->run_for(10s);
  EXPECT_EQ(daemon->at(other).state, State::starting);
  daemon->expect_state(id, State::ready);
  daemon->expect_state(other, State::ready);
}

TEST_F(Sleeping, WithTheWeightsBackAndNoRoomForTheCacheItSleepsAgain) {
  const auto id = deploy_asleep();
  engine(id).script.wake_takes = 60s;
  ASSERT_EQ(wake(id).status, 202);
  // Down to half a GiB above the floor, too slowly for the guard.
  const auto above_floor = [&] {
    return world.host.meminfo()->mem_available - gib_from_decimal(daemon->settings.start_floor_gib);
  };
  while (above_floor() > mib(512)) {
    world.host.held_by_others += scale_up(above_floor(), 1, 4);
    daemon->loop->run_for(1s);
  }
  daemon->expect_state(id, State::sleeping);
  EXPECT_THAT(engine(id).sleep_calls,
              ElementsAre("/sleep?level=1&mode=wait", "/wake_up?tags=weights", "/sleep?level=1&mode=wait"));
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("its weights are back"));
  EXPECT_EQ(daemon->budget().committed, gib(5) + mib(8));
  world.host.held_by_others = gib(4);
  engine(id).script.wake_takes = 1s;
  EXPECT_EQ(wake(id).status, 202);
  daemon->expect_state(id, State::ready);
  EXPECT_FALSE(daemon->at(id).failure);
}

TEST_F(Sleeping, E5_AWakeIsEndedBeforeTheHostRunsOut) {
  const auto id = deploy_asleep();
  engine(id).script.wake_takes = 60s;
  ASSERT_EQ(wake(id).status, 202);
  daemon->loop->run_for(1s);
  world.host.held_by_others = world.host.mem_total - world.runtime.held() - mib(100);
  daemon->expect_state(id, State::failed);
  EXPECT_EQ(daemon->at(id).failure->code, "start_guard");
}

TEST_F(Sleeping, OneThatDiesOfItsWakeHasFailed) {
  const auto id = deploy_asleep();
  engine(id).script.wake_calls = Calls::deadly;
  ASSERT_EQ(wake(id).status, 202);
  daemon->expect_state(id, State::failed);
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("while waking up"));
  EXPECT_EQ(daemon->budget().committed, Bytes{0});
}

TEST_F(Sleeping, OneThatWillNotWakeIsAskedWhatItIs) {
  const auto id = deploy_asleep();
  engine(id).script.wake_calls = Calls::refused;
  ASSERT_EQ(wake(id).status, 202);
  daemon->expect_state(id, State::unknown);
  daemon->expect_state(id, State::sleeping);
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("status 500"));
}

TEST_F(Sleeping, B2_OneThatHangsInItsWakeIsUnknownAndCountedInFull) {
  const auto id = deploy_asleep();
  engine(id).script.answers = EngineScript::Answers::never;
  ASSERT_EQ(wake(id).status, 202);
  daemon->expect_state(id, State::unknown);
  EXPECT_EQ(daemon->budget().committed, daemon->at(id).reserved());
}

TEST_F(Sleeping, StoppedWhileItWakesItStaysStopped) {
  const auto id = deploy_asleep();
  engine(id).script.wake_takes = 10s;
  ASSERT_EQ(wake(id).status, 202);
  daemon->loop->run_for(1s);
  EXPECT_EQ(daemon->request("POST", path_of(id, "/stop")).status, 200);
  daemon->loop->run_for(60s);
  EXPECT_EQ(daemon->at(id).state, State::stopped);
  EXPECT_EQ(world.runtime.running_count(), 0U);
}

TEST_F(Sleeping, TheDaemonEndsWhileOneFallsAsleepAndTheNextFindsIt) {
  const auto id = daemon->deploy_ready(kSleeper);
  engine(id).script.sleep_takes = 5s;
  const auto answer = daemon->send("POST", path_of(id, "/sleep"));
  daemon->loop->run_for(1s);
  restart();
  daemon->expect_state(id, State::ready);
  engine(id).asleep = {"weights", "kv_cache"};  // by then it sleeps
  engine(id).sleep_level = 1;
  daemon->expect_state(id, State::sleeping);
}

}  // namespace
}  // namespace dgxmm::testing
