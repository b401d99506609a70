#include "core/model/hf_config.h"

#include "base/json_codec.h"
#include "base/masking.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <utility>

namespace dgxmm::model {
namespace {

namespace bj = boost::json;

// Decoders that give vLLM one full-attention cache a layer (vllm/model_executor/models/registry.py at 017e9f44), unless
// config.json asks for something else, which is looked at below. Sorted.
constexpr auto kPlainArchitectures = std::to_array<std::string_view>({
    "AquilaForCausalLM",     "ArceeForCausalLM",     "CohereForCausalLM",    "Ernie4_5ForCausalLM",
    "GPTNeoXForCausalLM",    "Glm4ForCausalLM",      "GlmForCausalLM",       "GraniteForCausalLM",
    "GraniteMoeForCausalLM", "InternLM2ForCausalLM", "InternLM3ForCausalLM", "LlamaForCausalLM",
    "MistralForCausalLM",    "MixtralForCausalLM",   "NemotronForCausalLM",  "Olmo2ForCausalLM",
    "OlmoForCausalLM",       "OlmoeForCausalLM",     "Phi3ForCausalLM",      "PhiForCausalLM",
    "Qwen2ForCausalLM",      "Qwen2MoeForCausalLM",  "Qwen3ForCausalLM",     "Qwen3MoeForCausalLM",
    "SeedOssForCausalLM",    "SmolLM3ForCausalLM",   "StableLmForCausalLM",  "Starcoder2ForCausalLM",
});
static_assert(std::ranges::is_sorted(kPlainArchitectures));

// Keys that, when set, give some layer of a known architecture something else than a full cache of its own.
constexpr auto kLayoutKeys =
    std::to_array<std::string_view>({"kv_lora_rank", "attention_chunk_size", "dual_chunk_attention_config",
                                     "num_kv_shared_layers", "block_configs", "per_layer_config", "layers_block_type",
                                     "hybrid_override_pattern", "linear_attn_config", "full_attention_interval"});

constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxCount = 65'536;
constexpr std::int64_t kMaxLength = 1 << 20;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 31;
constexpr std::int64_t kMaxVocabulary = 1 << 24;
constexpr std::int64_t kDefaultContext = 2048;  // vllm/config/model.py, _get_and_verify_max_len

/// Reads values by name. The first failure sticks, later reads give nothing.
class ConfigReader {
 public:
  ConfigReader(std::string_view file, const bj::object& object) : file_(file), object_(&object) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  void refuse(std::string code, std::string_view what, std::string hint = {}) {
    if (!error_) {
      error_ =
          Error{std::move(code), fmt::format("{}: {}", printable(file_), what), std::move(hint), std::string{file_}};
    }
  }

  void malformed(std::string_view key, std::string_view expected) {
    refuse("bad_model_file", fmt::format("{}: expected {}", key, expected));
  }

  /// Null and absent are the same.
  [[nodiscard]] const bj::value* find(std::string_view key) const {
    const auto* value = object_->if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  /// The first of the names that is there. Floats such as 1e4 that hold a whole number are not accepted: neither are
  /// they by the engine.
  std::optional<std::int64_t> number(std::initializer_list<std::string_view> names, std::int64_t most) {
    for (const auto name : names) {
      const auto* value = find(name);
      if (value == nullptr) continue;
      const auto* number = value->if_int64();
      if (number == nullptr || *number < 0 || *number > most) {
        malformed(name, fmt::format("a whole number up to {}", most));
        return std::nullopt;
      }
      return *number;
    }
    return std::nullopt;
  }

  /// A dimension without which there is no estimate.
  std::int64_t dimension(std::initializer_list<std::string_view> names, std::int64_t most) {
    const auto value = number(names, most);
    if (!value) {
      refuse("bad_model_file", fmt::format("cannot estimate this model: {} is missing", *names.begin()),
             "Download config.json again.");
    } else if (*value == 0) {
      malformed(*names.begin(), "more than 0");
    }
    return value.value_or(0);
  }

  std::optional<bool> boolean(std::string_view key) {
    const auto* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* b = value->if_bool()) return *b;
    malformed(key, "true or false");
    return std::nullopt;
  }

  std::optional<std::string> text(std::string_view key) {
    const auto* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* s = value->if_string()) return std::string{*s};
    malformed(key, "text");
    return std::nullopt;
  }

