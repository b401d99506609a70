#include "adapters/docker/docker_runtime.h"

#include "adapters/host/kernel_log.h"
#include "adapters/process/cgroup.h"
#include "adapters/process/log_file.h"
#include "adapters/system/tcp_ports.h"
#include "docker/dockerd.h"
#include "docker/engine_proxy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace dgxmm::docker {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr auto kPrefix = "dgxmm-0000test-";

/// One run of the daemon: a runtime on a loop of its own.
class Daemon {
 public:
  /// `groups`: where its memory cgroups are looked up.
  Daemon(const std::string& socket, const std::string& network,
         const std::function<void(DockerRuntimeOptions&)>& change = {}, const std::filesystem::path& groups = "/")
      : groups_(groups),
        runtime_(loop_.loop, http_, groups_, logs_, options(socket, network, change)) {
    loop_.on_loop([this] {
      runtime_.begin();
      return 0;
    });
  }
  ~Daemon() { loop_.stop(); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  Result<ports::Instance> start(ports::InstanceSpec spec) { return loop_.run(runtime_.start(std::move(spec))); }
  Result<void> stop(const ports::Instance& instance, std::chrono::milliseconds grace = 10s) {
    return loop_.run(runtime_.stop(instance, grace));
  }
  Result<std::string> output_of(std::vector<std::string> arguments, std::string image) {
    return loop_.run(runtime_.output_of(std::move(arguments), 60s, std::move(image)));
  }
  ports::Presence presence(const ports::Instance& instance) {
    return loop_.on_loop([&] { return runtime_.presence(instance); });
  }
  std::optional<memory::Measured> measure(const ports::Instance& instance) {
    return loop_.on_loop([&] { return runtime_.measure(instance, runtime_.pids(instance)); });
  }
  std::vector<std::int64_t> pids(const ports::Instance& instance) {
    return loop_.on_loop([&] { return runtime_.pids(instance); });
  }
  std::vector<std::pair<std::string, ports::Instance>> find_owned() {
    return loop_.on_loop([&] { return runtime_.find_owned(); });
  }
  std::optional<Error> problem() {
    return loop_.on_loop([&] { return runtime_.problem(); });
  }
  void forget(const ports::Instance& instance) {
    loop_.on_loop([&] {
      runtime_.forget(instance);
      return 0;
    });
  }
  void until_known() { loop_.run(as_value(runtime_.until_known())); }
  /// The wait goes on beside the test.
  std::future<ports::ExitStatus> wait(const ports::Instance& instance) {
    auto result = std::make_shared<std::promise<ports::ExitStatus>>();
    auto future = result->get_future();
    loop_.on_loop([&] {
      loop_.loop.spawn("wait", report(&runtime_, instance, result));
      return 0;
    });
    return future;
  }

 private:
  static DockerRuntimeOptions options(const std::string& socket, const std::string& network,
                                      const std::function<void(DockerRuntimeOptions&)>& change) {
    DockerRuntimeOptions options;
    options.socket = socket;
    options.network = network;
    options.owned_prefix = kPrefix;
    options.ping_interval = 100ms;
    options.ping_deadline = 500ms;
    options.longest_retry = 200ms;
    if (change) change(options);
    return options;
  }
  static ports::Task<> report(DockerRuntime* runtime, ports::Instance instance,
                              std::shared_ptr<std::promise<ports::ExitStatus>> result) {
    auto status = co_await runtime->wait(std::move(instance));
    result->set_value(std::move(status));
  }
  static ports::Task<bool> as_value(ports::Task<> task) {
    co_await std::move(task);
    co_return true;
  }

  LoopThread loop_;
  net::AsioHttpClient http_{loop_.loop};
  process::MemoryCgroups groups_;
  process::FileEngineLogs logs_{1024 * 1024};
  DockerRuntime runtime_;
};

class DockerRuntimeTest : public e2e::EndToEnd {
 protected:
  void SetUp() override {
    e2e::EndToEnd::SetUp();
    if (HasFatalFailure()) return;
    if (const auto reason = reason_against_dockerd(); !reason.empty()) GTEST_SKIP() << "SKIPPED: " << reason;
    dockerd_ = std::make_unique<Dockerd>(engine_options_);
    image_ = dockerd_->import_llama_cpp();
    daemon_ = make_daemon();
  }

  std::unique_ptr<Daemon> make_daemon() { return std::make_unique<Daemon>(dockerd_->socket(), dockerd_->network()); }
  /// The daemon is gone, as after a crash, and started again.
  void restart_daemon() {
    daemon_.reset();
    daemon_ = make_daemon();
  }

