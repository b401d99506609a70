#include "core/memory/estimate.h"

#include "base/counted.h"
#include "core/memory/assemble.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

namespace dgxmm::memory {
namespace {

/// E7: what a field that had to be guessed may cost. Of two that contradict each other one is as good as missing.
Part margin(const std::vector<std::string>& missing, bool contradictory, Bytes guessed) {
  if (missing.empty() && !contradictory) {
    return {.name = "margin", .source = Source::formula, .detail = "nothing was guessed"};
  }
  const auto why = missing.empty() ? std::string{"the model's files contradict each other"}
                                   : fmt::format("the model does not say {}", fmt::join(missing, ", "));
  return {.name = "margin",
          .size = scale_up(guessed, 20, 100),
          .source = Source::formula,
          .detail = "20 % of KV cache, state and activations: " + why};
}

}  // namespace

Bytes Estimate::part(std::string_view name) const {
  const auto found = std::ranges::find(parts, name, &Part::name);
  return found == parts.end() ? Bytes{} : found->size;
}

Estimate assemble(const model::ModelDescription& model, Figures figures) {
  figures.weights.name = "weights";
  figures.kv.name = "kv";
  figures.state.name = "state";
  figures.activations.name = "activations";
  figures.runtime.name = "runtime";
  const Bytes guessed = figures.kv.size + figures.state.size + figures.activations.size;

  auto missing_fields = model.missing_fields;
  missing_fields.insert(missing_fields.end(), figures.missing_fields.begin(), figures.missing_fields.end());
  auto contradictions = model.contradictions;
  contradictions.insert(contradictions.end(), figures.contradictions.begin(), figures.contradictions.end());
  Estimate estimate;
  estimate.parts = {std::move(figures.weights), std::move(figures.kv),
                    std::move(figures.state),   std::move(figures.activations),
                    std::move(figures.runtime), margin(missing_fields, !contradictions.empty(), guessed)};
  for (const auto& part : estimate.parts) estimate.formula += part.size;
  estimate.total = estimate.formula;
  const bool certain = missing_fields.empty() && contradictions.empty();
  estimate.confidence = certain ? Confidence::estimated : Confidence::low;  // E8
  estimate.missing_fields = std::move(missing_fields);
  estimate.contradictions = std::move(contradictions);
  estimate.total_source = "sum of the parts";
  return estimate;
}

std::string describe_attention(const model::ModelDescription& model) {
  const auto& first = *model.layers.front().attention;
  const bool uniform = std::ranges::all_of(model.layers, [&](const model::Layer& layer) {
    return layer.attention->n_head_kv == first.n_head_kv && layer.attention->key_length == first.key_length &&
           layer.attention->value_length == first.value_length;
  });
  if (!uniform) return counted(std::ssize(model.layers), "layer") + " with heads of their own";
  const auto width = first.key_length == first.value_length
                         ? fmt::format("{}", first.key_length)
                         : fmt::format("({} + {})", first.key_length, first.value_length);
  return fmt::format("{} x {} x {}", counted(std::ssize(model.layers), "layer"), counted(first.n_head_kv, "KV head"),
                     width);
}

std::string describe_files(const model::ModelDescription& model) { return counted(std::ssize(model.files), "file"); }

Result<Estimate> estimate(const model::ModelDescription& model, const engine::EngineConfig& config,
                          const EstimateSettings& settings, Placement placement, const model::Companions& companions) {
  if (const auto* llamacpp = std::get_if<engine::LlamaCppConfig>(&config)) {
    return estimate_llamacpp(model, *llamacpp, settings, placement, companions);
  }
  return estimate_vllm(model, std::get<engine::VllmConfig>(config), settings, companions);
}

}  // namespace dgxmm::memory
