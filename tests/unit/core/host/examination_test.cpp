#include "core/host/examination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dgxmm::host {
namespace {

using State = Fact::State;
using testing::HasSubstr;

/// A DGX Spark on which nothing is wrong.
ExaminedHost good_host() {
  ExaminedHost host;
  host.meminfo = Meminfo{.mem_total = gib_from_decimal(121.69),
                         .mem_available = gib(110),
                         .mem_free = gib(90),
                         .swap_total = Bytes{},
                         .swap_free = Bytes{},
                         .hugetlb = Bytes{}};
  host.status = "Name:\tdgxmm\nNSpid:\t4711\n";
  host.own_pid_namespace = host.first_pid_namespace = "pid:[4026531836]";
  host.own_cgroup_namespace = host.first_cgroup_namespace = "cgroup:[4026531835]";
  host.cgroup = CgroupPath{.version = 2, .path = "/system.slice/dgxmm.service"};
  host.memory_controller = true;
  host.pressure = {.some_avg10_permyriad = 0, .full_avg10_permyriad = 0};
  host.buddyinfo = "Node 0, zone   Normal   10 10 10 10 10 10 10 10 10 10 9000\n";
  host.kernel_log = true;
  host.safety_margin = gib(8);
  return host;
}

Fact fact_of(const ExaminedHost& host, std::string_view name) {
  const auto facts = examine(host);
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found == facts.end() ? Fact{} : *found;
}

TEST(Examination, OfAGoodHostHasNothingToDo) {
  for (const auto& fact : examine(good_host())) {
    EXPECT_EQ(fact.state, State::good) << fact.name << ": " << fact.value;
    EXPECT_EQ(fact.advice, "") << fact.name;
    EXPECT_FALSE(fact.value.empty()) << fact.name;
  }
}

TEST(Examination, OfNothingReadSaysSoAndNeverGood) {
  for (const auto& fact : examine({})) {
    if (fact.name == "memory guards" || fact.name == "GPU") continue;
    EXPECT_NE(fact.state, State::good) << fact.name << ": " << fact.value;
  }
}

TEST(Examination, B7_AnotherPidNamespaceIsSeenByEitherSign) {
  auto nested = good_host();
  nested.status = "NSpid:\t4711\t17\n";
  EXPECT_EQ(fact_of(nested, "PID namespace").state, State::warning);
  EXPECT_THAT(fact_of(nested, "PID namespace").advice, HasSubstr("--pid=host"));
  auto other = good_host();
  other.own_pid_namespace = "pid:[4026532000]";
  EXPECT_EQ(fact_of(other, "PID namespace").state, State::warning);
  auto hidden = good_host();  // /proc/1/ns may not be read by everybody
  hidden.first_pid_namespace.reset();
  EXPECT_EQ(fact_of(hidden, "PID namespace").state, State::good);
}

TEST(Examination, AnotherCgroupNamespaceIsSeen) {
  auto host = good_host();
  host.cgroup->path = "/../docker-abc.scope";
  EXPECT_THAT(fact_of(host, "cgroups").advice, HasSubstr("--cgroupns=host"));
  host = good_host();
  host.own_cgroup_namespace = "cgroup:[4026532111]";
  EXPECT_EQ(fact_of(host, "cgroups").state, State::warning);
  host = good_host();
  host.memory_controller = false;
  EXPECT_EQ(fact_of(host, "cgroups").state, State::warning);
}

TEST(Examination, AHugePagePoolIsTakenFromAllOthers) {
  auto host = good_host();
  host.meminfo->hugetlb = mib(512);
  const auto fact = fact_of(host, "huge pages");
  EXPECT_EQ(fact.state, State::warning);
  EXPECT_THAT(fact.value, HasSubstr("512.0 MiB"));
}

TEST(Examination, SwapIsNeverRoom) {
  auto host = good_host();
  host.meminfo->swap_total = gib(16);
  host.meminfo->swap_free = gib(15);
  EXPECT_THAT(fact_of(host, "swap").value, HasSubstr("never counted as room"));
  host.meminfo->swap_free.reset();
  EXPECT_THAT(fact_of(host, "swap").value, HasSubstr("not known"));
}

TEST(Examination, FreeMemoryInSmallPiecesIsAWarningOnlyWhenMuchIsFree) {
  auto host = good_host();
  host.buddyinfo = "Node 0, zone   Normal   999999 99999 9999 10 10 10 10 10 10 10 10\n";
  EXPECT_EQ(fact_of(host, "fragmentation").state, State::warning);
  host.meminfo->mem_free = gib(2);
  EXPECT_EQ(fact_of(host, "fragmentation").state, State::good);
}

TEST(Examination, BlocksAreCountedFromTheirOrderUp) {
  // Orders 0 to 10 of 4 KiB: the ninth is 2 MiB, the tenth 4 MiB.
  const auto text = "Node 0, zone      DMA      0 0 0 0 0 0 0 0 0 1 2\nNode 0, zone   Normal  5 5 5 5 5 5 5 5 5 3 0\n";
  EXPECT_EQ(free_in_blocks(text, kib(4), mib(2)), mib(2 + 8 + 6));
  EXPECT_EQ(free_in_blocks(text, kib(64), mib(2)),
            (5 * mib(2)) + 5 * mib(4) + 5 * mib(8) + 5 * mib(16) + 4 * mib(32) + 2 * mib(64));
  for (const auto* odd : {"", "nonsense", "Node 0, zone Normal", "Node 0, zone Normal x y",
                          "Node 0, zone Normal 99999999999999999999", "Node 0, zone Normal 9223372036854775807"}) {
    EXPECT_FALSE(free_in_blocks(odd, kib(4), mib(2))) << odd;
  }
  EXPECT_FALSE(free_in_blocks(text, Bytes{}, mib(2)));
}

TEST(Examination, PressureWithoutPsiIsUnknown) {
  auto host = good_host();
  host.pressure = {};
  EXPECT_EQ(fact_of(host, "memory pressure").state, State::unknown);
  host.pressure = {.some_avg10_permyriad = 1234, .full_avg10_permyriad = 5};
  EXPECT_EQ(fact_of(host, "memory pressure").state, State::warning);
  EXPECT_THAT(fact_of(host, "memory pressure").value, HasSubstr("12.34 %"));
}

TEST(Examination, AGuardThatActsAboveOurMarginEndsWhatWeFoundRoomFor) {
  auto host = good_host();
  host.guards = {*memory_guard_of("earlyoom", {"earlyoom"}, host.meminfo->mem_total)};  // 10 % = 12.2 GiB
  const auto fact = fact_of(host, "memory guards");
  EXPECT_EQ(fact.state, State::warning);
  EXPECT_THAT(fact.value, HasSubstr("12.2 GiB"));
  EXPECT_THAT(fact.advice, HasSubstr("safety_margin_gib to 14"));
  host.safety_margin = gib(14);
  EXPECT_EQ(fact_of(host, "memory guards").state, State::good);
}

TEST(Examination, GuardsAreKnownByNameAndOptions) {
  using Arguments = std::vector<std::string>;
  const auto percent = [](const Arguments& arguments) {
    return memory_guard_of("earlyoom", arguments, gib(100)).value().acts_below_percent;
  };
  EXPECT_EQ(percent({"earlyoom"}), 10);
  EXPECT_EQ(percent({"earlyoom", "-r", "3600", "-m", "4"}), 4);
  EXPECT_EQ(percent({"earlyoom", "-m5,2"}), 5);
  EXPECT_EQ(percent({"earlyoom", "-M", "2097152"}), 2) << "KiB";
  EXPECT_EQ(percent({"earlyoom", "-m", "x"}), std::nullopt);
  EXPECT_EQ(percent({"earlyoom", "-m"}), std::nullopt);
  EXPECT_TRUE(memory_guard_of("systemd-oomd", {}, gib(1)));
  EXPECT_FALSE(memory_guard_of("systemd-oomd", {}, gib(1))->acts_below_percent);
  EXPECT_FALSE(memory_guard_of("bash", {"bash"}, gib(1)));
}

TEST(Examination, TheGpuSaysWhyItIsUnknown) {
  auto host = good_host();
  host.gpu.host_class = HostClass::integrated;
  host.gpu.evidence = "NVIDIA GB10";
  host.gpu.unavailable = "NVML is not there: install the driver's utilities";
  host.gpu.processes.reset();
  const auto fact = fact_of(host, "GPU");
  EXPECT_EQ(fact.state, State::unknown);
  EXPECT_EQ(fact.advice, host.gpu.unavailable);
  host.gpu.no_starts = Error{"host_not_shared", "the GPU has its own memory", {}, {}};
  EXPECT_EQ(fact_of(host, "GPU").state, State::warning);
}

std::vector<std::string> codes_of(const std::vector<Warning>& warnings) {
  std::vector<std::string> codes;
  for (const auto& warning : warnings) codes.push_back(warning.code);
  return codes;
}

TEST(HostWarnings, OfAGoodHostThereAreNone) { EXPECT_THAT(host_warnings(good_host()), testing::IsEmpty()); }

TEST(HostWarnings, EachHasItsCodeAndTheNextStep) {
  auto host = good_host();
  host.meminfo->hugetlb = gib(2);
  host.meminfo->mem_free = gib(9);
  host.buddyinfo = "Node 0, zone   Normal   900000 500000 1000 0 0 0 0 0 0 0 0\n";
  host.pressure = {.some_avg10_permyriad = 1500, .full_avg10_permyriad = 0};
  host.guards = {{.name = "earlyoom", .acts_below_percent = 10}};
  host.group_limit = gib(4);
  host.swap_activity = {.in_per_s = mib(3), .out_per_s = mib(40), .lasts = std::chrono::seconds{12}};
  host.driver_failures = 3;
  const auto warnings = host_warnings(host);
  EXPECT_THAT(codes_of(warnings),
              testing::UnorderedElementsAre("huge_pages", "fragmentation", "memory_pressure", "memory_guards",
                                            "own_memory_limit", "swap_activity", "driver_allocation_failures"));
  for (const auto& warning : warnings) {
    EXPECT_EQ(warning.severity, Warning::Severity::warning) << warning.code;
    EXPECT_NE(warning.hint, "") << warning.code;
  }
}

TEST(HostWarnings, C4_FailedAllocationsOfTheDriverAloneAreANote) {
  auto host = good_host();
  host.driver_failures = 55;
  const auto warnings = host_warnings(host);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].severity, Warning::Severity::note);
  EXPECT_THAT(warnings[0].message, HasSubstr("55 failed allocations"));
  host.meminfo->mem_available = gib(3);
  EXPECT_EQ(host_warnings(host)[0].severity, Warning::Severity::warning) << "C3: now it may be the last sign";
}

TEST(HostWarnings, AGuardThatActsFarBelowTheMarginIsNone) {
  auto host = good_host();
  host.guards = {{.name = "earlyoom", .acts_below_percent = 5}};
  EXPECT_THAT(host_warnings(host), testing::IsEmpty()) << "6.1 GiB + 1 GiB is less than the margin of 8";
}

TEST(DriverFailures, AreCountedByTheTimeOfTheKernelsLog) {
  const std::string log =
      "4,100,1000000,-;NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)\n"
      "6,101,3600000000,-;usb 1-1: new device\n"
      "4,102,3700000000,-;NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)\n SUBSYSTEM=pci\n"
      "4,NV_ERR_NO_MEMORY\n";
  EXPECT_EQ(count_driver_failures(log, 3'800'000'000, std::chrono::hours{1}), 1);
  EXPECT_EQ(count_driver_failures(log, 3'601'000'000, std::chrono::hours{1}), 2);
  EXPECT_EQ(count_driver_failures("", 0, std::chrono::hours{1}), 0);
}

}  // namespace
}  // namespace dgxmm::host
