#include "app/service/learned.h"
#include "unit/app/support/daemon.h"

#include <chrono>
#include <stdexcept>
#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

constexpr auto kDeviceBuffer = "load_tensors:        CUDA0 model buffer size =  2048.00 MiB";

TEST(Calibrate, C1_FifteenSecondsAfterReadyTheFootprintIsRecorded) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.loop->run_for(14s);
  EXPECT_TRUE(world.store.calibrations().empty());
  daemon.loop->run_for(2s);
  ASSERT_EQ(world.store.calibrations().size(), 1U);
  const auto record = world.store.calibrations().front();
  EXPECT_EQ(record.measured, world.runtime.next.holds.total());
  EXPECT_EQ(record.formula, daemon.at(id).estimate.formula);
  EXPECT_EQ(record.fingerprint, "digest of /models/a.gguf");
  EXPECT_EQ(daemon.at(id).footprint, record.measured);
  EXPECT_TRUE(daemon.events().back().starts_with("calibration.recorded")) << daemon.events().back();
}

TEST(Calibrate, C2_TheEnginesAccountingOfItsDeviceReplacesTheGpuPart) {
  World world;
  world.runtime.next.log = {kDeviceBuffer};
  world.runtime.next.holds = {.anon = gib(1), .kernel = mib(8), .shmem = mib(4), .gpu = gib(3)};
  Daemon daemon{world};
  daemon.deploy_ready();
  daemon.loop->run_for(20s);
  ASSERT_EQ(world.store.calibrations().size(), 1U);
  EXPECT_EQ(world.store.calibrations().front().measured, gib(2) + gib(1) + mib(12));
}

TEST(Calibrate, C3_TheNextEstimateOfThatConfigurationIsMeasured) {
  World world;
  world.runtime.next.holds.anon = gib(8);
  Daemon daemon{world};
  daemon.deploy_ready();
  daemon.loop->run_for(20s);
  const auto fit = json_of(daemon.request("POST", "/api/v1/fit", R"({"model": "/models/a.gguf"})"));
  EXPECT_EQ(fit.at("confidence").as_string(), "measured");
  EXPECT_EQ(Bytes{fit.at("total_bytes").as_int64()}, scale_up(gib(8) + mib(8), 105, 100));
  const auto other = json_of(daemon.request("POST", "/api/v1/fit", R"({"model": "/models/b.gguf"})"));
  EXPECT_EQ(other.at("confidence").as_string(), "estimated");
}

TEST(Calibrate, C1_EveryStartIsMeasuredAndSizedByWhatTheEarlierOnesTaught) {
  World world;
  world.runtime.next.holds.anon = gib(8);
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto first_reservation = daemon.at(id).reserved();
  daemon.loop->run_for(20s);
  daemon.request("POST", path_of(id, "/stop"));
  daemon.request("POST", path_of(id, "/start"));
  EXPECT_GT(daemon.at(id).reserved(), first_reservation);
  EXPECT_FALSE(daemon.at(id).footprint);
  daemon.expect_state(id, State::ready);
  daemon.loop->run_for(20s);
  EXPECT_EQ(world.store.calibrations().size(), 2U);
}

TEST(Calibrate, NothingIsLearnedFromADeploymentThatWasStoppedOrStartedAgainMeanwhile) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.loop->run_for(5s);
  daemon.request("POST", path_of(id, "/stop"));
  daemon.loop->run_for(20s);
  EXPECT_TRUE(world.store.calibrations().empty());

  daemon.request("POST", path_of(id, "/start"));
  daemon.expect_state(id, State::ready);
  daemon.loop->run_for(5s);
  daemon.request("POST", path_of(id, "/stop"));
  daemon.request("POST", path_of(id, "/start"));
  daemon.expect_state(id, State::ready);
  daemon.loop->run_for(8s);  // the delay of the earlier start is over
  EXPECT_TRUE(world.store.calibrations().empty());
  daemon.loop->run_for(10s);
  EXPECT_EQ(world.store.calibrations().size(), 1U);
}

TEST(Calibrate, OneStartThatBecomesReadyTwiceIsRecordedOnce) {
  World world;
  settings::Settings settings;
  settings.calibration_delay_s = 60;
  Daemon daemon{world, settings};
  const auto id = daemon.deploy_ready();
  auto& engine = *world.runtime.newest(id);
  engine.script.answers = EngineScript::Answers::refuses;
  daemon.expect_state(id, State::unknown);
  engine.script.answers = EngineScript::Answers::normally;
  daemon.expect_state(id, State::ready);
  daemon.loop->run_for(3min);
  EXPECT_EQ(world.store.calibrations().size(), 1U);
}

TEST(Calibrate, C5_AfterAProvenOomKillEveryNextStartIsLarger) {
  World world;
  world.runtime.next.dies_after = 5s;
  world.runtime.next.death = {.exit_code = {}, .signal = 9, .oom_killed = true, .evidence = "oom_kill 1"};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto first = daemon.at(id).reserved();
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "out_of_memory");
  ASSERT_EQ(world.store.oom_floors().size(), 1U);

  daemon.request("POST", path_of(id, "/start"));
  const auto second = daemon.at(id).reserved();
  EXPECT_GE(second, scale_up(first, 11, 10));
  daemon.expect_state(id, State::failed);
  daemon.request("POST", path_of(id, "/start"));
  EXPECT_GE(daemon.at(id).reserved(), scale_up(second, 11, 10));
}

