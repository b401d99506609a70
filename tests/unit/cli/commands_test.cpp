#include "cli/commands.h"

#include "adapters/net/http_text.h"
#include "cli/format.h"
#include "cli/table.h"
#include "fake_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace dgxmm::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

dto::Deployment deployment(std::int64_t id, std::string name, std::string state) {
  dto::Deployment result;
  result.id = DeploymentId{id};
  result.name = std::move(name);
  result.state = std::move(state);
  result.model_name = "SmolLM2 135M Instruct";
  result.served_name = result.name;
  result.url = "http://127.0.0.1:40000/v1";
  result.config.engine = "llama.cpp";
  result.reserved_bytes = gib(2);
  return result;
}

dto::Fit fit(bool fits) {
  dto::Fit result;
  result.verdict = fits ? "fits" : "does_not_fit";
  result.total_bytes = gib(2);
  result.confidence = "estimated";
  result.total_source = "sum of the parts";
  result.parts = {{"weights", gib(1), "file_size", "2 files"}, {"kv", gib(1), "formula", "32 layers"}};
  result.free_for_new_bytes = fits ? gib(10) : gib(1);
  result.left_bytes = fits ? gib(8) : -gib(1);
  result.shortfall_bytes = fits ? Bytes{0} : gib(1);
  result.model.name = "smol";
  result.config.engine = "llama.cpp";
  result.config.ctx_size = 4096;
  result.reach.longest_context = {.value = 8192, .needed_bytes = gib(9)};
  result.reach.most_sequences = {.value = 3, .needed_bytes = gib(8)};
  result.reach.settings = {
      {.name = "KV cache f16", .as_asked = true, .needed_bytes = gib(2), .fits = fits, .longest_context = 8192},
      {.name = "KV cache q8_0", .needed_bytes = mib(1536), .fits = true, .longest_context = 16384}};
  return result;
}

dto::Plans plans(bool any_fits) {
  dto::Plans result;
  result.plan_set = "7";
  result.needed_bytes = gib(3);
  result.free_for_new_bytes = gib(1);
  result.shortfall_bytes = gib(2);
  result.summary = "short by 2.0 GiB";
  dto::Plan smaller;
  smaller.id = "ctx:4096";
  smaller.title = "Context 4096";
  smaller.needed_bytes = gib(2);
  smaller.left_bytes = -gib(1);
  smaller.confidence = "calibrated";
  smaller.takes_s = 90;
  smaller.takes_measured = true;
  dto::Plan stop;
  stop.id = "stop:3";
  stop.title = "Stop chat";
  stop.fits = any_fits;
  stop.needed_bytes = gib(3);
  stop.left_bytes = gib(4);
  stop.free_after_bytes = gib(7);
  stop.confidence = "estimated";
  stop.stops = {DeploymentId{3}};
  stop.unsafe = {"chat is busy"};
  stop.takes_s = 25;
  stop.costs = {"service: chat is answering requests and is stopped"};
  stop.recommended = any_fits;
  result.plans = {stop, smaller};
  return result;
}

dto::Problem refusal(std::string code) {
  dto::Problem problem;
  problem.status = 409;
  problem.title = "Does not fit";
  problem.detail = "short by 2.0 GiB";
  problem.code = std::move(code);
  problem.hint = "POST /api/v1/plans/7/PLAN/apply";
  problem.plans = plans(true);
  return problem;
}

class Commands : public CliTest {
 protected:
  Outcome run_with_daemon(std::vector<std::string> arguments) {
    return run_at(daemon_.address(), std::move(arguments));
  }
  FakeDaemon daemon_;
};

// --- fit

