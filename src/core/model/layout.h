#pragma once
#include "base/bytes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::model {

enum class Format { gguf, safetensors };

/// The longest context that a model's files may declare and a request may ask for, in tokens: both engines count tokens
/// in 32 bits, and half of that leaves room for their padding.
inline constexpr std::int64_t kMostContext = std::int64_t{1} << 30;

enum class AttentionKind {
  full,            ///< every token of the context is kept
  sliding_window,  ///< the last `window` tokens are kept
  chunked,         ///< tokens of the present chunk of `window` tokens are kept
  mla,             ///< one compressed latent per token (`kv_lora_rank` + rope), no separate V
  bidirectional,   ///< encoders: all tokens are computed at once, none is kept
};

/// Attention of one layer, in elements; how they become bytes is the engines' rule.
struct Attention {
  AttentionKind kind = AttentionKind::full;
  std::int64_t n_head = 0;
  std::int64_t n_head_kv = 0;
  std::int64_t key_length = 0;    ///< per head
  std::int64_t value_length = 0;  ///< per head
  std::optional<std::int64_t> window;
  std::optional<std::int64_t> kv_lora_rank;        ///< MLA
  std::optional<std::int64_t> rope_length;         ///< MLA
  std::optional<std::int64_t> mla_key_length;      ///< MLA: key of one head after decompression
  std::optional<std::int64_t> mla_value_length;    ///< MLA: value of one head after decompression
  std::optional<std::int64_t> indexer_key_length;  ///< sparse attention keeps one more key per token
  std::optional<std::int64_t> compress_ratio;      ///< DeepSeek V4: older tokens are kept this many to one; 0: dropped
  bool shares_kv = false;                          ///< reads the cache of an earlier layer, owns none
  bool keeps_values = true;                        ///< false: V is read out of what is kept as K (MLA)
  bool gates_query = false;                        ///< Q comes with a gate of its size

  friend bool operator==(const Attention&, const Attention&) = default;
};

enum class RecurrentKind { mamba, mamba2, gated_delta_net, kda, short_conv, lightning, rwkv };

/// Recurrent state of one layer and sequence, in elements.
struct RecurrentState {
  RecurrentKind kind = RecurrentKind::mamba2;
  std::int64_t conv_elements = 0;
  std::int64_t state_elements = 0;
  // Of one token on its way through the layer.
  std::int64_t projected = 0;  ///< what the input is projected to
  std::int64_t convolved = 0;  ///< of it, what goes through the convolution
  std::int64_t inner = 0;      ///< heads x their size
  // How ranks of tensor parallelism can share it; 0: not known.
  std::int64_t shares = 0;           ///< heads or channels: a number of ranks that divides it can
  std::int64_t groups = 0;           ///< Mamba 2: of B and C; with more ranks than groups each rank has its own copy
  std::int64_t group_convolved = 0;  ///< of `convolved`, what one group takes
  bool conv_keeps_drafts = false;    ///< vLLM gives the convolution room for drafted tokens
  bool keeps_float32 = false;        ///< the checkpoint asks for a state of 32 bit, whatever the type of the model

  friend bool operator==(const RecurrentState&, const RecurrentState&) = default;
};

/// A layer may have attention, a recurrent state, both (Falcon-H1) or none (a pure feed-forward layer).
struct Layer {
  std::optional<Attention> attention;
  std::optional<RecurrentState> recurrent;
  std::optional<Attention> cross_attention = {};  ///< of a decoder, over what its encoder made
  std::int64_t feed_forward_length = 0;

  friend bool operator==(const Layer&, const Layer&) = default;
};

struct Experts {
  std::int64_t count = 0;
  std::int64_t used_count = 0;
  std::int64_t feed_forward_length = 0;         ///< of one expert
  std::int64_t shared_feed_forward_length = 0;  ///< of all shared experts together

  friend bool operator==(const Experts&, const Experts&) = default;
};

