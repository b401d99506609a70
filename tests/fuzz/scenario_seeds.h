#pragma once
// Scenarios to begin with.
#include "fuzz/model_seeds.h"

#include <vector>

namespace dgxmm::testing {

inline std::vector<Seed> scenario_seeds() {
  return {
      {"host", R"({"scenario": 1, "host": {"mem_total_bytes": 130660000000, "mem_available_bytes": 35200000000}})"},
      {"whole",
       R"({"scenario": 1, "host": {"mem_total_bytes": 130660000000, "mem_available_bytes": 35200000000, "placement": "gpu"},
  "deployments": [
    {"id": 1, "name": "chat", "engine": "vllm", "state": "ready", "reserved_bytes": 52291227238, "priority": -2,
     "measured": {"anon_bytes": 6871947674, "kernel_bytes": 0, "shmem_bytes": 0, "gpu_bytes": 50573239910},
     "pinned": true, "busy": false, "idle_s": 14400, "weights_bytes": 16000000000, "load_s": 95, "stop_s": 4,
     "sleep_levels": [{"level": 1, "size_asleep_bytes": 27000000000, "wake_peak_bytes": 80000000000, "sleep_s": 3},
       {"level": 2, "size_asleep_bytes": 6000000000, "learned": true, "wake_peak_bytes": 58000000000, "wake_s": 9}]},
    {"id": 2, "name": "other", "state": "loading", "reserved_bytes": 30000000000, "busy": true, "requests": 1, "holds_memory": false}],
  "models": [{"description": {
       "format": "gguf", "name": "q4", "architecture": "llama", "base_model": "m", "quantization": "Q4_K_M",
       "embedding_length": 8192, "vocabulary": 128256, "training_context": 131072,
       "weights": {"files": 42500000000, "tensors": 42500000000, "token_embedding": 590000000},
       "fingerprint": {"digest": "a"}},
     "layers": [{"times": 80, "layer": {"attention": {"n_head": 64, "n_head_kv": 8, "key_length": 128,
       "value_length": 128}, "feed_forward_length": 28672}}]},
    {"description": {"format": "safetensors", "name": "v", "architecture": "Qwen3ForCausalLM", "base_model": "m",
       "embedding_length": 4096, "vocabulary": 151936, "training_context": 40960, "weight_dtype": "bfloat16",
       "files": [{"size": 16000000000}], "weights": {"files": 16000000000, "tensors": 16000000000},
       "fingerprint": {"digest": "b"}},
     "layers": [{"times": 20, "layer": {"attention": {"kind": "sliding_window", "n_head": 32, "n_head_kv": 8,
       "key_length": 128, "value_length": 128, "window": 4096}, "feed_forward_length": 12288}},
       {"layer": {"recurrent": {"kind": "mamba2", "conv_elements": 100, "state_elements": 1000}}}]}],
  "projectors": [{"path": "eyes", "file_bytes": 900000000, "tensors_bytes": 890000000, "fingerprint": "c"}],
  "records": [{"fingerprint": "a", "configuration": "x", "measured_bytes": 1, "formula_bytes": 2}],
  "oom_floors": [{"fingerprint": "a", "configuration": "x", "killed_bytes": 3, "kills": 1}],
  "durations": [{"fingerprint": "a", "action": "load", "took_s": 30}],
  "request": {"model": "q4", "ctx_size": 32768, "parallel": 4, "mmproj": "eyes", "draft_model": "q4"}})"},
      {"vllm",
       R"({"scenario": 1, "host": {"mem_total_bytes": 60000000000, "mem_available_bytes": 20000000000},
  "models": [{"description": {"format": "safetensors", "name": "v", "architecture": "Qwen3ForCausalLM",
       "embedding_length": 4096, "vocabulary": 151936, "training_context": 40960, "weight_dtype": "bfloat16",
       "files": [{"size": 16000000000}], "weights": {"files": 16000000000, "tensors": 16000000000},
       "fingerprint": {"digest": "b"}},
     "layers": [{"times": 36, "layer": {"attention": {"n_head": 32, "n_head_kv": 8, "key_length": 128,
       "value_length": 128}, "feed_forward_length": 12288}}]}],
  "request": {"model": "v", "max_model_len": 32768, "max_num_seqs": 16, "kv_cache_dtype": "fp8"}})"},
  };
}

}  // namespace dgxmm::testing