Bytes estimate_of_a(Daemon& daemon) {
  const auto fit = json_of(daemon.request("POST", "/api/v1/fit", R"({"model": "/models/a.gguf"})"));
  return Bytes{fit.at("total_bytes").as_int64()};
}

TEST(Calibrate, AForgottenRecordNoLongerRaisesTheEstimateAndTheEventSaysSo) {
  World world;
  world.runtime.next.holds.anon = gib(8);
  Daemon daemon{world};
  const auto formula = estimate_of_a(daemon);
  daemon.deploy_ready();
  daemon.loop->run_for(20s);
  ASSERT_GT(estimate_of_a(daemon), formula);
  const auto known = json_of(daemon.request("GET", "/api/v1/calibration"));
  const std::string id{known.at("records").at(0).at("id").as_string()};

  const auto answer = daemon.request("DELETE", "/api/v1/calibration/" + id);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json_of(answer).at("records").at(0).at("id").as_string(), id);
  EXPECT_TRUE(json_of(answer).at("durations").as_array().empty());
  EXPECT_EQ(estimate_of_a(daemon), formula);
  EXPECT_TRUE(world.store.calibrations().empty());
  EXPECT_FALSE(world.store.durations().empty());
  EXPECT_TRUE(daemon.events().back().starts_with("calibration.forgotten")) << daemon.events().back();

  const auto again = daemon.request("DELETE", "/api/v1/calibration/" + id);
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(json_of(again).at("code").as_string(), "calibration_not_found");
}

TEST(Calibrate, TheFingerprintOfAModelNamesAllOfIt) {
  World world;
  Daemon daemon{world};
  daemon.deploy_ready();
  daemon.loop->run_for(20s);
  const auto answer = daemon.request("DELETE", "/api/v1/calibration/digest%20of%20/models/a.gguf");
  EXPECT_EQ(answer.status, 404);  // a slash is a part of the path
  const auto records = world.store.calibrations();
  ASSERT_EQ(records.size(), 1U);
  const auto forgotten = daemon.service->estimates.forget(records.front().fingerprint, false);
  ASSERT_TRUE(forgotten);
  EXPECT_EQ(forgotten->records.size(), 1U);
  EXPECT_EQ(forgotten->durations.size(), 1U);
  EXPECT_TRUE(world.store.calibrations().empty());
  EXPECT_TRUE(world.store.durations().empty());
}

TEST(Calibrate, C5_ASizeThatRanOutOfMemoryIsForgottenOnlyWhenThatIsSaid) {
  World world;
  world.runtime.next.dies_after = 5s;
  world.runtime.next.death = {.exit_code = {}, .signal = 9, .oom_killed = true, .evidence = "oom_kill 1"};
  Daemon daemon{world};
  const auto formula = estimate_of_a(daemon);
  const auto id = daemon.deploy_ready();
  daemon.expect_state(id, State::failed);
  ASSERT_GT(estimate_of_a(daemon), formula);
  const auto known = json_of(daemon.request("GET", "/api/v1/calibration"));
  const std::string floor{known.at("oom_floors").at(0).at("id").as_string()};

  const auto refused = daemon.request("DELETE", "/api/v1/calibration/" + floor);
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(json_of(refused).at("code").as_string(), "oom_floor_kept");
  EXPECT_EQ(world.store.oom_floors().size(), 1U);

  EXPECT_EQ(daemon.request("DELETE", "/api/v1/calibration/" + floor + "?oom_floors=1").status, 200);
  EXPECT_TRUE(world.store.oom_floors().empty());
  EXPECT_EQ(estimate_of_a(daemon), formula);
}

TEST(Calibrate, WhatCannotBeForgottenOnDiskStaysKnown) {
  World world;
  world.runtime.next.holds.anon = gib(8);
  Daemon daemon{world};
  daemon.deploy_ready();
  daemon.loop->run_for(20s);
  const auto before = estimate_of_a(daemon);
  const auto fingerprint = world.store.calibrations().front().fingerprint;
  world.store.fail_writes = true;
  EXPECT_THROW(static_cast<void>(daemon.service->estimates.forget(fingerprint, false)), std::runtime_error);
  EXPECT_EQ(estimate_of_a(daemon), before);
}

TEST(Calibrate, WhatWasLearnedKeepsItsIdOverARestart) {
  World world;
  Daemon daemon{world};
  daemon.deploy_ready();
  daemon.loop->run_for(20s);
  auto stored = world.store.calibrations().front();
  const auto id = service::id_of(stored);
  stored.recorded_at = std::chrono::floor<std::chrono::milliseconds>(stored.recorded_at);  // as it is stored
  EXPECT_EQ(service::id_of(stored), id);
  auto raised = memory::raise_floor({}, "f", "k", gib(1), "a", {});
  const auto of_floor = service::id_of(raised);
  raised = memory::raise_floor(raised, "f", "k", gib(1), "b", {});
  EXPECT_EQ(service::id_of(raised), of_floor);
}

}  // namespace
}  // namespace dgxmm::testing
