#pragma once
#include "core/model/layout.h"

#include <cstdint>
#include <string>

namespace dgxmm::memory {

/// The shape of a model whose layers are all alike.
struct DenseShape {
  std::string name = "model";
  std::int64_t layers = 32;
  std::int64_t embedding = 4096;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 8;
  std::int64_t head_size = 128;
  std::int64_t feed_forward = 14336;
  std::int64_t vocabulary = 128256;
  std::int64_t experts = 0, experts_used = 0, expert_feed_forward = 0;
  Bytes weights = gib(4);
  Bytes token_embedding = mib(282);
  bool tied = false;
};

inline model::ModelDescription dense_model(const DenseShape& shape = {}) {
  model::ModelDescription model{.name = shape.name, .architecture = "llama"};
  model::Attention attention{.n_head = shape.heads,
                             .n_head_kv = shape.kv_heads,
                             .key_length = shape.head_size,
                             .value_length = shape.head_size};
  model.layers.assign(static_cast<std::size_t>(shape.layers),
                      {.attention = attention, .recurrent = {}, .feed_forward_length = shape.feed_forward});
  model.embedding_length = shape.embedding;
  model.vocabulary = shape.vocabulary;
  model.training_context = 131072;
  if (shape.experts > 0) {
    model.experts = model::Experts{
        .count = shape.experts, .used_count = shape.experts_used, .feed_forward_length = shape.expert_feed_forward};
  }
  model.weight_dtype = "bfloat16";
  model.files = {{.path = shape.name + ".gguf", .size = shape.weights}};
  model.weights = {.files = shape.weights,
                   .tensors = shape.weights,
                   .input_tensors = shape.token_embedding,
                   .token_embedding = shape.token_embedding,
                   .tied_embeddings = shape.tied};
  return model;
}

}  // namespace dgxmm::memory
