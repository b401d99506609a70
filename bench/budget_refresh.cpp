// What one tick of the daemon costs (B8): `budget_refresh PROCESSES REFRESHES` runs the real sampler on this host with
// one running deployment and at least PROCESSES processes, and prints the microseconds of each refresh as JSON.
#include "adapters/host/proc_host_probe.h"
#include "adapters/net/asio_event_loop.h"
#include "adapters/nvml/nvml_probe.h"
#include "adapters/process/launch.h"
#include "adapters/process/process_runtime.h"
#include "adapters/store/sqlite_store.h"
#include "app/service/deployment_table.h"
#include "app/service/events.h"
#include "app/service/sampler.h"
#include "bench/idle_host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

namespace {

using namespace dgxmm;
using namespace dgxmm::bench;
using std::chrono::steady_clock;

std::vector<double> time_refreshes(service::Sampler& sampler, std::int64_t count) {
  for (std::int64_t i = 0; i < count / 10; ++i) sampler.refresh();
  std::vector<double> microseconds;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto before = steady_clock::now();
    sampler.refresh();
    microseconds.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - before).count());
  }
  return microseconds;
}

void run(std::int64_t processes, std::int64_t refreshes) {
  const TemporaryFolder folder;
  Crowd crowd;
  net::AsioEventLoop loop;
  host::ProcHostProbe probe;
  process::ProcessRuntime runtime{loop.context(), {}};
  const auto store = checked(store::SqliteStore::open(folder.path()));
  const SystemClock clock;
  nvml::NvmlProbe gpu{{.driver_loaded = probe.has_nvidia_driver()}, clock};
  service::EventLog events{*store, clock, loop};
  service::DeploymentTable table{*store, events, clock};
  service::Sampler sampler{probe, gpu, runtime, table, {}, clock, loop};

  IdleEngines engines{runtime};
  run_to_end(loop, engines.start(1, folder.path()));
  const auto& instance = engines.instances().front();
  auto& added = table.add(ready(instance));
  crowd.fill_up_to(processes);
  const auto by_cgroup = time_refreshes(sampler, refreshes);
  const bool in_cgroup = !instance.cgroup.empty();
  added.instance->cgroup.clear();
  crowd.fill_up_to(processes);
  const auto seen = processes_of_host();
  const auto by_tree = time_refreshes(sampler, refreshes);
  const bool measured = sampler.latest()->deployments.front().measured.has_value();

  if (!measured) throw std::runtime_error("the deployment was not measured");
  fmt::print("{{\"processes\": {}, \"cgroup_version\": {}, \"by_cgroup_us\": [{:.1f}], \"by_tree_us\": [{:.1f}]}}\n",
             seen, in_cgroup ? fmt::to_string(instance.cgroup_version) : "null",
             fmt::join(in_cgroup ? by_cgroup : std::vector<double>{}, ","), fmt::join(by_tree, ","));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == process::kLaunchCommand) return process::launch_engine(argc, argv);
  if (argc != 3) {
    std::fputs("usage: budget_refresh PROCESSES REFRESHES\n", stderr);
    return 2;
  }
  try {
    run(std::atoll(argv[1]), std::atoll(argv[2]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "budget_refresh: {}\n", error.what());
    return 1;
  }
  return 0;
}
