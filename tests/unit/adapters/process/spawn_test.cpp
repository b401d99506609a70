#include "adapters/process/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::process {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST(SpawnEnvironment, AddedVariablesReplaceInheritedOnes) {
  EXPECT_THAT(child_environment({"PATH=/bin", "CUDA=1", "HOME=/root"}, {{"CUDA", "2"}, {"NEW", "a=b"}}),
              ElementsAre("PATH=/bin", "HOME=/root", "CUDA=2", "NEW=a=b"));
}

TEST(SpawnEnvironment, OnlyWholeNamesAreReplaced) {
  EXPECT_THAT(child_environment({"CUDA_HOME=/c", "CUDA"}, {{"CUDA", "2"}}),
              UnorderedElementsAre("CUDA_HOME=/c", "CUDA=2"));
}

TEST(SpawnEnvironment, WhatIsMeantForTheDaemonStaysWithIt) {
  EXPECT_THAT(child_environment({"DGXMM_TOKEN=t", "NOTIFY_SOCKET=/n", "LISTEN_FDS=1", "WATCHDOG_USEC=1", "LANG=C"}, {}),
              ElementsAre("LANG=C"));
}

}  // namespace
}  // namespace dgxmm::process
