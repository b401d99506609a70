// Plans that do not go as they were shown.
#include "e2e/support/daemon.h"
#include "e2e/support/models.h"

#include <gmock/gmock.h>

#include <chrono>

namespace dgxmm::e2e {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class Plans : public EndToEnd {};

/// The plan that stops the first deployment, as the API shows it: "SET/PLAN".
std::string plan_that_stops_first(const Daemon& daemon, const Request& request) {
  const auto answer = daemon.post("/deployments", request.body());
  if (answer.status != 409) throw std::runtime_error("it was to be refused: " + answer.body);
  const auto problem = answer.json();
  return text(at(problem, "plans"), "plan_set") + "/stop:1";
}

TEST_F(Plans, P11_WhenTheNewDeploymentDiesWhileLoadingTheStoppedOneServesAgain) {
  const MemoryForOne host;
  const auto& daemon = *host.daemon;
  ASSERT_EQ(daemon.run(host.first.deploy()).exit_code, 0);
  const auto pid_before = number(daemon.deployment("first"), "pid");

  const auto broken = host.request_in_place_of_first("broken", model_without_its_last_tensors(daemon.state_dir()));
  const auto apply = daemon.run({"apply", plan_that_stops_first(daemon, broken)});
  EXPECT_EQ(apply.exit_code, 1) << apply.all();
  EXPECT_THAT(apply.err, HasSubstr("stop first: undone (started again)"));
  EXPECT_THAT(apply.err, HasSubstr("last lines of the engine:"));
  EXPECT_THAT(apply.err, HasSubstr("tensor 'output_norm.weight' not found"));

  const auto operation = daemon.document("/operations").at(0);
  EXPECT_EQ(text(operation, "state"), "failed");
  EXPECT_EQ(text(at(operation, "steps").at(0), "state"), "undone");
  const auto first = daemon.deployment("first");
  EXPECT_EQ(text(first, "state"), "ready");
  EXPECT_NE(number(first, "pid"), pid_before);
  EXPECT_EQ(chat(text(first, "url"), "first").status, 200);
  EXPECT_EQ(daemon.state_of("broken"), "failed");
}

TEST_F(Plans, P11_APlanThatNoLongerHoldsIsNotCarriedOut) {
  const MemoryForOne host;
  const auto& daemon = *host.daemon;
  ASSERT_EQ(daemon.post("/deployments", host.first.body()).status, 201);
  ASSERT_TRUE(daemon.becomes("first", "ready"));
  const auto plan = plan_that_stops_first(daemon, host.request_in_place_of_first("second", environment().model));
  ASSERT_EQ(daemon.run({"stop", "first"}).exit_code, 0);

  const auto answer = daemon.post("/plans/" + plan + "/apply");
  ASSERT_EQ(answer.status, 409) << answer.body;
  const auto problem = answer.json();
  EXPECT_EQ(text(problem, "code"), "plan_changed");
  EXPECT_TRUE(at(at(problem, "plans"), "fits_now").as_bool());
  EXPECT_THAT(text(problem, "hint"), HasSubstr("deploy it as it is"));
  EXPECT_EQ(daemon.get("/deployments/second").status, 404);

  const auto apply = daemon.run({"apply", plan});
  EXPECT_EQ(apply.exit_code, 1) << apply.all();
  EXPECT_THAT(apply.err, HasSubstr("hint: "));
}

TEST_F(Plans, P11_WhenTheDaemonIsKilledMeanwhileTheNextOneSeesToItThatOneOfTheTwoServes) {
  const MemoryForOne host;
  auto& daemon = *host.daemon;
  ASSERT_EQ(daemon.run(host.first.deploy()).exit_code, 0);
  const auto plan = plan_that_stops_first(daemon, host.request_in_place_of_first("second", environment().model));
  ASSERT_EQ(daemon.post("/plans/" + plan + "/apply").status, 202);
  daemon.kill_hard();
  daemon.start();

  const auto operation = [&] { return daemon.document("/operations/1"); };
  ASSERT_TRUE(eventually([&] { return text(operation(), "state") != "running"; }, 90s));
  const bool succeeded = text(operation(), "state") == "succeeded";
  const std::string serving = succeeded ? "second" : "first";
  EXPECT_TRUE(daemon.becomes(serving, "ready")) << "one that was never stopped is asked again first";
  EXPECT_EQ(chat(text(daemon.deployment(serving), "url"), serving).status, 200);
  EXPECT_EQ(daemon.engines().size(), 1U);
  if (!succeeded) EXPECT_EQ(text(at(operation(), "failure"), "code"), "interrupted");
}

TEST_F(Plans, P13_OfTwoRequestsAtOnceForTheMemoryOfOneExactlyOneIsAdmitted) {
  const MemoryForOne host;
  auto other = host.first;
  other.name = "other";
  const auto a = host.daemon->spawn(host.first.deploy({"--no-wait"}));
  const auto b = host.daemon->spawn(other.deploy({"--no-wait"}));
  EXPECT_THAT((std::vector{a->wait().value_or(-1), b->wait().value_or(-1)}), UnorderedElementsAre(0, 3))
      << a->err() << b->err();
  ASSERT_EQ(host.daemon->document("/deployments").as_array().size(), 1U);
  EXPECT_EQ(number(host.daemon->document("/budget"), "committed_bytes"), host.first_bytes);
}

}  // namespace
}  // namespace dgxmm::e2e
