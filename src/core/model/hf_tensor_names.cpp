#include "core/model/hf_tensor_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <system_error>
#include <utility>

namespace dgxmm::model {
namespace {

constexpr std::string_view kLayers = "layers.";

bool holds_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts,
                             [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool ends_with_any(std::string_view name, std::span<const std::string_view> endings) {
  return std::ranges::any_of(endings, [name](std::string_view ending) { return name.ends_with(ending); });
}

/// Is every word of "model.language_model." one that leads to the language model?
bool leads_to_language_model(std::string_view prefix) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"model", "language_model", "thinker", "backbone", "transformer", "text_model", "llm", "language", "decoder"});
  while (!prefix.empty()) {
    const auto dot = prefix.find('.');
    if (dot == std::string_view::npos || std::ranges::find(kWords, prefix.substr(0, dot)) == kWords.end()) return false;
    prefix.remove_prefix(dot + 1);
  }
  return true;
}

}  // namespace

bool is_encoder_tensor(std::string_view name) {
  static constexpr auto kParts = std::to_array<std::string_view>(
      {"visual.", "vision_tower", "vision_model", "vision_encoder", "vision_embed", "embed_vision", "embed_audio",
       "audio_tower", "multi_modal_projector", "mm_projector", "mm_whisper_embeddings", "pre_mm_projector_norm",
       "vision_language_adapter", "vision_adapter", "patch_merger"});
  return holds_any(name, kParts);
}

bool is_speaking_tensor(std::string_view name) {
  return name.starts_with("talker.") || name.starts_with("token2wav.") || name.starts_with("code2wav.");
}

std::optional<std::int64_t> language_layer(std::string_view name) {
  const auto at = name.find(kLayers);
  if (at == std::string_view::npos || !leads_to_language_model(name.substr(0, at))) return std::nullopt;
  const auto* first = name.data() + at + kLayers.size();
  const auto* last = name.data() + name.size();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(first, last, number);
  const bool whole = error == std::errc{} && end != first && end != last && *end == '.' && number >= 0;
  return whole ? std::optional{number} : std::nullopt;
}

bool is_named_nextn(std::string_view name) {
  return name.starts_with("mtp.") || name.find(".mtp.") != std::string_view::npos;
}

bool is_output_tensor(std::string_view name) {
  return name.ends_with("lm_head.weight") || name == "embed_out.weight" || name == "output.weight";
}

bool is_token_embedding(std::string_view name) {
  static constexpr auto kEndings =
      std::to_array<std::string_view>({"embed_tokens.weight", "embed_in.weight", "tok_embeddings.weight", "wte.weight",
                                       "word_embeddings.weight", "backbone.embeddings.weight"});
  return ends_with_any(name, kEndings);
}

bool is_replicated_by_name(std::string_view name) {
  static constexpr auto kParts =
      std::to_array<std::string_view>({".kv_a_proj", ".q_a_proj", ".indexer.", ".mlp.gate.weight", ".router.",
                                       ".block_sparse_moe.gate.weight", ".mlp.shared_expert_gate."});
  return holds_any(name, kParts);
}

char attention_projection(std::string_view name) {
  static constexpr auto kEndings = std::to_array<std::pair<std::string_view, char>>({{".self_attn.q_proj.weight", 'q'},
                                                                                     {".self_attn.k_proj.weight", 'k'},
                                                                                     {".self_attn.v_proj.weight", 'v'},
                                                                                     {".attention.wq.weight", 'q'},
                                                                                     {".attention.wk.weight", 'k'},
                                                                                     {".attention.wv.weight", 'v'}});
  for (const auto& [ending, projection] : kEndings) {
    if (name.ends_with(ending)) return projection;
  }
  return 0;
}

}  // namespace dgxmm::model
