#include "core/model/gguf_description.h"

#include "base/masking.h"
#include "core/model/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

namespace dgxmm::model {
namespace {

// Architectures whose layers all use llama.cpp's plain cache: their graph asks for build_attn_inp_kv() and
// llama_model::create_memory has no case of its own for them (src/models/*.cpp, src/llama-model.cpp, b10587 and
// b11434). They ignore a sliding_window key. Sorted.
constexpr auto kPlainArchitectures = std::to_array<std::string_view>(
    {"arcee",       "baichuan",  "codeshell", "command-r", "dbrx",       "dots1",      "ernie4_5",   "ernie4_5-moe",
     "exaone",      "falcon",    "glm4",      "gpt2",      "gptneox",    "granite",    "granitemoe", "hunyuan-dense",
     "hunyuan-moe", "internlm2", "llama",     "minicpm",   "minimax-m2", "mistral3",   "nemotron",   "olmo",
     "olmoe",       "orion",     "phi2",      "phi3",      "phimoe",     "qwen",       "qwen2",      "qwen2moe",
     "qwen3",       "qwen3moe",  "seed_oss",  "smollm3",   "stablelm",   "starcoder2", "xverse"});
static_assert(std::ranges::is_sorted(kPlainArchitectures));

// Keys that give the layers of a known architecture another kind of cache (MLA, shared or recurrent layers).
constexpr auto kLayoutKeys = std::to_array<std::string_view>({
    "attention.kv_lora_rank",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.shared_kv_layers",
    "attention.recurrent_layers",
    "attention.indexer.key_length",
    "ssm.state_size",
    "full_attention_interval",
});

// Larger values are signs of a damaged file, not of a model.
constexpr std::int64_t kMaxLayers = 512;  // LLAMA_MAX_LAYERS
constexpr std::int64_t kMaxExperts = 1024;
constexpr std::int64_t kMaxHeads = 65'536;
constexpr std::int64_t kMaxLength = 1 << 20;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 31;
constexpr std::int64_t kMaxVocabulary = 1 << 24;

/// Reads the keys of one architecture. The first failure sticks, later reads give zeros.
class HyperParameters {
 public:
  HyperParameters(std::string file, std::string architecture, const GgufHeader& header)
      : file_(std::move(file)),
        architecture_(std::move(architecture)),
        header_(header) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] std::string key(std::string_view suffix) const { return fmt::format("{}.{}", architecture_, suffix); }
  [[nodiscard]] bool has(std::string_view suffix) const { return header_.values.contains(key(suffix)); }

  void refuse(std::string code, const std::string& what, std::string hint = {}) {
    if (!error_) error_ = Error{std::move(code), fmt::format("{}: {}", printable(file_), what), std::move(hint), file_};
  }

  std::optional<std::int64_t> optional(std::string_view suffix, std::int64_t most) {
    const auto name = key(suffix);
    if (!header_.values.contains(name)) return std::nullopt;
    const auto value = header_.integer(name);
    if (!value || *value < 0 || *value > most) {
      refuse("bad_model_file", fmt::format("{} is not a whole number up to {}", printable(name), most));
      return 0;
    }
    return value;
  }

  std::int64_t required(std::string_view suffix, std::int64_t most) {
    const auto value = optional(suffix, most);
    if (!value) {
      refuse("bad_model_file", fmt::format("the key {} is missing, without which llama.cpp does not load a model",
                                           printable(key(suffix))));
    } else if (*value == 0) {
      refuse("bad_model_file", fmt::format("{} is 0", printable(key(suffix))));
    }
    return value.value_or(0);
  }

  /// One number for every layer, or an array with one number a layer; nothing when the key is absent.
  std::optional<std::vector<std::int64_t>> per_layer(std::string_view suffix, std::int64_t layers, std::int64_t most) {
    const auto name = key(suffix);
    const auto* array = header_.array(name);
    if (array == nullptr) {
      const auto value = optional(suffix, most);
      if (!value) return std::nullopt;
      return std::vector<std::int64_t>(static_cast<std::size_t>(layers), *value);
    }
    if (array->count != static_cast<std::uint64_t>(layers)) {
      refuse("bad_model_file", fmt::format("{} has {} elements, but {} is {}", printable(name), array->count,
                                           printable(key("block_count")), layers));
    } else if (!array->integers ||
               std::ranges::any_of(*array->integers, [most](auto v) { return v < 0 || v > most; })) {
      refuse("bad_model_file", fmt::format("{} is not a list of whole numbers up to {}", printable(name), most));
    } else {
      return array->integers;
    }
    return std::vector<std::int64_t>(static_cast<std::size_t>(layers), 0);
  }

