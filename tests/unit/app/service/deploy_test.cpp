#include "unit/app/support/daemon.h"

#include <algorithm>
#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;

// How a deployment gets from a request to `ready`, or to `failed`.

TEST(Deploy, GoesFromStartingOverLoadingToReadyAndSaysSo) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy();
  EXPECT_EQ(daemon.at(id).state, State::starting);
  daemon.expect_state(id, State::loading);
  daemon.expect_state(id, State::ready);
  const auto events = daemon.events();
  const auto is_change = [](const auto& text) { return text.starts_with("deployment.state"); };
  EXPECT_EQ(std::ranges::count_if(events, is_change), 2);
  EXPECT_NE(events.back().find("ready after 3."), std::string::npos) << events.back();
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Deploy, P13_TheReservationIsStoredAndCountedBeforeAnythingStarts) {
  World world;
  Daemon daemon{world};
  const auto free_before = daemon.budget().free_for_new;
  const auto id = daemon.deploy();
  EXPECT_TRUE(world.runtime.engines().empty());
  ASSERT_EQ(world.store.deployments().size(), 1U);
  EXPECT_NE(world.store.deployments().front().document.find("\"starting\""), std::string::npos);
  const auto reserved = daemon.at(id).reserved();
  EXPECT_GT(reserved, gib(6));
  EXPECT_EQ(daemon.budget().committed, reserved);
  EXPECT_EQ(daemon.budget().free_for_new, free_before - reserved);
}

TEST(Deploy, P13_OfTwoRequestsAtOnceOnlyOneGetsTheMemory) {
  World world;
  world.host.held_by_others = gib(40);
  Daemon daemon{world};
  const std::string body = R"({"model": "/models/a.gguf"})";
  const auto first = daemon.send("POST", "/api/v1/deployments", body);
  const auto second = daemon.send("POST", "/api/v1/deployments", body);
  ASSERT_TRUE(daemon.loop->run_until([&] { return first->has_value() && second->has_value(); }));
  EXPECT_EQ((*first)->status, 201);
  EXPECT_EQ((*second)->status, 409);
  EXPECT_EQ(member(**second, "code"), "does_not_fit");
  EXPECT_EQ(daemon.service->table.all().size(), 1U);
}

TEST(Deploy, RequestThatDoesNotFitChangesNothingAndOffersPlans) {
  World world;
  world.host.held_by_others = gib(50);
  Daemon daemon{world};
  const auto events_before = daemon.service->events.last_id();
  const auto response = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf"})");
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(header(response, "Content-Type"), "application/problem+json");
  EXPECT_FALSE(json_of(response).at("plans").at("plan_set").as_string().empty());
  EXPECT_TRUE(daemon.service->table.all().empty());
  EXPECT_TRUE(world.store.deployments().empty());
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
  EXPECT_EQ(daemon.service->events.last_id(), events_before);
}

TEST(Deploy, P13_ARefusalItsPlansAndWhoHoldsTheMemoryAreOfOneReadingOfTheHost) {
  World world;
  world.host.held_by_others = gib(50);
  Daemon daemon{world};
  daemon.loop->run_ready();
  const auto before = world.host.readings;
  const auto response = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf"})");
  ASSERT_EQ(response.status, 409);
  EXPECT_EQ(world.host.readings - before, 1);
  const auto plans = json_of(response).at("plans");
  EXPECT_EQ(plans.at("free_for_new_bytes").as_int64(), daemon.service->sampler.latest()->budget.free_for_new.count());
  EXPECT_EQ(json_of(response).at("holders").at(0).at("held_bytes").as_int64(), gib(50).count());
}

TEST(Deploy, NothingIsAdmittedWhileTheHostCannotBeRead) {
  World world;
  Daemon daemon{world};
  world.host.broken = true;
  const auto response = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf"})");
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(member(response, "code"), "meminfo_unusable");
  EXPECT_TRUE(daemon.service->table.all().empty());
}

TEST(Deploy, StartThatFailsIsFailedCountsNothingAndHoldsNoPort) {
  World world;
  world.runtime.next.start_error = Error{"engine_not_found", "there is no llama-server", "install it", {}};
  Daemon daemon{world};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::failed);
  ASSERT_TRUE(daemon.at(id).failure);
  EXPECT_EQ(daemon.at(id).failure->code, "engine_not_found");
  EXPECT_EQ(daemon.at(id).failure->hint, "install it");
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
  EXPECT_TRUE(daemon.tcp_ports.held.empty());
}

