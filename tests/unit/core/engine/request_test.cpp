#include "core/engine/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace dgxmm::engine {
namespace {

using testing::HasSubstr;

model::ModelDescription gguf() { return {.format = model::Format::gguf, .training_context = 8192}; }
model::ModelDescription folder() { return {.format = model::Format::safetensors, .training_context = 32768}; }
/// Takes pictures, and has a layer for multi-token prediction.
model::ModelDescription seeing_folder() {
  auto model = folder();
  model.encoders.emplace_back();
  model.nextn_layers.emplace_back();
  return model;
}

LlamaCppConfig llamacpp_of(const DeployRequest& request, const model::ModelDescription& model = gguf()) {
  const auto config = resolve(request, model, {});
  EXPECT_TRUE(config) << config.error().message;
  return config ? std::get<LlamaCppConfig>(*config) : LlamaCppConfig{};
}

VllmConfig vllm_of(const DeployRequest& request) {
  const auto config = resolve(request, folder(), {});
  EXPECT_TRUE(config) << config.error().message;
  return config ? std::get<VllmConfig>(*config) : VllmConfig{};
}

/// The field that is refused.
std::string refused(const DeployRequest& request, const model::ModelDescription& model) {
  const auto config = resolve(request, model, {});
  if (config) return "";
  EXPECT_EQ(config.error().code, "bad_field");
  EXPECT_THAT(config.error().message, testing::StartsWith(config.error().where + ": "));
  EXPECT_NE(config.error().hint, "") << config.error().message;
  return config.error().where;
}

TEST(Check, RefusesAResolvedConfigurationByTheEnginesOwnNames) {
  const auto where = [](const EngineConfig& config) {
    const auto checked = check(config);
    return checked ? std::string{} : checked.error().where;
  };
  const LlamaCppConfig llamacpp{.ctx_size = 4096};
  EXPECT_EQ(where(llamacpp), "");
  auto bad = llamacpp;
  bad.ctx_size = 128;
  EXPECT_EQ(where(bad), "ctx_size");
  bad = llamacpp;
  bad.parallel = 257;
  EXPECT_EQ(where(bad), "parallel");
  bad = llamacpp;
  bad.cache_type_v = CacheType::q8_0;
  bad.flash_attn = FlashAttention::off;
  EXPECT_EQ(where(bad), "flash_attn");
  EXPECT_EQ(where(VllmConfig{.max_model_len = 4096, .max_num_seqs = 4, .max_num_batched_tokens = 8192}), "");
  EXPECT_EQ(where(VllmConfig{.max_model_len = 4096, .max_num_seqs = 4, .max_num_batched_tokens = 3}),
            "max_num_batched_tokens");
}

TEST(Resolve, OpenSettingsTakeLlamaServersDefaults) {
  const auto config = llamacpp_of({});
  EXPECT_EQ(
      config,
      (LlamaCppConfig{
          .ctx_size = 8192, .parallel = 4, .kv_unified = true, .batch = 2048, .ubatch = 512, .cache_ram_mib = 1024}));
}

TEST(Resolve, SlotsThatWereAskedForHaveTheirOwnCaches) {
  EXPECT_FALSE(llamacpp_of({.parallel = 4}).kv_unified);
  EXPECT_FALSE(llamacpp_of({.sequences = 2}).kv_unified);
  EXPECT_TRUE(llamacpp_of({.parallel = 2, .kv_unified = true}).kv_unified);
  EXPECT_FALSE(llamacpp_of({.kv_unified = false}).kv_unified);
}

TEST(Resolve, OpenSettingsOfVllmAreFixedToo) {
  EXPECT_EQ(vllm_of({}), (VllmConfig{.max_model_len = 32768, .max_num_seqs = 256, .max_num_batched_tokens = 8192}));
  EXPECT_EQ(vllm_of({.max_num_batched_tokens = 64}).max_num_seqs, 64);
}

TEST(Resolve, DgxmmsOwnDefaultsComeFromItsSettings) {
  const auto config = resolve({}, gguf(), {.llamacpp_cache_ram_mib = 0});
  EXPECT_EQ(std::get<LlamaCppConfig>(*config).cache_ram_mib, 0);
}

TEST(Resolve, ContextAndSequencesWorkForBothEngines) {
  EXPECT_EQ(llamacpp_of({.context = 4096, .sequences = 2}).ctx_size, 4096);
  EXPECT_EQ(llamacpp_of({.context = 4096, .sequences = 2}).parallel, 2);
  EXPECT_EQ(vllm_of({.context = 4096, .sequences = 2}).max_model_len, 4096);
  EXPECT_EQ(vllm_of({.context = 4096, .sequences = 2}).max_num_seqs, 2);
  EXPECT_EQ(llamacpp_of({.context = 4096, .ctx_size = 4096}).ctx_size, 4096);
}

TEST(Resolve, TwoNamesOfOneSettingMustAgree) {
  EXPECT_EQ(refused({.context = 4096, .ctx_size = 8192}, gguf()), "context");
  EXPECT_EQ(refused({.sequences = 1, .parallel = 2}, gguf()), "sequences");
  EXPECT_EQ(refused({.context = 4096, .max_model_len = 8192}, folder()), "context");
  EXPECT_EQ(refused({.sequences = 1, .max_num_seqs = 2}, folder()), "sequences");
}

TEST(Resolve, TheTrainingContextIsTheDefaultAndNotALimit) {
  EXPECT_EQ(llamacpp_of({.ctx_size = 0}).ctx_size, 8192);  // llama-server's word for it
  EXPECT_EQ(llamacpp_of({.ctx_size = 16384}).ctx_size, 16384);
  EXPECT_EQ(llamacpp_of({}, {.training_context = 64}).ctx_size, 256);
  EXPECT_EQ(refused({}, {.format = model::Format::gguf}), "ctx_size");
  EXPECT_EQ(refused({}, {.format = model::Format::safetensors}), "max_model_len");
}

TEST(Resolve, TheEngineFollowsTheModelsFormat) {
  EXPECT_EQ(kind_of(*resolve({}, gguf(), {})), EngineKind::llamacpp);
  EXPECT_EQ(kind_of(*resolve({}, folder(), {})), EngineKind::vllm);
  EXPECT_EQ(kind_of(*resolve({.engine = "llamacpp"}, gguf(), {})), EngineKind::llamacpp);
  EXPECT_EQ(refused({.engine = "vllm"}, gguf()), "engine");
  EXPECT_EQ(refused({.engine = "llama.cpp"}, folder()), "engine");
  EXPECT_EQ(refused({.engine = "ollama"}, gguf()), "engine");
  EXPECT_THAT(resolve({.engine = "vllm"}, gguf(), {}).error().hint, HasSubstr("llama.cpp"));
}

TEST(Resolve, ASettingOfTheOtherEngineIsNamedWithItsEngine) {
  EXPECT_EQ(resolve({.max_model_len = 1}, gguf(), {}).error().message,
            "max_model_len: is a setting of vllm, and this model runs with llama.cpp");
  const std::vector<DeployRequest> for_vllm{
      {.max_model_len = 1},          {.max_num_seqs = 1},           {.kv_tokens = 1},
      {.max_num_batched_tokens = 1}, {.kv_cache_dtype = "fp8"},     {.enforce_eager = false},
      {.tensor_parallel_size = 1},   {.num_speculative_tokens = 1}, {.max_loras = 1},
      {.max_lora_rank = 16},         {.limit_mm_per_prompt = 0},    {.mm_processor_cache_gb = 1},
      {.quantization = "fp8"},       {.spec_method = "mtp"},        {.enable_lora = true},
      {.language_model_only = true}, {.sleep_mode = true}};
  for (const auto& request : for_vllm) EXPECT_NE(refused(request, gguf()), "");
  const std::vector<DeployRequest> for_llamacpp{
      {.ctx_size = 512},       {.parallel = 1},        {.batch = 1},
      {.ubatch = 1},           {.cache_ram_mib = 1},   {.cache_type_k = "f16"},
      {.cache_type_v = "f16"}, {.flash_attn = "auto"}, {.kv_unified = true},
      {.swa_full = false}};
  for (const auto& request : for_llamacpp) EXPECT_NE(refused(request, folder()), "");
}

TEST(Resolve, NumbersOutOfRangeAreRefusedByName) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{255}, kHuge}) {
    EXPECT_EQ(refused({.ctx_size = value}, gguf()), "ctx_size");
    EXPECT_EQ(refused({.context = value}, gguf()), "context");
  }
  for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{257}, kHuge}) {
    EXPECT_EQ(refused({.parallel = value}, gguf()), "parallel");
  }
  for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{0}, kHuge}) {
    EXPECT_EQ(refused({.batch = value}, gguf()), "batch");
    EXPECT_EQ(refused({.max_model_len = value}, folder()), "max_model_len");
    EXPECT_EQ(refused({.max_num_seqs = value}, folder()), "max_num_seqs");
    EXPECT_EQ(refused({.max_num_batched_tokens = value}, folder()), "max_num_batched_tokens");
    EXPECT_EQ(refused({.kv_tokens = value}, folder()), "kv_tokens");
    EXPECT_EQ(refused({.port = value}, gguf()), "port");
  }
  EXPECT_EQ(refused({.ubatch = 0}, gguf()), "ubatch");
  EXPECT_EQ(refused({.cache_ram_mib = -1}, gguf()), "cache_ram_mib");  // no limit
  EXPECT_EQ(refused({.port = 65536}, gguf()), "port");
  EXPECT_EQ(refused({.port = 65535}, gguf()), "");
}

