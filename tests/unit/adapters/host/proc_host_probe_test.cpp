#include "adapters/host/proc_host_probe.h"

#include "base/files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace dgxmm::host {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A host made of files.
class ProcHostProbeTest : public testing::Test {
 public:
  ProcHostProbeTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dgxmm-host-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = pattern;
    put("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nllm:x:1000:1000::/home/llm:/bin/sh\nlate:x:1000::::\nbroken\n");
    put("proc/meminfo", "MemTotal:       127600748 kB\nMemFree: 1000 kB\nMemAvailable:   100000000 kB\n");
  }
  ~ProcHostProbeTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

 protected:
  void put(const std::string& path, std::string_view text) const {
    const auto file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file, std::ios::binary} << text;
  }
  void put_process(int pid, std::int64_t anon_kib, std::string_view cmdline, std::int64_t shmem_kib = 0, int uid = 1000,
                   std::string_view cgroup = "0::/\n") const {
    put(fmt::format("proc/{}/status", pid),
        fmt::format("Name:\tx\nUid:\t{0}\t{0}\t{0}\t{0}\nVmRSS:\t{1} kB\nRssAnon:\t{2} kB\nRssFile:\t900000 kB\n"
                    "RssShmem:\t{3} kB\nHugetlbPages:\t0 kB\n",
                    uid, anon_kib + shmem_kib + 900000, anon_kib, shmem_kib));
    put(fmt::format("proc/{}/stat", pid),
        fmt::format("{0} (a (b) c) S 1 {0} {0} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n", pid));
    put(fmt::format("proc/{}/cmdline", pid), cmdline);
    put(fmt::format("proc/{}/cgroup", pid), cgroup);
  }
  ProcHostProbe probe() const { return ProcHostProbe{root_}; }
  std::vector<ProcessRow> rows(std::size_t limit, const std::vector<std::int64_t>& exclude_pids) const {
    return probe().processes(limit, exclude_pids, gpu_).rows;
  }
  void put_stat(int pid, int parent, int session, std::string_view comm = "x") const {
    put(fmt::format("proc/{}/stat", pid), fmt::format("{} ({}) S {} {} {} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n",
                                                      pid, comm, parent, session, session));
  }

  std::filesystem::path root_;
  GpuReading gpu_;
};

TEST_F(ProcHostProbeTest, ReadsTheHostsMemory) {
  const auto meminfo = probe().meminfo();
  ASSERT_TRUE(meminfo);
  EXPECT_EQ(meminfo->mem_total, kib(127600748));
  EXPECT_EQ(meminfo->mem_available, kib(100000000));
}

TEST_F(ProcHostProbeTest, AMissingMeminfoIsAnErrorThatNamesIt) {
  std::filesystem::remove(root_ / "proc/meminfo");
  const auto meminfo = probe().meminfo();
  ASSERT_FALSE(meminfo);
  EXPECT_EQ(meminfo.error().code, "meminfo_unusable");
  EXPECT_THAT(meminfo.error().where, HasSubstr("proc/meminfo"));
}

TEST_F(ProcHostProbeTest, AMeminfoMadeByLxcfsIsRefused) {
  put("proc/self/mountinfo",
      "20 1 0:5 / /proc rw - proc proc rw\n90 20 0:60 /proc/meminfo /proc/meminfo rw,nosuid shared:30 - fuse.lxcfs lxcfs rw\n");
  const auto meminfo = probe().meminfo();
  ASSERT_FALSE(meminfo);
  EXPECT_THAT(meminfo.error().message, HasSubstr("lxcfs"));
}

TEST(MeminfoIsVirtual, OnlyLxcfsOverThatVeryFileCounts) {
  EXPECT_TRUE(meminfo_is_virtual("90 20 0:60 / /proc/meminfo rw - fuse.lxcfs lxcfs rw\n"));
  EXPECT_FALSE(meminfo_is_virtual("90 20 0:60 / /proc/cpuinfo rw - fuse.lxcfs lxcfs rw\n"));
  EXPECT_FALSE(meminfo_is_virtual("90 20 0:60 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n"));
  EXPECT_FALSE(meminfo_is_virtual("20 1 0:5 / /proc rw - proc proc rw\n\n- -\n"));
}