TEST(Deploy, EngineThatDiesWhileLoadingIsFailedWithItsLastLines) {
  World world;
  world.runtime.next.dies_after = 500ms;
  world.runtime.next.log = {"loading model", "something odd: token=hf_abcdefghijklmnopqrstuvwxyzabcdefgh"};
  Daemon daemon{world};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::failed);
  const auto failure = daemon.at(id).failure.value();
  EXPECT_EQ(failure.code, "engine_died");
  EXPECT_NE(failure.message.find("while loading with exit code 1"), std::string::npos) << failure.message;
  ASSERT_EQ(failure.last_lines.size(), 2U);
  EXPECT_EQ(failure.last_lines.front(), "loading model");
  EXPECT_EQ(failure.last_lines.back().find("hf_abc"), std::string::npos) << "a secret is shown";
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
  const auto view = daemon.request("GET", "/api/v1/deployments/" + std::to_string(id.value));
  EXPECT_EQ(json_of(view).at("failure").at("code").as_string(), "engine_died");
}

TEST(Deploy, C5_BareSigkillIsNotTakenForLackOfMemory) {
  World world;
  world.runtime.next.dies_after = 5s;
  world.runtime.next.death = {.exit_code = {}, .signal = 9, .evidence = {}};
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "engine_killed");
  EXPECT_TRUE(world.store.oom_floors().empty());
  EXPECT_EQ(daemon.at(id).failure->hint.find("journalctl"), std::string::npos) << "no guard runs";
}

TEST(Deploy, C5_GuardsThatRunAreNamedAsCandidatesForASignalThatNobodyAskedFor) {
  for (const auto signal : {9, 15, 11}) {
    World world;
    world.host.facts.guards = {{.name = "earlyoom", .acts_below_percent = 1},
                               {.name = "systemd-oomd", .acts_below_percent = {}}};
    world.runtime.next.dies_after = 5s;
    world.runtime.next.death = {.exit_code = {}, .signal = signal, .evidence = {}};
    Daemon daemon{world};
    const auto id = daemon.deploy_ready();
    daemon.expect_state(id, State::failed);
    const auto& hint = daemon.at(id).failure->hint;
    const bool named = hint.find("earlyoom and systemd-oomd run on this host") != std::string::npos &&
                       hint.find("`journalctl -u earlyoom -u systemd-oomd`") != std::string::npos;
    EXPECT_EQ(named, signal != 11) << signal << ": " << hint;
    EXPECT_TRUE(world.store.oom_floors().empty()) << "a candidate is no evidence";
  }
}

TEST(Deploy, EngineThatNeverAnswersIsEndedAfterTheLimitAndNotCalledACrash) {
  World world;
  world.runtime.next.answers = EngineScript::Answers::never;
  settings::Settings settings;
  settings.ready_timeout_s = 10;  // 4 GiB of weights get 40 s
  Daemon daemon{world, settings};
  const auto id = daemon.deploy();
  daemon.loop->run_for(39s);
  EXPECT_EQ(daemon.at(id).state, State::loading);
  daemon.loop->run_for(10s);
  EXPECT_EQ(daemon.at(id).state, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "ready_timeout");
  EXPECT_EQ(world.runtime.running_count(), 0U);
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST(Deploy, EngineThatServesAnotherModelIsNeverReady) {
  World world;
  world.runtime.next.answers = EngineScript::Answers::as_another;
  settings::Settings settings;
  settings.ready_timeout_s = 10;
  Daemon daemon{world, settings};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::failed);
  EXPECT_FALSE(daemon.at(id).ready_at);
  EXPECT_EQ(daemon.at(id).failure->code, "ready_timeout");
}

