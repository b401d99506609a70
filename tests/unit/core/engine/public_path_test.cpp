#include "core/engine/public_path.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace dgxmm::engine {
namespace {

using Targets = std::vector<std::string>;

std::string refusal(const std::string& target) {
  const auto checked = check_public_path(target);
  return checked ? std::string{} : checked.error().code;
}

TEST(PublicPath, CallsThatServeModelsPass) {
  for (const auto& target : Targets{"/v1/models",      "/v1/chat/completions",
                                    "/v1/completions", "/v1/completions?x=/sleep",
                                    "/v1/embeddings",  "/v1/responses/resp_0a-B.c~1/cancel",
                                    "/v1/messages",    "/v1/audio/transcriptions",
                                    "/v2/rerank",      "/v1/",
                                    "/health",         "/metrics",
                                    "/version",        "/ping",
                                    "/load?",          "/tokenize",
                                    "/detokenize",     "/score",
                                    "/rerank",         "/classify",
                                    "/pooling",        "/invocations",
                                    "/openapi.json"}) {
    EXPECT_EQ(refusal(target), "") << target;
  }
}

// The routes of vLLM 0.10.2 to 0.32 in developer mode, and those at the root that control the server without it.
TEST(PublicPath, CallsThatControlTheEngineDoNot) {
  for (const auto& target : Targets{"/sleep",
                                    "/sleep?level=1",
                                    "/wake_up?tags=weights",
                                    "/is_sleeping",
                                    "/release_kv_cache_memory",
                                    "/collective_rpc",
                                    "/reset_prefix_cache",
                                    "/reset_mm_cache",
                                    "/reset_encoder_cache",
                                    "/server_info?config_format=json",
                                    "/pause",
                                    "/resume",
                                    "/is_paused",
                                    "/abort_requests",
                                    "/init_weight_transfer_engine",
                                    "/update_weights",
                                    "/weight_checker",
                                    "/get_world_size",
                                    "/reconfigure",
                                    "/scale_elastic_ep",
                                    "/start_profile",
                                    "/fault_tolerance/apply",
                                    "/inference/v1/abort_requests",
                                    "/some_call_of_a_later_version",
                                    "/",
                                    "/v1",
                                    "/v10/models",
                                    "/V1/models",
                                    "/healthy",
                                    "/health/",
                                    "/metrics/x"}) {
    EXPECT_EQ(refusal(target), "path_not_passed_on") << target;
  }
}

TEST(PublicPath, WhatTwoReadersCouldTakeForDifferentPathsIsRefused) {
  for (const auto& target : Targets{"",
                                    "*",
                                    "v1/models",
                                    "//sleep",
                                    "/v1//models",
                                    "/v1/../sleep",
                                    "/v1/./models",
                                    "/v1/..",
                                    "/v1/.",
                                    "/..",
                                    "/%73leep",
                                    "/v1/%2e%2e/sleep",
                                    "/v1/..%2fsleep",
                                    "/v1/models%00",
                                    "/v1\\..\\sleep",
                                    "/v1/models;/../../sleep",
                                    "/v1/models#/sleep",
                                    "/sleep#/v1/",
                                    "/v1/models /sleep",
                                    "/v1/\xc3\xa9",
                                    "http://127.0.0.1/v1/models",
                                    "http://127.0.0.1/sleep",
                                    "127.0.0.1:80"}) {
    EXPECT_EQ(refusal(target), "bad_request") << target;
  }
}

}  // namespace
}  // namespace dgxmm::engine
