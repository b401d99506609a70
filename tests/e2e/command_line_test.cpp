// What a person and a script see.
#include "e2e/support/daemon.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace dgxmm::e2e {
namespace {

using boost::json::value;
using ::testing::HasSubstr;

class CommandLine : public EndToEnd {};

void expect_members(const value& document, const Words& names) {
  for (const auto& name : names) EXPECT_TRUE(document.as_object().contains(name)) << name;
}

/// Characters, as every byte of UTF-8 but the first of each begins with 10.
std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

TEST_F(CommandLine, Json_IsOneDocumentWithTheDocumentedMembers) {
  const Daemon daemon{{.flags = {"--model-folders", environment().model.parent_path().string()}}};
  const Request request{.name = "model"};
  const auto ask = [&](const Words& command) {
    const auto run = daemon.run(command);
    EXPECT_EQ(run.exit_code, 0) << run.all();
    return boost::json::parse(run.out);
  };
  const auto deployment = ask(request.deploy({"--json", "--label", "team=a"}));
  expect_members(deployment, {"id", "name", "state", "url", "config", "reserved_bytes", "measured", "estimate", "busy",
                              "priority", "pinned", "labels", "pid", "failure"});
  EXPECT_EQ(text(at(deployment, "labels"), "team"), "a");
  EXPECT_EQ(text(deployment, "state"), "ready");

  expect_members(ask(request.ask("fit", {"--json"})),
                 {"verdict", "total_bytes", "confidence", "parts", "free_for_new_bytes", "shortfall_bytes", "budget"});
  expect_members(ask({"budget", "--json"}),
                 {"mem_total_bytes", "mem_available_bytes", "safety_margin_bytes", "os_reserve_bytes", "usable_bytes",
                  "committed_bytes", "used_bytes", "measured_by_managed_bytes", "ready_gap_bytes", "external_bytes",
                  "free_for_new_bytes", "deployments"});
  EXPECT_EQ(ask({"ps", "--json"}).as_array().size(), 1U);
  const auto models = ask({"models", "--json"});
  ASSERT_FALSE(at(models, "models").as_array().empty());
  expect_members(at(models, "models").at(0), {"name", "path", "architecture", "quantization", "file_bytes"});
  expect_members(ask(request.ask("plan", {"--json"})), {"fits_now", "needed_bytes", "free_for_new_bytes", "plans"});
  expect_members(ask({"calibration", "--json"}), {"records", "oom_floors"});
  expect_members(ask({"version", "--json"}), {"version"});
  EXPECT_FALSE(at(ask({"processes", "--json"}), "processes").as_array().empty());
  EXPECT_EQ(text(ask({"stop", "model", "--json"}), "state"), "stopped");
  EXPECT_TRUE(ask({"ps", "--json"}).as_array().empty());

  const auto problem = daemon.run({"stop", "nobody", "--json"});
  EXPECT_EQ(problem.exit_code, 1);
  EXPECT_EQ(text(boost::json::parse(problem.out), "code"), "deployment_not_found");
}

TEST_F(CommandLine, FitAndBudget_WorkWithoutADaemon) {
  const Words nobody{"--json", "--address", "127.0.0.1:1"};
  const auto fit = run_dgxmm(Request{}.ask("fit", nobody));
  ASSERT_EQ(fit.exit_code, 0) << fit.all();
  EXPECT_EQ(text(boost::json::parse(fit.out), "verdict"), "fits");
  EXPECT_THAT(fit.err, HasSubstr("no daemon at 127.0.0.1:1"));
  const auto budget = run_dgxmm({"budget", "--json", "--address", "127.0.0.1:1"});
  ASSERT_EQ(budget.exit_code, 0) << budget.all();
  EXPECT_EQ(text(boost::json::parse(budget.out), "source"), "direct reading");

  const auto too_large = run_dgxmm(Request{.cache_ram_mib = 1'000'000}.ask("fit", nobody));
  EXPECT_EQ(too_large.exit_code, 3);
  EXPECT_EQ(text(boost::json::parse(too_large.out), "verdict"), "does_not_fit");
}

TEST_F(CommandLine, Tables_KeepWithinATerminalOf80Columns) {
  const Daemon daemon{{.flags = {"--model-folders", environment().model.parent_path().string()}}};
  const Request request{.name = "a-name-that-somebody-thought-was-a-good-one-on-a-friday"};
  ASSERT_EQ(daemon.run(request.deploy()).exit_code, 0);
  for (const Words& command :
       {Words{"ps"}, Words{"budget"}, Words{"events"}, Words{"models"}, Words{"processes"}, request.ask("fit")}) {
    const auto run = daemon.run_on_terminal(command, 80);
    EXPECT_EQ(run.exit_code, 0) << run.out;
    std::istringstream lines{run.out};
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      EXPECT_LE(width_of(line), 80U) << command.front() << ": " << line;
    }
    EXPECT_GT(count, 0U) << command.front();
  }
}

