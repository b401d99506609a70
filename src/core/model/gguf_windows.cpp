// Sliding windows of GGUF models: how large, and in which layers.
#include "core/model/gguf_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace dgxmm::model {
namespace {

/// Where the layers with a window are.
enum class Pattern : std::uint8_t {
  last_is_full,   ///< the last of every `period` layers sees everything (llama_hparams::set_swa_pattern)
  first_is_full,  ///< the first one does
  listed,         ///< the file lists them
  every_layer,
};

/// What an absent `attention.sliding_window` means.
enum class Absent : std::uint8_t { no_windows, a_default, not_loadable };

struct Architecture {
  std::string_view name;
  Pattern pattern;
  std::int64_t period = 0;
  Absent absent = Absent::not_loadable;
  std::int64_t window = 0;  ///< the default
  bool fixed = false;       ///< `window` replaces what the file says, unless that is 0
  bool may_list = false;    ///< the file may list the layers, in place of a period
};

constexpr bool kFixed = true;

constexpr auto kArchitectures = std::to_array<Architecture>({
    {"afmoe", Pattern::last_is_full, 4, Absent::no_windows},
    {"cohere2", Pattern::last_is_full, 4},
    {.name = "cohere2moe", .pattern = Pattern::first_is_full, .period = 4, .may_list = true},
    {"deepseek4", Pattern::every_layer},
    {"dots3note", Pattern::listed},
    {"exaone-moe", Pattern::last_is_full, 4},
    {"exaone4", Pattern::last_is_full, 4, Absent::a_default, 4096},
    {"gemma2", Pattern::last_is_full, 2, Absent::a_default, 4096},
    {"gemma3", Pattern::last_is_full, 6, Absent::no_windows},
    {"gemma3n", Pattern::last_is_full, 5},
    {"gemma4", Pattern::listed},
    {"gpt-oss", Pattern::last_is_full, 2},
    {"granite_swa", Pattern::listed},
    {"laguna", Pattern::first_is_full, 4, Absent::no_windows},
    {"lfm2", Pattern::every_layer, 0, Absent::no_windows},
    {"llama4", Pattern::last_is_full, 4, Absent::a_default, 8192, kFixed},
    {.name = "mellum", .pattern = Pattern::last_is_full, .period = 4, .may_list = true},
    {"mimo2", Pattern::listed},
    {.name = "muse-glimmer", .pattern = Pattern::last_is_full, .period = 4, .may_list = true},
    {"olmo2", Pattern::last_is_full, 4, Absent::no_windows},
    {"plamo3", Pattern::last_is_full, 8, Absent::no_windows},
    {"smallthinker", Pattern::first_is_full, 4, Absent::no_windows, 4096, kFixed},
    {"step35", Pattern::listed},
});

const Architecture* find(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == kArchitectures.end() ? nullptr : found;
}

constexpr std::string_view kWindow = "attention.sliding_window";
constexpr std::string_view kPattern = "attention.sliding_window_pattern";

/// The window, or 0 when there is none.
std::int64_t read_window(HyperParameters& read, const Architecture& architecture, ModelDescription& model) {
  const auto value = read.optional(kWindow, kMaxGgufWindow);
  if (!value) {
    if (architecture.absent == Absent::a_default) return architecture.window;
    // Full layers are the upper bound of what a window may turn out to be.
    if (architecture.absent == Absent::not_loadable) model.missing_fields.push_back(read.key(kWindow));
    return 0;
  }
  return *value > 0 && architecture.fixed ? architecture.window : *value;
}

/// One 1 a layer that has a window.
PerLayer read_pattern(HyperParameters& read, const Architecture& architecture, LayerCounts layers,
                      ModelDescription& model) {
  const auto all = static_cast<std::size_t>(layers.all);
  const bool has_list = read.is_array(kPattern);
  if (architecture.pattern == Pattern::listed || (architecture.may_list && has_list)) {
    if (auto list = read.per_layer(kPattern, layers.all, layers.nextn, kMaxGgufLayers)) return *list;
    model.missing_fields.push_back(read.key(kPattern));
    return PerLayer(all, 0);
  }
  if (architecture.pattern == Pattern::every_layer) return PerLayer(all, 1);

  // The engine ignores a list where it expects a number.
  const auto period =
      has_list ? architecture.period : read.optional(kPattern, kMaxGgufLayers).value_or(architecture.period);
  const auto full_at = architecture.pattern == Pattern::first_is_full ? 0 : period - 1;
  PerLayer pattern(all, 0);
  for (std::int64_t i = 0; i < layers.trunk(); ++i) {
    if (period == 0 || i % period != full_at) pattern[static_cast<std::size_t>(i)] = 1;
  }
  return pattern;
}

}  // namespace

bool is_windowed_architecture(std::string_view architecture) { return find(architecture) != nullptr; }

std::vector<std::optional<std::int64_t>> read_windows(HyperParameters& read, LayerCounts layers,
                                                      ModelDescription& model) {
  std::vector<std::optional<std::int64_t>> windows(static_cast<std::size_t>(layers.all));
  const auto* architecture = find(read.architecture());
  if (architecture == nullptr) return windows;
  // The smaller EXAONE 4 models have the key and do not use it.
  constexpr std::int64_t kExaone4Large = 64;
  if (architecture->name == "exaone4" && layers.trunk() != kExaone4Large) return windows;
  const auto window = read_window(read, *architecture, model);
  if (window == 0) return windows;
  const auto pattern = read_pattern(read, *architecture, layers, model);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (pattern[i] != 0) windows[i] = window;
  }
  return windows;
}

}  // namespace dgxmm::model