TEST(Resolve, AnUbatchLargerThanTheBatchIsLoweredAsTheEngineDoes) {
  EXPECT_EQ(llamacpp_of({.batch = 128}).ubatch, 128);
  EXPECT_EQ(llamacpp_of({.ubatch = 4096}).ubatch, 2048);
}

TEST(Resolve, ANamedDraftModelDraftsAndMtpIsAskedForByName) {
  EXPECT_EQ(llamacpp_of({}).spec_type, SpecType::none);
  const auto draft = llamacpp_of({.draft_model = "/m/small.gguf"});
  EXPECT_EQ(draft.spec_type, SpecType::draft_simple);
  EXPECT_EQ(draft.draft_model, "/m/small.gguf");
  EXPECT_EQ(draft.spec_draft_n_max, 3);
  const auto mtp = llamacpp_of(
      {.cache_type_k = "q8_0", .spec_type = "draft-mtp", .spec_draft_n_max = 5, .cache_type_v_draft = "q8_0"});
  EXPECT_EQ(mtp.spec_type, SpecType::draft_mtp);
  EXPECT_EQ(mtp.spec_draft_n_max, 5);
  EXPECT_EQ(mtp.cache_type_k_draft, CacheType::f16) << "a draft does not inherit the cache types";
  EXPECT_EQ(mtp.cache_type_v_draft, CacheType::q8_0);
  EXPECT_EQ(vllm_of({.draft_model = "/m/small", .num_speculative_tokens = 3}).draft_model, "/m/small");
}

