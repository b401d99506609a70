#include "adapters/process/process_runtime.h"

#include "adapters/host/kernel_log.h"
#include "adapters/process/process_table.h"
#include "unit/adapters/process/process_support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace dgxmm::process {
namespace {

using namespace std::chrono_literals;
using ports::Presence;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

using ProcessRuntimeTest = ProcessTest;

// Beginnings of engines' names. Each test looks through all processes of the host, and others run beside it.
const std::string kOurs = fmt::format("dgxmm-abc{}-", ::getpid());
const std::string kOthers = fmt::format("dgxmm-abc{}d-", ::getpid());

TEST_F(ProcessRuntimeTest, TheStartedProcessIsTheEngineItself) {
  const auto instance = start(shell("echo \"pid $$\"; exec sleep 1000"));
  EXPECT_EQ(instance.runtime, "process");
  EXPECT_GT(instance.start_time_ticks, 0U);
  EXPECT_EQ(runtime_->presence(instance), Presence::running);
  EXPECT_TRUE(log_has(fmt::format("pid {}", instance.pid)));
}

TEST_F(ProcessRuntimeTest, TheEngineLeadsItsOwnSessionWithNothingInherited) {
  // A descriptor without close-on-exec and a blocked signal, as a careless library leaves them.
  const int leaked = ::open("/dev/null", O_RDONLY);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const auto pipe_handler = std::signal(SIGPIPE, SIG_IGN);
  const auto instance =
      start(shell("ls /proc/self/fd | tr '\\n' ' '; echo; readlink /proc/$$/fd/0; "
                  "grep -E 'SigBlk|SigIgn' /proc/$$/status | tr '\\t' ' '; echo end; exec sleep 1000"));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::signal(SIGPIPE, pipe_handler);
  ::close(leaked);
  ASSERT_TRUE(log_has("end"));
  const auto lines = tail(log(), 10);
  EXPECT_EQ(lines.at(0), "0 1 2 3 ");  // 3 is the folder that ls reads
  EXPECT_EQ(lines.at(1), "/dev/null");
  EXPECT_EQ(lines.at(2), "SigBlk: 0000000000000000");
  EXPECT_EQ(lines.at(3), "SigIgn: 0000000180000000");  // 32 and 33: glibc keeps them from every spawned child
  EXPECT_EQ(read_stat(instance.pid)->session, instance.pid);
}

TEST_F(ProcessRuntimeTest, TheOomKillerPrefersTheEngine) {
  const auto instance = start(shell("exec sleep 1000"));
  EXPECT_EQ(read_text_file(fmt::format("/proc/{}/oom_score_adj", instance.pid)), "500\n");
}

TEST_F(ProcessRuntimeTest, TheLogIsForItsOwnerAndIsAppendedTo) {
  std::ofstream{log()} << "before\n";
  std::filesystem::remove(log());
  start(shell("echo one; echo two >&2; exec sleep 1000"));
  ASSERT_TRUE(log_has("two"));
  struct stat status{};
  ASSERT_EQ(::stat(log().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  start(shell("echo three; exec sleep 1000"));
  ASSERT_TRUE(log_has("three"));
  EXPECT_EQ(tail(log(), 10), (std::vector<std::string>{"one", "two", "three"}));
}

TEST_F(ProcessRuntimeTest, AMissingEngineIsNamedWithTheSettingThatFixesIt) {
  const auto result = run(runtime_->start(spec({"/no/such/llama-server", "--port", "1"})));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "engine_not_found");
  EXPECT_THAT(result.error().message, HasSubstr("/no/such/llama-server"));
  EXPECT_THAT(result.error().hint, HasSubstr("llama_server"));
}

TEST_F(ProcessRuntimeTest, AnEngineThatCannotBeExecutedSaysWhy) {
  const auto file = folder_.path() / "engine";
  std::ofstream{file} << "not a program";
  ::chmod(file.c_str(), 0600);
  const auto result = run(runtime_->start(spec({file.string()})));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "start_failed");
  EXPECT_THAT(result.error().message, AllOf(HasSubstr(file.string()), HasSubstr("Permission denied")));
}

TEST_F(ProcessRuntimeTest, ALogThatCannotBeWrittenIsNamed) {
  auto wanted = shell("exit 0");
  wanted.log_path = (folder_.path() / "no-folder" / "log").string();
  const auto result = run(runtime_->start(wanted));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "start_failed");
  EXPECT_EQ(result.error().where, wanted.log_path);
}