  ports::InstanceSpec spec(std::vector<std::string> arguments, std::int64_t id = 7) {
    ports::InstanceSpec spec;
    spec.deployment = DeploymentId{id};
    spec.name = fmt::format("{}{}", kPrefix, id);
    spec.arguments = std::move(arguments);
    spec.log_path = (logs_.path() / fmt::format("{}.log", id)).string();
    spec.container = container::Settings{.image = image_,
                                         .mounts = {},
                                         .gpu = false,
                                         .shm_size = mib(64),
                                         .host_port = free_port(),
                                         .container_port = 8080};
    return spec;
  }
  ports::InstanceSpec serving(std::int64_t id = 7) {
    const auto model = e2e::environment().model.string();
    auto wanted =
        spec({"", "--host", "0.0.0.0", "--port", "8080", "--model", model, "--ctx-size", "512", "--parallel", "1"}, id);
    wanted.container->mounts = {{model, model}};
    return wanted;
  }
  ports::InstanceSpec eating(const std::string& anon, const std::string& shmem = "0", const std::string& more = "0",
                             std::int64_t id = 7) {
    auto wanted = spec({"/eat_memory", anon, shmem, more}, id);
    wanted.container->mounts = {{DGXMM_EAT_MEMORY, "/eat_memory"}};
    return wanted;
  }

  ports::Instance start(ports::InstanceSpec wanted) {
    auto instance = daemon_->start(std::move(wanted));
    if (!instance) throw std::runtime_error(instance.error().message + " " + instance.error().hint);
    return *instance;
  }

  std::uint16_t free_port() {
    const auto port = ports_.hold(std::nullopt);
    if (!port) throw std::runtime_error(port.error().message);
    ports_.release(*port);
    return *port;
  }
  int health(std::uint16_t port) {
    ports::HttpCall call;
    call.target.port = port;
    call.path = "/health";
    call.deadline = 2s;
    const auto reply = asking_.run(http_.call(std::move(call)));
    return reply ? reply->status : 0;
  }
  bool serves(std::uint16_t port) {
    return e2e::eventually([&] { return health(port) == 200; });
  }
  std::string log_of(const ports::InstanceSpec& wanted) { return e2e::read_file(wanted.log_path); }
  bool log_has(const ports::InstanceSpec& wanted, const std::string& text) {
    return e2e::eventually([&] { return log_of(wanted).find(text) != std::string::npos; }, 60s);
  }
  int status_of(const std::string& id) { return dockerd_->call("GET", "/containers/" + id + "/json").status; }
  ports::ExitStatus end_of(std::future<ports::ExitStatus> ended) {
    if (ended.wait_for(60s) != std::future_status::ready) throw std::runtime_error("its end was not noticed");
    return ended.get();
  }

