// From headers of safetensors files and config.json to the description of a folder.
#include "base/masking.h"
#include "core/model/hf_config.h"
#include "core/model/hf_contradictions.h"
#include "core/model/hf_tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace dgxmm::model {
namespace {

std::string short_dtype(std::string_view dtype) {
  static constexpr auto kNames = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"bfloat16", "bf16"}, {"float16", "f16"}, {"float32", "f32"}, {"BF16", "bf16"}, {"F16", "f16"}, {"F32", "f32"}});
  const auto found = std::ranges::find(kNames, dtype, [](const auto& entry) { return entry.first; });
  return std::string{found == kNames.end() ? dtype : found->second};
}

std::string long_dtype(std::string_view dtype) {
  if (dtype == "BF16") return "bfloat16";
  if (dtype == "F16") return "float16";
  if (dtype == "F32") return "float32";
  return std::string{dtype};
}

/// MTP layers follow the trunk, or are named for what they are.
bool is_nextn(std::string_view name, const HfConfig& config) {
  if (is_named_nextn(name)) return true;
  const auto number = config.nextn_layers.empty() ? std::nullopt : language_layer(name);
  return number && *number * config.attentions_per_layer >= static_cast<std::int64_t>(config.layers.size());
}

/// Layers that draft use the embedding and the output of the trunk; some files hold them once more.
bool is_copy(std::string_view name) {
  return is_token_embedding(name) || is_output_tensor(name) || name.ends_with("shared_head.head.weight");
}

/// A matrix of a layer, which vLLM can quantize while it loads it. What a kernel convolves with has three dimensions.
bool is_linear(const SafetensorsTensor& tensor) {
  return tensor.name.ends_with(".weight") && tensor.shape.size() == 2 && language_layer(tensor.name) &&
         !is_replicated_by_name(tensor.name);
}

/// What the corrections from file bytes to loaded bytes ask for. A tensor that is not loaded counts there only.
void add_tensor(WeightSummary& weights, const SafetensorsTensor& tensor, const HfConfig& config) {
  const Bytes size{static_cast<std::int64_t>(tensor.bytes)};
  weights.tensors += size;
  if (is_nextn(tensor.name, config)) {
    weights.nextn_tensors += size;
    if (is_copy(tensor.name)) weights.nextn_copies += size;
  } else if (is_speaking_tensor(tensor.name)) {
    weights.speaking_tensors += size;
  } else if (config.tied_embeddings == true && is_output_tensor(tensor.name)) {
    weights.unused_output += size;
  } else {
    if (tensor.dtype == "F32" && !config.quantization) weights.float32_tensors += size;
    if (is_encoder_tensor(tensor.name)) {
      weights.vision_tensors += size;
      return;
    }
    if (tensor.shape.size() < 2 || is_replicated_by_name(tensor.name)) weights.replicated_tensors += size;
    if (!config.quantization && is_linear(tensor)) weights.linear_tensors += size;
    if (is_token_embedding(tensor.name)) {
      weights.token_embedding = size;
    } else if (tensor.name.find(".experts.") != std::string::npos) {
      weights.expert_tensors += size;
    }
  }
}

}  // namespace

Result<ModelDescription> describe_safetensors(std::string_view path, std::string_view name, const HfConfig& config,
                                              const Digest& config_digest, std::span<const SafetensorsPart> parts) {
  ModelDescription model{.format = Format::safetensors,
                         .path = std::string{path},
                         .name = printable(name),
                         .architecture = config.architecture,
                         .embedding_length = config.hidden_size,
                         .layer_embedding_length = config.layer_embedding_length,
                         .hyper_connections = config.hyper_connections,
                         .vocabulary = config.vocabulary,
                         .training_context = config.context,
                         .experts = config.experts,
                         .missing_fields = config.missing_fields};
  model.kv_cache_dtype = config.kv_cache_dtype;
  model.layers = config.layers;
  model.nextn_layers = config.nextn_layers;
  model.encoders = config.encoders;
  auto contradictions = find_contradictions(path, config, parts);
  if (!contradictions) return fail(std::move(contradictions.error()));
  model.contradictions = std::move(*contradictions);

  std::map<std::string, std::uint64_t> bytes_by_dtype;
  bool has_output = false;
  std::vector<FileIdentity> identities{{.size = 0, .header = config_digest}};
  for (const auto& part : parts) {
    std::int64_t sum = 0;
    if (!std::in_range<std::int64_t>(part.size) ||
        __builtin_add_overflow(model.weights.files.count(), static_cast<std::int64_t>(part.size), &sum)) {
      return fail("bad_model_file", fmt::format("{}: its files together are impossibly large", printable(path)), {},
                  std::string{path});
    }
    model.weights.files = Bytes{sum};
    // parse_safetensors has found the tensors to fill the file: their sum cannot be larger.
    for (const auto& tensor : part.header.tensors) {
      add_tensor(model.weights, tensor, config);
      has_output = has_output || is_output_tensor(tensor.name);
      bytes_by_dtype[tensor.dtype] += tensor.bytes;
    }
    model.files.push_back({.path = part.path, .size = Bytes{static_cast<std::int64_t>(part.size)}});
    identities.push_back({.size = part.size, .header = part.header.digest});
  }
  if (model.weights.tensors == Bytes{}) {
    return fail("bad_model_file", fmt::format("{}: its files hold no tensors", printable(path)), "download it again",
                std::string{path});
  }
  if (model.weights.vision_tensors > Bytes{} && model.encoders.empty()) {
    model.missing_fields.emplace_back("vision_config or audio_config");
  }
  model.weights.input_tensors = model.weights.token_embedding;
  model.weights.tied_embeddings = config.tied_embeddings.value_or(!has_output);

  const auto dominant = std::ranges::max_element(bytes_by_dtype, {}, [](const auto& entry) { return entry.second; });
  model.weight_dtype = config.dtype ? printable(*config.dtype) : long_dtype(dominant->first);
  model.quantization = config.quantization.value_or(short_dtype(model.weight_dtype));
  model.base_model = base_model_identity(model, name, 0);
  model.fingerprint = make_fingerprint(Format::safetensors, identities);
  return model;
}

}  // namespace dgxmm::model