 private:
  std::string_view file_;
  const bj::object* object_;
  std::optional<Error> error_;
};

void refuse_unsupported(ConfigReader& read, std::string_view architecture, std::string_view why) {
  read.refuse(
      "model_not_supported", fmt::format("architecture '{}' is not supported yet: {}", printable(architecture), why),
      "Models whose layers are all full attention work: Llama, Mistral, Mixtral, Qwen2, Qwen3, Qwen3Moe, Granite, ….");
}

std::string read_architecture(ConfigReader& read) {
  const auto* value = read.find("architectures");
  const auto* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr || list->empty()) {
    read.malformed("architectures", "a list with the name of one");
    return {};
  }
  const auto* name = list->front().if_string();
  if (name == nullptr) {
    read.malformed("architectures[0]", "text");
    return {};
  }
  std::string architecture{*name};
  if (!std::ranges::binary_search(kPlainArchitectures, std::string_view{architecture})) {
    refuse_unsupported(read, architecture, "its layers are not all full attention, or not known to be");
  }
  return architecture;
}

/// Whether every layer keeps the whole context (vllm/config/model.py, get_sliding_window, at 017e9f44).
void check_attention(ConfigReader& read, const HfConfig& config) {
  for (const auto key : kLayoutKeys) {
    const auto* value = read.find(key);
    const bool off =
        value == nullptr || (value->is_int64() && value->get_int64() == 0) || (value->is_bool() && !value->get_bool());
    if (!off) return refuse_unsupported(read, config.architecture, fmt::format("it has {}", key));
  }
  if (read.find("text_config") != nullptr) {
    return refuse_unsupported(read, config.architecture, "its language model is nested in text_config");
  }
  if (const auto* types = read.find("layer_types")) {
    const auto* list = types->if_array();
    if (list == nullptr) return read.malformed("layer_types", "a list");
    if (list->size() != static_cast<std::size_t>(config.layers)) {
      return read.refuse("bad_model_file", fmt::format("layer_types has {} elements, but num_hidden_layers is {}",
                                                       list->size(), config.layers));
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto* type = (*list)[i].if_string();
      if (type == nullptr) return read.malformed(fmt::format("layer_types[{}]", i), "text");
      if (*type != "full_attention") {
        return refuse_unsupported(read, config.architecture, fmt::format("layer_types[{}] is {}", i, printable(*type)));
      }
    }
    return;  // then sliding_window counts for no layer
  }
  const auto window = read.number({"sliding_window"}, INT64_MAX).value_or(0);
  const bool used = read.boolean("use_sliding_window").value_or(true);
  // A window as long as the context drops no token.
  if (used && window != 0 && window < config.context) {
    refuse_unsupported(read, config.architecture, fmt::format("it has a sliding window of {} tokens", window));
  }
}

void read_experts(ConfigReader& read, HfConfig& config) {
  const auto count = read.number({"num_local_experts", "num_experts", "n_routed_experts"}, kMaxCount).value_or(0);
  if (count == 0) return;
  Experts experts{.count = count, .used_count = read.dimension({"num_experts_per_tok"}, kMaxCount)};
  if (experts.used_count > count) {
    read.refuse("bad_model_file",
                fmt::format("num_experts_per_tok is {}, but there are {} experts", experts.used_count, count));
  }
  const auto length = read.number({"moe_intermediate_size"}, kMaxLength);
  experts.feed_forward_length = length ? *length : read.dimension({"intermediate_size"}, kMaxLength);
  experts.shared_feed_forward_length =
      read.number({"shared_expert_intermediate_size"}, kMaxLength)
          .value_or(read.number({"n_shared_experts"}, kMaxCount).value_or(0) * experts.feed_forward_length);
  config.experts = experts;
}

void read_heads(ConfigReader& read, HfConfig& config) {
  config.heads = read.dimension({"num_attention_heads", "n_head", "n_heads"}, kMaxCount);
  // Absent means as many as there are heads: vLLM's own rule (get_total_num_kv_heads), not a missing field.
  config.kv_heads = read.number({"num_key_value_heads", "num_kv_heads", "n_head_kv"}, kMaxCount).value_or(config.heads);
  if (read.error()) return;
  if (config.kv_heads == 0 || config.heads % config.kv_heads != 0) {
    return read.refuse("bad_model_file",
                       fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}", config.heads,
                                   config.kv_heads));
  }
  // get_head_size: head_dim when it is more than 0, else the quotient.
  const auto head_dim = read.number({"head_dim"}, kMaxLength).value_or(0);
  config.head_dim = head_dim > 0 ? head_dim : config.hidden_size / config.heads;
  if (config.head_dim == 0) {
    read.refuse("bad_model_file", fmt::format("hidden_size {} gives no room to num_attention_heads {}",
                                              config.hidden_size, config.heads));
  }
}

