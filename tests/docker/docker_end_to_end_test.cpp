// The whole daemon with an engine in a container, as a person sees it.
#include "docker/dockerd.h"
#include "e2e/support/daemon.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

namespace dgxmm::docker {
namespace {

using e2e::at;
using e2e::Daemon;
using e2e::number;
using e2e::Request;
using e2e::text;
using testing::HasSubstr;

class ContainedEngine : public e2e::EndToEnd {
 protected:
  void SetUp() override {
    e2e::EndToEnd::SetUp();
    if (HasFatalFailure()) return;
    if (const auto reason = reason_against_dockerd(); !reason.empty()) GTEST_SKIP() << "SKIPPED: " << reason;
    dockerd_ = std::make_unique<Dockerd>(std::vector<std::string>{"--live-restore"});
    image_ = dockerd_->import_llama_cpp();
    daemon_ =
        std::make_unique<Daemon>(Daemon::Options{.flags = {"--docker-socket", dockerd_->socket(), "--docker-network",
                                                           dockerd_->network(), "--stop-grace-s", "2"}});
  }

  e2e::Run deploy() const {
    return daemon_->run(Request{.name = "model"}.deploy({"--runtime", "docker", "--image", image_}));
  }
  std::string containers() const { return dockerd_->call("GET", "/containers/json?all=1").body; }

  std::unique_ptr<Dockerd> dockerd_;
  std::string image_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(ContainedEngine, IsDeployedServesIsMeasuredShowsItsLogAndStops) {
  const auto deployed = deploy();
  ASSERT_EQ(deployed.exit_code, 0) << deployed.all();
  const auto model = daemon_->deployment("model");
  EXPECT_EQ(text(model, "state"), "ready");
  EXPECT_EQ(text(model, "runtime"), "docker");
  EXPECT_THAT(containers(), HasSubstr(text(model, "container")));
  EXPECT_EQ(e2e::chat(text(model, "url"), "model").status, 200);
  EXPECT_GT(number(at(model, "measured"), "anon_bytes"), 20 * e2e::kMib);
  EXPECT_TRUE(e2e::eventually([&] { return at(daemon_->deployment("model"), "footprint_bytes").is_int64(); })) << "C1";
  const auto logs = daemon_->run({"logs", "model"});
  EXPECT_THAT(logs.out, HasSubstr("model loaded"));
  EXPECT_THAT(daemon_->run({"ps"}).out, HasSubstr("ready"));
  EXPECT_TRUE(daemon_->engines().empty()) << "no process of the daemon's own";

  const auto stopped = daemon_->run({"stop", "model"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.all();
  EXPECT_EQ(daemon_->state_of("model"), "stopped");
  EXPECT_TRUE(e2e::eventually([&] { return containers() == "[]\n"; }));
  const auto again = daemon_->run({"start", "model"});
  EXPECT_EQ(again.exit_code, 0) << again.all();
  EXPECT_EQ(text(daemon_->deployment("model"), "runtime"), "docker");
}

TEST_F(ContainedEngine, OutlivesTheDaemonAndIsTakenOverByTheNextOne) {
  ASSERT_EQ(deploy().exit_code, 0);
  const auto before = daemon_->deployment("model");
  daemon_->kill_hard();
  EXPECT_EQ(e2e::chat(text(before, "url"), "model").status, 200);
  daemon_->start();
  ASSERT_TRUE(daemon_->becomes("model", "ready"));
  const auto after = daemon_->deployment("model");
  for (const auto* member : {"id", "container", "url", "pid"}) EXPECT_EQ(at(after, member), at(before, member));
}

TEST_F(ContainedEngine, KilledRightAfterTheAnswer_TheContainerIsThereOnceOrNotAtAll) {
  const auto body = R"({"model": ")" + e2e::environment().model.string() +
                    R"(", "name": "model", "ctx_size": 512, "image": ")" + image_ + "\"}";
  ASSERT_EQ(daemon_->post("/deployments", body).status, 201);
  ASSERT_TRUE(e2e::eventually([&] { return containers().find("dgxmm.name") != std::string::npos; }));
  daemon_->kill_hard();
  daemon_->start();
  ASSERT_TRUE(e2e::eventually([&] {
    const auto state = daemon_->state_of("model");
    return state == "ready" || state == "failed";
  }));
  if (daemon_->state_of("model") == "failed") {
    const auto start = daemon_->run({"start", "model"});
    ASSERT_EQ(start.exit_code, 0) << start.all();
  }
  const auto found = containers();
  const std::string mark = R"("dgxmm.name":"dgxmm-)";
  EXPECT_EQ(found.find(mark), found.rfind(mark)) << found;
  EXPECT_EQ(e2e::chat(text(daemon_->deployment("model"), "url"), "model").status, 200);
}

TEST_F(ContainedEngine, WhileDockerHangsItIsUnknownItsMemoryCountsAndTheApiAnswers) {
  ASSERT_EQ(deploy().exit_code, 0);
  const auto committed = number(daemon_->document("/budget"), "committed_bytes");
  dockerd_->freeze(true);
  EXPECT_TRUE(daemon_->becomes("model", "unknown"));
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), committed);
  dockerd_->freeze(false);
  EXPECT_TRUE(daemon_->becomes("model", "ready"));
}

TEST_F(ContainedEngine, C5_ARealKillForLackOfMemoryIsProvenShownAndRaisesTheNextEstimate) {
  ASSERT_EQ(deploy().exit_code, 0);
  const auto model = daemon_->deployment("model");
  const auto reserved = number(model, "reserved_bytes");
  const auto id = text(model, "container");
  const auto limit = number(at(model, "measured"), "total_bytes") + 16 * e2e::kMib;
  const auto limited = dockerd_->call("POST", "/containers/" + id + "/update",
                                      fmt::format(R"({{"Memory":{0},"MemorySwap":{0}}})", limit));
  ASSERT_EQ(limited.status, 200) << limited.body;
  // A request that is larger than what it may have.
  const auto url = text(model, "url");
  const auto host = url.substr(0, url.rfind('/'));
  const e2e::HttpConnection connection{static_cast<std::uint16_t>(std::stoi(host.substr(host.rfind(':') + 1)))};
  const std::string content(std::size_t{64} * e2e::kMib, 'a');
  connection.send("POST", "/tokenize", R"({"content": ")" + content + R"("})", {});

  ASSERT_TRUE(daemon_->becomes("model", "failed"));
  const auto failure = at(daemon_->deployment("model"), "failure");
  EXPECT_EQ(text(failure, "code"), "out_of_memory") << text(failure, "message");
  EXPECT_THAT(text(failure, "message"), HasSubstr(id.substr(0, 12)));
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), 0);
  const auto floors = at(daemon_->document("/calibration"), "oom_floors");
  ASSERT_EQ(floors.as_array().size(), 1U);
  EXPECT_EQ(number(floors.at(0), "killed_bytes"), reserved);
  EXPECT_THAT(text(floors.at(0), "evidence"), HasSubstr(id.substr(0, 12)));
  const auto shown = daemon_->run({"calibration"}).out;
  EXPECT_THAT(shown, HasSubstr("RAN OUT OF MEMORY AT"));
  EXPECT_THAT(shown, HasSubstr(id.substr(0, 12))) << "the evidence";

  const auto next = boost::json::parse(daemon_->run(Request{.name = "model"}.ask("fit", {"--json"})).out);
  EXPECT_GE(number(next, "total_bytes") * 10, reserved * 11) << "never below 1.1 x what was killed";
  const auto again = daemon_->run({"start", "model"});
  ASSERT_EQ(again.exit_code, 0) << again.all();
  EXPECT_GE(number(daemon_->deployment("model"), "reserved_bytes") * 10, reserved * 11);
}

