#include "core/engine/request.h"

#include "base/masking.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace dgxmm::engine {
namespace {

/// llama.cpp pads a context to a multiple of this (src/llama-context.cpp).
constexpr std::int64_t kLeastContext = 256;

std::unexpected<Error> bad_field(std::string_view field, std::string_view problem, std::string hint = {}) {
  return fail("bad_field", fmt::format("{}: {}", field, problem), std::move(hint), std::string{field});
}

/// A setting that only one of the engines has.
struct Setting {
  std::string_view field;
  bool is_set = false;
};

std::vector<Setting> llamacpp_settings(const DeployRequest& request) {
  return {{"ctx_size", request.ctx_size.has_value()},
          {"parallel", request.parallel.has_value()},
          {"batch", request.batch.has_value()},
          {"ubatch", request.ubatch.has_value()},
          {"cache_ram_mib", request.cache_ram_mib.has_value()},
          {"cache_type_k", request.cache_type_k.has_value()},
          {"cache_type_v", request.cache_type_v.has_value()},
          {"flash_attn", request.flash_attn.has_value()},
          {"kv_unified", request.kv_unified.has_value()},
          {"swa_full", request.swa_full.has_value()},
          {"mmproj", request.mmproj.has_value()},
          {"spec_type", request.spec_type.has_value()},
          {"spec_draft_n_max", request.spec_draft_n_max.has_value()},
          {"cache_type_k_draft", request.cache_type_k_draft.has_value()},
          {"cache_type_v_draft", request.cache_type_v_draft.has_value()}};
}

std::vector<Setting> vllm_settings(const DeployRequest& request) {
  return {{"max_model_len", request.max_model_len.has_value()},
          {"max_num_seqs", request.max_num_seqs.has_value()},
          {"max_num_batched_tokens", request.max_num_batched_tokens.has_value()},
          {"kv_tokens", request.kv_tokens.has_value()},
          {"kv_cache_dtype", request.kv_cache_dtype.has_value()},
          {"enforce_eager", request.enforce_eager.has_value()},
          {"tensor_parallel_size", request.tensor_parallel_size.has_value()},
          {"quantization", request.quantization.has_value()},
          {"spec_method", request.spec_method.has_value()},
          {"num_speculative_tokens", request.num_speculative_tokens.has_value()},
          {"enable_lora", request.enable_lora.has_value()},
          {"max_loras", request.max_loras.has_value()},
          {"max_lora_rank", request.max_lora_rank.has_value()},
          {"language_model_only", request.language_model_only.has_value()},
          {"limit_mm_per_prompt", request.limit_mm_per_prompt.has_value()},
          {"mm_processor_cache_gb", request.mm_processor_cache_gb.has_value()},
          {"sleep_mode", request.sleep_mode.has_value()}};
}

Result<void> refuse_settings_of_the_other(const DeployRequest& request, EngineKind engine) {
  const bool is_llamacpp = engine == EngineKind::llamacpp;
  const auto other = is_llamacpp ? EngineKind::vllm : EngineKind::llamacpp;
  for (const auto& [field, is_set] : is_llamacpp ? vllm_settings(request) : llamacpp_settings(request)) {
    if (!is_set) continue;
    return bad_field(
        field,
        fmt::format("is a setting of {}, and this model runs with {}", display_name(other), display_name(engine)),
        "leave it out; context and sequences work for both engines");
  }
  return {};
}

Result<EngineKind> choose_engine(const DeployRequest& request, model::Format format) {
  const auto natural = format == model::Format::gguf ? EngineKind::llamacpp : EngineKind::vllm;
  if (!request.engine) return natural;
  const auto asked = parse_engine(*request.engine);
  if (!asked || *asked == natural) return asked;
  return bad_field("engine",
                   format == model::Format::gguf
                       ? "vllm serves folders with safetensors files, and this model is a GGUF file"
                       : "llama.cpp serves GGUF files, and this model is a folder with safetensors files",
                   fmt::format("leave the engine out: it will be {}", display_name(natural)));
}

/// A number that must lie within [least, most].
struct Number {
  std::string_view field;
  std::int64_t value = 0;
  std::int64_t least = 1;
  std::int64_t most = model::kMostContext;
};

Result<void> check_ranges(std::span<const Number> numbers) {
  for (const auto& [field, value, least, most] : numbers) {
    if (value >= least && value <= most) continue;
    return bad_field(field, fmt::format("must be between {} and {}, not {}", least, most, value),
                     least == most ? "leave it out" : fmt::format("give a number from {} to {}", least, most));
  }
  return {};
}

/// One setting that has two names.
struct Alias {
  std::string_view field;
  std::optional<std::int64_t> value;
};

/// The setting under the name that was used, `second` being the engine's own.
Result<Alias> one_of(Alias first, Alias second) {
  if (first.value && second.value && *first.value != *second.value) {
    return bad_field(first.field, fmt::format("says {}, and {} says {}", *first.value, second.field, *second.value),
                     "they are two names for the same setting: give one of them");
  }
  return first.value ? first : second;
}

bool is_quantized(CacheType type) {
  return type != CacheType::f32 && type != CacheType::f16 && type != CacheType::bf16;
}

template <class T>
using Words = std::span<const std::pair<std::string_view, T>>;

template <class T>
Result<T> parse_word(std::string_view field, std::string_view text, Words<T> words) {
  std::string allowed;
  for (const auto& [word, value] : words) {
    if (word == text) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string{word};
  }
  return bad_field(field, fmt::format("expected one of {}, not '{}'", allowed, printable(text.substr(0, 64))),
                   "give one of these words, or leave it out");
}

template <class T>
std::string_view word_of(T value, Words<T> words) {
  const auto found = std::ranges::find(words, value, &std::pair<std::string_view, T>::second);
  return found == words.end() ? std::string_view{} : found->first;
}

constexpr std::array<std::pair<std::string_view, CacheType>, 9> kCacheTypes{{{"f32", CacheType::f32},
                                                                             {"f16", CacheType::f16},
                                                                             {"bf16", CacheType::bf16},
                                                                             {"q8_0", CacheType::q8_0},
                                                                             {"q5_1", CacheType::q5_1},
                                                                             {"q5_0", CacheType::q5_0},
                                                                             {"q4_1", CacheType::q4_1},
                                                                             {"q4_0", CacheType::q4_0},
                                                                             {"iq4_nl", CacheType::iq4_nl}}};

constexpr std::array<std::pair<std::string_view, FlashAttention>, 3> kFlashAttention{
    {{"auto", FlashAttention::automatic}, {"on", FlashAttention::on}, {"off", FlashAttention::off}}};

constexpr std::array<std::pair<std::string_view, SpecType>, 3> kSpecTypes{
    {{"none", SpecType::none}, {"draft-simple", SpecType::draft_simple}, {"draft-mtp", SpecType::draft_mtp}}};

Result<CacheType> cache_type(std::string_view field, const std::optional<std::string>& text) {
  if (!text) return CacheType::f16;
  return parse_word<CacheType>(field, *text, kCacheTypes);
}

/// By which names a person gave the settings that have two.
struct UsedNames {
  std::string_view context;
  std::string_view sequences;
};

Result<void> refuse_quantized_v(std::string_view field, CacheType type, FlashAttention flash_attn) {
  if (!is_quantized(type) || flash_attn != FlashAttention::off) return {};
  return bad_field("flash_attn", "a quantized V cache requires flash_attn to be enabled",
                   fmt::format("leave flash_attn out, or use f16 instead of {} for {}", name_of(type), field));
}

Result<void> check_llamacpp(const LlamaCppConfig& config, UsedNames names) {
  const std::array numbers{
      Number{.field = names.context, .value = config.ctx_size, .least = kLeastContext},
      Number{.field = names.sequences, .value = config.parallel, .most = 256},  // LLAMA_MAX_SEQ
      Number{.field = "batch", .value = config.batch},
      Number{.field = "ubatch", .value = config.ubatch},
      // -1, "no limit", would make the deployment's size unknowable.
      Number{.field = "cache_ram_mib", .value = config.cache_ram_mib, .least = 0, .most = 16 * 1024 * 1024},
      Number{.field = "spec_draft_n_max", .value = config.spec_draft_n_max, .most = kMostDrafted},
  };
  if (auto checked = check_ranges(numbers); !checked) return checked;
  if (auto ok = refuse_quantized_v("cache_type_v", config.cache_type_v, config.flash_attn); !ok) return ok;
  if (config.spec_type == SpecType::none) return {};
  return refuse_quantized_v("cache_type_v_draft", config.cache_type_v_draft, config.flash_attn);
}

// vllm/config/lora.py, 017e9f44.
constexpr auto kLoraRanks = std::to_array<std::int64_t>({1, 8, 16, 32, 64, 128, 256, 320, 512});
constexpr std::int64_t kMostDraftedTokens = 64;

template <std::size_t N>
Result<void> check_one_of(std::string_view field, std::int64_t value, const std::array<std::int64_t, N>& values) {
  if (std::ranges::find(values, value) != values.end()) return {};
  return bad_field(field, fmt::format("must be one of {}, not {}", fmt::join(values, ", "), value),
                   "take the smallest that is enough");
}

/// --quantization of a checkpoint in 16 bit: what vLLM does while it loads (vllm/config/quantization.py, 017e9f44).
constexpr std::array<std::pair<std::string_view, bool>, 9> kOnlineQuantizations{{{"fp8", true},
                                                                                 {"fp8_per_tensor", true},
                                                                                 {"fp8_per_channel", true},
                                                                                 {"fp8_per_block", true},
                                                                                 {"int8_per_channel_weight_only", true},
                                                                                 {"experts_int8", true},
                                                                                 {"mxfp8", true},
                                                                                 {"mxfp4", true},
                                                                                 {"nvfp4_per_token", true}}};

Result<void> check_method(std::string_view method) {
  if (spec_method_named(method) != nullptr) return {};
  std::vector<std::string_view> names;
  for (const auto& known : kSpecMethods) names.push_back(known.name);
  return bad_field("spec_method",
                   fmt::format("expected one of {}, not '{}'", fmt::join(names, ", "), printable(method.substr(0, 64))),
                   "give one of these words, or leave it out");
}

Result<void> check_words(const VllmConfig& config) {
  if (!config.spec_method.empty()) {
    if (auto known = check_method(config.spec_method); !known) return known;
  }
  if (!config.quantization.empty()) {
    if (auto known = parse_word<bool>("quantization", config.quantization, kOnlineQuantizations); !known) {
      return fail(known.error());
    }
  }
  return {};
}

Result<void> check_vllm(const VllmConfig& config, UsedNames names) {
  const std::array numbers{
      Number{.field = names.context, .value = config.max_model_len},
      Number{.field = "max_num_batched_tokens", .value = config.max_num_batched_tokens},
      Number{.field = names.sequences, .value = config.max_num_seqs},
      Number{.field = "kv_tokens", .value = config.kv_tokens.value_or(1), .most = std::int64_t{1} << 40},
      Number{.field = "tensor_parallel_size", .value = config.tensor_parallel_size, .most = 256},
      Number{.field = "num_speculative_tokens",
             .value = config.num_speculative_tokens,
             .least = config.spec_method.empty() ? 0 : 1,
             .most = config.spec_method.empty() ? 0 : kMostDraftedTokens},
      Number{.field = "max_loras", .value = config.max_loras, .most = 1024},
      Number{.field = "limit_mm_per_prompt", .value = config.limit_mm_per_prompt.value_or(0), .least = 0, .most = 999},
      Number{.field = "mm_processor_cache_gb",
             .value = config.mm_processor_cache_gb.value_or(0),
             .least = 0,
             .most = 1024},
  };
  if (auto checked = check_ranges(numbers); !checked) return checked;
  if (auto known = check_one_of("max_lora_rank", config.max_lora_rank, kLoraRanks); !known) return known;
  if (auto known = check_words(config); !known) return known;
  if (config.max_num_batched_tokens < config.max_num_seqs) {
    return bad_field("max_num_batched_tokens",
                     fmt::format("must be at least max_num_seqs, which is {}", config.max_num_seqs),
                     "a step holds a token of each sequence: raise it, or lower max_num_seqs");
  }

  // Spellings of --kv-cache-dtype (vllm/config/cache.py, 017e9f44).
  static constexpr std::array<std::string_view, 17> kDtypes{"auto",
                                                            "float16",
                                                            "bfloat16",
                                                            "fp8",
                                                            "fp8_e4m3",
                                                            "fp8_e5m2",
                                                            "fp8_inc",
                                                            "fp8_ds_mla",
                                                            "fp8_per_token_head",
                                                            "int8_per_token_head",
                                                            "int4_per_token_head",
                                                            "nvfp4",
                                                            "nvfp4_4over6",
                                                            "turboquant_k8v4",
                                                            "turboquant_4bit_nc",
                                                            "turboquant_k3v4_nc",
                                                            "turboquant_3bit_nc"};
  if (std::ranges::find(kDtypes, config.kv_cache_dtype) == kDtypes.end()) {
    return bad_field("kv_cache_dtype", fmt::format("'{}' is not one that vLLM has", printable(config.kv_cache_dtype)),
                     "common ones are auto, bfloat16 and fp8");
  }
  return {};
}

/// Who drafts, and how; settings of a draft that nobody makes are refused.
Result<void> resolve_speculation(const DeployRequest& request, LlamaCppConfig& config) {
  const auto by_model = request.draft_model ? "draft-simple" : "none";
  const auto spec_type = parse_word<SpecType>("spec_type", request.spec_type.value_or(by_model), kSpecTypes);
  if (!spec_type) return fail(spec_type.error());
  config.spec_type = *spec_type;
  config.draft_model = request.draft_model.value_or("");
  if (request.draft_model && config.draft_model.empty())
    return bad_field("draft_model", "is empty", "name a model or a path, or leave it out");
  if (*spec_type == SpecType::draft_simple && config.draft_model.empty()) {
    return bad_field("spec_type", "draft-simple needs a draft model", "name one with draft_model");
  }
  if (*spec_type != SpecType::draft_simple && !config.draft_model.empty()) {
    return bad_field("spec_type", fmt::format("{} does not use the draft_model", name_of(*spec_type)),
                     "leave out one of the two");
  }
  const std::array drafting{Setting{"spec_draft_n_max", request.spec_draft_n_max.has_value()},
                            Setting{"cache_type_k_draft", request.cache_type_k_draft.has_value()},
                            Setting{"cache_type_v_draft", request.cache_type_v_draft.has_value()}};
  for (const auto& [field, is_set] : drafting) {
    if (!is_set || *spec_type != SpecType::none) continue;
    return bad_field(field, "nothing drafts tokens", "give draft_model, or spec_type draft-mtp, or leave it out");
  }
  config.spec_draft_n_max = request.spec_draft_n_max.value_or(config.spec_draft_n_max);
  const auto type_k = cache_type("cache_type_k_draft", request.cache_type_k_draft);
  if (!type_k) return fail(type_k.error());
  const auto type_v = cache_type("cache_type_v_draft", request.cache_type_v_draft);
  if (!type_v) return fail(type_v.error());
  config.cache_type_k_draft = *type_k;
  config.cache_type_v_draft = *type_v;
  return {};
}

Result<EngineConfig> resolve_llamacpp(const DeployRequest& request, const model::ModelDescription& model,
                                      const ConfigDefaults& defaults) {
  const auto context = one_of({"context", request.context}, {"ctx_size", request.ctx_size});
  if (!context) return fail(context.error());
  const auto sequences = one_of({"sequences", request.sequences}, {"parallel", request.parallel});
  if (!sequences) return fail(sequences.error());

  LlamaCppConfig config;
  config.ctx_size = context->value.value_or(0);
  if (config.ctx_size == 0) {  // also the engine's word for "as the model was trained"
    if (model.training_context <= 0) {
      return bad_field("ctx_size", "the model does not say for which context it was trained", "give the context");
    }
    config.ctx_size = std::max(model.training_context, kLeastContext);
  }
  config.parallel = sequences->value.value_or(4);
  // llama-server: slots that were not asked for share one cache (common/arg.cpp, b7433 and newer).
  config.kv_unified = request.kv_unified.value_or(!sequences->value);
  config.batch = request.batch.value_or(config.batch);
  config.ubatch = std::min(request.ubatch.value_or(config.ubatch), config.batch);  // as the engine does
  config.cache_ram_mib = request.cache_ram_mib.value_or(defaults.llamacpp_cache_ram_mib);
  config.swa_full = request.swa_full.value_or(false);
  const auto type_k = cache_type("cache_type_k", request.cache_type_k);
  if (!type_k) return fail(type_k.error());
  const auto type_v = cache_type("cache_type_v", request.cache_type_v);
  if (!type_v) return fail(type_v.error());
  const auto flash_attn =
      parse_word<FlashAttention>("flash_attn", request.flash_attn.value_or("auto"), kFlashAttention);
  if (!flash_attn) return fail(flash_attn.error());
  config.cache_type_k = *type_k;
  config.cache_type_v = *type_v;
  config.flash_attn = *flash_attn;
  if (auto resolved = resolve_speculation(request, config); !resolved) return fail(resolved.error());
  // llama-server looks for a projector by itself only when it downloads the model.
  if (request.mmproj && *request.mmproj != "none") config.mmproj = *request.mmproj;
  if (auto valid = check_llamacpp(config, {context->field, sequences->field}); !valid) return fail(valid.error());
  return config;
}

/// A model's own layers draft as many tokens as there are of them, unless it is said; other methods need the number
/// (SpeculativeConfig, vllm/config/speculative.py, 017e9f44).
Result<void> resolve_speculation(const DeployRequest& request, const model::ModelDescription& model,
                                 VllmConfig& config) {
  config.draft_model = request.draft_model.value_or("");
  if (request.draft_model && config.draft_model.empty())
    return bad_field("draft_model", "is empty", "name a model or a path, or leave it out");
  config.spec_method = request.spec_method.value_or(request.draft_model ? "draft_model" : "");
  if (config.spec_method.empty()) {
    if (!request.num_speculative_tokens) return {};
    return bad_field("num_speculative_tokens", "needs spec_method, which says how they are drafted",
                     "give spec_method too, or leave it out");
  }
  if (auto known = check_method(config.spec_method); !known) return known;
  const bool needs_model = spec_method_named(config.spec_method)->has_model;
  if (needs_model && !request.draft_model) {
    return bad_field("spec_method", fmt::format("{} needs a draft model", config.spec_method),
                     "name one with draft_model");
  }
  if (!needs_model && request.draft_model) {
    return bad_field("spec_method", fmt::format("{} does not use the draft_model", config.spec_method),
                     "use draft_model, eagle or eagle3, or leave draft_model out");
  }
  const auto layers = static_cast<std::int64_t>(model.nextn_layers.size());
  const bool own_layers = config.spec_method == "mtp";
  if (own_layers && layers == 0) {
    return bad_field("spec_method", "this model has no layers of its own for multi-token prediction (mtp)",
                     "draft with a draft_model, or with ngram");
  }
  if (!request.num_speculative_tokens && !own_layers) {
    return bad_field("num_speculative_tokens", fmt::format("is needed for spec_method {}", config.spec_method),
                     fmt::format("give a number from 1 to {}", kMostDraftedTokens));
  }
  config.num_speculative_tokens = request.num_speculative_tokens.value_or(layers);
  if (own_layers && config.num_speculative_tokens > layers && config.num_speculative_tokens % layers != 0) {
    return bad_field("num_speculative_tokens",
                     fmt::format("must be a multiple of {}, the model's layers for multi-token prediction", layers),
                     fmt::format("give {}, or leave it out", layers));
  }
  return {};
}

Result<void> resolve_lora(const DeployRequest& request, VllmConfig& config) {
  config.enable_lora = request.enable_lora.value_or(false);
  if (config.enable_lora) {
    config.max_loras = request.max_loras.value_or(config.max_loras);
    config.max_lora_rank = request.max_lora_rank.value_or(config.max_lora_rank);
    return {};
  }
  if (!request.max_loras && !request.max_lora_rank) return {};
  return bad_field(request.max_loras ? "max_loras" : "max_lora_rank", "needs enable_lora",
                   "give enable_lora too, or leave it out");
}

/// For a model that takes text only these settings say nothing.
void resolve_encoders(const DeployRequest& request, const model::ModelDescription& model, VllmConfig& config) {
  if (model.encoders.empty()) return;
  config.language_model_only = request.language_model_only.value_or(false);
  config.limit_mm_per_prompt = request.limit_mm_per_prompt;
  if (config.language_model_only || config.limit_mm_per_prompt == 0) return;
  // vLLM's own 4 GiB are taken twice, and are host memory of the same pool.
  constexpr std::int64_t kCacheGb = 1;
  config.mm_processor_cache_gb = request.mm_processor_cache_gb.value_or(kCacheGb);
}

Result<EngineConfig> resolve_vllm(const DeployRequest& request, const model::ModelDescription& model) {
  const auto context = one_of({"context", request.context}, {"max_model_len", request.max_model_len});
  if (!context) return fail(context.error());
  const auto sequences = one_of({"sequences", request.sequences}, {"max_num_seqs", request.max_num_seqs});
  if (!sequences) return fail(sequences.error());

  VllmConfig config;
  config.max_model_len = context->value.value_or(model.training_context);
  if (!context->value && model.training_context <= 0) {
    return bad_field("max_model_len", "the model does not say for which context it was trained", "give the context");
  }
  // The API server's default on a GPU of this size (vllm/engine/arg_utils.py, 017e9f44).
  config.max_num_batched_tokens = request.max_num_batched_tokens.value_or(8192);
  // vLLM would take 1024 here, whose buffers, graphs and recurrent states cost gigabytes; a step holds at least one
  // token of each sequence.
  config.max_num_seqs = sequences->value.value_or(std::min<std::int64_t>(256, config.max_num_batched_tokens));
  config.kv_tokens = request.kv_tokens;
  config.enforce_eager = request.enforce_eager.value_or(false);
  config.kv_cache_dtype = request.kv_cache_dtype.value_or("auto");
  config.tensor_parallel_size = request.tensor_parallel_size.value_or(1);
  config.quantization = request.quantization.value_or("");
  config.sleep_mode = request.sleep_mode.value_or(false);
  if (auto ok = resolve_speculation(request, model, config); !ok) return fail(ok.error());
  if (auto ok = resolve_lora(request, config); !ok) return fail(ok.error());
  resolve_encoders(request, model, config);
  if (auto valid = check_vllm(config, {context->field, sequences->field}); !valid) return fail(valid.error());
  return config;
}

/// What does not change memory, but would make the engine refuse its command line or answer to another name.
Result<void> check_common(const DeployRequest& request) {
  const std::array port{Number{.field = "port", .value = request.port.value_or(1), .most = 65535}};
  if (auto checked = check_ranges(port); !checked) return checked;
  if (!request.served_name) return {};
  constexpr std::size_t kLongestName = 256;
  const auto& name = *request.served_name;
  if (name.empty() || name.size() > kLongestName || printable(name) != name) {
    return bad_field("served_name", fmt::format("must be printable text of 1 to {} bytes", kLongestName),
                     "give a shorter name of letters, digits, - and _");
  }
  if (name.find(',') != std::string::npos) {  // --alias takes a list
    return bad_field("served_name", "must not hold a comma", "take another sign for it");
  }
  return {};
}

}  // namespace

