#include "adapters/system/process_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace dgxmm::system {
namespace {

namespace fs = std::filesystem;

/// A folder with a program in it, as the whole PATH.
class ProgramExists : public ::testing::Test {
 protected:
  ProgramExists() {
    auto pattern = ::testing::TempDir() + "dgxmm-path-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    put("engine", fs::perms::owner_all);
    put("notes.txt", fs::perms::owner_read);
    fs::create_directory(folder_ / "folder");
    if (const char* path = std::getenv("PATH")) before_ = path;
    ::setenv("PATH", ("/nowhere:" + folder_.string()).c_str(), 1);
  }
  ~ProgramExists() override {
    ::setenv("PATH", before_.c_str(), 1);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  void put(const std::string& name, fs::perms permissions) {
    std::ofstream{folder_ / name} << "#!/bin/sh\n";
    fs::permissions(folder_ / name, permissions);
  }

  fs::path folder_;
  std::string before_;
};

TEST_F(ProgramExists, ByItsNameOnThePathOrByItsPath) {
  EXPECT_TRUE(program_exists("engine"));
  EXPECT_TRUE(program_exists((folder_ / "engine").string()));
  EXPECT_FALSE(program_exists("another"));
  EXPECT_FALSE(program_exists("/nowhere/engine"));
  EXPECT_FALSE(program_exists(""));
}

TEST_F(ProgramExists, OnlyWhatCanBeRunIsAProgram) {
  EXPECT_FALSE(program_exists("notes.txt"));
  EXPECT_FALSE(program_exists("folder"));
  EXPECT_FALSE(program_exists(folder_.string()));
}

TEST_F(ProgramExists, WithoutAPathThereIsNoneByName) {
  ::unsetenv("PATH");
  EXPECT_FALSE(program_exists("engine"));
}

TEST(HostName, IsTheKernels) {
  std::ifstream file{"/proc/sys/kernel/hostname"};
  std::string name;
  std::getline(file, name);
  EXPECT_EQ(host_name(), name);
}

}  // namespace
}  // namespace dgxmm::system
