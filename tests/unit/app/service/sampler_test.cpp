#include "unit/app/support/daemon.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

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
  EXPECT_NE(daemon.service->sampler.latest()->warnings.front().message.find("over-committed by"), std::string::npos);
}

TEST(Sampler, B7_UnknownGpuPartIsAWarningAndStaysUnknown) {
  World world;
  world.runtime.next.holds.gpu.reset();
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  EXPECT_NE(daemon.service->sampler.latest()->warnings.at(0).message.find("GPU part"), std::string::npos);
  const auto view = json_of(daemon.request("GET", path_of(id)));
  EXPECT_TRUE(view.at("measured").at("gpu_bytes").is_null());
  EXPECT_FALSE(view.at("measured").at("complete").as_bool());
}

TEST(Sampler, B6_GpuPartOfADeploymentIsWhatItsProcessesHold) {
  World world;
  world.runtime.next.holds.gpu = gib(3);
  world.gpu.reading.processes = {{.pid = 5, .start_time_ticks = 1, .used = gib(2)}};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto view = json_of(daemon.request("GET", path_of(id)));
  EXPECT_EQ(view.at("measured").at("gpu_bytes").as_int64(), gib(3).count());
  EXPECT_TRUE(view.at("measured").at("complete").as_bool());
  const auto budget = json_of(daemon.request("GET", "/api/v1/budget"));
  EXPECT_EQ(budget.at("gpu_bytes").as_int64(), gib(5).count()) << "of all, the foreign one too";
  EXPECT_EQ(daemon.budget().measured_by_managed, gib(6 + 3) + mib(8)) << "but not as managed";
}

TEST(Sampler, B7_OneProcessThatIsUnknownLeavesALowerBound) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto own = world.runtime.pids(*daemon.service->table.find(id)->instance);
  ASSERT_FALSE(own.empty());
  const auto before = daemon.budget().measured_by_managed;
  world.runtime.more_pids = {900};
  world.gpu.reading.processes = {{.pid = own.front(), .start_time_ticks = 1, .used = gib(3)},
                                 {.pid = 900, .start_time_ticks = 1, .used = std::nullopt}};
  const auto measured = json_of(daemon.request("GET", "/api/v1/budget")).at("deployments").at(0).at("measured");
  EXPECT_TRUE(measured.at("gpu_bytes").is_null());
  EXPECT_EQ(measured.at("gpu_at_least_bytes").as_int64(), gib(3).count());
  EXPECT_FALSE(measured.at("complete").as_bool());
  EXPECT_EQ(daemon.budget().measured_by_managed, before + gib(3));
}

TEST(Sampler, B7_WhyTheGpuPartIsUnknownIsSaid) {
  World world;
  world.gpu.reading.host_class = host::HostClass::unknown;
  world.gpu.reading.processes.reset();
  world.gpu.reading.unavailable = "run its container with --pid=host";
  Daemon daemon{world};
  daemon.deploy_ready();
  const auto budget = json_of(daemon.request("GET", "/api/v1/budget"));
  EXPECT_EQ(budget.at("host_class").as_string(), "unknown");
  EXPECT_TRUE(budget.at("gpu_bytes").is_null());
  EXPECT_EQ(budget.at("warnings").at(0).at("message").as_string(), "run its container with --pid=host");
  EXPECT_EQ(budget.at("warnings").as_array().size(), 2U);
  EXPECT_EQ(member(daemon.request("GET", "/healthz"), "detail"), "run its container with --pid=host");
  EXPECT_EQ(daemon.request("GET", "/healthz").status, 200) << "the daemon itself is well";
  EXPECT_EQ(daemon.request("GET", "/metrics").body.find("dgxmm_gpu_bytes"), std::string::npos);
}

