// Plans under pressure: many requests at once, a daemon that dies at every step, cancel, somebody who is busy.
#include "e2e/support/daemon.h"
#include "e2e/support/models.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace dgxmm::e2e {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;

class Executor : public EndToEnd {
 protected:
  /// The plan that stops the first deployment: "SET/stop:1".
  static std::string plan_that_stops_first(const Daemon& daemon, const Request& request) {
    const auto answer = daemon.post("/deployments", request.body());
    if (answer.status != 409) throw std::runtime_error("it was to be refused: " + answer.body);
    return text(at(answer.json(), "plans"), "plan_set") + "/stop:1";
  }

  /// One of the two serves, with one engine, and only it counts; by the operation's own word.
  static void expect_one_of_the_two_serves(const Daemon& daemon) {
    const auto operations = daemon.document("/operations").as_array();
    bool succeeded = false;
    if (!operations.empty()) {
      const auto id = text(operations.at(0), "id");
      const auto operation = [&] { return daemon.document("/operations/" + id); };
      ASSERT_TRUE(eventually([&] { return text(operation(), "state") != "running"; })) << operation();
      succeeded = text(operation(), "state") == "succeeded";
      if (!succeeded) {
        EXPECT_EQ(text(operation(), "state"), "failed") << operation();
        EXPECT_FALSE(text(at(operation(), "failure"), "code").empty());
        EXPECT_NE(text(at(operation(), "steps").at(0), "state"), "undo_failed") << operation();
      }
    }
    const std::string serving = succeeded ? "second" : "first";
    ASSERT_TRUE(daemon.becomes(serving, "ready"));
    const auto deployment = daemon.deployment(serving);
    EXPECT_EQ(chat(text(deployment, "url"), serving).status, 200);
    EXPECT_EQ(daemon.engines(), std::vector<pid_t>{static_cast<pid_t>(number(deployment, "pid"))});
    const auto all = daemon.document("/deployments").as_array();
    EXPECT_LE(all.size(), 2U);
    for (const auto& other : all) {
      if (text(other, "name") == serving) continue;
      EXPECT_THAT((std::vector<std::string>{"stopped", "failed"}), ::testing::Contains(text(other, "state")));
    }
    EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), number(deployment, "reserved_bytes"));
    EXPECT_EQ(http(daemon.port(), "GET", "/healthz").status, 200);
  }

  /// Walks over the writes first, first + 4, …: each is one life of a daemon that dies right before it.
  static void die_at_every_fourth_write_from(std::int64_t first, bool new_one_dies) {
    std::int64_t died = 0;
    for (std::int64_t n = first; n < 100; n += 4) {
      SCOPED_TRACE(fmt::format("killed before write {}", n));
      const MemoryForOne host{{.variables = {{"DGXMM_TEST_KILL_AT_WRITE", std::to_string(n)}}}};
      auto& daemon = *host.daemon;
      ASSERT_EQ(daemon.run(host.first.deploy()).exit_code, 0);
      const auto model = new_one_dies ? model_without_its_last_tensors(daemon.state_dir()) : environment().model;
      const auto plan = plan_that_stops_first(daemon, host.request_in_place_of_first("second", model));
      try {
        EXPECT_EQ(daemon.post("/plans/" + plan + "/apply").status, 202);
      } catch (const std::runtime_error&) {  // it died before it could answer
      }
      const auto ended = [&] { return text(daemon.document("/operations/1"), "state") != "running"; };
      const auto dead_or_done = [&] {
        try {
          return daemon.has_died() || ended();
        } catch (const std::runtime_error&) {
          return daemon.has_died();
        }
      };
      ASSERT_TRUE(eventually(dead_or_done));
      std::this_thread::sleep_for(300ms);  // its last writes come right after
      if (!daemon.has_died()) break;       // all have been walked over
      ++died;
      daemon.set_variables({});
      daemon.start();
      expect_one_of_the_two_serves(daemon);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(died, 3) << "a plan has more steps than that";
  }
};

