#include "core/planner/variants.h"

#include <algorithm>
#include <variant>

namespace dgxmm::planner {

using engine::EngineConfig;
using engine::LlamaCppConfig;
using engine::VllmConfig;

std::int64_t context_of(const EngineConfig& config) {
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) return llamacpp->ctx_size;
  return std::get<VllmConfig>(config).max_model_len;
}

std::int64_t context_per_sequence_of(const EngineConfig& config) {
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    return llamacpp->kv_unified ? llamacpp->ctx_size : llamacpp->ctx_size / llamacpp->parallel;
  }
  return std::get<VllmConfig>(config).max_model_len;
}

std::int64_t sequences_of(const EngineConfig& config) {
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) return llamacpp->parallel;
  return std::get<VllmConfig>(config).max_num_seqs;
}

EngineConfig with_context(EngineConfig config, std::int64_t context) {
  if (auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    llamacpp->ctx_size = context;
    return config;
  }
  auto& vllm = std::get<VllmConfig>(config);
  // It holds as many requests of full length as was asked.
  if (vllm.kv_tokens) vllm.kv_tokens = std::max(*vllm.kv_tokens * context / vllm.max_model_len, context);
  vllm.max_model_len = context;
  return config;
}

EngineConfig with_context_per_sequence(EngineConfig config, std::int64_t tokens) {
  const auto* llamacpp = std::get_if<LlamaCppConfig>(&config);
  const bool divided = llamacpp != nullptr && !llamacpp->kv_unified;
  const auto whole = divided ? tokens * llamacpp->parallel : tokens;
  return with_context(std::move(config), whole);
}

EngineConfig with_sequences(EngineConfig config, std::int64_t sequences) {
  if (auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    if (!llamacpp->kv_unified) llamacpp->ctx_size = llamacpp->ctx_size / llamacpp->parallel * sequences;
    llamacpp->parallel = sequences;
    return config;
  }
  std::get<VllmConfig>(config).max_num_seqs = sequences;
  return config;
}

EngineConfig with_full_sequences(EngineConfig config, std::int64_t sequences) {
  const auto context = context_per_sequence_of(config);
  config = with_sequences(std::move(config), sequences);
  if (auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    llamacpp->ctx_size = context * sequences;
  } else {
    std::get<VllmConfig>(config).kv_tokens = context * sequences;
  }
  return config;
}

}  // namespace dgxmm::planner
