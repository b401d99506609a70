#include "core/engine/request.h"
#include "core/engine/vllm.h"
#include "data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace dgxmm::engine {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

// The answers are those of vLLM 0.32.0 on a CPU, with VLLM_SERVER_DEV_MODE=1.

LaunchSpec spec_with(bool sleep_mode) {
  VllmConfig config;
  config.max_model_len = 1024;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 1024;
  config.sleep_mode = sleep_mode;
  LaunchSpec spec;
  spec.executable = "vllm";
  spec.model_path = "/models/tiny";
  spec.served_name = "tiny";
  spec.port = 8000;
  spec.guard_secret = "0123456789abcdef";
  spec.config = config;
  return spec;
}

TEST(VllmSleep, OnlySleepModeOpensTheRoutesForIt) {
  const auto with = make_command(spec_with(true));
  EXPECT_THAT(with.arguments, Contains("--enable-sleep-mode"));
  EXPECT_THAT(with.environment, Contains(Pair("VLLM_SERVER_DEV_MODE", "1")));
  EXPECT_THAT(with.environment, Contains(Pair("DGXMM_GUARD_SECRET", "0123456789abcdef")));
  const auto option = std::ranges::find(with.arguments, "--middleware");
  ASSERT_NE(option, with.arguments.end());
  EXPECT_EQ(*std::next(option), "dgxmm_guard.Guard");
  EXPECT_THAT(with.arguments, Not(Contains(HasSubstr("0123456789abcdef")))) << "whoever lists processes would see it";
  EXPECT_THAT(with.environment, Contains(Pair("PYTORCH_CUDA_ALLOC_CONF", "")));
  const auto without = make_command(spec_with(false));
  EXPECT_THAT(without.arguments, Not(Contains("--enable-sleep-mode")));
  EXPECT_THAT(without.arguments, Not(Contains("--middleware")));
  EXPECT_THAT(without.environment, Not(Contains(Pair("VLLM_SERVER_DEV_MODE", testing::_))));
}

TEST(VllmSleep, ItListensOnThisHostAlone) {
  const auto arguments = make_command(spec_with(true)).arguments;
  const auto host = std::ranges::find(arguments, "--host");
  ASSERT_NE(host, arguments.end());
  EXPECT_EQ(*std::next(host), "127.0.0.1");
}

TEST(VllmSleep, C3_ItIsAnotherConfigurationAndTheOldKeysStay) {
  auto config = std::get<VllmConfig>(spec_with(false).config);
  const auto without = configuration_key(config);
  EXPECT_THAT(without, Not(HasSubstr("sleep_mode")));
  config.sleep_mode = true;
  EXPECT_NE(configuration_key(config), without);
}

TEST(VllmSleep, CallsAreThoseOfTheServer) {
  EXPECT_EQ(sleep_call(1).path, "/sleep?level=1&mode=wait");
  EXPECT_EQ(sleep_call(2).path, "/sleep?level=2&mode=wait");
  EXPECT_EQ(wake_call(kWeightsTag).path, "/wake_up?tags=weights");
  EXPECT_EQ(wake_call(kCacheTag).path, "/wake_up?tags=kv_cache");
  EXPECT_EQ(reload_weights_call().path, "/collective_rpc");
  EXPECT_EQ(reload_weights_call().body, R"({"method": "reload_weights"})");
}

TEST(VllmSleep, IsSleepingIsReadOrRefused) {
  EXPECT_EQ(parse_is_sleeping(R"({"is_sleeping":true})").value(), true);
  EXPECT_EQ(parse_is_sleeping(R"({"is_sleeping":false})").value(), false);
  for (const auto* hostile : {"", "true", "[]", "{}", R"({"is_sleeping":"yes"})", R"({"is_sleeping":1})", "<html>"}) {
    EXPECT_FALSE(parse_is_sleeping(hostile)) << hostile;
  }
}