TEST_F(ProcHostProbeTest, PressureIsAbsentWhereTheKernelHasNone) {
  EXPECT_EQ(probe().pressure().some_avg10_permyriad, std::nullopt);
  put("proc/pressure/memory",
      "some avg10=1.25 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.50 avg60=0 avg300=0 total=1\n");
  EXPECT_EQ(probe().pressure().some_avg10_permyriad, 125);
  EXPECT_EQ(probe().pressure().full_avg10_permyriad, 50);
}

TEST_F(ProcHostProbeTest, B10_LargestHolderFirstAndMappedFilesDoNotCount) {
  put_process(10, 1000, std::string_view{"small\0", 6});
  put_process(11, 5000, std::string_view{"large\0--model\0x.gguf\0", 21});
  put_process(12, 500, std::string_view{"shared\0", 7}, 3000);
  const auto found = rows(10, {});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].pid, 11);
  EXPECT_EQ(found[0].command, "large --model x.gguf");
  EXPECT_EQ(found[0].held, kib(5000));
  EXPECT_EQ(found[0].rss, kib(905000));
  EXPECT_EQ(found[1].pid, 12);
  EXPECT_EQ(found[1].held, kib(3500));
  EXPECT_EQ(found[2].pid, 10);
}

TEST_F(ProcHostProbeTest, B10_ManagedProcessesAreLeftOutAndTheListIsBounded) {
  for (int pid = 10; pid < 20; ++pid) put_process(pid, pid * 100, std::string_view{"p\0", 2});
  const auto found = rows(3, {19, 17});
  EXPECT_THAT(found,
              ElementsAre(Field(&ProcessRow::pid, 18), Field(&ProcessRow::pid, 16), Field(&ProcessRow::pid, 15)));
  EXPECT_THAT(rows(0, {}), IsEmpty());
}

TEST_F(ProcHostProbeTest, B10_SecretsInCommandLinesAreMasked) {
  put_process(10, 1000, std::string_view{"vllm\0--api-key\0sk-verysecretvalue\0--max-model-len\0008192\0", 55});
  const auto found = rows(1, {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0].command, Not(HasSubstr("verysecret")));
  EXPECT_THAT(found[0].command, HasSubstr("--max-model-len 8192"));
}

TEST_F(ProcHostProbeTest, B10_AHostileCommandLineIsOnePrintableLine) {
  put_process(10, 1000, std::string_view{"evil\n\x1b[2J\0\xff\0", 11});
  const auto found = rows(1, {});
  ASSERT_EQ(found.size(), 1U);
  for (const char byte : found[0].command) EXPECT_TRUE(byte >= ' ' && byte <= '~') << found[0].command;
}

TEST_F(ProcHostProbeTest, B7_GpuMemoryIsAKnownZeroOnlyWhereItCanBeRead) {
  put_process(42, 1024, "x");
  ASSERT_EQ(rows(1, {}).size(), 1U);
  EXPECT_EQ(rows(1, {})[0].gpu, Bytes{0});
  gpu_.processes.reset();
  EXPECT_EQ(rows(1, {})[0].gpu, std::nullopt);
}

TEST_F(ProcHostProbeTest, B10_GpuMemoryCountsAndUnknownStaysUnknown) {
  put_process(10, 1024, std::string_view{"a\0", 2});
  put_process(11, 2048, std::string_view{"b\0", 2});
  put_process(12, 512, std::string_view{"c\0", 2});
  gpu_.processes = {{.pid = 10, .start_time_ticks = 777, .used = gib(3)},
                    {.pid = 12, .start_time_ticks = 777, .used = std::nullopt}};
  const auto list = probe().processes(10, {}, gpu_);
  ASSERT_EQ(list.groups.size(), 1U);
  EXPECT_EQ(list.groups[0].anon, kib(1024 + 2048 + 512)) << "of all, without the GPU part";
  EXPECT_THAT(list.rows,
              ElementsAre(Field(&ProcessRow::pid, 10), Field(&ProcessRow::pid, 11), Field(&ProcessRow::pid, 12)));
  EXPECT_EQ(list.rows[0].gpu, gib(3));
  EXPECT_EQ(list.rows[0].held, gib(3) + kib(1024));
  EXPECT_EQ(list.rows[2].gpu, std::nullopt);
  EXPECT_THAT(probe().rows_of({12, 99}, gpu_), ElementsAre(Field(&ProcessRow::pid, 12)));
}

