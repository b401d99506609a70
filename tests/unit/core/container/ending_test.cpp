#include "core/container/ending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::container {
namespace {

using testing::HasSubstr;

Container ended(int exit_code, bool oom_killed = false) {
  return {.id = std::string(64, 'a'), .status = Status::exited, .exit_code = exit_code, .oom_killed = oom_killed};
}

TEST(Ending, C12_137AloneIsAKillOfUnknownCause) {
  const auto ending = explain_ending(ended(137), 0, {});
  EXPECT_EQ(ending.signal, 9);
  EXPECT_FALSE(ending.exit_code);
  EXPECT_FALSE(ending.oom_killed);
  EXPECT_FALSE(explain_ending(ended(137), std::nullopt, {}).oom_killed);
}

TEST(Ending, C5_EachKindOfProofIsNamed) {
  EXPECT_THAT(explain_ending(ended(137), 1, {}).evidence, HasSubstr("oom_kill 1"));
  EXPECT_THAT(explain_ending(ended(137), 0, "oom-kill:constraint=CONSTRAINT_MEMCG").evidence,
              HasSubstr("CONSTRAINT_MEMCG"));
  EXPECT_THAT(explain_ending(ended(137, true), {}, {}).evidence, HasSubstr("OOMKilled"));
  EXPECT_TRUE(explain_ending(ended(1, true), {}, {}).oom_killed) << "a child was killed, the program ended by itself";
}

TEST(Ending, AnExitCodeAndASignalAreToldApart) {
  EXPECT_EQ(explain_ending(ended(0), {}, {}).exit_code, 0);
  EXPECT_EQ(explain_ending(ended(128), {}, {}).exit_code, 128);
  EXPECT_EQ(explain_ending(ended(143), {}, {}).signal, 15);
  EXPECT_EQ(explain_ending(ended(255), {}, {}).exit_code, 255);
  EXPECT_EQ(explain_ending(Container{.id = "1"}, {}, {}), Ending{});
}

}  // namespace
}  // namespace dgxmm::container
