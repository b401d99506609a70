// The daemon ends; what it runs does not.
#include "e2e/support/daemon.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

namespace dgxmm::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Restart : public EndToEnd {
 protected:
  /// What holds of a deployment that was starting when the daemon was killed and started again: it is there once; its
  /// engine, if it had one, is taken over and serves; otherwise it has failed, and it can be started.
  static void expect_taken_over_or_failed(Daemon& daemon) {
    ASSERT_EQ(daemon.document("/deployments").as_array().size(), 1U);
    ASSERT_TRUE(eventually([&] {
      const auto state = daemon.state_of("model");
      return state == "ready" || state == "failed";
    }));
    if (daemon.state_of("model") == "failed") {
      EXPECT_TRUE(daemon.engines().empty());
      EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), 0);
      const auto start = daemon.run({"start", "model"});
      ASSERT_EQ(start.exit_code, 0) << start.all();
    }
    const auto model = daemon.deployment("model");
    EXPECT_THAT(daemon.engines(), ElementsAre(number(model, "pid")));
    EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), number(model, "reserved_bytes"));
    EXPECT_EQ(chat(text(model, "url"), "model").status, 200);
  }
};

TEST_F(Restart, KilledRightAfterTheAnswer_TheDeploymentIsThereOnce) {
  Daemon daemon;
  ASSERT_EQ(daemon.post("/deployments", Request{.name = "model"}.body()).status, 201);
  daemon.kill_hard();
  daemon.start();
  expect_taken_over_or_failed(daemon);
}

TEST_F(Restart, KilledWhenTheEngineHasJustStarted_ItIsTakenOver) {
  Daemon daemon{{.gated_engines = true}};
  ASSERT_EQ(daemon.post("/deployments", Request{.name = "model"}.body()).status, 201);
  ASSERT_TRUE(eventually([&] { return !daemon.engines().empty(); }));
  daemon.kill_hard();
  daemon.start();
  daemon.open_gate();
  expect_taken_over_or_failed(daemon);
}

TEST_F(Restart, KilledWhileTheModelLoads_ItIsTakenOverAndBecomesReady) {
  Daemon daemon{{.gated_engines = true}};
  ASSERT_EQ(daemon.post("/deployments", Request{.name = "model"}.body()).status, 201);
  ASSERT_TRUE(daemon.becomes("model", "loading"));
  const auto before = daemon.deployment("model");
  daemon.kill_hard();
  daemon.open_gate();  // it becomes ready while nobody looks, or after that
  daemon.start();
  ASSERT_TRUE(daemon.becomes("model", "ready"));
  const auto after = daemon.deployment("model");
  for (const auto* member : {"id", "pid", "url", "reserved_bytes"}) EXPECT_EQ(at(after, member), at(before, member));
  expect_taken_over_or_failed(daemon);
  // C1 holds for a start that began under an earlier daemon.
  EXPECT_TRUE(eventually([&] { return !at(daemon.document("/calibration"), "records").as_array().empty(); }));
}

TEST_F(Restart, EndedWhileNobodyLooked_ItHasFailedAndCountsNothing) {
  Daemon daemon;
  ASSERT_EQ(daemon.run(Request{.name = "model"}.deploy()).exit_code, 0);
  const auto pid = static_cast<pid_t>(number(daemon.deployment("model"), "pid"));
  EXPECT_EQ(daemon.end(), 0);
  EXPECT_TRUE(process_runs(pid)) << "the end of the daemon is not the end of its engines";
  ::kill(pid, SIGKILL);
  ASSERT_TRUE(eventually([&] { return !process_runs(pid); }));
  daemon.start();
  ASSERT_TRUE(daemon.becomes("model", "failed"));
  EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), 0);
}

TEST_F(Restart, EndedWithARunningEngine_TheDaemonGoesWithoutWaitingForIt) {
  Daemon daemon;
  ASSERT_EQ(daemon.run(Request{.name = "model"}.deploy()).exit_code, 0);
  EXPECT_EQ(daemon.end(), 0);
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("engines keep running"), Not(HasSubstr("cancelled"))));
  daemon.start();
  expect_taken_over_or_failed(daemon);
  EXPECT_EQ(daemon.state_of("model"), "ready");
}

