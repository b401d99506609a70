#pragma once
#include "core/model/hf_config.h"
#include "core/model/hf_reader.h"
#include "core/model/layout.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

// From the keys of config.json to layers, as vLLM's models read them: vllm/model_executor/models/*.py,
// vllm/config/model.py and vllm/transformers_utils/model_arch_config_convertor.py at 017e9f44.

/// Models whose config.json is read by the same rules.
enum class HfFamily : std::uint8_t {
  unknown,         ///< only what is certain from the fields themselves
  plain,           ///< attention with K and V, with or without windows
  gpt2,            ///< plain, with older names and defaults: GPT-2, Falcon, MPT
  gemma2,          ///< every second layer has a window
  gemma3,          ///< all but every sixth; fields that have the class's default are left out of the file
  gemma3n,         ///< all but every fifth; the last layers share caches
  gemma4,          ///< full layers have heads of their own
  gpt_oss,         ///< every second layer has a window
  llama4,          ///< all but every fourth see the present chunk only
  latent,          ///< MLA, with or without an indexer
  longcat,         ///< MLA, two of them in every layer
  dots3_note,      ///< MLA, with an indexer or a window
  minicpm3,        ///< projected as for MLA, but kept head by head
  deepseek_v4,     ///< a window, and older tokens compressed
  qwen3_next,      ///< gated delta net; state in the type of the model
  qwen3_5,         ///< gated delta net; the file says the type of the state
  olmo_hybrid,     ///< gated delta net; state in the type of the model
  kimi_linear,     ///< KDA beside MLA
  bailing_linear,  ///< lightning attention beside MLA
  bailing_kda,     ///< KDA beside MLA, by the number of the layer
  mamba,           ///< Mamba 1, no attention
  mamba2,          ///< Mamba 2, no attention
  jamba,           ///< Mamba 1 with some attention
  nemotron_h,      ///< Mamba 2, attention or feed-forward, one of them a layer
  granite_hybrid,  ///< Mamba 2 or attention; Bamba
  falcon_h1,       ///< Mamba 2 and attention in every layer
  zamba2,          ///< Mamba 2 in every layer, and attention in some
  lfm2,            ///< short convolutions with some attention
  minimax_text,    ///< lightning attention with some full attention
  minimax_m3,      ///< index keys in sparse layers
  mimo_v2,         ///< windows with heads of their own
  nemotron_nas,    ///< a configuration for every block
  whisper,         ///< a decoder with cross attention
  encoder,         ///< no cache
};

/// parse_hf_config() of a text that is parsed already.
Result<HfConfig> read_hf_config(std::string_view file, const boost::json::object& document);

/// By the names that the file gives its architecture and its type.
HfFamily family_of(const HfReader& read, std::string_view architecture);
/// The name of the architecture is not known, and `family_of` went by `model_type`.
bool is_read_by_its_type(const HfReader& read, std::string_view architecture);

/// Keys that say that the layers may be something else than what they are read as, with the reason, for
/// `HfConfig::missing_fields`.
std::vector<std::string> find_layout_doubts(const HfReader& read, HfFamily family);

/// By whose rules the state of a model of an unknown architecture can be read from the fields that it has; `unknown`
/// when there are none.
HfFamily state_by_fields(const HfReader& read);

/// Sizes that the layers share.
struct HfDimensions {
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  std::vector<std::int64_t> kv_heads;  ///< of each layer
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t feed_forward = 0;
};

/// How one layer mixes the tokens of a sequence.
enum class HfMix : std::uint8_t { full, window, chunked, state, both, nothing };

/// The kind of each layer. A word that is not known of this family counts as full attention, which keeps most, and is
/// added to `missing`. Errors through `read`: a list that contradicts another field.
std::vector<HfMix> read_mixes(HfReader& read, HfFamily family, std::int64_t layers, std::vector<std::string>& missing);

/// Heads and their sizes. What is absent and has a default of its class is added to `missing`.
void read_heads(HfReader& read, HfFamily family, HfDimensions& dimensions, std::vector<std::string>& missing);

/// The attention of each layer that has one. What is not certain is added to `missing`.
std::vector<std::optional<Attention>> read_hf_attention(HfReader& read, HfFamily family, const HfDimensions& dimensions,
                                                        const std::vector<HfMix>& mixes,
                                                        std::vector<std::string>& missing);

/// What the model sees or hears with. A figure that is absent or not understood is added to `missing`.
std::vector<Encoder> read_hf_encoders(const HfReader& read, HfFamily family, std::vector<std::string>& missing);

/// The state of the layers that have one; all have the same shape.
RecurrentState read_hf_state(HfReader& read, HfFamily family, const HfDimensions& dimensions,
                             std::vector<std::string>& missing);

}  // namespace dgxmm::model
