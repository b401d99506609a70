#include "core/engine/runtime_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::engine {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string chosen(DeployRequest request, const RuntimeDefaults& defaults) {
  const auto placed = with_runtime(std::move(request), defaults);
  if (!placed) return "wrong " + placed.error().where;
  return *placed->runtime + " " + placed->image.value_or("-");
}

TEST(RuntimeChoice, AProcessUnlessAnImageIsNamed) {
  EXPECT_EQ(chosen({}, {}), "process -");
  EXPECT_EQ(chosen({.image = "i:1"}, {}), "docker i:1");
  EXPECT_EQ(chosen({}, {.image = "s:1"}), "docker s:1");
  EXPECT_EQ(chosen({.image = "i:1"}, {.image = "s:1"}), "docker i:1");
}

TEST(RuntimeChoice, TheRequestWinsOverTheSetting) {
  EXPECT_EQ(chosen({.runtime = "process"}, {.runtime = "docker", .image = "s:1"}), "process -");
  EXPECT_EQ(chosen({.runtime = "docker"}, {.runtime = "process", .image = "s:1"}), "docker s:1");
  EXPECT_EQ(chosen({.image = "i:1"}, {.runtime = "process"}), "docker i:1");
  EXPECT_EQ(chosen({}, {.runtime = "process", .image = "s:1"}), "process -");
}

TEST(RuntimeChoice, WhatCannotBeIsRefusedByItsField) {
  EXPECT_EQ(chosen({.runtime = "podman"}, {}), "wrong runtime");
  EXPECT_EQ(chosen({.runtime = "process", .image = "i:1"}, {}), "wrong runtime");
  EXPECT_EQ(chosen({.runtime = "docker"}, {}), "wrong image");
  EXPECT_EQ(chosen({}, {.runtime = "docker"}), "wrong image");
  EXPECT_EQ(chosen({.image = ""}, {}), "wrong image");
}

TEST(RuntimeChoice, OfAChosenOneNothingChangesWhateverTheSettingsSayLater) {
  const auto placed = with_runtime({}, {.image = "s:1"});
  ASSERT_TRUE(placed);
  EXPECT_TRUE(in_container(*placed));
  EXPECT_EQ(*with_runtime(*placed, {.runtime = "process"}), *placed);
  EXPECT_EQ(*with_runtime(*placed, {.image = "s:2"}), *placed);
}

std::vector<std::string> mounted(std::string_view path, const EngineConfig& config) {
  std::vector<std::string> files;
  for (const auto& mount : model_mounts(path, config)) {
    EXPECT_EQ(mount.source, mount.target);
    files.push_back(mount.source);
  }
  return files;
}

TEST(ModelMounts, AreTheFilesOfTheModelAndNoOthers) {
  EXPECT_THAT(mounted("/m/a.gguf", LlamaCppConfig{}), ElementsAre("/m/a.gguf"));
  EXPECT_THAT(mounted("/m/a-00001-of-00003.gguf", LlamaCppConfig{}),
              ElementsAre("/m/a-00001-of-00003.gguf", "/m/a-00002-of-00003.gguf", "/m/a-00003-of-00003.gguf"));
  EXPECT_THAT(mounted("/m/folder", VllmConfig{}), ElementsAre("/m/folder"));
  EXPECT_THAT(mounted("", LlamaCppConfig{}), IsEmpty());
}

TEST(ModelMounts, WhatIsLoadedBesideTheModelIsThereToo) {
  LlamaCppConfig config;
  config.draft_model = "/d/small.gguf";
  config.mmproj = "/m/mmproj.gguf";
  EXPECT_THAT(mounted("/m/a.gguf", config), ElementsAre("/m/a.gguf", "/d/small.gguf", "/m/mmproj.gguf"));
  config.draft_model = "/m/a.gguf";
  config.mmproj.clear();
  EXPECT_THAT(mounted("/m/a.gguf", config), ElementsAre("/m/a.gguf")) << "once";
}

}  // namespace
}  // namespace dgxmm::engine