TEST_F(Restart, EndedDuringAStop_TheNextDaemonGoesOnWithIt) {
  const TempDir folder;
  const auto deaf = folder.write("deaf", "\n");
  const auto is_up = folder.path() / "up";
  const auto engine =
      folder.write("engine", fmt::format("#!/bin/sh\n[ \"$1\" = --help ] && exit\ntrap '[ -e {} ] || exit' TERM\n"
                                         ": > {}\nwhile :; do sleep 0.02; done\n",
                                         deaf.string(), is_up.string()));
  std::filesystem::permissions(engine, std::filesystem::perms::owner_all);
  Daemon daemon{{.flags = {"--llama-server", engine.string(), "--stop-grace-s", "600"}}};
  ASSERT_EQ(daemon.post("/deployments", Request{.name = "model"}.body()).status, 201);
  ASSERT_TRUE(daemon.becomes("model", "loading"));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(is_up); }));
  const auto stop = daemon.spawn({"stop", "model"});
  ASSERT_TRUE(daemon.becomes("model", "stopping"));
  EXPECT_EQ(daemon.end(), 0);
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("engines keep running"), Not(HasSubstr("cancelled"))));
  EXPECT_EQ(daemon.engines().size(), 1U);
  std::filesystem::remove(deaf);
  daemon.start();
  EXPECT_TRUE(daemon.becomes("model", "stopped"));
  EXPECT_TRUE(daemon.engines().empty());
}

TEST_F(Restart, StoppedAndStarted_TheDeploymentHasItsPortAgain) {
  Daemon daemon;
  ASSERT_EQ(daemon.run(Request{.name = "model"}.deploy()).exit_code, 0);
  const auto url = text(daemon.deployment("model"), "url");
  EXPECT_EQ(chat(url, "model").status, 200);
  ASSERT_EQ(daemon.run({"stop", "model"}).exit_code, 0);
  ASSERT_EQ(daemon.run({"start", "model"}).exit_code, 0);
  EXPECT_EQ(text(daemon.deployment("model"), "url"), url);
  EXPECT_EQ(chat(url, "model").status, 200);
}

TEST_F(Restart, Events_NoneIsLostOrSentTwiceWhenAListenerResumes) {
  Daemon daemon;
  std::vector<std::int64_t> ids;
  const auto listen_until = [&](EventListener& listener, const std::string& end) {
    for (;;) {
      const auto message = listener.next();
      if (!message.id) continue;  // the budget, which is not stored
      ids.push_back(*message.id);
      if (message.data.find(end) != std::string::npos) return;
    }
  };
  {
    EventListener listener{daemon.port(), 0};
    ASSERT_EQ(daemon.run(Request{.name = "model"}.deploy()).exit_code, 0);
    listen_until(listener, "\"ready\"");
  }
  daemon.kill_hard();
  daemon.start();
  ASSERT_EQ(daemon.run({"stop", "model"}).exit_code, 0);
  EventListener listener{daemon.port(), ids.back()};
  listen_until(listener, "\"stopped\"");

  std::vector<std::int64_t> stored;
  std::istringstream lines{daemon.run({"events", "--json"}).out};
  for (std::string line; std::getline(lines, line);) stored.push_back(number(boost::json::parse(line), "id"));
  ASSERT_GE(stored.size(), ids.size());
  stored.resize(ids.size());
  EXPECT_EQ(ids, stored);
}

TEST_F(Restart, Deploy_InterruptedWhileItWaitsLeavesTheDeploymentRunning) {
  Daemon daemon{{.gated_engines = true}};
  const auto deploy = daemon.spawn(Request{.name = "model"}.deploy());
  ASSERT_TRUE(eventually([&] { return deploy->err().find("model: ") != std::string::npos; })) << deploy->err();
  deploy->signal(SIGINT);
  ASSERT_EQ(deploy->wait(), 1) << deploy->err();
  EXPECT_THAT(deploy->err(), HasSubstr("model goes on loading"));
  EXPECT_THAT(deploy->err(), HasSubstr("`dgxmm stop model` ends it"));
  daemon.open_gate();
  EXPECT_TRUE(daemon.becomes("model", "ready"));
}

}  // namespace
}  // namespace dgxmm::e2e
