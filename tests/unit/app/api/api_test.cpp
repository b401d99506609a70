#include "unit/app/support/daemon.h"

#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

TEST(Api, PathsThatAreNotThereAreNotFound) {
  World world;
  Daemon daemon{world};
  for (const auto* path :
       {"", "/api", "/api/v1", "/api/v1/", "/api/v2/budget", "/api/v1/budget/", "/api/v1/budget/x", "//api/v1/budget",
        "/api//v1/budget", "/API/v1/budget", "/healthz/", "/api/v1/deployments/", "/api/v1/deployments//stop",
        "/api/v1/plans//x/apply", "/api/v1/plans/1//apply", "/api/v1/operations/", "/{}", "/api/v1/deployments/1/{}"}) {
    const auto response = daemon.request("GET", path);
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_EQ(member(response, "code"), "not_found") << path;
  }
}

TEST(Api, MethodThatAPathDoesNotHaveIsNotAllowedAndTheOthersAreNamed) {
  World world;
  Daemon daemon{world};
  const auto response = daemon.request("DELETE", "/api/v1/deployments");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(header(response, "Allow"), "GET, POST");
  EXPECT_EQ(daemon.request("GET", "/api/v1/fit").status, 405);
  EXPECT_EQ(daemon.request("get", "/api/v1/budget").status, 405);
}

TEST(Api, DeploymentIsFoundByIdAndByNameAndTheRunningOneFirst) {
  World world;
  Daemon daemon{world};
  const auto old = daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "chat")");
  daemon.request("POST", path_of(old, "/stop"));
  const auto running = daemon.deploy_ready(R"("model": "/models/b.gguf", "name": "chat")");
  daemon.request("POST", "/api/v1/deployments/chat/stop");
  EXPECT_EQ(daemon.at(running).state, State::stopped);
  daemon.request("POST", path_of(old, "/start"));
  EXPECT_EQ(json_of(daemon.request("GET", "/api/v1/deployments/chat")).at("id").as_int64(), old.value);
  EXPECT_EQ(json_of(daemon.request("GET", path_of(running))).at("id").as_int64(), running.value);
  for (const auto* other : {"none", "99", "-1", "1x", "99999999999999999999999"}) {
    const auto response = daemon.request("GET", std::string{"/api/v1/deployments/"} + other);
    EXPECT_EQ(response.status, 404) << other;
    EXPECT_EQ(member(response, "code"), "deployment_not_found");
  }
}

TEST(Api, BodiesThatAreWrongNameTheField) {
  World world;
  Daemon daemon{world};
  struct Case {
    const char* body;
    const char* code;
    const char* where;
  };
  for (const auto& [body, code, where] :
       {Case{"", "bad_json", ""},
        Case{"nonsense", "bad_json", ""},
        Case{"{", "bad_json", ""},
        Case{"{} {}", "bad_json", ""},
        Case{"[]", "bad_field", ""},
        Case{"{}", "missing_field", "model"},
        Case{R"({"model": 3})", "bad_field", "model"},
        Case{R"({"model": null})", "missing_field", "model"},
        Case{R"({"model": "/models/a.gguf", "ctxsize": 1})", "unknown_field", "ctxsize"},
        Case{R"({"model": "/models/a.gguf", "ctx_size": "1"})", "bad_field", "ctx_size"},
        Case{R"({"model": "/models/a.gguf", "ctx_size": -1})", "bad_field", "ctx_size"},
        Case{R"({"model": "/models/a.gguf", "ctx_size": 1.5})", "bad_field", "ctx_size"},
        Case{R"({"model": "/models/a.gguf", "port": 65536})", "bad_field", "port"},
        Case{R"({"model": "/models/a.gguf", "port": 0})", "bad_field", "port"},
        Case{R"({"model": "/models/a.gguf", "labels": {"a": 1}})", "bad_field", "labels.a"},
        Case{R"({"model": "/models/a.gguf", "labels": {"": "x"}})", "bad_field", "labels"},
        Case{R"({"model": "models/a.gguf"})", "bad_field", "model"},
        Case{R"({"model": "../a.gguf"})", "bad_field", "model"},
        Case{R"({"model": "/models/a.gguf", "max_num_seqs": 1})", "bad_field", "max_num_seqs"},
        Case{R"({"model": "/models/a.gguf", "engine": "vllm"})", "bad_field", "engine"}}) {
    for (const auto* path : {"/api/v1/deployments", "/api/v1/fit", "/api/v1/plans"}) {
      const auto response = daemon.request("POST", path, body);
      EXPECT_EQ(response.status, 400) << path << " " << body;
      EXPECT_EQ(member(response, "code"), code) << path << " " << body;
      EXPECT_EQ(member(response, "where"), where) << path << " " << body;
      EXPECT_FALSE(member(response, "detail").empty());
    }
  }
  EXPECT_TRUE(daemon.service->table.all().empty());
}

