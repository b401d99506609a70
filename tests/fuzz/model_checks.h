#pragma once
// What must hold for any bytes given to the readers of model files: used by the fuzzers, and by a normal test that
// replays their corpora.
#include "core/memory/estimate.h"
#include "core/model/gguf.h"
#include "core/model/gguf_description.h"
#include "core/model/hf_config.h"
#include "core/model/hf_files.h"
#include "core/model/identity.h"
#include "core/model/safetensors.h"
#include "tools/byte_reader.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

namespace dgxmm::testing {

inline void must(bool holds) {
  if (!holds) std::abort();
}

inline void must_be_told(const Error& error) { must(!error.code.empty() && !error.message.empty()); }

inline void must_be_sound(const model::ModelDescription& model) {
  must(!model.layers.empty() && model.vocabulary > 0 && model.embedding_length > 0 && model.training_context > 0);
  for (const auto& layer : model.layers) {
    if (!layer.attention) continue;
    must(layer.attention->n_head_kv > 0 && layer.attention->key_length > 0 && layer.attention->value_length > 0);
  }
  must(model.weights.tensors > Bytes{} && model.weights.tensors <= model.weights.files);
  must(model.weights.input_tensors <= model.weights.tensors);
  must(!model.fingerprint.digest.empty());
}

/// As a model that drafts: with itself as its draft model, with its own layers, and as its own projector.
inline void check_companions(const model::ModelDescription& model, const model::GgufPart& part) {
  for (const auto type : {engine::SpecType::draft_simple, engine::SpecType::draft_mtp}) {
    engine::LlamaCppConfig config{.ctx_size = 1 << 27, .parallel = 256, .spec_type = type};
    config.spec_draft_n_max = engine::kMostDrafted;
    model::Companions companions;
    if (type == engine::SpecType::draft_simple) {
      config.draft_model = "fuzz.gguf";
      companions.draft = model;
    }
    companions.projector = model::Projector{.path = "fuzz.gguf", .file = Bytes{static_cast<std::int64_t>(part.size)}};
    companions.projector->tensors = companions.projector->file;
    config.mmproj = "fuzz.gguf";
    const auto estimate = memory::estimate_llamacpp(model, config, {}, memory::Placement::gpu, companions);
    if (!estimate) {
      must_be_told(estimate.error());
      continue;
    }
    for (const auto& figure : estimate->parts) must(figure.size >= Bytes{} && figure.size <= estimate->total);
  }
}

inline void check_gguf(std::span<const std::byte> bytes) {
  // As the whole file, and as the start of a larger one, whose data is not there to be looked at.
  for (const std::uint64_t more : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
    const auto size = bytes.size() + more;
    auto header = model::parse_gguf("fuzz.gguf", size, reader_of(bytes));
    if (!header) {
      must_be_told(header.error());
      continue;
    }
    const model::GgufPart part{.path = "fuzz.gguf", .size = size, .header = std::move(*header)};
    const auto described = model::describe_gguf("fuzz.gguf", "fuzz", {&part, 1});
    described ? must_be_sound(*described) : must_be_told(described.error());
    if (described) check_companions(*described, part);
    const auto projector = model::describe_projector(part);
    projector ? must(projector->tensors <= projector->file) : must_be_told(projector.error());
  }
}

inline void check_safetensors(std::span<const std::byte> bytes) {
  const auto header_end = model::safetensors_header_end("fuzz.safetensors", bytes, bytes.size());
  if (header_end) must(*header_end >= 8 && *header_end <= bytes.size());
  const auto header = model::parse_safetensors("fuzz.safetensors", bytes, bytes.size());
  if (!header) return must_be_told(header.error());
  must(header_end.has_value() && header->tensor_bytes == bytes.size() - *header_end);
  std::uint64_t sum = 0;
  for (const auto& tensor : header->tensors) sum += tensor.bytes;
  must(sum == header->tensor_bytes);
}

inline void check_hf_description(const Result<model::HfConfig>& config) {
  if (!config) {
    must_be_told(config.error());
  } else {
    const model::SafetensorsPart part{
        .path = "model.safetensors",
        .size = 64,
        .header = {.tensors = {{.name = "x", .dtype = "BF16", .bytes = 8}}, .tensor_bytes = 8, .digest = {}}};
    const auto described = model::describe_safetensors("folder", "folder", *config, {}, {&part, 1});
    must(described.has_value());
    must_be_sound(*described);
    for (const auto length : {std::int64_t{1}, std::int64_t{1} << 27}) {
      const auto estimate = memory::estimate_vllm(
          *described, {.max_model_len = length, .max_num_seqs = 256, .max_num_batched_tokens = 8192}, {});
      estimate ? must(estimate->total > Bytes{}) : must_be_told(estimate.error());
      const auto shared = memory::estimate_vllm(*described,
                                                {.max_model_len = length,
                                                 .max_num_seqs = 256,
                                                 .max_num_batched_tokens = 8192,
                                                 .tensor_parallel_size = 2,
                                                 .spec_method = "ngram",
                                                 .num_speculative_tokens = 3,
                                                 .enable_lora = true,
                                                 .max_loras = 1024,
                                                 .max_lora_rank = 512,
                                                 .mm_processor_cache_gb = 1},
                                                {});
      shared ? must(shared->total > Bytes{}) : must_be_told(shared.error());
    }
  }
}

inline void check_hf_config(std::string_view text) {
  check_hf_description(model::parse_hf_config("config.json", text));
  check_hf_description(model::parse_mistral_params("params.json", text));
  // The same bytes as an index: another JSON file of the same folder.
  const auto choice = model::choose_weight_files("folder", {}, text);
  if (!choice) return must_be_told(choice.error());
  for (const auto& file : choice->files) must(!file.empty() && file.find('/') == std::string::npos);
}

}  // namespace dgxmm::testing
