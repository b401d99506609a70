#include "core/model/hf_config.h"

#include "base/json_codec.h"
#include "base/masking.h"
#include "core/model/hf_layers.h"
#include "core/model/hf_reader.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

namespace dgxmm::model {
namespace {

namespace bj = boost::json;

constexpr std::int64_t kDefaultContext = 2048;  // vllm/config/model.py, _get_and_verify_max_len

std::string read_architecture(HfReader& read) {
  const auto* value = read.document().if_contains("architectures");
  const auto* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr || list->empty()) {
    read.refuse("bad_model_file", "architectures: expected a list with the name of one");
    return {};
  }
  const auto* name = list->front().if_string();
  if (name == nullptr) {
    read.refuse("bad_model_file", "architectures[0]: expected text");
    return {};
  }
  return std::string{*name};
}

/// What is not known of the architecture, or of a field that a model of its kind does not have.
void note_doubts(const HfReader& read, HfFamily family, HfConfig& config) {
  auto& missing = config.missing_fields;
  if (family == HfFamily::unknown) {
    missing.push_back(fmt::format("architectures ({} is not known)", printable(config.architecture)));
    if (read.is_set("sliding_window") && !read.is_set("layer_types")) missing.emplace_back("layer_types");
  } else if (is_read_by_its_type(read, config.architecture)) {
    missing.push_back(
        fmt::format("architectures ({} is not known, and is read as its model_type)", printable(config.architecture)));
  }
  std::ranges::move(find_layout_doubts(read, family), std::back_inserter(missing));
}

std::int64_t read_layers(HfReader& read, HfFamily family) {
  if (family == HfFamily::whisper) return read.dimension({"decoder_layers"}, kMaxHfLayers);
  const auto layers =
      read.number({"num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers"}, kMaxHfLayers);
  // Some files only list them.
  const auto* list = read.find("layers_block_type");
  if (!layers && !read.error() && list != nullptr && list->is_array()) {
    return static_cast<std::int64_t>(std::min(list->get_array().size(), static_cast<std::size_t>(kMaxHfLayers)));
  }
  return layers.value_or(0) > 0 ? *layers : read.dimension({"num_hidden_layers"}, kMaxHfLayers);
}

/// RoPE scaling stretches the context, unless the file counts it already (_get_and_verify_max_len).
double rope_factor(HfReader& read, HfFamily family, std::int64_t& context) {
  const auto* scaling = read.find("rope_scaling");
  if (scaling == nullptr) scaling = read.find("rope_parameters");
  const auto* object = scaling == nullptr ? nullptr : scaling->if_object();
  if (object == nullptr || family == HfFamily::gemma3) return 1;
  const auto text = [object](std::string_view key) -> std::string_view {
    const auto* value = object->if_contains(key);
    const auto* string = value == nullptr ? nullptr : value->if_string();
    return string == nullptr ? std::string_view{} : std::string_view{*string};
  };
  const auto type = text("rope_type").empty() ? text("type") : text("rope_type");
  const auto* value = object->if_contains("factor");
  if (value == nullptr || !value->is_number() || type == "su" || type == "longrope" || type == "llama3") return 1;
  const auto factor = value->to_number<double>();
  const bool stretches = std::isfinite(factor) && factor >= 1;
  if (type == "yarn") {
    // 017e9f44 takes the original length times the factor, 0.32 what the file gives as the longest: the smaller of them
    // is one that both start with.
    const auto* original = object->if_contains("original_max_position_embeddings");
    const auto* tokens = original == nullptr ? nullptr : original->if_int64();
    if (stretches && tokens != nullptr && *tokens > 0 && *tokens <= kMostContext) {
      context =
          static_cast<std::int64_t>(std::min(static_cast<double>(*tokens) * factor, static_cast<double>(context)));
    }
    return 1;
  }
  return stretches ? factor : 1;
}

std::int64_t read_context(HfReader& read, HfFamily family, std::vector<std::string>& missing) {
  static constexpr auto kKeys = {
      "max_position_embeddings", "n_positions",         "max_seq_len",    "seq_length", "model_max_length",
      "max_target_positions",    "max_sequence_length", "max_seq_length", "seq_len"};
  constexpr std::int64_t kGemma3 = 131'072;  // Gemma3TextConfig
  std::optional<std::int64_t> least;
  for (const auto* key : kKeys) {
    const auto tokens = read.number({key}, kMostContext);
    if (tokens && *tokens > 0) least = std::min(least.value_or(*tokens), *tokens);
  }
  if (!least) missing.emplace_back("max_position_embeddings");
  auto context = least.value_or(family == HfFamily::gemma3 ? kGemma3 : kDefaultContext);
  const auto factor = rope_factor(read, family, context);
  return static_cast<std::int64_t>(std::min(static_cast<double>(context) * factor, static_cast<double>(kMostContext)));
}

std::optional<Experts> read_experts(HfReader& read) {
  const auto count =
      read.largest({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}, kMaxHfCount)
          .value_or(0);
  if (count == 0) return std::nullopt;
  const auto used = read.largest({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts",
                                  "moe_topk", "moe_top_k", "moe_k"},
                                 kMaxHfCount);
  Experts experts{.count = count, .used_count = used ? *used : read.dimension({"num_experts_per_tok"}, kMaxHfCount)};
  if (experts.used_count > count) {
    read.refuse("bad_model_file", fmt::format("{} is {}, but there are {} experts", read.name_of("num_experts_per_tok"),
                                              experts.used_count, count));
  }
  const auto length =
      read.largest({"moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size"}, kMaxHfLength);
  const auto dense = length ? length : read.largest({"intermediate_size"}, kMaxHfLength);
  experts.feed_forward_length = dense ? *dense : read.dimension({"intermediate_size"}, kMaxHfLength);
  const auto shared = read.number({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                                   "shared_intermediate_size", "share_expert_dim"},
                                  kMaxHfLength);
  experts.shared_feed_forward_length =
      shared ? *shared
             : read.largest({"n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"},
                            kMaxHfCount)
                       .value_or(0) *
                   experts.feed_forward_length;
  return experts;
}

/// The widest feed-forward part of Nemotron-NAS, whose blocks multiply the embedding (nemotron_nas.py).
std::int64_t widest_block(HfReader& read, std::int64_t hidden_size) {
  const auto* value = read.find("block_configs");
  const auto* list = value == nullptr ? nullptr : value->if_array();
  double widest = 0;
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto* block = (*list)[i].if_object();
    const auto* ffn = block == nullptr ? nullptr : block->if_contains("ffn");
    const auto* keys = ffn == nullptr ? nullptr : ffn->if_object();
    const auto* factor = keys == nullptr ? nullptr : keys->if_contains("ffn_mult");
    if (factor != nullptr && factor->is_number()) widest = std::max(widest, factor->to_number<double>());
  }
  constexpr std::int64_t kStep = 256;
  const auto inner = std::min(2 * widest * static_cast<double>(hidden_size) / 3, static_cast<double>(kMaxHfLength));
  return (static_cast<std::int64_t>(inner) + kStep - 1) / kStep * kStep;
}