std::optional<std::string> read_quantization(ConfigReader& read) {
  const auto* value = read.find("quantization_config");
  if (value == nullptr) return std::nullopt;
  const auto* object = value->if_object();
  if (object == nullptr) {
    read.malformed("quantization_config", "an object");
    return std::nullopt;
  }
  const auto text = [object](std::string_view key) -> std::string {
    const auto* found = object->if_contains(key);
    const auto* string = found == nullptr ? nullptr : found->if_string();
    return string == nullptr ? std::string{} : printable(*string);
  };
  auto label = text("quant_algo");  // modelopt: NVFP4, FP8
  if (label.empty()) label = text("quant_method");
  if (label.empty()) label = "quantized";
  const auto* bits = object->if_contains("bits");
  if (bits != nullptr && bits->is_int64()) label += fmt::format("-{}bit", bits->get_int64());
  return label;
}

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

}  // namespace

Result<HfConfig> parse_hf_config(std::string_view file, std::string_view text) {
  auto document = json::parse(text);
  if (!document) {
    return fail("bad_model_file", fmt::format("{}: {}", printable(file), document.error().message),
                "Download config.json again.", std::string{file});
  }
  const auto* object = document->if_object();
  if (object == nullptr) {
    return fail("bad_model_file", fmt::format("{}: expected an object", printable(file)), "Download config.json again.",
                std::string{file});
  }
  ConfigReader read{file, *object};
  HfConfig config;
  config.architecture = read_architecture(read);
  if (read.error()) return fail(*read.error());

  config.layers = read.dimension({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, kMaxLayers);
  config.hidden_size = read.dimension({"hidden_size", "n_embd", "d_model"}, kMaxLength);
  read_heads(read, config);
  config.vocabulary = read.dimension({"vocab_size"}, kMaxVocabulary);
  const auto context = read.number({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
                                    "model_max_length", "max_sequence_length"},
                                   kMaxContext);
  if (!context) config.missing_fields.emplace_back("max_position_embeddings");
  config.context = context.value_or(kDefaultContext);
  read_experts(read, config);
  config.intermediate_size = config.experts ? read.number({"intermediate_size"}, kMaxLength).value_or(0)
                                            : read.dimension({"intermediate_size", "n_inner"}, kMaxLength);
  config.tied_embeddings = read.boolean("tie_word_embeddings");
  config.dtype = read.text("torch_dtype");
  if (!config.dtype) config.dtype = read.text("dtype");  // its name since transformers 4.56
  config.quantization = read_quantization(read);
  if (!read.error()) check_attention(read, config);
  if (read.error()) return fail(*read.error());
  return config;
}

Result<ModelDescription> describe_safetensors(std::string_view path, std::string_view name, const HfConfig& config,
                                              const Digest& config_digest, std::span<const SafetensorsPart> parts) {
  ModelDescription model{.format = Format::safetensors,
                         .path = std::string{path},
                         .name = printable(name),
                         .architecture = config.architecture,
                         .embedding_length = config.hidden_size,
                         .vocabulary = config.vocabulary,
                         .training_context = config.context,
                         .experts = config.experts,
                         .missing_fields = config.missing_fields};
  model.layers.assign(static_cast<std::size_t>(config.layers),
                      Layer{.attention = Attention{.n_head = config.heads,
                                                   .n_head_kv = config.kv_heads,
                                                   .key_length = config.head_dim,
                                                   .value_length = config.head_dim},
                            .feed_forward_length = config.intermediate_size});

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
      const Bytes size{static_cast<std::int64_t>(tensor.bytes)};
      model.weights.tensors += size;
      if (tensor.name.ends_with("embed_tokens.weight") || tensor.name.ends_with("embed_in.weight") ||
          tensor.name.ends_with("tok_embeddings.weight")) {
        model.weights.token_embedding = size;
      }
      if (tensor.name == "lm_head.weight" || tensor.name == "embed_out.weight" || tensor.name == "output.weight") {
        has_output = true;
      }
      bytes_by_dtype[tensor.dtype] += tensor.bytes;
    }
    model.files.push_back({.path = part.path, .size = Bytes{static_cast<std::int64_t>(part.size)}});
    identities.push_back({.size = part.size, .header = part.header.digest});
  }
  if (model.weights.tensors == Bytes{}) {
    return fail("bad_model_file", fmt::format("{}: its files hold no tensors", printable(path)), "Download it again.",
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
