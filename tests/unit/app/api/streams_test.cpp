#include "app/api/streams.h"

#include "unit/app/support/daemon.h"

#include <optional>
#include <string>
#include <vector>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;

/// A client that reads a stream for as long as time passes.
class Reader {
 public:
  Reader(Daemon& daemon, std::unique_ptr<ports::BodyStream> stream) {
    seen_->stream = std::move(stream);
    daemon.loop->spawn("reader", read(seen_));
  }
  [[nodiscard]] const std::string& text() const { return seen_->text; }
  [[nodiscard]] bool ended() const { return seen_->ended; }
  [[nodiscard]] int count(const std::string& part) const {
    int found = 0;
    for (auto at = text().find(part); at != std::string::npos; at = text().find(part, at + 1)) ++found;
    return found;
  }
  void clear() { seen_->text.clear(); }

 private:
  struct Seen {
    std::unique_ptr<ports::BodyStream> stream;
    std::string text;
    bool ended = false;
  };
  static ports::Task<> read(std::shared_ptr<Seen> seen) {
    while (true) {
      const auto piece = co_await seen->stream->next();
      if (!piece) break;
      seen->text += *piece;
    }
    seen->ended = true;
  }

  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
};

std::unique_ptr<ports::BodyStream> open_events(Daemon& daemon, const std::string& last_event_id = {}) {
  auto request = make_request("GET", "/api/v1/events");
  if (!last_event_id.empty()) request.headers["last-event-id"] = last_event_id;
  auto response = daemon.handle(std::move(request));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(header(response, "Content-Type"), "text/event-stream");
  return std::move(response.stream);
}

TEST(EventStream, ANewListenerGetsTheBudgetAndWhatHappensFromNowOn) {
  World world;
  Daemon daemon{world};
  daemon.deploy_ready();
  Reader reader{daemon, open_events(daemon)};
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("event: budget"), 1);
  EXPECT_EQ(reader.count("id: "), 0) << reader.text();
  daemon.deploy();
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("event: deployment.created"), 1);
}

TEST(EventStream, P13_WhoWaitsIsToldWheneverThatChanges) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon)};
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("event: queue"), 0);
  auto turn = daemon.loop->run(daemon.service->admission.turns().take({.what = "the test"}));
  const auto waiting = daemon.send("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf", "name": "new"})");
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count(R"("what":"deploy new")"), 1) << reader.text();
  reader.clear();
  turn->release();
  ASSERT_TRUE(daemon.loop->run_until([&] { return waiting->has_value(); }));
  daemon.loop->run_ready();
  EXPECT_GE(reader.count("event: queue"), 1);
  EXPECT_EQ(reader.count(R"("what":"deploy new")"), 0);
}

TEST(EventStream, EachNewPointOfTheHistoryIsTold) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon)};
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("event: history"), 0) << "what was before, a listener asks for";
  daemon.loop->run_for(31s);
  EXPECT_EQ(reader.count("event: history"), 3);
  EXPECT_EQ(reader.count(R"("time_s":[1700000020])"), 1) << reader.text();
  EXPECT_EQ(reader.count("id: "), 0) << "it cannot be resumed after";
  reader.clear();
  world.clock.shift_wall(1h);
  daemon.loop->run_for(4s);
  EXPECT_EQ(reader.count(R"("time_s":[1700000040,17000036)"), 1) << "with the gap before it: " << reader.text();
}

TEST(EventStream, WhoIsBusyIsToldWheneverThatChanges) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon)};
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("event: activity"), 0) << "nobody serves";
  const auto id = daemon.deploy_ready();
  world.runtime.newest(id)->script.requests = 2;
  daemon.loop->run_for(10s);
  EXPECT_EQ(reader.count(R"("busy":true,"requests_in_flight":2,"idle_since":null)"), 1) << reader.text();
  reader.clear();
  daemon.loop->run_for(10s);
  EXPECT_EQ(reader.count("event: activity"), 0) << "nothing has changed";
  world.runtime.newest(id)->script.requests = 0;
  daemon.loop->run_for(10s);
  EXPECT_EQ(reader.count(R"("busy":false,"requests_in_flight":0,"idle_since":")"), 1) << reader.text();
}

TEST(EventStream, ResumesAfterTheLastIdWithoutGapOrRepetition) {
  World world;
  Daemon daemon{world};
  daemon.deploy_ready();
  const auto last = daemon.service->events.last_id();
  Reader reader{daemon, open_events(daemon, "1")};
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("\nid: 1\n"), 0);
  for (auto id = std::int64_t{2}; id <= last; ++id) {
    EXPECT_EQ(reader.count("id: " + std::to_string(id) + "\n"), 1) << id;
  }
}

TEST(EventStream, ResumesFromTheStoreWhatTheMemoryHasForgotten) {
  World world;
  Daemon daemon{world};
  for (int i = 1; i <= 1000; ++i) daemon.service->events.publish("test", std::nullopt, "event " + std::to_string(i));
  Reader reader{daemon, open_events(daemon, "3")};
  daemon.loop->run_for(1s);
  EXPECT_EQ(reader.count("event: test\n"), 997);
  EXPECT_EQ(reader.count("id: 4\n"), 1);
  EXPECT_EQ(reader.count("id: 1000\n"), 1);
}

