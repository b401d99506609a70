#include "adapters/nvml/nvml_probe.h"

#include "adapters/nvml/nvml_library.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace dgxmm::nvml {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using host::HostClass;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kGb10 = R"(driver 580.95.05
device NVIDIA GB10
uuid GPU-1234
pci 0x2E1210DE
capability 12 1
addressing 2
)";

/// Time that the test moves, seen by the probe's thread too.
class SharedClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override { return {}; }
  [[nodiscard]] SteadyTime steady() const override { return SteadyTime{} + milliseconds_.load() * 1ms; }
  void advance(std::chrono::milliseconds by) { milliseconds_ += by.count(); }

 private:
  std::atomic<std::int64_t> milliseconds_{3'600'000};
};

bool eventually(const std::function<bool()>& condition) {
  const auto give_up_at = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up_at) return false;
    std::this_thread::yield();
  }
  return true;
}

/// A driver and a /proc that are made of files.
class NvmlTest : public testing::Test {
 public:
  NvmlTest() {
    std::string pattern = (fs::temp_directory_path() / "dgxmm-nvml-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
    put("proc/meminfo", "MemTotal: 127600748 kB\nMemAvailable: 100000000 kB\n");
    put("proc/sys/kernel/pid_max", "4194304\n");
    put("proc/uptime", "1000.00 900.00\n");
    put("proc/self/status", "NSpid:\t1\n");
    for (const int pid : {700, 701}) put_process(pid, 777);
    use_library(DGXMM_NVML_DOUBLE);
  }
  ~NvmlTest() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

 protected:
  void put(const std::string& path, std::string_view text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream{folder_ / (path + ".new"), std::ios::binary} << text;
    fs::rename(folder_ / (path + ".new"), folder_ / path);
  }
  void put_process(int pid, int start_time) const {
    put(fmt::format("proc/{}/stat", pid),
        fmt::format("{0} (x) S 1 {0} {0} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {1} 0 0\n", pid, start_time));
  }
  /// A copy for each test: a loaded library has a state.
  void use_library(const fs::path& library) const {
    fs::copy_file(library, library_path(), fs::copy_options::overwrite_existing);
  }
  void scenario(const std::string& text) const { put("scenario", text); }
  [[nodiscard]] fs::path library_path() const { return folder_ / "libnvidia-ml.so.1"; }

  [[nodiscard]] NvmlOptions options() const {
    NvmlOptions options;
    options.library = library_path();
    options.root = folder_;
    options.driver_loaded = true;
    options.interval = 1ms;
    options.slowest_retry = 1ms;
    return options;
  }
  [[nodiscard]] std::unique_ptr<NvmlProbe> start() const { return start(options()); }
  [[nodiscard]] std::unique_ptr<NvmlProbe> start(NvmlOptions with) const {
    auto probe = std::make_unique<NvmlProbe>(std::move(with), clock_);
    EXPECT_TRUE(probe->wait_for_first(60s));
    return probe;
  }
  /// What a library says that was loaded just now.
  [[nodiscard]] host::NvmlAnswers ask() const {
    const auto library = Library::load(library_path());
    if (!library) throw std::runtime_error(library.error().message);
    return (*library)->ask(4'194'304);
  }

  fs::path folder_;
  mutable SharedClock clock_;
};

TEST_F(NvmlTest, B6_ProcessesOfGb10WithTheirMemory) {
  scenario(std::string{kGb10} + "compute 700 10737418240\ngraphics 701 1048576\n");
  const auto reading = start()->latest();
  EXPECT_EQ(reading.host_class, HostClass::integrated) << reading.evidence;
  EXPECT_EQ(reading.driver_version, "580.95.05");
  ASSERT_EQ(reading.devices.size(), 1U);
  EXPECT_EQ(reading.devices[0].name, "NVIDIA GB10");
  EXPECT_EQ(reading.devices[0].uuid, "GPU-1234");
  EXPECT_EQ(reading.devices[0].memory_code, 3U);
  ASSERT_TRUE(reading.processes) << reading.unavailable;
  EXPECT_THAT(*reading.processes, ElementsAre(host::GpuProcess{.pid = 700, .start_time_ticks = 777, .used = gib(10)},
                                              host::GpuProcess{.pid = 701, .start_time_ticks = 777, .used = mib(1)}));
}

TEST_F(NvmlTest, FiguresFollowTheDriver) {
  scenario(std::string{kGb10} + "compute 700 1024\n");
  const auto probe = start();
  EXPECT_EQ(probe->latest().held_by_all(), kib(1));
  scenario(std::string{kGb10} + "compute 700 4096\n");
  EXPECT_TRUE(eventually([&] { return probe->latest().held_by_all() == kib(4); }));
}

TEST_F(NvmlTest, AProcessThatEndedOrWhosePidWasGivenAwayIsNoLongerServed) {
  scenario(std::string{kGb10} + "compute 700 1024\ncompute 701 1024\n");
  auto slow = options();
  slow.interval = 1h;
  const auto probe = start(std::move(slow));
  ASSERT_EQ(probe->latest().processes->size(), 2U);
  fs::remove_all(folder_ / "proc/700");
  put_process(701, 99'000);
  EXPECT_THAT(*probe->latest().processes, IsEmpty());
}

TEST_F(NvmlTest, AProcessBornAfterTheQuestionIsNotTheOwner) {
  put_process(700, 200'000);  // 1000 s after boot are 100,000 ticks
  scenario(std::string{kGb10} + "compute 700 1024\n");
  EXPECT_THAT(*start()->latest().processes, IsEmpty());
}

TEST_F(NvmlTest, AnOldDriverIsAskedWithTheFirstFunctionsAndRecordsOf16Bytes) {
  use_library(DGXMM_NVML_DOUBLE_OLD);
  scenario("driver 390.1\ndevice Tesla K80\nmemory 12884901888 1024\ncompute 700 1024\ncompute 701 unknown\n");
  const auto answers = ask();
  EXPECT_EQ(answers.failed_call, "");
  ASSERT_EQ(answers.devices.size(), 1U);
  EXPECT_EQ(answers.devices[0].memory_total, gib(12));
  EXPECT_EQ(answers.devices[0].pci_device_id, std::nullopt);
  ASSERT_TRUE(answers.lists.at(0).at(0).records);
  EXPECT_THAT(*answers.lists[0][0].records,
              ElementsAre(host::GpuRecord{.pid = 700, .used = kib(1)}, host::GpuRecord{.pid = 701, .used = {}}));
}

TEST_F(NvmlTest, EachSizeOfRecordUnderTheNewestName) {
  for (const int size : {16, 24, 32}) {
    scenario(fmt::format("{}record-size {}\ncompute 700 1024\ncompute 701 2048\n", kGb10, size));
    const auto answers = ask();
    ASSERT_TRUE(answers.lists.at(0).at(0).records) << size;
    EXPECT_THAT(*answers.lists[0][0].records,
                ElementsAre(Field(&host::GpuRecord::pid, 700U), Field(&host::GpuRecord::pid, 701U)));
  }
}

TEST_F(NvmlTest, ADriverThatClearsTheRoomAndAListThatGrows) {
  scenario(std::string{kGb10} + "clear-room\ngrow 3\ncompute 700 1024\n");
  ASSERT_TRUE(ask().lists.at(0).at(0).records);
  scenario(std::string{kGb10} + "grow 1000\ncompute 700 1024\n");
  EXPECT_FALSE(ask().lists.at(0).at(0).records) << "gives up after a few tries";
}

TEST_F(NvmlTest, InstancesOfMigAreAdded) {
  scenario(std::string{kGb10} + "compute 700 1024 1 0\ncompute 700 2048 2 0\n");
  EXPECT_EQ(start()->latest().held_by_all(), kib(3));
}

TEST_F(NvmlTest, B7_AWrongStructVersionFallsBackToTheOlderFunctionAndIsRemembered) {
  scenario("driver 550\ndevice NVIDIA H100\nmemory 85899345920 1024\nanswer nvmlDeviceGetMemoryInfo_v2 25\n");
  EXPECT_EQ(ask().devices.at(0).memory_total, gib(80));
  scenario("driver 550\ndevice NVIDIA H100\nmemory 85899345920 1024\nanswer nvmlDeviceGetMemoryInfo_v2 13\n");
  EXPECT_EQ(ask().devices.at(0).memory_total, gib(80));
}

TEST_F(NvmlTest, AnOlderListIsAskedWhenTheNewestIsNotKnownToTheDriver) {
  scenario(std::string{kGb10} +
           "answer nvmlDeviceGetComputeRunningProcesses_v3 13\nanswer nvmlDeviceGetComputeRunningProcesses_v2 2\n"
           "compute 700 1024\n");
  ASSERT_TRUE(ask().lists.at(0).at(0).records);
}

TEST_F(NvmlTest, ALostInitializationIsMadeUpForOnce) {
  scenario(std::string{kGb10} + "lose-state\ncompute 700 1024\n");
  EXPECT_EQ(start()->latest().held_by_all(), kib(1));
}

TEST_F(NvmlTest, ALibraryThatIsNoneIsRefused) {
  use_library(DGXMM_NVML_DOUBLE_STUB);
  const auto stub = Library::load(library_path());
  ASSERT_FALSE(stub);
  EXPECT_THAT(stub.error().message, HasSubstr("functions are missing"));
  put("libnvidia-ml.so.1", "not a library");
  EXPECT_FALSE(Library::load(library_path()));
  fs::remove(library_path());
  const auto reading = start()->latest();
  EXPECT_EQ(reading.host_class, HostClass::unknown);
  EXPECT_THAT(reading.unavailable, HasSubstr("cannot be loaded"));
  ASSERT_TRUE(reading.no_starts);
  EXPECT_EQ(reading.no_starts->code, "host_class_unknown");
  auto given = options();
  given.given_class = HostClass::integrated;
  EXPECT_FALSE(start(std::move(given))->latest().no_starts);
}

TEST_F(NvmlTest, WithoutADriverThereIsNoGpuMemoryAndNoWarning) {
  fs::remove(library_path());
  auto without = options();
  without.driver_loaded = false;
  const auto reading = start(std::move(without))->latest();
  EXPECT_EQ(reading.host_class, HostClass::none);
  EXPECT_EQ(reading.held_by_all(), Bytes{});
  EXPECT_THAT(reading.warnings, IsEmpty());
}

TEST_F(NvmlTest, SwitchedOffItIsUnknownWhereThereIsADriver) {
  auto off = options();
  off.library.clear();
  EXPECT_THAT(start(std::move(off))->latest().unavailable, HasSubstr("nvml_library"));
}

TEST_F(NvmlTest, B8_AccessThatIsLostKeepsTheLastFiguresForAWhileAndComesBack) {
  const auto good = std::string{kGb10} + "compute 700 1024\n";
  scenario(good);
  const auto probe = start();
  ASSERT_EQ(probe->latest().held_by_all(), kib(1));
  scenario(good + "answer nvmlDeviceGetComputeRunningProcesses_v3 999\n");
  ASSERT_TRUE(eventually([&] { return !probe->latest().warnings.empty(); }));
  EXPECT_EQ(probe->latest().held_by_all(), kib(1));
  EXPECT_THAT(probe->latest().warnings, ElementsAre(HasSubstr("recreate")));
  clock_.advance(31s);
  EXPECT_EQ(probe->latest().held_by_all(), std::nullopt);
  scenario(good);
  EXPECT_TRUE(eventually([&] { return probe->latest().held_by_all() == kib(1); }));
}

TEST_F(NvmlTest, C6_AHangingDriverBlocksNobodyNotEvenTheEnd) {
  const auto good = std::string{kGb10} + "compute 700 1024\n";
  scenario(good);
  auto probe = start();
  put("gate", "");
  scenario(good + fmt::format("wait nvmlDeviceGetComputeRunningProcesses_v3 {}\n", (folder_ / "gate").string()));
  // The first reading that hangs is under way once time passes without a new one.
  ASSERT_TRUE(eventually([&] {
    clock_.advance(6s);
    return !probe->latest().warnings.empty();
  }));
  EXPECT_THAT(probe->latest().warnings, ElementsAre(HasSubstr("does not answer")));
  clock_.advance(31s);
  EXPECT_EQ(probe->latest().held_by_all(), std::nullopt);
  EXPECT_EQ(probe->latest().host_class, HostClass::integrated);
  probe.reset();
  fs::remove(folder_ / "gate");
}

TEST_F(NvmlTest, ADriverThatHangsFromTheStartLeavesEverythingUnknown) {
  put("gate", "");
  scenario(kGb10 + fmt::format("wait nvmlInitWithFlags {}\n", (folder_ / "gate").string()));
  NvmlProbe probe{options(), clock_};
  EXPECT_FALSE(probe.wait_for_first(1ms));
  EXPECT_EQ(probe.latest().host_class, HostClass::unknown);
  EXPECT_EQ(probe.latest().held_by_all(), std::nullopt);
  fs::remove(folder_ / "gate");
  EXPECT_TRUE(probe.wait_for_first(60s));
  EXPECT_EQ(probe.latest().host_class, HostClass::integrated);
}

TEST_F(NvmlTest, DriverThatIsLoadedLaterIsFound) {
  const auto probe = start();  // no scenario: not loaded
  EXPECT_THAT(probe->latest().unavailable, HasSubstr("not loaded"));
  scenario(std::string{kGb10} + "compute 700 1024\n");
  EXPECT_TRUE(eventually([&] { return probe->latest().held_by_all() == kib(1); }));
}

TEST_F(NvmlTest, ADriverWithoutADeviceIsAHostWithoutAGpu) {
  scenario("driver 580.95.05\n");
  EXPECT_EQ(start()->latest().host_class, HostClass::none);
  scenario("driver 580.95.05\nanswer nvmlDeviceGetCount_v2 6\n");
  EXPECT_EQ(start()->latest().host_class, HostClass::none);
}

TEST_F(NvmlTest, AnotherPidNamespaceMakesTheAttributionUnavailable) {
  scenario(std::string{kGb10} + "compute 700 1024\n");
  put("proc/self/status", "NSpid:\t4711\t1\n");
  const auto reading = start()->latest();
  EXPECT_FALSE(reading.processes);
  EXPECT_THAT(reading.unavailable, HasSubstr("--pid=host"));
}

TEST_F(NvmlTest, HostileTextsAndFiguresAreContained) {
  scenario("driver x\ndevice " + std::string(95, 'x') +
           "\nmemory unknown unknown\ncompute 4294967295 unknown\ncompute 0 1\n");
  const auto reading = start()->latest();
  ASSERT_EQ(reading.devices.size(), 1U);
  EXPECT_EQ(reading.devices[0].memory_total, std::nullopt);
  EXPECT_THAT(*reading.processes, IsEmpty());
}

}  // namespace
}  // namespace dgxmm::nvml