TEST(Deploy, B2_WhatEndedUnaskedIsStoppingUntilItsMemoryIsBack) {
  World world;
  world.runtime.next.dies_after = 5s;
  world.runtime.next.memory_lingers = 20s;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.expect_state(id, State::stopping);
  EXPECT_EQ(daemon.at(id).failure->code, "engine_died");
  EXPECT_EQ(daemon.budget().committed, world.runtime.next.holds.total());
  daemon.loop->run_for(15s);
  EXPECT_EQ(daemon.at(id).state, State::stopping);
  daemon.expect_state(id, State::stopped);
  EXPECT_EQ(daemon.at(id).failure->code, "engine_died") << "why it ended is still said";
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

TEST(Deploy, B2_WhatCouldNotBeEndedAfterTheLimitStillCounts) {
  World world;
  world.runtime.next.answers = EngineScript::Answers::never;
  world.runtime.next.survives_stop = true;
  settings::Settings settings;
  settings.ready_timeout_s = 10;
  Daemon daemon{world, settings};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::stopping);
  daemon.loop->run_for(60s);
  EXPECT_EQ(daemon.at(id).state, State::stopping);
  EXPECT_EQ(daemon.at(id).failure->code, "still_running");
  EXPECT_EQ(daemon.budget().committed, world.runtime.next.holds.total());
}

TEST(Deploy, EngineThatStopsAnsweringIsUnknownCountsInFullAndComesBack) {
  World world;
  world.runtime.next.holds.anon = gib(1);
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  auto& engine = *world.runtime.newest(id);
  daemon.loop->run_for(20s);  // calibrated
  engine.script.answers = EngineScript::Answers::refuses;
  daemon.expect_state(id, State::unknown);
  EXPECT_EQ(daemon.budget().committed, daemon.at(id).reserved());
  engine.script.answers = EngineScript::Answers::normally;
  daemon.expect_state(id, State::ready);
  daemon.loop->run_for(60s);
  EXPECT_EQ(world.store.calibrations().size(), 1U) << "one start is one record";
}

TEST(Deploy, EngineThatIsSlowToAnswerIsNotUnknown) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.runtime.newest(id)->script.answers = EngineScript::Answers::never;
  daemon.loop->run_for(45s);
  EXPECT_EQ(daemon.at(id).state, State::ready);
  EXPECT_FALSE(daemon.at(id).activity.busy()) << "what it does is not known";
}

TEST(Deploy, EngineThatHangsIsUnknownAfterAMinute) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.runtime.newest(id)->script.answers = EngineScript::Answers::never;
  daemon.loop->run_for(70s);
  EXPECT_EQ(daemon.at(id).state, State::unknown);
  world.runtime.newest(id)->script.answers = EngineScript::Answers::normally;
  daemon.expect_state(id, State::ready);
}

TEST(Deploy, IdleTimeRunsFromTheLastRequest) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.runtime.newest(id)->script.requests = 2;
  daemon.loop->run_for(10s);
  EXPECT_FALSE(daemon.at(id).idle_since());
  EXPECT_EQ(daemon.at(id).activity.busy(), true);
  world.runtime.newest(id)->script.requests = 0;
  daemon.loop->run_for(10s);
  ASSERT_TRUE(daemon.at(id).idle_since());
  const auto since = *daemon.at(id).idle_since();
  daemon.loop->run_for(10s);
  EXPECT_EQ(*daemon.at(id).idle_since(), since);
}

TEST(Deploy, P8_RequestsThatComeAndGoBetweenTwoLooksEndTheIdleTime) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.loop->run_for(1h);
  ASSERT_TRUE(daemon.at(id).idle_since());
  EXPECT_GT(world.clock.wall() - *daemon.at(id).idle_since(), 59min);
  world.runtime.newest(id)->script.work_done += 12;
  daemon.loop->run_for(3s);
  EXPECT_EQ(daemon.at(id).activity.busy(), false);
  ASSERT_TRUE(daemon.at(id).idle_since());
  EXPECT_LE(world.clock.wall() - *daemon.at(id).idle_since(), 3s);
}

TEST(Deploy, P8_AMissedAnswerLeavesTheIdleTime) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  daemon.loop->run_for(1h);
  const auto since = daemon.at(id).idle_since();
  ASSERT_TRUE(since);
  auto& script = world.runtime.newest(id)->script;
  script.answers = EngineScript::Answers::never;
  daemon.loop->run_for(10s);
  EXPECT_FALSE(daemon.at(id).idle_since()) << "not known now";
  script.answers = EngineScript::Answers::normally;
  daemon.loop->run_for(10s);
  EXPECT_EQ(daemon.at(id).idle_since(), since);
}

