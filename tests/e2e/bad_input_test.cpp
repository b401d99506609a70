// What a person may get wrong, and the answer that says what to do.
#include "e2e/support/daemon.h"
#include "e2e/support/models.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInput : public EndToEnd {
 protected:
  TempDir folder_;
};

/// The same answer from `fit`, `deploy` and the API; nothing is created.
void expect_refused(const fs::path& model, int status, const std::string& code, const std::string& words) {
  const Daemon daemon;
  const Request request{.name = "model", .model = model};
  for (const auto& run : {daemon.run(request.ask("fit")), daemon.run(request.deploy())}) {
    EXPECT_EQ(run.exit_code, 1) << run.all();
    EXPECT_THAT(run.err, AllOf(HasSubstr("error: "), HasSubstr(words), HasSubstr("hint: ")));
  }
  const auto answer = daemon.post("/deployments", request.body());
  EXPECT_EQ(answer.status, status);
  EXPECT_EQ(text(answer.json(), "code"), code);
  EXPECT_FALSE(text(answer.json(), "hint").empty());
  EXPECT_TRUE(daemon.document("/deployments").as_array().empty());
}

TEST_F(BadInput, Model_Truncated) {
  std::string beginning(std::size_t{1} << 20, '\0');
  std::ifstream{environment().model}.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  expect_refused(folder_.write("half.gguf", beginning), 422, "model_incomplete", "truncated or half-downloaded");
}

TEST_F(BadInput, Model_Missing) {
  expect_refused(folder_.path() / "nowhere.gguf", 404, "model_not_found", "there is no such file");
}

TEST_F(BadInput, Model_OfAnArchitectureThatIsNotCoveredIsNeverEstimatedAsDense) {
  expect_refused(model_of_unsupported_architecture(folder_.path()), 422, "model_not_supported",
                 "architecture 't5' is not supported yet");
}

TEST_F(BadInput, Port_TakenByAnotherProgram) {
  const Daemon daemon;
  const TakenPort taken;
  const auto deploy = daemon.run(Request{.name = "model"}.deploy({"--port", std::to_string(taken.number())}));
  EXPECT_EQ(deploy.exit_code, 1) << deploy.all();
  EXPECT_THAT(deploy.err, AllOf(HasSubstr(std::to_string(taken.number())), HasSubstr("hint: ")));
  EXPECT_TRUE(daemon.document("/deployments").as_array().empty());
}

TEST_F(BadInput, Port_OfTheDaemonItselfIsTaken) {
  const TakenPort taken;
  const auto address = "127.0.0.1:" + std::to_string(taken.number());
  const auto serve = run_dgxmm({"serve", "--state-dir", folder_.path().string(), "--listen", address});
  EXPECT_EQ(serve.exit_code, 1) << serve.all();
  EXPECT_THAT(serve.err, AllOf(HasSubstr("error: "), HasSubstr(address), HasSubstr("hint: ")));
}

TEST_F(BadInput, StateFolder_IsAFile) {
  const auto file = folder_.write("state", "");
  const auto serve = run_dgxmm({"serve", "--state-dir", file.string(), "--listen", "127.0.0.1:0"});
  EXPECT_EQ(serve.exit_code, 1);
  EXPECT_THAT(serve.err, AllOf(HasSubstr("it is not a folder"), HasSubstr("--state-dir")));
}

TEST_F(BadInput, StateFolder_CannotBeWrittenTo) {
  // Root may write to any folder of a real file system, and nobody to this one.
  const fs::path folder = ::geteuid() == 0 ? fs::path{"/sys/dgxmm"} : folder_.path();
  if (::geteuid() != 0) fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  const auto serve = run_dgxmm({"serve", "--state-dir", folder.string(), "--listen", "127.0.0.1:0"});
  fs::permissions(folder_.path(), fs::perms::owner_all);
  EXPECT_EQ(serve.exit_code, 1);
  EXPECT_THAT(serve.err, AllOf(HasSubstr(folder.string()), HasSubstr("--state-dir")));
}

