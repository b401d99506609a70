#include "unit/app/support/daemon.h"

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

}  // namespace
}  // namespace dgxmm::testing
