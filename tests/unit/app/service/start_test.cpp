#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace dgxmm::testing {
namespace {

using namespace std::chrono_literals;
using deployment::State;
using ::testing::HasSubstr;

// Starts are one at a time, and watched for the host's sake.

TEST(Start, OnlyOneEngineLoadsAtATime) {
  World world;
  Daemon daemon{world};
  const auto first = daemon.deploy();
  const auto second = daemon.deploy(R"("model": "/models/b.gguf")");
  daemon.expect_state(first, State::loading);
  daemon.loop->run_for(2s);
  EXPECT_EQ(daemon.at(first).state, State::loading);
  EXPECT_EQ(daemon.at(second).state, State::starting);
  EXPECT_EQ(world.runtime.engines().size(), 1U);
  daemon.expect_state(first, State::ready);
  daemon.expect_state(second, State::loading);
  daemon.expect_state(second, State::ready);
}

TEST(Start, P13_OneThatWaitsIsReservedInFull) {
  World world;
  Daemon daemon{world};
  const auto first = daemon.deploy();
  const auto second = daemon.deploy(R"("model": "/models/b.gguf")");
  daemon.expect_state(first, State::loading);
  EXPECT_EQ(daemon.budget().committed, daemon.at(first).reserved() + daemon.at(second).reserved());
}

TEST(Start, OneThatFailsLetsTheNextBegin) {
  World world;
  world.runtime.next.dies_after = 1s;
  Daemon daemon{world};
  const auto first = daemon.deploy();
  daemon.expect_state(first, State::loading);
  world.runtime.next.dies_after = -1ms;
  const auto second = daemon.deploy(R"("model": "/models/b.gguf")");
  daemon.expect_state(first, State::failed);
  daemon.expect_state(second, State::ready);
}

TEST(Start, OneThatWaitsCanBeStoppedAtOnce) {
  World world;
  Daemon daemon{world};
  const auto first = daemon.deploy();
  const auto second = daemon.deploy(R"("model": "/models/b.gguf")");
  daemon.expect_state(first, State::loading);
  daemon.request("POST", "/api/v1/deployments/" + std::to_string(second.value) + "/stop");
  EXPECT_EQ(daemon.at(second).state, State::stopped);
  EXPECT_EQ(daemon.at(first).state, State::loading);
  daemon.expect_state(first, State::ready);
  daemon.loop->run_for(10s);
  EXPECT_EQ(world.runtime.engines().size(), 1U) << "the stopped one must not start when its turn comes";
}

TEST(Start, AnAdoptedOneThatStillLoadsKeepsItsTurn) {
  World world;
  world.runtime.next.loading_takes = 30s;
  Daemon daemon{world};
  const auto first = daemon.deploy();
  daemon.expect_state(first, State::loading);
  daemon.kill();
  Daemon next{world};
  next.expect_state(first, State::loading);
  const auto second = next.deploy(R"("model": "/models/b.gguf")");
  next.loop->run_for(5s);
  EXPECT_EQ(next.at(second).state, State::starting);
  EXPECT_NE(next.at(second).port, next.at(first).port) << "it looks free until the first one listens on it";
  next.expect_state(first, State::ready);
  next.expect_state(second, State::ready);
}

TEST(Start, IsEndedBeforeTheHostRunsOutAndAServingOneIsNot) {
  World world;
  world.runtime.next.holds = {.anon = gib(1), .kernel = Bytes{0}, .shmem = Bytes{0}, .gpu = Bytes{0}};
  Daemon daemon{world};
  const auto serving = daemon.deploy_ready();
  world.runtime.next.loading_takes = 60s;
  const auto starting = daemon.deploy(R"("model": "/models/b.gguf")");
  daemon.expect_state(starting, State::loading);
  // 8 GiB a second are lost, from 58 GiB: two seconds above the floor of 4 GiB are passed at 20 GiB.
  Bytes left;
  for (int step = 0; step < 100 && daemon.at(starting).state == State::loading; ++step) {
    world.host.held_by_others += mib(1638);
    left = world.host.meminfo()->mem_available;
    daemon.loop->run_for(200ms);
  }
  daemon.expect_state(starting, State::failed);
  EXPECT_GT(left, gib(14)) << "too late";
  EXPECT_LT(left, gib(24)) << "too early";
  const auto failure = daemon.at(starting).failure.value();
  EXPECT_EQ(failure.code, "start_guard");
  EXPECT_THAT(failure.message, HasSubstr("less each second"));
  EXPECT_EQ(daemon.at(serving).state, State::ready);
  EXPECT_EQ(world.runtime.newest(serving)->stops, 0);
  daemon.loop->run_for(60s);
  EXPECT_EQ(daemon.at(starting).state, State::failed) << "it is not tried again by itself";
}

TEST(Start, BelowTheFloorItEndsWhateverThePace) {
  World world;
  world.runtime.next.loading_takes = 60s;
  settings::Settings settings;
  settings.start_floor_gib = 10;
  Daemon daemon{world, settings};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::loading);
  world.host.held_by_others = gib(64) - gib(6) - gib(9);
  daemon.expect_state(id, State::failed);
  EXPECT_THAT(daemon.at(id).failure->message, HasSubstr("start_floor_gib (10.0 GiB)"));
  EXPECT_TRUE(world.store.oom_floors().empty()) << "C5: nothing was killed for lack of memory";
}

