#include "core/memory/estimate.h"

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

/// E7: what a field that had to be guessed may cost.
Part margin(const std::vector<std::string>& missing_fields, Bytes guessed) {
  if (missing_fields.empty()) return {.name = "margin", .source = Source::formula, .detail = "nothing was guessed"};
  return {.name = "margin",
          .size = scale_up(guessed, 20, 100),
          .source = Source::formula,
          .detail = fmt::format("20 % of KV cache, state and activations: the model does not say {}",
                                fmt::join(missing_fields, ", "))};
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
  Estimate estimate;
  estimate.parts = {std::move(figures.weights),     std::move(figures.kv),      std::move(figures.state),
                    std::move(figures.activations), std::move(figures.runtime), margin(missing_fields, guessed)};
  for (const auto& part : estimate.parts) estimate.formula += part.size;
  estimate.total = estimate.formula;
  estimate.confidence = missing_fields.empty() ? Confidence::estimated : Confidence::low;  // E8
  estimate.missing_fields = std::move(missing_fields);
  estimate.total_source = "sum of the parts";
  return estimate;
}

std::string describe_attention(const model::ModelDescription& model) {
  const auto& first = *model.layers.front().attention;
  const bool uniform = std::ranges::all_of(model.layers, [&](const model::Layer& layer) {
    return layer.attention->n_head_kv == first.n_head_kv && layer.attention->key_length == first.key_length &&
           layer.attention->value_length == first.value_length;
  });
  if (!uniform) return fmt::format("{} layers with heads of their own", model.layers.size());
  const auto width = first.key_length == first.value_length
                         ? fmt::format("{}", first.key_length)
                         : fmt::format("({} + {})", first.key_length, first.value_length);
  return fmt::format("{} layers x {} KV heads x {}", model.layers.size(), first.n_head_kv, width);
}

std::string describe_files(const model::ModelDescription& model) {
  return model.files.size() == 1 ? "1 file" : fmt::format("{} files", model.files.size());
}

Result<Estimate> estimate(const model::ModelDescription& model, const engine::EngineConfig& config,
                          const EstimateSettings& settings, Placement placement, const model::Companions& companions) {
  if (const auto* llamacpp = std::get_if<engine::LlamaCppConfig>(&config)) {
    return estimate_llamacpp(model, *llamacpp, settings, placement, companions);
  }
  if (companions.draft) {
    return fail("bad_configuration", "draft_model: not estimated for vLLM yet", "leave it out", "draft_model");
  }
  return estimate_vllm(model, std::get<engine::VllmConfig>(config), settings);
}

}  // namespace dgxmm::memory