/// Together they walk over all of them.
class KilledAtEveryWrite : public Executor, public ::testing::WithParamInterface<int> {};

TEST_P(KilledAtEveryWrite, P11_OfAPlanThatSucceeds) { die_at_every_fourth_write_from(GetParam(), false); }
TEST_P(KilledAtEveryWrite, P11_OfAPlanThatIsUndone) { die_at_every_fourth_write_from(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(From, KilledAtEveryWrite, ::testing::Values(1, 2, 3, 4));

TEST_F(Executor, P13_FiftyRequestsAtOnceForMemoryThatHoldsThreeNeverOverCommit) {
  constexpr int kRequests = 50;
  Request request{.name = "many"};
  const auto bytes = request.resize_to(std::min(mem_available_bytes() / 5, 4 * kGib)).estimate_bytes();
  // None is ready before all are answered: what one that is ready does not use of its own is credited to it (B4).
  const Daemon daemon{{.room_bytes = bytes * 7 / 2, .gated_engines = true}};

  // Everything that the budget ever is, until the last event.
  auto budgets = std::async(std::launch::async, [&] {
    std::vector<boost::json::value> seen;
    EventListener listener{daemon.port(), std::nullopt};
    for (;;) {
      const auto message = listener.next();
      if (message.type == "budget") seen.push_back(boost::json::parse(message.data));
      if (message.type == "deployment.removed") return seen;
    }
  });

  std::vector<std::future<HttpAnswer>> answers;
  for (int i = 0; i < kRequests; ++i) {
    auto one = request;
    one.name = fmt::format("many-{}", i);
    answers.push_back(
        std::async(std::launch::async, [&daemon, one] { return daemon.post("/deployments", one.body()); }));
  }
  std::vector<std::string> admitted;
  int refused = 0;
  for (auto& answer : answers) {
    const auto got = answer.get();
    if (got.status == 201) admitted.push_back(text(got.json(), "name"));
    if (got.status == 409) ++refused;
  }
  EXPECT_EQ(admitted.size(), 3U);
  EXPECT_EQ(refused, kRequests - 3);
  daemon.open_gate();
  for (const auto& name : admitted) {
    ASSERT_TRUE(daemon.becomes(name, "ready")) << name;
    EXPECT_EQ(chat(text(daemon.deployment(name), "url"), name).status, 200);
  }
  EXPECT_EQ(daemon.engines().size(), 3U);
  EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), 3 * bytes);

  ASSERT_EQ(daemon.run({"stop", admitted.front()}).exit_code, 0);
  ASSERT_EQ(daemon.run({"rm", admitted.front()}).exit_code, 0);
  const auto seen = budgets.get();
  EXPECT_GT(seen.size(), 3U);
  for (const auto& budget : seen) {
    const auto usable = number(budget, "usable_bytes");
    const auto committed = number(budget, "committed_bytes");
    EXPECT_LE(committed, 3 * bytes);
    EXPECT_EQ(number(budget, "free_for_new_bytes"), usable - committed - number(budget, "external_bytes"));
    EXPECT_GE(number(budget, "free_for_new_bytes"), 0) << budget;
    std::int64_t counted = 0;
    for (const auto& row : at(budget, "deployments").as_array()) {
      const auto& measured = at(row, "measured");
      const auto held = measured.is_null() ? 0 : number(measured, "total_bytes");
      counted += text(row, "state") == "stopping" ? held : std::max(number(row, "reserved_bytes"), held);
    }
    EXPECT_EQ(committed, counted) << "B2, over every deployment once: " << budget;
  }
}

