// GPU memory as NVIDIA's library reports it, with a double of that library in place of a GPU.
#include "e2e/support/daemon.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr auto kGb10 = "driver 580.95.05\ndevice NVIDIA GB10\nuuid GPU-1\npci 0x2E1210DE\ncapability 12 1\n";
constexpr auto kCard = "driver 580.95.05\ndevice NVIDIA H100\nmemory 85899345920 1024\naddressing 0\n";

/// Holds the memory that the double says a process has on the GPU, until that process ends: on a host with one memory
/// a stop is over when MemAvailable shows it.
class HeldOnTheGpu {
 public:
  HeldOnTheGpu(pid_t process, std::int64_t bytes)
      : memory_(static_cast<std::size_t>(bytes), std::byte{1}),
        watch_([this, process](const std::stop_token& stop) {
          while (!stop.stop_requested() && ::kill(process, 0) == 0) std::this_thread::sleep_for(20ms);
          std::vector<std::byte>{}.swap(memory_);
        }) {}

 private:
  std::vector<std::byte> memory_;
  std::jthread watch_;
};

class Gpu : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    std::error_code unreadable;
    if (fs::read_symlink("/proc/self/ns/pid", unreadable) != "pid:[4026531836]") {
      GTEST_SKIP() << "in a PID namespace of its own, GPU memory cannot be told by process";
    }
    use(DGXMM_NVML_DOUBLE);
  }
  void use(const fs::path& library) const {
    fs::copy_file(library, folder_.path() / "libnvidia-ml.so.1", fs::copy_options::overwrite_existing);
  }
  void scenario(const std::string& text) const {
    const auto written = folder_.write("scenario.new", text);
    fs::rename(written, folder_.path() / "scenario");
  }
  void start(const std::string& host_class = "auto") {
    const auto library = (folder_.path() / "libnvidia-ml.so.1").string();
    daemon_ =
        std::make_unique<Daemon>(Daemon::Options{.flags = {"--nvml-library", library, "--host-class", host_class}});
  }
  void deploy(const std::string& name) const {
    const auto deployed = daemon_->run(Request{.name = name}.deploy());
    ASSERT_EQ(deployed.exit_code, 0) << deployed.all();
  }
  /// Null or a size.
  [[nodiscard]] boost::json::value gpu_bytes(const std::string& name) const {
    return at(at(daemon_->deployment(name), "measured"), "gpu_bytes");
  }
  [[nodiscard]] std::string metrics() const { return http(daemon_->port(), "GET", "/metrics").body; }

  TempDir folder_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(Gpu, B6_WhatEnginesAndOthersHoldShowsEverywhere) {
  scenario(kGb10);
  start();
  deploy("one");
  const Subprocess other{{"sleep", "1000"}, {}};
  const auto engine = number(daemon_->deployment("one"), "pid");
  const HeldOnTheGpu held{static_cast<pid_t>(engine), 2 * kGib};
  scenario(kGb10 + fmt::format("compute {} {}\ngraphics {} {}\n", engine, 2 * kGib, other.pid(), 3 * kGib));
  ASSERT_TRUE(eventually([&] { return gpu_bytes("one") == boost::json::value(2 * kGib); }));
  EXPECT_TRUE(at(at(daemon_->deployment("one"), "measured"), "complete").as_bool());

  const auto ps = daemon_->run({"ps"});
  EXPECT_THAT(ps.out, HasSubstr("2."));
  EXPECT_THAT(ps.out, Not(HasSubstr("+?")));
  const auto budget = daemon_->document("/budget");
  EXPECT_EQ(text(budget, "host_class"), "integrated");
  EXPECT_EQ(number(budget, "gpu_bytes"), 5 * kGib);
  const auto shown = daemon_->run({"budget"});
  EXPECT_THAT(shown.out, HasSubstr("host class integrated: NVIDIA GB10: shares the host's memory"));
  EXPECT_THAT(shown.out, HasSubstr("5.0 GiB"));
  bool found = false;
  const auto processes = daemon_->document("/processes");
  for (const auto& row : at(processes, "processes").as_array()) {
    EXPECT_NE(number(row, "pid"), engine) << "it is managed";
    if (number(row, "pid") != other.pid()) continue;
    found = true;
    EXPECT_EQ(number(row, "gpu_bytes"), 3 * kGib);
    EXPECT_GE(number(row, "held_bytes"), 3 * kGib);
  }
  EXPECT_TRUE(found);
  EXPECT_THAT(daemon_->run({"processes"}).out, HasSubstr("3.0 GiB"));
  EXPECT_THAT(metrics(), HasSubstr("dgxmm_deployment_measured_bytes{id=\"1\",name=\"one\",part=\"gpu\"} 2147483648\n"));
  EXPECT_THAT(metrics(), HasSubstr("dgxmm_gpu_bytes 5368709120\n"));
  EXPECT_EQ(daemon_->run({"stop", "one"}).exit_code, 0);
}