Result<EngineKind> parse_engine(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, EngineKind>, 3> kEngines{
      {{"llama.cpp", EngineKind::llamacpp}, {"llamacpp", EngineKind::llamacpp}, {"vllm", EngineKind::vllm}}};
  return parse_word<EngineKind>("engine", text, kEngines);
}

std::string_view display_name(EngineKind kind) { return kind == EngineKind::llamacpp ? "llama.cpp" : "vllm"; }

Result<EngineConfig> resolve(const DeployRequest& request, const model::ModelDescription& model,
                             const ConfigDefaults& defaults) {
  const auto engine = choose_engine(request, model.format);
  if (!engine) return fail(engine.error());
  if (const auto fitting = refuse_settings_of_the_other(request, *engine); !fitting) return fail(fitting.error());
  if (const auto common = check_common(request); !common) return fail(common.error());
  return *engine == EngineKind::llamacpp ? resolve_llamacpp(request, model, defaults) : resolve_vllm(request, model);
}

Result<void> check(const EngineConfig& config) {
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    return check_llamacpp(*llamacpp, {"ctx_size", "parallel"});
  }
  return check_vllm(std::get<VllmConfig>(config), {"max_model_len", "max_num_seqs"});
}

namespace {

std::optional<std::string> text_or_none(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional{text};
}

/// Settings that are at their defaults are left out: a key from before a setting was known stays equal.
std::string optional_settings(const VllmConfig& c) {
  const VllmConfig defaults;
  std::string text;
  const auto add = [&text](std::string_view name, const auto& value, const auto& usual) {
    if (value != usual) text += fmt::format("{}={} ", name, value);
  };
  add("tensor_parallel_size", c.tensor_parallel_size, defaults.tensor_parallel_size);
  add("quantization", c.quantization, defaults.quantization);
  if (!c.draft_model.empty()) text += "draft_model=yes ";  // which one it is, the fingerprint says
  add("spec_method", c.spec_method, defaults.spec_method);
  add("num_speculative_tokens", c.num_speculative_tokens, defaults.num_speculative_tokens);
  add("enable_lora", c.enable_lora, defaults.enable_lora);
  add("max_loras", c.max_loras, defaults.max_loras);
  add("max_lora_rank", c.max_lora_rank, defaults.max_lora_rank);
  add("language_model_only", c.language_model_only, defaults.language_model_only);
  add("limit_mm_per_prompt", c.limit_mm_per_prompt.value_or(-1), -1);
  add("mm_processor_cache_gb", c.mm_processor_cache_gb.value_or(-1), -1);
  add("sleep_mode", c.sleep_mode, defaults.sleep_mode);
  return text;
}

}  // namespace

