#include "adapters/process/launch.h"

#include "base/files.h"
#include "core/host/readings.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

namespace dgxmm::process {
namespace {

constexpr int kGaveUp = 127;
constexpr int kUsage = 2;

struct LaunchOptions {
  std::string cgroup_procs;  // empty: stay where we are
  std::string oom_score_adj;
  std::string log;
  char** engine = nullptr;
};

std::optional<LaunchOptions> parse_options(int argc, char** argv) {
  LaunchOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) return std::nullopt;
    if (name == "--") {
      options.engine = argv + i + 1;
      return options;
    }
    const char* value = argv[++i];
    if (name == "--cgroup-procs") {
      options.cgroup_procs = value;
    } else if (name == "--oom-score-adj") {
      options.oom_score_adj = value;
    } else if (name == "--log") {
      options.log = value;
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool write_text(const char* path, std::string_view text) {
  const FileDescriptor file{::open(path, O_WRONLY | O_CLOEXEC)};
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

int give_up(LaunchStep step) {
  const LaunchFailure failure{.step = step, .error = errno};
  // Nobody is left to tell when the pipe is gone.
  [[maybe_unused]] const ssize_t written = ::write(kLaunchReportFd, &failure, sizeof failure);
  return kGaveUp;
}

bool redirect_output(const std::string& log) {
  const FileDescriptor file{::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
  return file && ::dup2(file.get(), STDOUT_FILENO) >= 0 && ::dup2(file.get(), STDERR_FILENO) >= 0;
}

void mark_environment() {
  const auto stat = host::parse_proc_stat(read_text_file("/proc/self/stat").value_or(""));
  if (!stat) return;
  const std::string identity = fmt::format("{}:{}", stat->pid, stat->start_time_ticks);
  ::setenv(kFirstProcessVariable, identity.c_str(), 1);
}

}  // namespace

int launch_engine(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options || ::fcntl(kLaunchReportFd, F_SETFD, FD_CLOEXEC) != 0) {
    std::fputs("launch-engine is an internal command of dgxmm; use `dgxmm deploy`.\n", stderr);
    return kUsage;
  }
  // Before exec: what a process holds when it enters a group stays charged to the group that it came from.
  if (!options->cgroup_procs.empty() && !write_text(options->cgroup_procs.c_str(), "0")) {
    return give_up(LaunchStep::cgroup);
  }
  // The engine, and not sshd, is to be killed when memory runs out. A refusal is no reason not to start.
  if (!options->oom_score_adj.empty()) write_text("/proc/self/oom_score_adj", options->oom_score_adj);
  if (!redirect_output(options->log)) return give_up(LaunchStep::log);
  mark_environment();
  ::execvp(options->engine[0], options->engine);
  return give_up(LaunchStep::execute);
}

}  // namespace dgxmm::process