TEST_F(ProcessRuntimeTest, AFailedStartLeavesNoProcessBehind) {
  ASSERT_FALSE(run(runtime_->start(spec({"/no/such/engine"}))));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ProcessRuntimeTest, AMissingLauncherIsAnError) {
  auto without = options();
  without.launcher = "/no/such/dgxmm";
  ProcessRuntime runtime{loop_, without};
  const auto result = run(runtime.start(shell("exit 0")));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "start_failed");
}

TEST_F(ProcessRuntimeTest, WaitTellsTheExitCode) {
  const auto instance = start(shell("exit 7"));
  const auto status = run(runtime_->wait(instance));
  EXPECT_EQ(status.exit_code, 7);
  EXPECT_EQ(status.signal, std::nullopt);
  EXPECT_FALSE(status.oom_killed);
  EXPECT_EQ(runtime_->presence(instance), Presence::gone);
}

TEST_F(ProcessRuntimeTest, WaitTellsTheSignalAndABareKillIsNoOutOfMemory) {
  const auto instance = start(shell("kill -KILL $$"));
  const auto status = run(runtime_->wait(instance));
  EXPECT_EQ(status.exit_code, std::nullopt);
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_FALSE(status.oom_killed);  // C5
}

TEST_F(ProcessRuntimeTest, EveryoneWhoWaitsLearnsTheStatus) {
  const auto instance = start(shell("exit 3"));
  EXPECT_EQ(run(runtime_->wait(instance)).exit_code, 3);
  runtime_->forget(instance);
  EXPECT_EQ(run(runtime_->wait(instance)).exit_code, 3);
}

TEST_F(ProcessRuntimeTest, AProcessThatEndedButWasNotWaitedForIsGone) {
  const auto instance = start(shell("exit 0"));
  EXPECT_TRUE(becomes_true([&] { return runtime_->presence(instance) == Presence::gone; }));
  EXPECT_TRUE(runtime_->pids(instance).empty());
  EXPECT_EQ(measure(instance), std::nullopt);
  runtime_->forget(instance);
  EXPECT_FALSE(read_stat(instance.pid)) << "a zombie was left";
}

TEST_F(ProcessRuntimeTest, TheEnvironmentIsTheDaemonsWithoutItsSecretsAndWithWhatWasAdded) {
  ::setenv("DGXMM_TOKEN", "secret", 1);
  ::setenv("NOTIFY_SOCKET", "/run/notify", 1);
  auto wanted = shell("env | grep -E 'DGXMM_TOKEN|NOTIFY|CUDA_X|PATH='; echo end; exec sleep 1000");
  wanted.environment = {{"CUDA_X", "a b"}};
  start(wanted);
  ASSERT_TRUE(log_has("end"));
  ::unsetenv("DGXMM_TOKEN");
  ::unsetenv("NOTIFY_SOCKET");
  const auto lines = tail(log(), 10);
  EXPECT_THAT(lines, Contains("CUDA_X=a b"));
  EXPECT_THAT(lines, Contains(HasSubstr("PATH=")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("secret"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("NOTIFY"))));
}

// --- identity
// ---------------------------------------------------------------------------------------------------------

TEST_F(ProcessRuntimeTest, AnotherDaemonAdoptsTheEngineAndCanStopIt) {
  const auto instance = start(shell("exec sleep 1000"));
  auto second = make_runtime();
  EXPECT_EQ(second->presence(instance), Presence::running);
  EXPECT_THAT(second->pids(instance), testing::ElementsAre(instance.pid));
  EXPECT_TRUE(run(second->stop(instance, 5s)));
  EXPECT_EQ(second->presence(instance), Presence::gone);
}