DeployRequest with_config(DeployRequest request, const EngineConfig& config) {
  request.engine = std::string{display_name(kind_of(config))};
  request.context.reset();
  request.sequences.reset();
  request.draft_model.reset();
  request.mmproj.reset();
  request.spec_type.reset();
  request.spec_draft_n_max.reset();
  request.cache_type_k_draft.reset();
  request.cache_type_v_draft.reset();
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) {
    request.ctx_size = llamacpp->ctx_size;
    request.parallel = llamacpp->parallel;
    request.kv_unified = llamacpp->kv_unified;
    request.cache_type_k = std::string{name_of(llamacpp->cache_type_k)};
    request.cache_type_v = std::string{name_of(llamacpp->cache_type_v)};
    request.batch = llamacpp->batch;
    request.ubatch = llamacpp->ubatch;
    request.flash_attn = std::string{name_of(llamacpp->flash_attn)};
    request.swa_full = llamacpp->swa_full;
    request.cache_ram_mib = llamacpp->cache_ram_mib;
    if (!llamacpp->mmproj.empty()) request.mmproj = llamacpp->mmproj;
    if (!llamacpp->draft_model.empty()) request.draft_model = llamacpp->draft_model;
    if (llamacpp->spec_type != SpecType::none) {
      request.spec_type = std::string{name_of(llamacpp->spec_type)};
      request.spec_draft_n_max = llamacpp->spec_draft_n_max;
      request.cache_type_k_draft = std::string{name_of(llamacpp->cache_type_k_draft)};
      request.cache_type_v_draft = std::string{name_of(llamacpp->cache_type_v_draft)};
    }
  } else {
    const auto& vllm = std::get<VllmConfig>(config);
    request.max_model_len = vllm.max_model_len;
    request.max_num_seqs = vllm.max_num_seqs;
    request.max_num_batched_tokens = vllm.max_num_batched_tokens;
    request.kv_cache_dtype = vllm.kv_cache_dtype;
    request.kv_tokens = vllm.kv_tokens;
    request.enforce_eager = vllm.enforce_eager;
    if (!vllm.draft_model.empty()) request.draft_model = vllm.draft_model;
    request.tensor_parallel_size = vllm.tensor_parallel_size;
    request.quantization = text_or_none(vllm.quantization);
    request.spec_method = text_or_none(vllm.spec_method);
    request.num_speculative_tokens.reset();
    if (request.spec_method) request.num_speculative_tokens = vllm.num_speculative_tokens;
    request.enable_lora = vllm.enable_lora;
    request.max_loras.reset();
    request.max_lora_rank.reset();
    if (vllm.enable_lora) {
      request.max_loras = vllm.max_loras;
      request.max_lora_rank = vllm.max_lora_rank;
    }
    request.language_model_only = vllm.language_model_only;
    request.limit_mm_per_prompt = vllm.limit_mm_per_prompt;
    request.mm_processor_cache_gb = vllm.mm_processor_cache_gb;
    request.sleep_mode = vllm.sleep_mode;
  }
  return request;
}

