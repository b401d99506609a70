#include "core/engine/engine.h"

#include "data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dgxmm::engine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Not;

using Flags = std::set<std::string, std::less<>>;

LaunchSpec llama_spec() {
  return {.executable = "/opt/llama-server",
          .model_path = "/models/a b;$(rm -rf).gguf",
          .served_name = "small",
          .port = 18080,
          .config = LlamaCppConfig{.ctx_size = 4096, .parallel = 2, .kv_unified = false}};
}

/// The value behind a flag; fails the test when the flag is not there exactly once.
std::string value_of(const Command& command, const std::string& flag) {
  const auto& arguments = command.arguments;
  EXPECT_EQ(std::ranges::count(arguments, flag), 1) << flag;
  const auto found = std::ranges::find(arguments, flag);
  return found == arguments.end() || found + 1 == arguments.end() ? "" : *(found + 1);
}

TEST(LlamaCppCommand, EverySettingIsWrittenOut) {
  auto spec = llama_spec();
  std::get<LlamaCppConfig>(spec.config).cache_type_k = CacheType::q8_0;
  std::get<LlamaCppConfig>(spec.config).flash_attn = FlashAttention::on;
  const auto command = make_command(spec);
  EXPECT_EQ(command.arguments.front(), "/opt/llama-server");
  EXPECT_EQ(value_of(command, "--model"), "/models/a b;$(rm -rf).gguf");  // one argument: no shell reads it
  EXPECT_EQ(value_of(command, "--alias"), "small");
  EXPECT_EQ(value_of(command, "--host"), "127.0.0.1");
  EXPECT_EQ(value_of(command, "--port"), "18080");
  EXPECT_EQ(value_of(command, "--ctx-size"), "4096");
  EXPECT_EQ(value_of(command, "--parallel"), "2");
  EXPECT_EQ(value_of(command, "--cache-type-k"), "q8_0");
  EXPECT_EQ(value_of(command, "--cache-type-v"), "f16");
  EXPECT_EQ(value_of(command, "--batch-size"), "2048");
  EXPECT_EQ(value_of(command, "--ubatch-size"), "512");
  EXPECT_EQ(value_of(command, "--flash-attn"), "on");
  EXPECT_EQ(value_of(command, "--cache-ram"), "1024");
  EXPECT_EQ(value_of(command, "--load-mode"), "none");
  EXPECT_EQ(value_of(command, "--fit"), "off");
  EXPECT_EQ(value_of(command, "--log-verbosity"), "4");
  EXPECT_THAT(command.arguments, IsSupersetOf({"--no-kv-unified", "--metrics", "--no-ui", "--offline"}));
  EXPECT_THAT(command.arguments, Not(Contains("--swa-full")));
  EXPECT_THAT(command.arguments, Not(Contains("--no-mmap")));
  EXPECT_TRUE(command.environment.empty());
}

TEST(LlamaCppCommand, SwitchesFollowTheConfiguration) {
  auto spec = llama_spec();
  std::get<LlamaCppConfig>(spec.config).kv_unified = true;
  std::get<LlamaCppConfig>(spec.config).swa_full = true;
  const auto command = make_command(spec);
  EXPECT_THAT(command.arguments, IsSupersetOf({"--kv-unified", "--swa-full"}));
  EXPECT_THAT(command.arguments, Not(Contains("--no-kv-unified")));
}

TEST(LlamaCppCommand, AnOlderBuildGetsOnlyFlagsThatItKnows) {
  auto spec = llama_spec();
  spec.supported_flags = {"--model", "--no-mmap", "--no-webui", "--kv-unified"};
  const auto command = make_command(spec);
  EXPECT_THAT(command.arguments, IsSupersetOf({"--no-mmap", "--no-webui"}));
  for (const auto* flag : {"--load-mode", "--fit", "--offline", "--cache-ram", "--no-kv-unified", "--no-ui"}) {
    EXPECT_THAT(command.arguments, Not(Contains(flag)));
  }
}

LaunchSpec drafting_spec() {
  auto spec = llama_spec();
  auto& config = std::get<LlamaCppConfig>(spec.config);
  config.spec_type = SpecType::draft_simple;
  config.draft_model = "/models/small.gguf";
  config.spec_draft_n_max = 5;
  config.cache_type_k_draft = CacheType::q8_0;
  config.mmproj = "/models/mmproj.gguf";
  return spec;
}

