#pragma once
#include "base/result.h"
#include "core/model/layout.h"

#include <cstdint>

namespace dgxmm::memory::vllm {

/// The layers that one of `ranks` ranks of tensor parallelism computes: heads, states and feed-forward parts are shared
/// out, K and V heads are held by several ranks where there are fewer of them, latents and index keys by every rank.
/// The sizes of the files stay those of the whole model. Version: 017e9f44 (2026-08-17), ModelConfig.get_num_kv_heads,
/// vllm/model_executor/layers/linear.py and layers/mamba/mamba_utils.py.
///
/// All figures of an estimate are those of one rank: a GB10 is one GPU, and further ranks run on other hosts, whose
/// memory is not this host's. On a host with several GPUs in one pool each rank that runs there takes as much again.
///
/// Errors: `bad_configuration` when the heads or states cannot be shared evenly, which vLLM refuses.
Result<model::ModelDescription> rank_of(const model::ModelDescription& model, std::int64_t ranks);

}  // namespace dgxmm::memory::vllm