std::int64_t read_feed_forward(HfReader& read, HfFamily family, const HfConfig& config) {
  std::int64_t widest = 0;
  for (const auto* key : {"intermediate_size", "n_inner", "intermediate_size_mlp", "dense_intermediate_size",
                          "ffn_hidden_size", "decoder_ffn_dim", "ffn_dim"}) {
    widest = std::max(widest, read.largest({key}, kMaxHfLength).value_or(0));
  }
  if (widest > 0 || config.experts || read.error()) return widest;
  switch (family) {
    case HfFamily::gpt2: return 4 * config.hidden_size;  // their classes' default
    case HfFamily::nemotron_nas: return widest_block(read, config.hidden_size);
    case HfFamily::mamba:
    case HfFamily::mamba2: return 0;
    case HfFamily::lfm2: return read.number({"block_ff_dim"}, kMaxHfLength).value_or(0);
    default: return read.dimension({"intermediate_size"}, kMaxHfLength);
  }
}

/// The cache that a quantized checkpoint asks for (resolve_kv_cache_dtype, vllm/utils/torch_utils.py): ModelOpt by a
/// scheme or a name, compressed-tensors by a scheme; other methods do not say.
std::string cache_type_of(const bj::object& quantization) {
  const auto text = [](const bj::object& object, std::string_view key) -> std::string_view {
    const auto* value = object.if_contains(key);
    const auto* string = value == nullptr ? nullptr : value->if_string();
    return string == nullptr ? std::string_view{} : std::string_view{*string};
  };
  const auto method = text(quantization, "quant_method");
  const auto* value = quantization.if_contains("kv_cache_scheme");
  const auto* scheme = value == nullptr ? nullptr : value->if_object();
  if (method == "compressed-tensors") return scheme == nullptr ? "" : "fp8";
  if (!method.starts_with("modelopt")) return {};
  if (scheme != nullptr) {
    const auto* bits = scheme->if_contains("num_bits");
    const auto* dynamic = scheme->if_contains("dynamic");
    const bool fixed = dynamic != nullptr && dynamic->is_bool() && !dynamic->get_bool();
    const auto count = bits != nullptr && bits->is_int64() ? bits->get_int64() : 0;
    if (count == 8 && fixed && text(*scheme, "type") == "float") return "fp8_e4m3";
    if (count == 4) return "nvfp4";
    return {};
  }
  const auto name = text(quantization, "kv_cache_quant_algo");
  if (name == "FP8") return "fp8_e4m3";
  if (name == "NVFP4") return "nvfp4";
  return {};
}