 private:
  std::string file_;
  std::string architecture_;
  const GgufHeader& header_;
  std::optional<Error> error_;
};

std::int64_t layer_maximum(const std::optional<std::vector<std::int64_t>>& values) {
  return values && !values->empty() ? std::ranges::max(*values) : 0;
}

void read_experts(HyperParameters& read, std::int64_t layers, std::int64_t feed_forward, ModelDescription& model) {
  const auto count = read.optional("expert_count", kMaxExperts).value_or(0);
  if (count == 0) return;
  Experts experts{.count = count};
  experts.used_count = layer_maximum(read.per_layer("expert_used_count", layers, kMaxExperts));
  if (experts.used_count == 0 || experts.used_count > count) {
    read.refuse("bad_model_file", fmt::format("{} is {}, but {} is {}", read.key("expert_used_count"),
                                              experts.used_count, read.key("expert_count"), count));
  }
  const auto expert_length = layer_maximum(read.per_layer("expert_feed_forward_length", layers, kMaxLength));
  experts.feed_forward_length = expert_length != 0 ? expert_length : feed_forward;
  const auto shared = read.optional("expert_shared_feed_forward_length", kMaxLength);
  const auto shared_count = read.optional("expert_shared_count", kMaxExperts).value_or(0);
  experts.shared_feed_forward_length = shared.value_or(shared_count * experts.feed_forward_length);
  model.experts = experts;
}

void read_layers(HyperParameters& read, ModelDescription& model) {
  const auto layers = read.required("block_count", kMaxLayers);
  model.embedding_length = read.required("embedding_length", kMaxLength);
  model.training_context = read.required("context_length", kMaxContext);
  const auto heads = read.per_layer("attention.head_count", layers, kMaxHeads);
  if (!heads) {
    read.refuse("bad_model_file", fmt::format("the key {} is missing", printable(read.key("attention.head_count"))));
  }
  if (read.error()) return;

  // Absent, these are the engine's own rules, not missing fields (src/llama-model.cpp, load_hparams).
  const auto kv_heads = read.per_layer("attention.head_count_kv", layers, kMaxHeads).value_or(*heads);
  const auto head_length = heads->front() == 0 ? 0 : model.embedding_length / heads->front();
  const auto key_length = read.optional("attention.key_length", kMaxLength).value_or(head_length);
  const auto value_length = read.optional("attention.value_length", kMaxLength).value_or(head_length);
  const auto feed_forward = read.per_layer("feed_forward_length", layers, kMaxLength);
  read_experts(read, layers, layer_maximum(feed_forward), model);
  if (!feed_forward && !model.experts) {
    read.refuse("bad_model_file", fmt::format("the key {} is missing", printable(read.key("feed_forward_length"))));
  }
  if (read.error()) return;

  for (std::size_t i = 0; i < static_cast<std::size_t>(layers); ++i) {
    const auto n_head = (*heads)[i];
    const auto n_head_kv = kv_heads[i];
    if (n_head == 0 || n_head_kv == 0) {
      read.refuse("model_not_supported", fmt::format("layer {} has no attention; such models are not supported yet", i),
                  "Models whose layers are all plain attention work.");
    } else if (n_head % n_head_kv != 0) {
      read.refuse("bad_model_file",
                  fmt::format("{} {} is not a multiple of {} {} in layer {}", read.key("attention.head_count"), n_head,
                              read.key("attention.head_count_kv"), n_head_kv, i));
    } else if (key_length == 0 || value_length == 0) {
      read.refuse("bad_model_file", fmt::format("{} {} gives no room to {} {}", read.key("embedding_length"),
                                                model.embedding_length, read.key("attention.head_count"), n_head));
    }
    if (read.error()) return;
    model.layers.push_back(
        {.attention =
             Attention{
                 .n_head = n_head, .n_head_kv = n_head_kv, .key_length = key_length, .value_length = value_length},
         .feed_forward_length = feed_forward ? (*feed_forward)[i] : 0});
  }
}

void read_vocabulary(HyperParameters& read, const GgufHeader& header, ModelDescription& model) {
  // A tokenizer in the file wins over vocab_size (src/llama-vocab.cpp).
  const auto* tokens = header.array("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->count > 0) {
    if (tokens->count > static_cast<std::uint64_t>(kMaxVocabulary)) {
      read.refuse("bad_model_file", fmt::format("tokenizer.ggml.tokens has {} elements", tokens->count));
    }
    model.vocabulary = static_cast<std::int64_t>(tokens->count);
  } else {
    model.vocabulary = read.required("vocab_size", kMaxVocabulary);
  }
}

/// Tensors that stay on the host even with every layer on the GPU (src/llama-arch.cpp, LLM_TENSOR_LAYER_INPUT).
bool is_input_tensor(std::string_view name) {
  return name == "token_embd.weight" || name == "position_embd.weight" || name == "token_types.weight" ||
         name == "per_layer_token_embd.weight";
}

struct TensorTotals {
  WeightSummary weights;
  std::string dominant_type;
  std::uint64_t shapes = 0;
};

Result<TensorTotals> sum_tensors(std::string_view path, std::span<const GgufPart> parts) {
  TensorTotals totals;
  totals.weights.tied_embeddings = true;
  std::map<std::uint32_t, std::uint64_t> bytes_by_type;
  std::int64_t files = 0;
  for (const auto& part : parts) {
    // A sum of file sizes can overflow only for sparse files made to do so.
    if (!std::in_range<std::int64_t>(part.size) ||
        __builtin_add_overflow(files, static_cast<std::int64_t>(part.size), &files)) {
      return fail("bad_model_file", fmt::format("{}: its files together are impossibly large", printable(path)), {},
                  std::string{path});
    }
    for (const auto& tensor : part.header.tensors) {
      const Bytes size{static_cast<std::int64_t>(tensor.bytes)};  // checked by parse_gguf, and inside the file
      totals.weights.tensors += size;
      if (is_input_tensor(tensor.name)) totals.weights.input_tensors += size;
      if (tensor.name == "token_embd.weight") totals.weights.token_embedding = size;
      if (tensor.name == "output.weight") totals.weights.tied_embeddings = false;
      bytes_by_type[tensor.type] += tensor.bytes;
      // Quantizations differ in their scales, and converters in what they compute ahead.
      if (tensor.name.ends_with(".scale") || tensor.name.ends_with(".input_scale") ||
          tensor.name.starts_with("rope_")) {
        continue;
      }
      Hasher hasher;
      hasher.add(std::string_view{tensor.name});
      for (const auto dim : tensor.dims) hasher.add(dim);
      totals.shapes += hasher.digest().low;  // a sum: the order of the tensors does not matter
    }
  }
  totals.weights.files = Bytes{files};
  const auto dominant = std::ranges::max_element(bytes_by_type, {}, [](const auto& entry) { return entry.second; });
  if (dominant != bytes_by_type.end()) {
    const auto type = ggml_type(dominant->first);
    totals.dominant_type = type ? std::string{type->name} : fmt::format("type {}", dominant->first);
  }
  return totals;
}

std::optional<Error> check_split(std::string_view path, std::span<const GgufPart> parts) {
  const auto count = parts.front().header.integer("split.count").value_or(1);
  if (count > 1 && static_cast<std::uint64_t>(count) != parts.size()) {
    return Error{"model_incomplete",
                 fmt::format("{}: says that it is one of {} files, but its name belongs to {}", printable(path), count,
                             parts.size()),
                 "Name the files PREFIX-00001-of-00003.gguf and so on: llama.cpp finds them by these names.",
                 std::string{path}};
  }
  if (parts.size() == 1) return std::nullopt;
  std::uint64_t tensors = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = parts[i].header.integer("split.no");
    if (!number || *number != static_cast<std::int64_t>(i)) {
      return Error{"bad_model_file",
                   fmt::format("{}: its name says part {} of {}, its split.no says {}", printable(parts[i].path), i + 1,
                               parts.size(), number ? fmt::to_string(*number) : "nothing"),
                   "Files of different models may have been mixed up.", parts[i].path};
    }
    tensors += parts[i].header.tensors.size();
  }
  const auto claimed = parts.front().header.integer("split.tensors.count");
  if (claimed && static_cast<std::uint64_t>(*claimed) != tensors) {
    return Error{"model_incomplete",
                 fmt::format("{}: split.tensors.count is {}, but its {} files have {} tensors", printable(path),
                             *claimed, parts.size(), tensors),
                 "Download it again.", std::string{path}};
  }
  return std::nullopt;
}