  std::vector<std::string> engine_options_;
  e2e::TempDir logs_;
  LoopThread asking_;
  net::AsioHttpClient http_{asking_.loop};
  system::HeldTcpPorts ports_;
  std::unique_ptr<Dockerd> dockerd_;
  std::string image_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(DockerRuntimeTest, AnEngineServesItsLogIsCopiedItIsMeasuredAndStopped) {
  const auto wanted = serving();
  const auto instance = start(wanted);
  EXPECT_EQ(instance.runtime, "docker");
  EXPECT_THAT(instance.container_id, SizeIs(64));
  EXPECT_THAT(instance.image.value_or(""), testing::StartsWith("sha256:"));
  EXPECT_THAT(instance.cgroup, HasSubstr(instance.container_id));
  ASSERT_TRUE(serves(wanted.container->host_port));
  EXPECT_EQ(daemon_->presence(instance), ports::Presence::running);
  EXPECT_TRUE(log_has(wanted, "model loaded"));

  const auto measured = daemon_->measure(instance);
  ASSERT_TRUE(measured);
  EXPECT_GT(measured->anon.value_or(Bytes{}), mib(20));
  EXPECT_THAT(daemon_->pids(instance), Contains(instance.pid));

  auto ended = daemon_->wait(instance);
  ASSERT_TRUE(daemon_->stop(instance));
  const auto status = end_of(std::move(ended));
  EXPECT_FALSE(status.oom_killed);
  EXPECT_EQ(daemon_->presence(instance), ports::Presence::gone);
  EXPECT_FALSE(daemon_->measure(instance));
  daemon_->forget(instance);
  EXPECT_TRUE(e2e::eventually([&] { return status_of(instance.container_id) == 404; }));
}

TEST_F(DockerRuntimeTest, OnlyLoopbackIsListenedOnAndTheModelCannotBeWritten) {
  const auto wanted = serving();
  const auto instance = start(wanted);
  const auto document = dockerd_->call("GET", "/containers/" + instance.container_id + "/json").body;
  EXPECT_THAT(document, HasSubstr(fmt::format(R"("8080/tcp":[{{"HostIp":"127.0.0.1","HostPort":"{}"}}])",
                                              wanted.container->host_port)));
  EXPECT_THAT(document, Not(HasSubstr(R"("HostIp":"0.0.0.0")")));
  EXPECT_THAT(document, HasSubstr(R"("RW":false)"));
  EXPECT_THAT(document, HasSubstr(R"("Memory":0)"));
}

TEST_F(DockerRuntimeTest, WithoutANetworkOfTheSettingsNoContainerReachesAnother) {
  daemon_ = std::make_unique<Daemon>(dockerd_->socket(), std::string{});
  const auto wanted = serving();
  const auto instance = start(wanted);
  ASSERT_TRUE(serves(wanted.container->host_port)) << "it is reached by its published port";
  const auto document = dockerd_->call("GET", "/containers/" + instance.container_id + "/json").body;
  const auto network = std::string{kPrefix} + "engines";
  EXPECT_THAT(document, HasSubstr(R"("NetworkMode":")" + network));
  EXPECT_THAT(dockerd_->call("GET", "/networks/" + network).body,
              HasSubstr(R"("com.docker.network.bridge.enable_icc":"false")"));
  ASSERT_TRUE(daemon_->stop(instance));
  EXPECT_TRUE(daemon_->start(serving(8))) << "the next one finds the network";
}

TEST_F(DockerRuntimeTest, B6_SharedMemoryOfAContainerCountsAsWellAsItsOwn) {
  const auto wanted = eating("48", "32");
  const auto instance = start(wanted);
  ASSERT_TRUE(log_has(wanted, "ready"));
  const auto measured = daemon_->measure(instance);
  ASSERT_TRUE(measured);
  EXPECT_NEAR(measured->anon->gib() * 1024, 48, 4);
  EXPECT_NEAR(measured->shmem->gib() * 1024, 32, 1);
}

TEST_F(DockerRuntimeTest, B6_WhereNoCgroupCanBeReadItsProcessesAreAddedUpAndItSaysSo) {
  const e2e::TempDir nothing;
  daemon_ = std::make_unique<Daemon>(dockerd_->socket(), dockerd_->network(), [](auto& /*options*/) {}, nothing.path());
  const auto wanted = eating("48", "32");
  const auto instance = start(wanted);
  ASSERT_TRUE(log_has(wanted, "ready"));
  const auto measured = daemon_->measure(instance);
  ASSERT_TRUE(measured);
  EXPECT_TRUE(measured->approximate);
  EXPECT_NEAR(measured->anon->gib() * 1024, 48, 4);
  EXPECT_NEAR(measured->shmem->gib() * 1024, 32, 2);
  EXPECT_FALSE(measured->kernel);
  const auto pids = daemon_->pids(instance);
  EXPECT_THAT(pids, SizeIs(2)) << "Docker's init and the engine";
  EXPECT_THAT(pids, Contains(instance.pid));
  ASSERT_TRUE(daemon_->stop(instance));
  EXPECT_THAT(daemon_->pids(instance), IsEmpty());
  EXPECT_FALSE(daemon_->measure(instance));
}

TEST_F(DockerRuntimeTest, TheProgramOfAnImageTellsItsFlags) {
  const auto help = daemon_->output_of({"", "--help"}, image_);
  ASSERT_TRUE(help) << help.error().message;
  EXPECT_THAT(*help, HasSubstr("--ctx-size"));
  EXPECT_TRUE(e2e::eventually([&] { return dockerd_->call("GET", "/containers/json?all=1").body == "[]\n"; }))
      << "the container that printed it is gone";
}

TEST_F(DockerRuntimeTest, AnImageThatIsNotThereIsNamedAndNothingIsLeftBehind) {
  auto wanted = serving();
  wanted.container->image = "no-such-image:1";
  const auto instance = daemon_->start(wanted);
  ASSERT_FALSE(instance);
  EXPECT_EQ(instance.error().code, "image_not_found");
  EXPECT_THAT(instance.error().hint, HasSubstr("docker pull"));
  EXPECT_EQ(dockerd_->call("GET", "/containers/json?all=1").body, "[]\n");
}

TEST_F(DockerRuntimeTest, AProgramThatTheImageDoesNotHaveEndsAtOnceAndTheLogSaysWhy) {
  const auto wanted = spec({"/no/such/program"});
  const auto status = end_of(daemon_->wait(start(wanted)));
  EXPECT_EQ(status.exit_code, 127);
  EXPECT_THAT(log_of(wanted), HasSubstr("/no/such/program"));
}

TEST_F(DockerRuntimeTest, AnImageWithoutEntrypointCannotChooseTheProgram) {
  const auto tagged = dockerd_->import_llama_cpp(false);
  auto wanted = serving();
  wanted.container->image = tagged;
  const auto instance = daemon_->start(wanted);
  ASSERT_FALSE(instance);
  EXPECT_EQ(instance.error().code, "engine_not_found");
}

TEST_F(DockerRuntimeTest, AGpuThatDockerCannotHandOverIsAnErrorNotAStartWithout) {
  auto wanted = serving();
  wanted.container->gpu = true;
  const auto instance = daemon_->start(wanted);
  ASSERT_FALSE(instance);
  EXPECT_EQ(instance.error().code, "gpu_not_available");
  EXPECT_THAT(instance.error().hint, HasSubstr("nvidia-ctk"));
}

TEST_F(DockerRuntimeTest, D6_APortThatIsTakenLeavesNoContainerAndAnotherPortCanBeTried) {
  auto wanted = serving();
  const auto held = ports_.hold(wanted.container->host_port);
  ASSERT_TRUE(held);
  const auto refused = daemon_->start(wanted);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "port_taken");
  wanted.container->host_port = free_port();
  const auto instance = daemon_->start(wanted);
  ASSERT_TRUE(instance) << instance.error().message;
  EXPECT_TRUE(serves(wanted.container->host_port));
  EXPECT_THAT(daemon_->find_owned(), SizeIs(1));
}

TEST_F(DockerRuntimeTest, AForeignContainerWithOurNameIsLeftAlone) {
  const auto foreign = dockerd_->create_foreign(std::string{kPrefix} + "7", image_);
  const auto wanted = serving();
  const auto instance = start(wanted);
  EXPECT_NE(instance.container_id, foreign);
  EXPECT_TRUE(serves(wanted.container->host_port));
  EXPECT_EQ(status_of(foreign), 200);
  ASSERT_TRUE(daemon_->stop(instance));
  daemon_->forget(instance);
  EXPECT_TRUE(e2e::eventually([&] { return status_of(instance.container_id) == 404; }));
  EXPECT_EQ(status_of(foreign), 200);
}

TEST_F(DockerRuntimeTest, AnEndedContainerOfOursGivesItsNameToTheNext) {
  const auto first = start(eating("1"));
  ASSERT_TRUE(daemon_->stop(first));
  const auto second = start(eating("1"));
  EXPECT_NE(second.container_id, first.container_id);
  EXPECT_EQ(status_of(first.container_id), 404);
}

TEST_F(DockerRuntimeTest, WhatRunsIsNeverStartedTwice) {
  start(eating("1"));
  const auto again = daemon_->start(eating("1"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "already_running");
}

TEST_F(DockerRuntimeTest, ADaemonThatIsRestartedFindsItsEngineByItsLabelsAndItsWholeLog) {
  const auto wanted = serving();
  const auto instance = start(wanted);
  ASSERT_TRUE(serves(wanted.container->host_port));
  ASSERT_TRUE(log_has(wanted, "model loaded"));
  daemon_.reset();
  std::filesystem::remove(wanted.log_path);
  daemon_ = make_daemon();
  daemon_->until_known();
  const auto owned = daemon_->find_owned();
  ASSERT_THAT(owned, SizeIs(1));
  EXPECT_EQ(owned.front().first, wanted.name);
  EXPECT_EQ(owned.front().second, instance) << "the same in every part";
  EXPECT_EQ(daemon_->presence(instance), ports::Presence::running);
  EXPECT_TRUE(log_has(wanted, "model loaded"));
  EXPECT_EQ(health(wanted.container->host_port), 200) << "it went on serving";
}

TEST_F(DockerRuntimeTest, TheEndOfAnEngineDuringARestartOfTheDaemonIsLearntWithItsCode) {
  const auto wanted = serving();
  const auto instance = start(wanted);
  ASSERT_TRUE(serves(wanted.container->host_port));
  daemon_.reset();
  dockerd_->call("POST", "/containers/" + instance.container_id + "/kill?signal=KILL");
  daemon_ = make_daemon();
  const auto status = end_of(daemon_->wait(instance));
  EXPECT_EQ(status.signal, 9);
  EXPECT_FALSE(status.oom_killed) << "C12: a kill is no proof of the kernel's OOM killer";
  EXPECT_THAT(log_of(wanted), HasSubstr("model loaded"));
}

TEST_F(DockerRuntimeTest, ContainersOfOthersAreNotFound) {
  dockerd_->create_foreign("somebody", image_);
  Daemon other{dockerd_->socket(), dockerd_->network(), [](auto& options) { options.owned_prefix = "dgxmm-other-"; }};
  start(eating("1"));
  other.until_known();
  EXPECT_THAT(other.find_owned(), IsEmpty());
  EXPECT_THAT(daemon_->find_owned(), SizeIs(1));
}

TEST_F(DockerRuntimeTest, D4_OneThatIsStuckInTheKernelIsReportedAndStaysCounted) {
  // A frozen v1 group is the one way to make a process that SIGKILL does not end.
  const std::filesystem::path freezer{fmt::format("/sys/fs/cgroup/freezer/dgxmm-test-{}", ::getpid())};
  if (::mkdir(freezer.c_str(), 0755) != 0 || !std::filesystem::exists(freezer / "freezer.state")) {
    GTEST_SKIP() << "SKIPPED: no v1 freezer here";
  }
  daemon_ = std::make_unique<Daemon>(dockerd_->socket(), dockerd_->network(), [](auto& options) {
    options.kill_limit = 500ms;
    options.call_deadline = 2s;
  });
  const auto wanted = eating("48");
  const auto instance = start(wanted);
  ASSERT_TRUE(log_has(wanted, "ready"));
  // Only the engine: the container's init is well, as when a driver holds the engine.
  for (const auto pid : daemon_->pids(instance)) {
    if (pid != instance.pid) std::ofstream{freezer / "cgroup.procs"} << pid;
  }
  std::ofstream{freezer / "freezer.state"} << "FROZEN";
  const bool frozen = e2e::eventually([&] { return e2e::read_file(freezer / "freezer.state") == "FROZEN\n"; });
  const auto stopped = daemon_->stop(instance, 0ms);
  const auto held = daemon_->measure(instance);
  const auto presence = daemon_->presence(instance);
  std::ofstream{freezer / "freezer.state"} << "THAWED";

  ASSERT_TRUE(frozen);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, "still_running");
  EXPECT_THAT(stopped.error().message, HasSubstr("stuck in the driver"));
  EXPECT_THAT(stopped.error().message, HasSubstr("eat_memory"));
  EXPECT_THAT(stopped.error().hint, HasSubstr("reboot"));
  EXPECT_NE(presence, ports::Presence::gone);
  ASSERT_TRUE(held);
  EXPECT_GT(held->anon.value_or(Bytes{}), mib(40)) << "its memory counts until it is gone";
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->stop(instance, 0ms).has_value(); }, 60s));
  EXPECT_TRUE(e2e::eventually([&] { return ::rmdir(freezer.c_str()) == 0; }));
}

