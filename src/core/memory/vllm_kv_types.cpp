#include "core/memory/vllm_kv_types.h"

#include "core/memory/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace dgxmm::memory::vllm {
namespace {

std::int64_t even(std::int64_t n) { return (n + 1) / 2 * 2; }

std::int64_t eight_bit(std::int64_t k, std::int64_t v) { return k + v; }
/// Two float32 scales beside the values.
std::int64_t eight_bit_scaled(std::int64_t k, std::int64_t v) { return k + v + 8; }
std::int64_t four_bit_scaled(std::int64_t k, std::int64_t v) { return ceil_div(k + v, 2) + 8; }
/// One scale byte for 16 values.
std::int64_t nvfp4_row(std::int64_t width) { return ceil_div(width, 2) + ceil_div(width, 16); }
std::int64_t nvfp4(std::int64_t k, std::int64_t v) { return nvfp4_row(k) + nvfp4_row(v); }
std::int64_t turboquant_k8v4(std::int64_t k, std::int64_t v) { return even(k + ceil_div(v, 2) + 4); }
std::int64_t turboquant_4bit(std::int64_t k, std::int64_t v) { return even(ceil_div(k, 2) + 2 + ceil_div(v, 2) + 4); }
std::int64_t turboquant_k3v4(std::int64_t k, std::int64_t v) {
  return even(ceil_div(3 * k, 8) + 2 + ceil_div(v, 2) + 4);
}
std::int64_t turboquant_3bit(std::int64_t k, std::int64_t v) {
  return even(ceil_div(3 * k, 8) + 2 + ceil_div(3 * v, 8) + 4);
}

std::int64_t latent_16bit(std::int64_t width) { return kHalf * width; }
std::int64_t latent_8bit(std::int64_t width) { return width; }
std::int64_t latent_8bit_scaled(std::int64_t width) { return width + 8; }
std::int64_t latent_4bit_scaled(std::int64_t width) { return ceil_div(width, 2) + 8; }

constexpr KvType kTypes[] = {
    {"auto", sixteen_bit, latent_16bit},
    {"float16", sixteen_bit, latent_16bit},
    {"bfloat16", sixteen_bit, latent_16bit},
    {"fp8", eight_bit, latent_8bit},
    {"fp8_e4m3", eight_bit, latent_8bit},
    {"fp8_e5m2", eight_bit, latent_8bit},
    {"fp8_inc", eight_bit, latent_8bit},
    {"fp8_per_token_head", eight_bit_scaled, latent_8bit_scaled},
    {"int8_per_token_head", eight_bit_scaled, latent_8bit_scaled},
    {"int4_per_token_head", four_bit_scaled, latent_4bit_scaled},
    {"nvfp4", nvfp4, nvfp4_row},
    {"nvfp4_4over6", nvfp4, nvfp4_row},
    {"turboquant_k8v4", turboquant_k8v4, nullptr, true},
    {"turboquant_4bit_nc", turboquant_4bit, nullptr, true},
    {"turboquant_k3v4_nc", turboquant_k3v4, nullptr, true},
    {"turboquant_3bit_nc", turboquant_3bit, nullptr, true},
};
/// Only sparse MLA has it.
constexpr KvType kDsMla{"fp8_ds_mla", eight_bit, latent_8bit};

bool is_latent(const model::Layer& layer) {
  return layer.attention && layer.attention->kind == model::AttentionKind::mla;
}

bool is_sparse_latent(const model::Layer& layer) {
  return is_latent(layer) && layer.attention->indexer_key_length.has_value();
}

bool is_compressed(const model::Layer& layer) { return layer.attention && layer.attention->compress_ratio; }

/// DeepSeek V3.2 and V4, GLM 5.
bool has_sparse_latents(const model::ModelDescription& model) {
  return std::ranges::any_of(model.layers,
                             [](const model::Layer& layer) { return is_sparse_latent(layer) || is_compressed(layer); });
}

std::unexpected<Error> refuse(std::string message, std::string hint) {
  return fail("bad_configuration", std::move(message), std::move(hint), "kv_cache_dtype");
}

}  // namespace

std::int64_t sixteen_bit(std::int64_t k, std::int64_t v) { return kHalf * (k + v); }

std::int64_t fp8_ds_mla(std::int64_t rank, std::int64_t rope) {
  constexpr std::int64_t kValuesPerScale = 128;
  return rank + 4 * ceil_div(rank, kValuesPerScale) + kHalf * rope;
}

bool is_ds_mla(const KvType& type) {
  return type.name == "auto" || type.name == "fp8" || type.name == "fp8_e4m3" || type.name == kDsMla.name;
}

Result<KvType> resolve_kv_type(std::string_view name, const model::ModelDescription& model) {
  const bool compressed = std::ranges::any_of(model.layers, is_compressed);
  if (has_sparse_latents(model) && name == kDsMla.name) return kDsMla;
  const bool asks = name == "auto" && !model.kv_cache_dtype.empty();
  const std::string_view wanted = asks ? std::string_view{model.kv_cache_dtype} : name;
  const auto* found = std::ranges::find(kTypes, wanted, &KvType::name);
  if (found == std::end(kTypes)) {
    std::string accepted;
    for (const auto& type : kTypes) accepted += (accepted.empty() ? "" : ", ") + std::string{type.name};
    return refuse(fmt::format("kv_cache_dtype '{}' is not one that vLLM has", wanted), "one of " + accepted);
  }
  if (compressed && found->head != eight_bit && found->name != "auto") {
    return refuse(
        fmt::format("{} keeps its tokens in 8 bit only, and kv_cache_dtype is {}", model.architecture, wanted),
        "leave kv_cache_dtype open, or use fp8");
  }
  if (found->latent == nullptr && std::ranges::any_of(model.layers, is_latent)) {
    return refuse(fmt::format("vLLM has no cache of type {} for latent attention (MLA)", wanted),
                  "use auto, bfloat16, fp8 or nvfp4");
  }
  return *found;
}

std::string describe(const KvType& type, std::string_view asked, const model::ModelDescription& model) {
  if (has_sparse_latents(model) && is_ds_mla(type)) return fmt::format("{} ({})", kDsMla.name, asked);
  if (type.name == "auto") return "16 bit (auto)";
  return type.name == asked ? std::string{asked} : fmt::format("{} (asked for by the checkpoint)", type.name);
}

}  // namespace dgxmm::memory::vllm
