#pragma once
#include "core/model/gguf_hyper_parameters.h"
#include "core/model/layout.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace dgxmm::model {

// The parts of a GGUF description that depend on the architecture, one a file. Rules: src/llama-model.cpp
// (create_memory, load_hparams), src/llama-hparams.cpp and src/models/*.cpp of llama.cpp at b10587.

/// How many layers a file has; those after the trunk predict more than one token at a time.
struct LayerCounts {
  std::int64_t all = 0;
  std::int64_t nextn = 0;

  [[nodiscard]] std::int64_t trunk() const { return all - nextn; }
};

/// What the attention of a layer takes, before it is known which layers have one.
struct AttentionKeys {
  PerLayer heads;
  PerLayer kv_heads;
  PerLayer feed_forward;
};

/// How a layer mixes the tokens of a sequence.
struct Mixing {
  bool attention = true;
  bool recurrent = false;
};

/// Does the architecture have recurrent layers at all; all of them, without any attention?
bool is_recurrent_architecture(std::string_view architecture);
bool is_purely_recurrent(std::string_view architecture);

/// Which layers are recurrent, have attention, both or none.
std::vector<Mixing> read_mixing(HyperParameters& read, LayerCounts layers, const AttentionKeys& keys);

/// The state of every recurrent layer; all have the same shape.
RecurrentState read_recurrent_state(HyperParameters& read, const ModelDescription& model, const AttentionKeys& keys);

/// Does the architecture honour a sliding window?
bool is_windowed_architecture(std::string_view architecture);

/// The window of each layer; nothing for layers that see everything. A field that is missing is added to the model's.
std::vector<std::optional<std::int64_t>> read_windows(HyperParameters& read, LayerCounts layers,
                                                      ModelDescription& model);

/// Do the layers of the architecture have attention that compresses (MLA) or selects (an indexer, compressed tokens)?
bool is_latent_architecture(std::string_view architecture);
bool is_indexed_architecture(std::string_view architecture);
bool is_encoder_architecture(std::string_view architecture);
bool shares_kv_architecture(std::string_view architecture);

/// The attention of every layer that `mixing` gives one; nothing for the others.
std::vector<std::optional<Attention>> read_attention(HyperParameters& read, LayerCounts layers,
                                                     const AttentionKeys& keys, const std::vector<Mixing>& mixing,
                                                     ModelDescription& model);

}  // namespace dgxmm::model