TEST(Resolve, SettingsOfADraftThatContradictEachOtherNameTheField) {
  EXPECT_EQ(refused({.spec_type = "draft-eagle3"}, gguf()), "spec_type");
  EXPECT_EQ(refused({.spec_type = "draft-simple"}, gguf()), "spec_type");
  EXPECT_EQ(refused({.draft_model = "/m.gguf", .spec_type = "draft-mtp"}, gguf()), "spec_type");
  EXPECT_EQ(refused({.draft_model = "/m.gguf", .spec_type = "none"}, gguf()), "spec_type");
  EXPECT_EQ(refused({.draft_model = ""}, gguf()), "draft_model");
  EXPECT_EQ(refused({.spec_draft_n_max = 3}, gguf()), "spec_draft_n_max");
  EXPECT_EQ(refused({.cache_type_k_draft = "f16"}, gguf()), "cache_type_k_draft");
  EXPECT_EQ(refused({.cache_type_v_draft = "f16"}, gguf()), "cache_type_v_draft");
  EXPECT_EQ(refused({.spec_type = "draft-mtp", .cache_type_v_draft = "q9"}, gguf()), "cache_type_v_draft");
  EXPECT_EQ(refused({.flash_attn = "off", .spec_type = "draft-mtp", .cache_type_v_draft = "q8_0"}, gguf()),
            "flash_attn");
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{64}, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_EQ(refused({.spec_type = "draft-mtp", .spec_draft_n_max = value}, gguf()), "spec_draft_n_max");
  }
  EXPECT_EQ(refused({.mmproj = "/m.gguf"}, folder()), "mmproj");
  EXPECT_EQ(refused({.spec_type = "draft-mtp"}, folder()), "spec_type");
}

TEST(Resolve, NoProjectorIsLoadedUnlessAsked) {
  EXPECT_EQ(llamacpp_of({}).mmproj, "");
  EXPECT_EQ(llamacpp_of({.mmproj = "none"}).mmproj, "");
  EXPECT_EQ(llamacpp_of({.mmproj = "/m/mmproj.gguf"}).mmproj, "/m/mmproj.gguf");
}