TEST_F(Gpu, AnOldDriversFunctionsAndRecordsAreEnough) {
  use(DGXMM_NVML_DOUBLE_OLD);
  scenario("driver 580.65.06\ndevice NVIDIA GB10\n");
  start();
  deploy("one");
  scenario(fmt::format("driver 580.65.06\ndevice Orin (nvgpu)\nmemory 0 0\ncompute {} {}\n",
                       number(daemon_->deployment("one"), "pid"), 2 * kGib));
  EXPECT_TRUE(eventually([&] { return gpu_bytes("one") == boost::json::value(2 * kGib); }));
}

TEST_F(Gpu, B8_LostAccessIsExplainedAndEnginesGoOn) {
  scenario("answer nvmlInitWithFlags 999\n");
  start("integrated");
  deploy("one");
  EXPECT_TRUE(gpu_bytes("one").is_null());
  EXPECT_THAT(daemon_->run({"ps"}).out, HasSubstr("+?"));
  EXPECT_THAT(daemon_->run({"budget"}).out, HasSubstr("recreate"));
  EXPECT_THAT(daemon_->log(), HasSubstr("recreate"));
  EXPECT_THAT(http(daemon_->port(), "GET", "/healthz").body, HasSubstr("recreate"));
  EXPECT_THAT(metrics(), Not(HasSubstr("part=\"gpu\"")));
  EXPECT_EQ(daemon_->state_of("one"), "ready");
  scenario(kGb10);
  EXPECT_TRUE(eventually([&] { return gpu_bytes("one") == boost::json::value(0); }));
}

TEST_F(Gpu, C6_AHangingDriverKeepsNothingFromWorking) {
  const auto gate = folder_.write("gate", "");
  scenario(kGb10 + fmt::format("wait nvmlDeviceGetComputeRunningProcesses_v3 {}\n", gate.string()));
  start("integrated");
  deploy("one");
  EXPECT_TRUE(gpu_bytes("one").is_null());
  EXPECT_THAT(daemon_->run({"budget"}).out, HasSubstr("the NVIDIA driver"));
  EXPECT_EQ(daemon_->run({"stop", "one"}).exit_code, 0);
  EXPECT_EQ(daemon_->end(), 0) << daemon_->log();
}

TEST_F(Gpu, ALibraryThatLacksFunctionsIsExplained) {
  use(DGXMM_NVML_DOUBLE_STUB);
  start();
  EXPECT_THAT(daemon_->run({"budget"}).all(), HasSubstr("functions are missing"));
  EXPECT_EQ(text(daemon_->document("/budget"), "host_class"), "unknown");
  const auto refused = daemon_->run(Request{.name = "one"}.deploy());
  EXPECT_EQ(refused.exit_code, 1) << refused.all();
  EXPECT_THAT(refused.err, HasSubstr("`host_class`"));
}

TEST_F(Gpu, AHostWhoseGpuHasItsOwnMemoryStartsNothingAndStillEstimates) {
  scenario(kCard);
  start();
  const auto refused = daemon_->run(Request{.name = "one"}.deploy());
  EXPECT_EQ(refused.exit_code, 1) << refused.all();
  EXPECT_THAT(refused.err, HasSubstr("this host's GPU has memory of its own"));
  const auto fit = daemon_->run(Request{.name = "one"}.ask("fit"));
  EXPECT_EQ(fit.exit_code, 0) << fit.all();
  EXPECT_THAT(fit.out, HasSubstr("note: it could not be started here"));
  EXPECT_THAT(daemon_->run({"budget"}).out, HasSubstr("host class discrete"));
}

}  // namespace
}  // namespace dgxmm::e2e
