#include "adapters/settings/settings_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace dgxmm::settings_file {
namespace {

/// A folder of its own, and an environment that is put back.
class SettingsFile : public ::testing::Test {
 public:
  SettingsFile() {
    std::string pattern = ::testing::TempDir() + "dgxmm-settings-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~SettingsFile() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 protected:
  std::string write(const std::string& text, const std::string& name = "settings.toml") {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
    return path;
  }
  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* now = std::getenv(name.c_str());
    before_.emplace(name, now == nullptr ? std::nullopt : std::optional<std::string>{now});
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  std::filesystem::path folder_;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(SettingsFile, EveryAssignmentKnowsItsLine) {
  const auto path =
      write("# mine\nsafety_margin_gib = 5.5\n\nengine_log_mib = 16\nmodel_folders = [\n  \"/a\",\n  \"/b\"\n]\n");
  const auto assignments = read_file(path);
  ASSERT_TRUE(assignments) << assignments.error().message;
  std::map<std::string, std::string> where;
  for (const auto& assignment : *assignments) where[assignment.name] = assignment.where;
  EXPECT_EQ(where.at("safety_margin_gib"), path + ":2");
  EXPECT_EQ(where.at("engine_log_mib"), path + ":4");
  EXPECT_EQ(where.at("model_folders"), path + ":5");
  const auto settings = settings::apply(*assignments);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->safety_margin_gib, 5.5);
  EXPECT_EQ(settings->engine_log_mib, 16);
  EXPECT_EQ(settings->model_folders, (std::vector<std::string>{"/a", "/b"}));
}

TEST_F(SettingsFile, UnknownKeyIsAnErrorNamingTheLine) {
  const auto path = write("safety_margin_gib = 5\nbudget_intervall_s = 1\n");
  const auto assignments = read_file(path);
  ASSERT_TRUE(assignments);
  const auto settings = settings::apply(*assignments);
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().where, path + ":2");
  EXPECT_EQ(settings.error().hint, "did you mean 'budget_interval_s'?");
}

TEST_F(SettingsFile, WhatIsNotTomlIsAnErrorNamingTheLine) {
  for (const auto* text : {"a = 1\nnot toml\n", "a = 1\nb = \n", "a = 1\na = 2\n", "a = 1\nb = \"open\n", "a = 1\n[x\n",
                           "a = 1\nb = \xff\xfe\n"}) {
    const auto path = write(text);
    const auto result = read_file(path);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, "bad_setting");
    EXPECT_TRUE(result.error().where.starts_with(path + ":2")) << result.error().where << " for " << text;
  }
}

TEST_F(SettingsFile, ValuesThatNoSettingCanBeAreRefused) {
  for (const auto* text :
       {"a = true", "[memory]\na = 1", "a = {b = 1}", "a = 2026-01-01", "a = [[1]]", "a = [true]", "a = [{b = 1}]"}) {
    const auto result = read_file(write(text));
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, "bad_setting");
    EXPECT_NE(result.error().where.find(":1"), std::string::npos);
  }
}

TEST_F(SettingsFile, InfinityIsNoNumberOfGib) {
  const auto assignments = read_file(write("safety_margin_gib = inf\n"));
  ASSERT_TRUE(assignments);
  EXPECT_FALSE(settings::apply(*assignments));
}

TEST_F(SettingsFile, EmptyFileIsNoSettings) {
  const auto assignments = read_file(write(""));
  ASSERT_TRUE(assignments);
  EXPECT_TRUE(assignments->empty());
}

TEST_F(SettingsFile, FileThatIsNotThereOrIsAFolderIsAnError) {
  for (const auto& path : {(folder_ / "none.toml").string(), folder_.string()}) {
    const auto result = read_file(path);
    ASSERT_FALSE(result) << path;
    EXPECT_EQ(result.error().code, "settings_not_found");
    EXPECT_EQ(result.error().where, path);
  }
}

