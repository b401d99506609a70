#pragma once
#include "core/engine/engine.h"

#include <memory>

namespace dgxmm::engine {

/// `spec.config` holds a VllmConfig. Both bounds are given: the size of the KV cache, which vLLM then does not derive
/// from the memory that it sees, and the utilization that its start-up check asks for all the same
/// (vllm/v1/worker/utils.py request_memory, 0.32).
Command make_vllm_command(const LaunchSpec& spec);

/// `--gpu-memory-utilization` for a reservation: a part of all memory, in hundredths, rounded down, and no more than
/// what vLLM finds free when it starts (less 1 GiB, which its own process takes first). At least 0.01.
double gpu_memory_utilization(Bytes reserved, Bytes mem_total, Bytes mem_available);

/// Lines of vLLM 0.8 to 0.33: progress, its accounting (figures of 0.01 GiB), and why a start failed.
std::unique_ptr<LogReader> make_vllm_log_reader();

/// `vllm:num_requests_running` and `vllm:num_requests_waiting`, summed over the engines of one server.
Activity parse_vllm_activity(std::string_view metrics_text);

}  // namespace dgxmm::engine
