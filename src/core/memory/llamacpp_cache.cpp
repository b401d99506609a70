#include "core/memory/llamacpp_cache.h"

#include "core/engine/request.h"
#include "core/memory/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace dgxmm::memory::llamacpp {
namespace {

using engine::CacheType;
using engine::FlashAttention;

/// Cells are allocated in steps of this (llama_context's constructor, src/llama-context.cpp; since b6975 for every
/// model).
constexpr std::int64_t kCellPadding = 256;
/// LLAMA_MAX_SEQ, src/llama-cparams.h.
constexpr std::int64_t kMaxSequences = 256;

/// A ggml type that a cache can have (ggml/src/ggml-common.h).
struct GgmlType {
  std::int64_t block;  ///< elements
  std::int64_t bytes;  ///< of a block
};

constexpr GgmlType ggml_type(CacheType type) {
  switch (type) {
    case CacheType::f32: return {1, 4};
    case CacheType::f16: return {1, 2};
    case CacheType::bf16: return {1, 2};
    case CacheType::q8_0: return {32, 34};
    case CacheType::q5_1: return {32, 24};
    case CacheType::q5_0: return {32, 22};
    case CacheType::q4_1: return {32, 20};
    case CacheType::q4_0: return {32, 18};
    case CacheType::iq4_nl: return {32, 18};
  }
  return {1, 4};
}

std::int64_t rounded_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

std::unexpected<Error> refused(std::string message, std::string hint, std::string where) {
  return fail("bad_configuration", std::move(message), std::move(hint), std::move(where));
}

/// What `-fa auto` becomes (src/llama-context.cpp; for CUDA ggml_cuda_get_best_fattn_kernel, ggml-cuda/fattn.cu, as
/// built without GGML_CUDA_FA_ALL_QUANTS).
bool uses_flash_attention(const engine::LlamaCppConfig& config, Placement placement) {
  if (config.flash_attn != FlashAttention::automatic) return config.flash_attn == FlashAttention::on;
  // A quantized V forces it on: where the GPU has no kernel for the pair, the operation moves to the CPU.
  if (is_quantized(config.cache_type_v) || placement == Placement::cpu) return true;
  const auto type = config.cache_type_k;
  return type == config.cache_type_v && (type == CacheType::f32 || type == CacheType::f16 || type == CacheType::bf16);
}

/// llama_init_from_model's check of one head size; it is skipped with `-fa off`.
Result<void> check_head_size(std::string_view letter, std::string_view field, CacheType type, std::int64_t head_size) {
  const auto ggml = ggml_type(type);
  if (head_size % ggml.block == 0) return {};
  return refused(
      fmt::format("llama.cpp refuses: {0} cache type {1} with block size {2} does not divide n_embd_head_{3}={4}",
                  letter, engine::name_of(type), ggml.block, letter == "K" ? "k" : "v", head_size),
      "use f16, bf16 or f32 for this model", std::string{field});
}

/// Without flash attention V is kept transposed, with every layer as wide as the widest (src/llama-kv-cache.cpp).
std::int64_t widest_value(const model::ModelDescription& model) {
  std::int64_t widest = 0;
  for (const auto& layer : model.layers) {
    widest = std::max(widest, layer.attention->n_head_kv * layer.attention->value_length);
  }
  return widest;
}

}  // namespace

Bytes row_bytes(CacheType type, std::int64_t elements) {
  const auto ggml = ggml_type(type);
  return Bytes{elements / ggml.block * ggml.bytes};
}

bool is_quantized(CacheType type) { return ggml_type(type).block > 1; }

Result<Context> resolve_context(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                                Placement placement) {
  if (auto ok = check_setting("ctx_size", config.ctx_size, 1, kMaxContext); !ok) return fail(ok.error());
  if (auto ok = check_setting("parallel", config.parallel, 1, kMaxSequences); !ok) return fail(ok.error());
  if (auto ok = check_setting("batch", config.batch, 1, kMaxBatch); !ok) return fail(ok.error());
  if (auto ok = check_setting("ubatch", config.ubatch, 1, kMaxBatch); !ok) return fail(ok.error());
  if (config.flash_attn == FlashAttention::off) {
    if (is_quantized(config.cache_type_v)) {
      return refused("llama.cpp refuses: quantized V cache requires flash_attn to be enabled",
                     "set flash_attn to auto or on, or cache_type_v to f16", "cache_type_v");
    }
  } else {
    for (const auto& layer : model.layers) {
      const auto& attention = *layer.attention;
      if (auto ok = check_head_size("K", "cache_type_k", config.cache_type_k, attention.key_length); !ok) {
        return fail(ok.error());
      }
      if (auto ok = check_head_size("V", "cache_type_v", config.cache_type_v, attention.value_length); !ok) {
        return fail(ok.error());
      }
    }
  }

  Context context;
  context.sequences = config.parallel;
  context.streams = config.kv_unified ? 1 : config.parallel;
  // The slots share the pool, or each has its part of it; the part is rounded up, so the whole can grow.
  const auto part = config.kv_unified ? config.ctx_size : rounded_up(config.ctx_size, kCellPadding) / config.parallel;
  context.cells = rounded_up(part, kCellPadding);
  context.batch = std::min(config.ctx_size, config.batch);
  context.ubatch = std::min(context.batch, config.ubatch);
  context.flash_attention = uses_flash_attention(config, placement);
  return context;
}

Result<std::vector<Cache>> kv_caches(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                                     const Context& context) {
  // Plain attention has one cache for all layers; other kinds add theirs here (llama_model::create_memory).
  Cache full{.cells = context.cells, .streams = context.streams};
  const std::int64_t widest = widest_value(model);
  Bytes cell;
  for (const auto& layer : model.layers) {
    const auto& attention = *layer.attention;
    const std::int64_t k = attention.n_head_kv * attention.key_length;
    const std::int64_t v = context.flash_attention ? attention.n_head_kv * attention.value_length : widest;
    if (k % ggml_type(config.cache_type_k).block != 0) {
      return refused(fmt::format("a K row of {} elements cannot be stored as {}, which has blocks of {}", k,
                                 engine::name_of(config.cache_type_k), ggml_type(config.cache_type_k).block),
                     "use f16, bf16 or f32 for this model", "cache_type_k");
    }
    cell += row_bytes(config.cache_type_k, k) + row_bytes(config.cache_type_v, v);
    full.layers += 1;
  }
  full.size = cell * full.cells * full.streams;
  return std::vector{full};
}

}  // namespace dgxmm::memory::llamacpp
