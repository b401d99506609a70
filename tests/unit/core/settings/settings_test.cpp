#include "core/settings/settings.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace dgxmm::settings {
namespace {

Result<Settings> apply_one(const std::string& name, const std::string& value) {
  const std::vector<Assignment> assignments{{name, {value}, "settings.toml:3"}};
  return apply(assignments);
}

Error error_of(const std::string& name, const std::string& value) {
  const auto result = apply_one(name, value);
  EXPECT_FALSE(result) << name << " = " << value;
  return result ? Error{} : result.error();
}

TEST(Settings, DefaultsAreThoseOfTheSpecification) {
  const auto settings = apply({});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->budget().safety_margin, gib(8));
  EXPECT_EQ(settings->budget().os_reserve, gib(4));
  EXPECT_EQ(settings->budget_interval_s, 2);
  EXPECT_EQ(settings->calibration_delay_s, 15);
  EXPECT_EQ(settings->min_headroom_gib, 2);
  EXPECT_EQ(settings->estimate().vllm_runtime_fixed, gib(3));
  EXPECT_EQ(settings->estimate().vllm_cuda_graph, mib(1536));
  EXPECT_EQ(settings->estimate().llamacpp_runtime_fixed, mib(512));
  EXPECT_EQ(settings->listen, "127.0.0.1:8484");
  EXPECT_TRUE(settings->token.empty());
  EXPECT_TRUE(settings->sources.empty());
}

TEST(Settings, TheTableSaysTheDefaultsThatTheStructHas) {
  const Settings defaults;
  for (const auto& definition : definitions()) {
    EXPECT_EQ(value_text(defaults, definition.name), definition.default_text) << definition.name;
    EXPECT_FALSE(definition.description.empty()) << definition.name;
  }
}

TEST(Settings, AWordThatIsNoneOfTheChoicesIsRefusedWithThem) {
  const auto settings = apply_one("restore_after_reboot", "yes");
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().message, "settings.toml:3: 'restore_after_reboot' must be on or off, not 'yes'");
}

TEST(Settings, EveryDefinedNameCanBeSetAndNamesItsSource) {
  for (const auto& definition : definitions()) {
    const auto value = definition.kind == Kind::number || definition.kind == Kind::integer ? std::string{"1"}
                       : definition.name == "listen"                                       ? std::string{"127.0.0.1:1"}
                       : definition.name == "log_level"                                    ? std::string{"debug"}
                       : definition.name == "host_class"                                   ? std::string{"none"}
                       : definition.name == "runtime"                                      ? std::string{"docker"}
                       : definition.name == "restore_after_reboot"                         ? std::string{"off"}
                                                                                           : std::string{"text"};
    const auto settings = apply_one(std::string{definition.name}, value);
    ASSERT_TRUE(settings) << definition.name;
    EXPECT_EQ(value_text(*settings, definition.name), definition.secret ? "***" : value) << definition.name;
    EXPECT_EQ(settings->sources.at(std::string{definition.name}), "settings.toml:3");
  }
}