TEST_F(ProcessRuntimeTest, AnAdoptedEngineThatIsNotOurChildEndsWithoutAStatus) {
  // The launcher's parent is a child of ours that dies: the engine is re-parented, as after kill -9 of the daemon.
  const auto result_file = folder_.path() / "instance";
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    boost::asio::io_context loop;
    ProcessRuntime runtime{loop, options()};
    auto started = boost::asio::co_spawn(loop, runtime.start(shell("exec sleep 1000")), boost::asio::use_future);
    loop.run();
    const auto instance = started.get();
    if (!instance) ::_exit(1);
    std::ofstream{result_file} << instance->pid << ' ' << instance->start_time_ticks << ' ' << instance->command_digest;
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(daemon, &status, 0), daemon);
  ASSERT_TRUE(WIFSIGNALED(status));
  ports::Instance instance;
  instance.boot_id = boot_id();
  std::ifstream{result_file} >> instance.pid >> instance.start_time_ticks >> instance.command_digest;

  EXPECT_EQ(runtime_->presence(instance), Presence::running);
  bool ended = false;
  ports::ExitStatus exit{.exit_code = 99, .signal = {}, .oom_killed = {}, .evidence = {}};
  boost::asio::co_spawn(loop_, runtime_->wait(instance), [&](const std::exception_ptr&, ports::ExitStatus found) {
    ended = true;
    exit = std::move(found);
  });
  EXPECT_TRUE(run(runtime_->stop(instance, 5s)));
  EXPECT_TRUE(ended);
  EXPECT_EQ(exit.exit_code, std::nullopt);
  EXPECT_EQ(exit.signal, std::nullopt);
  EXPECT_EQ(runtime_->presence(instance), Presence::gone);
}

TEST_F(ProcessRuntimeTest, AReusedPidIsNotTheEngineAndIsNotHarmed) {
  const auto stranger = start(shell("exec sleep 1000"));
  auto old = stranger;
  old.start_time_ticks -= 1;
  EXPECT_EQ(runtime_->presence(old), Presence::gone);
  EXPECT_TRUE(runtime_->pids(old).empty());
  EXPECT_EQ(measure(old), std::nullopt);
  EXPECT_TRUE(run(runtime_->stop(old, 0ms)));
  EXPECT_EQ(runtime_->presence(stranger), Presence::running);
}

TEST_F(ProcessRuntimeTest, AnEngineOfAnEarlierBootIsGone) {
  auto old = start(shell("exec sleep 1000"));
  old.boot_id = "00000000-0000-0000-0000-000000000000";
  EXPECT_EQ(runtime_->presence(old), Presence::gone);
  EXPECT_TRUE(runtime_->pids(old).empty());
  EXPECT_TRUE(run(runtime_->stop(old, 0ms)));
}

TEST_F(ProcessRuntimeTest, AProcessWithAnotherCommandThatLeadsNoSessionIsNotTheEngine) {
  const auto engine = start(shell("sleep 1000 & echo \"child $!\"; wait"));
  ASSERT_TRUE(becomes_true([&] { return tail(log(), 1).size() == 1; }));
  ports::Instance claimed = engine;
  claimed.pid = std::stoll(tail(log(), 1).front().substr(6));
  claimed.start_time_ticks = read_stat(claimed.pid)->start_time_ticks;
  const std::vector<std::string> command{"sleep", "1000"};
  ASSERT_TRUE(becomes_true([&] { return command_digest_of(claimed.pid) == command_digest(command); }));
  EXPECT_EQ(runtime_->presence(claimed), Presence::gone);
}

TEST_F(ProcessRuntimeTest, AWrapperScriptThatExecsStaysTheSameEngine) {
  const auto instance =
      start(shell("while [ ! -e " + (folder_.path() / "go").string() + " ]; do :; done; exec sleep 1000"));
  EXPECT_EQ(command_digest_of(instance.pid), instance.command_digest);
  std::ofstream go{folder_.path() / "go"};
  ASSERT_TRUE(becomes_true(
      [&] { return command_digest_of(instance.pid) == command_digest(std::vector<std::string>{"sleep", "1000"}); }));
  EXPECT_EQ(runtime_->presence(instance), Presence::running);
}

