#include "core/container/archive.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace dgxmm::container {
namespace {

TEST(ContainerArchive, IsReadByTar) {
  const std::string path = ::testing::TempDir() + "dgxmm-archive.tar";
  std::ofstream{path} << tar_of("modules/one.py", std::string(513, 'x') + "end");
  EXPECT_EQ(
      std::system(("tar --extract --to-stdout --file " + path + " modules/one.py | tail -c 4 | grep -q xend").c_str()),
      0);
  EXPECT_EQ(std::system(("tar --list --verbose --file " + path + " | grep -q '^-rw-r--r--.* 516 '").c_str()), 0);
}

}  // namespace
}  // namespace dgxmm::container