/// What turns pictures or sound into tokens of the language model.
struct Encoder {
  std::string input;              ///< "pictures" or "sound"
  std::int64_t width = 0;         ///< of one patch on its way through the encoder, in elements
  std::int64_t item_patches = 0;  ///< of the largest picture, or of one piece of sound
  std::int64_t item_tokens = 0;   ///< that this item becomes
  std::int64_t token_pixels = 0;  ///< of a token, where pictures of any size are taken; else 0

  friend bool operator==(const Encoder&, const Encoder&) = default;
};

/// One file that an engine reads when it loads the model.
struct WeightFile {
  std::string path;
  Bytes size;
};

/// Where the bytes of the tensors are, as far as the placement rules of the engines ask.
struct WeightSummary {
  Bytes files;               ///< sum of the sizes of the files that are loaded
  Bytes tensors;             ///< sum of the tensor bytes in them
  Bytes input_tensors;       ///< token and position embeddings, which llama.cpp keeps on the host
  Bytes token_embedding;     ///< loaded a second time by llama.cpp on a GPU when it is tied
  Bytes nextn_tensors;       ///< of multi-token-prediction layers, which are loaded only to be used
  Bytes float32_tensors;     ///< of unquantized models: engines keep them in 16 bit
  Bytes expert_tensors;      ///< of routed experts
  Bytes vision_tensors;      ///< towers and projectors for pictures, sound and video
  Bytes unused_output;       ///< an output layer beside an embedding that it is tied to
  Bytes nextn_copies;        ///< of `nextn_tensors`: embeddings and outputs, for which those of the trunk are used
  Bytes speaking_tensors;    ///< the half of a model that speaks, which vLLM does not load
  Bytes replicated_tensors;  ///< that every rank of tensor parallelism holds: norms, routers, down-projections
  Bytes linear_tensors;      ///< of unquantized models: weights that can be quantized while they are loaded
  bool tied_embeddings = false;
};

/// What "the same weights" means for calibration (C7): not the folder's name.
struct Fingerprint {
  std::string digest;  ///< hex digest of format, file sizes and headers
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// What a model is, layer by layer, as told by its own files. Filled by `gguf` and `hf_config`, read by the engines'
/// estimates, the catalog and the planner.
struct ModelDescription {
  Format format = Format::gguf;
  std::string path;          ///< file or folder, as given
  std::string name;          ///< of the file or folder, without suffixes: what people and the catalog call it
  std::string architecture;  ///< `general.architecture`, or the first of `architectures`
  std::string base_model;    ///< same text = same model in another quantization; empty = not known
  std::string quantization;  ///< label for people: "Q4_K_M", "bf16", "fp8"

  std::vector<Layer> layers;        ///< the trunk, in order, without multi-token-prediction layers
  std::vector<Layer> nextn_layers;  ///< multi-token-prediction layers, which follow the trunk
  std::int64_t embedding_length = 0;
  std::int64_t layer_embedding_length = 0;  ///< of the embedding that every layer has of its own (Gemma 3n and 4)
  std::int64_t hyper_connections = 0;       ///< residual streams beside each other (DeepSeek V4)
  std::int64_t vocabulary = 0;
  std::int64_t training_context = 0;
  std::optional<Experts> experts;
  std::vector<Encoder> encoders;  ///< for pictures and sound
  std::string tokenizer;          ///< GGUF: `tokenizer.ggml.model`; empty = not known
  std::string kv_cache_dtype;     ///< what the checkpoint asks the cache to be, in vLLM's words; empty = nothing
  std::string weight_dtype;       ///< safetensors: `torch_dtype`; GGUF: the type most bytes have

  std::vector<WeightFile> files;
  WeightSummary weights;
  Fingerprint fingerprint;

  std::vector<std::string> projectors;  ///< GGUF: files beside it that are loaded only when asked for (`mmproj`)
  std::vector<std::string> notes;       ///< for people: what of the files is not loaded, and why

  /// Fields that a formula needs, that were absent, and that were filled by the engine's own default (E7).
  std::vector<std::string> missing_fields;
  /// What the files say in two ways that cannot both be true, where the engine would go on (E9).
  std::vector<std::string> contradictions;
};

}  // namespace dgxmm::model
