// Images that are not on the host: pulled by a real Docker Engine from a real registry, both of this machine.
#include "adapters/docker/docker_runtime.h"
#include "adapters/process/cgroup.h"
#include "adapters/process/log_file.h"
#include "adapters/system/tcp_ports.h"
#include "docker/dockerd.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace dgxmm::docker {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

/// A docker-registry with a store and a port of its own.
class Registry {
 public:
  explicit Registry(std::string program) : program_(std::move(program)) {
    const auto port = ports_.hold(std::nullopt);
    if (!port) throw std::runtime_error(port.error().message);
    port_ = *port;
    ports_.release(port_);
    start();
  }

  void start(bool needs_login = false) {
    auto config = fmt::format(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{}'}}\n",
        (folder_.path() / "store").string(), port_);
    if (needs_login) {
      config += fmt::format("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", (folder_.path() / "htpasswd").string());
    }
    const auto file = folder_.write("config.yml", config);
    process_ =
        std::make_unique<e2e::Subprocess>(std::vector<std::string>{program_, "serve", file.string()}, e2e::Variables{});
    const auto answers = [&] {
      ports::HttpCall call;
      call.target.port = port_;
      call.path = "/v2/";
      const auto reply = loop_.run(http_.call(std::move(call)));
      return reply && (reply->status == 200 || reply->status == 401);
    };
    if (!e2e::eventually(answers)) throw std::runtime_error("the registry does not start: " + process_->err());
  }
  void stop() {
    process_->signal(SIGTERM);
    process_->wait();
  }
  void freeze(bool frozen) const { process_->signal(frozen ? SIGSTOP : SIGCONT); }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  std::string program_;
  e2e::TempDir folder_;
  system::HeldTcpPorts ports_;
  LoopThread loop_;
  net::AsioHttpClient http_{loop_.loop};
  std::uint16_t port_ = 0;
  std::unique_ptr<e2e::Subprocess> process_;
};

class PullTest : public e2e::EndToEnd {
 protected:
  void SetUp() override {
    e2e::EndToEnd::SetUp();
    if (HasFatalFailure()) return;
    if (const auto reason = reason_against_dockerd(); !reason.empty()) GTEST_SKIP() << "SKIPPED: " << reason;
    const char* registry = std::getenv("DGXMM_TEST_REGISTRY");
    if (registry == nullptr) {
      GTEST_SKIP() << "SKIPPED: DGXMM_TEST_REGISTRY does not name a docker-registry: ./dev test gets one";
    }
    registry_ = std::make_unique<Registry>(registry);
    dockerd_ = std::make_unique<Dockerd>();
    image_ = dockerd_->push_away(dockerd_->import_llama_cpp(), registry_->port());
    connect();
  }
  void TearDown() override {
    if (loop_) loop_->stop();
  }

  void connect(std::chrono::milliseconds patience = 60s) {
    if (loop_) loop_->stop();
    runtime_.reset();
    http_.reset();
    loop_ = std::make_unique<LoopThread>();
    http_ = std::make_unique<net::AsioHttpClient>(loop_->loop);
    DockerRuntimeOptions options;
    options.socket = dockerd_->socket();
    options.owned_prefix = "dgxmm-0000test-";
    options.pull_patience = patience;
    runtime_ = std::make_unique<DockerRuntime>(loop_->loop, *http_, groups_, logs_, options);
    loop_->on_loop([&] {
      runtime_->begin();
      return 0;
    });
  }
  Result<container::Image> provide(const std::string& reference, bool wanted = true) {
    ports::PullWatcher watcher = [this, wanted](const std::string& phase) {
      phases_.insert(phase.substr(0, phase.find(',')));
      return wanted;
    };
    return loop_->run(runtime_->provide_image(reference, std::move(watcher)));
  }

  process::MemoryCgroups groups_;
  process::FileEngineLogs logs_{1024 * 1024};
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<Dockerd> dockerd_;
  std::string image_;
  std::set<std::string> phases_;  ///< without their figures
  std::unique_ptr<LoopThread> loop_;
  std::unique_ptr<net::AsioHttpClient> http_;
  std::unique_ptr<DockerRuntime> runtime_;
};

TEST_F(PullTest, AnImageThatIsNotHereIsPulledAndSaysHowFarItIs) {
  const auto without_asking = loop_->run(runtime_->provide_image(image_, {}));
  ASSERT_FALSE(without_asking);
  EXPECT_EQ(without_asking.error().code, "image_not_found");

  const auto pulled = provide(image_);
  ASSERT_TRUE(pulled) << pulled.error().message;
  EXPECT_THAT(pulled->id, StartsWith("sha256:"));
  EXPECT_THAT(pulled->entrypoint, testing::SizeIs(1));
  EXPECT_THAT(phases_, Contains("pulling the image"));
  phases_.clear();
  const auto again = provide(image_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id, pulled->id);
  EXPECT_THAT(phases_, testing::IsEmpty()) << "nothing is pulled twice";
}

TEST_F(PullTest, ANameThatTheRegistryDoesNotHaveIsSaidToBeMissing) {
  const auto missing = provide(fmt::format("127.0.0.1:{}/no-such:1", registry_->port()));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, "image_not_found") << missing.error().message;
  const auto nonsense = provide("No Such Image!");
  ASSERT_FALSE(nonsense);
  EXPECT_EQ(nonsense.error().code, "image_not_found") << nonsense.error().message;
}

TEST_F(PullTest, ARegistryThatIsNotReachedIsNamedWithTheCause) {
  registry_->stop();
  const auto pulled = provide(image_);
  ASSERT_FALSE(pulled);
  EXPECT_EQ(pulled.error().code, "registry_unreachable") << pulled.error().message;
  EXPECT_THAT(pulled.error().message, HasSubstr("connection refused"));
}

TEST_F(PullTest, OneThatWantsALoginSaysHow) {
  registry_->stop();
  registry_->start(true);
  const auto pulled = provide(image_);
  ASSERT_FALSE(pulled);
  EXPECT_EQ(pulled.error().code, "registry_denied") << pulled.error().message;
  EXPECT_THAT(pulled.error().hint, HasSubstr("docker login"));
}

TEST_F(PullTest, OneThatDoesNotGetOnIsGivenUpAndOneThatNobodyWantsIsBrokenOff) {
  registry_->freeze(true);
  connect(1s);
  const auto stalled = provide(image_);
  ASSERT_FALSE(stalled);
  EXPECT_EQ(stalled.error().code, "pull_stalled") << stalled.error().message;
  connect();
  const auto unwanted = provide(image_, false);
  ASSERT_FALSE(unwanted);
  EXPECT_EQ(unwanted.error().code, "cancelled");
  registry_->freeze(false);
  EXPECT_TRUE(provide(image_)) << "the next one goes well";
}

TEST_F(PullTest, AFullDiskIsSaidToBeFull) {
  loop_->stop();
  runtime_.reset();
  dockerd_.reset();
  dockerd_ = std::make_unique<Dockerd>(std::vector<std::string>{}, std::int64_t{24} * 1024 * 1024);
  connect();
  const auto pulled = provide(image_);
  ASSERT_FALSE(pulled);
  EXPECT_EQ(pulled.error().code, "disk_full") << pulled.error().message;
  EXPECT_THAT(pulled.error().hint, HasSubstr("docker system df"));
}

}  // namespace
}  // namespace dgxmm::docker
