// A host that goes down without a word while an engine starts or wakes up.
#include "app/service/start_journal.h"
#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class HostFreeze : public ::testing::Test {
 protected:
  HostFreeze() {
    auto model = small_model("/models/hf");
    model.format = model::Format::safetensors;
    world.models.models["/models/hf"] = model;
    daemon = std::make_unique<Daemon>(world);
  }
  /// The host freezes and is switched on again.
  void freeze() {
    daemon->kill();
    world.runtime.reboot();
    daemon = std::make_unique<Daemon>(world);
  }
  void restart_daemon() {
    daemon->kill();
    daemon = std::make_unique<Daemon>(world);
  }
  std::string notes_of_fit(const std::string& request) {
    return boost::json::serialize(json_of(daemon->request("POST", "/api/v1/fit", request)).at("notes"));
  }
  std::string code_of(DeploymentId id) {
    const auto& failure = daemon->at(id).failure;
    return failure ? failure->code : "";
  }

 public:
  World world;
  std::unique_ptr<Daemon> daemon;
};

TEST_F(HostFreeze, C5_AStartThatWasUnderWayIsSuspectedAndSaidAndNotStartedAgainByItself) {
  const auto served = daemon->deploy_ready(R"("model": "/models/b.gguf")");
  const auto id = daemon->deploy(R"("model": "/models/a.gguf", "ctx_size": 8192, "name": "large")");
  daemon->expect_state(id, State::loading);
  freeze();
  daemon->expect_state(id, State::failed);
  daemon->expect_state(served, State::ready);
  daemon->loop->run_for(60s);
  EXPECT_EQ(daemon->at(id).state, State::failed);
  ASSERT_EQ(code_of(id), service::kHostWentDown);
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("the host went down while it was starting"));
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("needs " + format_bytes(daemon->at(id).reserved())));
  EXPECT_THAT(daemon->at(id).failure->hint, HasSubstr("ask for less"));
  EXPECT_TRUE(world.store.oom_floors().empty()) << "suspected is not known: only the kernel's line is evidence";

  const auto* same = R"({"model": "/models/a.gguf", "ctx_size": 8192})";
  EXPECT_THAT(notes_of_fit(same), HasSubstr("large: the host went down"));
  EXPECT_THAT(notes_of_fit(R"({"model": "/models/a.gguf", "ctx_size": 4096})"), Not(HasSubstr("went down")));
  const auto again = daemon->request("POST", "/api/v1/deployments", same);
  ASSERT_EQ(again.status, 201) << again.body;
  EXPECT_THAT(boost::json::serialize(json_of(again).at("notes")), HasSubstr("large: the host went down"));
}

TEST_F(HostFreeze, OneThatServesLaterIsSuspectedNoMore) {
  const auto id = daemon->deploy();
  daemon->expect_state(id, State::loading);
  freeze();
  daemon->expect_state(id, State::failed);
  ASSERT_EQ(code_of(id), service::kHostWentDown);
  ASSERT_EQ(daemon->request("POST", path_of(id, "/start")).status, 202);
  daemon->expect_state(id, State::ready);
  EXPECT_THAT(notes_of_fit(R"({"model": "/models/a.gguf"})"), Not(HasSubstr("went down")));
  EXPECT_FALSE(world.start_record.document);
}

TEST_F(HostFreeze, D20_OneThatWasBeingStartedAgainAfterARestartDoesNotTakeTheHostDownEachTime) {
  const auto id = daemon->deploy_ready();
  freeze();
  const auto stored = world.store.deployments().front();  // of before its start, as a frozen host leaves it
  daemon->expect_state(id, State::loading);
  daemon->kill();
  world.store.update_deployment(stored);
  world.runtime.reboot();
  daemon = std::make_unique<Daemon>(world);
  daemon->loop->run_for(60s);
  EXPECT_EQ(daemon->at(id).state, State::failed);
  EXPECT_EQ(code_of(id), service::kHostWentDown);
}

