#include "unit/app/support/daemon.h"

#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

TEST(Sampler, B8_UnchangedSnapshotKeepsItsRevision) {
  World world;
  Daemon daemon{world};
  daemon.deploy_ready();
  daemon.loop->run_for(20s);
  const auto revision = daemon.service->sampler.latest()->revision;
  const auto time = daemon.service->sampler.latest()->time;
  daemon.loop->run_for(20s);
  EXPECT_EQ(daemon.service->sampler.latest()->revision, revision);
  EXPECT_GT(daemon.service->sampler.latest()->time, time);
  world.host.held_by_others += mib(1);
  daemon.loop->run_for(2s);
  EXPECT_EQ(daemon.service->sampler.latest()->revision, revision + 1);
}

TEST(Sampler, B8_HostIsReadAtEveryChangeOfState) {
  World world;
  settings::Settings settings;
  settings.budget_interval_s = 3600;
  Daemon daemon{world, settings};
  const auto id = daemon.deploy();
  for (const auto state : {State::loading, State::ready}) {
    daemon.expect_state(id, state);
    EXPECT_EQ(daemon.service->sampler.latest()->find(id)->state, state);
  }
  daemon.request("POST", path_of(id, "/stop"));
  EXPECT_EQ(daemon.service->sampler.latest()->find(id), nullptr);
}

TEST(Sampler, B4_WhatAReadyEngineHasNotTakenYetIsNotFreeAndNotExternal) {
  World world;
  world.runtime.next.holds.anon = gib(2);
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto budget = daemon.budget();
  EXPECT_EQ(budget.measured_by_managed, gib(2) + mib(8));
  EXPECT_EQ(budget.committed, daemon.at(id).reserved());
  EXPECT_EQ(budget.ready_gap, daemon.at(id).reserved() - budget.measured_by_managed);
  EXPECT_EQ(budget.external, std::max(gib(4) - budget.ready_gap, Bytes{0}));
}

TEST(Sampler, B5_OverCommitmentIsAWarning) {
  World world;
  Daemon daemon{world};
  world.host.held_by_others = gib(60);
  EXPECT_LT(daemon.budget().free_for_new, Bytes{0});
  ASSERT_EQ(daemon.service->sampler.latest()->warnings.size(), 1U);
  EXPECT_NE(daemon.service->sampler.latest()->warnings.front().find("over-committed by"), std::string::npos);
}

TEST(Sampler, B7_UnknownGpuPartIsAWarningAndStaysUnknown) {
  World world;
  world.runtime.next.holds.gpu.reset();
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  EXPECT_NE(daemon.service->sampler.latest()->warnings.at(0).find("GPU part"), std::string::npos);
  const auto view = json_of(daemon.request("GET", path_of(id)));
  EXPECT_TRUE(view.at("measured").at("gpu_bytes").is_null());
  EXPECT_FALSE(view.at("measured").at("complete").as_bool());
}

TEST(Sampler, DeploymentThatHoldsNothingYetIsNotCalledUnmeasurable) {
  World world;
  Daemon daemon{world};
  daemon.deploy();
  EXPECT_TRUE(daemon.service->sampler.latest()->warnings.empty());
}

TEST(Sampler, HostThatCannotBeReadIsTroubleAndRecovers) {
  World world;
  Daemon daemon{world};
  EXPECT_EQ(daemon.request("GET", "/healthz").status, 200);
  world.host.broken = true;
  daemon.loop->run_for(3s);
  EXPECT_EQ(daemon.request("GET", "/healthz").status, 503);
  EXPECT_EQ(daemon.request("GET", "/api/v1/budget").status, 503);
  EXPECT_EQ(daemon.request("GET", "/metrics").status, 200);
  world.host.broken = false;
  daemon.loop->run_for(3s);
  EXPECT_EQ(daemon.request("GET", "/healthz").status, 200);
}

}  // namespace
}  // namespace dgxmm::testing
