// From the bytes of the files to the bytes that vLLM loads. Version of every rule here: 017e9f44 (2026-08-17).
#include "core/memory/vllm_weights.h"

#include "core/memory/assemble.h"
#include "core/memory/rounding.h"
#include "core/memory/vllm_kv_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace dgxmm::memory::vllm {
namespace {

using engine::VllmConfig;

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

/// K and V heads that several ranks hold: what this rank has beyond its share.
Bytes repeated_heads(const model::ModelDescription& model, const model::ModelDescription& rank, std::int64_t ranks) {
  Bytes sum;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (!model.layers[i].attention || model.layers[i].attention->kind == model::AttentionKind::mla) continue;
    const auto& a = *model.layers[i].attention;
    const auto beyond = rank.layers[i].attention->n_head_kv * ranks - a.n_head_kv;
    sum += Bytes{beyond * (a.key_length + a.value_length) * model.embedding_length * kHalf / ranks};
  }
  return sum;
}

// LoRA: A and B of every adapted matrix, in 16 bit (vllm/lora/layers). Inputs and outputs of the matrices, together.

std::int64_t lora_width(const model::Attention& a, std::int64_t hidden) {
  if (a.kind == model::AttentionKind::mla) {
    const auto query = a.n_head * a.mla_key_length.value_or(0);
    const auto latent = a.kv_lora_rank.value_or(0) + a.rope_length.value_or(0);
    const auto heads = a.n_head * (a.mla_key_length.value_or(0) + a.mla_value_length.value_or(0));
    return (hidden + query) + (hidden + latent) + (a.kv_lora_rank.value_or(0) + heads) +
           (a.n_head * a.mla_value_length.value_or(0) + hidden);
  }
  const auto query = a.n_head * a.key_length * (a.gates_query ? 2 : 1);
  return (hidden + query) + (hidden + a.n_head_kv * a.key_length) + (hidden + a.n_head_kv * a.value_length) +
         (a.n_head * a.value_length + hidden);
}

/// Nothing: more than can be counted.
std::optional<Bytes> lora_bytes(const model::ModelDescription& rank, const VllmConfig& config) {
  const auto hidden = rank.embedding_length;
  std::int64_t width = 2 * (hidden + rank.vocabulary);  // embedding and output
  for (const auto& layer : rank.layers) {
    if (layer.attention) width += lora_width(*layer.attention, hidden);
    if (layer.cross_attention) width += lora_width(*layer.cross_attention, hidden);
    if (layer.recurrent) width += (hidden + layer.recurrent->projected) + (layer.recurrent->inner + hidden);
    if (layer.feed_forward_length > 0 && !rank.experts) width += 3 * (hidden + layer.feed_forward_length);
    if (!rank.experts) continue;
    const auto& experts = *rank.experts;
    width += 3 * experts.count * (hidden + experts.feed_forward_length);
    if (experts.shared_feed_forward_length > 0) width += 3 * (hidden + experts.shared_feed_forward_length);
  }
  std::int64_t bytes = 0;
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  if (__builtin_mul_overflow(width, config.max_loras * config.max_lora_rank * kHalf, &bytes) || bytes > kMost) {
    return std::nullopt;
  }
  return Bytes{bytes};
}

/// Bits of one value after --quantization of a checkpoint in 16 bit, scales included, in sixteenths.
std::int64_t quantized_sixteenths(std::string_view name) {
  if (name == "mxfp8") return 8 * 16 + 4;            // one byte of scale for 32 values
  if (name == "mxfp4") return 4 * 16 + 4;            // likewise
  if (name == "nvfp4_per_token") return 4 * 16 + 8;  // one byte for 16 values
  return 8 * 16;
}

}  // namespace

bool loads_encoders(const model::ModelDescription& model, const VllmConfig& config) {
  const bool is_decoder =
      std::ranges::any_of(model.layers, [](const model::Layer& layer) { return layer.cross_attention.has_value(); });
  return is_decoder || (!config.language_model_only && config.limit_mm_per_prompt != 0);
}