TEST(Api, ModelThatCannotBeUsedIsNotAFaultOfTheRequestsForm) {
  World world;
  world.models.models["/models/odd.gguf"] = small_model("/models/odd.gguf");
  world.models.models["/models/odd.gguf"].layers.clear();
  Daemon daemon{world};
  const auto response = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/odd.gguf"})");
  EXPECT_EQ(response.status, 422);
  EXPECT_EQ(member(response, "code"), "model_not_supported");
}

TEST(Api, BodyLimitHoldsForEveryRoute) {
  World world;
  Daemon daemon{world};
  EXPECT_EQ(daemon.api->body_limit("POST", "/api/v1/deployments"), 64U * 1024);
  EXPECT_EQ(daemon.api->body_limit("POST", "/nonsense"), 64U * 1024);
}

TEST(Api, E1_FitShowsTheSixPartsWhoseSumIsTheFormula) {
  World world;
  Daemon daemon{world};
  const auto fit = json_of(daemon.request("POST", "/api/v1/fit", R"({"model": "/models/a.gguf"})"));
  EXPECT_EQ(fit.at("verdict").as_string(), "fits");
  std::string names;
  std::int64_t sum = 0;
  for (const auto& part : fit.at("parts").as_array()) {
    names += std::string{part.at("name").as_string()} + " ";
    sum += part.at("bytes").as_int64();
  }
  EXPECT_EQ(names, "weights kv state activations runtime margin ");
  EXPECT_EQ(sum, fit.at("formula_bytes").as_int64());
  EXPECT_EQ(fit.at("left_bytes").as_int64(),
            fit.at("free_for_new_bytes").as_int64() - fit.at("total_bytes").as_int64());

  world.host.held_by_others = gib(50);
  const auto not_now = json_of(daemon.request("POST", "/api/v1/fit", R"({"model": "/models/a.gguf"})"));
  EXPECT_EQ(not_now.at("verdict").as_string(), "does_not_fit");
  EXPECT_EQ(not_now.at("shortfall_bytes").as_int64(), -not_now.at("left_bytes").as_int64());
  EXPECT_GT(not_now.at("shortfall_bytes").as_int64(), 0);
}

TEST(Api, PatchChangesOnlyWhatIsGiven) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy(R"("model": "/models/a.gguf", "labels": {"team": "a"}, "priority": 3)");
  EXPECT_EQ(daemon.request("PATCH", path_of(id), R"({"pinned": true})").status, 200);
  EXPECT_TRUE(daemon.at(id).pinned);
  EXPECT_EQ(daemon.at(id).priority, 3);
  EXPECT_EQ(daemon.at(id).labels.at("team"), "a");
  const auto view = json_of(daemon.request("PATCH", path_of(id), R"({"priority": -5, "labels": {}})"));
  EXPECT_EQ(view.at("priority").as_int64(), -5);
  EXPECT_TRUE(view.at("labels").as_object().empty());
  EXPECT_TRUE(view.at("pinned").as_bool());
  EXPECT_EQ(daemon.request("PATCH", path_of(id), R"({"state": "stopped"})").status, 400);
  EXPECT_EQ(daemon.request("PATCH", path_of(id), R"({"priority": "high"})").status, 400);
  EXPECT_EQ(daemon.request("PATCH", "/api/v1/deployments/99", R"({"priority": 1})").status, 404);
  daemon.kill();
  Daemon next{world};
  EXPECT_EQ(next.at(id).priority, -5);
  EXPECT_TRUE(next.at(id).pinned);
}