TEST(Deploy, NamesAreUniqueAmongWhatRunsAndNeverLookLikeIds) {
  World world;
  Daemon daemon{world};
  daemon.deploy_ready(R"("model": "/models/a.gguf", "name": "chat")");
  const auto taken = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf", "name": "chat"})");
  EXPECT_EQ(taken.status, 409);
  EXPECT_EQ(member(taken, "code"), "name_taken");
  for (const auto* name : {"12", "", "-x", ".x", "a b", "../x", "x/y", "\u00e9"}) {
    const auto response = daemon.request("POST", "/api/v1/deployments",
                                         std::string{R"({"model": "/models/a.gguf", "name": ")"} + name + "\"}");
    EXPECT_EQ(response.status, 400) << name;
    EXPECT_EQ(member(response, "where"), "name") << name;
  }
  world.models.models["/models/42.gguf"] = small_model("/models/42.gguf");
  EXPECT_EQ(daemon.at(daemon.deploy(R"("model": "/models/42.gguf")")).name, "model-42");
  EXPECT_EQ(daemon.at(daemon.deploy(R"("model": "/models/42.gguf")")).name, "model-42-2");
}

TEST(Deploy, P13_AFolderThatHangsHoldsUpNobodyElse) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  EXPECT_EQ(daemon.request("POST", path_of(id, "/stop")).status, 200);
  daemon.loop->pool_takes = 1min;
  const auto first = daemon.send("POST", "/api/v1/deployments", R"({"model": "/models/b.gguf"})");
  const auto again = daemon.send("POST", path_of(id, "/start"));
  daemon.loop->run_for(5s);
  ASSERT_FALSE(*first) << "its header is being read";
  bool had = false;
  const auto take_turn = [](service::TurnQueue& turns, bool& done) -> ports::Task<> {
    service::TurnQueue::Claim claim{.what = "test"};
    const auto turn = co_await turns.take(std::move(claim));
    done = true;
  };
  daemon.loop->spawn("take a turn", take_turn(daemon.service->admission.turns(), had));
  daemon.loop->run_for(1s);
  EXPECT_TRUE(had) << "the turn is free meanwhile";
  daemon.loop->run_for(3min);
  ASSERT_TRUE(*first && *again);
  EXPECT_EQ((*first)->status, 201) << (*first)->body;
  EXPECT_EQ((*again)->status, 202) << (*again)->body;
}

TEST(Deploy, PortThatAnotherDeploymentHasNotBoundYetIsTaken) {
  World world;
  world.runtime.next.loading_takes = 1min;
  Daemon daemon{world};
  const auto id = daemon.deploy(R"("model": "/models/a.gguf", "port": 9000)");
  daemon.expect_state(id, State::loading);
  ASSERT_TRUE(daemon.tcp_ports.held.empty()) << "the engine is about to bind it";
  const auto response = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/b.gguf", "port": 9000})");
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "port_taken");
  EXPECT_EQ(member(response, "where"), "port");
}

TEST(Deploy, TakenPortIsAnErrorThatSaysWhatToDo) {
  World world;
  Daemon daemon{world};
  daemon.tcp_ports.taken.insert(9000);
  const auto response = daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf", "port": 9000})");
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(member(response, "code"), "port_taken");
  EXPECT_FALSE(member(response, "hint").empty());
  EXPECT_TRUE(daemon.service->table.all().empty());
}

TEST(Deploy, ModelIsFoundByItsNameInTheCatalog) {
  World world;
  world.models.catalog.models = {
      {.name = "a", .path = "/models/a.gguf", .architecture = {}, .quantization = {}, .base_model = {}, .problem = {}},
      {.name = "twin", .path = "/x/twin.gguf", .architecture = {}, .quantization = {}, .base_model = {}, .problem = {}},
      {.name = "twin",
       .path = "/y/twin.gguf",
       .architecture = {},
       .quantization = {},
       .base_model = {},
       .problem = {}}};
  Daemon daemon{world};
  const auto id = daemon.deploy(R"("model": "a")");
  EXPECT_EQ(daemon.at(id).request.model, "/models/a.gguf");
  EXPECT_EQ(daemon.request("POST", "/api/v1/deployments", R"({"model": "twin"})").status, 409);
  EXPECT_EQ(daemon.request("POST", "/api/v1/deployments", R"({"model": "none"})").status, 404);
  EXPECT_EQ(daemon.request("POST", "/api/v1/deployments", R"({"model": "/none.gguf"})").status, 404);
}