TEST_F(ProcessRuntimeTest, OutOfDescriptorsIsUnreachableAndNotGone) {
  const auto instance = start(shell("exec sleep 1000"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto seen = runtime_->presence(instance);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(seen, Presence::unreachable);
}

TEST_F(ProcessRuntimeTest, FindsAnEngineThatTheStoreHasNeverHeardOf) {
  const auto instance = start(spec({"sleep", "1000"}, kOurs + "7"));
  const auto owned = make_runtime()->find_owned();
  EXPECT_THAT(owned, Contains(std::pair{kOurs + "7", instance}));
}

TEST_F(ProcessRuntimeTest, EnginesOfAnotherDaemonAreNotFound) {
  const auto instance = start(spec({"sleep", "1000"}, kOurs + "7"));
  start(spec({"sleep", "1000"}, kOthers + "7"));
  auto ours = options();
  ours.owned_prefix = kOurs;
  EXPECT_THAT(ProcessRuntime(loop_, ours).find_owned(), testing::ElementsAre(std::pair{kOurs + "7", instance}));
}

// --- when the loop stops
// ----------------------------------------------------------------------------------------------

TEST_F(ProcessRuntimeTest, EndWaits_WhoeverWaitsForAnEndReturnsAndTheEngineGoesOn) {
  const auto instance = start(shell("exec sleep 1000"));
  auto runtime = make_runtime();
  int ended = 0;
  const auto count = [&](const std::exception_ptr& failure, const ports::ExitStatus& status) {
    if (!failure && !status.exit_code && !status.signal) ++ended;
  };
  boost::asio::co_spawn(loop_, runtime->wait(instance), count);
  loop_.restart();
  loop_.poll();
  EXPECT_EQ(ended, 0);
  runtime->end_waits();
  boost::asio::co_spawn(loop_, runtime->wait(instance), count);  // and who comes later
  EXPECT_TRUE(runs_until([&] { return ended == 2; }));
  EXPECT_EQ(runtime->presence(instance), Presence::running);
}

TEST_F(ProcessRuntimeTest, EndWaits_TheStatusIsLeftForTheNextDaemon) {
  const auto instance = start(shell("exit 3"));
  EXPECT_TRUE(becomes_true([&] { return runtime_->presence(instance) == Presence::gone; }));
  auto runtime = make_runtime();
  runtime->end_waits();
  EXPECT_EQ(run(runtime->wait(instance)).exit_code, std::nullopt);
  EXPECT_EQ(run(runtime_->wait(instance)).exit_code, 3);
}

TEST_F(ProcessRuntimeTest, EndWaits_AStopReturnsWithinItsGraceAndHasAsked) {
  const auto instance = start(shell("trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done"));
  ASSERT_TRUE(log_has("up"));
  auto runtime = make_runtime();
  std::optional<Result<void>> stopped;
  boost::asio::co_spawn(loop_, runtime->stop(instance, std::chrono::hours{1}),
                        [&](const std::exception_ptr& failure, Result<void> result) {
                          if (!failure) stopped = std::move(result);
                        });
  ASSERT_TRUE(runs_until([&] { return tail(log(), 1) == std::vector<std::string>{"asked"}; }));
  EXPECT_FALSE(stopped);
  runtime->end_waits();
  ASSERT_TRUE(runs_until([&] { return stopped.has_value(); }));
  ASSERT_FALSE(*stopped);
  EXPECT_EQ(stopped->error().code, "shutting_down");
  EXPECT_EQ(runtime->presence(instance), Presence::running);
}

TEST_F(ProcessRuntimeTest, EndWaits_AShortCommandIsEnded) {
  std::optional<Result<std::string>> printed;
  boost::asio::co_spawn(loop_, runtime_->output_of({"sleep", "1000"}, std::chrono::hours{1}, {}),
                        [&](const std::exception_ptr& failure, Result<std::string> result) {
                          if (!failure) printed = std::move(result);
                        });
  loop_.restart();
  loop_.poll();
  EXPECT_FALSE(printed);
  runtime_->end_waits();
  ASSERT_TRUE(runs_until([&] { return printed.has_value(); }));
  ASSERT_FALSE(*printed);
  EXPECT_EQ(printed->error().code, "shutting_down");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

// --- stopping
// ---------------------------------------------------------------------------------------------------------

TEST_F(ProcessRuntimeTest, StopAsksFirst) {
  const auto instance = start(shell("trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done"));
  ASSERT_TRUE(log_has("up"));
  EXPECT_TRUE(run(runtime_->stop(instance, kPatience)));
  EXPECT_TRUE(log_has("asked"));
  EXPECT_EQ(run(runtime_->wait(instance)).exit_code, 0);
}

TEST_F(ProcessRuntimeTest, StopKillsWhatIgnoresIt) {
  const auto instance = start(shell("trap '' TERM; echo up; while :; do sleep 0.01; done"));
  ASSERT_TRUE(log_has("up"));
  EXPECT_TRUE(run(runtime_->stop(instance, 1ms)));
  EXPECT_EQ(run(runtime_->wait(instance)).signal, SIGKILL);
}

TEST_F(ProcessRuntimeTest, StopLeavesNoGrandchild) {
  const auto instance = start(
      shell("trap '' TERM; (trap '' TERM; sh -c 'sleep 1000' & echo \"child $!\"; wait) & echo up; wait; sleep 1000"));
  ASSERT_TRUE(becomes_true([&] { return runtime_->pids(instance).size() >= 3; }));
  const auto family = runtime_->pids(instance);
  EXPECT_TRUE(run(runtime_->stop(instance, 1ms)));
  for (const auto pid : family) {
    const auto stat = read_stat(pid);
    EXPECT_TRUE(!stat || stat->state == 'Z') << pid << " is still there";
  }
}

TEST_F(ProcessRuntimeTest, OrphansOfAnEngineThatDiedAreFoundAndStopped) {
  const auto instance = start(shell("trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.01; done' & exit 1"));
  EXPECT_EQ(run(runtime_->wait(instance)).exit_code, 1);
  EXPECT_FALSE(runtime_->pids(instance).empty());
  EXPECT_TRUE(measure(instance)) << "its memory counts until it is gone";
  EXPECT_TRUE(run(runtime_->stop(instance, 1ms)));
  EXPECT_TRUE(runtime_->pids(instance).empty());
}

TEST_F(ProcessRuntimeTest, D1_WhatAnEngineLeftBehindIsFoundWithoutTheStoreAndStopped) {
  auto ours = options();
  ours.owned_prefix = fmt::format("dgxmm-left-{}-", ::getpid());
  ProcessRuntime runtime{loop_, ours};
  const auto instance = start(
      spec({"/bin/sh", "-c", "trap '' TERM; sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.01; done' & exit 1"},
           ours.owned_prefix + "7"));
  EXPECT_EQ(run(runtime_->wait(instance)).exit_code, 1);
  ASSERT_TRUE(log_has("up"));
  EXPECT_TRUE(runtime.find_owned().empty()) << "its first process is gone";
  const auto remains = runtime.find_remains();
  ASSERT_EQ(remains.size(), 1U);
  EXPECT_EQ(remains[0].first, ours.owned_prefix + "7");
  EXPECT_FALSE(runtime.pids(remains[0].second).empty());
  EXPECT_TRUE(run(runtime.stop(remains[0].second, 1ms)));
  EXPECT_TRUE(runtime.pids(remains[0].second).empty());
  EXPECT_TRUE(runtime.find_remains().empty());
}

TEST_F(ProcessRuntimeTest, D4_AProcessThatIsStuckInTheKernelIsReportedAndStaysCounted) {
  // A frozen v1 group is the one way to make a process that SIGKILL does not end.
  const std::filesystem::path freezer{fmt::format("/sys/fs/cgroup/freezer/dgxmm-test-{}", ::getpid())};
  if (::mkdir(freezer.c_str(), 0755) != 0 || !std::filesystem::exists(freezer / "freezer.state")) {
    GTEST_SKIP() << "no v1 freezer here";
  }
  auto impatient = options();
  impatient.kill_limit = 50ms;
  ProcessRuntime runtime{loop_, impatient};
  const auto instance = start(spec({"sleep", "1000"}));
  std::ofstream{freezer / "cgroup.procs"} << instance.pid;
  std::ofstream{freezer / "freezer.state"} << "FROZEN";
  const bool frozen = becomes_true([&] { return read_text_file(freezer / "freezer.state") == "FROZEN\n"; });
  const auto stopped = run(runtime.stop(instance, 0ms));
  const auto presence = runtime.presence(instance);
  const auto held = measure(instance);
  std::ofstream{freezer / "freezer.state"} << "THAWED";
  run(runtime_->wait(instance));
  ::rmdir(freezer.c_str());

  ASSERT_TRUE(frozen);
  EXPECT_EQ(presence, Presence::running);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, "still_running");
  EXPECT_THAT(stopped.error().message,
              AllOf(HasSubstr(fmt::format("{}", instance.pid)), HasSubstr("stuck in the driver")));
  EXPECT_THAT(stopped.error().hint, HasSubstr("reboot"));
  EXPECT_TRUE(held);
}

TEST_F(ProcessRuntimeTest, StoppingWhatHasEndedIsDone) {
  const auto instance = start(shell("exit 0"));
  run(runtime_->wait(instance));
  EXPECT_TRUE(run(runtime_->stop(instance, 0ms)));
}

// --- measuring
// --------------------------------------------------------------------------------------------------------

TEST_F(ProcessRuntimeTest, B6_WithoutACgroupTheTreeIsMeasuredAndSaysSo) {
  const auto instance = start(spec(
      {"/bin/sh", "-c", std::string{"echo up; "} + DGXMM_EAT_MEMORY + " 48 0 & exec " + DGXMM_EAT_MEMORY + " 16 24"}));
  EXPECT_EQ(instance.cgroup, "");
  EXPECT_TRUE(becomes_true([&] {
    const auto lines = tail(log(), 10);
    return std::ranges::count(lines, "ready") == 2;
  }));
  const auto measured = measure(instance);
  ASSERT_TRUE(measured);
  EXPECT_TRUE(measured->approximate);
  EXPECT_GE(measured->anon.value(), mib(64));
  EXPECT_LT(measured->anon.value(), mib(80));
  EXPECT_GE(measured->shmem.value(), mib(24));
  EXPECT_LT(measured->shmem.value(), mib(28));
  EXPECT_EQ(measured->kernel, std::nullopt);
}

// What the table remembers must tell the same as reading every process anew.
TEST_F(ProcessRuntimeTest, B6_TheTreeIsFollowedWhileProcessesStartAndEnd) {
  const auto instance = start(shell(
      "sleep 1001 & echo \"one $!\"; setsid sleep 1002 & trap 'sleep 1003 & echo two' USR1; while :; do wait; done"));
  ProcessTable table;
  const auto look = [&] {
    auto members = table.tree_members(instance);
    std::ranges::sort(members);
    return members;
  };
  const auto anew = [&] {
    auto members = ProcessTable{}.tree_members(instance);
    std::ranges::sort(members);
    return members;
  };
  const auto own_sessions = [&] {
    return std::ranges::count_if(anew(), [](auto pid) {
      const auto stat = read_stat(pid);
      return stat && stat->session == pid;
    });
  };
  ASSERT_TRUE(becomes_true([&] { return look().size() == 3; }));
  ASSERT_TRUE(becomes_true([&] { return own_sessions() == 2; })) << "the second child leads a session of its own";
  EXPECT_EQ(look(), anew());

  ::kill(static_cast<pid_t>(instance.pid), SIGUSR1);
  ASSERT_TRUE(log_has("two"));
  EXPECT_EQ(look().size(), 4U);
  EXPECT_EQ(look(), anew());

  const auto members = look();
  const auto child = *std::ranges::find_if(members, [&](auto pid) {
    const auto stat = read_stat(pid);
    return pid != instance.pid && stat && stat->session == instance.pid;
  });
  ::kill(static_cast<pid_t>(child), SIGKILL);
  EXPECT_TRUE(becomes_true([&] {
    const auto left = look();
    return std::ranges::find(left, child) == left.end();
  }));
  EXPECT_EQ(look(), anew());

  // Its first process is gone: what left the session is nobody's any more, what stayed is found by its environment.
  ::kill(static_cast<pid_t>(instance.pid), SIGKILL);
  run(runtime_->wait(instance));
  EXPECT_EQ(look(), anew());
  EXPECT_EQ(look().size(), 1U);
  for (const auto pid : members) {
    if (pid != instance.pid && pid != child) ::kill(static_cast<pid_t>(pid), SIGKILL);
  }
}

TEST_F(ProcessRuntimeTest, B7_TheGpuPartIsNotItsToKnow) {
  const auto instance = start(shell("exec sleep 1000"));
  EXPECT_EQ(measure(instance).value().gpu, std::nullopt);
}

TEST_F(ProcessRuntimeTest, B6_ACgroupMeasuresEachPartOnItsOwn) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  const auto instance = start(spec({DGXMM_EAT_MEMORY, "64", "32"}));
  ASSERT_NE(instance.cgroup, "");
  ASSERT_TRUE(log_has("ready"));
  // The kernel's counters lag behind by some pages for each CPU.
  EXPECT_TRUE(becomes_true([&] {
    const auto measured = measure(instance);
    return measured && measured->anon >= mib(63) && measured->anon < mib(72) && measured->shmem >= mib(31) &&
           measured->shmem < mib(36) && measured->kernel > Bytes{};
  })) << fmt::format("anon {}, shmem {}", measure(instance)->anon->count(), measure(instance)->shmem->count());
  EXPECT_FALSE(measure(instance)->approximate);
  EXPECT_THAT(runtime_->pids(instance), testing::ElementsAre(instance.pid));
}

TEST_F(ProcessRuntimeTest, B6_ChildrenThatLeftTheSessionAreInTheCgroup) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  const auto instance = start(shell("setsid -f sleep 1000; exec sleep 1000"));
  EXPECT_TRUE(becomes_true([&] { return runtime_->pids(instance).size() == 2; }));
  EXPECT_TRUE(run(runtime_->stop(instance, 1s)));
  EXPECT_TRUE(runtime_->pids(instance).empty());
}