TEST(Api, PatchPublishesWhatChangedAndNothingElse) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "chat")");
  const auto before = daemon.service->events.last_id();
  EXPECT_EQ(daemon.request("PATCH", path_of(id), R"({"labels": {"team": "red", "use": "chat"}})").status, 200);
  EXPECT_EQ(daemon.request("PATCH", path_of(id), R"({"labels": {"team": "red", "use": "chat"}})").status, 200);
  EXPECT_EQ(daemon.request("PATCH", path_of(id), R"({"labels": {}, "pinned": true, "priority": 0})").status, 200);
  EXPECT_EQ(member(daemon.request("PATCH", path_of(id), R"({"labels": {"": "x"}})"), "where"), "labels");
  std::vector<std::string> messages;
  for (const auto& event : daemon.service->events.after(before, 10)) messages.push_back(event.message);
  EXPECT_EQ(messages, (std::vector<std::string>{"chat: labels team=red use=chat", "chat: pinned, no labels"}));
}

TEST(Api, OfANameThatRunsTheIdsThatHaveEndedAreNamedForRemoval) {
  World world;
  Daemon daemon{world};
  const auto old = daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "chat")");
  daemon.request("POST", path_of(old, "/stop"));
  daemon.deploy_ready(R"("model": "/models/b.gguf", "name": "chat")");
  const auto refused = daemon.request("DELETE", "/api/v1/deployments/chat");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(member(refused, "hint"),
            "stop it first; those of that name that have ended have the ids " + std::to_string(old.value));
}

TEST(Api, ModelFoldersThatCannotBeSearchedAreWarnings) {
  World world;
  world.models.catalog.problems = {"/models: does not exist"};
  Daemon daemon{world};
  const auto models = json_of(daemon.request("GET", "/api/v1/models"));
  ASSERT_EQ(models.at("warnings").as_array().size(), 1U);
  EXPECT_EQ(models.at("warnings").at(0).as_string(), "/models: does not exist");
}

TEST(Api, SettingsShowTheirSourceAndNoSecret) {
  World world;
  settings::Settings settings;
  settings.token = "very-secret";
  settings.sources["token"] = "DGXMM_TOKEN";
  Daemon daemon{world, settings};
  auto request = make_request("GET", "/api/v1/settings");
  request.headers["authorization"] = "Bearer very-secret";
  const auto response = daemon.handle(std::move(request));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body.find("very-secret"), std::string::npos);
  EXPECT_NE(response.body.find("DGXMM_TOKEN"), std::string::npos);
  EXPECT_EQ(json_of(response).as_array().size(), settings::definitions().size());
}

TEST(Api, B10_ProcessesAreThoseOfOthers) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  const auto rows = json_of(daemon.request("GET", "/api/v1/processes")).at("processes").as_array();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.front().at("command").as_string(), "python train.py");
  EXPECT_TRUE(rows.front().at("rss_bytes").is_null());
  EXPECT_EQ(world.host.last_excluded, std::vector<std::int64_t>{world.runtime.newest(id)->instance.pid});
}

