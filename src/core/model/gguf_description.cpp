#include "core/model/gguf_description.h"

#include "base/masking.h"
#include "core/model/gguf_hyper_parameters.h"
#include "core/model/gguf_layers.h"
#include "core/model/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace dgxmm::model {
namespace {

// Architectures whose layers all use llama.cpp's plain cache: their graph asks for build_attn_inp_kv() and
// llama_model::create_memory has no case of its own for them (src/models/*.cpp, src/llama-model.cpp, b10587 and
// b11434). They ignore a sliding_window key. Sorted.
constexpr auto kPlainArchitectures = std::to_array<std::string_view>(
    {"apertus",    "arcee",     "arctic",         "baichuan",      "bailingmoe",   "bailingmoe2", "bitnet",
     "bloom",      "chameleon", "chatglm",        "codeshell",     "cogvlm",       "command-r",   "dbrx",
     "deci",       "deepseek",  "dots1",          "ernie4_5",      "ernie4_5-moe", "exaone",      "falcon",
     "gemma",      "glm4",      "glm4moe",        "gpt2",          "gptj",         "gptneox",     "granite",
     "granitemoe", "grok",      "grovemoe",       "hunyuan-dense", "hunyuan-moe",  "hunyuan_vl",  "hy_v3",
     "internlm2",  "jais",      "jais2",          "llama",         "maincoder",    "minicpm",     "minimax-m2",
     "mistral3",   "mpt",       "nanbeige",       "nemotron",      "olmo",         "olmoe",       "openelm",
     "orion",      "paddleocr", "pangu-embedded", "phi2",          "phi3",         "phimoe",      "plamo",
     "qwen",       "qwen2",     "qwen2moe",       "qwen2vl",       "qwen3",        "qwen3moe",    "qwen3vl",
     "qwen3vlmoe", "refact",    "seed_oss",       "smollm3",       "stablelm",     "starcoder",   "starcoder2",
     "xverse"});
static_assert(std::ranges::is_sorted(kPlainArchitectures));

/// A key that gives layers another kind of cache, and the architectures that llama.cpp reads it for.
struct LayoutKey {
  std::string_view suffix;
  bool (*is_read_for)(std::string_view architecture);
};

constexpr auto kLayoutKeys = std::to_array<LayoutKey>({
    {"attention.kv_lora_rank", is_latent_architecture},
    {"attention.key_length_mla", is_latent_architecture},
    {"attention.value_length_mla", is_latent_architecture},
    {"attention.shared_kv_layers", shares_kv_architecture},
    {"attention.recurrent_layers", is_recurrent_architecture},
    {"attention.indexer.key_length", is_indexed_architecture},
    {"attention.compress_ratios", is_indexed_architecture},
    {"ssm.state_size", is_recurrent_architecture},
    {"ssm.conv_kernel", is_recurrent_architecture},
    {"shortconv.l_cache", is_recurrent_architecture},
    {"wkv.head_size", is_recurrent_architecture},
    {"kda.head_dim", is_recurrent_architecture},
    {"full_attention_interval", is_recurrent_architecture},
});
// Keys after which the layers of an architecture that is not known may be of any kind.
constexpr auto kDoubtfulKeys = std::to_array<std::string_view>({
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.key_length_swa",
    "attention.causal",
    "attention.chunk_size",
    "attention.indexer.head_count",
    "decoder_block_count",
    "ssm.inner_size",
    "token_shift_count",
    "nextn_predict_layers",
    "num_loops",
});

// Known to have a cache that no rule here covers: an encoder and a decoder.
constexpr auto kNotCovered = std::to_array<std::string_view>({"t5", "t5encoder"});

bool is_known(std::string_view architecture) {
  return std::ranges::binary_search(kPlainArchitectures, architecture) || is_latent_architecture(architecture) ||
         is_recurrent_architecture(architecture) || is_indexed_architecture(architecture) ||
         is_windowed_architecture(architecture) || is_encoder_architecture(architecture);
}

std::int64_t layer_maximum(const std::optional<PerLayer>& values) {
  return values && !values->empty() ? std::ranges::max(*values) : 0;
}

void read_experts(HyperParameters& read, LayerCounts layers, std::int64_t feed_forward, ModelDescription& model) {
  const auto count = read.optional("expert_count", kMaxGgufExperts).value_or(0);
  if (count == 0) return;
  Experts experts{.count = count};
  experts.used_count = layer_maximum(read.per_layer("expert_used_count", layers.all, layers.nextn, kMaxGgufExperts));
  if (experts.used_count == 0 || experts.used_count > count) {
    read.refuse("bad_model_file", fmt::format("{} is {}, but {} is {}", read.key("expert_used_count"),
                                              experts.used_count, read.key("expert_count"), count));
  }
  const auto expert_length =
      layer_maximum(read.per_layer("expert_feed_forward_length", layers.all, layers.nextn, kMaxGgufLength));
  experts.feed_forward_length = expert_length != 0 ? expert_length : feed_forward;
  const auto shared = read.optional("expert_shared_feed_forward_length", kMaxGgufLength);
  // Llama 4 always has one shared expert, and no key for it (src/models/llama4.cpp).
  const auto one = read.architecture() == "llama4" ? 1 : 0;
  const auto shared_count = read.optional("expert_shared_count", kMaxGgufExperts).value_or(one);
  experts.shared_feed_forward_length = shared.value_or(shared_count * experts.feed_forward_length);
  model.experts = experts;
}

/// Llama 4 has experts in place of the dense part in every n-th layer.
void drop_dense_parts(HyperParameters& read, LayerCounts layers, PerLayer& feed_forward) {
  if (read.architecture() != "llama4") return;
  const auto step = read.optional("interleave_moe_layer_step", kMaxGgufLayers).value_or(0);
  for (std::int64_t i = 0; i < layers.all && step > 0; ++i) {
    if ((i + 1) % step == 0) feed_forward[static_cast<std::size_t>(i)] = 0;
  }
}

std::optional<LayerCounts> count_layers(HyperParameters& read) {
  LayerCounts layers{.all = read.required("block_count", kMaxGgufLayers)};
  if (read.error()) return std::nullopt;
  layers.nextn = read.optional("nextn_predict_layers", kMaxGgufLayers).value_or(0);
  if (layers.nextn >= layers.all) {
    read.refuse("bad_model_file", fmt::format("{} is {}, but {} is {}", read.key("nextn_predict_layers"), layers.nextn,
                                              read.key("block_count"), layers.all));
  }
  if (read.error()) return std::nullopt;
  return layers;
}

std::optional<AttentionKeys> read_attention_keys(HyperParameters& read, LayerCounts layers, ModelDescription& model) {
  const auto per_layer = [&](std::string_view suffix, std::int64_t most) {
    return read.per_layer(suffix, layers.all, layers.nextn, most);
  };
  const PerLayer none(static_cast<std::size_t>(layers.all), 0);
  AttentionKeys keys;
  auto heads = per_layer("attention.head_count", kMaxGgufHeads);
  if (!heads && !is_purely_recurrent(read.architecture())) {
    read.refuse("bad_model_file", fmt::format("the key {} is missing", printable(read.key("attention.head_count"))));
  }
  if (read.error()) return std::nullopt;
  keys.heads = heads.value_or(none);
  keys.kv_heads = per_layer("attention.head_count_kv", kMaxGgufHeads).value_or(keys.heads);
  auto feed_forward = per_layer("feed_forward_length", kMaxGgufLength);
  read_experts(read, layers, layer_maximum(feed_forward), model);
  if (!feed_forward && !model.experts && !is_purely_recurrent(read.architecture())) {
    read.refuse("bad_model_file", fmt::format("the key {} is missing", printable(read.key("feed_forward_length"))));
  }
  keys.feed_forward = feed_forward.value_or(none);
  if (read.error()) return std::nullopt;
  if (model.experts) drop_dense_parts(read, layers, keys.feed_forward);
  return keys;
}

void read_layers(HyperParameters& read, ModelDescription& model) {
  const auto layers = count_layers(read);
  model.embedding_length = read.required("embedding_length", kMaxGgufLength);
  model.training_context = read.required("context_length", kMostContext);
  model.layer_embedding_length = read.optional("embedding_length_per_layer_input", kMaxGgufLength).value_or(0);
  if (read.error()) return;
  const auto keys = read_attention_keys(read, *layers, model);
  if (read.error()) return;
  const auto mixing = read_mixing(read, *layers, *keys);
  const auto attention = read_attention(read, *layers, *keys, mixing, model);
  const bool recurs = std::ranges::any_of(mixing, &Mixing::recurrent);
  const auto state = recurs ? read_recurrent_state(read, model, *keys) : RecurrentState{};
  // Nanbeige runs its layers several times, and keeps what every run has seen.
  const auto loops = read.architecture() == "nanbeige" ? read.optional("num_loops", kMaxGgufLayers).value_or(1) : 1;
  if (read.error()) return;
  if (loops < 1 || loops * layers->all > kMaxGgufLayers) {
    read.refuse("bad_model_file", fmt::format("{} is {}", read.key("num_loops"), loops));
    return;
  }
  for (std::int64_t loop = 0; loop < loops; ++loop) {
    for (std::size_t i = 0; i < mixing.size(); ++i) {
      Layer layer{.attention = attention[i], .feed_forward_length = keys->feed_forward[i]};
      if (mixing[i].recurrent) layer.recurrent = state;
      const bool trunk = static_cast<std::int64_t>(i) < layers->trunk();
      if (trunk || loop == 0) (trunk ? model.layers : model.nextn_layers).push_back(layer);
    }
  }
}

void read_vocabulary(HyperParameters& read, const GgufHeader& header, ModelDescription& model) {
  if (const auto* tokenizer = header.text("tokenizer.ggml.model")) model.tokenizer = *tokenizer;
  // A tokenizer in the file wins over vocab_size (src/llama-vocab.cpp).
  const auto* tokens = header.array("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->count > 0) {
    if (tokens->count > static_cast<std::uint64_t>(kMaxGgufVocabulary)) {
      read.refuse("bad_model_file", fmt::format("tokenizer.ggml.tokens has {} elements", tokens->count));
    }
    model.vocabulary = static_cast<std::int64_t>(tokens->count);
  } else {
    model.vocabulary = read.required("vocab_size", kMaxGgufVocabulary);
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

/// The layer that a tensor "blk.N.…" belongs to.
std::optional<std::int64_t> layer_of(std::string_view tensor) {
  constexpr std::string_view kBlock = "blk.";
  if (!tensor.starts_with(kBlock)) return std::nullopt;
  std::int64_t layer = 0;
  const auto* end = tensor.data() + tensor.size();
  const auto parsed = std::from_chars(tensor.data() + kBlock.size(), end, layer);
  if (parsed.ec != std::errc{} || parsed.ptr == end || *parsed.ptr != '.') return std::nullopt;
  return layer;
}

/// `trunk` is the number of layers that come before those for multi-token prediction.
Result<TensorTotals> sum_tensors(std::string_view path, std::span<const GgufPart> parts, std::int64_t trunk) {
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
      if (layer_of(tensor.name).value_or(-1) >= trunk) totals.weights.nextn_tensors += size;
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

/// E9: keys that say another thing than the tensors. llama.cpp stops at each of them (llama_model_loader: "missing
/// tensor", "wrong number of tensors", "has wrong shape"; src/llama-model-loader.cpp at b10587).
std::optional<Error> find_contradiction(std::span<const GgufPart> parts, const ModelDescription& model,
                                        std::int64_t trunk) {
  const auto refuse = [&](const std::string& what) {
    return Error{"bad_model_file", fmt::format("{}: {}", printable(parts.front().path), what),
                 "the file was changed or converted wrongly: get another one", parts.front().path};
  };
  std::set<std::int64_t> held;
  for (const auto& part : parts) {
    for (const auto& tensor : part.header.tensors) {
      if (const auto layer = layer_of(tensor.name)) held.insert(*layer);
      if (tensor.name != "token_embd.weight" || tensor.dims.size() != 2) continue;
      const auto rows = static_cast<std::int64_t>(tensor.dims[1]);
      if (rows != model.vocabulary) {
        return refuse(
            fmt::format("{} has {} rows, but the vocabulary has {} tokens", tensor.name, rows, model.vocabulary));
      }
    }
  }
  const auto all = trunk + static_cast<std::int64_t>(model.nextn_layers.size());
  if (!held.empty() && *held.rbegin() >= all) {
    return refuse(fmt::format("block_count says {} layers, but there are tensors for layer {}", all, *held.rbegin()));
  }
  // Where layers are run several times they are more than blocks; and some have neither attention nor state.
  const bool one_each = static_cast<std::int64_t>(model.layers.size()) == trunk;
  const bool named_by_layer = !held.empty() && *held.begin() < trunk;
  for (std::int64_t i = 0; one_each && named_by_layer && i < trunk; ++i) {
    const auto& layer = model.layers[static_cast<std::size_t>(i)];
    if ((!layer.attention && !layer.recurrent) || held.contains(i)) continue;
    return refuse(fmt::format("block_count says {} layers, but there are no tensors for layer {}", all, i));
  }
  return std::nullopt;
}

/// E9: K and V as the keys say, by which the cache is sized, beside the rows of the projections that make them.
std::vector<std::string> find_contradictions(std::span<const GgufPart> parts, const ModelDescription& model,
                                             std::int64_t trunk) {
  std::vector<std::string> found;
  if (static_cast<std::int64_t>(model.layers.size()) != trunk) return found;  // layers that are run several times
  std::set<std::string_view> told;
  for (const auto& part : parts) {
    for (const auto& tensor : part.header.tensors) {
      const std::string_view name{tensor.name};
      const bool is_key = name.ends_with(".attn_k.weight");
      constexpr auto kDots = 3;  // with more it is an indexer's or another part's
      if ((!is_key && !name.ends_with(".attn_v.weight")) || std::ranges::count(name, '.') != kDots) continue;
      const auto layer = layer_of(name);
      if (!layer || *layer < 0 || *layer >= trunk || tensor.dims.size() != 2) continue;
      const auto& attention = model.layers[static_cast<std::size_t>(*layer)].attention;
      // In layers of other kinds tensors of these names may be something else.
      const bool plain = attention && !model.layers[static_cast<std::size_t>(*layer)].recurrent &&
                         !attention->shares_kv && !attention->kv_lora_rank && !attention->compress_ratio &&
                         attention->kind != AttentionKind::bidirectional;
      if (!plain) continue;
      const auto length = is_key ? attention->key_length : attention->value_length;
      const std::string_view kind{is_key ? "K" : "V"};
      if (std::cmp_equal(tensor.dims[1], attention->n_head_kv * length) || !told.insert(kind).second) continue;
      found.push_back(fmt::format("{} has {} rows, but the keys say {} KV heads of {}", tensor.name, tensor.dims[1],
                                  attention->n_head_kv, length));
    }
  }
  return found;
}

/// Types that llama.cpp b10587 does not know, of which only the room that they take can be told.
std::optional<std::string> note_of_new_types(std::span<const GgufPart> parts) {
  for (const auto& part : parts) {
    for (const auto& tensor : part.header.tensors) {
      if (ggml_type(tensor.type)) continue;
      return fmt::format("{} has the type {}, which llama.cpp b10587 does not know: a newer one is needed",
                         printable(tensor.name), tensor.type);
    }
  }
  return std::nullopt;
}

std::optional<Error> check_split(std::string_view path, std::span<const GgufPart> parts) {
  const auto count = parts.front().header.integer("split.count").value_or(1);
  if (count > 1 && static_cast<std::uint64_t>(count) != parts.size()) {
    return Error{"model_incomplete",
                 fmt::format("{}: says that it is one of {} files, but its name belongs to {}", printable(path), count,
                             parts.size()),
                 "name the files PREFIX-00001-of-00003.gguf and so on: llama.cpp finds them by these names",
                 std::string{path}};
  }
  if (parts.size() == 1) return std::nullopt;
  const auto mixed_up = [](const GgufPart& part, const std::string& what) {
    return Error{"bad_model_file", fmt::format("{}: {}", printable(part.path), what),
                 "files of different models may have been mixed up: download it again", part.path};
  };
  const auto* architecture = parts.front().header.text("general.architecture");
  std::uint64_t tensors = 0;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& header = parts[i].header;
    const auto number = header.integer("split.no");
    if (!number || *number != static_cast<std::int64_t>(i)) {
      return mixed_up(parts[i], fmt::format("its name says part {} of {}, its split.no says {}", i + 1, parts.size(),
                                            number ? fmt::to_string(*number) : "nothing"));
    }
    // Parts behind the first need not have any other key.
    if (const auto own = header.integer("split.count"); own && static_cast<std::uint64_t>(*own) != parts.size()) {
      return mixed_up(parts[i],
                      fmt::format("its name says part {} of {}, its split.count says {}", i + 1, parts.size(), *own));
    }
    if (const auto* own = header.text("general.architecture");
        own != nullptr && architecture != nullptr && *own != *architecture) {
      return mixed_up(parts[i], fmt::format("its architecture is '{}', and that of {} is '{}'", printable(*own),
                                            printable(parts.front().path), printable(*architecture)));
    }
    for (const auto& tensor : header.tensors) {
      if (names.insert(tensor.name).second) continue;
      return mixed_up(parts[i], fmt::format("the tensor {} is in an earlier part too", printable(tensor.name)));
    }
    tensors += header.tensors.size();
  }
  const auto claimed = parts.front().header.integer("split.tensors.count");
  if (claimed && static_cast<std::uint64_t>(*claimed) != tensors) {
    return Error{"model_incomplete",
                 fmt::format("{}: split.tensors.count is {}, but its {} files have {} tensors", printable(path),
                             *claimed, parts.size(), tensors),
                 "download it again", std::string{path}};
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
  return {"model_not_supported",
          fmt::format("{}: architecture '{}' is not supported yet: {}", printable(path), printable(architecture), why),
          "a newer dgxmm may know it", std::string{path}};
}

/// E8, E9: an architecture that is not known is described when nothing in the file hints at more than plain attention,
/// and then says so; one that is known must not have keys that its layers do not use.
std::optional<Error> check_layout(std::string_view path, const HyperParameters& read, ModelDescription& model) {
  const auto& architecture = read.architecture();
  for (const auto& key : kLayoutKeys) {
    if (read.has(key.suffix) && !key.is_read_for(architecture)) {
      return not_supported(path, architecture, fmt::format("it has {}", printable(read.key(key.suffix))));
    }
  }
  if (std::ranges::find(kNotCovered, architecture) != kNotCovered.end()) {
    return not_supported(path, architecture, "it has an encoder and a decoder");
  }
  if (is_known(architecture)) return std::nullopt;
  for (const auto key : kDoubtfulKeys) {
    if (read.has(key)) {
      return not_supported(path, architecture, fmt::format("it has {}", printable(read.key(key))));
    }
  }
  model.missing_fields.push_back(fmt::format("what layers '{}' has", printable(architecture)));
  return std::nullopt;
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

Result<Projector> describe_projector(const GgufPart& part) {
  // clip_model_loader (tools/mtmd/clip.cpp) takes this architecture only.
  const auto* architecture = part.header.text("general.architecture");
  if (architecture == nullptr || *architecture != "clip") {
    return fail("bad_model_file",
                fmt::format("{}: this is no projector: its general.architecture is {}, not clip", printable(part.path),
                            architecture == nullptr ? "missing" : printable(*architecture)),
                "name the file that was converted with --mmproj; its name mostly begins with mmproj", part.path);
  }
  Projector projector{.path = part.path, .file = Bytes{static_cast<std::int64_t>(part.size)}};
  for (const auto& tensor : part.header.tensors) {
    projector.tensors += Bytes{static_cast<std::int64_t>(tensor.bytes)};  // inside the file: checked by parse_gguf
  }
  const FileIdentity identity{.size = part.size, .header = part.header.digest};
  projector.fingerprint = make_fingerprint(Format::gguf, {&identity, 1});
  return projector;
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
                "name the file of the model itself", std::string{path});
  }
  if (auto error = check_split(path, parts)) return fail(std::move(*error));
  const auto* architecture = header.text("general.architecture");
  if (architecture == nullptr) {
    return fail("bad_model_file",
                fmt::format("{}: the key general.architecture is missing, or no text", printable(path)),
                "convert the model again", std::string{path});
  }
  ModelDescription model{.format = Format::gguf, .path = std::string{path}, .architecture = *architecture};
  HyperParameters read{parts.front().path, *architecture, header};
  if (auto error = check_layout(path, read, model)) return fail(std::move(*error));
  read_layers(read, model);
  read_vocabulary(read, header, model);
  if (read.error()) return fail(*read.error());
  // Counted as blocks, not as layers: these differ when layers are run several times.
  const auto trunk =
      read.required("block_count", kMaxGgufLayers) - static_cast<std::int64_t>(model.nextn_layers.size());
  auto totals = sum_tensors(path, parts, trunk);
  if (!totals) return fail(std::move(totals.error()));
  if (totals->weights.tensors == Bytes{}) {
    return fail("bad_model_file", fmt::format("{}: holds no tensors, only a vocabulary", printable(path)),
                "name the file of a whole model", std::string{path});
  }

  if (auto error = find_contradiction(parts, model, trunk)) return fail(std::move(*error));
  model.contradictions = find_contradictions(parts, model, trunk);
  if (auto note = note_of_new_types(parts)) model.notes.push_back(std::move(*note));

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