TEST_F(ProcessRuntimeTest, ForgetRemovesTheCgroupAndAfterThatNothingIsMeasured) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  const auto instance = start(shell("exec sleep 1000"));
  EXPECT_TRUE(run(runtime_->stop(instance, 1s)));
  EXPECT_EQ(measure(instance), std::nullopt);
  runtime_->forget(instance);
  MemoryCgroups cgroups{"/", cgroup_parent_};
  EXPECT_TRUE(cgroups.groups("").empty());
  EXPECT_EQ(measure(instance), std::nullopt);
}

TEST_F(ProcessRuntimeTest, ForgetDoesNotRemoveAGroupThatStillHoldsProcesses) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  const auto instance = start(shell("exec sleep 1000"));
  runtime_->forget(instance);
  EXPECT_EQ(runtime_->presence(instance), Presence::running);
  EXPECT_TRUE(measure(instance));
}

TEST_F(ProcessRuntimeTest, EmptyGroupsOfEarlierDaemonsAreRemovedAtTheFirstStart) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  MemoryCgroups cgroups{"/", cgroup_parent_};
  ASSERT_TRUE(cgroups.create(kOurs + "7"));
  const auto of_another_daemon = cgroups.create("dgxmm-def-7");
  ASSERT_TRUE(of_another_daemon);
  auto ours = options();
  ours.owned_prefix = kOurs;
  runtime_ = std::make_unique<ProcessRuntime>(loop_, ours);
  const auto running = start(spec({"sleep", "1000"}, kOurs + "8"));
  EXPECT_THAT(cgroups.groups(kOurs), SizeIs(1));
  EXPECT_EQ(runtime_->presence(running), Presence::running);
  EXPECT_THAT(cgroups.groups("dgxmm-def-"), SizeIs(1)) << "it may be about to be entered, or hold the proof of a kill";
  cgroups.remove(*of_another_daemon);
}

