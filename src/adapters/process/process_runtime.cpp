#include "adapters/process/process_runtime.h"

#include "adapters/process/launch.h"
#include "adapters/process/process_table.h"
#include "adapters/process/python_module.h"
#include "adapters/process/spawn.h"
#include "base/log.h"
#include "base/masking.h"
#include "core/host/stuck.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <list>
#include <memory>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace dgxmm::process {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kRuntimeName = "process";
constexpr std::string_view kOomScoreAdjustment = "500";
constexpr milliseconds kLaunchLimit{10'000};
constexpr milliseconds kShortestPause{5};
constexpr milliseconds kLongestPause{200};
constexpr std::size_t kOutputLimitBytes = 1024 * 1024;
constexpr std::string_view kEnterFailed = "cgroup_refused";  // stays within this file: start() tries without

Error launch_error(const std::string& executable, const LaunchFailure& failure, const std::string& log) {
  const std::string reason = std::strerror(failure.error);
  switch (failure.step) {
    case LaunchStep::cgroup:
      return {std::string{kEnterFailed}, fmt::format("cannot enter the cgroup: {}", reason), {}, {}};
    case LaunchStep::log:
      return {"start_failed", fmt::format("cannot write the engine's log {}: {}", log, reason),
              "check the permissions and the free space of that folder", log};
    case LaunchStep::execute: break;
  }
  if (failure.error == ENOENT) {
    return {"engine_not_found", fmt::format("the engine {} is not there", executable),
            "install it, or set `llama_server` in the settings to its path", executable};
  }
  return {"start_failed", fmt::format("cannot run {}: {}", executable, reason),
          failure.error == EACCES ? "make the file executable for the user that runs dgxmm" : "", executable};
}

Error shutting_down() {
  return {"shutting_down", "dgxmm is shutting down", "the next `dgxmm serve` goes on from here", {}};
}

/// A pipe or a pidfd on the loop, with a deadline for all that is done with it.
class TimedDescriptor {
 public:
  TimedDescriptor(asio::io_context& loop, FileDescriptor file)
      : state_(std::make_shared<State>(loop, file.release())) {}
  TimedDescriptor(const TimedDescriptor&) = delete;
  TimedDescriptor& operator=(const TimedDescriptor&) = delete;
  ~TimedDescriptor() { state_->timer.cancel(); }

  void expire_at(steady_clock::time_point when) {
    state_->timer.expires_at(when);
    // Shared: the handler may already be on its way when this object goes.
    state_->timer.async_wait([state = state_](const boost::system::error_code& cancelled) {
      if (!cancelled) state->expire();
    });
  }
  void expire_now() { state_->expire(); }
  [[nodiscard]] bool expired() const { return state_->expired; }

  /// How many bytes arrived; 0 at the end and at the deadline.
  ports::Task<std::size_t> read(char* to, std::size_t limit) {
    if (state_->expired) co_return 0;
    boost::system::error_code ended;
    const std::size_t got = co_await state_->descriptor.async_read_some(
        asio::buffer(to, limit), asio::redirect_error(asio::use_awaitable, ended));
    if (ended && !state_->expired && ended != asio::error::eof) throw boost::system::system_error(ended);
    co_return got;
  }
  /// Returns when there is something to read (of a pidfd: when the process has ended) or at the deadline.
  ports::Task<> readable() {
    if (state_->expired) co_return;
    boost::system::error_code failed;
    co_await state_->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                           asio::redirect_error(asio::use_awaitable, failed));
    if (failed && !state_->expired) throw boost::system::system_error(failed);
  }

 private:
  struct State {
    State(asio::io_context& loop, int file) : descriptor(loop, file), timer(loop) {}
    void expire() {
      expired = true;
      boost::system::error_code ignored;
      descriptor.cancel(ignored);
    }
    asio::posix::stream_descriptor descriptor;
    asio::steady_timer timer;
    bool expired = false;
  };
  std::shared_ptr<State> state_;
};

/// A handle to the process of the instance, and to no other: opened first, checked then.
FileDescriptor open_verified(const ports::Instance& instance) {
  auto pidfd = open_pidfd(instance.pid);
  if (pidfd && !is_same_process(instance)) pidfd.reset();
  return pidfd;
}

Group group_of(const ports::Instance& instance) {
  return {.version = instance.cgroup_version, .path = instance.cgroup};
}

}  // namespace

struct ProcessRuntime::Waits {
  bool over = false;
  std::list<std::function<void()>> ends;
};

