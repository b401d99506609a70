#include "app/service/turn_queue.h"

#include "unit/app/support/simulated_loop.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using service::TurnQueue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TurnQueues : public ::testing::Test {
 protected:
  /// Takes a turn, notes it, keeps it that long.
  ports::Task<> visit(TurnQueue::Claim claim, std::chrono::milliseconds keeps) {
    const auto what = claim.what;
    auto turn = co_await queue.take(std::move(claim));
    log.push_back(turn ? what : what + ": " + turn.error().code);
    if (turn) co_await loop.sleep_for(keeps);
  }
  void ask(const std::string& what, std::int64_t priority = 0, std::chrono::milliseconds keeps = 1s) {
    loop.spawn(what, visit({.what = what, .priority = priority}, keeps));
    loop.run_ready();
  }
  std::vector<std::string> waiting() {
    std::vector<std::string> result;
    for (const auto& one : queue.waiting()) result.push_back(std::to_string(one.place) + " " + one.claim.what);
    return result;
  }

  ManualClock clock;
  SimulatedLoop loop{clock};
  TurnQueue queue{"admission", 60s, loop, clock};
  std::vector<std::string> log;
};

TEST_F(TurnQueues, P13_TheHighestPriorityIsNextAndAmongEqualsTheFirst) {
  ask("a");
  ask("b");
  ask("c", 5);
  ask("d", 5);
  ask("e", -1);
  EXPECT_THAT(waiting(), ElementsAre("1 c", "2 d", "3 b", "4 e"));
  ASSERT_TRUE(queue.holder());
  EXPECT_EQ(queue.holder()->what, "a");
  loop.run_for(10s);
  EXPECT_THAT(log, ElementsAre("a", "c", "d", "b", "e"));
  EXPECT_FALSE(queue.holder());
  EXPECT_THAT(waiting(), IsEmpty());
  EXPECT_EQ(queue.trouble(), std::nullopt);
}

TEST_F(TurnQueues, WhoIsTakenOutLeavesItsPlaceToTheNext) {
  ask("a");
  ask("b");
  ask("c");
  const auto id = queue.waiting().front().id;
  EXPECT_EQ(id, "admission-2");
  EXPECT_TRUE(queue.cancel(id));
  EXPECT_THAT(waiting(), ElementsAre("1 c"));
  EXPECT_FALSE(queue.cancel("admission-99"));
  EXPECT_FALSE(queue.cancel("admission-1")) << "it has the turn";
  loop.run_for(10s);
  EXPECT_THAT(log, ElementsAre("a", "b: cancelled", "c"));
}

TEST_F(TurnQueues, WaitingForADeploymentOrAnOperationEndsWithIt) {
  ask("a");
  loop.spawn("b", visit({.what = "b", .deployment = DeploymentId{7}}, 1s));
  loop.spawn("c", visit({.what = "c", .operation = "3"}, 1s));
  loop.run_ready();
  EXPECT_EQ(queue.place_of(DeploymentId{7}), 1);
  EXPECT_EQ(queue.place_of_operation("3"), 2);
  queue.cancel(DeploymentId{7});
  EXPECT_EQ(queue.place_of(DeploymentId{7}), std::nullopt);
  EXPECT_EQ(queue.place_of_operation("3"), 1);
  queue.cancel_operation("3");
  loop.run_for(10s);
  EXPECT_THAT(log, ElementsAre("a", "b: cancelled", "c: cancelled"));
}

TEST_F(TurnQueues, ThePatientOneIsNeitherTakenOutNorTurnedAway) {
  ask("a", 0, 5min);
  loop.spawn("undo", visit({.what = "undo", .priority = 9, .operation = "3", .patient = true}, 1s));
  loop.run_ready();
  EXPECT_FALSE(queue.cancel(queue.waiting().front().id));
  queue.cancel_operation("3");
  loop.run_for(4min);
  EXPECT_THAT(waiting(), ElementsAre("1 undo"));
  loop.run_for(2min);
  EXPECT_THAT(log, ElementsAre("a", "undo"));
}

TEST_F(TurnQueues, NobodyWaitsLongerThanTheLimitAndAQueueThatDoesNotMoveIsTrouble) {
  ask("stuck", 0, 10min);
  ask("b");
  loop.run_for(59s);
  EXPECT_EQ(queue.trouble(), std::nullopt);
  ask("c");
  loop.run_for(2s);
  EXPECT_THAT(log, ElementsAre("stuck", "b: queue_timeout"));
  ASSERT_TRUE(queue.trouble());
  EXPECT_THAT(*queue.trouble(), HasSubstr("stuck has had the turn for 61 s"));
  EXPECT_THAT(waiting(), ElementsAre("1 c"));
  loop.run_for(10min);
  EXPECT_EQ(queue.trouble(), std::nullopt) << "it moves again";
}

TEST_F(TurnQueues, AQueueThatDoesNotMoveIsTroubleThoughAPatientOneIsItsHead) {
  ask("stuck", 0, 10min);
  loop.spawn("undo", visit({.what = "undo", .priority = 9, .operation = "3", .patient = true}, 1s));
  ask("b");
  ask("c");
  loop.run_for(61s);
  EXPECT_THAT(log, ElementsAre("stuck", "b: queue_timeout", "c: queue_timeout"));
  ASSERT_TRUE(queue.trouble());
  EXPECT_THAT(*queue.trouble(), HasSubstr("stuck has had the turn for 61 s"));
  loop.run_for(10min);
  EXPECT_EQ(queue.trouble(), std::nullopt);
}

TEST_F(TurnQueues, AWaitThatIsBrokenOffLeavesNoPlaceBehind) {
  auto turn = loop.run(queue.take({.what = "a"}));
  ask("b");
  EXPECT_TRUE(loop.stop());
  turn->release();
  EXPECT_THAT(log, ElementsAre("b: shutting_down"));
  EXPECT_THAT(waiting(), IsEmpty());
  EXPECT_FALSE(queue.holder());
}

TEST_F(TurnQueues, EveryChangeIsTold) {
  int told = 0;
  queue.on_change([&] { ++told; });
  const auto before = queue.revision();
  ask("a");
  ask("b");
  EXPECT_GE(told, 2);
  EXPECT_GT(queue.revision(), before);
  loop.run_for(5s);
  EXPECT_GE(told, 4);
}

}  // namespace
}  // namespace dgxmm::testing
