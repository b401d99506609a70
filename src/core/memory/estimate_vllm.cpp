#include "core/memory/assemble.h"
#include "core/memory/estimate.h"
#include "core/memory/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace dgxmm::memory {
namespace {

using engine::VllmConfig;

/// Tokens of one block of the KV cache: vLLM's default for full attention (vllm/config/cache.py).
constexpr std::int64_t kBlock = 16;
/// Activations and the cache of an unquantized model: float32 checkpoints are served as bfloat16
/// (vllm/config/model.py).
constexpr std::int64_t kHalf = 2;
constexpr std::int64_t kMaxSequences = std::int64_t{1} << 16;
constexpr std::int64_t kMaxBatchedTokens = std::int64_t{1} << 20;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t even(std::int64_t n) { return (n + 1) / 2 * 2; }

/// One value of --kv-cache-dtype: bytes of one KV head of one token, from the widths of K and V.
struct KvDtype {
  std::string_view name;
  std::int64_t (*bytes)(std::int64_t k, std::int64_t v);
  bool outer_layers_16bit = false;  ///< the first two and the last two layers of a model stay as they are
};

std::int64_t sixteen_bit(std::int64_t k, std::int64_t v) { return kHalf * (k + v); }
std::int64_t eight_bit(std::int64_t k, std::int64_t v) { return k + v; }
/// Two float32 scales beside the values.
std::int64_t eight_bit_scaled(std::int64_t k, std::int64_t v) { return k + v + 8; }
std::int64_t four_bit_scaled(std::int64_t k, std::int64_t v) { return ceil_div(k + v, 2) + 8; }
/// One scale byte for 16 values.
std::int64_t nvfp4(std::int64_t k, std::int64_t v) {
  return ceil_div(k, 2) + ceil_div(k, 16) + ceil_div(v, 2) + ceil_div(v, 16);
}
std::int64_t turboquant_k8v4(std::int64_t k, std::int64_t v) { return even(k + ceil_div(v, 2) + 4); }
std::int64_t turboquant_4bit(std::int64_t k, std::int64_t v) { return even(ceil_div(k, 2) + 2 + ceil_div(v, 2) + 4); }
std::int64_t turboquant_k3v4(std::int64_t k, std::int64_t v) {
  return even(ceil_div(3 * k, 8) + 2 + ceil_div(v, 2) + 4);
}
std::int64_t turboquant_3bit(std::int64_t k, std::int64_t v) {
  return even(ceil_div(3 * k, 8) + 2 + ceil_div(3 * v, 8) + 4);
}

/// Every value for attention with K and V; fp8_ds_mla is for latent attention only (CacheDType, vllm/config/cache.py).
/// `auto` is the model's type: what its checkpoint says about the cache is not read yet, and can only make it smaller.
constexpr KvDtype kKvDtypes[] = {
    {"auto", sixteen_bit},
    {"float16", sixteen_bit},
    {"bfloat16", sixteen_bit},
    {"fp8", eight_bit},
    {"fp8_e4m3", eight_bit},
    {"fp8_e5m2", eight_bit},
    {"fp8_inc", eight_bit},
    {"fp8_per_token_head", eight_bit_scaled},
    {"int8_per_token_head", eight_bit_scaled},
    {"int4_per_token_head", four_bit_scaled},
    {"nvfp4", nvfp4},
    {"nvfp4_4over6", nvfp4},
    {"turboquant_k8v4", turboquant_k8v4, true},
    {"turboquant_4bit_nc", turboquant_4bit, true},
    {"turboquant_k3v4_nc", turboquant_k3v4, true},
    {"turboquant_3bit_nc", turboquant_3bit, true},
};

Result<KvDtype> kv_dtype(std::string_view name) {
  const auto* found = std::ranges::find(kKvDtypes, name, &KvDtype::name);
  if (found != std::end(kKvDtypes)) return *found;
  std::string accepted;
  for (const auto& dtype : kKvDtypes) accepted += (accepted.empty() ? "" : ", ") + std::string{dtype.name};
  return fail("bad_configuration", fmt::format("kv_cache_dtype '{}' is not one that vLLM has", name),
              "one of " + accepted, "kv_cache_dtype");
}

/// FullAttentionSpec.page_size_bytes over all layers, for one token (vllm/v1/kv_cache_interface.py).
Bytes kv_bytes_per_token(const model::ModelDescription& model, const KvDtype& dtype) {
  constexpr std::size_t kOuter = 2;
  Bytes sum;
  const auto layers = model.layers.size();
  for (std::size_t i = 0; i < layers; ++i) {
    const auto& attention = *model.layers[i].attention;
    const bool outer = i < kOuter || i + kOuter >= layers;
    const auto bytes = dtype.outer_layers_16bit && outer ? sixteen_bit : dtype.bytes;
    sum += Bytes{attention.n_head_kv * bytes(attention.key_length, attention.value_length)};
  }
  return sum;
}

/// Tokens of the KV pool, in whole blocks (E3). Errors: `bad_configuration` when one request cannot fit into it, which
/// vLLM refuses at its start (_check_enough_kv_cache_memory, vllm/v1/core/kv_cache_utils.py).
Result<std::int64_t> pool_tokens(const VllmConfig& config) {
  const auto context = config.max_model_len;
  const auto one_request = ceil_div(context, kBlock) * kBlock;
  const auto wanted = config.kv_tokens.value_or(std::min(context * config.max_num_seqs, 2 * context));
  const auto pool = ceil_div(wanted, kBlock) * kBlock;
  if (pool >= one_request) return pool;
  return fail("bad_configuration",
              fmt::format("a KV pool of {} tokens cannot hold one request of max_model_len {}", wanted, context),
              fmt::format("set kv_tokens to at least {}, or max_model_len to at most {}", one_request, pool),
              "kv_tokens");
}

/// E2. A float32 checkpoint is loaded as bfloat16.
Part weights(const model::ModelDescription& model) {
  Part part{.size = model.weights.files, .source = Source::file_size, .detail = describe_files(model)};
  if (model.weight_dtype == "float32") {
    part.size = scale_up(model.weights.files, 1, 2);
    part.source = Source::formula;
    part.detail += ", float32 halved: loaded as bfloat16";
  }
  return part;
}

/// Bytes alive together in the widest layer while `tokens` pass through it. Coefficients: what a layer of vLLM's models
/// holds at once (vllm/model_executor/models and layers/fused_moe), with 16-bit values.
Bytes layer_activations(const model::ModelDescription& model, std::int64_t tokens) {
  const auto hidden = model.embedding_length;
  std::int64_t widest = 0;
  for (const auto& layer : model.layers) {
    const auto& attention = *layer.attention;
    const auto head = std::max(attention.key_length, attention.value_length);
    // The residual stream and its norm; Q, K and V before and after rotation.
    widest = std::max(widest, 3 * hidden + 2 * (attention.n_head + 2 * attention.n_head_kv) * head);
    // Gate, up and their product.
    widest = std::max(widest, 3 * hidden + 3 * layer.feed_forward_length);
  }
  Bytes sum{kHalf * tokens * widest};
  if (model.experts) {
    const auto& experts = *model.experts;
    const auto inner = experts.feed_forward_length;
    // Two workspaces of one copy of a token for each expert used, and the router's scores.
    const auto width = 4 * hidden + experts.used_count * (std::max(2 * inner, hidden) + std::max(inner, hidden)) +
                       3 * experts.shared_feed_forward_length;
    sum = std::max(sum, Bytes{kHalf * tokens * width + 12 * tokens * experts.count});
  }
  return sum;
}

/// The sampler's rows of logits: 16 bit 2, float32 copy 4, sorted values 4 and indices 8, softmax 4, cumulated 4
/// (vllm/v1/sample).
constexpr std::int64_t kSamplerBytesPerLogit = 26;
/// FlashInfer's workspace (394 MiB), and room for what is allocated now and then.
constexpr Bytes kWorkspace = mib(394 + 256);

/// Buffers of one row a sequence, held from the start (vllm/v1/worker/gpu): counts and a mask for penalties, all token
/// ids, block tables on both sides.
Bytes sequence_buffers(const VllmConfig& config, std::int64_t vocabulary) {
  const auto ids = 4 * config.max_model_len;
  const auto blocks = 2 * 4 * ceil_div(config.max_model_len, kBlock);
  const auto penalties = 4 * vocabulary + 4 * ceil_div(vocabulary, 32);
  return Bytes{config.max_num_seqs * (ids + blocks + penalties)};
}

/// E5: the largest moment of a profile run, a fifth more for rounding and copies, and what stays allocated.
Part activations(const model::ModelDescription& model, const VllmConfig& config) {
  const auto tokens = config.max_num_batched_tokens;
  const auto rows = std::min(config.max_num_seqs, tokens);
  const Bytes layer = layer_activations(model, tokens);
  const Bytes sampler{rows * model.vocabulary * kSamplerBytesPerLogit};
  const Bytes stream{2 * kHalf * tokens * model.embedding_length};
  const Bytes buffers = sequence_buffers(config, model.vocabulary);
  return {.size = scale_up(std::max(layer, sampler + stream), 120, 100) + kWorkspace + buffers,
          .source = Source::formula,
          .detail = fmt::format("{} batched tokens: {}; sampler for {} sequences: {}; buffers of the sequences: {}; "
                                "workspace: {}",
                                tokens, format_bytes(layer), rows, format_bytes(sampler), format_bytes(buffers),
                                format_bytes(kWorkspace))};
}

/// E6
Part runtime(const VllmConfig& config, const EstimateSettings& settings) {
  Part part{.size = settings.vllm_runtime_fixed, .source = Source::setting};
  part.detail = format_bytes(settings.vllm_runtime_fixed) + " fixed";
  if (config.enforce_eager) {
    part.detail += ", no CUDA graphs (eager)";
  } else {
    part.size += settings.vllm_cuda_graph;
    part.detail += fmt::format(" + CUDA graphs {}", format_bytes(settings.vllm_cuda_graph));
  }
  return part;
}

Result<void> check_config(const VllmConfig& config) {
  if (auto ok = check_setting("max_model_len", config.max_model_len, 1, kMaxContext); !ok) return ok;
  if (auto ok = check_setting("max_num_seqs", config.max_num_seqs, 1, kMaxSequences); !ok) return ok;
  if (auto ok = check_setting("max_num_batched_tokens", config.max_num_batched_tokens, 1, kMaxBatchedTokens); !ok)
    return ok;
  if (config.kv_tokens) return check_setting("kv_tokens", *config.kv_tokens, 1, kMaxContext);
  return {};
}

}  // namespace

Result<Estimate> estimate_vllm(const model::ModelDescription& model, const VllmConfig& config,
                               const EstimateSettings& settings) {
  if (auto supported = check_supported(model); !supported) return fail(supported.error());
  if (auto ok = check_config(config); !ok) return fail(ok.error());
  const auto dtype = kv_dtype(config.kv_cache_dtype);
  if (!dtype) return fail(dtype.error());
  const auto tokens = pool_tokens(config);
  if (!tokens) return fail(tokens.error());
  Part kv{.size = kv_bytes_per_token(model, *dtype) * *tokens, .source = Source::formula};
  kv.detail = fmt::format("{}, {}, pool of {} tokens", describe_attention(model),
                          dtype->name == "auto" ? "16 bit (auto)" : dtype->name, *tokens);
  return assemble(model, {
                             .weights = weights(model),
                             .kv = std::move(kv),
                             .state = {.source = Source::formula, .detail = "none: every layer is plain attention"},
                             .activations = activations(model, config),
                             .runtime = runtime(config, settings),
                         });
}

}  // namespace dgxmm::memory
