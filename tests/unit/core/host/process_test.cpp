#include "core/host/readings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

namespace dgxmm::host {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string stat_of(std::string_view comm, std::string_view start_time = "987654") {
  return "4242 (" + std::string{comm} + ") S 17 4242 4240 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 33 0 " +
         std::string{start_time} + " 123456 789 18446744073709551615\n";
}

TEST(ProcStat, TheIdentityOfAProcessIsRead) {
  const auto stat = parse_proc_stat(stat_of("llama-server"));
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->pid, 4242);
  EXPECT_EQ(stat->parent_pid, 17);
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->session, 4240);
  EXPECT_EQ(stat->start_time_ticks, 987654U);
  EXPECT_EQ(stat->comm, "llama-server");
}

TEST(ProcStat, ANameCannotForgeTheFieldsBehindIt) {
  for (const std::string comm : {"a b", ") R 1 (", "((", "))", "", "x) S 1 1 1", "a\nb", "tab\there"}) {
    const auto stat = parse_proc_stat(stat_of(comm));
    ASSERT_TRUE(stat) << comm;
    EXPECT_EQ(stat->comm, comm);
    EXPECT_EQ(stat->parent_pid, 17);
    EXPECT_EQ(stat->start_time_ticks, 987654U);
  }
}

TEST(ProcStat, AStartTimeMayUseAll64Bits) {
  EXPECT_EQ(parse_proc_stat(stat_of("a", "18446744073709551615"))->start_time_ticks,
            std::numeric_limits<std::uint64_t>::max());
}

TEST(ProcStat, WhatCannotIdentifyAProcessIsRefused) {
  const auto whole = stat_of("a");
  for (std::size_t length = 0; length < whole.find(" 987654"); ++length) {
    EXPECT_EQ(parse_proc_stat(whole.substr(0, length)), std::nullopt) << length;
  }
  EXPECT_EQ(parse_proc_stat(stat_of("a", "-1")), std::nullopt);
  EXPECT_EQ(parse_proc_stat(stat_of("a", "18446744073709551616")), std::nullopt);
  EXPECT_EQ(parse_proc_stat(")4242 (a S 17"), std::nullopt);
}

TEST(ProcStatus, MemoryAndTheRealUserAreRead) {
  const auto memory = parse_proc_status(
      "Name:\tllama-server\nUmask:\t0022\nUid:\t1000\t1001\t1002\t1003\nVmRSS:\t  200 kB\nRssAnon:\t  120 kB\n"
      "RssFile:\t   70 kB\nRssShmem:\t   10 kB\nVmSwap:\t    0 kB\nHugetlbPages:\t  2048 kB\n");
  EXPECT_EQ(memory.uid, 1000);
  EXPECT_EQ(memory.rss, kib(200));
  EXPECT_EQ(memory.rss_anon, kib(120));
  EXPECT_EQ(memory.rss_file, kib(70));
  EXPECT_EQ(memory.rss_shmem, kib(10));
  EXPECT_EQ(memory.swap, Bytes{});
  EXPECT_EQ(memory.hugetlb, mib(2));
}

TEST(ProcStatus, B7_AKernelThreadHasNoMemoryRatherThanNone) {
  const auto memory = parse_proc_status("Name:\tkthreadd\nUid:\t0\t0\t0\t0\n");
  EXPECT_EQ(memory.rss, std::nullopt);
  EXPECT_EQ(memory.rss_anon, std::nullopt);
  EXPECT_EQ(memory.uid, 0);
  EXPECT_EQ(parse_proc_status("").uid, std::nullopt);
}

TEST(Cmdline, ArgumentsAreSeparatedByNul) {
  using namespace std::string_view_literals;
  EXPECT_THAT(parse_cmdline("a\0b c\0\0d\0"sv), ElementsAre("a", "b c", "", "d"));
  EXPECT_THAT(parse_cmdline("no-nul"sv), ElementsAre("no-nul"));
  EXPECT_THAT(parse_cmdline("\0a\0"sv), ElementsAre("", "a"));
}

TEST(Cmdline, AnOverwrittenTitleLosesItsTrailingNuls) {
  using namespace std::string_view_literals;
  EXPECT_THAT(parse_cmdline("nginx: worker process\0\0\0\0\0"sv), ElementsAre("nginx: worker process"));
  EXPECT_THAT(parse_cmdline("\0\0\0"sv), IsEmpty());
  EXPECT_THAT(parse_cmdline(""sv), IsEmpty());
}

}  // namespace
}  // namespace dgxmm::host