TEST_F(ProcessRuntimeTest, EnginesOfAnotherDaemonAreNotFoundByTheirCgroups) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  auto ours = options();
  ours.owned_prefix = kOurs;
  start(spec({"sleep", "1000"}, kOthers + "7"));
  EXPECT_TRUE(ProcessRuntime(loop_, ours).find_owned().empty());
}

TEST_F(ProcessRuntimeTest, FindsAnEngineByItsCgroupWhenItsEnvironmentIsGone) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  const auto instance = start(spec({"/bin/sh", "-c", "exec env -i sleep 1000"}, kOurs + "8"));
  ASSERT_TRUE(becomes_true(
      [&] { return command_digest_of(instance.pid) == command_digest(std::vector<std::string>{"sleep", "1000"}); }));
  const auto owned = make_runtime()->find_owned();
  const auto found = std::ranges::find(owned, kOurs + "8", &std::pair<std::string, ports::Instance>::first);
  ASSERT_NE(found, owned.end());
  EXPECT_EQ(found->second.pid, instance.pid);
  EXPECT_EQ(found->second.cgroup, instance.cgroup);
}

TEST_F(ProcessRuntimeTest, C5_AnOomKillIsProvenByTheCgroupsCounter) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  const auto host = find_cgroup_host(*read_text_file("/proc/self/mountinfo"), *read_text_file("/proc/self/cgroup"));
  const auto parent = host->mount / std::filesystem::path{*cgroup_parent_}.relative_path();
  std::ofstream{parent / (host->version == 2 ? "memory.max" : "memory.limit_in_bytes")} << mib(48).count();
  const auto instance = start(spec({DGXMM_EAT_MEMORY, "256"}));
  const auto status = run(runtime_->wait(instance));
  if (status.exit_code) GTEST_SKIP() << "the limit was not enforced";
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_TRUE(status.oom_killed);
  EXPECT_THAT(status.evidence, AllOf(HasSubstr(instance.cgroup), HasSubstr("oom_kill 1")));
}

