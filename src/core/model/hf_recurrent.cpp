// Recurrent layers of config.json models: the shape of their state.
#include "core/model/hf_layers.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace dgxmm::model {
namespace {

// MambaStateShapeCalculator, vllm/model_executor/layers/mamba/mamba_utils.py at 017e9f44.

RecurrentState mamba(std::int64_t inner, std::int64_t state, std::int64_t kernel) {
  return {.kind = RecurrentKind::mamba,
          .conv_elements = std::max<std::int64_t>(kernel - 1, 0) * inner,
          .state_elements = inner * state,
          .projected = 2 * inner,
          .convolved = inner,
          .inner = inner,
          .shares = inner};
}

struct Mamba2 {
  std::int64_t inner = 0;
  std::int64_t heads = 0;
  std::int64_t head_size = 0;
  std::int64_t state = 0;
  std::int64_t groups = 0;
  std::int64_t kernel = 0;
};

RecurrentState mamba2(HfReader& read, const Mamba2& m) {
  if (!read.error() && m.inner != m.heads * m.head_size) {
    read.refuse("bad_model_file",
                fmt::format("Mamba layers are {} wide, but have {} heads of {}", m.inner, m.heads, m.head_size));
  }
  const auto convolved = m.inner + 2 * m.groups * m.state;
  return {.kind = RecurrentKind::mamba2,
          .conv_elements = std::max<std::int64_t>(m.kernel - 1, 0) * convolved,
          .state_elements = m.heads * m.head_size * m.state,
          .projected = m.inner + convolved + m.heads,
          .convolved = convolved,
          .inner = m.inner,
          .shares = m.heads,
          .groups = m.groups,
          .group_convolved = 2 * m.state};
}

/// Granite, Bamba and Falcon-H1 name them alike.
Mamba2 read_mamba2(HfReader& read, std::int64_t inner) {
  Mamba2 m{.inner = inner,
           .heads = read.dimension({"mamba_n_heads"}, kMaxHfCount),
           .state = read.dimension({"mamba_d_state"}, kMaxHfLength),
           .groups = read.dimension({"mamba_n_groups"}, kMaxHfCount),
           .kernel = read.dimension({"mamba_d_conv"}, kMaxHfCount)};
  // "auto" is the quotient.
  const auto* size = read.find("mamba_d_head");
  const bool derived = size == nullptr || size->is_string();
  m.head_size = derived ? (m.heads == 0 ? 0 : inner / m.heads) : read.dimension({"mamba_d_head"}, kMaxHfLength);
  return m;
}

RecurrentState delta_net(HfReader& read) {
  const auto key_heads = read.dimension({"linear_num_key_heads"}, kMaxHfCount);
  const auto value_heads = read.dimension({"linear_num_value_heads"}, kMaxHfCount);
  const auto key = read.dimension({"linear_key_head_dim"}, kMaxHfCount);
  const auto value = read.dimension({"linear_value_head_dim"}, kMaxHfCount);
  const auto kernel = read.dimension({"linear_conv_kernel_dim"}, kMaxHfCount);
  const auto convolved = 2 * key_heads * key + value_heads * value;
  return {.kind = RecurrentKind::gated_delta_net,
          .conv_elements = std::max<std::int64_t>(kernel - 1, 0) * convolved,
          .state_elements = value_heads * value * key,
          .projected = convolved + value_heads * value,
          .convolved = convolved,
          .inner = value_heads * value,
          .shares = std::gcd(key_heads, value_heads),
          .conv_keeps_drafts = true};
}

RecurrentState kda(std::int64_t heads, std::int64_t size, std::int64_t kernel) {
  const auto width = heads * size;
  return {.kind = RecurrentKind::kda,
          .conv_elements = std::max<std::int64_t>(kernel - 1, 0) * 3 * width,
          .state_elements = width * size,
          .projected = 3 * width,
          .convolved = 3 * width,
          .inner = width,
          .shares = heads,
          .conv_keeps_drafts = true,
          .keeps_float32 = true};
}

/// Kimi has an object of its own for them; transformers 5 saves them beside the others.
RecurrentState kimi_kda(HfReader& read) {
  const auto* config = read.object("linear_attn_config");
  if (config == nullptr) {
    const auto heads = read.dimension({"linear_num_heads"}, kMaxHfCount);
    const auto size = read.dimension({"linear_head_dim"}, kMaxHfCount);
    return kda(heads, size, read.dimension({"linear_conv_kernel_dim"}, kMaxHfCount));
  }
  auto inner = read.inside("linear_attn_config", *config);
  const auto heads = inner.dimension({"num_heads"}, kMaxHfCount);
  const auto size = inner.dimension({"head_dim"}, kMaxHfCount);
  const auto kernel = inner.dimension({"short_conv_kernel_size"}, kMaxHfCount);
  read.adopt(inner);
  return kda(heads, size, kernel);
}

RecurrentState lightning(const HfDimensions& d) {
  return {.kind = RecurrentKind::lightning,
          .state_elements = d.heads * d.head_dim * d.head_dim,
          .projected = 3 * d.heads * d.head_dim,
          .inner = d.heads * d.head_dim,
          .shares = d.heads};
}

/// Is the state kept in 32 bit? `absent`: when the file does not say.
bool in_float32(HfReader& read, std::string_view key, bool absent) {
  const auto type = read.text(key);
  return type ? *type == "float32" || *type == "float" : absent;
}

}  // namespace