TEST(Resolve, WhatTheEngineWouldRefuseIsRefusedInItsWords) {
  const auto quantized_v = resolve({.cache_type_v = "q8_0", .flash_attn = "off"}, gguf(), {});
  ASSERT_FALSE(quantized_v);
  EXPECT_EQ(quantized_v.error().where, "flash_attn");
  EXPECT_THAT(quantized_v.error().message, HasSubstr("quantized V cache requires flash_attn to be enabled"));
  for (const std::string type : {"f32", "f16", "bf16"}) {
    EXPECT_EQ(refused({.cache_type_v = type, .flash_attn = "off"}, gguf()), "") << type;
  }
  EXPECT_EQ(refused({.cache_type_k = "q8_0", .flash_attn = "off"}, gguf()), "");
  EXPECT_EQ(refused({.cache_type_v = "q4_0"}, gguf()), "");  // auto: the engine switches it on
  EXPECT_EQ(refused({.max_num_seqs = 128, .max_num_batched_tokens = 64}, folder()), "max_num_batched_tokens");
}

TEST(Resolve, WordsAreOfTheEnginesLists) {
  EXPECT_EQ(refused({.cache_type_k = "q3"}, gguf()), "cache_type_k");
  EXPECT_EQ(refused({.cache_type_v = ""}, gguf()), "cache_type_v");
  EXPECT_EQ(refused({.flash_attn = "yes"}, gguf()), "flash_attn");
  EXPECT_EQ(refused({.kv_cache_dtype = "fp9"}, folder()), "kv_cache_dtype");
  EXPECT_THAT(resolve({.cache_type_k = "\x1b[2J"}, gguf(), {}).error().message, HasSubstr("'\\x1b[2J'"));
  EXPECT_EQ(vllm_of({.kv_cache_dtype = "fp8"}).kv_cache_dtype, "fp8");
}

TEST(Resolve, AServedNameIsOneName) {
  for (const std::string& name : std::vector<std::string>{"", "a,b", "a\nb", "\xff", std::string(257, 'a')}) {
    EXPECT_EQ(refused({.served_name = name}, gguf()), "served_name");
  }
  EXPECT_EQ(refused({.served_name = "org/Model 7B \xc3\xa4"}, gguf()), "");
}

TEST(WithConfig, SentAgainItResolvesToTheSameConfiguration) {
  const EngineConfig llamacpp = LlamaCppConfig{.ctx_size = 5000,
                                               .parallel = 3,
                                               .kv_unified = true,
                                               .cache_type_k = CacheType::q8_0,
                                               .cache_type_v = CacheType::iq4_nl,
                                               .batch = 1024,
                                               .ubatch = 256,
                                               .flash_attn = FlashAttention::on,
                                               .swa_full = true,
                                               .cache_ram_mib = 7,
                                               .spec_type = SpecType::draft_simple,
                                               .draft_model = "/m/small.gguf",
                                               .spec_draft_n_max = 5,
                                               .cache_type_k_draft = CacheType::q8_0,
                                               .cache_type_v_draft = CacheType::f32,
                                               .mmproj = "/m/mmproj.gguf"};
  const DeployRequest request{.model = "m", .context = 1, .sequences = 9, .labels = {{"a", "b"}}};
  const auto again = with_config(request, llamacpp);
  EXPECT_EQ(resolve(again, gguf(), {}), Result<EngineConfig>{llamacpp});
  EXPECT_EQ(again.model, "m");
  EXPECT_EQ(again.labels, request.labels);

  const EngineConfig vllm = VllmConfig{.max_model_len = 4096,
                                       .max_num_seqs = 4,
                                       .max_num_batched_tokens = 512,
                                       .kv_cache_dtype = "fp8",
                                       .kv_tokens = 9000,
                                       .enforce_eager = true,
                                       .draft_model = "/m/small",
                                       .tensor_parallel_size = 2,
                                       .quantization = "fp8",
                                       .spec_method = "eagle",
                                       .num_speculative_tokens = 3,
                                       .enable_lora = true,
                                       .max_loras = 2,
                                       .max_lora_rank = 64,
                                       .limit_mm_per_prompt = 4,
                                       .mm_processor_cache_gb = 2,
                                       .sleep_mode = true};
  EXPECT_EQ(resolve(with_config(request, vllm), seeing_folder(), {}), Result<EngineConfig>{vllm});

  const EngineConfig alone = LlamaCppConfig{.ctx_size = 5000};
  EXPECT_EQ(resolve(with_config(again, alone), gguf(), {}), Result<EngineConfig>{alone})
      << "companions are left behind";
}

