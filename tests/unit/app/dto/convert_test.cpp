#include "app/dto/convert.h"

#include "app/dto/dto_json.h"
#include "core/engine/request.h"

namespace dgxmm::dto {
namespace {

engine::LlamaCppConfig odd_llamacpp() {
  engine::LlamaCppConfig config;
  config.ctx_size = 12345;
  config.parallel = 3;
  config.kv_unified = false;
  config.cache_type_k = engine::CacheType::q8_0;
  config.cache_type_v = engine::CacheType::iq4_nl;
  config.batch = 1000;
  config.ubatch = 100;
  config.flash_attn = engine::FlashAttention::on;
  config.swa_full = true;
  config.cache_ram_mib = 0;
  return config;
}

/// With everything that can be loaded beside the model.
engine::LlamaCppConfig accompanied_llamacpp() {
  auto config = odd_llamacpp();
  config.spec_type = engine::SpecType::draft_simple;
  config.draft_model = "/models/small.gguf";
  config.spec_draft_n_max = 7;
  config.cache_type_k_draft = engine::CacheType::q8_0;
  config.cache_type_v_draft = engine::CacheType::bf16;
  config.mmproj = "/models/mmproj.gguf";
  return config;
}

TEST(Convert, ConfigurationsSurviveTheWayThroughJson) {
  engine::VllmConfig vllm;
  vllm.max_model_len = 4096;
  vllm.max_num_seqs = 7;
  vllm.max_num_batched_tokens = 8192;
  vllm.kv_cache_dtype = "fp8";
  vllm.kv_tokens = 9999;
  vllm.enforce_eager = true;
  engine::VllmConfig open_pool = vllm;
  open_pool.kv_tokens.reset();
  open_pool.draft_model = "/models/small";
  open_pool.tensor_parallel_size = 2;
  open_pool.quantization = "fp8";
  open_pool.spec_method = "mtp";
  open_pool.num_speculative_tokens = 3;
  open_pool.enable_lora = true;
  open_pool.max_loras = 2;
  open_pool.max_lora_rank = 8;
  open_pool.language_model_only = true;
  open_pool.limit_mm_per_prompt = 4;
  open_pool.mm_processor_cache_gb = 2;
  open_pool.sleep_mode = true;
  for (const engine::EngineConfig& config :
       {engine::EngineConfig{odd_llamacpp()}, engine::EngineConfig{accompanied_llamacpp()}, engine::EngineConfig{vllm},
        engine::EngineConfig{open_pool}}) {
    const auto document = json::parse(json::encode(to_dto(config)));
    ASSERT_TRUE(document);
    const auto decoded = json::decode<Config>(*document, json::Unknown::reject);
    ASSERT_TRUE(decoded);
    const auto back = from_dto(*decoded);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, config) << engine::configuration_key(config);
  }
}

TEST(Convert, SettingsOfTheOtherEngineAreNull) {
  const auto config = to_dto(engine::EngineConfig{odd_llamacpp()});
  EXPECT_FALSE(config.max_model_len);
  EXPECT_FALSE(config.enforce_eager);
  EXPECT_EQ(config.engine, "llama.cpp");
}

TEST(Convert, SettingsOfADraftThatNobodyMakesAreNull) {
  const auto config = to_dto(engine::EngineConfig{odd_llamacpp()});
  EXPECT_FALSE(config.spec_type || config.draft_model || config.mmproj || config.spec_draft_n_max);
}

TEST(Convert, EstimateSurvivesTheWayThroughJson) {
  using memory::Source;
  memory::Estimate estimate;
  for (const auto source : {Source::file_size, Source::formula, Source::engine_default, Source::setting,
                            Source::calibrated, Source::measured}) {
    estimate.parts.push_back({"part", mib(7), source, "detail"});
  }
  estimate.total = gib(5);
  estimate.formula = gib(4);
  estimate.missing_fields = {"head_dim"};
  estimate.contradictions = {"one", "two"};
  estimate.total_source = "because";
  for (const auto confidence : {memory::Confidence::low, memory::Confidence::estimated, memory::Confidence::calibrated,
                                memory::Confidence::measured}) {
    estimate.confidence = confidence;
    const auto back = from_dto(to_dto(estimate));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->confidence, confidence);
    EXPECT_EQ(back->total, estimate.total);
    EXPECT_EQ(back->formula, estimate.formula);
    EXPECT_EQ(back->missing_fields, estimate.missing_fields);
    EXPECT_EQ(back->contradictions, estimate.contradictions);
    ASSERT_EQ(back->parts.size(), estimate.parts.size());
    for (std::size_t i = 0; i < estimate.parts.size(); ++i) EXPECT_EQ(back->parts[i].source, estimate.parts[i].source);
  }
}

TEST(Convert, WordsThatNobodyKnowsAreErrors) {
  Config config = to_dto(engine::EngineConfig{odd_llamacpp()});
  for (const auto change :
       {+[](Config& c) { c.engine = "sglang"; }, +[](Config& c) { c.cache_type_k = "q3"; },
        +[](Config& c) { c.cache_type_v = ""; }, +[](Config& c) { c.flash_attn = "maybe"; },
        +[](Config& c) { c.spec_type = "draft-x"; }, +[](Config& c) { c.cache_type_v_draft = ""; }}) {
    auto changed = config;
    change(changed);
    EXPECT_FALSE(from_dto(changed));
  }
  Estimate estimate = to_dto(memory::Estimate{});
  estimate.confidence = "certain";
  EXPECT_FALSE(from_dto(estimate));
  estimate = to_dto(memory::Estimate{});
  estimate.parts.push_back({"kv", gib(1), "guessed", {}});
  EXPECT_FALSE(from_dto(estimate));
}

TEST(Convert, B7_MeasureWithAnUnknownPartIsIncompleteAndNullIsNotZero) {
  const memory::Measured all{.anon = gib(1), .kernel = Bytes{0}, .shmem = Bytes{0}, .gpu = gib(2)};
  EXPECT_TRUE(to_dto(all).complete);
  EXPECT_EQ(to_dto(all).total_bytes, gib(3));
  auto part = all;
  part.gpu.reset();
  EXPECT_FALSE(to_dto(part).complete);
  EXPECT_NE(json::encode(to_dto(part)).find("\"gpu_bytes\":null"), std::string::npos);
}

TEST(Convert, WhatWasForgottenIsSaidInASentence) {
  Calibrations forgotten;
  forgotten.records = {{"a", "smol", "0123", "k", gib(2), gib(3), ""}};
  EXPECT_EQ(forgotten_text(forgotten), "smol: forgot 1 measurement");
  forgotten.oom_floors = {{"b", "smol", "0123", "k", gib(9), 2, "", ""}, {"c", "smol", "0123", "l", gib(8), 1, "", ""}};
  EXPECT_EQ(forgotten_text(forgotten),
            "smol: forgot 1 measurement and 2 sizes that ran out of memory (9.0 GiB, 8.0 GiB)");
  forgotten.asleep = {{"d", "smol", "0123", "k", 1, gib(1), gib(1), ""}};
  forgotten.durations.resize(2);
  EXPECT_THAT(forgotten_text(forgotten), testing::EndsWith(", 1 size asleep and 2 durations"));
}

TEST(Convert, AForgottenModelThatNoDeploymentNamesIsNamedByItsWeights) {
  Calibrations forgotten;
  forgotten.records = {{"a", "", "0123456789abcdef", "k", gib(2), gib(3), ""}};
  EXPECT_EQ(forgotten_text(forgotten), "weights 0123456789ab: forgot 1 measurement");
}

}  // namespace
}  // namespace dgxmm::dto
