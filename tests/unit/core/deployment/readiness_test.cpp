#include "core/deployment/readiness.h"

#include <gtest/gtest.h>

namespace dgxmm::deployment {
namespace {

using namespace std::chrono_literals;

const SteadyTime kBegun{};

TEST(ReadinessLimit, WithoutASignItIsTheLimit) {
  const ReadinessLimit limit{kBegun, 600s};
  EXPECT_FALSE(limit.is_over(kBegun + 600s));
  EXPECT_TRUE(limit.is_over(kBegun + 601s));
  EXPECT_FALSE(limit.still(kBegun + 601s));
}

TEST(ReadinessLimit, ANewLineExtendsItARepeatedOneDoesNot) {
  ReadinessLimit limit{kBegun, 600s};
  limit.saw_line(kBegun + 500s, "INFO 11-30 02:10:11 [core.py:1] compiling");
  EXPECT_FALSE(limit.is_over(kBegun + 1100s));
  limit.saw_line(kBegun + 1000s, "INFO 11-30 02:18:31 [core.py:1] compiling");
  EXPECT_TRUE(limit.is_over(kBegun + 1101s));
  limit.saw_line(kBegun + 1050s, "INFO 11-30 02:19:21 [core.py:1] captured 3 of 51");
  EXPECT_FALSE(limit.is_over(kBegun + 1101s));
  EXPECT_EQ(limit.still(kBegun + 1101s), 51s);
}

TEST(ReadinessLimit, MemoryThatItTakesExtendsItNoiseDoesNot) {
  ReadinessLimit limit{kBegun, 600s};
  limit.saw_available(kBegun, gib(60));
  limit.saw_available(kBegun + 300s, gib(60) - mib(100));
  limit.saw_available(kBegun + 400s, gib(61));
  EXPECT_TRUE(limit.is_over(kBegun + 601s));
  limit.saw_available(kBegun + 500s, gib(59));
  EXPECT_FALSE(limit.is_over(kBegun + 1100s));
  EXPECT_TRUE(limit.is_over(kBegun + 1101s));
}

TEST(ReadinessLimit, ThereIsAHardEnd) {
  ReadinessLimit limit{kBegun, 600s};
  for (int i = 0; i < 300; ++i) limit.saw_line(kBegun + i * 10s, "captured " + std::to_string(i));
  EXPECT_FALSE(limit.is_over(kBegun + 2400s));
  EXPECT_TRUE(limit.is_over(kBegun + 2401s));
}

}  // namespace
}  // namespace dgxmm::deployment