TEST_F(Executor, P11_AVictimThatBecameBusyStopsThePlanUnlessItIsToldOtherwise) {
  const MemoryForOne host;
  const auto& daemon = *host.daemon;
  ASSERT_EQ(daemon.run(host.first.deploy()).exit_code, 0);
  ASSERT_TRUE(eventually([&] { return at(daemon.deployment("first"), "busy") == boost::json::value(false); }));
  const auto plan = plan_that_stops_first(daemon, host.request_in_place_of_first("second", environment().model));
  const auto url = text(daemon.deployment("first"), "url");
  const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  auto answer = std::async(std::launch::async, [port] {
    try {
      return http(port, "POST", "/completion", R"({"prompt": "Once", "n_predict": 30000, "ignore_eos": true})").status;
    } catch (const std::runtime_error&) {  // it was cut off
      return 0;
    }
  });
  ASSERT_TRUE(eventually([&] { return at(daemon.deployment("first"), "busy") == boost::json::value(true); }));
  const auto refused = daemon.run({"apply", plan});
  EXPECT_EQ(refused.exit_code, 1) << refused.all();
  EXPECT_THAT(refused.err, HasSubstr("first is busy by now"));
  EXPECT_THAT(refused.err, HasSubstr("--even-if-busy"));
  EXPECT_EQ(daemon.state_of("first"), "ready");

  const auto applied = daemon.run({"apply", plan, "--even-if-busy"});
  EXPECT_EQ(applied.exit_code, 0) << applied.all();
  EXPECT_EQ(daemon.state_of("first"), "stopped");
  EXPECT_EQ(daemon.state_of("second"), "ready");
  EXPECT_NE(answer.get(), 200) << "that is what it was told to do";
}

TEST_F(Executor, P11_CancelledWhileTheNewOneLoadsTheStoppedOneServesAgain) {
  const MemoryForOne host{{.gated_engines = true}};
  const auto& daemon = *host.daemon;
  daemon.open_gate();
  ASSERT_EQ(daemon.run(host.first.deploy()).exit_code, 0);
  const auto plan = plan_that_stops_first(daemon, host.request_in_place_of_first("second", environment().model));
  daemon.close_gate();
  const auto apply = daemon.spawn({"apply", plan});
  ASSERT_TRUE(eventually([&] { return daemon.get("/deployments/second").status == 200; }));
  ASSERT_TRUE(daemon.becomes("second", "loading"));
  const auto cancel = daemon.spawn({"cancel", "1"});
  ASSERT_TRUE(daemon.becomes("second", "stopped"));
  daemon.open_gate();
  EXPECT_EQ(cancel->wait(), 0) << cancel->err();
  EXPECT_THAT(cancel->err(), HasSubstr("stop first: undone (started again)"));
  EXPECT_EQ(apply->wait(), 1);
  EXPECT_THAT(apply->err(), HasSubstr("error: it was cancelled"));
  EXPECT_EQ(text(daemon.document("/operations/1"), "state"), "cancelled");
  const auto first = daemon.deployment("first");
  EXPECT_EQ(text(first, "state"), "ready");
  EXPECT_EQ(chat(text(first, "url"), "first").status, 200);
  EXPECT_EQ(daemon.engines().size(), 1U);
}

TEST_F(Executor, P11_CtrlCTwiceCancelsThePlanAndOnceLeavesItToTheDaemon) {
  const MemoryForOne host{{.gated_engines = true}};
  const auto& daemon = *host.daemon;
  daemon.open_gate();
  ASSERT_EQ(daemon.run(host.first.deploy()).exit_code, 0);
  const auto request = host.request_in_place_of_first("second", environment().model);
  daemon.close_gate();
  const auto apply = daemon.spawn({"apply", plan_that_stops_first(daemon, request)});
  ASSERT_TRUE(eventually([&] { return daemon.get("/deployments/second").status == 200; }));
  apply->signal(SIGINT);
  ASSERT_TRUE(eventually([&] { return apply->err().find("Ctrl-C again within 5 s") != std::string::npos; }));
  apply->signal(SIGINT);
  ASSERT_TRUE(daemon.becomes("second", "stopped"));
  daemon.open_gate();
  EXPECT_EQ(apply->wait(), 1);
  EXPECT_THAT(apply->err(), HasSubstr("stop first: undone (started again)"));
  ASSERT_TRUE(daemon.becomes("first", "ready"));

  auto again = request;
  again.name = "third";
  daemon.close_gate();
  const auto left = daemon.spawn({"apply", plan_that_stops_first(daemon, again)});
  ASSERT_TRUE(eventually([&] { return daemon.get("/deployments/third").status == 200; }));
  left->signal(SIGINT);
  EXPECT_EQ(left->wait(), 1);
  EXPECT_THAT(left->err(), HasSubstr("the daemon goes on with the plan"));
  daemon.open_gate();
  EXPECT_TRUE(daemon.becomes("third", "ready"));
}