TEST(Settings, UnknownNameSaysWhereAndWhatWasMeant) {
  const auto error = error_of("saftey_margin_gib", "4");
  EXPECT_EQ(error.code, "bad_setting");
  EXPECT_EQ(error.where, "settings.toml:3");
  EXPECT_EQ(error.message, "settings.toml:3: there is no setting 'saftey_margin_gib'");
  EXPECT_EQ(error.hint, "did you mean 'safety_margin_gib'?");
  EXPECT_EQ(error_of("something_else_entirely", "4").hint.find("did you mean"), std::string::npos);
  EXPECT_EQ(error_of("", "4").hint.find("did you mean"), std::string::npos);
  EXPECT_EQ(error_of(std::string(10'000, 'x'), "4").code, "bad_setting");
}

TEST(Settings, OnlyANameWithinTypingDistanceWasMeant) {
  EXPECT_EQ(nearest_name("listne"), "listen");
  EXPECT_EQ(nearest_name("model_folder"), "model_folders");
  EXPECT_EQ(nearest_name("token"), "token");
  // Variables of engines, tests and tools that begin with DGXMM_ as well.
  for (const auto* other : {"", "instance", "engine", "model", "jobs", "test_engine", "test_model", "home", "web"}) {
    EXPECT_EQ(nearest_name(other), std::nullopt) << other;
  }
}

TEST(Settings, NumbersOutOfRangeOrOfAnotherKindAreRefused) {
  for (const auto* value :
       {"-1", "1000001", "nan", "inf", "-inf", "1e999", "", " 1", "1 ", "1GiB", "0x10", "1,5", "true"}) {
    const auto error = error_of("safety_margin_gib", value);
    EXPECT_EQ(error.code, "bad_setting") << value;
    EXPECT_EQ(error.where, "settings.toml:3");
    EXPECT_NE(error.message.find("a number from 0 to 1000000"), std::string::npos) << error.message;
  }
  for (const auto* value : {"0", "0.5", "1e3", "1000000"}) EXPECT_TRUE(apply_one("safety_margin_gib", value)) << value;
  for (const auto* value : {"0", "0.5", "4097", "1e3", "99999999999999999999", "-1"}) {
    EXPECT_EQ(error_of("engine_log_mib", value).code, "bad_setting") << value;
  }
  EXPECT_EQ(error_of("budget_interval_s", "0").code, "bad_setting") << "the daemon would spin";
  EXPECT_EQ(error_of("ready_timeout_s", "0").code, "bad_setting");
}

TEST(Settings, OnlyListsTakeSeveralValues) {
  const std::vector<Assignment> folders{{"model_folders", {"/a", "/b"}, "f:1"}};
  const auto settings = apply(folders);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->model_folders, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(value_text(*settings, "model_folders"), "/a, /b");
  const std::vector<Assignment> none{{"model_folders", {}, "f:1"}};
  EXPECT_TRUE(apply(none)->model_folders.empty());
  for (const auto& values : {std::vector<std::string>{}, std::vector<std::string>{"1", "2"}}) {
    const std::vector<Assignment> wrong{{"safety_margin_gib", values, "f:1"}};
    EXPECT_EQ(apply(wrong).error().code, "bad_setting");
  }
}

TEST(Settings, LaterAssignmentsWinAndNameTheirSource) {
  const std::vector<Assignment> assignments{{"safety_margin_gib", {"5"}, "settings.toml:1"},
                                            {"os_reserve_gib", {"1"}, "settings.toml:2"},
                                            {"safety_margin_gib", {"6"}, "DGXMM_SAFETY_MARGIN_GIB"},
                                            {"safety_margin_gib", {"7"}, "--safety-margin-gib"}};
  const auto settings = apply(assignments);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->safety_margin_gib, 7);
  EXPECT_EQ(settings->sources.at("safety_margin_gib"), "--safety-margin-gib");
  EXPECT_EQ(settings->sources.at("os_reserve_gib"), "settings.toml:2");
}

TEST(Settings, WrongValueThatWouldBeOverriddenIsStillAnError) {
  const std::vector<Assignment> assignments{{"safety_margin_gib", {"much"}, "settings.toml:1"},
                                            {"safety_margin_gib", {"7"}, "--safety-margin-gib"}};
  EXPECT_EQ(apply(assignments).error().where, "settings.toml:1");
}

TEST(Settings, AnythingButLoopbackNeedsAToken) {
  for (const auto* listen : {"0.0.0.0:8484", "[::]:8484", "192.168.1.2:8484", "spark.lan:8484", "127.evil.example:8484",
                             "127.0.0.1.evil.example:80", "128.0.0.1:1"}) {
    const auto error = error_of("listen", listen);
    EXPECT_NE(error.message.find("needs a token"), std::string::npos) << error.message;
    EXPECT_EQ(error.where, "settings.toml:3");
    const std::vector<Assignment> with_token{{"listen", {listen}, "f:1"}, {"token", {"secret"}, "f:2"}};
    EXPECT_TRUE(apply(with_token)) << listen;
  }
  for (const auto* listen : {"127.0.0.1:8484", "127.1.2.3:1", "localhost:0", "[::1]:8484"})
    EXPECT_TRUE(apply_one("listen", listen)) << listen;
}

TEST(Settings, ListenAddressNeedsAHostAndAPort) {
  for (const auto* listen : {"", ":", "8484", ":8484", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
                             "127.0.0.1:-1", "[::1]", "[]:1"}) {
    const auto error = error_of("listen", listen);
    EXPECT_NE(error.message.find("ADDRESS:PORT"), std::string::npos) << listen << ": " << error.message;
    EXPECT_EQ(error.where, "settings.toml:3");
  }
  const auto parsed = parse_listen("[::1]:8484");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->host, "::1");
  EXPECT_EQ(parsed->port, 8484);
}

TEST(Settings, LogLevelIsOneOfFour) {
  EXPECT_EQ(error_of("log_level", "verbose").where, "settings.toml:3");
  EXPECT_EQ(error_of("log_level", "Info").code, "bad_setting");
}

TEST(Settings, SecretsAreNeverShown) {
  const std::vector<Assignment> assignments{{"token", {"hunter2"}, "f:1"}};
  EXPECT_EQ(value_text(*apply(assignments), "token"), "***");
  EXPECT_EQ(value_text(Settings{}, "token"), "");
  const std::vector<Assignment> wrong{{"token", {"hunter2", "hunter3"}, "f:1"}};
  EXPECT_EQ(apply(wrong).error().message.find("hunter"), std::string::npos);
}

TEST(Settings, NamesAreSpelledForTheEnvironmentAndTheCommandLine) {
  EXPECT_EQ(environment_name("safety_margin_gib"), "DGXMM_SAFETY_MARGIN_GIB");
  EXPECT_EQ(flag_name("safety_margin_gib"), "--safety-margin-gib");
  EXPECT_EQ(value_text(Settings{}, "no_such_setting"), "");
}

TEST(Settings, ThePageOfTheDocumentationIsThatOfTheTable) {
  std::ifstream file{std::filesystem::path{DGXMM_TEST_DATA} / ".." / "docs" / "settings.md"};
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), reference_page());
}

TEST(Settings, FoldersToSearchAreTheModelFoldersAndAKnownHuggingFaceCache) {
  const auto searched = [](const std::vector<Assignment>& assignments) {
    std::vector<std::string> result;
    for (const auto& folder : apply(assignments)->searched_folders()) {
      result.push_back(folder.path + (folder.may_be_missing ? " or not" : ""));
    }
    return result;
  };
  const Assignment folders{"model_folders", {"/m"}, "f:1"};
  EXPECT_EQ(searched({folders}), (std::vector<std::string>{"/m"})) << "nobody has said yet where it is";
  EXPECT_EQ(searched({folders, {"hugging_face_cache", {"off"}, "f:2"}}), (std::vector<std::string>{"/m"}));
  EXPECT_EQ(searched({folders, {"hugging_face_cache", {"/hub"}, "f:2"}}), (std::vector<std::string>{"/m", "/hub"}));
  Settings settings;
  settings.hugging_face_cache = "/home/me/.cache/huggingface/hub";
  ASSERT_EQ(settings.searched_folders().size(), 1U);
  EXPECT_TRUE(settings.searched_folders()[0].may_be_missing) << "nobody has asked for it";
}

}  // namespace
}  // namespace dgxmm::settings