std::string configuration_key(const EngineConfig& config) {
  if (const auto* c = std::get_if<LlamaCppConfig>(&config)) {
    auto key = fmt::format(
        "llamacpp ctx_size={} parallel={} kv_unified={} cache_type_k={} cache_type_v={} batch={} ubatch={} "
        "flash_attn={} swa_full={} cache_ram_mib={}",
        c->ctx_size, c->parallel, c->kv_unified, name_of(c->cache_type_k), name_of(c->cache_type_v), c->batch,
        c->ubatch, name_of(c->flash_attn), c->swa_full, c->cache_ram_mib);
    if (c->spec_type != SpecType::none) {
      key += fmt::format(" spec_type={} spec_draft_n_max={} cache_type_k_draft={} cache_type_v_draft={}",
                         name_of(c->spec_type), c->spec_draft_n_max, name_of(c->cache_type_k_draft),
                         name_of(c->cache_type_v_draft));
    }
    if (!c->mmproj.empty()) key += " mmproj=yes";
    return key;
  }
  const auto& c = std::get<VllmConfig>(config);
  const auto kv_tokens = c.kv_tokens ? std::to_string(*c.kv_tokens) : std::string{"default"};
  // The only free text comes last, so that nothing in it can be taken for another setting.
  return fmt::format(
      "vllm max_model_len={} max_num_seqs={} max_num_batched_tokens={} kv_tokens={} enforce_eager={} {}"
      "kv_cache_dtype={}",
      c.max_model_len, c.max_num_seqs, c.max_num_batched_tokens, kv_tokens, c.enforce_eager, optional_settings(c),
      c.kv_cache_dtype);
}

Result<CacheType> parse_cache_type(std::string_view text) {
  return parse_word<CacheType>("cache_type", text, kCacheTypes);
}

std::string_view name_of(CacheType type) { return word_of<CacheType>(type, kCacheTypes); }
std::string_view name_of(FlashAttention mode) { return word_of<FlashAttention>(mode, kFlashAttention); }
std::string_view name_of(SpecType type) { return word_of<SpecType>(type, kSpecTypes); }

Result<SpecType> parse_spec_type(std::string_view text) { return parse_word<SpecType>("spec_type", text, kSpecTypes); }

}  // namespace dgxmm::engine
