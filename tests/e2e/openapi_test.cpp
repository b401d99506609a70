// The API's description of itself, beside what a real daemon answers.
#include "e2e/support/daemon.h"
#include "support/api_description.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>

namespace dgxmm::e2e {
namespace {

using testing::ApiDescription;
using namespace std::chrono_literals;

class OpenApi : public EndToEnd {
 protected:
  /// Calls it, and holds the answer against the description.
  HttpAnswer call(const std::string& method, const std::string& path, const std::string& body = {}) {
    auto answer = http(host_.daemon->port(), method, path, body);
    const auto type = answer.headers.contains("content-type") ? answer.headers.at("content-type") : std::string{};
    for (const auto& fault : description_.faults_of_answer(method, path, answer.status, type, answer.body)) {
      ADD_FAILURE() << method << " " << path << ": " << fault;
    }
    return answer;
  }

  /// Every GET, with the ids of what is there.
  void call_every_get(const std::string& plan_set) {
    for (const auto& [pattern, operations] : description_.paths()) {
      if (!operations.as_object().contains("get") || pattern == "/api/v1/events") continue;  // which has no end
      std::string path{pattern};
      const auto open = path.find('{');
      if (open != std::string::npos) {
        const auto id = path.starts_with("/api/v1/plans/")        ? plan_set
                        : path.starts_with("/api/v1/operations/") ? std::string{"1"}
                                                                  : std::string{"second"};
        path.replace(open, path.find('}') - open + 1, id);
      }
      EXPECT_EQ(call("GET", path).status, 200) << path;
    }
  }

  /// Until one of every kind has come: what has happened, and what is sent whenever it has changed.
  void read_events() {
    const std::map<std::string, std::string> documents{
        {"budget", "Budget"}, {"queue", "Queue"}, {"activity", "Activity"}, {"history", "History"}};
    const std::set<std::string> wanted{"deployment.created", "deployment.state", "operation.step", "budget", "queue",
                                       "activity",           "history"};
    EventListener listener{host_.daemon->port(), 0};
    std::set<std::string> types;
    while (!std::ranges::includes(types, wanted)) {
      const auto message = listener.next();
      types.insert(message.type);
      const auto document = documents.find(message.type);
      const auto name = document == documents.end() ? std::string{"Event"} : document->second;
      const auto data = boost::json::parse(message.data);
      // Those of activity come as a list.
      const auto items = data.is_array() ? data.as_array() : boost::json::array{data};
      for (const auto& item : items) {
        for (const auto& fault : description_.faults_of_document(item, name))
          ADD_FAILURE() << message.type << ": " << fault;
      }
    }
  }

  MemoryForOne host_;
  ApiDescription description_{host_.daemon->document("/openapi.json")};
};

TEST_F(OpenApi, WhatARealDaemonAnswersIsWhatItSays) {
  EXPECT_EQ(call("POST", "/api/v1/fit", host_.first.body()).status, 200);
  EXPECT_EQ(call("POST", "/api/v1/plans", host_.first.body()).status, 200);
  EXPECT_EQ(call("POST", "/api/v1/scenario", host_.first.body()).status, 200);
  ASSERT_EQ(call("POST", "/api/v1/deployments", host_.first.body()).status, 201);
  ASSERT_TRUE(host_.daemon->becomes("first", "ready"));
  EXPECT_EQ(call("PATCH", "/api/v1/deployments/first", R"({"priority": 2, "labels": {"a": "b"}})").status, 200);
  EXPECT_EQ(call("POST", "/api/v1/deployments/first/sleep").status, 409) << "llama.cpp cannot sleep";
  EXPECT_EQ(call("POST", "/api/v1/deployments", "{}").status, 400);

  const auto second = host_.request_in_place_of_first("second", environment().model);
  const auto refused = call("POST", "/api/v1/deployments", second.body());
  ASSERT_EQ(refused.status, 409) << refused.body;
  const auto set = text(at(refused.json(), "plans"), "plan_set");
  const auto applied = call("POST", "/api/v1/plans/" + set + "/stop:1/apply");
  ASSERT_EQ(applied.status, 202) << applied.body;
  ASSERT_TRUE(
      eventually([&] { return text(call("GET", "/api/v1/operations/1").json(), "state") == "succeeded"; }, 90s));

  call_every_get(set);
  read_events();

  EXPECT_EQ(call("POST", "/api/v1/deployments/first/start").status, 409) << "its memory is taken";
  EXPECT_EQ(call("POST", "/api/v1/deployments/second/stop").status, 200);
  EXPECT_EQ(call("DELETE", "/api/v1/deployments/second").status, 204);
}

}  // namespace
}  // namespace dgxmm::e2e
