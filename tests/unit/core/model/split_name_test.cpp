#include "core/model/split_name.h"

#include <gtest/gtest.h>

namespace dgxmm::model {
namespace {

TEST(SplitName, ReadsNumbersFromOne) {
  const auto split = parse_split_name("big-model-00002-of-00013.gguf", ".gguf");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->prefix, "big-model");
  EXPECT_EQ(split->number, 2U);
  EXPECT_EQ(split->count, 13U);
  EXPECT_EQ(split_file_name(*split, 13), "big-model-00013-of-00013.gguf");
}

TEST(SplitName, OtherNamesAreNoParts) {
  for (const auto* name : {"model.gguf", "-00001-of-00002.gguf", "m-0001-of-0002.gguf", "m-00003-of-00002.gguf",
                           "m-00000-of-00002.gguf", "m-00001-of-00000.gguf", "m-0000a-of-00002.gguf",
                           "m-00001_of-00002.gguf", "m_00001-of-00002.gguf", "m-00001-of-00002.gguf.part",
                           "m-00001-of-00002.safetensors", "m--0001-of-00002.gguf", "m-+0001-of-00002.gguf", ""}) {
    EXPECT_FALSE(parse_split_name(name, ".gguf")) << name;
  }
}

}  // namespace
}  // namespace dgxmm::model