/// A wait that `end_waits` ends. The list is shared: a task that was given up may go after the runtime.
class ProcessRuntime::Listed {
 public:
  Listed(std::shared_ptr<Waits> waits, std::function<void()> end)
      : waits_(std::move(waits)),
        place_(waits_->ends.insert(waits_->ends.end(), std::move(end))) {
    if (waits_->over) (*place_)();
  }
  ~Listed() { waits_->ends.erase(place_); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  std::shared_ptr<Waits> waits_;
  std::list<std::function<void()>>::iterator place_;
};

ProcessRuntime::ProcessRuntime(asio::io_context& loop, ProcessRuntimeOptions options)
    : loop_(loop),
      options_(std::move(options)),
      cgroups_(options_.root, options_.cgroup_parent),
      waits_(std::make_shared<Waits>()) {}

void ProcessRuntime::end_waits() {
  waits_->over = true;
  for (const auto& end : waits_->ends) end();
}

ports::Task<> ProcessRuntime::pause(milliseconds duration) {
  asio::steady_timer timer{loop_, duration};
  const Listed listed{waits_, [&timer] { timer.expires_at(steady_clock::time_point::min()); }};
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

/// Ends early with the process.
ports::Task<> ProcessRuntime::pause_beside(const FileDescriptor& pidfd, milliseconds duration) {
  FileDescriptor watched_end{::fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 0)};  // Asio closes what it watches
  if (!watched_end) {
    co_await pause(duration);
    co_return;
  }
  TimedDescriptor watched{loop_, std::move(watched_end)};
  const Listed listed{waits_, [&watched] { watched.expire_now(); }};
  watched.expire_at(steady_clock::now() + duration);
  co_await watched.readable();
}

ports::Task<bool> ProcessRuntime::ends_before(FileDescriptor pidfd, steady_clock::time_point when) {
  TimedDescriptor watched{loop_, std::move(pidfd)};
  watched.expire_at(when);
  co_await watched.readable();
  co_return !watched.expired();
}

ports::Task<Result<ports::Instance>> ProcessRuntime::start(ports::InstanceSpec spec) {
  if (spec.arguments.empty()) co_return fail("start_failed", "the engine's command line is empty");
  if (spec.module) {
    const auto written = write_module(options_.module_folder, *spec.module);
    if (!written) co_return fail(written.error());
    const char* own = std::getenv("PYTHONPATH");  // NOLINT(concurrency-mt-unsafe): nobody sets variables here
    spec.environment.emplace_back("PYTHONPATH",
                                  engine::python_path(options_.module_folder.string(), own == nullptr ? "" : own));
  }
  if (spec.before_start) spec.before_start();
  remove_leftovers();
  auto group = cgroups_.create(spec.name);
  auto started = co_await launch(spec, group);
  if (started || !group) co_return started;
  cgroups_.remove(*group);
  if (started.error().code != kEnterFailed) co_return started;
  log::warning("{}; engine {} is measured by its processes instead", started.error().message, spec.name);
  group.reset();
  started = co_await launch(std::move(spec), group);
  co_return started;
}

ports::Task<Result<ports::Instance>> ProcessRuntime::launch(ports::InstanceSpec spec, std::optional<Group> group) {
  const std::string& executable = spec.arguments.front();
  SpawnOptions child;
  child.arguments = {options_.launcher,
                     std::string{kLaunchCommand},
                     "--cgroup-procs",
                     group ? cgroups_.procs_file(*group).string() : std::string{},
                     "--oom-score-adj",
                     std::string{kOomScoreAdjustment},
                     "--log",
                     spec.log_path,
                     "--"};
  child.arguments.insert(child.arguments.end(), spec.arguments.begin(), spec.arguments.end());
  child.environment = child_environment(spec.environment);
  child.environment.push_back(fmt::format("{}={}", kNameVariable, spec.name));

  auto report = make_pipe();
  child.report = report.write.get();
  const auto spawned = report.write ? spawn(child) : Spawned{.pid = 0, .error = errno};
  report.write.reset();
  if (spawned.error != 0) {
    co_return fail("start_failed", fmt::format("cannot start a process: {}", std::strerror(spawned.error)), {},
                   options_.launcher);
  }
  auto pidfd = open_pidfd(spawned.pid);

  // Its end, without a word, is the launcher's exec: from then on the process is the engine.
  LaunchFailure failure;
  std::size_t reported = 0;
  bool expired = false;
  {
    TimedDescriptor pipe{loop_, std::move(report.read)};
    pipe.expire_at(steady_clock::now() + kLaunchLimit);
    reported = co_await pipe.read(reinterpret_cast<char*>(&failure), sizeof failure);
    expired = pipe.expired();
  }
  if (expired || reported == sizeof failure) {
    send_signal(pidfd, SIGKILL);
    co_await ends_before(std::move(pidfd), steady_clock::now() + kLaunchLimit);
    ::waitpid(spawned.pid, nullptr, WNOHANG);
    if (expired) co_return fail("start_failed", "the engine's process did not come up in time", {}, executable);
    co_return fail(launch_error(executable, failure, spec.log_path));
  }

  ports::Instance instance;
  instance.runtime = kRuntimeName;
  instance.pid = spawned.pid;
  // An unreaped child has these, even when it has already ended.
  if (const auto stat = read_stat(spawned.pid)) instance.start_time_ticks = stat->start_time_ticks;
  instance.boot_id = boot_id();
  instance.command_digest = command_digest_of(spawned.pid).value_or(command_digest(spec.arguments));
  if (group) {
    instance.cgroup = group->path;
    instance.cgroup_version = group->version;
  }
  co_return instance;
}

ports::Task<Result<container::Image>> ProcessRuntime::provide_image(std::string reference,
                                                                    ports::PullWatcher /*watcher*/) {
  co_return fail("image_not_found", "a process has no image", {}, std::move(reference));
}

ports::Task<Result<std::string>> ProcessRuntime::output_of(std::vector<std::string> arguments, milliseconds deadline,
                                                           std::string /*image*/) {
  if (arguments.empty()) co_return fail("start_failed", "the command line is empty");
  const std::string executable = arguments.front();
  auto output = make_pipe();
  SpawnOptions child;
  child.arguments = std::move(arguments);
  child.environment = child_environment({});
  child.output = output.write.get();
  const auto spawned = output.write ? spawn(child) : Spawned{.pid = 0, .error = errno};
  output.write.reset();
  if (spawned.error != 0) {
    const LaunchFailure failure{.step = LaunchStep::execute, .error = spawned.error};
    co_return fail(launch_error(executable, failure, {}));
  }
  const auto give_up_at = steady_clock::now() + deadline;

  std::string text;
  bool expired = false;
  {
    TimedDescriptor pipe{loop_, std::move(output.read)};
    pipe.expire_at(give_up_at);
    const Listed listed{waits_, [&pipe] { pipe.expire_now(); }};
    std::string piece(kOutputLimitBytes / 16, '\0');
    while (text.size() < kOutputLimitBytes) {
      const std::size_t got = co_await pipe.read(piece.data(), std::min(piece.size(), kOutputLimitBytes - text.size()));
      if (got == 0) break;
      text.append(piece, 0, got);
    }
    expired = pipe.expired();
  }
  // One that prints without end has said enough.
  if (!expired && text.size() < kOutputLimitBytes) {
    expired = !co_await ends_before(open_pidfd(spawned.pid), give_up_at);
  }
  // The child's number is its own until it is reaped, and so is its group's.
  ::kill(-spawned.pid, SIGKILL);
  co_await ends_before(open_pidfd(spawned.pid), steady_clock::now() + options_.kill_limit);
  ::waitpid(spawned.pid, nullptr, WNOHANG);
  if (waits_->over) co_return fail(shutting_down());
  if (expired) {
    co_return fail("deadline_exceeded", fmt::format("{} did not end within {} ms", executable, deadline.count()), {},
                   executable);
  }
  co_return text;
}

ports::Presence ProcessRuntime::presence(const ports::Instance& instance) {
  const auto pidfd = open_pidfd(instance.pid);
  if (!pidfd) return errno == ESRCH ? ports::Presence::gone : ports::Presence::unreachable;
  if (has_ended(pidfd)) return ports::Presence::gone;
  if (is_same_process(instance)) return ports::Presence::running;
  // Somebody else has the number, or (out of descriptors) we could not look.
  return read_stat(instance.pid) || has_ended(pidfd) ? ports::Presence::gone : ports::Presence::unreachable;
}

ports::Task<> ProcessRuntime::until_known() { co_return; }

std::vector<std::pair<std::string, ports::Instance>> ProcessRuntime::find_owned() {
  return find_owned(marked_members());
}

std::vector<std::pair<std::string, ports::Instance>> ProcessRuntime::find_owned(
    const std::vector<MarkedMember>& marks) {
  std::vector<std::pair<std::string, ports::Instance>> found;
  const auto add = [&found](const std::string& name, std::int64_t pid, std::uint64_t start_time, const Group& group) {
    ports::Instance instance;
    instance.runtime = kRuntimeName;
    instance.pid = pid;
    instance.start_time_ticks = start_time;
    instance.boot_id = boot_id();
    instance.command_digest = command_digest_of(pid).value_or("");
    instance.cgroup = group.path;
    instance.cgroup_version = group.version;
    found.emplace_back(name, std::move(instance));
  };
  for (const auto& group : cgroups_.groups(options_.owned_prefix)) {
    if (const auto first = first_process(cgroups_.members(group))) {
      add(cgroups_.name_of(group), first->pid, first->start_time_ticks, group);
    }
  }
  for (const auto& mark : marks) {
    if (!mark.is_first || !mark.name.starts_with(options_.owned_prefix)) continue;
    const bool known = std::ranges::any_of(found, [&](const auto& owned) { return owned.second.pid == mark.pid; });
    if (!known) add(mark.name, mark.pid, mark.first_start_time_ticks, {.version = 0, .path = {}});
  }
  return found;
}

std::vector<std::pair<std::string, ports::Instance>> ProcessRuntime::find_remains() {
  const auto marks = marked_members();
  auto found = find_owned(marks);
  const auto is_new = [&found](std::string_view cgroup, std::int64_t first_pid) {
    return std::ranges::none_of(found, [&](const auto& owned) {
      return cgroup.empty() ? owned.second.pid == first_pid : owned.second.cgroup == cgroup;
    });
  };
  std::vector<std::int64_t> in_groups;
  for (const auto& group : cgroups_.groups(options_.owned_prefix)) {
    const auto members = cgroups_.members(group);
    in_groups.insert(in_groups.end(), members.begin(), members.end());
    if (members.empty() || !is_new(group.path, 0)) continue;
    ports::Instance instance;
    instance.runtime = kRuntimeName;
    instance.boot_id = boot_id();
    instance.cgroup = group.path;
    instance.cgroup_version = group.version;
    // Its first process is gone: the one that stands for it is any that is left.
    instance.pid = members.front();
    if (const auto stat = read_stat(instance.pid)) instance.start_time_ticks = stat->start_time_ticks;
    found.emplace_back(cgroups_.name_of(group), std::move(instance));
  }
  for (const auto& mark : marks) {
    const bool ours = mark.name.starts_with(options_.owned_prefix);
    const bool in_group = std::ranges::find(in_groups, mark.pid) != in_groups.end();
    if (!ours || in_group || !is_new({}, mark.first_pid)) continue;
    ports::Instance instance;
    instance.runtime = kRuntimeName;
    instance.boot_id = boot_id();
    instance.pid = mark.first_pid;
    instance.start_time_ticks = mark.first_start_time_ticks;
    if (!pids(instance).empty()) found.emplace_back(mark.name, std::move(instance));
  }
  return found;
}

ports::Task<ports::ExitStatus> ProcessRuntime::wait(ports::Instance instance) {
  while (presence(instance) == ports::Presence::unreachable && !waits_->over) co_await pause(kLongestPause);
  const auto pidfd = open_verified(instance);
  if (pidfd) {
    // Asio closes what it watches; the handle is needed again afterwards.
    TimedDescriptor watched{loop_, FileDescriptor{::fcntl(pidfd.get(), F_DUPFD_CLOEXEC, 0)}};
    const Listed listed{waits_, [&watched] { watched.expire_now(); }};
    co_await watched.readable();
  }
  if (waits_->over) co_return ports::ExitStatus{};
  co_return collect(instance, pidfd);
}

std::string ProcessRuntime::find_in_kernel_log(const ports::Instance& instance) const {
  if (!options_.kernel_log || instance.boot_id != boot_id()) return {};
  const auto seen = trees_.find(instance.pid);
  const auto pids = seen == trees_.end() ? std::vector{instance.pid} : seen->second;
  constexpr std::int64_t kMicrosecondsInASecond = 1'000'000;
  const auto started_us = static_cast<std::int64_t>(instance.start_time_ticks) * kMicrosecondsInASecond /
                          std::max<std::int64_t>(::sysconf(_SC_CLK_TCK), 1);
  return host::find_oom_kill(options_.kernel_log(), pids, started_us);
}

ports::ExitStatus ProcessRuntime::collect(const ports::Instance& instance, const FileDescriptor& pidfd) {
  const auto known = std::ranges::find(ended_.items(), instance, &Ended::first);
  if (known != ended_.items().end()) return known->second;

  ports::ExitStatus status;
  siginfo_t info{};
  const bool ours =
      pidfd && ::waitid(P_PIDFD, static_cast<id_t>(pidfd.get()), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0;
  if (ours && info.si_code == CLD_EXITED) status.exit_code = info.si_status;
  if (ours && info.si_code != CLD_EXITED) status.signal = info.si_status;

  // C5: the group is as old as the instance, so any kill that it counted was one of this instance.
  const auto group = group_of(instance);
  const auto memory = instance.boot_id == boot_id() ? cgroups_.read(group) : std::nullopt;
  if (const auto kills = memory ? memory->oom_kills : std::nullopt; kills && *kills > 0) {
    status.oom_killed = true;
    status.evidence = fmt::format("{} of cgroup {}: oom_kill {}",
                                  group.version == 2 ? "memory.events" : "memory.oom_control", group.path, *kills);
  } else if (const auto line = find_in_kernel_log(instance); !line.empty()) {
    status.oom_killed = true;
    status.evidence = "the kernel's log: " + printable(line);
  }
  trees_.erase(instance.pid);
  if (pidfd) ended_.push({instance, status});
  return status;
}

ports::Task<Result<void>> ProcessRuntime::stop(ports::Instance instance, milliseconds grace) {
  const auto kill_at = steady_clock::now() + grace;
  const auto give_up_at = kill_at + options_.kill_limit;
  auto pause_for = kShortestPause;
  while (presence(instance) == ports::Presence::unreachable && steady_clock::now() < give_up_at && !waits_->over) {
    co_await pause(kLongestPause);
  }
  const auto first = open_verified(instance);
  if (first) send_signal(first, SIGTERM);
  bool asked_the_rest = false;
  for (;;) {
    const bool first_ended = !first || has_ended(first);
    const auto left = pids(instance);
    if (first_ended && left.empty()) break;
    const auto now = steady_clock::now();
    if (now >= give_up_at) {
      co_return fail(host::still_running(threads_of(left.empty() ? std::vector{instance.pid} : left),
                                         fmt::format("pid {}", instance.pid)));
    }
    if (now >= kill_at) {
      signal_members(instance, SIGKILL);
    } else if (first_ended && !asked_the_rest) {
      asked_the_rest = true;
      signal_members(instance, SIGTERM);
      pause_for = kShortestPause;  // they are about to end
    }
    if (waits_->over) co_return fail(shutting_down());
    if (first_ended) {
      co_await pause(pause_for);
    } else {
      co_await pause_beside(first, pause_for);
    }
    pause_for = std::min(pause_for * 2, kLongestPause);
    if (steady_clock::now() < kill_at) {
      const auto rest = std::chrono::ceil<milliseconds>(kill_at - steady_clock::now());
      pause_for = std::min(pause_for, std::max(rest, kShortestPause));
    }
  }
  if (first) collect(instance, first);  // a child of ours, too, must not stay behind as a zombie
  co_return Result<void>{};
}

void ProcessRuntime::signal_members(const ports::Instance& instance, int signal) {
  signal_all([&] { return pids(instance); }, signal);
}

std::vector<std::int64_t> ProcessRuntime::pids(const ports::Instance& instance) {
  if (instance.cgroup.empty()) {
    auto members = processes_.tree_members(instance);
    // An engine may end because one that it had started was killed: its number must be known then.
    if (!members.empty()) trees_[instance.pid] = members;
    return members;
  }
  return instance.boot_id == boot_id() ? cgroups_.members(group_of(instance)) : std::vector<std::int64_t>{};
}

std::optional<memory::Measured> ProcessRuntime::measure(const ports::Instance& instance,
                                                        const std::vector<std::int64_t>& pids) {
  if (pids.empty()) return std::nullopt;
  memory::Measured measured;
  if (!instance.cgroup.empty()) {
    const auto memory = cgroups_.read(group_of(instance));
    if (!memory) return std::nullopt;
    measured.anon = memory->anon;  // B6
    measured.kernel = memory->kernel;
    measured.shmem = memory->shmem;
    return measured;
  }
  // Shared memory is counted once for each process that maps it, kernel memory not at all: close, not exact.
  measured.approximate = true;
  const auto add = [](std::optional<Bytes>& sum, std::optional<Bytes> part) {
    if (part) sum = sum.value_or(Bytes{}) + *part;
  };
  for (const auto pid : pids) {
    const auto memory = read_memory(pid);
    add(measured.anon, memory.rss_anon);
    add(measured.shmem, memory.rss_shmem);
  }
  return measured;
}

void ProcessRuntime::forget(const ports::Instance& instance) {
  if (const auto pidfd = open_verified(instance); pidfd && has_ended(pidfd)) collect(instance, pidfd);
  if (!instance.cgroup.empty()) cgroups_.remove(group_of(instance));
}

void ProcessRuntime::remove_leftovers() {
  // Once: a group that is empty later may be one that its engine is about to enter.
  if (!std::exchange(leftovers_removed_, true)) cgroups_.remove_leftovers(options_.owned_prefix);
}

}  // namespace dgxmm::process