TEST(EventStream, ResumesAcrossARestartOfTheDaemon) {
  World world;
  std::int64_t seen = 0;
  {
    Daemon daemon{world};
    daemon.deploy_ready();
    seen = daemon.service->events.last_id();
    daemon.service->events.publish("test", std::nullopt, "while nobody listened");
    daemon.kill();
  }
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon, std::to_string(seen))};
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("while nobody listened"), 1);
  EXPECT_EQ(reader.count("adopted"), 1);
}

TEST(EventStream, AnIdOfAnotherStateFolderDoesNotMakeItDeaf) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon, "9223372036854775807")};
  daemon.loop->run_ready();
  daemon.deploy();
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("event: deployment.created"), 1);
}

TEST(EventStream, TheNewestAreThoseThatWereAskedFor) {
  World world;
  Daemon daemon{world};
  for (int i = 1; i <= 5; ++i) daemon.service->events.publish("test", std::nullopt, "event " + std::to_string(i));
  const auto shown = [&daemon](const std::string& tail) {
    auto request = make_request("GET", "/api/v1/events");
    request.query["tail"] = tail;
    return std::make_unique<Reader>(daemon, daemon.handle(std::move(request)).stream);
  };
  const auto two = shown("2");
  const auto all = shown("9999");
  const auto none = shown("0");
  daemon.loop->run_ready();
  EXPECT_EQ(two->count("event: test"), 2);
  EXPECT_EQ(two->count("event 4"), 1);
  EXPECT_EQ(all->count("event: test"), 5);
  EXPECT_EQ(none->count("event: test"), 0);
  for (const auto* wrong : {"-1", "x", "1x", ""}) {
    auto request = make_request("GET", "/api/v1/events");
    request.query["tail"] = wrong;
    EXPECT_EQ(daemon.handle(std::move(request)).status, 400) << wrong;
  }
}

TEST(EventStream, IdsThatAreNoneAreRefused) {
  World world;
  Daemon daemon{world};
  for (const auto* id : {"x", "-1", "1x", "99999999999999999999", " 1"}) {
    auto request = make_request("GET", "/api/v1/events");
    request.headers["last-event-id"] = id;
    EXPECT_EQ(daemon.handle(std::move(request)).status, 400) << id;
    EXPECT_EQ(daemon.request("GET", std::string{"/api/v1/events?after="} + id).status, 400) << id;
  }
  EXPECT_EQ(daemon.request("GET", "/api/v1/events?after=0").status, 200);
}

TEST(EventStream, B8_BudgetIsPushedOnlyWhenItChanged) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon)};
  daemon.loop->run_for(1min);
  EXPECT_EQ(reader.count("event: budget"), 1);
  world.host.held_by_others += gib(1);
  daemon.loop->run_for(1min);
  EXPECT_EQ(reader.count("event: budget"), 2);
}

TEST(EventStream, QuietStreamsShowThatTheyLive) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon)};
  daemon.loop->run_ready();
  reader.clear();
  daemon.loop->run_for(61s);
  EXPECT_GE(reader.count(": still here\n\n"), 3);
  EXPECT_LE(reader.count(": still here\n\n"), 4);
}

TEST(EventStream, TextOfOthersCannotForgeAnEvent) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon)};
  daemon.service->events.publish("test", std::nullopt, "a\n\nevent: forged\ndata: x\r\n\r\n");
  daemon.loop->run_ready();
  EXPECT_EQ(reader.count("\nevent: forged"), 0) << reader.text();
}

TEST(EventStream, EndsWithTheDaemon) {
  World world;
  Daemon daemon{world};
  Reader reader{daemon, open_events(daemon)};
  daemon.loop->run_ready();
  ASSERT_TRUE(daemon.loop->stop());
  EXPECT_TRUE(reader.ended());
}

TEST(LogStream, FollowsUntilTheDeploymentHasEnded) {
  World world;
  world.runtime.next.log = {"one", "two", "three"};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  auto response = daemon.request("GET", path_of(id, "/logs?tail=2&follow=1"));
  Reader reader{daemon, std::move(response.stream)};
  daemon.loop->run_for(1s);
  EXPECT_EQ(reader.text(), "two\nthree\n");
  world.logs.files.begin()->second.push_back("four api_key=sk-abcdefghijklmnopqrstuvwx \x1b[31m");
  daemon.loop->run_for(1s);
  EXPECT_EQ(reader.count("four"), 1);
  EXPECT_EQ(reader.count("sk-abc"), 0);
  EXPECT_EQ(reader.count("\x1b"), 0);
  daemon.request("POST", path_of(id, "/stop"));
  daemon.loop->run_for(1s);
  EXPECT_TRUE(reader.ended());
}

TEST(LogStream, OfWhatHasEndedShowsItsTailAndEnds) {
  World world;
  world.runtime.next.log = {"one"};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.request("POST", path_of(id, "/stop"));
  auto response = daemon.request("GET", path_of(id, "/logs?follow=1"));
  Reader reader{daemon, std::move(response.stream)};
  daemon.loop->run_ready();
  EXPECT_EQ(reader.text(), "one\n");
  EXPECT_TRUE(reader.ended());
}

}  // namespace
}  // namespace dgxmm::testing
