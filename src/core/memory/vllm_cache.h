#pragma once
#include "base/bytes.h"
#include "base/result.h"
#include "core/memory/vllm_kv_types.h"
#include "core/model/layout.h"

#include <cstdint>
#include <vector>

namespace dgxmm::memory::vllm {

// How vLLM lays out its KV cache: one pool of block ids, shared by groups of layers. Version of every rule here:
// 017e9f44 (2026-08-17), vllm/v1/core/kv_cache_utils.py and vllm/v1/kv_cache_interface.py. One rank: `rank_of`.

/// What decides the layout beside the model.
struct CacheRules {
  KvType kv_type;
  std::int64_t max_num_batched_tokens = 0;
  std::int64_t speculative_tokens = 0;
  const model::ModelDescription* draft = nullptr;  ///< one rank of a model or head that drafts them: it has caches too
  bool mtp = false;            ///< they are drafted by the model's own MTP layers, which then have caches as well
  bool prefix_caching = true;  ///< of models that keep a state
  bool hybrid_manager = true;  ///< false: layers with a window keep every token
};

enum class CacheKind {
  full,     ///< every token
  window,   ///< the last ones
  chunked,  ///< those of the present chunk
  state,    ///< one page a state, whatever the length
  cross,    ///< what the encoder made of one input
};

/// Layers that share a block table. A block id costs the same in every group.
struct CacheGroup {
  CacheKind kind = CacheKind::full;
  std::int64_t layers = 0;
  std::int64_t block = 0;        ///< tokens of one page; 0: a state of a model without attention, one page a request
  std::int64_t window = 0;       ///< of windows and chunks
  std::int64_t state_pages = 0;  ///< of states: pages that one request holds

  friend bool operator==(const CacheGroup&, const CacheGroup&) = default;
};

struct CachePlan {
  std::vector<CacheGroup> groups;  ///< none: the model keeps nothing
  Bytes bytes_per_block;
  Bytes checked_per_block;  ///< what the start-up check counts for a page; larger than a block for DeepSeek V4 only
  std::int64_t tokens_in_flight = 0;
  std::int64_t drafted_window = 0;  ///< tokens that a window keeps beyond itself for several MTP layers
  std::int64_t encoder_tokens = 0;  ///< of pictures and sound in one step, and of what cross attention keeps
};

/// Errors: `model_not_supported` for a combination of layers whose layout vLLM does not have.
Result<CachePlan> plan_cache(const model::ModelDescription& model, const CacheRules& rules);

/// Blocks that one request of `length` tokens may hold, in one group and in all.
std::int64_t request_blocks(const CachePlan& plan, const CacheGroup& group, std::int64_t length);
std::int64_t request_blocks(const CachePlan& plan, std::int64_t length);

/// What the start-up check wants for one request (_check_enough_kv_cache_memory).
Bytes request_bytes(const CachePlan& plan, std::int64_t length);

/// The longest request up to `most` tokens that a pool can hold; 0 when none (estimate_max_model_len).
std::int64_t longest_context(const CachePlan& plan, Bytes pool, std::int64_t most);

}  // namespace dgxmm::memory::vllm