std::string quantization_label(const GgufHeader& header, const std::string& dominant_type) {
  if (const auto file_type = header.integer("general.file_type")) {
    if (auto label = file_type_label(*file_type)) return *label;
  }
  return dominant_type;
}

/// What the makers of the file say that the model is, before quantization.
std::string name_for_identity(const GgufHeader& header, std::string_view stem) {
  std::string name;
  if (const auto* basename = header.text("general.basename")) {
    for (const auto key : {"general.version", "general.size_label", "general.finetune"}) {
      if (const auto* word = header.text(key)) name += "-" + *word;
    }
    return *basename + name;
  }
  if (const auto* full = header.text("general.name")) return *full;
  return std::string{stem};
}

Error not_supported(std::string_view path, std::string_view architecture, std::string_view why) {
  return {
      "model_not_supported",
      fmt::format("{}: architecture '{}' is not supported yet: {}", printable(path), printable(architecture), why),
      "Models whose layers are all plain attention work: llama, mistral3, qwen2, qwen3, qwen3moe, phi3, granite, ….",
      std::string{path}};
}

}  // namespace

std::optional<std::string> companion_kind(const GgufHeader& header) {
  const auto* type = header.text("general.type");
  const auto* architecture = header.text("general.architecture");
  if ((type != nullptr && *type == "mmproj") || (architecture != nullptr && *architecture == "clip"))
    return "projector";
  if (type != nullptr && *type == "adapter") return "adapter";
  if (type != nullptr && *type == "imatrix") return "importance matrix";
  return std::nullopt;
}

