#pragma once
#include "core/engine/config.h"
#include "core/memory/estimate.h"
#include "core/memory/vllm_cache.h"
#include "core/model/layout.h"

namespace dgxmm::memory::vllm {

/// E5: `model` is one rank. The largest moment of a profile run, a fifth more for rounding and copies, and what stays
/// allocated. The first block of the pool is never handed out (BlockPool.null_block): it is counted here, so that the
/// KV part is the pool that requests can use.
/// `draft`: one rank of a model that drafts tokens, whose layers run after those of the model; or null.
Part activations(const model::ModelDescription& model, const model::ModelDescription* draft,
                 const engine::VllmConfig& config, const CachePlan& plan);

}  // namespace dgxmm::memory::vllm
