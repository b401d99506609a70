#pragma once
// What the refreshes are measured on: a host with many processes, and engines that do nothing.
#include "adapters/net/asio_event_loop.h"
#include "adapters/process/process_runtime.h"
#include "app/service/deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dgxmm::bench {

namespace fs = std::filesystem;

template <class T>
T checked(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

inline bool is_process(const fs::directory_entry& entry) {
  const auto name = entry.path().filename().string();
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

inline std::int64_t processes_of_host() { return std::ranges::count_if(fs::directory_iterator{"/proc"}, is_process); }

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

  [[nodiscard]] const std::vector<pid_t>& pids() const { return pids_; }

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

/// Processes that sleep, each with a cgroup of its own where one may be made. They end with this object.
class IdleEngines {
 public:
  explicit IdleEngines(process::ProcessRuntime& runtime) : runtime_(runtime) {}
  ~IdleEngines() {
    for (const auto& instance : instances_) {
      ::kill(static_cast<pid_t>(instance.pid), SIGKILL);
      ::waitpid(static_cast<pid_t>(instance.pid), nullptr, 0);
      runtime_.forget(instance);
    }
  }
  IdleEngines(const IdleEngines&) = delete;
  IdleEngines& operator=(const IdleEngines&) = delete;

  ports::Task<> start(std::int64_t count, fs::path folder) {
    for (std::int64_t number = 1; number <= count; ++number) {
      auto started = co_await runtime_.start({.deployment = {number},
                                              .name = fmt::format("dgxmm-bench-{}", number),
                                              .arguments = {"/bin/sleep", "600"},
                                              .log_path = (folder / fmt::format("engine-{}.log", number)).string()});
      instances_.push_back(checked(std::move(started)));
    }
  }
  [[nodiscard]] const std::vector<ports::Instance>& instances() const { return instances_; }

 private:
  process::ProcessRuntime& runtime_;
  std::vector<ports::Instance> instances_;
};

/// A deployment that is ready, with that engine.
inline service::Deployment ready(const ports::Instance& instance) {
  service::Deployment deployment;
  deployment.name = fmt::format("bench-{}", instance.pid);
  deployment.state = deployment::State::ready;
  deployment.instance = instance;
  return deployment;
}

/// Runs the loop until that task has ended, which this loop can do once; throws what the task throws.
inline void run_to_end(net::AsioEventLoop& loop, ports::Task<> task) {
  std::exception_ptr failed;
  const auto guard = [](net::AsioEventLoop& the_loop, ports::Task<> the_task,
                        std::exception_ptr& error) -> ports::Task<> {
    try {
      co_await std::move(the_task);
    } catch (...) {
      error = std::current_exception();
    }
    the_loop.stop();
  };
  loop.spawn("bench", guard(loop, std::move(task), failed));
  loop.run();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace dgxmm::bench
