#include "core/engine/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dgxmm::engine {
namespace {

TEST(Guard, TheModuleAndItsNamesAreWhatTheEngineIsTold) {
  const std::string source{kGuard.source};
  EXPECT_EQ(kGuardOption, std::string{kGuard.name} + ".Guard");
  EXPECT_THAT(source, testing::HasSubstr("class Guard:"));
  EXPECT_THAT(source, testing::HasSubstr(std::string{kGuardVariable}));
}

TEST(Guard, ItsFolderComesFirstAndNoEmptyEntryNamesTheWorkingFolder) {
  EXPECT_EQ(python_path("/state/engine-modules", ""), "/state/engine-modules");
  EXPECT_EQ(python_path("/state/engine-modules", "/opt/a:/opt/b"), "/state/engine-modules:/opt/a:/opt/b");
}

}  // namespace
}  // namespace dgxmm::engine