RecurrentState read_hf_state(HfReader& read, HfFamily family, const HfDimensions& d,
                             std::vector<std::string>& missing) {
  const auto expanded = [&](std::string_view key) { return read.dimension({key}, kMaxHfCount) * d.hidden_size; };
  switch (family) {
    case HfFamily::mamba: {
      const auto inner = read.number({"intermediate_size", "d_inner"}, kMaxHfLength);
      return mamba(inner ? *inner : expanded("expand"), read.dimension({"state_size"}, kMaxHfCount),
                   read.dimension({"conv_kernel"}, kMaxHfCount));
    }
    case HfFamily::jamba:
      return mamba(expanded("mamba_expand"), read.dimension({"mamba_d_state"}, kMaxHfCount),
                   read.dimension({"mamba_d_conv"}, kMaxHfCount));
    case HfFamily::mamba2: {
      auto state = mamba2(read, {.inner = expanded("expand"),
                                 .heads = read.dimension({"num_heads"}, kMaxHfCount),
                                 .head_size = read.dimension({"head_dim"}, kMaxHfLength),
                                 .state = read.dimension({"state_size"}, kMaxHfLength),
                                 .groups = read.dimension({"n_groups"}, kMaxHfCount),
                                 .kernel = read.dimension({"conv_kernel"}, kMaxHfCount)});
      state.conv_keeps_drafts = true;
      return state;
    }
    case HfFamily::nemotron_h: {
      const auto heads = read.dimension({"mamba_num_heads"}, kMaxHfCount);
      const auto size = read.dimension({"mamba_head_dim"}, kMaxHfCount);
      auto state = mamba2(read, {.inner = heads * size,
                                 .heads = heads,
                                 .head_size = size,
                                 .state = read.dimension({"ssm_state_size"}, kMaxHfLength),
                                 .groups = read.dimension({"n_groups"}, kMaxHfCount),
                                 .kernel = read.dimension({"conv_kernel"}, kMaxHfCount)});
      state.conv_keeps_drafts = true;
      state.keeps_float32 = in_float32(read, "mamba_ssm_cache_dtype", true);
      return state;
    }
    case HfFamily::granite_hybrid: return mamba2(read, read_mamba2(read, expanded("mamba_expand")));
    case HfFamily::falcon_h1: {
      const auto inner = read.number({"mamba_d_ssm"}, kMaxHfLength);
      return mamba2(read, read_mamba2(read, inner ? *inner : expanded("mamba_expand")));
    }
    case HfFamily::zamba2:
      return mamba2(read, {.inner = expanded("mamba_expand"),
                           .heads = read.dimension({"n_mamba_heads"}, kMaxHfCount),
                           .head_size = read.dimension({"mamba_headdim"}, kMaxHfLength),
                           .state = read.dimension({"mamba_d_state"}, kMaxHfLength),
                           .groups = read.dimension({"mamba_ngroups"}, kMaxHfCount),
                           .kernel = read.dimension({"mamba_d_conv"}, kMaxHfCount)});
    case HfFamily::olmo_hybrid:
    case HfFamily::qwen3_next: return delta_net(read);
    case HfFamily::qwen3_5: {
      auto state = delta_net(read);
      if (read.find("mamba_ssm_dtype") == nullptr) missing.emplace_back("mamba_ssm_dtype");
      state.keeps_float32 = in_float32(read, "mamba_ssm_dtype", true);
      return state;
    }
    case HfFamily::kimi_linear: return kimi_kda(read);
    case HfFamily::bailing_kda:
      return kda(d.heads, d.head_dim, read.dimension({"short_conv_kernel_size"}, kMaxHfCount));
    case HfFamily::lfm2: {
      const auto width = read.number({"conv_dim"}, kMaxHfLength).value_or(d.hidden_size);
      const auto kept = read.dimension({"conv_L_cache"}, kMaxHfCount);
      return {.kind = RecurrentKind::short_conv,
              .conv_elements = std::max<std::int64_t>(kept - 1, 0) * width,
              .projected = 3 * width,
              .convolved = width,
              .shares = width};
    }
    case HfFamily::bailing_linear:
    case HfFamily::minimax_text: return lightning(d);
    case HfFamily::unknown: {
      const auto known = state_by_fields(read);
      return known == HfFamily::unknown ? RecurrentState{} : read_hf_state(read, known, d, missing);
    }
    default: return {};
  }
}

}  // namespace dgxmm::model
