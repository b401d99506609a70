#pragma once
#include "base/result.h"
#include "core/model/identity.h"
#include "core/model/layout.h"
#include "core/model/safetensors.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

/// What config.json says about a decoder whose layers are all full attention.
struct HfConfig {
  std::string architecture;  ///< the first of `architectures`
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;
  std::optional<Experts> experts;
  std::optional<bool> tied_embeddings;
  std::optional<std::string> dtype;         ///< `torch_dtype` or `dtype`: "bfloat16"
  std::optional<std::string> quantization;  ///< label of `quantization_config`: "fp8", "awq-4bit"
  std::vector<std::string> missing_fields;  ///< filled by vLLM's own default
};

/// Reads config.json. `file` is used in messages only. A null is an absent value, as for transformers.
/// Errors: `bad_model_file` with the JSON path; `model_not_supported` for every model whose layers are not known to be
/// all full attention. A dimension that is missing is an error, never a default.
Result<HfConfig> parse_hf_config(std::string_view file, std::string_view text);

/// One weight file that is loaded, with its header.
struct SafetensorsPart {
  std::string path;
  std::uint64_t size = 0;
  SafetensorsHeader header;
};

/// Describes a folder. `name` is the folder's, for people; `config_digest` becomes part of the fingerprint.
Result<ModelDescription> describe_safetensors(std::string_view path, std::string_view name, const HfConfig& config,
                                              const Digest& config_digest, std::span<const SafetensorsPart> parts);

}  // namespace dgxmm::model