TEST_F(SettingsFile, EnvironmentGivesListsByColons) {
  for (const auto& definition : settings::definitions()) set(settings::environment_name(definition.name), std::nullopt);
  EXPECT_TRUE(read_environment().empty());
  set("DGXMM_MODEL_FOLDERS", "/a::/b c:");
  set("DGXMM_SAFETY_MARGIN_GIB", "3");
  set("DGXMM_LLAMA_SERVER", "/opt/a:b/llama-server");
  const auto settings = settings::apply(read_environment());
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->model_folders, (std::vector<std::string>{"/a", "/b c"}));
  EXPECT_EQ(settings->safety_margin_gib, 3);
  EXPECT_EQ(settings->llama_server, "/opt/a:b/llama-server");
  EXPECT_EQ(settings->sources.at("safety_margin_gib"), "DGXMM_SAFETY_MARGIN_GIB");
  set("DGXMM_SAFETY_MARGIN_GIB", "three");
  EXPECT_EQ(settings::apply(read_environment()).error().where, "DGXMM_SAFETY_MARGIN_GIB");
}

TEST_F(SettingsFile, OnlyVariablesThatLookMistypedAreNamed) {
  set("DGXMM_TOKN", "secret");
  set("DGXMM_STATE_DIRS", "/x");
  set("DGXMM_TEST_MODEL", "x");
  set("DGXMM_INSTANCE", "x");
  set("DGXMM_LISTEN", "127.0.0.1:1");
  EXPECT_EQ(mistyped_variables(),
            (std::vector<std::string>{"DGXMM_STATE_DIRS is no setting: did you mean DGXMM_STATE_DIR?",
                                      "DGXMM_TOKN is no setting: did you mean DGXMM_TOKEN?"}));
}

TEST_F(SettingsFile, ReadableByOthersIsWhatUsersOutsideTheGroupMay) {
  const auto path = write("token = \"x\"\n");
  std::filesystem::permissions(path, std::filesystem::perms{0640});
  EXPECT_FALSE(readable_by_others(path));
  std::filesystem::permissions(path, std::filesystem::perms{0644});
  EXPECT_TRUE(readable_by_others(path));
  EXPECT_FALSE(readable_by_others(path + ".none"));
}

TEST_F(SettingsFile, UsersFileIsFoundInTheXdgFolderThenInTheHome) {
  set("HOME", folder_ / "home");
  set("XDG_CONFIG_HOME", folder_ / "xdg");
  const auto in_xdg = write("", "xdg/dgxmm/settings.toml");
  const auto in_home = write("", "home/.config/dgxmm/settings.toml");
  EXPECT_EQ(default_path(), in_xdg);
  set("XDG_CONFIG_HOME", "relative/is/ignored");
  EXPECT_EQ(default_path(), in_home);
  set("XDG_CONFIG_HOME", std::nullopt);
  EXPECT_EQ(default_path(), in_home);
}

TEST_F(SettingsFile, StateIsInTheXdgFolderThenInTheHome) {
  set("HOME", "/home/jo");
  set("XDG_STATE_HOME", "/var/x");
  EXPECT_EQ(default_state_dir(), "/var/x/dgxmm");
  set("XDG_STATE_HOME", std::nullopt);
  EXPECT_EQ(default_state_dir(), "/home/jo/.local/state/dgxmm");
  set("HOME", std::nullopt);
  EXPECT_EQ(default_state_dir(), "");
}

TEST_F(SettingsFile, TheHuggingFaceCacheIsWhereHuggingfaceHubKeepsIt) {
  set("HF_HUB_CACHE", "/hub");
  set("HUGGINGFACE_HUB_CACHE", "/older");
  set("HF_HOME", "~/hf");
  set("XDG_CACHE_HOME", "/cache");
  set("HOME", "/home/jo");
  EXPECT_EQ(default_hugging_face_cache(), "/hub");
  set("HF_HUB_CACHE", std::nullopt);
  EXPECT_EQ(default_hugging_face_cache(), "/older");
  set("HUGGINGFACE_HUB_CACHE", std::nullopt);
  EXPECT_EQ(default_hugging_face_cache(), "/home/jo/hf/hub");
  set("HF_HOME", std::nullopt);
  EXPECT_EQ(default_hugging_face_cache(), "/cache/huggingface/hub");
  set("XDG_CACHE_HOME", std::nullopt);
  EXPECT_EQ(default_hugging_face_cache(), "/home/jo/.cache/huggingface/hub");
  set("HOME", std::nullopt);
  EXPECT_EQ(default_hugging_face_cache(), "");
}

}  // namespace
}  // namespace dgxmm::settings_file
