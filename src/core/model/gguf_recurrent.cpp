// Recurrent layers of GGUF models: which ones, and the shape of their state.
#include "core/model/gguf_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace dgxmm::model {
namespace {

/// How an architecture says which of its layers are recurrent (llama_hparams::is_recr).
enum class Where : std::uint8_t {
  everywhere,                 ///< there is no attention
  beside_attention,           ///< every layer has both
  between_full_layers,        ///< every n-th layer has attention
  without_kv_heads,           ///< layers without KV heads
  without_heads_and_experts,  ///< layers without KV heads and without a feed-forward part
};

struct Architecture {
  std::string_view name;
  RecurrentKind kind;
  Where where;
  std::int64_t interval = 0;  ///< default of `full_attention_interval`
};

constexpr auto kArchitectures = std::to_array<Architecture>({
    {"arwkv7", RecurrentKind::rwkv, Where::everywhere},
    {"bailingmoe3", RecurrentKind::kda, Where::without_kv_heads},
    {"falcon-h1", RecurrentKind::mamba2, Where::beside_attention},
    {"granitehybrid", RecurrentKind::mamba2, Where::without_kv_heads},
    {"jamba", RecurrentKind::mamba, Where::without_kv_heads},
    {"kimi-k3", RecurrentKind::kda, Where::without_kv_heads},
    {"kimi-linear", RecurrentKind::kda, Where::without_kv_heads},
    {"lfm2", RecurrentKind::short_conv, Where::without_kv_heads},
    {"lfm2moe", RecurrentKind::short_conv, Where::without_kv_heads},
    {"mamba", RecurrentKind::mamba, Where::everywhere},
    {"mamba2", RecurrentKind::mamba2, Where::everywhere},
    {"minimax-01", RecurrentKind::lightning, Where::between_full_layers, 8},
    {"nemotron_h", RecurrentKind::mamba2, Where::without_heads_and_experts},
    {"nemotron_h_moe", RecurrentKind::mamba2, Where::without_heads_and_experts},
    {"plamo2", RecurrentKind::mamba2, Where::without_kv_heads},
    {"qwen35", RecurrentKind::gated_delta_net, Where::between_full_layers, 4},
    {"qwen35moe", RecurrentKind::gated_delta_net, Where::between_full_layers, 4},
    {"qwen3next", RecurrentKind::gated_delta_net, Where::between_full_layers, 4},
    {"rwkv6", RecurrentKind::rwkv, Where::everywhere},
    {"rwkv6qwen2", RecurrentKind::rwkv, Where::everywhere},
    {"rwkv7", RecurrentKind::rwkv, Where::everywhere},
});

const Architecture* find(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == kArchitectures.end() ? nullptr : found;
}

/// One 1 a recurrent layer.
PerLayer recurrent_by_interval(HyperParameters& read, LayerCounts layers, std::int64_t interval) {
  if (auto list = read.per_layer("attention.recurrent_layers", layers.all, layers.nextn, 1)) return *list;
  interval = read.optional("full_attention_interval", kMaxGgufLayers).value_or(interval);
  if (interval == 0) read.refuse("bad_model_file", fmt::format("{} is 0", read.key("full_attention_interval")));
  PerLayer recurrent;
  for (std::int64_t i = 0; i < layers.all; ++i) recurrent.push_back(interval > 0 && (i + 1) % interval != 0 ? 1 : 0);
  return recurrent;
}

/// A convolution over the last tokens and a state of the state-space kind (llama_hparams::n_embd_r and n_embd_s).
RecurrentState state_space(HyperParameters& read, RecurrentKind kind) {
  const auto kernel = read.required("ssm.conv_kernel", kMaxGgufKernel);
  const auto inner = read.required("ssm.inner_size", kMaxGgufLength);
  const auto state = read.required("ssm.state_size", kMaxGgufLength);
  const auto rank = read.optional("ssm.time_step_rank", kMaxGgufLength).value_or(0);
  const auto groups = read.optional("ssm.group_count", kMaxGgufHeads).value_or(0);
  if (read.error()) return {};
  RecurrentState shape{.kind = kind, .inner = inner};
  shape.convolved = inner + 2 * groups * state;
  shape.projected = inner + shape.convolved + rank;
  shape.conv_elements = (kernel - 1) * shape.convolved;
  shape.state_elements = state * inner;
  return shape;
}

}  // namespace