TEST_F(DockerRuntimeTest, C5_ARealOomKillIsProvenAndItsEvidenceKept) {
  const auto wanted = eating("16", "0", "256");
  const auto instance = start(wanted);
  ASSERT_TRUE(log_has(wanted, "ready"));
  const auto limited = dockerd_->call("POST", "/containers/" + instance.container_id + "/update",
                                      R"({"Memory":67108864,"MemorySwap":67108864})");
  ASSERT_EQ(limited.status, 200) << limited.body;
  auto ended = daemon_->wait(instance);
  dockerd_->call("POST", "/containers/" + instance.container_id + "/kill?signal=USR1");
  const auto status = end_of(std::move(ended));
  EXPECT_TRUE(status.oom_killed);
  EXPECT_EQ(status.signal, 9);
  EXPECT_THAT(status.evidence, HasSubstr(instance.container_id.substr(0, 12)));
}

TEST_F(DockerRuntimeTest, C5_TheKernelsLineNamesTheContainer) {
  if (host::read_kernel_log().empty()) GTEST_SKIP() << "SKIPPED: the kernel's log may not be read here";
  daemon_ = std::make_unique<Daemon>(dockerd_->socket(), dockerd_->network(),
                                     [](auto& options) { options.kernel_log = host::read_kernel_log; });
  const auto wanted = eating("16", "0", "256");
  const auto instance = start(wanted);
  ASSERT_TRUE(log_has(wanted, "ready"));
  dockerd_->call("POST", "/containers/" + instance.container_id + "/update",
                 R"({"Memory":67108864,"MemorySwap":67108864})");
  auto ended = daemon_->wait(instance);
  dockerd_->call("POST", "/containers/" + instance.container_id + "/kill?signal=USR1");
  const auto status = end_of(std::move(ended));
  EXPECT_TRUE(status.oom_killed);
  EXPECT_THAT(status.evidence, HasSubstr("CONSTRAINT_MEMCG"));
  EXPECT_THAT(status.evidence, HasSubstr(instance.container_id));
}

