// Ways in which an engine ends, or seems to.
#include "e2e/support/daemon.h"
#include "e2e/support/models.h"

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class EngineEnd : public EndToEnd {
 protected:
  /// A small deployment that serves; returns its process.
  pid_t deploy(const Request& request) {
    const auto deploy = daemon_.run(request.deploy());
    if (deploy.exit_code != 0) throw std::runtime_error("deploy: " + deploy.all());
    return static_cast<pid_t>(number(daemon_.deployment(request.name), "pid"));
  }
  void expect_nothing_is_held() {
    const auto budget = daemon_.document("/budget");
    EXPECT_EQ(number(budget, "committed_bytes"), 0);
    EXPECT_EQ(number(budget, "measured_by_managed_bytes"), 0);
    EXPECT_TRUE(daemon_.engines().empty());
  }

  Daemon daemon_;
};

TEST_F(EngineEnd, KilledFromOutside_FailedCauseUnknownAndItsMemoryIsBack) {
  const auto pid = deploy({.name = "victim"});
  const auto cgroup = memory_cgroup_of(pid);
  ::kill(pid, SIGKILL);
  ASSERT_TRUE(daemon_.becomes("victim", "failed"));
  const auto victim = daemon_.deployment("victim");
  EXPECT_EQ(text(at(victim, "failure"), "code"), "engine_killed");
  EXPECT_THAT(text(at(victim, "failure"), "message"), HasSubstr("cause unknown"));
  EXPECT_TRUE(at(victim, "pid").is_null());
  expect_nothing_is_held();
  if (cgroup) EXPECT_FALSE(fs::exists(*cgroup));
  // C5: without evidence of the OOM killer nothing is learned from it.
  EXPECT_TRUE(at(daemon_.document("/calibration"), "oom_floors").as_array().empty());
  EXPECT_THAT(daemon_.run({"ps", "--all"}).out, HasSubstr("cause unknown"));
}

TEST_F(EngineEnd, Stopped_ItIsNeverLostAndServesAgainWhenItGoesOn) {
  const auto pid = deploy({.name = "sleepy"});
  const auto reserved = number(daemon_.deployment("sleepy"), "reserved_bytes");
  ASSERT_TRUE(eventually([&] { return at(daemon_.deployment("sleepy"), "busy") == boost::json::value(false); }));
  ::kill(pid, SIGSTOP);
  // What it does is unknown then, which is not the same as idle.
  ASSERT_TRUE(eventually([&] { return at(daemon_.deployment("sleepy"), "busy").is_null(); }));
  const auto while_stopped = daemon_.deployment("sleepy");
  EXPECT_EQ(number(while_stopped, "pid"), pid);
  EXPECT_GE(number(daemon_.document("/budget"), "committed_bytes"), reserved);
  ::kill(pid, SIGCONT);
  ASSERT_TRUE(eventually([&] {
    const auto now = daemon_.deployment("sleepy");
    return text(now, "state") == "ready" && at(now, "busy") == boost::json::value(false);
  }));
  EXPECT_EQ(number(daemon_.deployment("sleepy"), "pid"), pid);
}

