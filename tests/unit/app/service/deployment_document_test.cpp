#include "app/service/deployment_document.h"

#include <boost/json.hpp>

#include <string>

namespace dgxmm::service {
namespace {

Deployment full_deployment() {
  Deployment deployment;
  deployment.id = {7};
  deployment.name = "chat";
  deployment.request.model = "/models/a.gguf";
  deployment.request.context = 4096;
  deployment.request.labels = {{"team", "a"}};
  engine::LlamaCppConfig config;
  config.ctx_size = 4096;
  config.cache_type_k = engine::CacheType::q8_0;
  deployment.config = config;
  deployment.model_path = "/models/a.gguf";
  deployment.model_name = "A \"quoted\" \xff name";
  deployment.fingerprint = "f00";
  deployment.estimate.parts = {{"weights", gib(4), memory::Source::file_size, "1 file"}};
  deployment.estimate.total = gib(5);
  deployment.estimate.formula = gib(4);
  deployment.estimate.confidence = memory::Confidence::calibrated;
  deployment.state = deployment::State::unknown;
  deployment.created_at = WallTime{std::chrono::milliseconds{1'700'000'000'123}};
  deployment.state_since = WallTime{std::chrono::milliseconds{1'700'000'001'456}};
  deployment.ready_at = WallTime{std::chrono::milliseconds{1'700'000'000'999}};
  deployment.served_name = "chat";
  deployment.port = 65535;
  deployment.priority = -3;
  deployment.pinned = true;
  deployment.labels = {{"team", "a"}};
  deployment.instance =
      ports::Instance{"process", 4'000'000'000, 18'446'744'073'709'551'615U, "boot", "digest", "/dgxmm/7", 2, ""};
  deployment.engine_device_bytes = gib(3);
  deployment.footprint = gib(6);
  deployment.failure = Failure{"code", "message", "hint", {"one", "two"}};
  deployment.idle = engine::Idle{.since = WallTime{std::chrono::milliseconds{1'700'000'002'000}}, .work_done = 42};
  return deployment;
}

TEST(DeploymentDocument, EverythingThatSurvivesTheDaemonSurvives) {
  const auto before = full_deployment();
  const auto after = from_document({7}, to_document(before));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->id, before.id);
  EXPECT_EQ(after->name, before.name);
  EXPECT_EQ(after->request, before.request);
  EXPECT_EQ(after->config, before.config);
  EXPECT_EQ(after->model_path, before.model_path);
  EXPECT_EQ(after->model_name, "A \"quoted\" \xEF\xBF\xBD name");
  EXPECT_EQ(after->fingerprint, before.fingerprint);
  EXPECT_EQ(after->reserved(), before.reserved());
  EXPECT_EQ(after->estimate.formula, before.estimate.formula);
  EXPECT_EQ(after->estimate.confidence, before.estimate.confidence);
  EXPECT_EQ(after->estimate.part("weights"), gib(4));
  EXPECT_EQ(after->state, before.state);
  EXPECT_EQ(after->created_at, before.created_at);
  EXPECT_EQ(after->state_since, before.state_since);
  EXPECT_EQ(after->ready_at, before.ready_at);
  EXPECT_EQ(after->served_name, before.served_name);
  EXPECT_EQ(after->port, before.port);
  EXPECT_EQ(after->priority, before.priority);
  EXPECT_EQ(after->pinned, before.pinned);
  EXPECT_EQ(after->labels, before.labels);
  EXPECT_EQ(after->instance, before.instance);
  EXPECT_EQ(after->engine_device_bytes, before.engine_device_bytes);
  EXPECT_EQ(after->footprint, before.footprint);
  ASSERT_TRUE(after->failure);
  EXPECT_EQ(after->failure->last_lines, before.failure->last_lines);
  ASSERT_TRUE(after->idle);
  EXPECT_EQ(after->idle->since, before.idle->since);
  EXPECT_EQ(after->idle->work_done, 42);
  EXPECT_FALSE(after->idle->watched) << "nobody watched it meanwhile";
}

TEST(DeploymentDocument, AbsentStaysAbsent) {
  Deployment before;
  before.config =
      engine::VllmConfig{.max_model_len = 1, .max_num_seqs = 1, .max_num_batched_tokens = 1, .kv_tokens = {}};
  before.name = "chat";
  const auto after = from_document({1}, to_document(before));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_FALSE(after->instance);
  EXPECT_FALSE(after->ready_at);
  EXPECT_FALSE(after->footprint);
  EXPECT_FALSE(after->failure);
}

TEST(DeploymentDocument, FieldOfALaterVersionIsIgnored) {
  auto document = boost::json::parse(to_document(full_deployment()));
  document.as_object()["invented_later"] = 1;
  EXPECT_TRUE(from_document({7}, boost::json::serialize(document)));
}

TEST(DeploymentDocument, EveryStateIsReadAgain) {
  using deployment::State;
  for (const auto state : {State::starting, State::loading, State::ready, State::sleeping, State::stopping,
                           State::stopped, State::failed, State::unknown}) {
    auto before = full_deployment();
    before.state = state;
    const auto after = from_document({7}, to_document(before));
    ASSERT_TRUE(after);
    EXPECT_EQ(after->state, state);
  }
}

TEST(DeploymentDocument, DamagedDocumentsAreErrorsThatNameTheField) {
  EXPECT_EQ(from_document({1}, "").error().code, "bad_json");
  EXPECT_EQ(from_document({1}, "{").error().code, "bad_json");
  EXPECT_EQ(from_document({1}, "{}").error().code, "missing_field");
  for (const auto* field : {"state", "config", "estimate", "request"}) {
    auto document = boost::json::parse(to_document(full_deployment()));
    document.as_object()[field] = "nonsense";
    const auto result = from_document({7}, boost::json::serialize(document));
    ASSERT_FALSE(result) << field;
    EXPECT_EQ(result.error().where, field);
  }
}

TEST(DeploymentDocument, PortOutOfRangeIsAnErrorNotAnotherPort) {
  auto document = boost::json::parse(to_document(full_deployment()));
  document.as_object()["port"] = 65536 + 80;
  EXPECT_FALSE(from_document({7}, boost::json::serialize(document)));
}

}  // namespace
}  // namespace dgxmm::service