TEST(Resolve, SpeculationIsWhatTheModelCanDo) {
  auto model = seeing_folder();
  EXPECT_EQ(refused({.spec_method = "eagle"}, model), "spec_method") << "without a head";
  EXPECT_EQ(refused({.draft_model = "/m", .num_speculative_tokens = 1, .spec_method = "mtp"}, model), "spec_method");
  EXPECT_EQ(refused({.draft_model = "/m"}, model), "num_speculative_tokens");
  EXPECT_EQ(refused({.draft_model = ""}, model), "draft_model");
  const auto resolved = [&](const DeployRequest& request) {
    return std::get<VllmConfig>(*resolve(request, model, {}));
  };
  EXPECT_EQ(resolved({.spec_method = "mtp"}).num_speculative_tokens, 1) << "vLLM's own default";
  EXPECT_EQ(refused({.spec_method = "mtp"}, folder()), "spec_method");
  EXPECT_EQ(refused({.num_speculative_tokens = 1, .spec_method = "medusa"}, model), "spec_method") << "not known";
  EXPECT_EQ(refused({.spec_method = "ngram"}, folder()), "num_speculative_tokens");
  EXPECT_EQ(refused({.num_speculative_tokens = 2}, model), "num_speculative_tokens");
  for (const std::int64_t value : {0, -1, 65}) {
    EXPECT_EQ(refused({.num_speculative_tokens = value, .spec_method = "mtp"}, model), "num_speculative_tokens");
  }
  EXPECT_EQ(resolved({.draft_model = "/m", .num_speculative_tokens = 5}).spec_method, "draft_model");
  EXPECT_EQ(resolved({.draft_model = "/m", .num_speculative_tokens = 5, .spec_method = "eagle3"}).spec_method,
            "eagle3");
  model.nextn_layers.resize(3);
  EXPECT_EQ(refused({.num_speculative_tokens = 4, .spec_method = "mtp"}, model), "num_speculative_tokens");
  EXPECT_EQ(resolved({.num_speculative_tokens = 6, .spec_method = "mtp"}).num_speculative_tokens, 6);
}

TEST(Resolve, E6_TheCacheOfPreparedPicturesIsBounded) {
  const auto cache = [](const DeployRequest& request, const model::ModelDescription& model) {
    return std::get<VllmConfig>(*resolve(request, model, {})).mm_processor_cache_gb;
  };
  EXPECT_EQ(cache({}, seeing_folder()), 1) << "not vLLM's own 4";
  EXPECT_EQ(cache({.mm_processor_cache_gb = 3}, seeing_folder()), 3);
  EXPECT_EQ(cache({.language_model_only = true}, seeing_folder()), std::nullopt);
  EXPECT_EQ(cache({.limit_mm_per_prompt = 0}, seeing_folder()), std::nullopt);
  EXPECT_EQ(cache({}, folder()), std::nullopt) << "a model that takes text only has none";
}

TEST(Resolve, WrongValuesOfTheNewerSettingsAreRefusedByName) {
  for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 62}) {
    EXPECT_EQ(refused({.tensor_parallel_size = value}, folder()), "tensor_parallel_size");
    EXPECT_EQ(refused({.max_loras = value, .enable_lora = true}, folder()), "max_loras");
    EXPECT_EQ(refused({.max_lora_rank = value, .enable_lora = true}, folder()), "max_lora_rank");
    if (value == 0) continue;
    EXPECT_EQ(refused({.limit_mm_per_prompt = value}, seeing_folder()), "limit_mm_per_prompt");
    EXPECT_EQ(refused({.mm_processor_cache_gb = value}, seeing_folder()), "mm_processor_cache_gb");
  }
  EXPECT_EQ(refused({.max_lora_rank = 17, .enable_lora = true}, folder()), "max_lora_rank") << "vLLM has steps";
  EXPECT_EQ(refused({.max_loras = 2}, folder()), "max_loras") << "without enable_lora";
  EXPECT_EQ(refused({.quantization = "q4_0"}, folder()), "quantization");
  EXPECT_EQ(refused({.quantization = ""}, folder()), "");
}