TEST_F(ProcHostProbeTest, D1_AnOrphanOnTheGpuComesFirst) {
  put_process(10, 900'000, std::string_view{"large\0", 6});
  put_process(4242, 100, std::string_view{"VLLM::EngineCore\0", 17});
  put_stat(4242, 1, 4000, "VLLM::EngineCor");  // of the session that its dead server led
  put_process(11, 100, std::string_view{"desktop\0", 8});
  put_stat(11, 1, 11);
  gpu_.processes = {{.pid = 11, .start_time_ticks = 777, .used = mib(300)},
                    {.pid = 4242, .start_time_ticks = 777, .used = mib(104277)}};
  const auto found = rows(10, {});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].pid, 4242);
  EXPECT_EQ(found[0].orphan, Orphanhood::certain);
  EXPECT_EQ(found[0].held, mib(104277) + kib(100));
  EXPECT_EQ(found[1].orphan, Orphanhood::none);
  EXPECT_EQ(found[2].orphan, Orphanhood::none);
}

TEST_F(ProcHostProbeTest, D1_AJobInTheBackgroundIsNoCertainOrphanAndComesInItsPlace) {
  put_process(10, 900'000, std::string_view{"large\0", 6});
  put_process(4242, 100, std::string_view{"python3\0train.py\0", 17});
  put_stat(4242, 1, 4000);
  gpu_.processes = {{.pid = 4242, .start_time_ticks = 777, .used = mib(300)}};
  const auto found = rows(10, {});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].pid, 4242);
  EXPECT_EQ(found[1].orphan, Orphanhood::possible);
}

TEST_F(ProcHostProbeTest, D1_WhatAnEngineOfDgxmmLeftBehindIsACertainOrphan) {
  put_process(4242, 100, std::string_view{"llama-rpc\0", 10});
  put_stat(4242, 1, 4000);
  put("proc/4242/environ", std::string{"HOME=/root\0DGXMM_ENGINE=4000:777\0", 33});
  gpu_.processes = {{.pid = 4242, .start_time_ticks = 777, .used = mib(300)}};
  EXPECT_EQ(rows(10, {})[0].orphan, Orphanhood::certain);
  put_process(4000, 100, std::string_view{"llama-server\0", 13});
  put_stat(4000, 1, 4000);
  EXPECT_EQ(rows(10, {})[0].pid, 4242);
  EXPECT_EQ(rows(10, {})[0].orphan, Orphanhood::possible) << "its engine lives";
}

TEST_F(ProcHostProbeTest, AZombieThatTheDriverStillCountsIsShown) {
  put("proc/13/status", "Name:\tx\nState:\tZ (zombie)\nUid:\t0\t0\t0\t0\n");
  put_stat(13, 1, 13);
  EXPECT_THAT(rows(10, {}), IsEmpty());
  gpu_.processes = {{.pid = 13, .start_time_ticks = 777, .used = gib(1)}};
  EXPECT_THAT(rows(10, {}), ElementsAre(Field(&ProcessRow::held, gib(1))));
}

TEST_F(ProcHostProbeTest, B10_UserNamesAndNumbersWhereThereIsNoName) {
  put_process(10, 3000, std::string_view{"a\0", 2}, 0, 1000);
  put_process(11, 2000, std::string_view{"b\0", 2}, 0, 4242);
  put_process(12, 1000, std::string_view{"c\0", 2}, 0, 0);
  EXPECT_THAT(rows(3, {}), ElementsAre(Field(&ProcessRow::user, "llm"), Field(&ProcessRow::user, "4242"),
                                       Field(&ProcessRow::user, "root")));
}

TEST_F(ProcHostProbeTest, B10_TheContainerIsNamed) {
  const std::string id(64, 'a');
  put_process(10, 1000, std::string_view{"a\0", 2}, 0, 0, fmt::format("0::/system.slice/docker-{}.scope\n", id));
  EXPECT_EQ(rows(1, {}).at(0).container, id);
}

TEST_F(ProcHostProbeTest, AProgramThatClearedItsTitleIsShownByItsName) {
  put_process(10, 1000, "");
  EXPECT_EQ(rows(1, {}).at(0).command, "[a (b) c]");
}

