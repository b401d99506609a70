#pragma once
#include "base/result.h"
#include "core/model/layout.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dgxmm::memory::vllm {

/// One value of --kv-cache-dtype, as bytes of one token (CacheDType, vllm/config/cache.py at 017e9f44).
struct KvType {
  std::string_view name;
  std::int64_t (*head)(std::int64_t k, std::int64_t v);  ///< one KV head, from the widths of K and V
  std::int64_t (*latent)(std::int64_t width) = nullptr;  ///< the latent of one MLA layer; null: vLLM has no such cache
  bool outer_layers_16bit = false;  ///< the first two and the last two layers of a model without state stay as they are
};

/// Activations, and the cache where nobody asks for less: float32 checkpoints are served as bfloat16
/// (vllm/config/model.py).
inline constexpr std::int64_t kHalf = 2;

/// Widths of K and V in 16 bit.
std::int64_t sixteen_bit(std::int64_t k, std::int64_t v);

/// The type that the cache will have: `auto` is what the checkpoint asks for, else 16 bit. Errors: `bad_configuration`
/// for a name that vLLM does not have or that does not go with the attention of the model.
Result<KvType> resolve_kv_type(std::string_view name, const model::ModelDescription& model);

/// Bytes of one token in a sparse MLA cache on GB10: values in 8 bit with a float32 scale for 128 of them, and the
/// rotated part in 16 bit (fp8_ds_mla; vllm/v1/attention/backends/mla).
std::int64_t fp8_ds_mla(std::int64_t rank, std::int64_t rope);

/// Does sparse MLA store this type as fp8_ds_mla? All but an explicit 16 bit.
bool is_ds_mla(const KvType& type);

/// The type for people: "16 bit (auto)", "fp8_e4m3 (asked for by the checkpoint)", "fp8_ds_mla (auto)".
std::string describe(const KvType& type, std::string_view asked, const model::ModelDescription& model);

}  // namespace dgxmm::memory::vllm
