// What one look at everything costs: `full_refresh PROCESSES DEPLOYMENTS REFRESHES NVML_DOUBLE` reads the GPU, the
// deployments' cgroups, /proc/meminfo and every process of this host, as the daemon does for who holds the memory, and
// prints the processor time of each part as JSON. NVML is the double of the tests: it reads its answers from a text
// file at every call, which is part of what is measured.
#include "adapters/host/proc_host_probe.h"
#include "adapters/net/asio_event_loop.h"
#include "adapters/nvml/nvml_probe.h"
#include "adapters/process/cgroup.h"
#include "adapters/process/launch.h"
#include "adapters/process/process_runtime.h"
#include "adapters/store/sqlite_store.h"
#include "app/service/deployment_table.h"
#include "app/service/events.h"
#include "app/service/ledger.h"
#include "app/service/orphans.h"
#include "app/service/sampler.h"
#include "bench/idle_host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace dgxmm;
using namespace dgxmm::bench;

constexpr std::size_t kRows = 25;  // that people are shown
constexpr std::size_t kGpuProcesses = 40;

/// Of all threads of this program, in milliseconds.
double processor_ms() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// NVML that is asked when the measurement says so, and not every two seconds.
class GpuOnDemand final : public ports::GpuProbe {
 public:
  explicit GpuOnDemand(std::string library) : library_(std::move(library)) {}
  void ask() {
    probe_ = std::make_unique<nvml::NvmlProbe>(
        nvml::NvmlOptions{.library = library_, .driver_loaded = true, .interval = std::chrono::hours{1}}, clock_);
    if (!probe_->wait_for_first(std::chrono::seconds{10})) throw std::runtime_error("NVML did not answer");
  }
  host::GpuReading latest() override { return probe_->latest(); }

 private:
  SystemClock clock_;
  std::string library_;
  std::unique_ptr<nvml::NvmlProbe> probe_;
};

/// Nobody's containers have names: there is no Docker here.
class NoNames final : public ports::ContainerNames {
 public:
  ports::Task<Result<std::vector<container::ListedContainer>>> running() override {
    co_return std::vector<container::ListedContainer>{};
  }
};

/// The double with a GPU that shares the host's memory and is used by these; returns the library.
std::string place_double(const fs::path& library, const fs::path& folder, const std::vector<std::int64_t>& pids) {
  const auto copy = folder / "libnvidia-ml.so.1";
  fs::copy_file(library, copy);
  std::ofstream scenario{folder / "scenario"};
  scenario << "driver 580.95.05\ndevice NVIDIA GB10\nuuid GPU-1\npci 1\ncapability 12 1\naddressing 2\n";
  for (const auto pid : pids) scenario << "compute " << pid << " 1048576\n";
  return copy.string();
}

struct Samples {
  std::vector<double> gpu_ms, tick_ms, all_ms;
};

ports::Task<> measure(service::LedgerReader& reader, service::Sampler& sampler, GpuOnDemand& gpu, std::int64_t count,
                      Samples& samples) {
  for (std::int64_t i = -count / 10; i < count; ++i) {
    const auto start = processor_ms();
    gpu.ask();
    const auto asked = processor_ms();
    sampler.refresh();
    const auto ticked = processor_ms();
    const auto reading = co_await reader.read(kRows);  // refreshes once more
    const auto done = processor_ms();
    if (!reading.snapshot->gpu.processes || reading.snapshot->gpu.processes->size() != kGpuProcesses) {
      throw std::runtime_error(fmt::format("NVML did not show its processes: {}", reading.snapshot->gpu.unavailable));
    }
    for (const auto& entry : reading.snapshot->deployments) {
      if (!entry.measured || !entry.measured->gpu) throw std::runtime_error("a deployment was not measured");
    }
    if (i < 0) continue;
    samples.gpu_ms.push_back(asked - start);
    samples.tick_ms.push_back(ticked - asked);
    samples.all_ms.push_back(asked - start + done - ticked);
  }
}

void run(std::int64_t processes, std::int64_t deployments, std::int64_t refreshes, const fs::path& library) {
  const TemporaryFolder folder;
  Crowd crowd;
  net::AsioEventLoop loop;
  host::ProcHostProbe probe;
  process::ProcessRuntime runtime{loop.context(), {}};
  const process::MemoryCgroups cgroups;
  const auto store = checked(store::SqliteStore::open(folder.path()));
  const SystemClock clock;
  service::EventLog events{*store, clock, loop};
  service::DeploymentTable table{*store, events, clock};
  IdleEngines engines{runtime};
  NoNames names;
  Samples samples;
  bool in_cgroups = true;
  std::int64_t seen = 0;

  const auto all = [&]() -> ports::Task<> {
    co_await engines.start(deployments, folder.path());
    crowd.fill_up_to(processes);
    std::vector<std::int64_t> on_gpu;
    for (const auto& instance : engines.instances()) {
      table.add(ready(instance));
      in_cgroups = in_cgroups && !instance.cgroup.empty();
      on_gpu.push_back(instance.pid);
    }
    for (const auto pid : crowd.pids()) {
      if (on_gpu.size() < kGpuProcesses) on_gpu.push_back(pid);
    }
    GpuOnDemand gpu{place_double(library, folder.path(), on_gpu)};
    gpu.ask();
    service::Sampler sampler{probe, gpu, runtime, table, {}, clock, loop};
    const service::Identity identity{.state_dir = folder.path().string(), .instance_prefix = "dgxmm-bench-"};
    service::Orphans orphans{runtime, probe, table, events, sampler, identity, std::chrono::seconds{1}};
    service::LedgerReader reader{sampler, table, probe, cgroups, names, orphans, loop};
    seen = processes_of_host();
    co_await measure(reader, sampler, gpu, refreshes, samples);
  };
  run_to_end(loop, all());
  fmt::print("{{\"processes\": {}, \"deployments\": {}, \"cgroup_version\": {}, \"gpu_processes\": {}, ", seen,
             deployments, in_cgroups ? fmt::to_string(engines.instances().front().cgroup_version) : "null",
             kGpuProcesses);
  fmt::print("\"gpu_ms\": [{:.3f}], \"tick_ms\": [{:.3f}], \"all_ms\": [{:.3f}]}}\n", fmt::join(samples.gpu_ms, ","),
             fmt::join(samples.tick_ms, ","), fmt::join(samples.all_ms, ","));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == process::kLaunchCommand) return process::launch_engine(argc, argv);
  if (argc != 5) {
    std::fputs("usage: full_refresh PROCESSES DEPLOYMENTS REFRESHES NVML_DOUBLE\n", stderr);
    return 2;
  }
  try {
    run(std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3]), argv[4]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "full_refresh: {}\n", error.what());
    return 1;
  }
  return 0;
}
