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

/// What config.json says about a model.
struct HfConfig {
  std::string architecture;  ///< the first of `architectures`
  std::vector<Layer> layers;
  std::vector<Layer> nextn_layers;
  std::int64_t attentions_per_layer = 1;  ///< `layers` has an entry for each attention of a layer (LongCat Flash: 2)
  std::int64_t hidden_size = 0;
  std::int64_t layer_embedding_length = 0;  ///< Gemma 3n and 4
  std::int64_t hyper_connections = 0;       ///< DeepSeek V4
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;
  std::optional<Experts> experts;
  std::vector<Encoder> encoders;
  std::optional<bool> tied_embeddings;
  std::optional<std::string> dtype;         ///< `torch_dtype` or `dtype`: "bfloat16"
  std::optional<std::string> quantization;  ///< label of `quantization_config`: "fp8", "awq-4bit"
  std::string kv_cache_dtype;               ///< what `quantization_config` asks of the cache; empty = nothing
  std::vector<std::string> missing_fields;  ///< filled by vLLM's own default, or what is not known of the architecture
};

/// Reads config.json. `file` is used in messages only. A null is an absent value, as for transformers. Of a model that
/// also sees or hears, the language model is read. Errors: `bad_model_file` with the JSON path, also for fields that
/// contradict each other; `model_not_supported` for letters of a pattern that are not known. A dimension that is
/// missing is an error, never a default, but for classes that leave their defaults out of the file. Those, and what of
/// the layers is not certain, are in `missing_fields`; what is not certain is read as what takes more.
Result<HfConfig> parse_hf_config(std::string_view file, std::string_view text);

/// Reads params.json, which Mistral's own format has instead of config.json (vLLM's --config-format mistral). Errors:
/// as parse_hf_config, by the names of params.json.
Result<HfConfig> parse_mistral_params(std::string_view file, std::string_view text);

/// Takes over what hf_quant_config.json says. vLLM reads that file only for a config.json without
/// `quantization_config`: with one, this does nothing. Errors: `bad_model_file`.
Result<void> read_hf_quant_config(HfConfig& config, std::string_view file, std::string_view text);

/// Takes over the largest picture of preprocessor_config.json, in pixels, for encoders that take any size. Errors:
/// `bad_model_file` for what is no JSON object; a figure that is not understood leaves the bound that the class has.
Result<void> read_preprocessor_config(HfConfig& config, std::string_view file, std::string_view text);

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