TEST_F(ProcHostProbeTest, AProcessThatVanishesBetweenTwoReadsIsSkipped) {
  put_process(10, 3000, std::string_view{"gone\0", 5});
  std::filesystem::remove(root_ / "proc/10/cmdline");
  std::filesystem::remove(root_ / "proc/10/stat");
  put_process(11, 2000, std::string_view{"here\0", 5});
  std::filesystem::create_directories(root_ / "proc/12");
  EXPECT_THAT(rows(1, {}), ElementsAre(Field(&ProcessRow::pid, 11)));
}

TEST_F(ProcHostProbeTest, KernelThreadsAndOtherFilesOfProcAreNoRows) {
  put("proc/2/status", "Name:\tkthreadd\nUid:\t0\t0\t0\t0\n");
  put("proc/2/stat", "2 (kthreadd) S 0 0 0 0 -1");
  put("proc/2/cmdline", "");
  put("proc/1x/status", "RssAnon: 5 kB\n");
  put("proc/sys/kernel/x", "1");
  EXPECT_THAT(rows(10, {}), IsEmpty());
}

TEST_F(ProcHostProbeTest, TheDriverIsSeenByItsVersionFileOrItsDevice) {
  EXPECT_FALSE(probe().has_nvidia_driver());
  put("dev/nvidiactl", "");
  EXPECT_TRUE(probe().has_nvidia_driver());
  std::filesystem::remove(root_ / "dev/nvidiactl");
  put("proc/driver/nvidia/version", "NVRM version: x");
  EXPECT_TRUE(probe().has_nvidia_driver());
}

TEST(ParsePasswd, TakesTheFirstNameAndSkipsWhatItCannotRead) {
  const auto users =
      parse_passwd("a:x:5:5::/:/\nb:x:5:5::/:/\n::7:\nc:x:notanumber:\nd:x:99999999999999999999:\n+::::::\n");
  EXPECT_THAT(users, ElementsAre(testing::Pair(5, "a")));
}

TEST(ProcHostProbeOnThisHost, SeesItselfAndItsMemory) {
  ProcHostProbe probe;
  const auto meminfo = probe.meminfo();
  ASSERT_TRUE(meminfo) << meminfo.error().message;
  EXPECT_GT(meminfo->mem_total, mib(64));
  const auto rows = probe.processes(100'000, {}, {}).rows;
  EXPECT_THAT(rows, testing::Contains(Field(&ProcessRow::pid, ::getpid())));
}

TEST_F(ProcHostProbeTest, EveryProcessBelongsToOneGroupAndManagedOnesAreTold) {
  const std::string id(64, 'a');
  put_process(10, 1000, "a", 200, 1000, "0::/docker/" + id + "\n");
  put_process(11, 2000, "b", 300, 0, "0::/docker/" + id + "/inner\n");
  put_process(12, 4000, "c", 0, 1000, "0::/system.slice/ollama.service\n");
  put_process(13, 8000, "d", 0, 1000, "9:name=systemd:/\n0::/\n");
  put_process(14, 16000, "e", 0, 1000, "0::/docker/" + id + "\n");
  std::filesystem::create_symlink("12", root_ / "proc/self");
  gpu_.processes = std::vector<GpuProcess>{{.pid = 10, .start_time_ticks = 777, .used = gib(1)},
                                           {.pid = 12, .start_time_ticks = 777, .used = std::nullopt}};
  const auto list = probe().processes(0, {14}, gpu_);
  ASSERT_EQ(list.groups.size(), 3U);
  Bytes anon;
  for (const auto& group : list.groups) {
    anon += group.anon;
    if (group.owner.name == id) {
      EXPECT_EQ(group.processes, 2U);
      EXPECT_EQ(group.anon, kib(3000));
      EXPECT_EQ(group.shmem, kib(500));
      EXPECT_EQ(group.gpu, gib(1));
      EXPECT_EQ(group.user, "") << "of several";
      EXPECT_FALSE(group.own);
    }
    if (group.owner.name == "ollama.service") {
      EXPECT_EQ(group.gpu, std::nullopt) << "B7";
      EXPECT_TRUE(group.own);
      EXPECT_EQ(group.user, "llm");
    }
  }
  EXPECT_EQ(anon, kib(15000));
  ASSERT_EQ(list.left_out.size(), 1U);
  EXPECT_EQ(list.left_out[0].first, 14);
  EXPECT_EQ(list.left_out[0].second.path, "/docker/" + id);
}

/// With this machine's /proc, since what has a file open only the kernel can tell.
class OwnerlessMemoryTest : public ProcHostProbeTest {
 protected:
  OwnerlessMemoryTest() {
    std::filesystem::remove_all(root_ / "proc");
    std::filesystem::create_directory_symlink("/proc", root_ / "proc");
    std::filesystem::create_directories(root_ / "dev/shm/folder");
  }
  [[nodiscard]] std::filesystem::path fill(const std::string& name, std::size_t mebibytes) const {
    const auto file = root_ / "dev/shm" / name;
    std::ofstream{file, std::ios::binary} << std::string(mebibytes * 1024 * 1024, 'x');
    return file;
  }
};

TEST_F(OwnerlessMemoryTest, D14_FilesThatNobodyHasOpenAreNamedAndOpenedOnesAreNot) {
  static_cast<void>(fill("folder/vllm_offload_1.mmap", 40));
  static_cast<void>(fill("small", 1));
  const auto opened = fill("opened", 20);
  const auto mapped = fill("mapped", 20);
  const FileDescriptor open{::open(opened.c_str(), O_RDONLY | O_CLOEXEC)};
  FileDescriptor briefly{::open(mapped.c_str(), O_RDONLY | O_CLOEXEC)};
  constexpr std::size_t kSize = 4096;
  void* mapping = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, briefly.get(), 0);
  ASSERT_NE(mapping, MAP_FAILED);
  briefly.reset();
  const auto found = probe().ownerless_memory();
  ::munmap(mapping, kSize);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->items.size(), 1U);
  EXPECT_EQ(found->items.front().name, "/dev/shm/folder/vllm_offload_1.mmap");
  EXPECT_GE(found->items.front().size, mib(40));
  EXPECT_EQ(found->items.front().user, "root");
}