std::string quantization_label(const bj::object& quantization) {
  const auto text = [&quantization](std::string_view key) -> std::string {
    const auto* found = quantization.if_contains(key);
    const auto* string = found == nullptr ? nullptr : found->if_string();
    return string == nullptr ? std::string{} : printable(*string);
  };
  auto label = text("quant_algo");  // modelopt: NVFP4, FP8
  if (label.empty()) label = text("quant_method");
  if (label.empty()) label = "quantized";
  const auto* bits = quantization.if_contains("bits");
  if (bits != nullptr && bits->is_int64()) label += fmt::format("-{}bit", bits->get_int64());
  return label;
}

void read_quantization(HfReader& read, HfConfig& config) {
  const auto* value = read.find_anywhere("quantization_config");
  if (value == nullptr) return;
  const auto* object = value->if_object();
  if (object == nullptr) return read.malformed("quantization_config", "an object");
  config.quantization = quantization_label(*object);
  config.kv_cache_dtype = cache_type_of(*object);
}

void read_layers_of(HfReader& read, HfFamily family, HfConfig& config) {
  HfDimensions dimensions{.layers = read_layers(read, family), .hidden_size = config.hidden_size, .kv_heads = {}};
  if (read.error()) return;
  const auto mixes = read_mixes(read, family, dimensions.layers, config.missing_fields);
  if (read.error()) return;
  const auto has = [&mixes](auto... wanted) {
    return std::ranges::any_of(mixes, [=](HfMix mix) { return ((mix == wanted) || ...); });
  };
  std::vector<std::optional<Attention>> attention(mixes.size());
  if (has(HfMix::full, HfMix::window, HfMix::chunked, HfMix::both) || family == HfFamily::minimax_text ||
      family == HfFamily::bailing_linear || family == HfFamily::bailing_kda) {
    read_heads(read, family, dimensions, config.missing_fields);
    if (read.error()) return;
    attention = read_hf_attention(read, family, dimensions, mixes, config.missing_fields);
  }
  RecurrentState state;
  if (has(HfMix::state, HfMix::both)) state = read_hf_state(read, family, dimensions, config.missing_fields);
  const auto feed_forward = read_feed_forward(read, family, config);
  for (std::size_t i = 0; i < mixes.size() && !read.error(); ++i) {
    Layer layer{.attention = attention[i], .feed_forward_length = feed_forward};
    if (mixes[i] == HfMix::state || mixes[i] == HfMix::both) layer.recurrent = state;
    if (family == HfFamily::whisper) layer.cross_attention = attention[i];
    config.layers.insert(config.layers.end(), static_cast<std::size_t>(config.attentions_per_layer), layer);
  }
}

