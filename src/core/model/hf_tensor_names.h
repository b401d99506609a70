#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace dgxmm::model {

// What a tensor of a safetensors file is, told by its name. Names are those of transformers, of Mistral's own format
// and of what vLLM's models map to theirs (load_weights in vllm/model_executor/models at 017e9f44).

/// A tower or projector for pictures, sound or video.
bool is_encoder_tensor(std::string_view name);

/// The half of an omni model that speaks: vLLM's models of them load the thinker only.
bool is_speaking_tensor(std::string_view name);

/// The N of "….layers.N.…" where that is a layer of the language model; nothing inside encoders and drafting heads.
std::optional<std::int64_t> language_layer(std::string_view name);

/// Of a layer for multi-token prediction that is named for what it is.
bool is_named_nextn(std::string_view name);

bool is_output_tensor(std::string_view name);

bool is_token_embedding(std::string_view name);

/// Held in full by every rank of tensor parallelism: norms and biases are told by their shape, the others are the
/// routers of experts, the down-projections of MLA and the indexers.
bool is_replicated_by_name(std::string_view name);

/// Projections of the query, the key and the value: 'q', 'k', 'v'; 0 for another tensor.
char attention_projection(std::string_view name);

}  // namespace dgxmm::model
