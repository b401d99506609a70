#pragma once
#include "core/engine/engine.h"

#include <memory>

namespace dgxmm::engine {

/// `spec.config` holds a VllmConfig. Only what follows from the configuration; how large the KV pool may be is decided
/// when vLLM is started, which dgxmm does not do yet.
Command make_vllm_command(const LaunchSpec& spec);

/// Knows nothing yet: no progress, no accounting, no failure.
std::unique_ptr<LogReader> make_vllm_log_reader();

/// `vllm:num_requests_running` and `vllm:num_requests_waiting`, summed over the engines of one server.
Activity parse_vllm_activity(std::string_view metrics_text);

}  // namespace dgxmm::engine