TEST(LlamaCppCommand, WhatIsLoadedBesideTheModelIsWrittenOut) {
  const auto command = make_command(drafting_spec());
  // Without its type the server loads a draft model and does not use it.
  EXPECT_EQ(value_of(command, "--spec-type"), "draft-simple");
  EXPECT_EQ(value_of(command, "--spec-draft-model"), "/models/small.gguf");
  EXPECT_EQ(value_of(command, "--spec-draft-n-max"), "5");
  EXPECT_EQ(value_of(command, "--spec-draft-type-k"), "q8_0");
  EXPECT_EQ(value_of(command, "--spec-draft-type-v"), "f16");
  EXPECT_EQ(value_of(command, "--mmproj"), "/models/mmproj.gguf");

  auto mtp = drafting_spec();
  auto& config = std::get<LlamaCppConfig>(mtp.config);
  config.spec_type = SpecType::draft_mtp;
  config.draft_model.clear();
  EXPECT_EQ(value_of(make_command(mtp), "--spec-type"), "draft-mtp");
  EXPECT_THAT(make_command(mtp).arguments, Not(Contains("--spec-draft-model")));

  for (const auto& argument : make_command(llama_spec()).arguments) {
    EXPECT_FALSE(argument.starts_with("--spec") || argument == "--mmproj") << argument;
  }
}

TEST(LlamaCppCommand, AnOlderBuildGetsTheOlderNamesOfADraft) {
  auto spec = drafting_spec();
  spec.supported_flags = {"--model", "--model-draft", "--draft-max", "--cache-type-k-draft", "--mmproj"};
  const auto command = make_command(spec);
  EXPECT_EQ(value_of(command, "--model-draft"), "/models/small.gguf");
  EXPECT_EQ(value_of(command, "--draft-max"), "5");
  EXPECT_EQ(value_of(command, "--cache-type-k-draft"), "q8_0");
  for (const auto* flag : {"--spec-type", "--spec-draft-model", "--spec-draft-type-v", "--cache-type-v-draft"}) {
    EXPECT_THAT(command.arguments, Not(Contains(flag)));
  }
  // It has to refuse what it cannot do, not to serve without.
  std::get<LlamaCppConfig>(spec.config).spec_type = SpecType::draft_mtp;
  EXPECT_EQ(value_of(make_command(spec), "--spec-type"), "draft-mtp");
}

TEST(LlamaCppCommand, TheRecordedBuildKnowsEveryFlagThatItGets) {
  auto spec = drafting_spec();
  std::get<LlamaCppConfig>(spec.config).swa_full = true;
  spec.supported_flags = parse_help_flags(recording("llama-server-0.7-b11669-help.txt"));
  const auto command = make_command(spec);
  for (const auto& argument : command.arguments) {
    if (argument.starts_with("--")) EXPECT_THAT(spec.supported_flags, Contains(argument));
  }
  EXPECT_EQ(command.arguments, make_command([&] {
                                 auto current = spec;
                                 current.supported_flags.clear();
                                 return current;
                               }())
                                   .arguments);
}

TEST(VllmCommand, WhatIsOffByDefaultIsPassedOnlyWhenItIsOn) {
  const auto arguments = make_command({.executable = "vllm",
                                       .model_path = "/models/m",
                                       .served_name = "m",
                                       .port = 1,
                                       .config = VllmConfig{.draft_model = R"(/m/"small")",
                                                            .tensor_parallel_size = 2,
                                                            .quantization = "fp8",
                                                            .spec_method = "draft_model",
                                                            .num_speculative_tokens = 3,
                                                            .enable_lora = true,
                                                            .max_loras = 2,
                                                            .max_lora_rank = 8,
                                                            .language_model_only = true,
                                                            .limit_mm_per_prompt = 4,
                                                            .mm_processor_cache_gb = 1}})
                             .arguments;
  const std::vector<std::string> expected{
      "--tensor-parallel-size",
      "2",
      "--quantization",
      "fp8",
      "--speculative-config",
      R"({"method":"draft_model","num_speculative_tokens":3,"model":"/m/\"small\""})",
      "--enable-lora",
      "--max-loras",
      "2",
      "--max-lora-rank",
      "8",
      "--language-model-only",
      "--limit-mm-per-prompt",
      R"({"image":4,"video":4,"audio":4})",
      "--mm-processor-cache-gb",
      "1"};
  ASSERT_GE(arguments.size(), expected.size());
  EXPECT_EQ(std::vector(arguments.end() - static_cast<std::ptrdiff_t>(expected.size()), arguments.end()), expected);
}

TEST(VllmCommand, EveryDefaultThatMovesIsWrittenOut) {
  const auto command = make_command({.executable = "vllm",
                                     .model_path = "/models/m",
                                     .served_name = "m",
                                     .port = 1,
                                     .config = VllmConfig{.max_model_len = 4096,
                                                          .max_num_seqs = 8,
                                                          .max_num_batched_tokens = 2048,
                                                          .kv_cache_dtype = "fp8",
                                                          .enforce_eager = true}});
  EXPECT_THAT(command.arguments,
              ElementsAre("vllm", "serve", "/models/m", "--served-model-name", "m", "--host", "127.0.0.1", "--port",
                          "1", "--max-model-len", "4096", "--max-num-seqs", "8", "--max-num-batched-tokens", "2048",
                          "--kv-cache-dtype", "fp8", "--enforce-eager"));
}

