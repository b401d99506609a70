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

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace dgxmm;
namespace fs = std::filesystem;
using std::chrono::steady_clock;

template <class T>
T checked(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

bool is_process(const fs::directory_entry& entry) {
  const auto name = entry.path().filename().string();
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t processes_of_host() { return std::ranges::count_if(fs::directory_iterator{"/proc"}, is_process); }

/// Idle processes that end with this object, or with this program.
class Crowd {
 public:
  ~Crowd() {
    for (const auto pid : pids_) ::kill(pid, SIGKILL);
    for (const auto pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  Crowd() = default;
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  /// Fills the host up; others' processes come and go.
  void fill_up_to(std::int64_t processes) {
    for (auto missing = processes - processes_of_host(); missing > 0; --missing) {
      const pid_t pid = ::fork();
      if (pid < 0) throw std::runtime_error("cannot fork");
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
      }
      pids_.push_back(pid);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = (fs::temp_directory_path() / "dgxmm-bench-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The one thing here that needs the loop to run.
ports::Task<> start_engine(ports::ContainerRuntime& runtime, ports::InstanceSpec spec, net::AsioEventLoop& loop,
                           std::optional<Result<ports::Instance>>& started) {
  started = co_await runtime.start(std::move(spec));
  loop.stop();
}

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

  std::optional<Result<ports::Instance>> started;
  loop.spawn("start", start_engine(runtime,
                                   {.deployment = {1},
                                    .name = "dgxmm-bench-1",
                                    .arguments = {"/bin/sleep", "600"},
                                    .log_path = (folder.path() / "engine.log").string()},
                                   loop, started));
  loop.run();
  const auto instance = checked(std::move(*started));

  service::Deployment deployment;
  deployment.name = "bench";
  deployment.state = deployment::State::ready;
  deployment.instance = instance;
  auto& added = table.add(std::move(deployment));
  crowd.fill_up_to(processes);
  const auto by_cgroup = time_refreshes(sampler, refreshes);
  const bool in_cgroup = !instance.cgroup.empty();
  added.instance->cgroup.clear();
  crowd.fill_up_to(processes);
  const auto seen = processes_of_host();
  const auto by_tree = time_refreshes(sampler, refreshes);
  const bool measured = sampler.latest()->deployments.front().measured.has_value();

  ::kill(static_cast<pid_t>(instance.pid), SIGKILL);
  ::waitpid(static_cast<pid_t>(instance.pid), nullptr, 0);
  runtime.forget(instance);
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