TEST_F(DockerRuntimeTest, C5_TheKernelsLineIsLookedForWhateverTheExitCode) {
  // vLLM ends with 1 when the kernel kills its core. A log of the test's own: Docker's flag shall not be there as well.
  const auto log = std::make_shared<std::string>();
  daemon_ = std::make_unique<Daemon>(dockerd_->socket(), dockerd_->network(),
                                     [log](auto& options) { options.kernel_log = [log] { return *log; }; });
  const auto wanted = eating("1", "0", "1000000000");  // more than there are addresses: it ends with 1
  const auto instance = start(wanted);
  ASSERT_TRUE(log_has(wanted, "ready"));
  *log = fmt::format("6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/docker/{},task=VLLM,pid=99,uid=0\n",
                     instance.container_id);
  auto ended = daemon_->wait(instance);
  dockerd_->call("POST", "/containers/" + instance.container_id + "/kill?signal=USR1");
  const auto status = end_of(std::move(ended));
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_TRUE(status.oom_killed);
  EXPECT_THAT(status.evidence, HasSubstr("task=VLLM"));
}

TEST_F(DockerRuntimeTest, AFloodOfLogLinesIsBoundedOnBothSides) {
  auto wanted = spec({"/yes", std::string(1000, 'y')});
  wanted.container->mounts = {{"/usr/bin/yes", "/yes"},
                              {"/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"},
                              {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"}};
  daemon_ = std::make_unique<Daemon>(dockerd_->socket(), dockerd_->network(),
                                     [](auto& options) { options.log_limit = mib(1); });
  const auto instance = start(wanted);
  const auto size_of = [](const std::filesystem::path& file) {
    std::error_code missing;
    const auto size = std::filesystem::file_size(file, missing);
    return missing ? 0 : size;
  };
  const std::filesystem::path copy = wanted.log_path;
  ASSERT_TRUE(e2e::eventually([&] { return size_of(copy.string() + ".1") > 0; }, 60s)) << "the copy was trimmed once";
  std::uintmax_t kept = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(dockerd_->folder() / "data" / "containers")) {
    if (file.path().filename().string().find("-json.log") != std::string::npos) kept += size_of(file.path());
  }
  EXPECT_LT(kept, 3U * 1024 * 1024);
  EXPECT_LT(size_of(copy), 3U * 1024 * 1024);
  EXPECT_EQ(daemon_->presence(instance), ports::Presence::running) << "the daemon still answers";
  ASSERT_TRUE(daemon_->stop(instance, 0s));
}

TEST_F(DockerRuntimeTest, AnEngineThatDoesNotReactIsReportedAndItsContainersAreUnreachable) {
  const auto wanted = eating("16");
  const auto instance = start(wanted);
  ASSERT_TRUE(log_has(wanted, "ready"));
  dockerd_->freeze(true);
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::unreachable; }, 30s));
  ASSERT_TRUE(daemon_->problem());
  EXPECT_EQ(daemon_->problem()->code, "docker_unreachable");
  EXPECT_TRUE(daemon_->measure(instance)) << "what it holds is read without the Engine";
  const auto refused = daemon_->start(eating("1"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "docker_unreachable");
  dockerd_->freeze(false);
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::running; }, 30s));
  EXPECT_FALSE(daemon_->problem());
}