struct ImageOfVllm {
  const char* name;
  std::vector<std::string> entrypoint;
  std::vector<std::string> first_words;  ///< of the container; an empty one is the image's own entrypoint
};

class VllmImage : public testing::TestWithParam<ImageOfVllm> {};

TEST_P(VllmImage, GetsTheWordsThatItsEntrypointDoesNotSay) {
  const auto& [name, entrypoint, first_words] = GetParam();
  const auto command = make_command({.image_entrypoint = entrypoint,
                                     .model_path = "/models/m",
                                     .served_name = "m",
                                     .host = "0.0.0.0",
                                     .port = 8080,
                                     .config = VllmConfig{}});
  ASSERT_GT(command.arguments.size(), first_words.size());
  EXPECT_EQ(std::vector<std::string>(command.arguments.begin(),
                                     command.arguments.begin() + static_cast<std::ptrdiff_t>(first_words.size())),
            first_words);
  EXPECT_EQ(command.arguments[first_words.size()], "--served-model-name");
  EXPECT_EQ(value_of(command, "--host"), "0.0.0.0");
}

INSTANTIATE_TEST_SUITE_P(
    Entrypoints, VllmImage,
    testing::Values(ImageOfVllm{"official", {"vllm", "serve"}, {"", "/models/m"}},
                    ImageOfVllm{"official_older",
                                {"python3", "-m", "vllm.entrypoints.openai.api_server"},
                                {"", "--model", "/models/m"}},
                    ImageOfVllm{"program", {"/usr/local/bin/vllm"}, {"", "serve", "/models/m"}},
                    ImageOfVllm{"nvidia", {"/opt/nvidia/nvidia_entrypoint.sh"}, {"", "vllm", "serve", "/models/m"}},
                    ImageOfVllm{"shell_line", {"/bin/sh", "-c", "vllm serve $MODEL"}, {"vllm", "serve", "/models/m"}},
                    ImageOfVllm{"none", {}, {"vllm", "serve", "/models/m"}}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(VllmCommand, InAContainerWhatItCompilesIsKeptAndNothingIsFetched) {
  LaunchSpec spec{.executable = "vllm", .model_path = "/models/m", .served_name = "m", .config = VllmConfig{}};
  const auto variable = [&](std::string_view name) {
    std::string value;
    for (const auto& [key, text] : make_command(spec).environment) {
      if (key == name) value = text;
    }
    return value;
  };
  EXPECT_EQ(variable("VLLM_CACHE_ROOT"), "") << "a process has the user's";
  spec.image_entrypoint.emplace();
  EXPECT_EQ(variable("VLLM_CACHE_ROOT"), "/var/cache/dgxmm/vllm");
  EXPECT_EQ(variable("HF_HUB_OFFLINE"), "1");
  EXPECT_EQ(variable("VLLM_SERVER_DEV_MODE"), "");
  std::get<VllmConfig>(spec.config).sleep_mode = true;
  EXPECT_EQ(variable("VLLM_SERVER_DEV_MODE"), "1");
}

TEST(HelpFlags, AllSpellingsOfARealHelpAreFound) {
  const auto flags = parse_help_flags(recording("llama-server-0.7-b11669-help.txt"));
  EXPECT_THAT(flags, IsSupersetOf({"-h", "--help", "-c", "--ctx-size", "-fa", "--flash-attn", "--swa-full", "-kvu",
                                   "--no-kv-unified", "-no-kvu", "--load-mode", "--no-webui", "--metrics", "-hfr"}));
  // Named in descriptions only, or removed.
  EXPECT_THAT(flags, Not(Contains("--no-mmap")));
  EXPECT_THAT(flags, Not(Contains("--draft-max")));
}

TEST(HelpFlags, ArgparsesLayoutIsUnderstood) {
  EXPECT_EQ(parse_help_flags("usage: vllm serve [-h] [--not-here]\n\n"
                             "  -h, --help            show this, see --other\n"
                             "  -q QUANT, --quantization QUANT\n"
                             "                        --continued description\n"
                             "  --api-key API_KEY [API_KEY ...]\n"
                             "  --enforce-eager, --no-enforce-eager\n"),
            (Flags{"-h", "--help", "-q", "--quantization", "--api-key", "--enforce-eager", "--no-enforce-eager"}));
}

TEST(HelpFlags, TextWithoutFlagsHasNone) {
  EXPECT_EQ(parse_help_flags(""), Flags{});
  EXPECT_EQ(parse_help_flags("-\n--\n---x\n-1\n----- common params -----\nno flags\n"), Flags{});
}

TEST(Activity, IsReadFromRealMetrics) {
  const auto idle = parse_activity(EngineKind::llamacpp, recording("llama-server-0.7-b11669-metrics-idle.txt"));
  EXPECT_EQ(idle.requests_running, 0);
  EXPECT_EQ(idle.requests_waiting, 0);
  EXPECT_EQ(idle.busy(), false);
  const auto busy = parse_activity(EngineKind::llamacpp, recording("llama-server-0.7-b11669-metrics-busy.txt"));
  EXPECT_EQ(busy.requests_running, 1);
  EXPECT_EQ(busy.busy(), true);
  EXPECT_EQ(idle.work_done, 0);
  EXPECT_EQ(busy.work_done, 56 + 8 + 35) << "tokens of prompts, of answers, and calls of the model";
}

TEST(Activity, OfSeveralVllmEnginesIsSummedAndOtherMetricsAreNot) {
  const auto activity = parse_activity(EngineKind::vllm,
                                       "# TYPE vllm:num_requests_running gauge\n"
                                       "vllm:num_requests_running{engine=\"0\",model_name=\"a } b\\\" 9\"} 2.0\n"
                                       "vllm:num_requests_running{engine=\"1\",model_name=\"a\"} 1.0 1700000000000\n"
                                       "vllm:num_requests_waiting{engine=\"0\"} 0.0\n"
                                       "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 7.0\n");
  EXPECT_EQ(activity.requests_running, 3);
  EXPECT_EQ(activity.requests_waiting, 0);
  EXPECT_EQ(activity.work_done, std::nullopt);
}

TEST(Activity, WorkOfVllmIsWhatItReadAndWrote) {
  const auto activity = parse_activity(EngineKind::vllm,
                                       "vllm:prompt_tokens_total{engine=\"0\"} 2.5e+09\n"
                                       "vllm:prompt_tokens_total{engine=\"1\"} 40.0\n"
                                       "vllm:prompt_tokens_cached_total{engine=\"0\"} 7.0\n"
                                       "vllm:generation_tokens_total{engine=\"0\"} 2.0\n");
  EXPECT_EQ(activity.work_done, 2'500'000'042);
}

TEST(Activity, B7_WhatTheEngineDoesNotSayIsUnknown) {
  for (const std::string text : {"", R"({"error":{"message":"Loading model"}})", "llamacpp:requests_processing NaN\n",
                                 "llamacpp:requests_processing -1\n", "llamacpp:requests_processing +Inf\n",
                                 "llamacpp:requests_processing\n", "llamacpp:requests_processing 1e300\n",
                                 "llamacpp:requests_processing{a=\"} 1\n", "llamacpp:requests_processing_total 1\n"}) {
    EXPECT_EQ(parse_activity(EngineKind::llamacpp, text).requests_running, std::nullopt) << text;
  }
  EXPECT_EQ(Activity{}.busy(), std::nullopt);
  EXPECT_EQ((Activity{.requests_running = 0}.busy()), std::nullopt);
  EXPECT_EQ((Activity{.requests_waiting = 1}.busy()), true);
}

TEST(NamesModel, TheIdOrAnAliasMustMatchExactly) {
  const auto page = recording("llama-server-0.7-b11669-v1-models.json");
  EXPECT_EQ(names_model(page, "/models/SmolLM2-135M-Instruct.Q4_1.gguf"), true);
  EXPECT_EQ(names_model(page, "SmolLM2-135M-Instruct.Q4_1.gguf"), false);
  EXPECT_EQ(names_model(R"({"data": [{"id": "a", "aliases": ["b", 3]}]})", "b"), true);
  EXPECT_EQ(names_model(R"({"data": [{"id": "a", "aliases": "b"}]})", "b"), false);
}

TEST(NamesModel, AnAnswerOfAnotherShapeNamesNothing) {
  for (const std::string text : {R"({"error":{"message":"Loading model","code":503}})", "[]", "1", "null",
                                 R"({"data": {}})", R"({"data": [1, null, {"id": 5}]})"}) {
    EXPECT_EQ(names_model(text, "a"), false) << text;
  }
  EXPECT_EQ(names_model("<html>", "a").error().code, "bad_json");
}

TEST(Engine, LinesThatOurQuestionsLeaveInTheLogAreRoutine) {
  EXPECT_TRUE(is_routine_line("0.00.227.386 I srv  update_slots: all slots are idle"));
  EXPECT_FALSE(is_routine_line("0.00.227.296 I srv  llama_server: model loaded"));
  EXPECT_FALSE(is_routine_line(""));
}

}  // namespace
}  // namespace dgxmm::engine