TEST_F(HostFreeze, AWakeThatWasUnderWayIsSuspectedToo) {
  const auto id = daemon->deploy_ready(R"("model": "/models/hf", "context": 4096, "sequences": 4, "sleep_mode": true)");
  ASSERT_EQ(daemon->request("POST", path_of(id, "/sleep")).status, 200);
  world.runtime.newest(id)->script.wake_takes = 30s;
  ASSERT_EQ(daemon->request("POST", path_of(id, "/wake")).status, 202);
  daemon->loop->run_for(2s);
  freeze();
  daemon->loop->run_for(60s);
  EXPECT_EQ(daemon->at(id).state, State::failed);
  ASSERT_EQ(code_of(id), service::kHostWentDown);
  EXPECT_THAT(daemon->at(id).failure->message, HasSubstr("waking up"));
}

TEST_F(HostFreeze, WhatHadServedBeforeOrWasShutDownInOrderIsNotSuspected) {
  const auto ready = daemon->deploy_ready();
  EXPECT_FALSE(world.start_record.document);
  const auto loading = daemon->deploy(R"("model": "/models/b.gguf")");
  daemon->expect_state(loading, State::loading);
  EXPECT_TRUE(world.start_record.document);
  daemon.reset();  // the host is shut down, and the daemon is told so
  world.runtime.reboot();
  daemon = std::make_unique<Daemon>(world);
  daemon->expect_state(loading, State::failed);
  EXPECT_EQ(code_of(loading), "host_restarted");
  daemon->expect_state(ready, State::ready);
}

TEST_F(HostFreeze, ADaemonThatIsKilledGoesOnWithTheRecordOfTheStart) {
  world.runtime.next.loading_takes = 60s;
  const auto id = daemon->deploy();
  daemon->expect_state(id, State::loading);
  restart_daemon();
  daemon->loop->run_for(5s);
  EXPECT_EQ(daemon->at(id).state, State::loading);
  freeze();
  daemon->expect_state(id, State::failed);
  EXPECT_EQ(code_of(id), service::kHostWentDown);
}

TEST_F(HostFreeze, ADaemonThatIsKilledRightAfterTheStartForgetsTheRecordWhenItServes) {
  const auto id = daemon->deploy();
  daemon->expect_state(id, State::loading);
  const auto record = world.start_record.document;
  daemon->expect_state(id, State::ready);
  world.start_record.document = record;  // as if it had been killed before it could remove it
  restart_daemon();
  daemon->expect_state(id, State::ready);
  EXPECT_FALSE(world.start_record.document);
}

TEST_F(HostFreeze, AnOutOfMemoryKillThatIsKnownCountsForMore) {
  const auto id = daemon->deploy();
  daemon->expect_state(id, State::loading);
  daemon->kill();
  world.runtime.end(world.runtime.newest(id)->instance.pid,
                    {.exit_code = {}, .signal = 9, .oom_killed = true, .evidence = "oom-kill: task=llama-server"});
  world.runtime.boot_id += "'";
  daemon = std::make_unique<Daemon>(world);
  daemon->expect_state(id, State::failed);
  EXPECT_EQ(code_of(id), "out_of_memory");
}

TEST_F(HostFreeze, AStartGoesOnWithoutARecordThatCannotBeWrittenAndAnUnreadableOneIsLeft) {
  world.start_record.fail_writes = true;
  const auto id = daemon->deploy_ready();
  EXPECT_EQ(daemon->at(id).state, State::ready);
  for (const auto* document : {"", "{", "[]", R"({"deployment": "x"})", R"({"deployment": 99, "boot_id": "other",
      "begun_at": "", "wakes": false, "needed_bytes": 1})"}) {
    world.start_record.document = document;
    restart_daemon();
    daemon->expect_state(id, State::ready);
    EXPECT_FALSE(world.start_record.document) << document;
  }
}

}  // namespace
}  // namespace dgxmm::testing