std::optional<std::string> file_type_label(std::int64_t file_type) {
  // include/llama.h, enum llama_ftype, at b10587; empty: retired.
  static constexpr auto kLabels = std::to_array<std::string_view>(
      {"F32",    "F16",     "Q4_0",   "Q4_1",   "",       "",       "",       "Q8_0",  "Q5_0",    "Q5_1",   "Q2_K",
       "Q3_K_S", "Q3_K_M",  "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",  "IQ2_XXS", "IQ2_XS", "Q2_K_S",
       "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ3_M",  "IQ2_S",  "IQ2_M", "IQ4_XS",  "IQ1_M",  "BF16",
       "",       "",        "",       "TQ1_0",  "TQ2_0",  "MXFP4",  "NVFP4",  "Q1_0",  "Q2_0"});
  constexpr std::int64_t kGuessed = 1024;  // added when the label was inferred from the tensors
  if (file_type >= kGuessed) file_type -= kGuessed;
  if (file_type < 0 || static_cast<std::size_t>(file_type) >= kLabels.size()) return std::nullopt;
  const auto label = kLabels[static_cast<std::size_t>(file_type)];
  if (label.empty()) return std::nullopt;
  return std::string{label};
}

Result<ModelDescription> describe_gguf(std::string_view path, std::string_view stem, std::span<const GgufPart> parts) {
  const auto& header = parts.front().header;
  if (const auto kind = companion_kind(header)) {
    return fail("model_not_supported", fmt::format("{}: this is a {}, not a model", printable(path), *kind),
                "Name the file of the model itself.", std::string{path});
  }
  if (auto error = check_split(path, parts)) return fail(std::move(*error));
  const auto* architecture = header.text("general.architecture");
  if (architecture == nullptr) {
    return fail("bad_model_file", fmt::format("{}: the key general.architecture is missing", printable(path)),
                "Convert the model again.", std::string{path});
  }
  if (!std::ranges::binary_search(kPlainArchitectures, std::string_view{*architecture})) {
    return fail(not_supported(path, *architecture, "its layers are not all plain attention, or not known to be"));
  }
  auto totals = sum_tensors(path, parts);
  if (!totals) return fail(std::move(totals.error()));
  if (totals->weights.tensors == Bytes{}) {
    return fail("bad_model_file", fmt::format("{}: holds no tensors, only a vocabulary", printable(path)),
                "Name the file of a whole model.", std::string{path});
  }

  ModelDescription model{.format = Format::gguf, .path = std::string{path}, .architecture = *architecture};
  HyperParameters read{parts.front().path, *architecture, header};
  for (const auto key : kLayoutKeys) {
    if (read.has(key)) return fail(not_supported(path, *architecture, fmt::format("it has {}", read.key(key))));
  }
  // llama.cpp keeps a cache for these layers although it does not run them: to be counted when they are described.
  if (read.optional("nextn_predict_layers", kMaxLayers).value_or(0) != 0) {
    return fail(not_supported(path, *architecture, "it has multi-token-prediction layers"));
  }
  read_layers(read, model);
  read_vocabulary(read, header, model);
  if (read.error()) return fail(*read.error());

  // As the catalog calls it: general.name often is that of a training run.
  model.name = printable(stem);
  model.quantization = quantization_label(header, totals->dominant_type);
  model.weight_dtype = totals->dominant_type;
  model.weights = totals->weights;
  model.base_model = base_model_identity(model, name_for_identity(header, stem), totals->shapes);
  std::vector<FileIdentity> identities;
  for (const auto& part : parts) {
    model.files.push_back({.path = part.path, .size = Bytes{static_cast<std::int64_t>(part.size)}});
    identities.push_back({.size = part.size, .header = part.header.digest});
  }
  model.fingerprint = make_fingerprint(Format::gguf, identities);
  return model;
}

}  // namespace dgxmm::model
