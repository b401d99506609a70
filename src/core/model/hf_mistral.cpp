// params.json, which Mistral puts beside consolidated.safetensors: as the config.json that vLLM makes of it
// (vllm/transformers_utils/configs/mistral.py at 017e9f44).
#include "base/json_codec.h"
#include "base/masking.h"
#include "core/model/hf_config.h"
#include "core/model/hf_layers.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace dgxmm::model {
namespace {

namespace bj = boost::json;

struct Renamed {
  std::string_view mistral;
  std::string_view transformers;
};

constexpr auto kRenamed = std::to_array<Renamed>({{"dim", "hidden_size"},
                                                  {"n_layers", "num_hidden_layers"},
                                                  {"n_heads", "num_attention_heads"},
                                                  {"n_kv_heads", "num_key_value_heads"},
                                                  {"hidden_dim", "intermediate_size"},
                                                  {"tied_embeddings", "tie_word_embeddings"}});
constexpr auto kRenamedExperts = std::to_array<Renamed>({{"num_experts", "n_routed_experts"},
                                                         {"num_experts_per_tok", "num_experts_per_tok"},
                                                         {"expert_hidden_dim", "moe_intermediate_size"},
                                                         {"num_shared_experts", "n_shared_experts"}});

const bj::value* known(const bj::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const bj::object* member(const bj::object& object, std::string_view key) {
  const auto* value = known(object, key);
  return value == nullptr ? nullptr : value->if_object();
}

/// A list such as [null, 4096] is repeated over the layers; null is a layer without a window.
void spread_windows(bj::object& config) {
  for (const auto* key : {"sliding_window", "_sliding_window"}) {
    const auto* value = known(config, key);
    const auto* list = value == nullptr ? nullptr : value->if_array();
    const auto* layers = known(config, "num_hidden_layers");
    const auto* count = layers == nullptr ? nullptr : layers->if_int64();
    if (list == nullptr || list->empty() || count == nullptr || *count < 0 || *count > kMaxHfLayers) continue;
    const auto pattern = *list;
    bj::array types;
    for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i) {
      types.emplace_back(pattern[i % pattern.size()].is_null() ? "full_attention" : "sliding_attention");
    }
    config["layer_types"] = std::move(types);
    const auto* window = std::ranges::find_if(pattern, [](const bj::value& entry) { return !entry.is_null(); });
    config["sliding_window"] = window == pattern.end() ? bj::value{nullptr} : *window;
  }
}

void add_experts(bj::object& config) {
  const auto* experts = member(config, "moe");
  if (experts == nullptr || experts->empty()) {
    config["architectures"] = bj::array{"MistralForCausalLM"};
    config["model_type"] = "mistral";
    return;
  }
  const auto copy = *experts;
  for (const auto& [mistral, transformers] : kRenamedExperts) {
    if (const auto* value = known(copy, mistral)) config[transformers] = *value;
  }
  const auto* shared = known(copy, "num_shared_experts");
  const bool large = shared != nullptr && (!shared->is_int64() || shared->get_int64() > 0);
  config["architectures"] = bj::array{large ? "MistralLarge3ForCausalLM" : "MixtralForCausalLM"};
  config["model_type"] = large ? "deepseek_v3" : "mixtral";
}

/// The whole as a wrapper around its language model, when it sees or hears.
bj::object with_encoders(bj::object config) {
  const auto* several = member(config, "multimodal");
  const auto* vision = several == nullptr ? nullptr : member(*several, "vision_encoder_args");
  if (vision == nullptr) vision = member(config, "vision_encoder");
  const auto* whisper = several == nullptr ? nullptr : member(*several, "whisper_model_args");
  const auto* sound = whisper == nullptr ? nullptr : member(*whisper, "encoder_args");
  if (vision == nullptr && sound == nullptr) return config;
  bj::object whole;
  if (vision != nullptr) whole["vision_config"] = *vision;
  if (sound != nullptr) {
    auto& encoder = (whole["audio_config"] = *sound).get_object();
    if (const auto* width = known(encoder, "dim")) encoder["d_model"] = bj::value{*width};
  }
  for (const auto* key : {"quantization_config", "tie_word_embeddings"}) {
    if (const auto* value = known(config, key)) whole[key] = *value;
  }
  whole["architectures"] =
      bj::array{vision != nullptr ? "PixtralForConditionalGeneration" : "VoxtralForConditionalGeneration"};
  whole["text_config"] = std::move(config);
  return whole;
}

/// Names of config.json in an error become those of params.json.
Error in_its_own_words(Error error) {
  const auto replace = [&error](std::string_view from, std::string_view to) {
    for (auto at = error.message.find(from); at != std::string::npos; at = error.message.find(from, at + to.size())) {
      error.message.replace(at, from.size(), to);
    }
  };
  replace("text_config.", "");
  for (const auto& [mistral, transformers] : kRenamed) replace(transformers, mistral);
  for (const auto& [mistral, transformers] : kRenamedExperts) replace(transformers, "moe." + std::string{mistral});
  error.hint = "download params.json again";
  return error;
}

}  // namespace

Result<HfConfig> parse_mistral_params(std::string_view file, std::string_view text) {
  auto document = json::parse(without_infinities(text));
  auto* params = document ? document->if_object() : nullptr;
  if (params == nullptr) {
    return fail("bad_model_file",
                fmt::format("{}: {}", printable(file), document ? "expected an object" : document.error().message),
                "download params.json again", std::string{file});
  }
  auto& config = *params;
  for (const auto& [mistral, transformers] : kRenamed) {
    const auto* value = known(config, mistral);
    if (value != nullptr) config[transformers] = bj::value{*value};
  }
  // Both have this default, and the smaller one counts.
  constexpr std::int64_t kDefaultContext = 128'000;
  const bool says_context =
      known(config, "max_position_embeddings") != nullptr || known(config, "max_seq_len") != nullptr;
  for (const auto* key : {"max_position_embeddings", "max_seq_len"}) {
    if (known(config, key) == nullptr) config[key] = kDefaultContext;
  }
  if (const auto* quantization = member(config, "quantization"); quantization != nullptr && !quantization->empty()) {
    const auto* format = known(*quantization, "qformat_weight");
    const auto* name = format == nullptr ? nullptr : format->if_string();
    if (name == nullptr || *name != "fp8_e4m3") {
      return fail("model_not_supported",
                  fmt::format("{}: quantization.qformat_weight is not fp8_e4m3, the only one that vLLM reads there",
                              printable(file)),
                  "use the files that config.json describes", std::string{file});
    }
    config["quantization_config"] = bj::object{{"quant_method", "fp8"}};
  }
  if (const auto* yarn = member(config, "yarn"); yarn != nullptr && !yarn->empty()) {
    auto scaling = *yarn;
    scaling["rope_type"] = "yarn";
    config["rope_scaling"] = std::move(scaling);
  }
  add_experts(config);
  spread_windows(config);
  auto read = read_hf_config(file, with_encoders(config));
  if (!read) return fail(in_its_own_words(std::move(read.error())));
  if (!says_context) read->missing_fields.emplace_back("max_position_embeddings");
  return read;
}

}  // namespace dgxmm::model
