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

TEST(SpawnEnvironment, D10_NoEngineInheritsAKeyOrFlags) {
  EXPECT_THAT(child_environment({"LLAMA_API_KEY=x", "VLLM_API_KEY=x", "LLAMA_ARG_CTX_SIZE=9", "VLLM_SERVER_DEV_MODE=1",
                                 "LLAMA_CACHE=/c", "VLLM_LOGGING_LEVEL=INFO"},
                                {{"VLLM_SERVER_DEV_MODE", "1"}}),
              ElementsAre("LLAMA_CACHE=/c", "VLLM_LOGGING_LEVEL=INFO", "VLLM_SERVER_DEV_MODE=1"));
}

}  // namespace
}  // namespace dgxmm::process