TEST(Start, TheLimitIsExtendedWhileItsLogOrItsMemoryMoves) {
  World world;
  world.runtime.next.loading_takes = 110s;
  settings::Settings settings;
  settings.ready_timeout_s = 40;
  Daemon daemon{world, settings};
  const auto id = daemon.deploy();
  daemon.expect_state(id, State::loading);
  auto& log = world.logs.files["/state/logs/" + std::to_string(id.value) + ".log"];
  for (int step = 0; step < 50; ++step) {
    if (step < 25) log.push_back("compiled kernel " + std::to_string(step));
    if (step >= 25) world.host.held_by_others += mib(300);
    daemon.loop->run_for(2s);
  }
  EXPECT_EQ(daemon.at(id).state, State::loading) << "it got on all the time";
  daemon.expect_state(id, State::ready);
}

TEST(Start, OneThatOnlyRepeatsItselfIsEndedAndSoIsOneThatNeverArrives) {
  World world;
  world.runtime.next.answers = EngineScript::Answers::refuses;
  settings::Settings settings;
  settings.ready_timeout_s = 60;
  Daemon daemon{world, settings};
  for (const bool repeats : {true, false}) {
    const auto id = daemon.deploy();
    daemon.expect_state(id, State::loading);
    const auto begun = world.clock.steady();
    auto& log = world.logs.files["/state/logs/" + std::to_string(id.value) + ".log"];
    for (int step = 0; daemon.at(id).state == State::loading && step < 300; ++step) {
      log.push_back(repeats ? "[a.py:1] no block found" : "step " + std::to_string(step));
      daemon.loop->run_for(1s);
    }
    const auto took = world.clock.steady() - begun;
    EXPECT_GT(took, repeats ? 59s : 239s);
    EXPECT_LT(took, repeats ? 65s : 245s);
    ASSERT_TRUE(daemon.at(id).failure);
    EXPECT_EQ(daemon.at(id).failure->code, "ready_timeout");
  }
}

TEST(Start, AServingEngineIsNotGuarded) {
  World world;
  Daemon daemon{world};
  const auto id = daemon.deploy_ready();
  world.host.held_by_others = gib(57);
  daemon.loop->run_for(10s);
  EXPECT_EQ(daemon.at(id).state, State::ready);
}

void add_vllm_model(World& world) {
  auto model = small_model("/models/hf");
  model.format = model::Format::safetensors;
  world.models.models["/models/hf"] = model;
}
constexpr auto kVllm = R"("model": "/models/hf", "context": 4096, "sequences": 4)";

TEST(Start, VllmIsGivenItsPoolAndAShareThatIsFree) {
  World world;
  add_vllm_model(world);
  settings::Settings settings;
  settings.vllm = "/opt/vllm/bin/vllm";
  Daemon daemon{world, settings};
  const auto id = daemon.deploy(kVllm);
  daemon.expect_state(id, State::loading);
  const auto& arguments = world.runtime.newest(id)->spec.arguments;
  const auto after = [&](const std::string& flag) {
    const auto found = std::ranges::find(arguments, flag);
    return found == arguments.end() || found + 1 == arguments.end() ? std::string{} : *(found + 1);
  };
  EXPECT_EQ(arguments.front(), "/opt/vllm/bin/vllm");
  EXPECT_EQ(after("--max-model-len"), "4096");
  const auto& estimate = daemon.at(id).estimate;
  const auto block = kib(128) * 16;  // 16 tokens; vLLM keeps one for itself (its issue 39734)
  EXPECT_EQ(after("--kv-cache-memory-bytes"),
            std::to_string((estimate.part("kv") + estimate.part("state") + block).count()));
  const auto share = std::stod(after("--gpu-memory-utilization"));
  EXPECT_GT(share, 0);
  EXPECT_LE(share * 64, estimate.total.gib());
  EXPECT_LE(share * 64, 59);
}

TEST(Start, D10_OneThatWantsAKeyIsAliveAndSaysSo) {
  World world;
  add_vllm_model(world);
  world.runtime.next.answers = EngineScript::Answers::with_a_key;
  Daemon daemon{world};
  const auto id = daemon.deploy(kVllm);
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "engine_wants_key");
  EXPECT_THAT(daemon.at(id).failure->hint, HasSubstr("VLLM_API_KEY"));
  EXPECT_EQ(world.runtime.running_count(), 0U);
}

TEST(Start, D10_OneWhoseCoreHasDiedFailsThoughItsServerAnswers) {
  World world;
  add_vllm_model(world);
  Daemon daemon{world};
  const auto id = daemon.deploy_ready(kVllm);
  world.logs.files[world.runtime.newest(id)->spec.log_path].emplace_back(
      "(EngineCore pid=7) ERROR 08-08 10:00:00 [core.py:1] EngineCore encountered a fatal error.");
  daemon.loop->run_for(10s);
  EXPECT_EQ(daemon.at(id).state, State::ready) << "it may still end by itself, and say more";
  daemon.expect_state(id, State::failed);
  EXPECT_EQ(daemon.at(id).failure->code, "engine_died");
  EXPECT_THAT(daemon.at(id).failure->message, HasSubstr("went on answering"));
  EXPECT_EQ(world.runtime.running_count(), 0U);
  EXPECT_EQ(daemon.budget().committed, Bytes{0});
}

}  // namespace
}  // namespace dgxmm::testing