TEST_F(CommandLine, Logs_FollowsUntilTheDeploymentIsStopped) {
  const Daemon daemon;
  ASSERT_EQ(daemon.run(Request{.name = "model"}.deploy()).exit_code, 0);
  const auto logs = daemon.spawn({"logs", "-f", "--tail", "1", "model"});
  ASSERT_TRUE(eventually([&] { return !logs->out().empty(); })) << logs->err();
  const auto before = logs->out().size();
  EXPECT_EQ(chat(text(daemon.deployment("model"), "url"), "model").status, 200);
  EXPECT_TRUE(eventually([&] { return logs->out().size() > before; })) << "the engine writes a line for each request";
  EXPECT_FALSE(logs->wait(0ms)) << logs->err();
  ASSERT_EQ(daemon.run({"stop", "model"}).exit_code, 0);
  EXPECT_EQ(logs->wait(), 0) << logs->err();
  EXPECT_EQ(logs->out(),
            daemon.run({"logs", "model", "--tail", std::to_string(std::ranges::count(logs->out(), '\n'))}).out);
}

TEST_F(CommandLine, Lifecycle_StartBeginsAgainAndRmForgets) {
  const Daemon daemon;
  ASSERT_EQ(daemon.run(Request{.name = "model"}.deploy()).exit_code, 0);
  EXPECT_EQ(daemon.run({"rm", "model"}).exit_code, 1) << "it runs";
  ASSERT_EQ(daemon.run({"stop", "--all"}).exit_code, 0);
  const auto start = daemon.run({"start", "model"});
  ASSERT_EQ(start.exit_code, 0) << start.all();
  EXPECT_THAT(start.out, HasSubstr("model is ready (id 1)"));
  ASSERT_EQ(daemon.run({"stop", "1"}).exit_code, 0);
  ASSERT_EQ(daemon.run({"rm", "model"}).exit_code, 0);
  EXPECT_TRUE(daemon.document("/deployments").as_array().empty());
  EXPECT_FALSE(std::filesystem::exists(daemon.state_dir() / "logs" / "1.log"));
}

TEST_F(CommandLine, Completion_OffersCommandsAndOptionsInBash) {
  const TempDir folder;
  const auto script = run_dgxmm({"completion", "bash"});
  ASSERT_EQ(script.exit_code, 0);
  const auto file = folder.write("dgxmm.bash", script.out);
  const auto complete = [&](const std::string& words, int word) {
    const auto ask =
        "set -eu; . '" + file.string() + "'; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(word) +
        "; handler=$(complete -p dgxmm); handler=${handler#*-F }; ${handler%% *}; " + "echo \"${COMPREPLY[*]}\"";
    const auto bash = run_program({"bash", "-c", ask}, {});
    EXPECT_EQ(bash.exit_code, 0) << bash.err;
    EXPECT_EQ(bash.err, "");
    return bash.out;
  };
  EXPECT_THAT(complete("dgxmm dep", 1), HasSubstr("deploy"));
  EXPECT_THAT(complete("dgxmm deploy --ctx", 2), HasSubstr("--ctx-size"));
  EXPECT_THAT(complete("dgxmm deploy --cache-type-k q8", 3), HasSubstr("q8_0"));
}

}  // namespace
}  // namespace dgxmm::e2e