TEST_F(EngineEnd, C5_OutOfMemoryIsProvenAndTheNextEstimateIsATenthHigher) {
  const Request request{.name = "hungry"};
  const auto pid = deploy(request);
  const auto cgroup = memory_cgroup_of(pid);
  if (!cgroup || !cgroup->filename().string().starts_with("dgxmm-")) {
    GTEST_SKIP() << "dgxmm may not make cgroups here, and only a cgroup can be given a limit";
  }
  const auto reserved = number(daemon_.deployment("hungry"), "reserved_bytes");
  const bool is_v2 = fs::exists(*cgroup / "memory.current");
  const auto usage = std::stoll(read_file(*cgroup / (is_v2 ? "memory.current" : "memory.usage_in_bytes")));
  constexpr std::int64_t kRoomToGrow = 8 * kMib;
  std::ofstream{*cgroup / (is_v2 ? "memory.max" : "memory.limit_in_bytes")} << usage + kRoomToGrow << std::flush;
  std::ofstream{*cgroup / (is_v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes")}
      << (is_v2 ? 0 : usage + kRoomToGrow) << std::flush;  // not everywhere there

  // A request that is larger than what it may have.
  const auto url = text(daemon_.deployment("hungry"), "url");
  const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  const std::string content(std::size_t{48} * kMib, 'a');
  const HttpConnection connection{port};
  connection.send("POST", "/tokenize", R"({"content": ")" + content + R"("})", {});

  ASSERT_TRUE(daemon_.becomes("hungry", "failed"));
  const auto failure = at(daemon_.deployment("hungry"), "failure");
  EXPECT_EQ(text(failure, "code"), "out_of_memory");
  EXPECT_THAT(text(failure, "message"), HasSubstr("oom_kill 1"));
  expect_nothing_is_held();
  const auto floors = at(daemon_.document("/calibration"), "oom_floors");
  ASSERT_EQ(floors.as_array().size(), 1U);
  EXPECT_EQ(number(floors.at(0), "killed_bytes"), reserved);
  const auto next = boost::json::parse(daemon_.run(request.ask("fit", {"--json"})).out);
  EXPECT_GE(number(next, "total_bytes") * 10, reserved * 11);
}

TEST_F(EngineEnd, DiesWhileLoading_ItsLastLinesAreInTheAnswer) {
  const Request broken{.name = "broken", .model = model_without_its_last_tensors(daemon_.state_dir())};
  const auto deploy = daemon_.run(broken.deploy());
  EXPECT_EQ(deploy.exit_code, 1);
  EXPECT_THAT(deploy.err, HasSubstr("error: llama-server cannot use the model file"));
  EXPECT_THAT(deploy.err, HasSubstr("hint: "));
  EXPECT_THAT(deploy.err, HasSubstr("last lines of the engine:"));
  EXPECT_THAT(deploy.err, HasSubstr("exiting due to model loading error"));

  const auto failure = at(daemon_.deployment("broken"), "failure");
  EXPECT_EQ(text(failure, "code"), "bad_model_file");
  EXPECT_THAT(boost::json::serialize(at(failure, "last_lines")), HasSubstr("tensor 'output_norm.weight' not found"));
  EXPECT_THAT(daemon_.run({"logs", "broken"}).out, HasSubstr("tensor 'output_norm.weight' not found"));
  expect_nothing_is_held();

  const auto json = daemon_.run(broken.deploy({"--json"}));
  EXPECT_EQ(json.exit_code, 1);
  const auto problem = boost::json::parse(json.out);
  EXPECT_EQ(text(problem, "code"), "bad_model_file");
  EXPECT_FALSE(at(at(problem, "failure"), "last_lines").as_array().empty());
}

TEST_F(EngineEnd, StoppedWhileLoading_NothingIsLeft) {
  Daemon daemon{{.gated_engines = true}};
  ASSERT_EQ(daemon.run(Request{.name = "early"}.deploy({"--no-wait"})).exit_code, 0);
  ASSERT_TRUE(daemon.becomes("early", "loading"));
  const auto stop = daemon.run({"stop", "early"});
  EXPECT_EQ(stop.exit_code, 0) << stop.all();
  EXPECT_EQ(daemon.state_of("early"), "stopped");
  EXPECT_TRUE(daemon.engines().empty());
  EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), 0);
}

TEST_F(EngineEnd, MissingEngine_SaysWhichSettingNamesIt) {
  Daemon daemon{{.flags = {"--llama-server", "/nowhere/llama-server"}}};
  const auto deploy = daemon.run(Request{.name = "lost"}.deploy());
  EXPECT_EQ(deploy.exit_code, 1);
  EXPECT_THAT(deploy.err, HasSubstr("/nowhere/llama-server"));
  EXPECT_THAT(deploy.err, HasSubstr("llama_server"));
  EXPECT_EQ(text(at(daemon.deployment("lost"), "failure"), "code"), "engine_not_found");
  EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), 0);
}

}  // namespace
}  // namespace dgxmm::e2e
