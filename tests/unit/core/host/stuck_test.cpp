#include "core/host/stuck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::host {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StillRunning, D4_WhoeverOfThemWaitsInTheKernelIsTheCause) {
  const auto error = still_running({{.pid = 7, .state = 'S', .comm = "docker-init"},
                                    {.pid = 8, .state = 'Z', .comm = "vllm"},
                                    {.pid = 9, .state = 'D', .comm = "VLLM::Worker\n"}},
                                   "container ef93");
  EXPECT_EQ(error.code, "still_running");
  EXPECT_THAT(error.message, HasSubstr("stuck in the driver: process 9 (VLLM::Worker"));
  EXPECT_THAT(error.message, Not(HasSubstr("\n")));
  EXPECT_THAT(error.hint, HasSubstr("reboot"));
  EXPECT_EQ(error.where, "container ef93");
}

TEST(StillRunning, OneThatIsNotStuckIsNotSaidToBe) {
  const auto error = still_running({{.pid = 8, .state = 'S', .comm = "vllm"}}, "pid 8");
  EXPECT_THAT(error.message, HasSubstr("process 8 (vllm) is still there after SIGKILL, in state S"));
  EXPECT_THAT(error.hint, Not(HasSubstr("reboot")));
  EXPECT_THAT(still_running({}, {}).message, HasSubstr("still there"));
}

}  // namespace
}  // namespace dgxmm::host