bool is_recurrent_architecture(std::string_view architecture) { return find(architecture) != nullptr; }

bool is_purely_recurrent(std::string_view architecture) {
  const auto* found = find(architecture);
  return found != nullptr && found->where == Where::everywhere;
}

std::vector<Mixing> read_mixing(HyperParameters& read, LayerCounts layers, const AttentionKeys& keys) {
  std::vector<Mixing> mixing(static_cast<std::size_t>(layers.all));
  const auto* architecture = find(read.architecture());
  if (architecture == nullptr) return mixing;
  const auto by_interval = architecture->where == Where::between_full_layers
                               ? recurrent_by_interval(read, layers, architecture->interval)
                               : PerLayer(mixing.size(), 0);
  for (std::size_t i = 0; i < mixing.size(); ++i) {
    // Only the trunk has recurrent layers.
    const bool trunk = static_cast<std::int64_t>(i) < layers.trunk();
    const bool headless = keys.kv_heads[i] == 0;
    switch (architecture->where) {
      case Where::everywhere: mixing[i] = {.attention = false, .recurrent = trunk}; break;
      case Where::beside_attention: mixing[i] = {.attention = true, .recurrent = trunk}; break;
      case Where::between_full_layers: {
        const bool recurrent = trunk && by_interval[i] != 0;
        mixing[i] = {.attention = !recurrent, .recurrent = recurrent};
        break;
      }
      case Where::without_kv_heads: mixing[i] = {.attention = !headless, .recurrent = trunk && headless}; break;
      case Where::without_heads_and_experts: {
        const bool feeds_forward = keys.feed_forward[i] != 0;
        mixing[i] = {.attention = !headless && !feeds_forward, .recurrent = trunk && headless && !feeds_forward};
        break;
      }
    }
  }
  return mixing;
}

RecurrentState read_recurrent_state(HyperParameters& read, const ModelDescription& model, const AttentionKeys& keys) {
  const auto kind = find(read.architecture())->kind;
  const auto heads = keys.heads.front();
  RecurrentState state{.kind = kind};
  switch (kind) {
    case RecurrentKind::mamba:
    case RecurrentKind::mamba2:
    case RecurrentKind::gated_delta_net: return state_space(read, kind);
    case RecurrentKind::short_conv: {
      const auto kept = read.required("shortconv.l_cache", kMaxGgufKernel);
      state.conv_elements = model.embedding_length * std::max<std::int64_t>(kept - 1, 0);
      state.convolved = model.embedding_length;
      break;
    }
    case RecurrentKind::kda: {
      const auto kernel = read.required("ssm.conv_kernel", kMaxGgufKernel);
      const auto size = read.required("kda.head_dim", kMaxGgufLength);
      state.inner = heads * size;
      state.convolved = 3 * state.inner;
      state.conv_elements = std::max<std::int64_t>(kernel - 1, 0) * state.convolved;
      state.state_elements = size * state.inner;
      break;
    }
    case RecurrentKind::lightning: {
      const auto size = read.required("attention.key_length", kMaxGgufLength);
      state.inner = heads * size;
      state.state_elements = size * state.inner;
      break;
    }
    case RecurrentKind::rwkv: {
      const auto shifts = read.optional("token_shift_count", kMaxGgufKernel).value_or(2);
      const auto size = read.required("wkv.head_size", kMaxGgufLength);
      state.inner = model.embedding_length;
      state.conv_elements = shifts * model.embedding_length;
      state.state_elements = model.embedding_length * size;
      break;
    }
  }
  return state;
}

}  // namespace dgxmm::model
