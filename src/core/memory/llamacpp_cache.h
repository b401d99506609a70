#pragma once
#include "base/bytes.h"
#include "base/result.h"
#include "core/engine/config.h"
#include "core/memory/estimate.h"
#include "core/model/layout.h"

#include <cstdint>
#include <vector>

namespace dgxmm::memory::llamacpp {

// The caches of a llama.cpp context. Version of every rule here: b10587 (3f545becc).

/// A command line as the context understands it.
struct Context {
  std::int64_t sequences = 0;        ///< slots
  std::int64_t output_rows = 0;      ///< n_outputs_max: rows of logits that one decode call may ask for
  std::int64_t rollback_states = 0;  ///< n_rs_seq: older copies of a recurrent state that speculation returns to
  std::int64_t streams = 0;          ///< separate pieces of each cache: 1 when unified, else one a slot
  std::int64_t cells = 0;            ///< of a cache that keeps every token, per stream
  std::int64_t batch = 0;            ///< n_batch: tokens of one decode call
  std::int64_t ubatch = 0;           ///< n_ubatch: tokens that are computed at once
  bool flash_attention = false;
  bool is_mtp = false;  ///< the second context of a model that drafts with its own layers

  friend bool operator==(const Context&, const Context&) = default;
};

enum class CacheKind {
  full,        ///< every token
  window,      ///< the last ones
  indexer,     ///< a short key of every token, by which the layer selects
  compressed,  ///< several older tokens as one (DeepSeek V4)
};

/// One KV cache: layers that keep the same number of cells.
struct Cache {
  CacheKind kind = CacheKind::full;
  std::int64_t cells = 0;  ///< per stream
  std::int64_t streams = 0;
  std::int64_t layers = 0;
  std::int64_t key_length = 0;  ///< of one head, the longest
  Bytes size;
};

/// A layer whose tokens are kept as deepseek4 does: a window, and what is older compressed.
bool is_compressed(const model::ModelDescription& model);

/// Sizes of the command line as the context rounds them, and whether attention will be fused. Errors:
/// `bad_configuration` with the engine's own words where it would refuse.
Result<Context> resolve_context(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                                Placement placement);

/// Every KV cache that the context allocates. Errors: `bad_configuration`.
Result<std::vector<Cache>> kv_caches(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                                     const Context& context);

/// Is it one of the models that can keep older copies of their state, so that a draft can be taken back?
bool rolls_back(const model::ModelDescription& model);

/// Recurrent state of all layers and slots, always f32.
Bytes recurrent_state(const model::ModelDescription& model, const Context& context);

/// The most that one context checkpoint takes: the state of one slot that a prompt may return to. None for models
/// whose layers all keep everything (server_context, tools/server/server-context.cpp).
Bytes checkpoint_size(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                      const Context& context);

/// Bytes of one row of `elements` values; rows of a quantized type are whole blocks.
Bytes row_bytes(engine::CacheType type, std::int64_t elements);

bool is_quantized(engine::CacheType type);

}  // namespace dgxmm::memory::llamacpp