TEST_F(ProcessRuntimeTest, C5_AnOomKillWhileNoDaemonRanIsStillFound) {
  if (!with_cgroup()) GTEST_SKIP() << "no memory cgroup can be made here";
  const auto host = find_cgroup_host(*read_text_file("/proc/self/mountinfo"), *read_text_file("/proc/self/cgroup"));
  const auto parent = host->mount / std::filesystem::path{*cgroup_parent_}.relative_path();
  std::ofstream{parent / (host->version == 2 ? "memory.max" : "memory.limit_in_bytes")} << mib(48).count();
  const auto instance = start(spec({DGXMM_EAT_MEMORY, "256"}));
  run(runtime_->wait(instance));
  auto later = make_runtime();
  EXPECT_EQ(later->presence(instance), Presence::gone);
  EXPECT_TRUE(run(later->wait(instance)).oom_killed);
}

TEST_F(ProcessRuntimeTest, C5_WithoutACgroupOfItsOwnTheKernelsLineProvesThatAChildWasKilled) {
  const auto parent = own_cgroup_for_tests();
  if (!parent) GTEST_SKIP() << "no memory cgroup can be made here";
  if (host::read_kernel_log().empty()) GTEST_SKIP() << "the kernel's log may not be read here";
  auto reading = options();
  reading.kernel_log = host::read_kernel_log;
  runtime_ = std::make_unique<ProcessRuntime>(loop_, reading);
  const auto instance = start(shell(std::string{DGXMM_EAT_MEMORY} + " 16 0 256 & child=$!; wait $child; exit 1"));
  ASSERT_TRUE(log_has("ready"));
  // Somebody else's group, with a limit: the one way to make the kernel kill it and nothing else.
  MemoryCgroups cgroups{"/", parent};
  const auto group = cgroups.create("somebody");
  ASSERT_TRUE(group);
  const auto folder = cgroups.procs_file(*group).parent_path();
  std::ofstream{folder / (group->version == 2 ? "memory.max" : "memory.limit_in_bytes")} << mib(48).count();
  const auto members = runtime_->pids(instance);
  const auto child = std::ranges::find_if(members, [&](auto pid) { return pid != instance.pid; });
  ASSERT_NE(child, members.end());
  std::ofstream{cgroups.procs_file(*group)} << *child;
  ::kill(static_cast<pid_t>(*child), SIGUSR1);
  const auto status = run(runtime_->wait(instance));
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_TRUE(status.oom_killed);
  EXPECT_THAT(status.evidence, AllOf(HasSubstr("CONSTRAINT_MEMCG"), HasSubstr(fmt::format("pid={},", *child))));
  cgroups.remove(*group);
  ::rmdir(folder.parent_path().c_str());
}