TEST_F(ContainedEngine, C12_KilledFromOutsideWithCode137ItsCauseIsUnknownAndNothingIsLearned) {
  ASSERT_EQ(deploy().exit_code, 0);
  dockerd_->call("POST", "/containers/" + text(daemon_->deployment("model"), "container") + "/kill?signal=KILL");
  ASSERT_TRUE(daemon_->becomes("model", "failed"));
  const auto failure = at(daemon_->deployment("model"), "failure");
  EXPECT_EQ(text(failure, "code"), "engine_killed");
  EXPECT_THAT(text(failure, "message"), HasSubstr("cause unknown"));
  EXPECT_TRUE(at(daemon_->document("/calibration"), "oom_floors").as_array().empty());
}

TEST_F(ContainedEngine, D8_AnotherImageOfThatNameMarksItOutdatedAndTheNextStartTakesIt) {
  ASSERT_EQ(deploy().exit_code, 0);
  const auto before = daemon_->deployment("model");
  EXPECT_TRUE(at(before, "outdated").is_null());
  daemon_->kill_hard();
  dockerd_->import_llama_cpp();  // the same files, made anew: another image
  daemon_->start();
  ASSERT_TRUE(daemon_->becomes("model", "ready"));
  ASSERT_TRUE(e2e::eventually([&] { return at(daemon_->deployment("model"), "outdated").is_string(); }));
  const auto marked = daemon_->deployment("model");
  EXPECT_EQ(text(marked, "outdated"), "the image " + image_ + " is another one by now");
  for (const auto* member : {"container", "image_id"}) EXPECT_EQ(at(marked, member), at(before, member));
  EXPECT_EQ(e2e::chat(text(marked, "url"), "model").status, 200);
  EXPECT_THAT(daemon_->run({"ps"}).out, HasSubstr("outdated: the image"));

  ASSERT_EQ(daemon_->run({"stop", "model"}).exit_code, 0);
  ASSERT_EQ(daemon_->run({"start", "model"}).exit_code, 0);
  const auto after = daemon_->deployment("model");
  EXPECT_NE(at(after, "image_id"), at(before, "image_id"));
  EXPECT_TRUE(at(after, "outdated").is_null());
}