TEST_F(BadInput, StateFolder_OfADaemonThatRuns) {
  const Daemon daemon;
  const auto serve = run_dgxmm({"serve", "--state-dir", daemon.state_dir().string(), "--listen", "127.0.0.1:0"});
  EXPECT_EQ(serve.exit_code, 1);
  EXPECT_THAT(serve.err, AllOf(HasSubstr("another dgxmm daemon (pid "), HasSubstr("--state-dir")));
  EXPECT_EQ(daemon.get("/version").status, 200);
}

TEST_F(BadInput, Settings_EachMistakeNamesItsLine) {
  struct Case {
    std::string text;
    std::string line;
    std::string words;
  };
  const std::vector<Case> cases{
      {"# mine\nbudget_interval = 3\n", "2", "did you mean 'budget_interval_s'?"},
      {"\n\nsafety_margin_gib = \"a lot\"\n", "3", "must be a number from 0 to "},
      {"stop_grace_s = -1\n", "1", "must be a number from 0 to "},
      {"listen = \"0.0.0.0:8484\"\n", "1", "needs a token"},
      {"[limits]\nos_reserve_gib = 4\n", "1", "not grouped in tables"},
      {"os_reserve_gib = 4\nthis is not TOML\n", "2", "not valid TOML"},
  };
  for (const auto& [settings, line, words] : cases) {
    const auto file = folder_.write("settings.toml", settings);
    const auto serve = run_dgxmm({"serve", "--config", file.string(), "--state-dir", folder_.path().string()});
    EXPECT_EQ(serve.exit_code, 2) << settings << serve.all();
    EXPECT_THAT(serve.err, AllOf(HasSubstr(file.string() + ":" + line + ": "), HasSubstr(words))) << settings;
  }
  const auto missing = run_dgxmm({"serve", "--config", "/nowhere/settings.toml"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/settings.toml"));
}

TEST_F(BadInput, Settings_ServeWarnsOfFoldersAndAnEngineThatAreNotThere) {
  const Daemon daemon{{.flags = {"--model-folders", "/nowhere/models", "--llama-server", "/nowhere/engine"}}};
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("model folder /nowhere/models: does not exist"),
                                  HasSubstr("the engine /nowhere/engine is not there")));
  const auto models = daemon.run({"models"});
  EXPECT_EQ(models.exit_code, 0);
  EXPECT_THAT(models.err, HasSubstr("warning: /nowhere/models: does not exist"));
}

TEST_F(BadInput, CommandLine_WrongUsageIsExitCode2) {
  const std::vector<std::pair<Words, std::string>> cases{
      {{}, "no command was given"},
      {{"frobnicate"}, "there is no command 'frobnicate'"},
      {{"budget", "--colour"}, "there is no option --colour"},
      {{"deploy"}, "MODEL is required"},
      {{"fit", "m.gguf", "--ctx-size", "many"}, "'many' is not a whole number"},
      {{"deploy", "m.gguf", "--cache-type-k", "q9"}, "q9"},
      {{"serve", "--budget-interval-s", "0"}, "--budget-interval-s"},
      {{"stop"}, "which deployment?"},
  };
  for (const auto& [command, words] : cases) {
    const auto run = run_dgxmm(command);
    EXPECT_EQ(run.exit_code, 2) << words << run.all();
    EXPECT_THAT(run.err, AllOf(HasSubstr("error: "), HasSubstr(words)));
  }
}

TEST_F(BadInput, NoDaemon_TheCommandsThatNeedOneSayHowToStartIt) {
  for (const Words& command : {Words{"ps"}, Words{"deploy", environment().model.string()}, Words{"stop", "x"}}) {
    Words words{"--address", "127.0.0.1:1"};
    words.insert(words.end(), command.begin(), command.end());
    const auto run = run_dgxmm(words);
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, AllOf(HasSubstr("no daemon at 127.0.0.1:1"), HasSubstr("`dgxmm serve`")));
  }
}

}  // namespace
}  // namespace dgxmm::e2e