TEST_F(DockerRuntimeTest, WhatIsStoppedWhileDockerHangsIsKilledWithoutIt) {
  for (const bool noticed : {false, true}) {
    SCOPED_TRACE(noticed);
    const auto wanted = eating("16");
    const auto instance = start(wanted);
    ASSERT_TRUE(log_has(wanted, "ready"));
    dockerd_->freeze(true);
    if (noticed) {
      EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::unreachable; }, 30s));
    }
    EXPECT_TRUE(daemon_->stop(instance, 1s));
    const auto left = daemon_->measure(instance);
    EXPECT_LT(left ? left->anon.value_or(Bytes{}) : Bytes{}, mib(1)) << "it holds memory still";
    dockerd_->freeze(false);
    EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::gone; }, 30s));
    daemon_->forget(instance);
    EXPECT_TRUE(e2e::eventually([&] { return status_of(instance.container_id) == 404; }, 30s));
  }
}

TEST_F(DockerRuntimeTest, WithoutAnEngineNothingIsKnownUntilThereIsOne) {
  dockerd_->kill();
  restart_daemon();
  ports::Instance instance;
  instance.container_id = std::string(64, 'a');
  EXPECT_EQ(daemon_->presence(instance), ports::Presence::unreachable);
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->problem().has_value(); }, 30s));
  dockerd_->start();
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::gone; }, 30s));
}