TEST(Deploy, C7_WhatIsLoadedBesideTheModelIsReservedStartedAndLearnedApart) {
  World world;
  world.models.projectors["/models/mmproj.gguf"] = {
      .path = "/models/mmproj.gguf", .file = gib(1), .tensors = gib(1), .fingerprint = {.digest = "eyes"}};
  Daemon daemon{world};
  const auto alone = daemon.deploy();
  const auto draft = daemon.deploy(R"("model": "/models/a.gguf", "draft_model": "/models/b.gguf")");
  EXPECT_GT(daemon.at(draft).reserved(), daemon.at(alone).reserved() + gib(4));
  EXPECT_NE(daemon.at(draft).fingerprint, daemon.at(alone).fingerprint);
  const auto& config = std::get<engine::LlamaCppConfig>(daemon.at(draft).config);
  EXPECT_EQ(config.draft_model, "/models/b.gguf");
  EXPECT_EQ(config.spec_type, engine::SpecType::draft_simple);
  const auto eyes = daemon.deploy(R"("model": "/models/a.gguf", "mmproj": "/models/mmproj.gguf")");
  EXPECT_EQ(daemon.at(eyes).reserved() - daemon.at(alone).reserved(), gib(3)) << "itself and twice that for buffers";
  EXPECT_NE(daemon.at(eyes).fingerprint, daemon.at(alone).fingerprint);
}

TEST(Deploy, PlansKeepWhatIsLoadedBesideTheModel) {
  World world;
  world.host.held_by_others = gib(44);
  Daemon daemon{world};
  const auto answer =
      daemon.request("POST", "/api/v1/plans", R"({"model": "/models/a.gguf", "draft_model": "/models/b.gguf"})");
  ASSERT_EQ(answer.status, 200);
  const auto plans = json_of(answer).at("plans").as_array();
  ASSERT_FALSE(plans.empty());
  for (const auto& plan : plans) {
    EXPECT_EQ(plan.at("config").at("draft_model").as_string(), "/models/b.gguf") << plan.at("id").as_string();
    EXPECT_GT(plan.at("needed_bytes").as_int64(), gib(8).count()) << "both models' weights";
  }
}

TEST(Deploy, ACompanionThatIsNotThereIsNamedWithItsField) {
  World world;
  Daemon daemon{world};
  const auto where = [&](const std::string& members) {
    const auto answer =
        daemon.request("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf", )" + members + "}");
    EXPECT_GE(answer.status, 400);
    return member(answer, "where");
  };
  EXPECT_EQ(where(R"("draft_model": "/models/none.gguf")"), "draft_model");
  EXPECT_EQ(where(R"("draft_model": "none")"), "draft_model");
  EXPECT_EQ(where(R"("draft_model": "models/b.gguf")"), "draft_model");
  EXPECT_EQ(where(R"("draft_model": "")"), "draft_model");
  EXPECT_EQ(where(R"("mmproj": "/models/none.gguf")"), "mmproj");
  EXPECT_EQ(where(R"("mmproj": "mmproj.gguf")"), "mmproj");
  EXPECT_EQ(where(R"("spec_type": "draft-mtp")"), "spec_type") << "the model has no such layers";
  EXPECT_TRUE(daemon.service->table.all().empty());
}

TEST(Deploy, RequestThatArrivesWhileTheDaemonStopsStartsNothing) {
  World world;
  Daemon daemon{world};
  const auto response = daemon.send("POST", "/api/v1/deployments", R"({"model": "/models/a.gguf"})");
  ASSERT_TRUE(daemon.loop->stop());
  ASSERT_TRUE(response->has_value());
  EXPECT_EQ((*response)->status, 503);
  EXPECT_TRUE(world.store.deployments().empty());
}

}  // namespace
}  // namespace dgxmm::testing