Result<Part> weights(const model::ModelDescription& model, const model::ModelDescription& rank,
                     const VllmConfig& config) {
  const auto& w = model.weights;
  Part part{.size = w.tensors, .source = Source::file_size, .detail = describe_files(model)};
  const auto correct = [&part](Bytes by, std::string_view why) {
    if (by == Bytes{}) return;
    part.size += by;
    part.source = Source::formula;
    part.detail +=
        fmt::format("; {} {}: {}", by < Bytes{} ? "less" : "more", format_bytes(by < Bytes{} ? -by : by), why);
  };
  if (config.spec_method != "mtp") {
    correct(-w.nextn_tensors, "layers for multi-token prediction are not loaded");
  } else if (w.nextn_tensors == Bytes{}) {
    return fail("bad_configuration",
                fmt::format("{}: its files do not hold the layers that spec_method mtp drafts with",
                            model.path.empty() ? model.name : model.path),
                "leave spec_method out, or use files that hold them", "spec_method");
  } else {
    part.detail += fmt::format("; {} of them draft tokens", format_bytes(w.nextn_tensors - w.nextn_copies));
    correct(-w.nextn_copies, "drafting uses the embedding and the output of the model");
  }
  correct(-w.unused_output, "an output layer beside the embedding that it is tied to");
  correct(-w.speaking_tensors, "the half that speaks is not loaded");
  // Where few tensors are float32, they are those that stay so: norms, routers, biases.
  const bool halved = w.float32_tensors * 2 > w.tensors;
  if (halved) correct(scale_up(w.float32_tensors, 1, 2) - w.float32_tensors, "float32 halved");
  if (w.vision_tensors > Bytes{} && loads_encoders(model, config)) {
    part.detail += fmt::format("; {} of them see or hear", format_bytes(w.vision_tensors));
  } else {
    correct(-(halved ? scale_up(w.vision_tensors, 1, 2) : w.vision_tensors), "what sees or hears is not loaded");
  }
  if (!config.quantization.empty()) {
    if (w.linear_tensors == Bytes{}) {
      return fail("bad_configuration",
                  fmt::format("quantization {} is for checkpoints in 16 bit, and this one is {}", config.quantization,
                              model.quantization),
                  "leave quantization out: the checkpoint says how it is quantized", "quantization");
    }
    // The checkpoint of linear layers alone: embeddings, outputs, norms and encoders stay as they are.
    const auto shrinking = config.quantization == "experts_int8" ? w.expert_tensors : w.linear_tensors;
    const auto before = halved ? scale_up(shrinking, 1, 2) : shrinking;
    correct(scale_up(before, quantized_sixteenths(config.quantization), 16 * 16) - before,
            fmt::format("quantized to {} while loading", config.quantization));
  }
  correct(latent_copies(model), "16-bit copies of the up-projections of MLA");
  correct(expert_padding(rank) * config.tensor_parallel_size, "experts are padded");
  correct(vocabulary_padding(model), "the vocabulary is padded to a multiple of 64");
  if (const auto ranks = config.tensor_parallel_size; ranks > 1) {
    const auto shared = std::max(part.size - w.replicated_tensors, Bytes{});
    correct(scale_up(shared, 1, ranks) - shared, fmt::format("held by the other of {} ranks", ranks));
    correct(repeated_heads(model, rank, ranks), "KV heads that several ranks hold");
  }
  if (config.enable_lora) {
    const auto adapters = lora_bytes(rank, config);
    if (!adapters) {
      return fail("bad_configuration", "LoRA adapters of this model would take impossibly much memory",
                  "lower max_loras or max_lora_rank", "max_loras");
    }
    correct(*adapters, fmt::format("room for LoRA adapters, {} of rank {}", config.max_loras, config.max_lora_rank));
  }
  if (config.sleep_mode) {
    // Granules of the allocator that gives memory back while asleep (csrc/cumem_allocator.cpp).
    constexpr std::int64_t kGranule = 2 * 1024 * 1024;
    const auto padded = Bytes{ceil_div(part.size.count(), kGranule) * kGranule};
    correct(padded - part.size, "whole segments of 2 MiB (sleep_mode)");
  }
  return part;
}

}  // namespace dgxmm::memory::vllm
