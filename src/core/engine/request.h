#pragma once
#include "base/result.h"
#include "core/engine/config.h"
#include "core/model/layout.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::engine {

/// What a person asks for: a model, and any engine setting by the engine's own name. Open settings take the engine's
/// default. Also the body of POST /api/v1/deployments and of /fit and /plans.
struct DeployRequest {
  std::string model;                  ///< path of a file or folder, or a name from the catalog
  std::optional<std::string> name;    ///< of the deployment; default: from the model, made unique
  std::optional<std::string> engine;  ///< "llama.cpp" or "vllm"; default: by the model's format

  std::optional<std::int64_t> context;    ///< ctx_size or max_model_len
  std::optional<std::int64_t> sequences;  ///< parallel or max_num_seqs

  std::optional<std::int64_t> ctx_size, parallel, batch, ubatch, cache_ram_mib;
  std::optional<std::string> cache_type_k, cache_type_v, flash_attn;
  std::optional<bool> kv_unified, swa_full;

  std::optional<std::string> draft_model;  ///< of either engine: path, or a name from the catalog
  std::optional<std::string> mmproj;       ///< path, or "none", which is the default
  std::optional<std::string> spec_type;    ///< "none", "draft-simple", "draft-mtp"; default: by draft_model
  std::optional<std::int64_t> spec_draft_n_max;
  std::optional<std::string> cache_type_k_draft, cache_type_v_draft;

  std::optional<std::int64_t> max_model_len, max_num_seqs, max_num_batched_tokens, kv_tokens;
  std::optional<std::string> kv_cache_dtype;
  std::optional<bool> enforce_eager;
  std::optional<std::int64_t> tensor_parallel_size, num_speculative_tokens, max_loras, max_lora_rank;
  std::optional<std::int64_t> limit_mm_per_prompt, mm_processor_cache_gb;
  std::optional<std::string> quantization, spec_method;
  std::optional<bool> enable_lora, language_model_only, sleep_mode;

  std::optional<std::string>
      runtime;                       ///< "process" or "docker"; default: the setting, and docker when an image is named
  std::optional<std::string> image;  ///< of the container; its entrypoint is the engine's server

  std::optional<std::string> served_name;  ///< the name in the engine's OpenAI API; default: the deployment's name
  std::optional<std::int64_t> port;        ///< default: a free one
  std::optional<std::int64_t> priority;    ///< higher is more important; default 0
  std::optional<bool> pinned;              ///< never offered as a victim without being marked unsafe
  std::map<std::string, std::string> labels;

  friend bool operator==(const DeployRequest&, const DeployRequest&) = default;
};

/// Defaults for open settings that come from dgxmm's own settings.
struct ConfigDefaults {
  std::int64_t llamacpp_cache_ram_mib = 1024;
};

/// "llama.cpp", "llamacpp" or "vllm" -> the engine. Errors: `bad_field`.
Result<EngineKind> parse_engine(std::string_view text);
/// "llama.cpp" or "vllm".
std::string_view display_name(EngineKind kind);

/// The configuration that the engine will be started with. Errors: `bad_field` naming the field (a setting of the
/// other engine, a value out of range, a pair that the engine refuses).
Result<EngineConfig> resolve(const DeployRequest& request, const model::ModelDescription& model,
                             const ConfigDefaults& defaults);

/// Whether the engine would take it: the same check that `resolve` ends with. Errors: `bad_field`.
Result<void> check(const EngineConfig& config);

/// The request with the settings of `config` written out, so that a plan can be sent as a request of its own.
DeployRequest with_config(DeployRequest request, const EngineConfig& config);

/// One line that is equal exactly when the configurations are (C3, C7), e.g. "llamacpp ctx_size=4096 parallel=1 …".
/// Which files are loaded beside the model is not part of it: that is told by the fingerprint.
std::string configuration_key(const EngineConfig& config);

Result<CacheType> parse_cache_type(std::string_view text);
std::string_view name_of(CacheType type);
/// "auto", "on" or "off".
std::string_view name_of(FlashAttention mode);
/// "none", "draft-simple" or "draft-mtp".
std::string_view name_of(SpecType type);
/// Errors: `bad_field`.
Result<SpecType> parse_spec_type(std::string_view text);

}  // namespace dgxmm::engine