TEST(Sampler, HostWhoseGpuHasItsOwnMemoryStartsNothingAndStillEstimates) {
  World world;
  world.gpu.reading.host_class = host::HostClass::discrete;
  world.gpu.reading.evidence = "NVIDIA H100: has 80.0 GiB of its own";
  world.gpu.reading.no_starts = Error{"host_not_supported", "this host's GPU has memory of its own", "", ""};
  Daemon daemon{world};
  const std::string body = R"({"model": "/models/a.gguf"})";
  const auto refused = daemon.request("POST", "/api/v1/deployments", body);
  EXPECT_EQ(refused.status, 501);
  EXPECT_EQ(member(refused, "code"), "host_not_supported");
  const auto fit = daemon.request("POST", "/api/v1/fit", body);
  ASSERT_EQ(fit.status, 200);
  EXPECT_NE(fit.body.find("it could not be started here: this host's GPU has memory of its own"), std::string::npos);
  EXPECT_EQ(daemon.request("POST", "/api/v1/plans", body).status, 200);
  const auto budget = json_of(daemon.request("GET", "/api/v1/budget"));
  EXPECT_EQ(budget.at("host_class").as_string(), "discrete");
  EXPECT_EQ(budget.at("host_class_evidence").as_string(), "NVIDIA H100: has 80.0 GiB of its own");
  EXPECT_NE(daemon.request("GET", "/metrics").body.find("dgxmm_host_class{class=\"discrete\"} 1"), std::string::npos);
}

TEST(Sampler, AFailedGpuRefusesARestartAndLeavesWhatRuns) {
  World world;
  Daemon daemon{world};
  const auto stopped = daemon.deploy_ready();
  daemon.request("POST", path_of(stopped, "/stop"));
  const auto running = daemon.deploy_ready();
  world.gpu.reading.processes.reset();
  world.gpu.reading.no_starts = Error{"gpu_failed", "a GPU of this host has failed", "", ""};
  EXPECT_EQ(daemon.request("POST", path_of(stopped, "/start")).status, 503);
  EXPECT_EQ(daemon.at(running).state, State::ready);
  world.gpu.reading = {};
  EXPECT_EQ(daemon.request("POST", path_of(stopped, "/start")).status, 202);
}

TEST(Sampler, EnginesOfAMixedHostAreKeptToTheDeviceThatSharesItsMemory) {
  World world;
  world.gpu.reading.host_class = host::HostClass::mixed;
  host::GpuDevice shared{.name = "NVIDIA GB10", .uuid = "GPU-shared"};
  shared.host_class = host::HostClass::integrated;
  host::GpuDevice card{.name = "NVIDIA RTX", .uuid = "GPU-card"};
  card.host_class = host::HostClass::discrete;
  world.gpu.reading.devices = {card, shared};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto& environment = world.runtime.newest(id)->spec.environment;
  EXPECT_EQ(std::ranges::count(environment, std::pair<std::string, std::string>{"CUDA_VISIBLE_DEVICES", "GPU-shared"}),
            1);
}

TEST(Sampler, MoreOnTheGpuThanTheHostHasIsAWarning) {
  World world;
  world.gpu.reading.host_class = host::HostClass::integrated;
  world.gpu.reading.processes = {{.pid = 11, .start_time_ticks = 1, .used = gib(100)}};
  Daemon daemon{world};
  EXPECT_NE(daemon.service->sampler.refresh()->warnings.at(0).message.find("more than the 64.0 GiB"),
            std::string::npos);
}