std::string states(int awake, int offloaded, int discarded, const std::string& name = "tiny") {
  const auto labels = R"(vllm:engine_sleep_state{engine="0",model_name=")" + name + R"(",sleep_state=")";
  return "# TYPE vllm:engine_sleep_state gauge\n" + labels + "awake\"} " + std::to_string(awake) + ".0\n" + labels +
         "weights_offloaded\"} " + std::to_string(offloaded) + ".0\n" + labels + "discard_all\"} " +
         std::to_string(discarded) + ".0\n";
}

TEST(VllmSleep, TheLevelIsInTheMetrics) {
  EXPECT_EQ(parse_vllm_activity(states(1, 0, 0)).sleep_level, 0);
  EXPECT_EQ(parse_vllm_activity(states(0, 1, 0)).sleep_level, 1);
  EXPECT_EQ(parse_vllm_activity(states(0, 0, 1)).sleep_level, 2);
  EXPECT_EQ(parse_vllm_activity(states(0, 0, 0)).sleep_level, 0) << "only requests wait: nothing was given back";
  EXPECT_EQ(parse_vllm_activity("vllm:num_requests_running 0\n").sleep_level, std::nullopt) << "an older vLLM";
  // A served name is free text; a quote in it is escaped.
  EXPECT_EQ(parse_vllm_activity(states(1, 0, 0, R"(\",sleep_state=\"discard_all\")")).sleep_level, 0);
}

TEST(VllmSleep, WhatTheAllocatorSaysItFreedIsRead) {
  const auto freed = parse_sleep_line(
      "(Worker pid=7) INFO 11-30 03:23:40 [cumem.py:282] CuMemAllocator: sleep freed 88.12 GiB memory in total, of "
      "which 57.02 GiB is backed up in CPU and the rest 31.10 GiB is discarded directly.");
  ASSERT_TRUE(freed);
  EXPECT_EQ(freed->total, gib_from_decimal(88.12));
  EXPECT_EQ(freed->backed_up, gib_from_decimal(57.02));
}

TEST(VllmSleep, TheDifferenceOfTheWholeHostIsNotTakenForIt) {
  EXPECT_FALSE(parse_sleep_line("Sleep mode freed 31.4 GiB memory, 74.9 GiB memory is still in use."));
  EXPECT_FALSE(
      parse_sleep_line("CuMemAllocator: sleep freed 1.00 GiB memory in total, of which 2.00 GiB is backed up"));
  EXPECT_FALSE(parse_sleep_line("CuMemAllocator: sleep freed much"));
}

TEST(VllmSleep, AHostThatCannotSleepIsOneSentence) {
  const auto reader = make_log_reader(EngineKind::vllm);
  reader->read_line("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig");
  reader->read_line("  Value error, Sleep mode is not supported on current platform. [type=value_error]");
  ASSERT_TRUE(reader->failure());
  EXPECT_THAT(reader->failure()->message, HasSubstr("cannot put a model to sleep on this host"));
  EXPECT_EQ(reader->failure()->hint, "leave sleep_mode out");
}

TEST(VllmSleep, LinesOfOurOwnQuestionsAreNotShown) {
  EXPECT_TRUE(is_routine_line(R"(INFO:     127.0.0.1:38108 - "GET /metrics HTTP/1.1" 200 OK)"));
  EXPECT_TRUE(is_routine_line(R"(INFO:     127.0.0.1:38108 - "GET /is_sleeping HTTP/1.1" 200 OK)"));
  EXPECT_FALSE(is_routine_line(R"(INFO:     127.0.0.1:38108 - "POST /sleep?level=1 HTTP/1.1" 200 OK)"));
  EXPECT_FALSE(is_routine_line(R"(INFO:     127.0.0.1:38108 - "GET /metrics HTTP/1.1" 500 Internal Server Error)"));
  EXPECT_FALSE(is_routine_line(R"(INFO:     10.0.0.7:38108 - "GET /health HTTP/1.1" 200 OK)"));
}

}  // namespace
}  // namespace dgxmm::engine
