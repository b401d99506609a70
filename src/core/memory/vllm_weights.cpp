// From the bytes of the files to the bytes that vLLM loads. Version of every rule here: 017e9f44 (2026-08-17).
#include "core/memory/vllm_weights.h"

#include "core/memory/assemble.h"
#include "core/memory/rounding.h"
#include "core/memory/vllm_kv_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace dgxmm::memory::vllm {
namespace {

/// Bytes by which rows of a vocabulary are padded (VocabParallelEmbedding), in the embedding and the output layer.
Bytes vocabulary_padding(const model::ModelDescription& model) {
  constexpr std::int64_t kRows = 64;
  const auto rows = ceil_div(model.vocabulary, kRows) * kRows - model.vocabulary;
  return Bytes{rows * model.embedding_length * kHalf * (model.weights.tied_embeddings ? 1 : 2)};
}

/// MLA computes with 16-bit copies of its up-projections (MLAAttention.process_weights_after_loading).
Bytes latent_copies(const model::ModelDescription& model) {
  Bytes sum;
  for (const auto& layer : model.layers) {
    if (!layer.attention || layer.attention->kind != model::AttentionKind::mla) continue;
    const auto& a = *layer.attention;
    const auto width = a.mla_key_length.value_or(0) - a.rope_length.value_or(0) + a.mla_value_length.value_or(0);
    sum += Bytes{a.kv_lora_rank.value_or(0) * a.n_head * std::max<std::int64_t>(width, 0) * kHalf};
  }
  return sum;
}

/// The kernels for MXFP4 experts on GB10 (Marlin) take widths in steps (mxfp4_round_up_hidden_size_and_intermediate).
Bytes expert_padding(const model::ModelDescription& model) {
  constexpr std::int64_t kInnerStep = 128;
  constexpr std::int64_t kHiddenStep = 256;
  if (!model.experts || model.quantization != "mxfp4" || model.experts->feed_forward_length == 0) return {};
  const auto inner = model.experts->feed_forward_length;
  const auto hidden = model.embedding_length;
  const auto padded = ceil_div(inner, kInnerStep) * kInnerStep * (ceil_div(hidden, kHiddenStep) * kHiddenStep);
  return scale_up(model.weights.expert_tensors, padded, inner * hidden) - model.weights.expert_tensors;
}

}  // namespace

Part weights(const model::ModelDescription& model) {
  const auto& w = model.weights;
  Part part{.size = w.tensors, .source = Source::file_size, .detail = describe_files(model)};
  const auto correct = [&part](Bytes by, std::string_view why) {
    if (by == Bytes{}) return;
    part.size += by;
    part.source = Source::formula;
    part.detail +=
        fmt::format("; {} {}: {}", by < Bytes{} ? "less" : "more", format_bytes(by < Bytes{} ? -by : by), why);
  };
  correct(-w.nextn_tensors, "layers for multi-token prediction are not loaded");
  correct(-w.unused_output, "an output layer beside the embedding that it is tied to");
  // Where few tensors are float32, they are those that stay so: norms, routers, biases.
  if (w.float32_tensors * 2 > w.tensors)
    correct(scale_up(w.float32_tensors, 1, 2) - w.float32_tensors, "float32 halved");
  correct(latent_copies(model), "16-bit copies of the up-projections of MLA");
  correct(expert_padding(model), "experts are padded");
  correct(vocabulary_padding(model), "the vocabulary is padded to a multiple of 64");
  if (w.vision_tensors > Bytes{}) {
    part.detail += fmt::format("; {} of them see or hear", format_bytes(w.vision_tensors));
  }
  return part;
}

}  // namespace dgxmm::memory::vllm