TEST(Sampler, D1_AnOrphanOnTheGpuIsAWarningAndIsNamedWhereItStandsInTheWay) {
  World world;
  world.gpu.reading.processes = {{.pid = 4242, .start_time_ticks = 1, .used = gib(60)},
                                 {.pid = 11, .start_time_ticks = 1, .used = gib(1)}};
  world.host.rows = {{.pid = 4242,
                      .command = "VLLM::EngineCore",
                      .held = gib(60),
                      .gpu = gib(60),
                      .orphan = host::Orphanhood::certain},
                     {.pid = 11, .command = "Xorg", .held = gib(1), .gpu = gib(1)}};
  world.host.held_by_others = gib(61);
  Daemon daemon{world};
  const auto warnings = daemon.service->sampler.refresh()->warnings;
  EXPECT_EQ(
      std::ranges::count_if(warnings, [](const auto& w) { return w.hint.find("`kill 4242`") != std::string::npos; }),
      1);
  const auto refused = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf"})");
  EXPECT_EQ(refused.status, 409);
  const auto holders = json_of(refused).at("holders").as_array();  // A7
  ASSERT_EQ(holders.size(), 3U);
  EXPECT_EQ(holders.at(0).at("pid").as_int64(), 4242) << "orphans first";
  EXPECT_TRUE(holders.at(0).at("orphan").as_bool());
  EXPECT_EQ(holders.at(2).at("command").as_string(), "python train.py");
}

TEST(Sampler, D1_NobodyIsAdvisedToKillAJobThatMayBeInUse) {
  World world;
  world.gpu.reading.processes = {{.pid = 4242, .start_time_ticks = 1, .used = gib(60)}};
  world.host.rows = {{.pid = 4242,
                      .command = "python3 train.py",
                      .held = gib(60),
                      .gpu = gib(60),
                      .orphan = host::Orphanhood::possible}};
  world.host.held_by_others = gib(61);
  Daemon daemon{world};
  const auto snapshot = daemon.service->sampler.refresh();
  const auto said = std::ranges::find(snapshot->warnings, "gpu_parent_ended", &host::Warning::code);
  ASSERT_NE(said, snapshot->warnings.end());
  EXPECT_EQ(said->severity, host::Warning::Severity::note);
  EXPECT_NE(said->message.find("it may still be in use"), std::string::npos);
  const auto refused = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf"})");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body.find("kill"), std::string::npos);
  EXPECT_TRUE(json_of(refused).at("holders").at(0).at("parent_ended").as_bool());
  EXPECT_FALSE(json_of(refused).at("holders").at(0).at("orphan").as_bool());
}

TEST(Sampler, GpuMemoryIsEstimatedFromWhatMeminfoLeavesOutWhenNobodySaysWhoHoldsIt) {
  World world;
  world.gpu.reading.host_class = host::HostClass::integrated;
  world.host.unlisted = gib(1);
  Daemon daemon{world};
  world.host.unlisted = gib(41);
  world.gpu.reading.processes.reset();
  const auto budget = json_of(daemon.request("GET", "/api/v1/budget"));
  EXPECT_TRUE(budget.at("gpu_bytes").is_null());
  EXPECT_EQ(budget.at("gpu_estimate_bytes").as_int64(), gib(40).count());
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

TEST(Sampler, WhatStandsInTheWayOfModelsIsWarnedOfWithACode) {
  World world;
  world.host.facts.guards = {{.name = "earlyoom", .acts_below_percent = 20}};
  world.host.pressed = {.some_avg10_permyriad = 2000, .full_avg10_permyriad = 0};
  world.host.swapped = host::SwapCounters{};
  Daemon daemon{world};
  const auto codes = [&] {
    std::set<std::string> found;
    for (const auto& warning : daemon.service->sampler.refresh()->warnings) found.insert(warning.code);
    return found;
  };
  ASSERT_TRUE(daemon.loop->run_until([&] { return codes().contains("memory_guards"); }));
  EXPECT_TRUE(codes().contains("memory_pressure"));
  EXPECT_FALSE(codes().contains("swap_activity"));
  EXPECT_TRUE(daemon.loop->run_until([&] {
    ++world.host.swapped->pages_out;
    return codes().contains("swap_activity");
  }));
  const auto budget = json_of(daemon.request("GET", "/api/v1/budget"));
  EXPECT_EQ(budget.at("warnings").at(0).at("severity").as_string(), "warning");
}

}  // namespace
}  // namespace dgxmm::testing
