#pragma once
#include "base/bytes.h"
#include "core/engine/config.h"
#include "core/memory/estimate.h"
#include "core/memory/llamacpp_cache.h"
#include "core/model/layout.h"

#include <span>

namespace dgxmm::memory::llamacpp {

/// What a context allocates beside its caches.
struct ComputeBuffers {
  Bytes device;   ///< the graph's buffer where the layers are: on the GPU, or on the host when everything is there
  Bytes host;     ///< inputs prepared on the host for a GPU; none when everything is there
  Bytes scratch;  ///< CUDA: the cache of one layer as f16
  Bytes output;   ///< logits of one row a slot

  [[nodiscard]] Bytes total() const { return device + host + scratch + output; }
};

/// Upper bounds fitted to b10587: never below any measured context (tests/truth), and mostly within a quarter above.
ComputeBuffers compute_buffers(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                               const Context& context, std::span<const Cache> caches, Placement placement);

}  // namespace dgxmm::memory::llamacpp
