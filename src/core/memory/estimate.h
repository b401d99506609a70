#pragma once
#include "base/bytes.h"
#include "base/result.h"
#include "core/engine/config.h"
#include "core/model/companions.h"
#include "core/model/layout.h"

#include <optional>
#include <string>
#include <vector>

namespace dgxmm::memory {

/// E8, from the weakest to the strongest.
enum class Confidence { low, estimated, calibrated, measured };

/// Where a figure comes from; shown beside every figure (E8).
enum class Source { file_size, formula, engine_default, setting, calibrated, measured };

/// One of the six parts of E1.
struct Part {
  std::string name;  ///< weights, kv, state, activations, runtime, margin
  Bytes size;
  Source source = Source::formula;
  std::string detail;  ///< one line for people: "32 layers x 8 KV heads x 128, f16, 8192 cells"
};

struct Estimate {
  std::vector<Part> parts;  ///< always the six of E1, in their order
  Bytes total;              ///< what is reserved: the sum of the parts, raised by calibration, never below the sum
  Bytes formula;            ///< the sum of the parts
  Confidence confidence = Confidence::estimated;
  std::vector<std::string> missing_fields;
  std::vector<std::string> contradictions;  ///< of the model's files (E9)
  std::string total_source;  ///< one line: "sum of the parts", "measured 3 times, largest of the last 5 x 1.05", …

  /// Of vLLM: the block of its pool that is never handed out; counted with the activations.
  std::optional<Bytes> null_block;

  [[nodiscard]] Bytes part(std::string_view name) const;
  /// What an engine that is told the size of its KV cache is told: the cache, its states, and that block (vLLM issue
  /// 39734: without it the last request that fits by the figures waits for ever).
  [[nodiscard]] Bytes pool() const { return part("kv") + part("state") + null_block.value_or(Bytes{}); }
};

/// Settings that the formulas use (E6); sizes in bytes, already converted from GiB.
struct EstimateSettings {
  Bytes vllm_runtime_fixed = gib(3);
  Bytes vllm_cuda_graph = gib_from_decimal(1.5);
  Bytes llamacpp_runtime_fixed = gib_from_decimal(0.5);
};

/// Where an engine's tensors are placed: decides what llama.cpp loads twice and how large its buffers are.
enum class Placement { gpu, cpu };

/// E1–E8 by the formula alone, for a model and what `config` loads beside it. Errors: `model_not_supported` (an
/// architecture whose layout is not known yet), `bad_configuration` (the engine would refuse it, with the engine's
/// reason).
Result<Estimate> estimate(const model::ModelDescription& model, const engine::EngineConfig& config,
                          const EstimateSettings& settings, Placement placement,
                          const model::Companions& companions = {});

/// llama.cpp's own rules; source: src/llama-kv-cache.cpp and src/llama-context.cpp at b10587.
Result<Estimate> estimate_llamacpp(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                                   const EstimateSettings& settings, Placement placement,
                                   const model::Companions& companions = {});

/// vLLM's own rules; source: vllm/v1/core/kv_cache_utils.py and vllm/v1/worker/gpu_worker.py at 017e9f44 (2026-08-17).
Result<Estimate> estimate_vllm(const model::ModelDescription& model, const engine::VllmConfig& config,
                               const EstimateSettings& settings, const model::Companions& companions = {});

}  // namespace dgxmm::memory
