#include "core/host/readings.h"

#include <gtest/gtest.h>

#include <string>

namespace dgxmm::host {
namespace {

// A DGX Spark, shortened (MemTotal 121.69 GiB).
constexpr auto kSpark =
    "MemTotal:       127600748 kB\n"
    "MemFree:        41873412 kB\n"
    "MemAvailable:   112345678 kB\n"
    "Buffers:          102400 kB\n"
    "Cached:         70000000 kB\n"
    "SwapCached:            0 kB\n"
    "Active(file):   30000000 kB\n"
    "SwapTotal:      16777212 kB\n"
    "SwapFree:       16777212 kB\n"
    "Shmem:            204800 kB\n"
    "HugePages_Total:     256\n"
    "HugePages_Free:      256\n"
    "Hugepagesize:       2048 kB\n"
    "Hugetlb:          524288 kB\n";

TEST(Meminfo, ValuesAreKibibytes) {
  const auto info = parse_meminfo(kSpark);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->mem_total, Bytes{130'663'165'952});
  EXPECT_EQ(info->mem_available, kib(112345678));
  EXPECT_EQ(info->mem_free, kib(41873412));
  EXPECT_EQ(info->cached, kib(70000000));  // and not SwapCached
  EXPECT_EQ(info->shmem, kib(204800));
  EXPECT_EQ(info->swap_total, kib(16777212));
  EXPECT_EQ(info->swap_free, kib(16777212));
  EXPECT_EQ(info->hugetlb, mib(512));
}

TEST(Meminfo, B7_AMissingValueIsNotZero) {
  const auto info = parse_meminfo("MemAvailable: 5 kB\nMemTotal: 10 kB\nSwapTotal: 0 kB");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->mem_free, std::nullopt);
  EXPECT_EQ(info->hugetlb, std::nullopt);
  EXPECT_EQ(info->swap_total, Bytes{});
}

TEST(Meminfo, WithoutItsTwoRequiredValuesItIsUnusable) {
  for (const std::string text :
       {"", "garbage", "MemTotal: 10 kB\n", "MemAvailable: 10 kB\n", "MemTotal: 10 kB\nMemAvailable: 11 kB\n",
        "MemTotal: 0 kB\nMemAvailable: 0 kB\n", "MemTotal: -10 kB\nMemAvailable: 5 kB\n",
        "MemTotal: 10 kB\nMemAvailable: x kB\n", "MemTotal: 10 kB\nMemAvailable: 5\n",
        "MemTotal: 99999999999999999999 kB\nMemAvailable: 5 kB\n",
        "MemTotal: 9223372036854775807 kB\nMemAvailable: 5 kB\n", "MemTotal: 10 kB\nMemAvailable 5 kB\n"}) {
    const auto info = parse_meminfo(text);
    ASSERT_FALSE(info) << text;
    EXPECT_EQ(info.error().code, "meminfo_unusable");
    EXPECT_EQ(info.error().where, "/proc/meminfo");
  }
}

TEST(Meminfo, OneBadValueDoesNotSpoilTheOthers) {
  const auto info = parse_meminfo("MemTotal: 10 kB\nMemFree: -1 kB\nCached: 1x kB\nShmem: 2 kB\nMemAvailable: 5 kB\n");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->mem_free, std::nullopt);
  EXPECT_EQ(info->cached, std::nullopt);
  EXPECT_EQ(info->shmem, kib(2));
}

TEST(Meminfo, ALineCutShortIsNotReadAsASmallerNumber) {
  EXPECT_EQ(parse_meminfo("MemTotal: 100 kB\nMemAvailable: 50 kB\nShmem: 123")->shmem, std::nullopt);
}

TEST(Meminfo, TextsOfAnyLengthAreReadToTheirEnd) {
  std::string text = "MemTotal: 100 kB\n";
  for (int i = 0; i < 1000; ++i) text += "Unknown(" + std::to_string(i) + "): 1 kB\n";
  EXPECT_TRUE(parse_meminfo(text + "MemAvailable: 50 kB\n"));
}

TEST(UnlistedMemory, TheHoleOfMeminfoIsWhatDriversHold) {
  const std::string lines =
      "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\nMemFree: 100000 kB\nActive(anon): 10000 kB\n"
      "Inactive(anon): 20000 kB\nActive(file): 30000 kB\nInactive(file): 40000 kB\nUnevictable: 5000 kB\n"
      "Slab: 6000 kB\nKernelStack: 700 kB\nPageTables: 300 kB\n";
  const auto older = parse_meminfo(lines);
  ASSERT_TRUE(older);
  EXPECT_EQ(unlisted_memory(*older), kib(1000000 - 212000));
  const auto newer = parse_meminfo(lines + "SecPageTables: 100 kB\nPercpu: 200 kB\nHugetlb: 300000 kB\n");
  ASSERT_TRUE(newer);
  EXPECT_EQ(unlisted_memory(*newer), kib(1000000 - 212000 - 300300));
}

TEST(UnlistedMemory, AMissingLineMakesItUnknown) {
  const auto meminfo = parse_meminfo("MemTotal: 1000 kB\nMemAvailable: 500 kB\nMemFree: 1 kB\n");
  ASSERT_TRUE(meminfo);
  EXPECT_EQ(unlisted_memory(*meminfo), std::nullopt);
}

}  // namespace
}  // namespace dgxmm::host