// --- short commands
// ---------------------------------------------------------------------------------------------------

TEST_F(ProcessRuntimeTest, OutputOfIsStdoutAndStderr) {
  EXPECT_EQ(run(runtime_->output_of({"sh", "-c", "echo out; echo err >&2; exit 1"}, kPatience, {})), "out\nerr\n");
}

TEST_F(ProcessRuntimeTest, OutputOfAMissingProgramIsEngineNotFound) {
  const auto result = run(runtime_->output_of({"no-such-llama-server", "--help"}, kPatience, {}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "engine_not_found");
}

TEST_F(ProcessRuntimeTest, OutputOfEndsACommandAtItsDeadlineWithItsChildren) {
  const auto result = run(runtime_->output_of({"sh", "-c", "sleep 1000 & sleep 1000"}, 20ms, {}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "deadline_exceeded");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

TEST_F(ProcessRuntimeTest, OutputOfACommandThatClosesItsOutputAndStaysEndsAtTheDeadline) {
  const auto result = run(runtime_->output_of({"sh", "-c", "exec >&- 2>&-; sleep 1000"}, 20ms, {}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "deadline_exceeded");
}

TEST_F(ProcessRuntimeTest, OutputOfACommandThatPrintsForeverIsBounded) {
  const auto result = run(runtime_->output_of({"yes"}, kPatience, {}));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->size(), 1024U * 1024U);
}

}  // namespace
}  // namespace dgxmm::process