TEST_F(DockerRuntimeTest, ASocketThatAcceptsAndNeverAnswersIsNoEngine) {
  const e2e::TempDir folder;
  const auto path = (folder.path() / "sock").string();
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener, 64), 0);
  Daemon silent{path, {}, [](auto& options) { options.call_deadline = 200ms; }};
  const auto refused = silent.start(eating("1"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "docker_unreachable");
  ::close(listener);
}

TEST_F(DockerRuntimeTest, AnEngineThatIsKilledUnderAContainerAndComesBackEndsItAndSaysSo) {
  const auto wanted = serving();
  const auto instance = start(wanted);
  ASSERT_TRUE(serves(wanted.container->host_port));
  auto ended = daemon_->wait(instance);
  dockerd_->kill();
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::unreachable; }, 30s));
  EXPECT_TRUE(daemon_->measure(instance)) << "it runs on, and counts";
  dockerd_->start();
  // Without live-restore Docker ends at its start what it finds running.
  EXPECT_EQ(end_of(std::move(ended)).oom_killed, false);
  EXPECT_EQ(daemon_->presence(instance), ports::Presence::gone);
  ASSERT_TRUE(daemon_->stop(instance));
  daemon_->forget(instance);
  EXPECT_TRUE(e2e::eventually([&] { return status_of(instance.container_id) == 404; }));
}

class LiveRestoreTest : public DockerRuntimeTest {
 protected:
  LiveRestoreTest() { engine_options_ = {"--live-restore"}; }
};

TEST_F(LiveRestoreTest, AnEngineThatIsKilledUnderAContainerAndComesBackFindsItServing) {
  const auto wanted = serving();
  const auto instance = start(wanted);
  ASSERT_TRUE(serves(wanted.container->host_port));
  ASSERT_TRUE(log_has(wanted, "model loaded"));
  dockerd_->kill();
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::unreachable; }, 30s));
  dockerd_->start();
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::running; }, 30s));
  EXPECT_TRUE(serves(wanted.container->host_port));
  const auto log = log_of(wanted);
  EXPECT_EQ(log.find("model loaded"), log.rfind("model loaded")) << "no line was copied twice";
  ASSERT_TRUE(daemon_->stop(instance));
  EXPECT_EQ(daemon_->presence(instance), ports::Presence::gone);
}

TEST_F(DockerRuntimeTest, AnEndThatComesWhileTheOthersAreLookedAtIsNoticed) {
  std::vector<ports::Instance> instances;
  for (const std::int64_t id : {7, 8}) {
    auto wanted = eating("1", "0", "0", id);
    wanted.log_path.clear();  // the end of a log that is followed would give it away
    instances.push_back(start(wanted));
  }
  daemon_.reset();
  std::atomic<int> inspects = 0;
  std::promise<std::string> first_seen;
  std::promise<void> second_may_be_seen;
  const auto go_on = second_may_be_seen.get_future().share();
  const EngineProxy slow{(logs_.path() / "proxy").string(), dockerd_->socket(), [&](const std::string& request) {
                           if (const auto id = inspected_id(request); !id.empty()) {
                             const auto count = ++inspects;
                             if (count == 1) first_seen.set_value(id);
                             if (count == 2) go_on.wait_for(30s);
                           }
                           return std::optional<std::string>{};
                         }};
  daemon_ = std::make_unique<Daemon>(slow.socket(), dockerd_->network());
  const auto id = first_seen.get_future().get();
  ASSERT_TRUE(e2e::eventually([&] { return inspects == 2; }));
  ASSERT_EQ(dockerd_->call("POST", "/containers/" + id + "/kill?signal=KILL").status, 204);
  std::this_thread::sleep_for(4s);  // longer than the times of events and lists may differ
  second_may_be_seen.set_value();
  daemon_->until_known();
  for (const auto& instance : instances) {
    const auto expected = instance.container_id == id ? ports::Presence::gone : ports::Presence::running;
    EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == expected; }));
  }
  daemon_.reset();
}