TEST(Api, WhatNobodyHoldsIsShownBesideTheProcesses) {
  World world;
  Daemon daemon{world};
  daemon.deploy_ready();
  const auto processes = [&] { return json_of(daemon.request("GET", "/api/v1/processes")); };
  EXPECT_EQ(processes().at("unattributed_bytes").as_int64(), 0);
  world.host.held_by_the_kernel = gib(13);
  EXPECT_EQ(processes().at("unattributed_bytes").as_int64(), gib(13).count());
  EXPECT_EQ(processes().at("warnings").as_array().size(), 1U);
  world.host.held_by_the_kernel = -gib(1);
  EXPECT_EQ(processes().at("unattributed_bytes").as_int64(), -gib(1).count());
  EXPECT_EQ(processes().at("warnings").as_array().size(), 1U);
  world.gpu.reading.processes.reset();
  world.gpu.reading.unavailable = "the driver does not answer";
  EXPECT_TRUE(processes().at("unattributed_bytes").is_null());
  EXPECT_EQ(processes().at("warnings").at(0).at("message").as_string(), "the driver does not answer");
}

TEST(Api, MetricsLeaveUnknownPartsOut) {
  World world;
  world.runtime.next.holds.gpu.reset();
  Daemon daemon{world};
  daemon.deploy_ready();
  const auto page = daemon.request("GET", "/metrics").body;
  EXPECT_NE(page.find("dgxmm_build_info{version=\"1.2.3\"} 1"), std::string::npos) << page;
  EXPECT_NE(page.find("dgxmm_budget_bytes{quantity=\"free_for_new\"}"), std::string::npos);
  EXPECT_NE(page.find("part=\"anon\""), std::string::npos);
  EXPECT_EQ(page.find("part=\"gpu\""), std::string::npos);
}

TEST(Api, LogsAreTheLastLinesMasked) {
  World world;
  for (int i = 0; i < 300; ++i) world.runtime.next.log.push_back("line " + std::to_string(i));
  world.runtime.next.log.emplace_back("Authorization: Bearer abcdefghijklmnop");
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  EXPECT_EQ(daemon.request("GET", path_of(id, "/logs?tail=2")).body.substr(0, 9), "line 299\n");
  EXPECT_EQ(daemon.request("GET", path_of(id, "/logs?tail=2")).body.find("abcdefghijklmnop"), std::string::npos);
  EXPECT_EQ(daemon.request("GET", path_of(id, "/logs")).body.substr(0, 9), "line 101\n");
  EXPECT_EQ(daemon.request("GET", path_of(id, "/logs?tail=0")).body, "");
  for (const auto* tail : {"-1", "x", "", "1x", "99999999999999999999"}) {
    EXPECT_EQ(daemon.request("GET", path_of(id, std::string{"/logs?tail="} + tail)).status, 400) << tail;
  }
}

TEST(Api, AnswersAreNotCached) {
  World world;
  Daemon daemon{world};
  for (const auto* path : {"/healthz", "/api/v1/budget", "/none"}) {
    const auto response = daemon.request("GET", path);
    EXPECT_EQ(header(response, "Cache-Control"), "no-store") << path;
  }
}

TEST(Api, BudgetHasEveryQuantityOfTheSpecification) {
  World world;
  Daemon daemon{world};
  const auto budget = json_of(daemon.request("GET", "/api/v1/budget"));
  for (const auto* name : {"mem_total_bytes", "mem_available_bytes", "safety_margin_bytes", "os_reserve_bytes",
                           "usable_bytes", "committed_bytes", "used_bytes", "measured_by_managed_bytes",
                           "ready_gap_bytes", "external_bytes", "free_for_new_bytes"}) {
    EXPECT_TRUE(budget.at(name).is_int64()) << name;
  }
  EXPECT_EQ(Bytes{budget.at("usable_bytes").as_int64()}, gib(52));
  EXPECT_EQ(Bytes{budget.at("free_for_new_bytes").as_int64()}, gib(48));
}

}  // namespace
}  // namespace dgxmm::testing