/// MTP layers follow the trunk, each with attention like its last one's. The files of Qwen3-Next do not say that there
/// is one (Qwen3NextMultiTokenPredictor, vllm/model_executor/models/qwen3_next_mtp.py).
void read_nextn_layers(HfReader& read, HfFamily family, HfConfig& config) {
  const auto count = read.number({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}, 64);
  const auto last = std::ranges::find_if(config.layers.rbegin(), config.layers.rend(),
                                         [](const Layer& layer) { return layer.attention && !layer.recurrent; });
  if (last == config.layers.rend()) return;
  auto layer = *last;
  if (layer.attention->compress_ratio) {  // DeepSeek V4's keep the window only
    layer.attention->compress_ratio = 0;
    layer.attention->indexer_key_length.reset();
  }
  config.nextn_layers.assign(static_cast<std::size_t>(count.value_or(family == HfFamily::qwen3_next ? 1 : 0)), layer);
}

}  // namespace

Result<HfConfig> parse_hf_config(std::string_view file, std::string_view text) {
  auto document = json::parse(without_infinities(text));
  if (!document) {
    return fail("bad_model_file", fmt::format("{}: {}", printable(file), document.error().message),
                "download config.json again", std::string{file});
  }
  const auto* object = document->if_object();
  if (object == nullptr) {
    return fail("bad_model_file", fmt::format("{}: expected an object", printable(file)), "download config.json again",
                std::string{file});
  }
  return read_hf_config(file, *object);
}

Result<HfConfig> read_hf_config(std::string_view file, const bj::object& document) {
  HfReader read{file, document};
  HfConfig config;
  config.architecture = read_architecture(read);
  if (read.error()) return fail(*read.error());
  const auto family = family_of(read, config.architecture);
  note_doubts(read, family, config);
  config.hidden_size = read.dimension({"hidden_size", "n_embd", "d_model"}, kMaxHfLength);
  config.vocabulary = family == HfFamily::gemma3 && read.find("vocab_size") == nullptr
                          ? 262'208  // Gemma3TextConfig
                          : read.dimension({"vocab_size", "padded_vocab_size"}, kMaxHfVocabulary);
  if (family == HfFamily::gemma3 && read.find("vocab_size") == nullptr)
    config.missing_fields.emplace_back("vocab_size");
  config.layer_embedding_length = read.number({"hidden_size_per_layer_input"}, kMaxHfLength).value_or(0);
  config.hyper_connections = read.number({"hc_mult"}, kMaxHfCount).value_or(0);
  config.attentions_per_layer = family == HfFamily::longcat ? 2 : 1;
  config.experts = read_experts(read);
  config.context = read_context(read, family, config.missing_fields);
  read_layers_of(read, family, config);
  read_nextn_layers(read, family, config);
  config.encoders = read_hf_encoders(read, family, config.missing_fields);
  const auto* tied = read.find_anywhere("tie_word_embeddings");
  if (tied != nullptr && !tied->is_bool()) read.malformed("tie_word_embeddings", "true or false");
  if (tied != nullptr && tied->is_bool()) config.tied_embeddings = tied->get_bool();
  config.dtype = read.text_anywhere("torch_dtype");
  if (!config.dtype) config.dtype = read.text_anywhere("dtype");  // its name since transformers 4.56
  read_quantization(read, config);
  if (read.error()) return fail(*read.error());
  return config;
}

Result<void> read_hf_quant_config(HfConfig& config, std::string_view file, std::string_view text) {
  if (config.quantization) return {};
  auto document = json::parse(without_infinities(text));
  if (!document || !document->is_object()) {
    return fail("bad_model_file",
                fmt::format("{}: {}", printable(file), document ? "expected an object" : document.error().message),
                "download it again", std::string{file});
  }
  // ModelOpt's own file: the scheme is inside, and the method goes without saying.
  const auto* value = document->get_object().if_contains("quantization");
  const auto* inner = value == nullptr ? nullptr : value->if_object();
  if (inner == nullptr) return {};
  bj::object quantization{*inner};
  quantization["quant_method"] = "modelopt";
  config.quantization = quantization_label(quantization);
  config.kv_cache_dtype = cache_type_of(quantization);
  return {};
}

}  // namespace dgxmm::model
