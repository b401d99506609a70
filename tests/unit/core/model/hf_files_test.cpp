#include "core/model/hf_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Names = std::vector<std::string>;

Result<WeightFileChoice> choose(const Names& names, std::optional<std::string_view> index = {}) {
  return choose_weight_files("m", names, index);
}

TEST(HfFiles, WithoutAnIndexAllTopLevelSafetensorsAreLoaded) {
  const auto choice = choose({"config.json", "b.safetensors", "a.safetensors", "original/c.safetensors", "x.bin"});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->files, ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_THAT(choice->unused, IsEmpty());
}

TEST(HfFiles, WithAnIndexOnlyItsFilesAreLoadedPresentOrNot) {
  const auto choice = choose({"a.safetensors", "extra.safetensors"},
                             R"({"weight_map":{"x":"b.safetensors","y":"a.safetensors","z":"a.safetensors"}})");
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->files, ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_THAT(choice->unused, ElementsAre("extra.safetensors"));
}

TEST(HfFiles, H1_ConsolidatedFilesFlipTheFormatAndAreCountedAlone) {
  const Names names{"consolidated.safetensors", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  EXPECT_EQ(index_file_name(names), "consolidated.safetensors.index.json");
  const auto choice = choose(names);
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->files, ElementsAre("consolidated.safetensors"));
  EXPECT_EQ(choice->unused.size(), 2U);
}

TEST(HfFiles, AConsolidatedFileInASubFolderFlipsTheFormatAndLeavesNothingToLoad) {
  const Names names{"model.safetensors", "original/consolidated.00.safetensors"};
  EXPECT_EQ(index_file_name(names), "consolidated.safetensors.index.json");
  const auto choice = choose(names);
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, "model_not_supported");
  EXPECT_THAT(choice.error().message, HasSubstr("a consolidated*.safetensors below it"));
  EXPECT_FALSE(choice.error().hint.empty());
}

TEST(HfFiles, APyTorchCheckpointIsNotItsIndexName) {
  EXPECT_EQ(index_file_name(Names{"original/consolidated.00.pth"}), "model.safetensors.index.json");
}

TEST(HfFiles, NumberedFilesAskForTheirSiblings) {
  const auto choice = choose({"model-00002-of-00003.safetensors"});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->files, ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                         "model-00003-of-00003.safetensors"));
}

TEST(HfFiles, PyTorchWeightsAloneAreNamed) {
  const auto choice = choose({"config.json", "pytorch_model.bin"});
  EXPECT_EQ(choice.error().code, "model_not_supported");
  EXPECT_NE(choice.error().message.find("PyTorch"), std::string::npos);
  EXPECT_EQ(choose({"config.json"}).error().code, "model_not_supported");
}

TEST(HfFiles, AnIndexMayNotLeaveTheFolder) {
  for (const auto* name : {"../../etc/passwd", "/etc/passwd", "sub/a.safetensors", "", ".", "..", R"(a\u0000b)"}) {
    const auto choice = choose({}, R"({"weight_map":{"x":")" + std::string{name} + R"("}})");
    ASSERT_FALSE(choice) << name;
    EXPECT_EQ(choice.error().code, "bad_model_file");
    EXPECT_NE(choice.error().message.find("weight_map.x"), std::string::npos) << choice.error().message;
  }
}

TEST(HfFiles, ABrokenIndexIsNamedWithItsPath) {
  for (const auto* text :
       {"", "[]", "{}", "null", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"x":1}})"}) {
    const auto choice = choose({"a.safetensors"}, text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().code, "bad_model_file") << text;
    EXPECT_NE(choice.error().message.find("m/model.safetensors.index.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace dgxmm::model
