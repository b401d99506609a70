#include "core/memory/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace dgxmm::memory {
namespace {

bool within(std::int64_t value, std::int64_t least, std::int64_t most) { return least <= value && value <= most; }

bool countable(const model::Attention& attention) {
  return within(attention.n_head, 1, kMaxHeads) && within(attention.n_head_kv, 1, attention.n_head) &&
         within(attention.key_length, 1, kMaxWidth / attention.n_head) &&
         within(attention.value_length, 1, kMaxWidth / attention.n_head) &&
         within(attention.window.value_or(0), 0, kMaxContext * 16) &&
         within(attention.kv_lora_rank.value_or(0), 0, kMaxWidth / attention.n_head) &&
         within(attention.rope_length.value_or(0), 0, kMaxWidth / attention.n_head) &&
         within(attention.mla_key_length.value_or(0), 0, kMaxWidth / attention.n_head) &&
         within(attention.mla_value_length.value_or(0), 0, kMaxWidth / attention.n_head) &&
         within(attention.indexer_key_length.value_or(0), 0, kMaxWidth) &&
         within(attention.compress_ratio.value_or(0), 0, kMaxWidth);
}

bool countable(const model::RecurrentState& state) {
  return within(state.conv_elements, 0, kMaxState) && within(state.state_elements, 0, kMaxState) &&
         within(state.projected, 0, kMaxState) && within(state.convolved, 0, kMaxState) &&
         within(state.inner, 0, kMaxState);
}

bool countable(const model::Layer& layer) {
  return (!layer.attention || countable(*layer.attention)) && (!layer.recurrent || countable(*layer.recurrent)) &&
         (!layer.cross_attention || countable(*layer.cross_attention)) &&
         within(layer.feed_forward_length, 0, kMaxWidth);
}

bool countable(const model::Experts& experts) {
  return within(experts.count, 0, kMaxHeads) && within(experts.used_count, 0, experts.count) &&
         within(experts.feed_forward_length, 0, kMaxWidth) && within(experts.shared_feed_forward_length, 0, kMaxWidth);
}

bool countable(const model::Encoder& encoder) {
  return within(encoder.width, 0, kMaxWidth) && within(encoder.item_patches, 0, kMaxPatches) &&
         within(encoder.item_tokens, 0, kMaxPatches);
}

}  // namespace

Result<void> check_setting(std::string_view field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (within(value, least, most)) return {};
  return fail("bad_configuration", fmt::format("{} is {}, but must be {} to {}", field, value, least, most), {},
              std::string{field});
}

Result<void> check_countable(const model::ModelDescription& model) {
  const auto refused = [&](const std::string& what) {
    return fail("model_not_supported", fmt::format("{} ({}): {}", model.name, model.architecture, what), {},
                model.path);
  };
  if (model.layers.empty()) return refused("its layers are not known");
  if (model.layers.size() + model.nextn_layers.size() > static_cast<std::size_t>(kMaxLayers)) {
    return refused("too many layers");
  }
  for (const auto* layers : {&model.layers, &model.nextn_layers}) {
    for (std::size_t i = 0; i < layers->size(); ++i) {
      if (!countable((*layers)[i])) return refused(fmt::format("layer {} has sizes that no model has", i));
    }
  }
  if (!within(model.embedding_length, 1, kMaxWidth) || !within(model.vocabulary, 1, kMaxVocabulary) ||
      !within(model.layer_embedding_length, 0, kMaxWidth) || !within(model.hyper_connections, 0, kMaxHeads) ||
      (model.experts && !countable(*model.experts)) ||
      !std::ranges::all_of(model.encoders, [](const auto& encoder) { return countable(encoder); }) ||
      model.weights.files < Bytes{} || model.weights.files > kMaxFiles || model.weights.token_embedding < Bytes{} ||
      model.weights.token_embedding > kMaxFiles) {
    return refused("it has sizes that no model has");
  }
  return {};
}

}  // namespace dgxmm::memory
