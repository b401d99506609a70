#include "core/planner/scenario.h"

#include "unit/core/memory/dense_model.h"
#include "unit/core/planner/plans_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dgxmm::planner {
namespace {

model::ModelDescription dense(const std::string& name, Bytes weights) {
  auto model = memory::dense_model({.name = name, .weights = weights});
  model.path = "/home/me/" + name + ".gguf";
  model.base_model = "dense";
  model.quantization = name;
  model.fingerprint.digest = "digest of " + name;
  return model;
}

Scenario scenario() {
  Scenario result;
  result.host = host({idle(1, gib(60))}, gib(10));  // 30 free
  result.models = {dense("Q8_0", gib(30)), dense("Q4_K_M", gib(16))};
  result.request = engine::DeployRequest{.model = "Q8_0", .ctx_size = 8192};
  return result;
}

TEST(Scenario, P0_ItsPlansAreThoseOfTheHostWithTheRealEstimates) {
  const auto described = scenario();
  const auto plans = plans_of(described, *described.request).value();
  EXPECT_EQ(plans.free_for_new, gib(30));
  EXPECT_THAT(ids_of(plans), testing::ElementsAre("quant:Q4_K_M", "stop:1", "kv:q8_0", "ctx:4096", "seqs:1"));
  const auto config = engine::resolve(*described.request, described.models[0], {}).value();
  EXPECT_EQ(plans.needed, memory::estimate(described.models[0], config, {}, memory::Placement::gpu)->total);
  EXPECT_EQ(find(plans, "quant:Q4_K_M").model_path, "/home/me/Q4_K_M.gguf");
}

TEST(Scenario, C3_WhatWasLearnedThereCounts) {
  auto described = scenario();
  const auto before = plans_of(described, *described.request).value().needed;
  const auto config = engine::resolve(*described.request, described.models[0], {}).value();
  described.records.push_back({.fingerprint = "digest of Q8_0",
                               .configuration_key = engine::configuration_key(config),
                               .measured = gib(50),
                               .formula = before});
  EXPECT_EQ(plans_of(described, *described.request).value().needed, scale_up(gib(50), 105, 100));
}

TEST(Scenario, P0_AProjectorIsOneOfItsProjectors) {
  auto described = scenario();
  described.projectors = {{.path = "/home/me/eyes.gguf", .file = gib(2), .tensors = gib(2), .fingerprint = {"eyes"}}};
  auto request = *described.request;
  const auto without = plans_of(described, request).value().needed;
  request.mmproj = "/home/me/eyes.gguf";
  const auto with = plans_of(described, request).value().needed;
  EXPECT_GE(with, without + gib(2));

  described.request = request;
  const auto masked_one = masked(described);
  EXPECT_EQ(masked_one.request->mmproj, "projector-1");
  EXPECT_EQ(plans_of(masked_one, *masked_one.request).value().needed, with);
}

TEST(Scenario, P0_TimesThatWereMeasuredThereCount) {
  auto described = scenario();
  EXPECT_FALSE(find(plans_of(described, *described.request).value(), "kv:q8_0").takes.measured);
  described.durations = {{.fingerprint = "digest of Q8_0", .action = Action::load, .took = std::chrono::seconds{33}},
                         {.fingerprint = "digest of Q4_K_M", .action = Action::load, .took = std::chrono::seconds{9}}};
  const auto plans = plans_of(described, *described.request).value();
  EXPECT_EQ(find(plans, "kv:q8_0").takes, (Duration{.value = std::chrono::seconds{33}, .measured = true}));
  EXPECT_EQ(find(plans, "quant:Q4_K_M").takes, (Duration{.value = std::chrono::seconds{9}, .measured = true}));
}

TEST(Scenario, P0_ADraftModelIsOneOfItsModels) {
  auto described = scenario();
  auto request = *described.request;
  const auto without = plans_of(described, request).value().needed;
  request.draft_model = "Q4_K_M";
  EXPECT_GT(plans_of(described, request).value().needed, without + gib(15));
  request.draft_model = "other";
  EXPECT_EQ(plans_of(described, request).error().where, "draft_model");
}

TEST(Scenario, P0_WhatItDoesNotHaveIsAnError) {
  const auto described = scenario();
  EXPECT_EQ(plans_of(described, {.model = "none"}).error().code, "model_not_found");
  EXPECT_EQ(plans_of(described, {.model = ""}).error().code, "model_not_found");
  EXPECT_EQ(plans_of(described, {.model = "Q8_0", .mmproj = "/p.gguf"}).error().where, "mmproj");
  EXPECT_EQ(plans_of(described, {.model = "Q8_0", .max_num_seqs = 4}).error().where, "max_num_seqs");
}

TEST(Scenario, P0_MaskedItHasNoPathsNamesPortsOrLabelsAndTheSamePlans) {
  auto described = scenario();
  described.host.deployments[0].name = "secret-project";
  described.models[0].projectors = {"/home/me/mmproj.gguf"};
  described.models[0].notes = {"/home/me/x is not loaded"};
  described.request->model = "/home/me/Q8_0.gguf";
  described.request->name = "secret-project";
  described.request->served_name = "secret-project";
  described.request->port = 8123;
  described.request->labels = {{"team", "secret"}};
  described.request->image = "registry.example/secret/llama:1";
  const auto safe = masked(described);
  EXPECT_EQ(safe.host.deployments[0].name, "deployment-1");
  for (const auto& model : safe.models) {
    EXPECT_EQ(model.path, "");
    EXPECT_TRUE(model.projectors.empty() && model.notes.empty());
    for (const auto& file : model.files) EXPECT_EQ(file.path, "");
  }
  EXPECT_EQ(*safe.request, (engine::DeployRequest{.model = "Q8_0", .ctx_size = 8192}));
  EXPECT_EQ(ids_of(plans_of(safe, *safe.request).value()), ids_of(plans_of(described, *described.request).value()));
}

}  // namespace
}  // namespace dgxmm::planner