TEST_F(OwnerlessMemoryTest, WhatAProcessThatMayNotBeLookedAtHasOpenIsNotCertain) {
  std::filesystem::remove(root_ / "proc");
  static_cast<void>(fill("file", 20));
  put_process(10, 1000, "x");
  put("proc/10/maps", "7f0000000000-7f0000001000 r--p 00000000 08:01 4711 /usr/lib/libc.so.6\n");
  std::filesystem::create_directories(root_ / "proc/10/fd");
  EXPECT_TRUE(probe().ownerless_memory()->certain);
  put_process(11, 1000, "y");
  EXPECT_FALSE(probe().ownerless_memory()->certain);
  EXPECT_EQ(probe().ownerless_memory()->items.size(), 1U);
}

TEST_F(OwnerlessMemoryTest, WithoutThatFolderNobodyCanSay) {
  std::filesystem::remove_all(root_ / "dev/shm");
  EXPECT_FALSE(probe().ownerless_memory());
}

TEST_F(ProcHostProbeTest, TheSmallestLimitOfOwnGroupAndThoseAboveIsFoundInEitherFile) {
  put("proc/self/cgroup", "0::/ai.slice/dgxmm.service\n");
  put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  put("sys/fs/cgroup/ai.slice/dgxmm.service/memory.max", "max\n");
  put("sys/fs/cgroup/ai.slice/dgxmm.service/memory.high", "max\n");
  put("sys/fs/cgroup/ai.slice/memory.max", "max\n");
  EXPECT_EQ(probe().examined().group_limit, std::nullopt);
  put("sys/fs/cgroup/ai.slice/memory.max", "68719476736\n");
  EXPECT_EQ(probe().examined().group_limit, gib(64));
  put("sys/fs/cgroup/ai.slice/memory.high", "51539607552\n");
  EXPECT_EQ(probe().examined().group_limit, gib(48)) << "above it processes are held up";
  put("sys/fs/cgroup/ai.slice/dgxmm.service/memory.high", "0\n");
  EXPECT_EQ(probe().examined().group_limit, Bytes{0});
}

}  // namespace
}  // namespace dgxmm::host
