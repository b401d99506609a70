// From headers of safetensors files and config.json to the description of a folder.
#include "base/masking.h"
#include "core/model/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
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

bool holds_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool is_vision(std::string_view name) {
  static constexpr auto kParts = std::to_array<std::string_view>(
      {"visual.", "vision_tower", "vision_model", "vision_encoder", "vision_embed", "embed_vision", "embed_audio",
       "audio_tower", "multi_modal_projector", "mm_projector", "vision_adapter", "patch_merger"});
  return holds_any(name, kParts);
}

/// The N of "….layers.N.…".
std::optional<std::size_t> layer_number(std::string_view name) {
  constexpr std::string_view kKey = "layers.";
  const auto at = name.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  const auto* first = name.data() + at + kKey.size();
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(first, name.data() + name.size(), number);
  return error == std::errc{} && end != first ? std::optional{number} : std::nullopt;
}

/// MTP layers follow the trunk, or are named for what they are.
bool is_nextn(std::string_view name, const HfConfig& config) {
  if (name.starts_with("mtp.") || name.find(".mtp.") != std::string_view::npos) return true;
  const auto number = config.nextn_layers.empty() ? std::nullopt : layer_number(name);
  return number && *number >= config.layers.size();
}

bool is_output(std::string_view name) {
  return name.ends_with("lm_head.weight") || name == "embed_out.weight" || name == "output.weight";
}

bool is_token_embedding(std::string_view name) {
  static constexpr auto kEndings =
      std::to_array<std::string_view>({"embed_tokens.weight", "embed_in.weight", "tok_embeddings.weight", "wte.weight",
                                       "word_embeddings.weight", "backbone.embeddings.weight"});
  return std::ranges::any_of(kEndings, [name](std::string_view ending) { return name.ends_with(ending); });
}

/// What the corrections from file bytes to loaded bytes ask for. A tensor that is not loaded counts there only.
void add_tensor(WeightSummary& weights, const SafetensorsTensor& tensor, const HfConfig& config) {
  const Bytes size{static_cast<std::int64_t>(tensor.bytes)};
  weights.tensors += size;
  if (is_nextn(tensor.name, config)) {
    weights.nextn_tensors += size;
  } else if (config.tied_embeddings == true && is_output(tensor.name)) {
    weights.unused_output += size;
  } else {
    if (tensor.dtype == "F32" && !config.quantization) weights.float32_tensors += size;
    if (is_vision(tensor.name)) {
      weights.vision_tensors += size;
    } else if (is_token_embedding(tensor.name)) {
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
      has_output = has_output || is_output(tensor.name);
      bytes_by_dtype[tensor.dtype] += tensor.bytes;
    }
    model.files.push_back({.path = part.path, .size = Bytes{static_cast<std::int64_t>(part.size)}});
    identities.push_back({.size = part.size, .header = part.header.digest});
  }
  if (model.weights.tensors == Bytes{}) {
    return fail("bad_model_file", fmt::format("{}: its files hold no tensors", printable(path)), "download it again",
                std::string{path});
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
