// Which layers of a config.json have attention, with or without a window, a state, both or none.
#include "base/counted.h"
#include "base/masking.h"
#include "core/model/hf_layers.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace dgxmm::model {
namespace {

using Mixes = std::vector<HfMix>;

bool has_states(HfFamily family) {
  switch (family) {
    case HfFamily::qwen3_next:
    case HfFamily::qwen3_5:
    case HfFamily::olmo_hybrid:
    case HfFamily::kimi_linear:
    case HfFamily::bailing_linear:
    case HfFamily::bailing_kda:
    case HfFamily::mamba:
    case HfFamily::mamba2:
    case HfFamily::jamba:
    case HfFamily::nemotron_h:
    case HfFamily::granite_hybrid:
    case HfFamily::falcon_h1:
    case HfFamily::zamba2:
    case HfFamily::lfm2:
    case HfFamily::minimax_text: return true;
    default: return false;
  }
}

struct Word {
  std::string_view word;
  HfMix mix;
};

/// The words of `layer_types` and `layers_block_type`.
constexpr auto kWords = std::to_array<Word>({{"full_attention", HfMix::full},
                                             {"attention", HfMix::full},
                                             {"indexed_attention", HfMix::full},  // the indexer has fields of its own
                                             {"deepseek_sparse_attention", HfMix::full},
                                             {"sliding_attention", HfMix::window},
                                             {"hybrid_sliding", HfMix::window},
                                             {"chunked_attention", HfMix::chunked},
                                             {"linear_attention", HfMix::state},
                                             {"mamba", HfMix::state},
                                             {"mamba2", HfMix::state},
                                             {"conv", HfMix::state},
                                             {"hybrid", HfMix::both},
                                             {"moe", HfMix::nothing},
                                             {"mlp", HfMix::nothing}});

void refuse_length(HfReader& read, std::string_view key, std::size_t length, std::int64_t layers) {
  read.refuse("bad_model_file", fmt::format("{} has {}, but {} is {}", read.name_of(key),
                                            counted(static_cast<std::int64_t>(length), "element"),
                                            read.name_of("num_hidden_layers"), layers));
}

std::optional<Mixes> listed(HfReader& read, std::string_view key, HfFamily family, std::int64_t layers,
                            std::vector<std::string>& missing) {
  const auto words = read.texts(key);
  if (!words) return std::nullopt;
  if (words->size() != static_cast<std::size_t>(layers)) {
    refuse_length(read, key, words->size(), layers);
    return std::nullopt;
  }
  const bool states = has_states(family) || (family == HfFamily::unknown && state_by_fields(read) != HfFamily::unknown);
  Mixes mixes;
  for (const auto& word : *words) {
    const auto found = std::ranges::find(kWords, word, &Word::word);
    const bool known = found != kWords.end() && (states || (found->mix != HfMix::state && found->mix != HfMix::both));
    // What is not known keeps no more than full attention does.
    mixes.push_back(known ? found->mix : HfMix::full);
    auto doubt = fmt::format("what '{}' in {} is", printable(word), read.name_of(key));
    if (!known && std::ranges::find(missing, doubt) == missing.end()) missing.push_back(std::move(doubt));
  }
  return mixes;
}

/// `mix_of(i)` for every layer.
template <class MixOf>
Mixes each(std::int64_t layers, MixOf mix_of) {
  Mixes mixes;
  for (std::int64_t i = 0; i < layers; ++i) mixes.push_back(mix_of(i));
  return mixes;
}

/// The last of every `period` layers is `last`, the others are `other`.
Mixes by_period(std::int64_t layers, std::int64_t period, HfMix other, HfMix last) {
  return each(layers, [=](std::int64_t i) { return (i + 1) % period == 0 ? last : other; });
}

/// One letter or number a layer; `mix_of` gives nothing for one that is not known.
template <class List, class MixOf>
Mixes by_list(HfReader& read, std::string_view key, const List& list, std::int64_t layers, MixOf mix_of) {
  if (list.size() != static_cast<std::size_t>(layers)) {
    refuse_length(read, key, list.size(), layers);
    return {};
  }
  Mixes mixes;
  for (const auto entry : list) {
    const std::optional<HfMix> mix = mix_of(entry);
    if (!mix) {
      read.refuse("model_not_supported", fmt::format("{}[{}] is not known", read.name_of(key), mixes.size()));
      return {};
    }
    mixes.push_back(*mix);
  }
  return mixes;
}

/// A period is a number, or as in EXAONE 4 a text such as "LLLG".
std::optional<std::int64_t> window_period(HfReader& read) {
  for (const auto* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    const auto* value = read.find(key);
    if (value == nullptr) continue;
    if (const auto* text = value->if_string()) {
      if (!text->empty()) return static_cast<std::int64_t>(text->size());
    }
    const auto period = read.number({key}, kMaxHfLayers);
    if (period == 0) read.malformed(key, "more than 0");
    return period;
  }
  return std::nullopt;
}

/// Windows of models whose file does not list them. `sliding_window` then counts for all layers, unless it is off
/// (ModelConfig.get_sliding_window); of Qwen's models the first `max_window_layers` have none.
Mixes by_window(HfReader& read, std::int64_t layers) {
  const auto period = window_period(read);
  const bool windows =
      read.number({"sliding_window"}, INT64_MAX).value_or(0) > 0 && read.boolean("use_sliding_window").value_or(true);
  if (!windows) return Mixes(static_cast<std::size_t>(layers), HfMix::full);
  if (period.value_or(0) > 0) return by_period(layers, *period, HfMix::window, HfMix::full);
  const bool switched = read.find("use_sliding_window") != nullptr;
  const auto first = switched ? read.number({"max_window_layers"}, INT64_MAX).value_or(0) : 0;
  return each(layers, [=](std::int64_t i) { return i < first ? HfMix::full : HfMix::window; });
}

Mixes chunks(HfReader& read, std::int64_t layers) {
  if (!read.is_set("attention_chunk_size")) return Mixes(static_cast<std::size_t>(layers), HfMix::full);
  const auto rotated = read.numbers("no_rope_layers", 1);  // despite the name: 1 = has positions, and sees a chunk
  if (rotated && !rotated->empty()) {
    return by_list(read, "no_rope_layers", *rotated, layers,
                   [](std::int64_t r) { return std::optional{r != 0 ? HfMix::chunked : HfMix::full}; });
  }
  return by_period(layers, 4, HfMix::chunked, HfMix::full);
}

Mixes nemotron(HfReader& read, std::int64_t layers) {
  const auto pattern = read.text("hybrid_override_pattern");
  if (!pattern) {
    read.refuse("bad_model_file", "cannot estimate this model: hybrid_override_pattern is missing");
    return {};
  }
  return by_list(read, "hybrid_override_pattern", *pattern, layers, [](char letter) -> std::optional<HfMix> {
    switch (letter) {
      case 'M': return HfMix::state;
      case '*': return HfMix::full;
      case '-':
      case 'E': return HfMix::nothing;
      default: return std::nullopt;
    }
  });
}

/// Two lists of layer numbers that begin with 1.
Mixes kimi(HfReader& read, std::int64_t layers) {
  const auto* config = read.object("linear_attn_config");
  if (config == nullptr) {
    read.refuse("bad_model_file", "cannot estimate this model: linear_attn_config is missing");
    return {};
  }
  auto inner = read.inside("linear_attn_config", *config);
  const auto full = inner.numbers("full_attn_layers", layers);
  const auto kda = inner.numbers("kda_layers", layers);
  read.adopt(inner);
  if (read.error()) return {};
  if (!full || !kda) {
    read.refuse("bad_model_file", "cannot estimate this model: linear_attn_config lacks the lists of its layers");
    return {};
  }
  const auto holds = [](const std::vector<std::int64_t>& list, std::int64_t number) {
    return std::ranges::find(list, number) != list.end();
  };
  for (std::int64_t number = 1; number <= layers; ++number) {
    if (holds(*full, number) == holds(*kda, number)) {
      read.refuse("bad_model_file",
                  fmt::format("layer {} is in {} of linear_attn_config.full_attn_layers and kda_layers", number,
                              holds(*full, number) ? "both" : "none"));
      return {};
    }
  }
  return each(layers, [&](std::int64_t i) { return holds(*full, i + 1) ? HfMix::full : HfMix::state; });
}

Mixes jamba(HfReader& read, std::int64_t layers) {
  const auto period = read.dimension({"attn_layer_period"}, kMaxHfLayers);
  const auto offset = read.number({"attn_layer_offset"}, kMaxHfLayers).value_or(0);
  if (read.error()) return {};
  return each(layers, [=](std::int64_t i) { return i % period == offset ? HfMix::full : HfMix::state; });
}

Mixes in_indices(HfReader& read, std::string_view key, std::int64_t layers, HfMix in, HfMix out) {
  const auto indices = read.numbers(key, layers - 1);
  if (!indices) {
    read.refuse("bad_model_file",
                fmt::format("cannot estimate this model: neither layer_types nor {} is there", read.name_of(key)));
    return {};
  }
  return each(layers, [&](std::int64_t i) { return std::ranges::find(*indices, i) == indices->end() ? out : in; });
}

Mixes by_number(HfReader& read, std::string_view key, std::int64_t layers, HfMix zero, HfMix one) {
  const auto list = read.numbers(key, 1);
  if (!list) {
    read.refuse("bad_model_file", fmt::format("cannot estimate this model: {} is missing", read.name_of(key)));
    return {};
  }
  return by_list(read, key, *list, layers, [=](std::int64_t n) { return std::optional{n == 0 ? zero : one}; });
}

/// The last layer of each group keeps its tokens; so do, beside KDA, those that fill no group (bailing_moe_linear.py,
/// bailing_moe_v3.py).
Mixes bailing(HfReader& read, HfFamily family, std::int64_t layers) {
  const auto group = read.number({"layer_group_size"}, kMaxHfLayers).value_or(1);
  if (group == 0) return Mixes(static_cast<std::size_t>(layers), HfMix::full);
  const auto grouped = family == HfFamily::bailing_kda ? layers / group * group : layers;
  return each(layers,
              [=](std::int64_t i) { return i >= grouped || (i + 1) % group == 0 ? HfMix::full : HfMix::state; });
}

/// Nemotron-NAS took the attention out of some blocks.
Mixes blocks(HfReader& read, std::int64_t layers) {
  const auto* value = read.find("block_configs");
  const auto* list = value == nullptr ? nullptr : value->if_array();
  if (list == nullptr) {
    value == nullptr ? read.refuse("bad_model_file", "cannot estimate this model: block_configs is missing")
                     : read.malformed("block_configs", "a list");
    return {};
  }
  if (list->size() != static_cast<std::size_t>(layers)) {
    refuse_length(read, "block_configs", list->size(), layers);
    return {};
  }
  Mixes mixes;
  for (const auto& block : *list) {
    const auto* config = block.if_object();
    const auto* attention = config == nullptr ? nullptr : config->if_contains("attention");
    const auto* keys = attention == nullptr ? nullptr : attention->if_object();
    const auto on = [keys](std::string_view key) {
      const auto* flag = keys->if_contains(key);
      return flag != nullptr && flag->is_bool() && flag->get_bool();
    };
    if (keys == nullptr) {
      read.malformed(fmt::format("block_configs[{}].attention", mixes.size()), "an object");
      return {};
    }
    mixes.push_back(on("no_op") || on("replace_with_linear") ? HfMix::nothing : HfMix::full);
  }
  return mixes;
}

/// The layers of a model whose file does not list them.
Mixes by_family(HfReader& read, HfFamily family, std::int64_t layers, std::vector<std::string>& missing) {
  const auto all = [layers](HfMix mix) { return Mixes(static_cast<std::size_t>(layers), mix); };
  switch (family) {
    // A window that its file does not place may be of any layers; keeping everything takes more.
    case HfFamily::unknown: return all(HfMix::full);
    case HfFamily::plain: return by_window(read, layers);
    case HfFamily::gemma2:
    case HfFamily::gpt_oss: return by_period(layers, 2, HfMix::window, HfMix::full);
    case HfFamily::gemma3: {
      const auto period = window_period(read).value_or(6);
      return read.error() ? Mixes{} : by_period(layers, period, HfMix::window, HfMix::full);
    }
    case HfFamily::gemma3n: return by_period(layers, 5, HfMix::window, HfMix::full);
    case HfFamily::gemma4:
      read.refuse("bad_model_file",
                  fmt::format("cannot estimate this model: {} is missing", read.name_of("layer_types")));
      return {};
    case HfFamily::llama4: return chunks(read, layers);
    case HfFamily::deepseek_v4: return all(HfMix::window);
    case HfFamily::olmo_hybrid:
    case HfFamily::qwen3_next:
    case HfFamily::qwen3_5: {
      const auto interval = read.dimension({"full_attention_interval"}, kMaxHfLayers);
      return read.error() ? Mixes{} : by_period(layers, interval, HfMix::state, HfMix::full);
    }
    case HfFamily::kimi_linear: return kimi(read, layers);
    case HfFamily::bailing_linear:
    case HfFamily::bailing_kda: return bailing(read, family, layers);
    case HfFamily::mamba:
    case HfFamily::mamba2: return all(HfMix::state);
    case HfFamily::jamba: return jamba(read, layers);
    case HfFamily::nemotron_h: return nemotron(read, layers);
    case HfFamily::granite_hybrid:
      // Bamba's class has no attention at all when the file leaves the list out.
      if (read.find("attn_layer_indices") == nullptr) {
        missing.emplace_back("attn_layer_indices");
        return all(HfMix::state);
      }
      return in_indices(read, "attn_layer_indices", layers, HfMix::full, HfMix::state);
    case HfFamily::falcon_h1: return all(HfMix::both);
    case HfFamily::zamba2: return in_indices(read, "hybrid_layer_ids", layers, HfMix::both, HfMix::state);
    case HfFamily::lfm2: return in_indices(read, "full_attn_idxs", layers, HfMix::full, HfMix::state);
    case HfFamily::minimax_text: return by_number(read, "attn_type_list", layers, HfMix::state, HfMix::full);
    case HfFamily::mimo_v2: return by_number(read, "hybrid_layer_pattern", layers, HfMix::full, HfMix::window);
    case HfFamily::nemotron_nas: return blocks(read, layers);
    case HfFamily::gpt2:
    case HfFamily::latent:
    case HfFamily::longcat:
    case HfFamily::dots3_note:
    case HfFamily::minicpm3:
    case HfFamily::minimax_m3:
    case HfFamily::whisper:
    case HfFamily::encoder: return all(HfMix::full);
  }
  return {};
}

/// Two ways of saying the same must agree.
void check_interval(HfReader& read, const Mixes& mixes) {
  const auto interval = read.number({"full_attention_interval"}, kMaxHfLayers).value_or(0);
  for (std::size_t i = 0; interval > 0 && i < mixes.size(); ++i) {
    const bool full = (static_cast<std::int64_t>(i) + 1) % interval == 0;
    if ((mixes[i] == HfMix::full) == full) continue;
    return read.refuse("bad_model_file", fmt::format("{} {} makes layer {} {}, but layer_types says the opposite",
                                                     read.name_of("full_attention_interval"), interval, i,
                                                     full ? "full attention" : "linear attention"));
  }
}

}  // namespace

std::vector<HfMix> read_mixes(HfReader& read, HfFamily family, std::int64_t layers, std::vector<std::string>& missing) {
  // Layers that keep nothing are all alike; those of DeepSeek V4 differ by `compress_ratios`.
  if (family == HfFamily::encoder) return Mixes(static_cast<std::size_t>(layers), HfMix::full);
  if (family == HfFamily::deepseek_v4) return Mixes(static_cast<std::size_t>(layers), HfMix::window);
  auto mixes = listed(read, "layer_types", family, layers, missing);
  if (!mixes && !read.error()) mixes = listed(read, "layers_block_type", family, layers, missing);
  if (read.error()) return {};
  if (!mixes) mixes = by_family(read, family, layers, missing);
  if (read.error()) return {};
  if (family == HfFamily::qwen3_next || family == HfFamily::qwen3_5) check_interval(read, *mixes);
  // Off is off, whatever the list says.
  if (read.boolean("use_sliding_window") == false) std::ranges::replace(*mixes, HfMix::window, HfMix::full);
  return *mixes;
}

}  // namespace dgxmm::model
