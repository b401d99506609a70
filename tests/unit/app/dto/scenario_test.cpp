#include "app/dto/scenario.h"

#include "base/files.h"
#include "core/engine/request.h"
#include "unit/core/memory/dense_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace dgxmm::dto {
namespace {

using testing::HasSubstr;

Result<model::ModelDescription> nothing(const std::string& path) {
  return fail("model_not_found", "there is no " + path, {}, path);
}

/// Every kind of thing that a scenario can have.
planner::Scenario rich() {
  planner::Scenario scenario;
  auto& host = scenario.host;
  host.mem_total = gib(121);
  host.mem_available = gib(30);
  host.min_headroom = gib(3);
  host.budget_settings.safety_margin = gib(6);
  scenario.placement = memory::Placement::cpu;
  scenario.estimate_settings.vllm_runtime_fixed = gib(4);
  scenario.defaults.llamacpp_cache_ram_mib = 77;
  host.deployments.push_back(
      {.memory = {.id = {3},
                  .state = deployment::State::ready,
                  .reserved = gib(50),
                  .measured = memory::Measured{.anon = gib(6), .kernel = {}, .shmem = Bytes{}, .gpu = gib(40)}},
       .name = "chat",
       .priority = -2,
       .pinned = true,
       .busy = true,
       .idle_since = std::chrono::seconds{90},
       .requests = 2,
       .sleep_levels = {{.level = 2,
                         .size_asleep = gib(5),
                         .learned = true,
                         .wake_peak = gib(50),
                         .sleep_takes = std::chrono::seconds{4},
                         .wake_takes = {}}},
       .weights = gib(16),
       .engine = engine::EngineKind::vllm,
       .load_takes = std::chrono::seconds{70},
       .stop_takes = std::chrono::seconds{6}});
  host.deployments.push_back({.memory = {.id = {4}, .state = deployment::State::starting, .holds_memory = false}});
  auto model = memory::dense_model();
  model.experts = model::Experts{.count = 8, .used_count = 2, .feed_forward_length = 100};
  model.layers[3].attention->window = 4096;
  model.layers[3].attention->kind = model::AttentionKind::sliding_window;
  model.layers[4].recurrent = model::RecurrentState{.kind = model::RecurrentKind::kda, .state_elements = 4096};
  model.nextn_layers.push_back(model.layers[0]);
  model.encoders = {{.input = "pictures", .width = 1024, .item_patches = 4096, .item_tokens = 256}};
  model.missing_fields = {"head_dim"};
  model.fingerprint.digest = "abc";
  scenario.models.push_back(model);
  scenario.records.push_back(
      {.fingerprint = "abc", .configuration_key = "llamacpp x=1", .measured = gib(9), .formula = gib(8)});
  scenario.floors.push_back(
      {.fingerprint = "abc", .configuration_key = "llamacpp x=1", .killed_size = gib(7), .kills = 2});
  scenario.projectors.push_back(
      {.path = "eyes", .file = gib(1), .tensors = mib(1000), .fingerprint = {.digest = "eyes"}});
  scenario.durations = {
      {.fingerprint = "abc", .action = planner::Action::load, .took = std::chrono::seconds{12}},
      {.fingerprint = "abc", .action = planner::Action::wake, .level = 2, .took = std::chrono::seconds{3}}};
  scenario.request = engine::DeployRequest{.model = "model", .ctx_size = 8192, .priority = -1};
  return scenario;
}

TEST(ScenarioDocument, P0_WhatIsWrittenIsReadAgain) {
  const auto before = rich();
  const auto text = write_scenario(before);
  const auto after = read_scenario(text, nothing);
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(write_scenario(*after), text);
  EXPECT_EQ(after->models[0].layers, before.models[0].layers);
  EXPECT_EQ(after->models[0].nextn_layers, before.models[0].nextn_layers);
  EXPECT_EQ(after->host.deployments[0].memory.measured, before.host.deployments[0].memory.measured);
  EXPECT_EQ(after->host.deployments[0].sleep_levels[0].wake_peak, gib(50));
  EXPECT_FALSE(after->host.deployments[0].sleep_levels[0].wake_takes);
  EXPECT_FALSE(after->host.deployments[1].busy) << "unknown stays unknown";
  EXPECT_FALSE(after->host.deployments[1].memory.holds_memory);
  EXPECT_EQ(after->placement, memory::Placement::cpu);
  EXPECT_EQ(after->request, before.request);
  const auto plans = planner::plans_of(before, *before.request);
  const auto again = planner::plans_of(*after, *after->request);
  ASSERT_EQ(plans.has_value(), again.has_value());
  if (plans) {
    EXPECT_EQ(plans->summary, again->summary);
  }
}

TEST(ScenarioDocument, P0_LayersThatAreAlikeStandTogether) {
  EXPECT_THAT(write_scenario(rich()), HasSubstr(R"("times":27)"));
}

std::string host_with(const std::string& members) {
  return R"({"scenario": 1, "host": {"mem_total_bytes": 1000, "mem_available_bytes": 500}, )" + members + "}";
}

Error error_of(const std::string& text) {
  const auto scenario = read_scenario(text, nothing);
  if (!scenario) return scenario.error();
  ADD_FAILURE() << "was read: " << text;
  return {};
}

TEST(ScenarioDocument, P0_EachMistakeIsNamedByItsField) {
  EXPECT_EQ(error_of("{").code, "bad_json");
  EXPECT_EQ(error_of("[]").code, "bad_field");
  EXPECT_EQ(error_of(R"({"scenario": 1})").where, "host");
  EXPECT_EQ(error_of(R"({"scenario": 2, "host": {"mem_total_bytes": 1, "mem_available_bytes": 1}})").where, "scenario");
  EXPECT_EQ(error_of(R"({"scenario": 1, "host": {"mem_total_bytes": 1, "mem_available_bytes": 2}})").where,
            "host.mem_available_bytes");
  EXPECT_EQ(error_of(host_with(R"("hots": 1)")).code, "unknown_field");
  EXPECT_EQ(
      error_of(host_with(R"("deployments": [{"id": 1, "name": "a", "state": "redy", "reserved_bytes": 1}])")).where,
      "deployments[0].state");
  EXPECT_EQ(
      error_of(host_with(R"("deployments": [{"id": 1, "name": "a", "state": "ready", "reserved_bytes": -1}])")).where,
      "deployments[0].reserved_bytes");
  EXPECT_EQ(error_of(host_with(R"("deployments": [{"id": 1, "name": "a", "state": "ready", "reserved_bytes": 1},
                                  {"id": 1, "name": "b", "state": "ready", "reserved_bytes": 1}])"))
                .where,
            "deployments[1].id");
  EXPECT_EQ(error_of(host_with(R"("models": [{}])")).where, "models[0]");
  EXPECT_EQ(error_of(host_with(R"("models": [{"path": "/x"}])")).code, "model_not_found");
  EXPECT_EQ(error_of(host_with(R"("models": [{"description": {"vocabulary": 99999999999999999}}])")).where,
            "models[0].description.vocabulary");
  EXPECT_EQ(error_of(host_with(R"("models": [{"description": {}, "layers": [{"times": 5000, "layer": {}}]}])")).where,
            "models[0].layers");
}

TEST(ScenarioDocument, P0_AModelNamedByItsPathIsRead) {
  const auto scenario = read_scenario(host_with(R"("models": [{"path": "/x"}])"),
                                      [](const std::string&) { return memory::dense_model({.name = "x"}); });
  ASSERT_TRUE(scenario);
  EXPECT_EQ(scenario->models[0].name, "x");
}

/// A scenario comes from anyone: whatever is changed in one, it is refused or answered.
TEST(ScenarioDocument, P0_NoChangeOfADocumentBreaksThePlanner) {
  const auto good = write_scenario(rich());
  std::mt19937 random{20261130};
  const auto upto = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>{0, most}(random); };
  const std::vector<std::string> pieces{
      "0",    "1",     "-1",      "1125899906842624", "999999999999999999999", "null", "true", "[]", "{}",
      "\"\"", "1e300", "\"mla\"", "\"gguf\"",         "\"safetensors\""};
  int answered = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    auto text = good;
    for (auto changes = 1 + upto(2); changes > 0; --changes) {
      // The value behind some colon, or any byte.
      auto at = text.find(':', upto(text.size() - 1));
      if (at == std::string::npos || upto(9) == 0) {
        text[upto(text.size() - 1)] = static_cast<char>(upto(127));
        continue;
      }
      const auto end = text.find_first_of(",}]", ++at);
      text.replace(at, end - at, pieces[upto(pieces.size() - 1)]);
    }
    const auto scenario = read_scenario(text, nothing);
    const auto plans = scenario && scenario->request ? planner::plans_of(*scenario, *scenario->request)
                                                     : Result<planner::Plans>{fail("refused", "")};
    ++(plans ? answered : refused);
  }
  EXPECT_GT(answered, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace dgxmm::dto
