#include "adapters/store/start_record_file.h"

#include "base/files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace dgxmm::store {
namespace {

class StartRecordFileTest : public ::testing::Test {
 protected:
  StartRecordFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dgxmm-record-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = pattern;
  }
  ~StartRecordFileTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path folder_;
};

TEST_F(StartRecordFileTest, IsReplacedAsAWholeAndReadByTheNextOne) {
  const auto path = folder_ / "record";
  StartRecordFile record{path};
  EXPECT_EQ(record.read(), std::nullopt);
  record.clear();  // there is none
  ASSERT_TRUE(record.write("one, which is longer"));
  ASSERT_TRUE(record.write("two"));
  EXPECT_EQ(StartRecordFile{path}.read(), "two");
  record.clear();
  EXPECT_EQ(StartRecordFile{path}.read(), std::nullopt);
}

TEST_F(StartRecordFileTest, WhatCannotBeWrittenIsSaidAndLeavesTheOldOne) {
  const auto path = folder_ / "record";
  StartRecordFile record{path};
  ASSERT_TRUE(record.write("old"));
  std::filesystem::create_directory(folder_ / "record.new");  // in its way
  const auto written = record.write("new");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, "state_unusable");
  EXPECT_EQ(record.read(), "old");
}

TEST_F(StartRecordFileTest, ALinkInItsPlaceIsNotFollowed) {
  std::ofstream{folder_ / "other"} << "mine";
  std::filesystem::create_symlink(folder_ / "other", folder_ / "record.new");
  EXPECT_FALSE(StartRecordFile{folder_ / "record"}.write("new"));
  EXPECT_EQ(read_text_file(folder_ / "other"), "mine");
}

}  // namespace
}  // namespace dgxmm::store
