#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace dgxmm::engine {

enum class EngineKind { llamacpp, vllm };

/// The cache types that llama-server accepts for -ctk and -ctv.
enum class CacheType { f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl };

/// Far more tokens than anyone drafts at once; some models keep as many older copies of their state.
inline constexpr std::int64_t kMostDrafted = 63;

enum class FlashAttention { automatic, on, off };

/// --spec-type: who drafts the tokens that the model then checks together.
enum class SpecType {
  none,
  draft_simple,  ///< a second, smaller model
  draft_mtp,     ///< the model's own layers for multi-token prediction
};

/// --ctx-checkpoints: states of a slot that its next prompt may return to, kept in host memory for models with windows
/// or recurrent state. llama-server would keep 32.
inline constexpr std::int64_t kContextCheckpoints = 4;

/// Everything about a llama-server that changes its memory, resolved: no engine default is left open.
struct LlamaCppConfig {
  std::int64_t ctx_size = 0;  ///< -c: total over the slots, or the shared pool when `kv_unified`
  std::int64_t parallel = 4;  ///< -np
  bool kv_unified = true;
  CacheType cache_type_k = CacheType::f16;
  CacheType cache_type_v = CacheType::f16;
  std::int64_t batch = 2048;
  std::int64_t ubatch = 512;
  FlashAttention flash_attn = FlashAttention::automatic;
  bool swa_full = false;
  std::int64_t cache_ram_mib = 1024;  ///< --cache-ram: bound of the prompt cache, which grows in host memory

  SpecType spec_type = SpecType::none;
  std::string draft_model;                        ///< of draft_simple: path of its first file
  std::int64_t spec_draft_n_max = 3;              ///< tokens that are drafted at once
  CacheType cache_type_k_draft = CacheType::f16;  ///< of the draft's own context; it does not inherit the other's
  CacheType cache_type_v_draft = CacheType::f16;
  std::string mmproj;  ///< path of the projector; empty = none

  friend bool operator==(const LlamaCppConfig&, const LlamaCppConfig&) = default;
};

/// Ways of drafting tokens that vLLM has, by the names that it gives them (vllm/config/speculative.py, 017e9f44).
struct SpecMethod {
  std::string_view name;
  bool has_model = false;  ///< drafts with `draft_model`
  bool is_eagle = false;   ///< that is a head, which goes on from what the model has computed
};
inline constexpr std::array<SpecMethod, 5> kSpecMethods{{{"mtp"},
                                                         {"ngram"},
                                                         {.name = "draft_model", .has_model = true},
                                                         {.name = "eagle", .has_model = true, .is_eagle = true},
                                                         {.name = "eagle3", .has_model = true, .is_eagle = true}}};

/// Null for a name that is not among them.
constexpr const SpecMethod* spec_method_named(std::string_view name) {
  const auto* found = std::ranges::find(kSpecMethods, name, &SpecMethod::name);
  return found == kSpecMethods.end() ? nullptr : found;
}

/// Everything about a vLLM server that changes its memory, resolved.
struct VllmConfig {
  std::int64_t max_model_len = 0;
  std::int64_t max_num_seqs = 0;
  std::int64_t max_num_batched_tokens = 0;
  std::string kv_cache_dtype = "auto";
  std::optional<std::int64_t> kv_tokens;  ///< size of the KV pool; default min(context x seqs, 2 x context) (E3)
  bool enforce_eager = false;
  std::string draft_model;  ///< path; empty = none
  std::int64_t tensor_parallel_size = 1;
  std::string quantization;  ///< of a checkpoint in 16 bit while it is loaded; empty = as the checkpoint is
  std::string spec_method;   ///< one of kSpecMethods; empty = no speculative decoding
  std::int64_t num_speculative_tokens = 0;
  bool enable_lora = false;
  std::int64_t max_loras = 1;
  std::int64_t max_lora_rank = 16;
  bool language_model_only = false;                   ///< encoders for pictures and sound are not loaded
  std::optional<std::int64_t> limit_mm_per_prompt;    ///< items of each kind in one prompt; 0 = as language_model_only
  std::optional<std::int64_t> mm_processor_cache_gb;  ///< set for models with encoders only
  bool sleep_mode = false;                            ///< can be put to sleep: memory from the cumem allocator

  friend bool operator==(const VllmConfig&, const VllmConfig&) = default;
};

using EngineConfig = std::variant<LlamaCppConfig, VllmConfig>;

inline EngineKind kind_of(const EngineConfig& config) {
  return std::holds_alternative<LlamaCppConfig>(config) ? EngineKind::llamacpp : EngineKind::vllm;
}

}  // namespace dgxmm::engine