TEST_F(Executor, RequestsThatWaitHaveAPlaceAndCanBeTakenOut) {
  const Daemon daemon{{.gated_engines = true}};
  ASSERT_EQ(daemon.post("/deployments", Request{.name = "one"}.body()).status, 201);
  ASSERT_TRUE(daemon.becomes("one", "loading"));
  ASSERT_EQ(daemon.post("/deployments", Request{.name = "two"}.body()).status, 201);
  ASSERT_EQ(daemon.post("/deployments", Request{.name = "three"}.body()).status, 201);
  ASSERT_TRUE(eventually([&] { return !at(daemon.deployment("three"), "queue_place").is_null(); }));
  EXPECT_EQ(number(daemon.deployment("two"), "queue_place"), 1);
  EXPECT_EQ(number(daemon.deployment("three"), "queue_place"), 2);
  EXPECT_THAT(daemon.run({"ps"}).out, HasSubstr("starting (#2)"));
  const auto queue = daemon.run_on_terminal({"queue"}, 80);
  EXPECT_THAT(queue.out, HasSubstr("others to load  start two"));
  for (std::size_t begin = 0; begin < queue.out.size();) {
    const auto end = std::min(queue.out.find('\n', begin), queue.out.size());
    EXPECT_LE(end - begin, 81U);
    begin = end + 1;
  }
  const auto waiting = at(daemon.document("/queue"), "waiting").as_array();
  EXPECT_EQ(daemon.run({"cancel", text(waiting.at(0), "id")}).exit_code, 0);
  ASSERT_TRUE(daemon.becomes("two", "failed"));
  EXPECT_EQ(text(at(daemon.deployment("two"), "failure"), "code"), "cancelled");
  daemon.open_gate();
  EXPECT_TRUE(daemon.becomes("three", "ready"));
}

TEST_F(Executor, P12_YesCarriesOutTheRecommendedPlanAndNeverAnUnsafeOne) {
  const MemoryForOne host{{.flags = {"--min-headroom-gib", "0"}}};
  const auto& daemon = *host.daemon;
  ASSERT_EQ(daemon.run(host.first.deploy()).exit_code, 0);
  ASSERT_TRUE(eventually([&] { return at(daemon.deployment("first"), "busy") == boost::json::value(false); }));
  const auto request = host.request_in_place_of_first("second", environment().model);
  // With the highest priority nobody may take its place.
  ASSERT_EQ(http(daemon.port(), "PATCH", "/api/v1/deployments/first", R"({"pinned": true})").status, 200);
  const auto refused = daemon.run(request.deploy({"--yes"}));
  EXPECT_EQ(refused.exit_code, 3) << refused.all();
  EXPECT_THAT(refused.err, HasSubstr("none of the plans is safe, so none was carried out"));
  EXPECT_THAT(refused.out, HasSubstr("first is pinned"));
  EXPECT_EQ(daemon.state_of("first"), "ready");

  ASSERT_EQ(http(daemon.port(), "PATCH", "/api/v1/deployments/first", R"({"pinned": false})").status, 200);
  const auto deployed = daemon.run(request.deploy({"--yes"}));
  EXPECT_EQ(deployed.exit_code, 0) << deployed.all();
  EXPECT_THAT(deployed.out, HasSubstr("second is ready"));
}

}  // namespace
}  // namespace dgxmm::e2e
