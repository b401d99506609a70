#pragma once
#include "core/planner/plans.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Hosts, deployments and sizes for the tests of the planner.
namespace dgxmm::planner {

inline memory::Measured measured(Bytes host, std::optional<Bytes> gpu) {
  return {.anon = host, .kernel = Bytes{}, .shmem = Bytes{}, .gpu = gpu};
}

/// A ready, idle deployment that holds exactly what it reserved.
inline Candidate idle(std::int64_t id, Bytes size) {
  return {.memory = {.id = {id},
                     .state = deployment::State::ready,
                     .reserved = size,
                     .measured = measured(gib(1), size - gib(1))},
          .name = "model-" + std::to_string(id),
          .busy = false,
          .idle_since = std::chrono::minutes{12}};
}

/// A host of 112 GiB (100 usable) on which the deployments and `external` are all that is used.
inline PlanInput host(std::vector<Candidate> deployments, Bytes external = {}) {
  PlanInput input{.mem_total = gib(112)};
  Bytes used = external;
  for (const auto& d : deployments) {
    if (d.memory.measured && d.memory.holds_memory) used += d.memory.measured->total();
  }
  input.mem_available = input.mem_total - used;
  input.deployments = std::move(deployments);
  input.config = engine::LlamaCppConfig{.ctx_size = 32768, .parallel = 4};
  return input;
}

inline memory::Estimate estimate_of(Bytes size) { return {.total = size, .formula = size}; }

inline Estimator always(Bytes size) {
  return [=](const engine::EngineConfig&) { return estimate_of(size); };
}

/// 10 GiB, 1 GiB a 1024 tokens of f16 cache, half of that for q8_0 or fp8; 1 GiB a slot or sequence.
inline Result<memory::Estimate> simple_estimate(const engine::EngineConfig& config) {
  if (const auto* llamacpp = std::get_if<engine::LlamaCppConfig>(&config)) {
    const bool small = llamacpp->cache_type_k != engine::CacheType::f16;
    return estimate_of(gib(10) + mib(llamacpp->ctx_size) * (small ? 1 : 2) + gib(llamacpp->parallel));
  }
  const auto& vllm = std::get<engine::VllmConfig>(config);
  const auto tokens = vllm.kv_tokens.value_or(2 * vllm.max_model_len);
  return estimate_of(gib(10) + mib(tokens) * (vllm.kv_cache_dtype == "fp8" ? 1 : 2) + gib(vllm.max_num_seqs));
}

inline std::vector<std::string> ids_of(const Plans& plans) {
  std::vector<std::string> ids;
  for (const auto& plan : plans.plans) ids.push_back(plan.id);
  return ids;
}

inline const Plan& find(const Plans& plans, std::string_view id) {
  const auto found = std::ranges::find(plans.plans, id, &Plan::id);
  if (found == plans.plans.end()) throw std::runtime_error("no plan " + std::string{id});
  return *found;
}

inline Plans plans_of(const PlanInput& input, const Estimator& estimator = simple_estimate) {
  return make_plans(input, estimator).value();
}

}  // namespace dgxmm::planner