TEST_F(Commands, FitSaysTheVerdictFirstThenTheParts) {
  daemon_.on("POST /fit", fit(true));
  const auto outcome = run_with_daemon({"fit", "smol"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "fits: needs 2.0 GiB of 10.0 GiB free, leaves 8.0 GiB\n"
            "\n"
            "PART        SIZE  SOURCE     DETAIL\n"
            "weights  1.0 GiB  file size  2 files\n"
            "kv       1.0 GiB  formula    32 layers\n"
            "total    2.0 GiB             sum of the parts\n"
            "\n"
            "estimated: by the formula; no start of this model was measured yet\n"
            "llama.cpp --ctx-size 4096\n"
            "\n"
            "longest context: 8192 tokens, needs 9.0 GiB\n"
            "most sequences: 3 that fill their context at once, needs 8.0 GiB\n"
            "\n"
            "INSTEAD          NEEDS  FITS  LONGEST CONTEXT\n"
            "KV cache q8_0  1.5 GiB  yes      16384 tokens\n");
}

TEST_F(Commands, FitThatAPlanMakesFitNamesItAndExitsWithThree) {
  auto answer = fit(false);
  answer.verdict = "fits_after";
  answer.after = plans(true).plans.front();
  daemon_.on("POST /fit", answer);
  const auto outcome = run_with_daemon({"fit", "smol"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, StartsWith(fmt::format("fits after {}: needs 2.0 GiB of 1.0 GiB free, short by 1.0 GiB\n{}",
                                                  answer.after->id, answer.after->title)));
}

TEST_F(Commands, FitForAnotherHostAsksForIt) {
  daemon_.on("POST /fit", fit(true));
  run_with_daemon({"fit", "smol", "--host", "121.69 GiB"});
  ASSERT_EQ(daemon_.requests().size(), 1U);
  EXPECT_EQ(daemon_.requests().front().query.at("host"), "121.69 GiB");
}

TEST_F(Commands, FitThatDoesNotFitExitsWithThree) {
  daemon_.on("POST /fit", fit(false));
  const auto outcome = run_with_daemon({"fit", "smol"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, StartsWith("does not fit: needs 2.0 GiB of 1.0 GiB free, short by 1.0 GiB\n"));
}

TEST_F(Commands, FitNamesTheMissingFields) {
  auto answer = fit(true);
  answer.confidence = "low";
  answer.missing_fields = {"head_dim", "torch_dtype"};
  daemon_.on("POST /fit", answer);
  EXPECT_THAT(run_with_daemon({"fit", "smol"}).out,
              HasSubstr("not certain from the model's files: head_dim, torch_dtype\n"));
}

TEST_F(Commands, E9_FitNamesContradictionsAndNotes) {
  auto answer = fit(true);
  answer.confidence = "low";
  answer.contradictions = {"config.json says 2 layers, its files hold tensors for 3"};
  answer.notes = {"vLLM does not load consolidated.safetensors"};
  daemon_.on("POST /fit", answer);
  const auto out = run_with_daemon({"fit", "smol"}).out;
  EXPECT_THAT(out, HasSubstr("contradiction in the model's files: config.json says 2 layers, its files hold tensors"));
  EXPECT_THAT(out, HasSubstr("note: vLLM does not load consolidated.safetensors\n"));
}

TEST_F(Commands, SeveralModelsAreOneTable) {
  daemon_.on("POST /fit", fit(true));
  daemon_.on("POST /fit", fit(false));
  const auto outcome = run_with_daemon({"fit", "one", "two"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("smol   fits"));
  EXPECT_THAT(outcome.out, HasSubstr("short 1.0 GiB"));
}

TEST_F(Commands, OfSeveralModelsABadOneIsARowWithItsProblem) {
  daemon_.on("POST /fit", problem_of(Error{"model_not_found", "there is no model 'none'", "give its path", {}}), 404);
  daemon_.on("POST /fit", fit(true));
  const auto outcome = run_with_daemon({"fit", "none", "smol"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out,
            "MODEL  VERDICT    NEEDS   LEAVES  MAX CONTEXT  CONFIDENCE\n"
            "none   error\n"
            "    there is no model 'none'\n"
            "    hint: give its path\n"
            "smol   fits     2.0 GiB  8.0 GiB         8192  estimated\n"
            "each on its own, of 10.0 GiB free\n");
}

TEST_F(Commands, SeveralModelsFitANarrowTerminalWhateverTheirVerdicts) {
  auto answer = fit(false);
  answer.model.name = "a-model-with-a-name-that-is-long-Q4_K_M";
  answer.verdict = "fits_after";
  answer.after = plans(true).plans.front();
  answer.after->id = "ctx:204800";
  answer.total_bytes = mib(1023) - Bytes{1};
  answer.shortfall_bytes = mib(1023) - Bytes{1};
  daemon_.on("POST /fit", answer);
  daemon_.on("POST /fit", fit(true));
  width_ = 80;
  const auto outcome = run_with_daemon({"fit", "one", "two"});
  EXPECT_THAT(outcome.out, HasSubstr("fits after ctx:204800"));
  std::istringstream lines{outcome.out};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 80U) << line;
}

TEST_F(Commands, FitShowsEveryWordOfAPartOnANarrowTerminal) {
  auto answer = fit(true);
  answer.parts[0].detail = "512.0 MiB fixed + prompt cache of up to 1.0 GiB, as llama-server was told";
  daemon_.on("POST /fit", answer);
  width_ = 80;
  const auto outcome = run_with_daemon({"fit", "smol"});
  EXPECT_THAT(outcome.out, Not(HasSubstr("…")));
  EXPECT_THAT(outcome.out, HasSubstr("was told\n"));
  std::istringstream lines{outcome.out};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 80U) << line;
}

TEST_F(Commands, FitAsJsonIsTheDocumentAndSeveralAreAList) {
  daemon_.on("POST /fit", fit(true));
  EXPECT_EQ(run_with_daemon({"fit", "smol", "--json"}).out, to_json(fit(true)) + "\n");
  EXPECT_EQ(run_with_daemon({"--json", "fit", "a", "b"}).out,
            to_json(std::vector<dto::FitOfModel>{{.model = "a", .fit = fit(true), .error = {}},
                                                 {.model = "b", .fit = fit(true), .error = {}}}) +
                "\n");
}

TEST_F(Commands, APathIsMadeAbsoluteAndANameIsLeftAlone) {
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  std::ofstream{"local.gguf"} << "x";
  for (const auto* model : {"smol", "local.gguf", "sub/../m.gguf", "/abs/m.gguf"}) run_with_daemon({"fit", model});
  std::filesystem::current_path(here);
  std::vector<std::string> sent;
  for (const auto& request : daemon_.requests()) sent.push_back(request.body);
  const auto folder = std::filesystem::canonical(folder_).string();
  std::vector<std::string> expected;
  for (const auto& model :
       {std::string{"smol"}, folder + "/local.gguf", folder + "/m.gguf", std::string{"/abs/m.gguf"}}) {
    engine::DeployRequest request;
    request.model = model;
    expected.push_back(to_json(request));
  }
  EXPECT_EQ(sent, expected);
}

TEST_F(Commands, OnlyWhatWasGivenIsAskedFor) {
  daemon_.on("POST /fit", fit(true));
  run_with_daemon({"fit", "smol", "-c", "4096", "-fa", "on"});
  engine::DeployRequest expected;
  expected.model = "smol";
  expected.ctx_size = 4096;
  expected.flash_attn = "on";
  ASSERT_EQ(daemon_.requests().size(), 1U);
  EXPECT_EQ(daemon_.requests()[0].body, to_json(expected));
}

// --- the connection

TEST_F(Commands, TheTokenIsSent) {
  daemon_.on("GET /deployments", std::vector<dto::Deployment>{});
  run_with_daemon({"--token", "secret", "ps"});
  EXPECT_EQ(daemon_.requests().at(0).headers.at("authorization"), "Bearer secret");
  run_with_daemon({"ps"});
  EXPECT_EQ(daemon_.requests().back().headers.count("authorization"), 0U);
}

TEST_F(Commands, AddressAndTokenComeFromTheSettingsFile) {
  const auto file = folder_ / "settings.toml";
  std::ofstream{file} << "listen = \"" << daemon_.address() << "\"\ntoken = \"from file\"\n";
  daemon_.on("GET /deployments", std::vector<dto::Deployment>{});
  EXPECT_EQ(run_plain({"ps", "--config", file.string()}).exit_code, 0);
  EXPECT_EQ(daemon_.requests().at(0).headers.at("authorization"), "Bearer from file");
}

TEST_F(Commands, ABadSettingsFileIsAUsageErrorThatNamesTheLine) {
  const auto file = folder_ / "settings.toml";
  std::ofstream{file} << "\nsafty_margin_gib = 1\n";
  const auto outcome = run_plain({"ps", "--config", file.string()});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("settings.toml:2: there is no setting 'safty_margin_gib'"));
  EXPECT_THAT(outcome.err, HasSubstr("hint: did you mean 'safety_margin_gib'?"));
  EXPECT_EQ(run_plain({"help", "--config", file.string()}).exit_code, 0);
}

TEST_F(CliTest, DoctorIsALineForEachFactWithWhatToDo) {
  composition_.examine = [](const settings::Settings&) {
    return std::vector<host::Fact>{
        {.name = "memory", .value = "23.5 GiB"},
        {"huge_pages", "huge pages", "a pool of 2.0 GiB\nis there", host::Fact::State::warning, "free it"}};
  };
  const auto outcome = run_cli({"doctor"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, StartsWith("ok  memory      23.5 GiB\n"
                                      "!!  huge pages  a pool of 2.0 GiB\\x0a"
                                      "is there\n"
                                      "                free it\n"
                                      "!!  daemon      no daemon at 127.0.0.1:0\n"));
  const auto document = from_json<dto::Doctor>(run_cli({"doctor", "--json"}).out);
  ASSERT_TRUE(document);
  ASSERT_EQ(document->facts.size(), 3U);
  EXPECT_EQ(document->facts[1].state, "warning");
}

TEST_F(CliTest, CommandsThatNeedTheDaemonSayHowToStartIt) {
  for (const auto& command : std::vector<std::vector<std::string>>{{"ps"},
                                                                   {"deploy", "m"},
                                                                   {"stop", "x"},
                                                                   {"stop", "--all"},
                                                                   {"start", "x"},
                                                                   {"sleep", "x"},
                                                                   {"wake", "x"},
                                                                   {"rm", "x"},
                                                                   {"logs", "x"},
                                                                   {"plan", "m"},
                                                                   {"apply", "stop:1"},
                                                                   {"cancel", "1"},
                                                                   {"cancel", "admission-1"},
                                                                   {"queue"},
                                                                   {"events"},
                                                                   {"processes"},
                                                                   {"calibration"}}) {
    const auto outcome = run_cli(command);
    EXPECT_EQ(outcome.exit_code, 1) << command.front();
    EXPECT_THAT(outcome.err, HasSubstr("error: no daemon at 127.0.0.1:0\nhint: start one with `dgxmm serve`\n"));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(Commands, SomethingElseAtTheAddressIsNotTakenForTheDaemon) {
  daemon_.call("GET /deployments", [](const auto&) { return FakeDaemon::json("<html>"); });
  daemon_.call("GET /models", [](const auto&) { return FakeDaemon::json("<html>", 502); });
  for (const auto* command : {"ps", "models"}) {
    const auto outcome = run_with_daemon({command});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("is not from dgxmm"));
  }
}

TEST_F(Commands, ANewerDaemonMaySayMore) {
  daemon_.call("GET /version",
               [](const auto&) { return FakeDaemon::json(R"({"version":"9","commit":"","api":"v1","more":[1]})"); });
  EXPECT_EQ(run_with_daemon({"version"}).out, "dgxmm 1.2.3 (abcdef)\ndaemon at " + daemon_.address() + ": 9\n");
}

TEST_F(CliTest, VersionWorksWithoutADaemon) {
  const auto outcome = run_cli({"version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "dgxmm 1.2.3 (abcdef)\n");
  EXPECT_EQ(run_cli({"version", "--json"}).out, R"({"version":"1.2.3","commit":"abcdef","api":"v1","host":null})"
                                                "\n");
}

TEST_F(Commands, AProblemIsASentenceAndAHintOnStderr) {
  daemon_.on("POST /fit", problem_of(Error{"bad_model_file", "m.gguf ends too early", "copy it again", "m.gguf"}), 422);
  const auto outcome = run_with_daemon({"fit", "m"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "error: m.gguf ends too early\nhint: copy it again\n");
}

TEST_F(Commands, AProblemAsJsonIsTheDocumentOnStdout) {
  const auto problem = problem_of(Error{"bad_field", "ctx_size: no", {}, "ctx_size"});
  daemon_.on("POST /fit", problem, 400);
  const auto outcome = run_with_daemon({"fit", "m", "--json"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, to_json(problem) + "\n");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CliTest, WrongUsageAsJsonIsAProblemToo) {
  const auto outcome = run_cli({"fit", "--json", "m", "--nope"});
  EXPECT_EQ(outcome.exit_code, 2);
  const auto problem = from_json<dto::Problem>(outcome.out);
  ASSERT_TRUE(problem) << outcome.out;
  EXPECT_EQ(problem->code, "usage");
  EXPECT_EQ(problem->title, "Wrong usage");
  EXPECT_EQ(problem->detail, "there is no option --nope");
  EXPECT_THAT(outcome.out, Not(HasSubstr("\"status\"")));
}

TEST_F(Commands, AProblemOfTheDaemonKeepsItsStatus) {
  daemon_.on("POST /deployments", refusal("does_not_fit"), 409);
  EXPECT_THAT(run_with_daemon({"deploy", "m", "--json"}).out, HasSubstr("\"status\":409"));
}

TEST_F(CliTest, EveryHelpFits80ColumnsInATerminalAndInAPipe) {
  std::vector<std::vector<std::string>> asked{{"help"}, {"--help"}};
  for (const auto& command : grammar().commands) {
    asked.push_back({"help", command.name});
    asked.push_back({command.name, "--help"});
  }
  for (const auto width : {80U, 0U}) {
    width_ = width;
    for (const auto& arguments : asked) {
      const auto outcome = run_cli(arguments);
      EXPECT_EQ(outcome.exit_code, 0);
      std::istringstream lines{outcome.out};
      for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 80U) << arguments[0] << ": " << line;
    }
  }
}

TEST_F(CliTest, HelpGoesOnBelowTheDescription) {
  width_ = 80;
  EXPECT_THAT(run_cli({"help", "serve"}).out,
              HasSubstr("  --min-headroom-gib NUMBER         a plan that leaves less than this is marked\n"
                        "                                    unsafe (GiB) [2]\n"));
  for (const auto& command : grammar().commands) {
    std::istringstream lines{run_cli({"help", command.name}).out};
    for (std::string line; std::getline(lines, line);) {
      const auto begin = line.find_first_not_of(' ');
      EXPECT_TRUE(line.empty() || begin == 0 || begin == 2 || begin == 36) << command.name << ": " << line;
    }
  }
}

TEST_F(CliTest, ATokenInAFileThatEveryoneMayReadIsWarnedAbout) {
  const auto file = folder_ / "settings.toml";
  std::ofstream{file} << "token = \"secret\"\n";
  using std::filesystem::perms;
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write | perms::group_read);
  EXPECT_EQ(run_plain({"version", "--config", file.string(), "--address", "127.0.0.1:0"}).err.find("warning"),
            std::string::npos);
  std::filesystem::permissions(file, perms::others_read, std::filesystem::perm_options::add);
  const auto outcome = run_plain({"version", "--config", file.string(), "--address", "127.0.0.1:0"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("warning: " + file.string() + " holds the token"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("secret")));
}

TEST_F(CliTest, AMistypedVariableIsWarnedAbout) {
  ::setenv("DGXMM_LISTNE", "127.0.0.1:1", 1);
  ::setenv("DGXMM_INSTANCE", "x", 1);
  const auto outcome = run_cli({"version"});
  ::unsetenv("DGXMM_LISTNE");
  ::unsetenv("DGXMM_INSTANCE");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("warning: DGXMM_LISTNE is no setting: did you mean DGXMM_LISTEN?\n"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("DGXMM_INSTANCE")));
}

TEST_F(Commands, WhatTheDaemonSaysCannotControlTheTerminal) {
  daemon_.on("POST /fit", problem_of(Error{"bad_model_file", "\x1b[2J", "\x1b]0;x\a", {}}), 422);
  auto evil = deployment(1, "\x1b[31m", "ready");
  evil.model_name = "\x1b[2J";
  daemon_.on("GET /deployments", std::vector{evil});
  for (const auto& outcome : {run_with_daemon({"fit", "m"}), run_with_daemon({"ps"})}) {
    EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("\x1b")));
  }
}

TEST_F(Commands, AFullDiskIsAnError) {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  std::ostringstream err;
  EXPECT_EQ(run({"version", "--address", daemon_.address()}, composition_, Console{.out = out, .err = err}, clock_), 1);
  EXPECT_THAT(err.str(), HasSubstr("could not be written"));
}

// --- serve

TEST_F(CliTest, ServeGetsItsSettingsFromFileEnvironmentAndFlags) {
  const auto file = folder_ / "settings.toml";
  std::ofstream{file} << "os_reserve_gib = 1\nsafety_margin_gib = 1\nstop_grace_s = 1\n";
  ::setenv("DGXMM_SAFETY_MARGIN_GIB", "2", 1);
  ::setenv("DGXMM_STOP_GRACE_S", "2", 1);
  settings::Settings seen;
  composition_.serve = [&seen](const settings::Settings& settings) {
    seen = settings;
    return 7;
  };
  EXPECT_EQ(run_plain({"serve", "--config", file.string(), "--stop-grace-s", "3", "--token", "t"}).exit_code, 7);
  ::unsetenv("DGXMM_SAFETY_MARGIN_GIB");
  ::unsetenv("DGXMM_STOP_GRACE_S");
  EXPECT_EQ(seen.os_reserve_gib, 1);
  EXPECT_EQ(seen.safety_margin_gib, 2);
  EXPECT_EQ(seen.stop_grace_s, 3);
  EXPECT_EQ(seen.token, "t");
  EXPECT_EQ(seen.sources.at("stop_grace_s"), "--stop-grace-s");
  EXPECT_EQ(run_plain({"serve", "--stop-grace-s", "x"}).exit_code, 2);
}

// --- deploy, start

TEST_F(Commands, DeployWaitsUntilTheModelServes) {
  daemon_.on("POST /deployments", deployment(1, "chat", "starting"), 201);
  auto loading = deployment(1, "chat", "loading");
  loading.phase = "reading weights";
  daemon_.on("GET /deployments/1", loading);
  daemon_.on("GET /deployments/1", deployment(1, "chat", "ready"));
  const auto outcome = run_with_daemon({"deploy", "smol", "--name", "chat"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "chat is ready (id 1)\n  http://127.0.0.1:40000/v1, model chat\n  reserved 2.0 GiB\n");
  EXPECT_EQ(outcome.err, "chat: starting\nchat: reading weights\n");
}

TEST_F(Commands, DeployAsJsonIsTheDeploymentThatServes) {
  daemon_.on("POST /deployments", deployment(1, "chat", "starting"), 201);
  daemon_.on("GET /deployments/1", deployment(1, "chat", "ready"));
  EXPECT_EQ(run_with_daemon({"deploy", "smol", "--json"}).out, to_json(deployment(1, "chat", "ready")) + "\n");
}

TEST_F(Commands, DeployWithoutWaitingReturnsAtOnce) {
  daemon_.on("POST /deployments", deployment(1, "chat", "starting"), 201);
  const auto outcome = run_with_daemon({"deploy", "smol", "--no-wait"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("chat is starting (id 1)\n"));
  EXPECT_EQ(daemon_.requests().size(), 1U);
}

TEST_F(Commands, DeployThatDoesNotFitShowsThePlansAndTheLineToRun) {
  daemon_.on("POST /deployments", refusal("does_not_fit"), 409);
  const auto outcome = run_with_daemon({"deploy", "smol"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.err, "error: short by 2.0 GiB\n");
  EXPECT_EQ(outcome.out,
            "   PLAN      FITS    NEEDS         LEAVES  TAKES\n"
            "*  stop:3    yes   3.0 GiB        4.0 GiB   ~25s\n"
            "    Stop chat\n"
            "    memory: 7.0 GiB free for it then\n"
            "    estimated: by the formula; no start of this model was measured yet\n"
            "    service: chat is answering requests and is stopped\n"
            "    unsafe: chat is busy\n"
            "   ctx:4096  no    2.0 GiB  short 1.0 GiB     1m\n"
            "    Context 4096\n"
            "    calibrated: by the formula, corrected by earlier starts of this model\n"
            "* recommended\n"
            "to carry one out: dgxmm apply 7/stop:3\n");
}

TEST_F(Commands, A7_WhoElseHoldsMemoryIsUnderThePlans) {
  auto problem = refusal("does_not_fit");
  problem.holders = {
      {.pid = 4242, .user = "jo", .command = "VLLM::EngineCore", .held_bytes = gib(60), .orphan = true},
      {.pid = 77, .user = "jo", .command = "python train.py", .held_bytes = gib(9), .parent_ended = true},
      {.pid = 11, .user = "gdm", .command = "Xorg", .held_bytes = gib(1)}};
  daemon_.on("POST /deployments", problem, 409);
  width_ = 80;
  const auto outcome = run_with_daemon({"deploy", "smol"});
  const auto plans = outcome.out.find("to carry one out");
  const auto orphan = outcome.out.find("VLLM::EngineCore");
  ASSERT_NE(orphan, std::string::npos);
  EXPECT_LT(plans, orphan);
  EXPECT_THAT(outcome.out, HasSubstr("`kill 4242` gives"));
  EXPECT_THAT(outcome.out, HasSubstr("its parent has ended; it may still be in use"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("kill 77")));
  EXPECT_THAT(outcome.out, HasSubstr("Xorg"));
  std::istringstream lines{outcome.out};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 80U) << line;
}

TEST_F(Commands, SleepSaysTheLevelAndWhatItGaveBack) {
  auto asleep = deployment(1, "chat", "sleeping");
  asleep.sleep_level = 2;
  asleep.sleep_freed_bytes = gib(3);
  daemon_.on("POST /deployments/chat/sleep", asleep);
  const auto outcome = run_with_daemon({"sleep", "chat", "--level", "2", "--force"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "chat sleeps (id 1, level 2); 3.0 GiB given back\n");
  EXPECT_EQ(daemon_.requests().at(0).query.at("level"), "2");
  EXPECT_EQ(daemon_.requests().at(0).query.at("force"), "1");
}

TEST_F(Commands, SleepAtLevel1UnforcedUnlessToldOtherwise) {
  daemon_.on("POST /deployments/chat/sleep", deployment(1, "chat", "sleeping"));
  const auto outcome = run_with_daemon({"sleep", "chat"});
  EXPECT_THAT(outcome.out, HasSubstr("what it gave back is not known"));
  EXPECT_EQ(daemon_.requests().at(0).query.at("level"), "1");
  EXPECT_EQ(daemon_.requests().at(0).query.count("force"), 0U);
}

TEST_F(Commands, PsShowsHowDeepOneSleeps) {
  auto asleep = deployment(1, "chat", "sleeping");
  asleep.sleep_level = 1;
  daemon_.on("GET /deployments", std::vector{asleep});
  EXPECT_THAT(run_with_daemon({"ps"}).out, HasSubstr("sleeping (1)"));
}

/// A sleeper of which a wake would need 3 GiB; whether that is free may be unknown.
dto::Deployment asleep_and_can_wake(std::optional<bool> can_wake_now) {
  auto asleep = deployment(1, "chat", "sleeping");
  asleep.wake_needs_bytes = gib(3);
  asleep.can_wake_now = can_wake_now;
  return asleep;
}

TEST_F(Commands, PsShowsWhatWakingUpNeedsAndWhetherThatIsFree) {
  daemon_.on("GET /deployments", std::vector{deployment(1, "chat", "sleeping")});
  for (const auto can_wake : {std::optional<bool>{}, std::optional{true}, std::optional{false}}) {
    daemon_.on("GET /deployments", std::vector{asleep_and_can_wake(can_wake)});
  }
  const auto shown = [&] { return run_with_daemon({"ps"}).out; };
  EXPECT_THAT(shown(), Not(HasSubstr("wake up")));
  EXPECT_THAT(shown(), HasSubstr("to wake up it needs 3.0 GiB\n")) << "whether that is free is not known";
  EXPECT_THAT(shown(), HasSubstr("to wake up it needs 3.0 GiB, which is free\n"));
  EXPECT_THAT(shown(), HasSubstr("to wake up it needs 3.0 GiB, which is not free now\n"));
}

TEST_F(Commands, SleepWarnsWhenItCouldNotBeWokenAgain) {
  for (const auto can_wake : {std::optional<bool>{}, std::optional{true}, std::optional{false}}) {
    daemon_.on("POST /deployments/chat/sleep", asleep_and_can_wake(can_wake));
  }
  const auto shown = [&] { return run_with_daemon({"sleep", "chat"}).out; };
  EXPECT_THAT(shown(), Not(HasSubstr("warning")));
  EXPECT_THAT(shown(), Not(HasSubstr("warning")));
  EXPECT_THAT(shown(), HasSubstr("warning: to wake up it needs 3.0 GiB, which is not free now\n"));
}

TEST_F(Commands, WakeWaitsUntilItServes) {
  auto waking = deployment(1, "chat", "loading");
  waking.phase = "waking up: weights";
  daemon_.on("POST /deployments/chat/wake", waking, 202);
  daemon_.on("GET /deployments/1", deployment(1, "chat", "ready"));
  const auto outcome = run_with_daemon({"wake", "chat"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("chat is ready (id 1)\n"));
  EXPECT_EQ(outcome.err, "chat: waking up: weights\n");
}

TEST_F(Commands, AWakeOrStartThatDoesNotFitShowsThePlansForIt) {
  for (const auto* command : {"wake", "start"}) {
    daemon_.on(fmt::format("POST /deployments/chat/{}", command), refusal("does_not_fit"), 409);
    const auto outcome = run_with_daemon({command, "chat"});
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_THAT(outcome.out, HasSubstr("to carry one out: dgxmm apply 7/stop:3"));
  }
}

TEST_F(Commands, AnEngineThatDiesIsShownWithItsLastLines) {
  daemon_.on("POST /deployments", deployment(1, "chat", "starting"), 201);
  auto failed = deployment(1, "chat", "failed");
  failed.failure = dto::Failure{"out_of_memory",
                                "the engine ran out of memory",
                                "use a smaller context",
                                {"ggml: failed to allocate", "\x1b[31mabort"}};
  daemon_.on("GET /deployments/1", failed);
  const auto outcome = run_with_daemon({"deploy", "smol"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("error: the engine ran out of memory\nhint: use a smaller context\n"
                                     "last lines of the engine:\n  ggml: failed to allocate\n  \\x1b[31mabort\n"));
  const auto json = from_json<dto::Problem>(run_with_daemon({"deploy", "smol", "--json"}).out);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->code, "out_of_memory");
  ASSERT_TRUE(json->failure);
  EXPECT_EQ(json->failure->last_lines.size(), 2U);
}

TEST_F(Commands, ADeploymentThatIsStoppedMeanwhileIsNotReady) {
  daemon_.on("POST /deployments", deployment(1, "chat", "starting"), 201);
  daemon_.on("GET /deployments/1", deployment(1, "chat", "stopping"));
  const auto outcome = run_with_daemon({"deploy", "smol"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("error: chat is stopping\n"));
}

TEST_F(Commands, CtrlCLeavesTheDeploymentAndSaysSo) {
  daemon_.on("POST /deployments", deployment(1, "chat", "starting"), 201);
  const auto waiting = ::pthread_self();
  daemon_.call("GET /deployments/1", [waiting](const auto&) {
    ::pthread_kill(waiting, SIGINT);
    return FakeDaemon::json(to_json(deployment(1, "chat", "loading")));
  });
  const auto outcome = run_with_daemon({"deploy", "smol"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("no longer waiting: chat goes on loading\n"));
  EXPECT_THAT(outcome.err, HasSubstr("`dgxmm stop chat` ends it"));
  for (const auto& request : daemon_.requests()) EXPECT_NE(request.path, "/api/v1/deployments/1/stop");
}

TEST_F(Commands, StartStartsAgain) {
  daemon_.on("POST /deployments/chat/start", deployment(1, "chat", "starting"), 202);
  daemon_.on("GET /deployments/1", deployment(1, "chat", "ready"));
  EXPECT_EQ(run_with_daemon({"start", "chat"}).exit_code, 0);
}

// --- ps

std::vector<dto::Deployment> many_kinds() {
  auto busy = deployment(1, "a-name-that-is-much-too-long-for-a-column-of-a-table", "ready");
  busy.busy = true;
  busy.measured = dto::Measured{.total_bytes = gib(100), .approximate = true, .complete = false};
  auto idle = deployment(12, "idle", "ready");
  idle.busy = false;
  idle.idle_since = format_time(StillClock{}.wall() - std::chrono::minutes{3});
  idle.measured = dto::Measured{.total_bytes = mib(500), .complete = true};
  const auto loading = deployment(13, "new", "loading");
  return {busy, idle, loading, deployment(14, "old", "stopped")};
}

TEST_F(Commands, PsIsReadableAtEightyColumns) {
  daemon_.on("GET /deployments", many_kinds());
  width_ = 80;
  const auto outcome = run_with_daemon({"ps"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "ID  NAME            STATE    MODEL           RESERVED      MEASURED   PORT  IDLE\n"
            " 1  a-name-that-i…  ready    SmolLM2 135M …   2.0 GiB  ~100.0 GiB+?  40000  busy\n"
            "12  idle            ready    SmolLM2 135M …   2.0 GiB     500.0 MiB  40000    3m\n"
            "13  new             loading  SmolLM2 135M …   2.0 GiB             ?  40000     -\n"
            "? not known; +? a part, such as GPU memory, could not be read; ~ from the\n"
            "process tree, without a cgroup\n");
  EXPECT_EQ(outcome.err, "1 ended: `dgxmm ps --all` shows it\n");
}

TEST_F(Commands, PsShowsWhatHasEndedWhenAsked) {
  auto failed = deployment(2, "bad", "failed");
  failed.failure = dto::Failure{"engine_died", "the engine ended with exit code 1", {}, {}};
  daemon_.on("GET /deployments", std::vector{deployment(1, "old", "stopped"), failed});
  const auto all = run_with_daemon({"ps", "--all"});
  EXPECT_THAT(all.out, HasSubstr("old"));
  EXPECT_THAT(all.out, HasSubstr("    the engine ended with exit code 1\n"));
  EXPECT_THAT(all.out, Not(HasSubstr("?")));
  EXPECT_EQ(run_with_daemon({"ps"}).out, "");
}

TEST_F(Commands, P11_PsShowsWhatAPlanTookAndDidNotBringBack) {
  auto taken = deployment(1, "old", "stopped");
  taken.failure =
      dto::Failure{std::string{dto::kNotBroughtBack}, "stopped for plan stop:1 and not back", "`dgxmm start old`", {}};
  daemon_.on("GET /deployments", std::vector{taken, deployment(2, "other", "stopped")});
  const auto outcome = run_with_daemon({"ps"});
  EXPECT_THAT(outcome.out, HasSubstr("    stopped for plan stop:1 and not back\n    `dgxmm start old`\n"));
  EXPECT_EQ(outcome.err, "1 ended: `dgxmm ps --all` shows it\n");
}

TEST_F(Commands, PsAsJsonIsAList) {
  daemon_.on("GET /deployments", std::vector{deployment(1, "a", "ready"), deployment(2, "b", "stopped")});
  EXPECT_EQ(run_with_daemon({"ps", "--json"}).out, to_json(std::vector{deployment(1, "a", "ready")}) + "\n");
  EXPECT_EQ(run_with_daemon({"ps", "--json", "--all"}).out,
            to_json(std::vector{deployment(1, "a", "ready"), deployment(2, "b", "stopped")}) + "\n");
}

TEST_F(Commands, NoDeploymentsIsANoteNotATable) {
  daemon_.on("GET /deployments", std::vector<dto::Deployment>{});
  const auto outcome = run_with_daemon({"ps"});
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("dgxmm deploy MODEL"));
  EXPECT_EQ(run_with_daemon({"ps", "--json"}).out, "[]\n");
}

// --- stop, rm

TEST_F(Commands, StopReturnsWhenTheMemoryIsBack) {
  daemon_.on("POST /deployments/chat/stop", deployment(3, "chat", "stopped"));
  const auto outcome = run_with_daemon({"stop", "chat"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "stopped chat (id 3); its memory is back\n");
  EXPECT_EQ(run_with_daemon({"stop", "chat", "--json"}).out, to_json(deployment(3, "chat", "stopped")) + "\n");
}

TEST_F(Commands, StopGoesOnAfterOneThatCannotBeStopped) {
  daemon_.on("POST /deployments/b/stop", deployment(2, "b", "stopped"));
  const auto outcome = run_with_daemon({"stop", "a", "b"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "stopped b (id 2); its memory is back\n");
}

TEST_F(Commands, StopAllStopsWhatRuns) {
  daemon_.on("GET /deployments", std::vector{deployment(1, "a", "ready"), deployment(2, "b", "stopped"),
                                             deployment(3, "c", "unknown"), deployment(4, "d", "failed")});
  daemon_.on("POST /deployments/1/stop", deployment(1, "a", "stopped"));
  daemon_.on("POST /deployments/3/stop", deployment(3, "c", "stopped"));
  const auto outcome = run_with_daemon({"stop", "--all", "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, to_json(std::vector{deployment(1, "a", "stopped"), deployment(3, "c", "stopped")}) + "\n");
}

TEST_F(Commands, ANameCannotLeaveItsPartOfThePath) {
  daemon_.on("POST /deployments/x?y/stop", deployment(1, "x", "stopped"));
  EXPECT_EQ(run_with_daemon({"stop", "x?y"}).exit_code, 0);
  EXPECT_EQ(net::percent_encode("../a b?#%ä"), "..%2Fa%20b%3F%23%25%C3%A4");
}

TEST_F(Commands, RemoveRemovesByNumber) {
  daemon_.on("GET /deployments/chat", deployment(3, "chat", "stopped"));
  daemon_.call("DELETE /deployments/3", [](const auto&) { return FakeDaemon::json("", 204); });
  const auto outcome = run_with_daemon({"rm", "chat"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "removed chat (id 3)\n");
}

TEST_F(Commands, RemoveSaysWhyItCannot) {
  daemon_.on("GET /deployments/chat", deployment(3, "chat", "ready"));
  daemon_.on("DELETE /deployments/3", problem_of(Error{"already_running", "chat is ready", "stop it first", {}}), 409);
  const auto outcome = run_with_daemon({"rm", "chat"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "error: chat is ready\nhint: stop it first\n");
}

// --- logs

TEST_F(Commands, LogsPassThroughAPipeAsTheyAre) {
  daemon_.stream("GET /deployments/chat/logs", {"one\nt", "wo\t2\nlast"});
  const auto outcome = run_with_daemon({"logs", "chat", "--tail", "5", "-f"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "one\ntwo\t2\nlast\n");
  const auto query = daemon_.requests().at(0).query;
  EXPECT_EQ(query.at("tail"), "5");
  EXPECT_EQ(query.at("follow"), "1");
}

TEST_F(Commands, LogsOnATerminalCannotControlIt) {
  width_ = 80;
  daemon_.stream("GET /deployments/chat/logs", {"\x1b[2Jx\ty\n"});
  EXPECT_EQ(run_with_daemon({"logs", "chat"}).out, "\\x1b[2Jx y\n");
}

TEST_F(Commands, LogsAsJsonAreOneTextALine) {
  daemon_.stream("GET /deployments/chat/logs", {"a \"b\"\n", "c\n"});
  EXPECT_EQ(run_with_daemon({"logs", "chat", "--json"}).out, "\"a \\\"b\\\"\"\n\"c\"\n");
}

TEST_F(Commands, LogsOfNobodyAreAnError) { EXPECT_EQ(run_with_daemon({"logs", "chat"}).exit_code, 1); }

// --- plan, apply

TEST_F(Commands, PlanShowsWaysAndWhatIsWrongWithThem) {
  daemon_.on("POST /plans", plans(true));
  const auto outcome = run_with_daemon({"plan", "smol"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("does not fit: needs 3.0 GiB of 1.0 GiB free, short by 2.0 GiB\n"));
  EXPECT_THAT(outcome.out, HasSubstr("unsafe: chat is busy"));
  EXPECT_THAT(outcome.out, HasSubstr("dgxmm apply 7/stop:3\n"));
  EXPECT_EQ(run_with_daemon({"plan", "smol", "--json"}).out, to_json(plans(true)) + "\n");
}

TEST_F(Commands, AnUnsafePlanIsNotTheCommandToRunNext) {
  auto answer = plans(true);
  answer.plans[0].recommended = false;
  daemon_.on("POST /plans", answer);
  const auto outcome = run_with_daemon({"plan", "smol"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, EndsWith("none of them is safe; `dgxmm apply 7/PLAN` carries one out all the same\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("apply 7/stop:3")));
}

TEST_F(Commands, PlanExitsWithThreeWhenNothingHelps) {
  daemon_.on("POST /plans", plans(false));
  const auto outcome = run_with_daemon({"plan", "smol"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, Not(HasSubstr("apply")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("recommended")));
}

TEST_F(Commands, ScenarioExportWritesWhatTheDaemonDescribes) {
  daemon_.on("GET /scenario", std::string{"host"});
  daemon_.on("POST /scenario", std::string{"with a request"});
  EXPECT_EQ(run_with_daemon({"scenario", "export"}).out, "\"host\"\n");
  EXPECT_EQ(run_with_daemon({"scenario", "export", "smol", "--ctx-size", "4096"}).out, "\"with a request\"\n");
  EXPECT_THAT(daemon_.requests().back().body, HasSubstr(R"("ctx_size":4096)"));
  EXPECT_EQ(run_with_daemon({"scenario", "import"}).exit_code, 2);
  EXPECT_EQ(run_with_daemon({"scenario"}).exit_code, 2);
}

TEST_F(Commands, PlanOfWhatFitsNeedsNoPlan) {
  dto::Plans answer;
  answer.fits_now = true;
  answer.needed_bytes = gib(1);
  answer.free_for_new_bytes = gib(2);
  daemon_.on("POST /plans", answer);
  const auto outcome = run_with_daemon({"plan", "smol"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "fits now: needs 1.0 GiB of 2.0 GiB free, leaves 1.0 GiB\n");
}

dto::Operation operation(std::string state, std::string first, std::string second) {
  dto::Operation result;
  result.id = "5";
  result.plan = "stop:3";
  result.state = std::move(state);
  result.plan_set = "7";
  result.title = "Stop chat";
  result.model = "smol";
  result.steps = {{"stop chat", std::move(first), "", DeploymentId{3}}, {"start smol", std::move(second), "", {}}};
  return result;
}

TEST_F(Commands, ApplyShowsEachStepOnceAndThenTheDeployment) {
  daemon_.on("POST /plans/7/stop:3+5/apply", operation("running", "waiting", "waiting"), 202);
  daemon_.on("GET /operations/5", operation("running", "running", "waiting"));
  daemon_.on("GET /operations/5", operation("running", "running", "waiting"));
  auto done = operation("succeeded", "done", "done");
  done.deployment = DeploymentId{9};
  daemon_.on("GET /operations/5", done);
  daemon_.on("GET /deployments/9", deployment(9, "smol", "ready"));
  const auto outcome = run_with_daemon({"apply", "7/stop:3+5"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "plan 7/stop:3 for smol: Stop chat\nstop chat: running\nstop chat: done\nstart smol: done\n");
  EXPECT_THAT(outcome.out, StartsWith("smol is ready (id 9)\n"));
}

TEST_F(Commands, ApplyWithoutASetTakesTheLatest) {
  daemon_.on("POST /plans/latest/ctx:4096/apply", operation("succeeded", "done", "done"), 202);
  EXPECT_EQ(run_with_daemon({"apply", "ctx:4096"}).exit_code, 0);
}

TEST_F(Commands, ApplySaysWhosePlanItIsAndWhatSpeaksAgainstItBeforeTheSteps) {
  auto done = operation("succeeded", "done", "done");
  done.title = "Stop chat: frees 4.0 GiB";
  done.unsafe = {"chat is busy", "chat is pinned"};
  done.model = "smol\x1b[2J";
  daemon_.on("POST /plans/7/stop:3/apply", done, 202);
  const auto outcome = run_with_daemon({"apply", "7/stop:3"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, StartsWith("plan 7/stop:3 for smol\\x1b[2J: Stop chat: frees 4.0 GiB\n"
                                      "unsafe: chat is busy\nunsafe: chat is pinned\nstop chat: done\n"));
}

TEST_F(Commands, ApplyThatFailsSaysWhatWasUndone) {
  auto failed = operation("failed", "undone", "failed");
  failed.failure = dto::Failure{"engine_died", "the engine ended", "look at its log", {"bye"}};
  daemon_.on("POST /plans/7/stop:3/apply", failed, 202);
  const auto outcome = run_with_daemon({"apply", "7/stop:3"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("stop chat: undone\nstart smol: failed\nerror: the engine ended\n"));
  EXPECT_THAT(outcome.err, HasSubstr("  bye\n"));
  EXPECT_EQ(run_with_daemon({"apply", "7/stop:3", "--json"}).out, to_json(failed) + "\n");
}

TEST_F(Commands, P11_ApplyOfAPlanThatHasChangedByItsTurnShowsTheNewPlans) {
  auto failed = operation("failed", "waiting", "waiting");
  failed.failure = dto::Failure{"plan_changed", "the host has changed", "the plans by now are set 7", {}};
  failed.new_plan_set = "7";
  daemon_.on("POST /plans/6/stop:3/apply", failed, 202);
  daemon_.on("GET /plans/7", plans(true));
  const auto outcome = run_with_daemon({"apply", "6/stop:3"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("error: the host has changed\n"));
  EXPECT_THAT(outcome.out, HasSubstr("to carry one out: dgxmm apply 7/stop:3\n"));
}

TEST_F(Commands, ApplyThatNoLongerFitsExitsWithOne) {
  auto failed = operation("failed", "done", "failed");
  failed.failure = dto::Failure{"does_not_fit", "something took the memory", {}, {}};
  daemon_.on("POST /plans/7/stop:3/apply", failed, 202);
  EXPECT_EQ(run_with_daemon({"apply", "7/stop:3"}).exit_code, 1);
}

TEST_F(Commands, ApplyDetachedReturnsAtOnceAndSaysHowToGoOn) {
  daemon_.on("POST /plans/7/stop:3/apply", operation("running", "waiting", "waiting"), 202);
  const auto outcome = run_with_daemon({"apply", "7/stop:3", "--detach"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "operation 5 has begun: `dgxmm events -f` shows its steps, `dgxmm cancel 5` ends it and undoes them\n");
  EXPECT_EQ(daemon_.requests().back().path, "/api/v1/plans/7/stop:3/apply") << "nothing is waited for";
}

TEST_F(Commands, ApplyShowsThePlanWithItsCostsBeforeItIsCarriedOut) {
  auto shown = plans(true);
  shown.plans.front().unsafe = {"chat is pinned"};
  daemon_.on("GET /plans/7", shown);
  daemon_.on("POST /plans/7/stop:3/apply", refusal("plan_changed"), 409);
  const auto refused = run_with_daemon({"apply", "7/stop:3"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, StartsWith("plan 7/stop:3: Stop chat"));
  EXPECT_THAT(refused.err, HasSubstr("\nservice: chat is answering requests and is stopped\nunsafe: chat is pinned\n"));
  ASSERT_EQ(daemon_.requests().size(), 2U);
  EXPECT_EQ(daemon_.requests().front().method, "GET");

  daemon_.on("POST /plans/7/stop:3/apply", operation("succeeded", "done", "done"), 202);
  const auto done = run_with_daemon({"apply", "7/stop:3"});
  EXPECT_EQ(done.err.find("plan 7/stop:3"), done.err.rfind("plan 7/stop:3")) << "once: " << done.err;
}

TEST_F(Commands, ApplyTellsTheDaemonWhenBusyOnesMayBeInterrupted) {
  daemon_.on("POST /plans/7/stop:3/apply", operation("succeeded", "done", "done"), 202);
  run_with_daemon({"apply", "7/stop:3", "--even-if-busy"});
  EXPECT_EQ(daemon_.requests().back().query.at("even_if_busy"), "1");
  run_with_daemon({"apply", "7/stop:3"});
  EXPECT_TRUE(daemon_.requests().back().query.empty());
}

TEST_F(Commands, ApplyShowsItsPlaceInTheQueue) {
  auto waiting = operation("running", "waiting", "waiting");
  waiting.queue_place = 2;
  daemon_.on("POST /plans/7/stop:3/apply", waiting, 202);
  daemon_.on("GET /operations/5", operation("succeeded", "done", "done"));
  EXPECT_THAT(run_with_daemon({"apply", "7/stop:3"}).err, HasSubstr("waits for its turn, place 2 in the queue\n"));
}

dto::Operation cancelled() {
  auto result = operation("cancelled", "undone", "failed");
  result.cancelled_at = "2027-01-15T08:00:00.000Z";
  result.failure = dto::Failure{"cancelled", "it was cancelled", {}, {}};
  return result;
}

TEST_F(Commands, CtrlCLeavesThePlanToTheDaemonAndASecondOneCancelsIt) {
  daemon_.on("POST /plans/7/stop:3/apply", operation("running", "running", "waiting"), 202);
  const auto waiting = ::pthread_self();
  const auto pressed = [waiting](const auto&) {
    ::pthread_kill(waiting, SIGINT);
    return FakeDaemon::json(to_json(operation("running", "running", "waiting")));
  };
  daemon_.call("GET /operations/5", pressed);
  daemon_.call("GET /operations/5", pressed);
  daemon_.on("GET /operations/5", cancelled());
  daemon_.on("POST /operations/5/cancel", operation("running", "running", "waiting"), 202);
  const auto outcome = run_with_daemon({"apply", "7/stop:3"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the daemon goes on with the plan; Ctrl-C again within 5 s cancels it"));
  EXPECT_THAT(outcome.err, HasSubstr("cancelled; waiting until everything is as it was\nstop chat: undone\n"));
  EXPECT_THAT(outcome.err, HasSubstr("error: it was cancelled\n"));
}

TEST_F(Commands, SigtermLeavesThePlanToTheDaemonAtOnce) {
  daemon_.on("POST /plans/7/stop:3/apply", operation("running", "running", "waiting"), 202);
  const auto waiting = ::pthread_self();
  daemon_.call("GET /operations/5", [waiting](const auto&) {
    ::pthread_kill(waiting, SIGTERM);
    return FakeDaemon::json(to_json(operation("running", "running", "waiting")));
  });
  const auto outcome = run_with_daemon({"apply", "7/stop:3"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("`dgxmm cancel 5` ends it"));
}

TEST_F(Commands, CancelWaitsUntilEverythingIsUndone) {
  daemon_.on("POST /operations/5/cancel", operation("running", "running", "waiting"), 202);
  daemon_.on("GET /operations/5", cancelled());
  const auto outcome = run_with_daemon({"cancel", "5"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "plan stop:3: it was cancelled\n");
  EXPECT_THAT(outcome.err, HasSubstr("stop chat: undone\n"));

  const dto::Problem ended{
      .title = "Conflict", .status = 409, .detail = "plan stop:3 has ended", .code = "operation_ended"};
  daemon_.on("POST /operations/6/cancel", ended, 409);
  EXPECT_EQ(run_with_daemon({"cancel", "6"}).exit_code, 1);
}

TEST_F(Commands, CancelTakesOneOutOfTheQueue) {
  daemon_.call("DELETE /queue/admission-3", [](const auto&) { return FakeDaemon::json({}, 204); });
  const auto outcome = run_with_daemon({"cancel", "admission-3"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "admission-3 waits no longer\n");
}

TEST_F(Commands, QueueListsWhoWaitsForWhat) {
  dto::Queue queue;
  queue.deciding = "plan stop:3 for smol";
  queue.waiting = {{.id = "admission-3",
                    .queue = "admission",
                    .what = "deploy chat",
                    .priority = 2,
                    .place = 1,
                    .since = "2027-01-15T07:59:00.000Z",
                    .deployment = {},
                    .operation = {}},
                   {.id = "start-9",
                    .queue = "start",
                    .what = "start other",
                    .priority = 0,
                    .place = 1,
                    .since = "2027-01-15T07:59:50.000Z",
                    .deployment = DeploymentId{4},
                    .operation = {}}};
  daemon_.on("GET /queue", queue);
  width_ = 80;
  const auto outcome = run_with_daemon({"queue"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out,
            "PLACE  WAITS FOR       WHAT         PRIORITY  SINCE  ID\n"
            "    1  a decision      deploy chat         2     1m  admission-3\n"
            "    1  others to load  start other         0    10s  start-9\n");
  EXPECT_THAT(outcome.err, HasSubstr("has the turn to be decided on: plan stop:3 for smol\n"));
  EXPECT_EQ(run_with_daemon({"queue", "--json"}).out, to_json(queue) + "\n");
  daemon_.on("GET /queue", dto::Queue{});
}

TEST_F(Commands, YesCarriesOutTheRecommendedPlan) {
  daemon_.on("POST /deployments", refusal("does_not_fit"), 409);
  auto done = operation("succeeded", "done", "done");
  done.deployment = DeploymentId{9};
  daemon_.on("POST /plans/7/stop:3/apply", done, 202);
  daemon_.on("GET /deployments/9", deployment(9, "smol", "ready"));
  const auto outcome = run_with_daemon({"deploy", "smol", "--yes"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, StartsWith("plan 7/stop:3 for smol: Stop chat\n"));
  EXPECT_THAT(outcome.out, StartsWith("smol is ready (id 9)\n"));
}

TEST_F(Commands, YesCarriesOutNothingThatIsNotRecommended) {
  auto problem = refusal("does_not_fit");
  problem.plans->plans[0].recommended = false;
  daemon_.on("POST /deployments", problem, 409);
  const auto outcome = run_with_daemon({"deploy", "smol", "--yes"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("none of the plans is safe, so none was carried out\n"));
  EXPECT_THAT(outcome.out, HasSubstr("unsafe: chat is busy"));

  problem.plans = plans(false);
  daemon_.on("POST /deployments/chat/wake", problem, 409);
  const auto wake = run_with_daemon({"wake", "chat", "--yes"});
  EXPECT_EQ(wake.exit_code, 3);
  EXPECT_THAT(wake.err, HasSubstr("no plan makes it fit, so none was carried out\n"));
  for (const auto& request : daemon_.requests()) EXPECT_THAT(request.path, Not(HasSubstr("apply")));
}

TEST_F(Commands, APlanThatChangedIsNotCarriedOutAndTheNewOnesAreShown) {
  daemon_.on("POST /plans/7/stop:3/apply", refusal("plan_changed"), 409);
  const auto outcome = run_with_daemon({"apply", "7/stop:3"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("dgxmm apply 7/stop:3"));
}

// --- events

std::string sse(std::int64_t id) {
  dto::Event event;
  event.id = id;
  event.time = "2026-11-29T21:30:11.042Z";
  event.type = "deployment.state";
  event.message = "event " + std::to_string(id);
  return "id: " + std::to_string(id) + "\nevent: deployment.state\ndata: " + to_json(event) + "\n\n";
}

const std::string kBudgetMessage = "event: budget\ndata: {}\n\n";

TEST_F(Commands, EventsEndWhenEverythingStoredWasShown) {
  daemon_.stream("GET /events", {": dgxmm\n\n", sse(1) + sse(2) + kBudgetMessage, sse(3)}, true);
  daemon_.stream("GET /events", {sse(3) + kBudgetMessage}, true);
  daemon_.stream("GET /events", {kBudgetMessage}, true);
  const auto outcome = run_with_daemon({"events"});
  EXPECT_EQ(outcome.exit_code, 0);
  const auto time = local_time_text(*parse_time("2026-11-29T21:30:11.042Z"), clock_.wall());
  EXPECT_EQ(outcome.out, "    1  " + time + "  event 1\n    2  " + time + "  event 2\n    3  " + time + "  event 3\n");
  ASSERT_EQ(daemon_.requests().size(), 3U);
  EXPECT_EQ(daemon_.requests()[0].query.at("tail"), "50");
  EXPECT_EQ(daemon_.requests()[1].query.at("after"), "2");
  EXPECT_EQ(daemon_.requests()[2].query.at("after"), "3");
}

TEST_F(Commands, EventsLeaveOutWhoWaitsWhoIsAtWorkAndTheHistory) {
  const std::string queue =
      "event: queue\ndata: {\"decisions\": [], \"starts\": []}\n\nevent: history\ndata: {\"time_s\": []}\n\n"
      "event: activity\ndata: []\n\n";
  daemon_.stream("GET /events", {queue + sse(8) + queue + sse(9)});
  const auto outcome = run_with_daemon({"events", "-f"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("event 9"));
}

TEST_F(Commands, AsManyEventsAsWereAskedFor) {
  daemon_.stream("GET /events", {kBudgetMessage});
  for (const auto& option : {std::vector<std::string>{"--tail", "3"}, {"--all"}, {"--follow", "--tail", "4"}}) {
    auto arguments = option;
    arguments.insert(arguments.begin(), "events");
    EXPECT_EQ(run_with_daemon(arguments).exit_code, 0);
  }
  EXPECT_EQ(daemon_.requests().at(0).query.at("tail"), "3");
  EXPECT_EQ(daemon_.requests().at(1).query.at("after"), "0");
  EXPECT_EQ(daemon_.requests().at(2).query.at("tail"), "4");
}

TEST_F(Commands, EventsFitTheTerminal) {
  dto::Event event;
  event.id = 1;
  event.time = "2026-11-29T21:30:11.042Z";
  event.message = "a sentence that is much longer than one line of the terminal, and ends here";
  daemon_.stream("GET /events", {"id: 1\nevent: x\ndata: " + to_json(event) + "\n\n" + kBudgetMessage});
  daemon_.stream("GET /events", {kBudgetMessage});
  width_ = 50;
  const auto outcome = run_with_daemon({"events"});
  EXPECT_THAT(outcome.out, HasSubstr(" here\n"));
  std::istringstream lines{outcome.out};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), 50U) << line;
}

TEST_F(Commands, EventsThatAreFollowedBeginNowAndGoOn) {
  daemon_.stream("GET /events", {kBudgetMessage, sse(8), kBudgetMessage, sse(9)});
  const auto outcome = run_with_daemon({"events", "-f"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("event 9"));
  EXPECT_EQ(daemon_.requests().at(0).query, (std::map<std::string, std::string>{{"tail", "0"}}));
}

TEST_F(Commands, EventsAsJsonAreOneDocumentALine) {
  daemon_.stream("GET /events", {sse(4) + kBudgetMessage});
  daemon_.stream("GET /events", {kBudgetMessage});
  const auto outcome = run_with_daemon({"events", "--json", "--after", "3"});
  const auto event = from_json<dto::Event>(outcome.out);
  ASSERT_TRUE(event) << outcome.out;
  EXPECT_EQ(event->id, 4);
}

TEST_F(Commands, AnUnreadableEventIsAnError) {
  daemon_.stream("GET /events", {"id: 1\nevent: x\ndata: {\n\n"});
  EXPECT_EQ(run_with_daemon({"events"}).exit_code, 1);
}

// --- the other tables

TEST_F(Commands, BudgetShowsDeploymentsAndWarnings) {
  dto::Budget budget;
  budget.mem_total_bytes = gib(100);
  budget.free_for_new_bytes = gib(5);
  budget.source = "daemon";
  budget.deployments = {{DeploymentId{1}, "chat", "ready", gib(2), std::nullopt}};
  budget.warnings = {{"gpu_memory_unknown", "GPU memory cannot be read", "", "warning"}};
  daemon_.on("GET /budget", budget);
  const auto outcome = run_with_daemon({"budget"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("5.0 GiB free for new models\n"));
  EXPECT_THAT(outcome.out, HasSubstr(" 1  chat  ready   2.0 GiB         ?\n? not known\n"));
  EXPECT_THAT(outcome.out, HasSubstr("warning: GPU memory cannot be read\n"));
  EXPECT_EQ(run_with_daemon({"budget", "--json"}).out, to_json(budget) + "\n");
}

TEST_F(Commands, ModelsSayWhatCannotBeUsed) {
  dto::Models models;
  models.warnings = {"/gone: does not exist"};
  models.models = {{"good", "/m/good.gguf", "gguf", "llama", "Q4_K_M", "base", gib(4), 8192, ""},
                   {"bad", "/m/bad.gguf", "gguf", "", "", "", gib(1), 0, "ends too early"}};
  daemon_.on("GET /models", models);
  const auto outcome = run_with_daemon({"models"});
  EXPECT_THAT(outcome.out, HasSubstr("\n    cannot be used: ends too early\n"));
  EXPECT_EQ(outcome.err, "warning: /gone: does not exist\n");
  const auto flat = run_with_daemon({"models", "--flat"});
  EXPECT_THAT(flat.out, HasSubstr("good  gguf    llama         Q4_K_M  4.0 GiB     8192\n"));
  EXPECT_THAT(flat.out, HasSubstr("    cannot be used: ends too early\n"));
}

TEST_F(Commands, TheSizeOfAFileThatIsNotThereIsUnknownAndNotZero) {
  dto::CatalogModel gone{.name = "gone", .path = "/m/gone.gguf", .format = "gguf"};
  gone.problem = "is a link to a file that is not there";
  dto::Models models;
  models.models = {gone};
  daemon_.on("GET /models", models);
  EXPECT_THAT(run_with_daemon({"models"}).out, HasSubstr("  ?       ?        ?  ?       gone\n"));
  EXPECT_THAT(run_with_daemon({"models", "--json"}).out, HasSubstr("\"file_bytes\":null,\"training_context\":null"));
}

TEST_F(Commands, ModelsStandUnderTheirBaseModelTheLargestFirst) {
  const auto model = [](std::string name, std::string quantization, Bytes size, std::string group, std::string engine) {
    dto::CatalogModel result{.name = name,
                             .path = "/m/" + name,
                             .format = {},
                             .architecture = {},
                             .quantization = std::move(quantization),
                             .base_model = {},
                             .file_bytes = size,
                             .training_context = 40960,
                             .problem = {}};
    result.group = std::move(group);
    result.engine = std::move(engine);
    return result;
  };
  dto::Models models;
  models.models = {model("o/Qwen3-8B-GGUF:Q4_K_M", "Q4_K_M", gib(5), "qwen3-8b/36x4096", "llama.cpp"),
                   model("o/Qwen3-8B-GGUF:Q8_0", "Q8_0", gib(8), "qwen3-8b/36x4096", "llama.cpp"),
                   model("Qwen/Qwen3-8B", "bf16", gib(16), "qwen3-8b/36x4096", "vllm"),
                   model("smol", "Q4_1", gib(1), "smol/30x576", "llama.cpp"),
                   model("twin", "Q8_0", gib(1), "", "llama.cpp"),
                   model("twin", "Q8_0", gib(1), "", "llama.cpp")};
  models.models.back().path = "/elsewhere/twin";
  daemon_.on("GET /models", models);
  EXPECT_EQ(run_with_daemon({"models"}).out,
            "MODEL         SIZE  CONTEXT  ENGINE     NAME\n"
            "qwen3-8b\n"
            "  bf16    16.0 GiB    40960  vllm       Qwen/Qwen3-8B\n"
            "  Q8_0     8.0 GiB    40960  llama.cpp  o/Qwen3-8B-GGUF:Q8_0\n"
            "  Q4_K_M   5.0 GiB    40960  llama.cpp  o/Qwen3-8B-GGUF:Q4_K_M\n"
            "smol\n"
            "  Q4_1     1.0 GiB    40960  llama.cpp  smol\n"
            "twin\n"
            "  Q8_0     1.0 GiB    40960  llama.cpp  /elsewhere/twin\n"
            "twin\n"
            "  Q8_0     1.0 GiB    40960  llama.cpp  /m/twin\n");
}

TEST_F(Commands, ProcessesWithUnknownPartsHaveAFootnote) {
  dto::Processes processes;
  processes.processes = {{42, "root", "python serve.py", "c0ffee", gib(3), gib(4), std::nullopt}};
  daemon_.on("GET /processes", processes);
  const auto outcome = run_with_daemon({"processes"});
  EXPECT_THAT(outcome.out, HasSubstr(" 42  root  3.0 GiB  4.0 GiB    ?  c0ffee     python serve.py\n? not known\n"));
}

TEST_F(Commands, D1_OrphansOnTheGpuAndWhatNobodyHoldsAreExplained) {
  dto::Processes processes;
  processes.processes = {{4242, "jo", "VLLM::EngineCore", "", gib(60), gib(1), gib(59), true}};
  processes.unattributed_bytes = gib(14);
  processes.warnings = {{"unattributed", "14.0 GiB are used and belong to no process", "", "warning"}};
  daemon_.on("GET /processes", processes);
  const auto outcome = run_with_daemon({"processes"});
  EXPECT_THAT(outcome.out, HasSubstr("4242  jo    60.0 GiB  1.0 GiB  59.0 GiB"));
  EXPECT_THAT(outcome.out, HasSubstr("    holds GPU memory for nobody: what it worked for has ended"));
  EXPECT_THAT(outcome.out, HasSubstr("14.0 GiB more are used by the kernel and its drivers\n"));
  EXPECT_THAT(outcome.out, HasSubstr("warning: 14.0 GiB are used and belong to no process\n"));
}

TEST_F(Commands, MemoryIsATableOfWhoHoldsWhat) {
  dto::Memory memory;
  memory.mem_total_bytes = gib(120);
  memory.used_bytes = gib(70);
  memory.mem_available_bytes = gib(50);
  memory.safety_margin_bytes = gib(8);
  memory.os_reserve_bytes = gib(4);
  memory.promised_bytes = gib(1);
  memory.free_for_new_bytes = gib(37);
  memory.deployments_bytes = gib(40);
  memory.rest_bytes = memory.unattributed_bytes.emplace(-gib(2));
  memory.hugepages_bytes = Bytes{};
  memory.ownerless_shared_memory_bytes = gib(16);
  memory.deployments = {{DeploymentId{1}, "chat", "ready", gib(48),
                         dto::Measured{.total_bytes = gib(40),
                                       .anon_bytes = gib(4),
                                       .kernel_bytes = Bytes{},
                                       .shmem_bytes = Bytes{},
                                       .gpu_bytes = gib(36),
                                       .approximate = false,
                                       .complete = true}}};
  dto::MemoryContainer container{.id = std::string(64, 'c'), .runtime = "podman", .rootless_uid = 1000};
  container.measured = {.total_bytes = gib(3), .anon_bytes = gib(3), .approximate = true};
  memory.containers = {container};
  memory.processes = {{.unit = "ollama.service",
                       .user = "ollama",
                       .processes = 2,
                       .held_bytes = gib(5),
                       .anon_bytes = gib(5),
                       .gpu_bytes = Bytes{}}};
  memory.ownerless_shared_memory = {{"/dev/shm/vllm_offload_1.mmap", gib(16), "jo"}};
  memory.warnings = {{"counted_twice", "some memory is counted twice", "look again", "warning"}};
  daemon_.on("GET /memory", memory);
  const auto out = run_with_daemon({"memory"}).out;
  EXPECT_THAT(out, StartsWith("70.0 GiB used, 50.0 GiB available\n"
                              "of it 8.0 GiB safety margin, 4.0 GiB for the system, 1.0 GiB promised to starts; "
                              "37.0 GiB free for new models\n"));
  EXPECT_THAT(out,
              HasSubstr("  chat                            40.0 GiB  4.0 GiB  36.0 GiB  ready, reserved 48.0 GiB\n"));
  EXPECT_THAT(out, HasSubstr("  cccccccccccc                  ~3.0 GiB+?  3.0 GiB"));
  EXPECT_THAT(out, HasSubstr("podman of user 1000\n"));
  EXPECT_THAT(out, HasSubstr("2 processes of ollama\n"));
  EXPECT_THAT(out, HasSubstr("/dev/shm/vllm_offload_1.mmap"));
  EXPECT_THAT(out, HasSubstr("unattributed"));
  EXPECT_THAT(out, HasSubstr("-2.0 GiB"));
  EXPECT_THAT(out, HasSubstr("warning: some memory is counted twice; look again\n"));
  EXPECT_THAT(out, HasSubstr("? not known; +? a part"));
  EXPECT_EQ(run_with_daemon({"memory", "--json"}).out, to_json(memory) + "\n");
}

TEST_F(Commands, OrphansAreListedAndStoppedOneByOne) {
  const dto::Orphan orphan{.id = "4711-9",
                           .name = "dgxmm-1-2",
                           .runtime = "process",
                           .pid = 4711,
                           .container = {},
                           .command = "llama-server",
                           .processes = 1,
                           .measured = {}};
  daemon_.on("GET /orphans", std::vector{orphan});
  daemon_.on("POST /orphans/4711-9/stop", orphan);
  EXPECT_THAT(run_with_daemon({"orphans"}).out, HasSubstr("4711-9  process     ?  llama-server\n"));
  EXPECT_EQ(run_with_daemon({"orphans", "--stop", "4711-9"}).out, "stopped 4711-9, which held ?\n");
  EXPECT_EQ(run_with_daemon({"orphans", "--stop-all"}).exit_code, 0);
  const auto gone = run_with_daemon({"orphans", "--stop", "1-1"});
  EXPECT_EQ(gone.exit_code, 1);
}

TEST_F(Commands, TopWithoutATerminalSaysWhatToUseInstead) {
  const auto outcome = run_with_daemon({"top"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("top needs a terminal"));
  EXPECT_THAT(outcome.err, HasSubstr("`dgxmm memory`"));
  EXPECT_EQ(run_with_daemon({"top", "--json"}).exit_code, 2);
}

TEST_F(Commands, BudgetSaysWhatKindOfHostThisIsAndWhatTheGpuHolds) {
  dto::Budget budget;
  budget.host_class = "integrated";
  budget.host_class_evidence = "NVIDIA GB10: shares the host's memory";
  budget.gpu_bytes = gib(60);
  auto unknown = budget;
  unknown.gpu_bytes.reset();
  unknown.gpu_estimate_bytes = gib(41);
  auto without = unknown;
  without.host_class = "none";
  for (const auto& answer : {budget, unknown, without}) daemon_.on("GET /budget", answer);
  auto outcome = run_with_daemon({"budget"});
  EXPECT_THAT(outcome.out, HasSubstr("host class integrated: NVIDIA GB10: shares the host's memory\n"));
  EXPECT_THAT(outcome.out, HasSubstr("gpu            60.0 GiB"));
  outcome = run_with_daemon({"budget"});
  EXPECT_THAT(outcome.out, HasSubstr("about 41.0 GiB by what /proc/meminfo leaves out"));
  EXPECT_THAT(run_with_daemon({"budget"}).out, Not(HasSubstr("\ngpu ")));
}

TEST_F(Commands, CalibrationShowsRecordsAndKills) {
  dto::Calibrations calibrations;
  calibrations.records = {
      {"a0", "smol", "0123456789abcdef", "llamacpp ctx_size=4096", gib(2), gib(3), "2026-11-29T21:30:11.042Z"},
      {"a1", "", "fedcba98765432100", "llamacpp ctx_size=2048", gib(1), gib(2), "2026-11-29T21:30:11.042Z"}};
  calibrations.oom_floors = {
      {"f0", "smol", "fedcba", "llamacpp ctx_size=8192", gib(9), 2, "memory.events", "2026-11-29T21:30:11.042Z"}};
  calibrations.durations = {{.id = "d0",
                             .model = "smol",
                             .fingerprint = "fedcba",
                             .action = "wake",
                             .level = 2,
                             .took_s = 65,
                             .recorded_at = "2026-11-29T21:30:11.042Z"}};
  calibrations.asleep = {
      {"5e", "smol", "fedcba", "vllm max_model_len=512", 1, gib(4), gib(3), "2026-11-29T21:30:11.042Z"}};
  daemon_.on("GET /calibration", calibrations);
  const auto outcome = run_with_daemon({"calibration"});
  EXPECT_THAT(outcome.out, HasSubstr("a0  smol "));
  EXPECT_THAT(outcome.out, HasSubstr("f0  smol "));
  EXPECT_THAT(outcome.out, HasSubstr("5e  smol       1  4.0 GiB"));
  EXPECT_THAT(outcome.out, HasSubstr("smol   wake (2)    1m  2026-11-29"));
  EXPECT_THAT(outcome.out, HasSubstr("smol                   2.0 GiB  3.0 GiB"));
  EXPECT_THAT(outcome.out, HasSubstr("weights fedcba987654   1.0 GiB  2.0 GiB"));  // no deployment is left to name it
  EXPECT_THAT(outcome.out, HasSubstr("    llamacpp ctx_size=4096\n"));
  EXPECT_THAT(outcome.out, HasSubstr("9.0 GiB"));
  EXPECT_THAT(outcome.out, HasSubstr("    memory.events\n"));
}

TEST_F(Commands, CalibrationForgetsWhatIsNamed) {
  dto::Calibrations forgotten;
  forgotten.records = {{"a0", "smol", "0123", "llamacpp ctx_size=4096", gib(2), gib(3), "2026-11-29T21:30:11.042Z"}};
  daemon_.on("DELETE /calibration/a0", forgotten);
  const auto outcome = run_with_daemon({"calibration", "--forget", "a0"});
  EXPECT_EQ(outcome.exit_code, kExitOk);
  EXPECT_EQ(outcome.out, "smol: forgot 1 measurement\n");
  EXPECT_THAT(run_with_daemon({"calibration", "--forget", "a0", "--json"}).out,
              StartsWith(R"([{"records":[{"id":"a0")"));
}

TEST_F(Commands, C5_AForgottenOomFloorIsAskedForWithItsFlag) {
  dto::Problem kept;
  kept.status = 409;
  kept.code = "oom_floor_kept";
  kept.hint = "?oom_floors=1";
  daemon_.on("DELETE /calibration/f0", kept, 409);
  dto::Calibrations forgotten;
  forgotten.oom_floors = {{"f0", "smol", "0123", "k", gib(9), 2, "memory.events", "2026-11-29T21:30:11.042Z"}};
  daemon_.on("DELETE /calibration/f0", forgotten);
  const auto refused = run_with_daemon({"calibration", "--forget", "f0"});
  EXPECT_EQ(refused.exit_code, kExitError);
  EXPECT_THAT(refused.err, HasSubstr("add --oom-floors"));
  EXPECT_EQ(run_with_daemon({"calibration", "--forget", "f0", "--oom-floors"}).out,
            "smol: forgot 1 size that ran out of memory (9.0 GiB)\n");
  EXPECT_FALSE(daemon_.requests().at(0).query.contains("oom_floors"));
  EXPECT_EQ(daemon_.requests().at(1).query.at("oom_floors"), "1");
}

// --- the console

TEST_F(Commands, ColoursAreOnlyWhereTheyAreWanted) {
  daemon_.on("POST /fit", fit(true));
  std::ostringstream out;
  std::ostringstream err;
  const Console coloured{.out = out, .err = err, .width = 80, .err_width = 80, .colour = true, .err_colour = true};
  run({"fit", "smol", "--address", daemon_.address()}, composition_, coloured, clock_);
  EXPECT_THAT(out.str(), StartsWith("\x1b[32mfits:\x1b[0m needs"));
  out.str({});
  run({"fit", "smol", "--no-color", "--address", daemon_.address()}, composition_, coloured, clock_);
  EXPECT_THAT(out.str(), StartsWith("fits: needs"));
  EXPECT_EQ(err.str(), "");
}

TEST_F(Commands, ProgressOnATerminalIsOneLineThatGoesAway) {
  daemon_.on("POST /deployments/a/stop", deployment(1, "a", "stopped"));
  std::ostringstream out;
  std::ostringstream err;
  run({"stop", "a", "--address", daemon_.address()}, composition_,
      Console{.out = out, .err = err, .width = 80, .err_width = 10}, clock_);
  EXPECT_EQ(err.str(), "\r\x1b[2Kstopping…\r\x1b[2K");
}

}  // namespace
}  // namespace dgxmm::cli