TEST_F(ContainedEngine, D8_OtherSettingsOfTheDaemonMarkItOutdated) {
  ASSERT_EQ(deploy().exit_code, 0);
  // As another version of dgxmm might make it: with another size of its log.
  EXPECT_EQ(daemon_->end(), 0);
  daemon_->add_flags({"--engine-log-mib", "5"});
  daemon_->start();
  ASSERT_TRUE(daemon_->becomes("model", "ready"));
  ASSERT_TRUE(e2e::eventually([&] { return at(daemon_->deployment("model"), "outdated").is_string(); }));
  EXPECT_EQ(text(daemon_->deployment("model"), "outdated"), "it would be started with other settings now");
}

TEST_F(ContainedEngine, AForeignContainerHasARowWithItsNameImageAndGroupAndIsNeverTouched) {
  const auto& model = e2e::environment().model;
  const auto made =
      dockerd_->call("POST", "/containers/create?name=jupyter",
                     fmt::format(R"({{"Image":"{}","Cmd":["--model","{}","--ctx-size","512"],)"
                                 R"("HostConfig":{{"NetworkMode":"none","Binds":["{}:{}:ro"]}}}})",
                                 image_, model.string(), model.parent_path().string(), model.parent_path().string()));
  ASSERT_EQ(made.status, 201) << made.body;
  const auto id = made.body.substr(made.body.find(R"("Id":")") + 6, 64);
  ASSERT_EQ(dockerd_->call("POST", "/containers/" + id + "/start").status, 204);
  ASSERT_EQ(deploy().exit_code, 0);

  boost::json::value row;
  EXPECT_TRUE(e2e::eventually([&] {
    const auto memory = daemon_->document("/memory");
    for (const auto& container : at(memory, "containers").as_array()) {
      if (text(container, "id") == id) row = container;
    }
    return row.is_object() && number(at(row, "measured"), "anon_bytes") > 20 * e2e::kMib;
  })) << boost::json::serialize(row);
  EXPECT_EQ(text(row, "name"), "jupyter");
  EXPECT_EQ(text(row, "image"), image_);
  EXPECT_EQ(text(row, "runtime"), "docker");
  EXPECT_FALSE(at(at(row, "measured"), "approximate").as_bool()) << "by its group";
  const auto own = text(daemon_->deployment("model"), "container");
  const auto memory = daemon_->document("/memory");
  for (const auto& container : at(memory, "containers").as_array()) {
    EXPECT_NE(text(container, "id"), own) << "a deployment is no foreign container";
  }
  EXPECT_THAT(daemon_->run({"memory"}).out, HasSubstr("jupyter"));
  EXPECT_THAT(daemon_->run({"processes"}).out, HasSubstr("jupyter"));
  EXPECT_EQ(daemon_->document("/orphans").as_array().size(), 0U);
  EXPECT_EQ(daemon_->post("/orphans/" + id.substr(0, 12) + "/stop").status, 404);

  // While Docker hangs its containers are still measured, and the API answers.
  dockerd_->freeze(true);
  EXPECT_TRUE(e2e::eventually([&] { return !text(daemon_->document("/memory"), "names_unknown").empty(); }));
  EXPECT_GT(number(daemon_->document("/memory"), "containers_bytes"), 20 * e2e::kMib);
  dockerd_->freeze(false);
  EXPECT_THAT(dockerd_->call("GET", "/containers/" + id + "/json").body, HasSubstr(R"("Running":true)"));
}

TEST_F(ContainedEngine, D1_AContainerThatNoDeploymentKnowsIsAnOrphanAndIsStoppedAndRemoved) {
  ASSERT_EQ(deploy().exit_code, 0);
  const auto id = text(daemon_->deployment("model"), "container");
  daemon_->kill_hard();
  for (const auto& entry : std::filesystem::directory_iterator{daemon_->state_dir()}) {
    if (entry.path().filename().string().starts_with("dgxmm.sqlite3")) std::filesystem::remove(entry.path());
  }
  daemon_->start();
  ASSERT_TRUE(e2e::eventually([&] { return daemon_->document("/orphans").as_array().size() == 1; }));
  const auto memory = daemon_->document("/memory");
  const boost::json::value short_id(id.substr(0, 12));
  const auto& rows = at(memory, "containers").as_array();  // also those of other Docker Engines on this host
  EXPECT_EQ(std::ranges::count_if(rows, [&](const auto& row) { return at(row, "orphan_id") == short_id; }), 1);
  const auto stopped = daemon_->run({"orphans", "--stop-all"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.all();
  EXPECT_TRUE(e2e::eventually([&] { return containers() == "[]\n"; })) << containers();
}

}  // namespace
}  // namespace dgxmm::docker
