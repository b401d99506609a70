#pragma once
#include "core/engine/engine.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::engine {

/// `spec.config` holds a VllmConfig. Both bounds are given: the size of the KV cache, which vLLM then does not derive
/// from the memory that it sees, and the utilization that its start-up check asks for all the same
/// (vllm/v1/worker/utils.py request_memory, 0.32).
Command make_vllm_command(const LaunchSpec& spec);

/// `--gpu-memory-utilization` for a reservation: a part of all memory, in hundredths, rounded down, and no more than
/// what vLLM finds free when it looks first: `seen_free` at its launch less what its container, its process and the
/// CUDA context have taken by then. At least 0.01.
double gpu_memory_utilization(Bytes reserved, Bytes mem_total, Bytes seen_free, Bytes taken_first);

/// The least that a vLLM may take for free on this host: MemAvailable, or MemFree, to which page cache is used memory
/// (before vllm-project/vllm#35356, 2026-04). Without `pool_is_given` MemAvailable alone: the utilization is then what
/// sizes the KV cache.
Bytes seen_free(Bytes mem_available, std::optional<Bytes> mem_free, bool pool_is_given);

/// What that is to be taken for: 3 GiB (2.7 is typical of a DGX Spark, 9 have been seen), or more where more was
/// measured. A share that is too small harms nothing, as the size of the pool is given.
Bytes taken_before_the_first_look(std::optional<Bytes> most_measured);

/// Lines of vLLM 0.8 to 0.33: progress, its accounting (figures of 0.01 GiB), and why a start failed.
std::unique_ptr<LogReader> make_vllm_log_reader();

/// A POST to the engine's port.
struct EngineCall {
  std::string path;  ///< with the query
  std::string body;  ///< JSON, or nothing
};

/// Sleep of level 1 (weights move to pinned host memory, the KV cache is dropped) or 2 (both are dropped), answered
/// when it sleeps; requests in flight are finished first, those that come later wait. With `level` 0 nothing is given
/// back, requests only wait. (vllm/entrypoints/serve/dev/sleep/api_router.py, 0.32; only with VLLM_SERVER_DEV_MODE.)
EngineCall sleep_call(int level);

inline constexpr std::string_view kWeightsTag = "weights";
inline constexpr std::string_view kCacheTag = "kv_cache";
inline constexpr std::string_view kSchedulingTag = "scheduling";  ///< lets requests go on after level 0
/// Wakes one part; it serves again when all are awake.
EngineCall wake_call(std::string_view tag);

/// Of level 2, when its weights' memory is back: reads the files again.
EngineCall reload_weights_call();

/// The answer of kIsSleepingPath: is any part of it asleep, or does it let requests wait? Errors: `bad_json`,
/// `bad_field`.
Result<bool> parse_is_sleeping(std::string_view body);

/// What the allocator says that falling asleep gave back, in steps of 0.01 GiB: exact, where the next line is a
/// difference of the whole host's memory (vllm/device_allocator/cumem.py, since 2025-09).
struct SleepFreed {
  Bytes total;
  Bytes backed_up;  ///< of it, what went to pinned host memory
  friend bool operator==(const SleepFreed&, const SleepFreed&) = default;
};
std::optional<SleepFreed> parse_sleep_line(std::string_view line);

/// `vllm:engine_sleep_state`, and `vllm:num_requests_running` and `vllm:num_requests_waiting`, summed over the engines
/// of one server.
Activity parse_vllm_activity(std::string_view metrics_text);

}  // namespace dgxmm::engine