TEST_F(DockerRuntimeTest, B7_OneThatCouldNotBeLookedAtAfterItsStartIsUnknownAndThenWholly) {
  std::atomic<bool> lost = true;
  const EngineProxy proxy{(logs_.path() / "proxy").string(), dockerd_->socket(), [&](const std::string& request) {
                            return lost && !inspected_id(request).empty() ? std::optional{std::string{}} : std::nullopt;
                          }};
  daemon_ = std::make_unique<Daemon>(proxy.socket(), dockerd_->network());
  const auto wanted = eating("16");
  const auto instance = start(wanted);
  ASSERT_EQ(instance.pid, 0);
  ASSERT_EQ(instance.cgroup, "");
  EXPECT_FALSE(daemon_->measure(instance)) << "nothing of it is known, so no part of it is 0";
  lost = false;
  ASSERT_TRUE(e2e::eventually([&] { return daemon_->measure(instance).has_value(); }, 30s));
  EXPECT_THAT(daemon_->pids(instance), SizeIs(testing::Ge(1U))) << "NVML's figures are found by them";
  daemon_.reset();
}

TEST_F(DockerRuntimeTest, B8_CdiIsSeenThoughTheAgreedApiIsOlderThanItsList) {
  // As engines from API 1.50 on answer: the list is left out of older versions' answers.
  const EngineProxy proxy{(logs_.path() / "proxy").string(), dockerd_->socket(), [&](const std::string& request) {
                            if (!request.starts_with("GET /info ")) return std::optional<std::string>{};
                            const std::string body =
                                R"({"DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=all"}]})";
                            return std::optional{
                                fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                            "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                                            body.size(), body)};
                          }};
  daemon_ = std::make_unique<Daemon>(proxy.socket(), dockerd_->network());
  auto wanted = eating("1");
  wanted.container->gpu = true;
  const auto instance = daemon_->start(wanted);
  ASSERT_FALSE(instance);
  EXPECT_THAT(instance.error().message, testing::HasSubstr("cdi")) << "the Engine was asked for it, and has none";
  daemon_.reset();
}

TEST_F(DockerRuntimeTest, ARemovalThatIsUnderWayIsFollowedToItsEnd) {
  std::atomic<int> removals = 0;
  const EngineProxy proxy{(logs_.path() / "proxy").string(), dockerd_->socket(), [&](const std::string& request) {
                            if (!request.starts_with("DELETE ") || ++removals > 1) return std::optional<std::string>{};
                            const std::string body = R"({"message":"removal of container x is already in progress"})";
                            return std::optional{
                                fmt::format("HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n"
                                            "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
                                            body.size(), body)};
                          }};
  daemon_ = std::make_unique<Daemon>(proxy.socket(), dockerd_->network());
  const auto instance = start(eating("1"));
  ASSERT_TRUE(daemon_->stop(instance, 0s));
  daemon_->forget(instance);
  EXPECT_TRUE(e2e::eventually([&] { return status_of(instance.container_id) == 404; }));
  daemon_.reset();
}

TEST_F(DockerRuntimeTest, OneThatWasMadeAndNeverStartedIsRemovedWhileTheConnectionLasts) {
  daemon_ = std::make_unique<Daemon>(dockerd_->socket(), dockerd_->network(),
                                     [](auto& options) { options.never_started_limit = 1s; });
  const auto running = start(eating("1"));
  const auto made =
      dockerd_->call("POST", "/containers/create",
                     fmt::format(R"({{"Image":"{}","Labels":{{"dgxmm.instance":"{}"}}}})", image_, kPrefix));
  ASSERT_EQ(made.status, 201) << made.body;
  const auto id = made.body.substr(made.body.find(R"("Id":")") + 6, 64);
  EXPECT_TRUE(e2e::eventually([&] { return status_of(id) == 404; }));
  EXPECT_EQ(status_of(running.container_id), 200);
}

TEST_F(DockerRuntimeTest, AContainerThatSomebodyElseRemovesIsNoticed) {
  const auto instance = start(eating("1"));
  auto ended = daemon_->wait(instance);
  dockerd_->call("DELETE", "/containers/" + instance.container_id + "?force=1");
  end_of(std::move(ended));
  EXPECT_TRUE(e2e::eventually([&] { return daemon_->presence(instance) == ports::Presence::gone; }));
  EXPECT_TRUE(daemon_->stop(instance));
}

}  // namespace
}  // namespace dgxmm::docker