TEST(ConfigurationKey, C3_SettingsThatAreOffLeaveTheKeyAsItWas) {
  EXPECT_EQ(configuration_key(VllmConfig{.max_model_len = 1, .max_num_seqs = 2, .max_num_batched_tokens = 3}),
            "vllm max_model_len=1 max_num_seqs=2 max_num_batched_tokens=3 kv_tokens=default enforce_eager=false "
            "kv_cache_dtype=auto");
}

TEST(ConfigurationKey, C7_IsEqualExactlyWhenTheConfigurationsAre) {
  std::vector<EngineConfig> all;
  const auto vary = [&]<class Config>(const Config& base, const std::vector<std::function<void(Config&)>>& changes) {
    all.emplace_back(base);
    for (const auto& change : changes) {
      auto config = base;
      change(config);
      all.emplace_back(config);
    }
  };
  vary(LlamaCppConfig{},
       {[](LlamaCppConfig& c) { c.ctx_size = 1; }, [](LlamaCppConfig& c) { c.parallel = 1; },
        [](LlamaCppConfig& c) { c.kv_unified = false; }, [](LlamaCppConfig& c) { c.cache_type_k = CacheType::q8_0; },
        [](LlamaCppConfig& c) { c.cache_type_v = CacheType::q8_0; }, [](LlamaCppConfig& c) { c.batch = 1; },
        [](LlamaCppConfig& c) { c.ubatch = 1; }, [](LlamaCppConfig& c) { c.flash_attn = FlashAttention::off; },
        [](LlamaCppConfig& c) { c.swa_full = true; }, [](LlamaCppConfig& c) { c.cache_ram_mib = 1; },
        [](LlamaCppConfig& c) { c.mmproj = "/m/mmproj.gguf"; },
        [](LlamaCppConfig& c) { c.spec_type = SpecType::draft_simple; }});
  vary(LlamaCppConfig{.spec_type = SpecType::draft_mtp},
       {[](LlamaCppConfig& c) { c.spec_draft_n_max = 1; },
        [](LlamaCppConfig& c) { c.cache_type_k_draft = CacheType::q8_0; },
        [](LlamaCppConfig& c) { c.cache_type_v_draft = CacheType::q8_0; }});
  vary(VllmConfig{},
       {[](VllmConfig& c) { c.max_model_len = 1; }, [](VllmConfig& c) { c.max_num_seqs = 1; },
        [](VllmConfig& c) { c.max_num_batched_tokens = 1; }, [](VllmConfig& c) { c.kv_cache_dtype = "fp8"; },
        [](VllmConfig& c) { c.kv_tokens = 0; }, [](VllmConfig& c) { c.enforce_eager = true; },
        [](VllmConfig& c) { c.draft_model = "/m/small"; }, [](VllmConfig& c) { c.tensor_parallel_size = 2; },
        [](VllmConfig& c) { c.quantization = "fp8"; }, [](VllmConfig& c) { c.spec_method = "mtp"; },
        [](VllmConfig& c) { c.num_speculative_tokens = 2; }, [](VllmConfig& c) { c.enable_lora = true; },
        [](VllmConfig& c) { c.max_loras = 2; }, [](VllmConfig& c) { c.max_lora_rank = 8; },
        [](VllmConfig& c) { c.language_model_only = true; }, [](VllmConfig& c) { c.limit_mm_per_prompt = 0; },
        [](VllmConfig& c) { c.mm_processor_cache_gb = 0; }, [](VllmConfig& c) { c.sleep_mode = true; }});
  std::set<std::string> keys;
  for (const auto& config : all) {
    keys.insert(configuration_key(config));
    EXPECT_EQ(configuration_key(config), configuration_key(EngineConfig{config}));
    EXPECT_EQ(configuration_key(config).find('\n'), std::string::npos);
  }
  EXPECT_EQ(keys.size(), all.size());
}

TEST(CacheTypes, EveryNameReadsBack) {
  for (const auto type : {CacheType::f32, CacheType::f16, CacheType::bf16, CacheType::q8_0, CacheType::q5_1,
                          CacheType::q5_0, CacheType::q4_1, CacheType::q4_0, CacheType::iq4_nl}) {
    EXPECT_EQ(parse_cache_type(name_of(type)), Result<CacheType>{type});
  }
  EXPECT_EQ(parse_cache_type("F16").error().code, "bad_field");
}

TEST(EngineNames, ReadBack) {
  for (const auto kind : {EngineKind::llamacpp, EngineKind::vllm}) {
    EXPECT_EQ(parse_engine(display_name(kind)), Result<EngineKind>{kind});
  }
}

}  // namespace
}  // namespace dgxmm::engine
