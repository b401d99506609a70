#include "core/engine/cautions.h"

#include <string_view>
#include <variant>

namespace dgxmm::engine {

std::vector<std::string> cautions(const EngineConfig& config, std::string_view checkpoint_kv_dtype) {
  std::vector<std::string> found;
  const auto* vllm = std::get_if<VllmConfig>(&config);
  if (vllm == nullptr) return found;
  const std::string_view type = vllm->kv_cache_dtype == "auto" ? checkpoint_kv_dtype : vllm->kv_cache_dtype;
  if (type.starts_with("nvfp4")) {  // vLLM issue 49011
    found.emplace_back(
        "vLLM 0.28 has no nvfp4 KV cache for GPUs of the GB10's kind (SM 12.x), and ends while it starts: use "
        "--kv-cache-dtype fp8, or a vLLM whose release notes name it");
  }
  if (type.starts_with("fp8") && vllm->sleep_mode) {  // vLLM issue 39078
    found.emplace_back(
        "waking up with an fp8 KV cache has failed on a DGX Spark: let it sleep and wake once before you rely on it, or "
        "take --kv-cache-dtype bfloat16");
  }
  return found;
}

}  // namespace dgxmm::engine
