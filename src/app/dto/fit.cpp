#include "app/dto/fit.h"

#include "app/dto/convert.h"
#include "core/engine/cautions.h"
#include "core/planner/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dgxmm::dto {
namespace {

Result<Bytes> read_size(const char* name, const std::string& text) {
  auto size = parse_bytes(text);
  if (!size) {
    return fail(size.error().code, fmt::format("{}: {}", name, size.error().message), size.error().hint, name);
  }
  // Above any machine, and far below what would overflow a sum.
  if (*size <= Bytes{} || *size > gib(std::int64_t{1} << 20)) {
    return fail("bad_field", fmt::format("{}: {} is not a size of memory", name, text), "for example 121.69GiB", name);
  }
  return size;
}

std::optional<Limit> limit_of(const std::optional<planner::Limit>& limit) {
  if (!limit) return std::nullopt;
  return Limit{.value = limit->value, .needed_bytes = limit->needed, .config = to_dto(limit->config)};
}

std::optional<std::int64_t> value_of(const std::optional<planner::Limit>& limit) {
  return limit ? std::optional{limit->value} : std::nullopt;
}

std::vector<std::string> notes_of(const model::ModelDescription& model, const engine::EngineConfig& config) {
  auto notes = model.notes;
  std::ranges::move(engine::cautions(config, model.kv_cache_dtype), std::back_inserter(notes));
  const auto* llamacpp = std::get_if<engine::LlamaCppConfig>(&config);
  if (llamacpp == nullptr || !llamacpp->mmproj.empty()) return notes;
  for (const auto& path : model.projectors) {
    notes.push_back(fmt::format("{}: a projector for pictures or sound, not loaded unless mmproj names it", path));
  }
  return notes;
}

Reach make_reach(const FitQuestion& question, Bytes free) {
  auto found =
      planner::reach(question.asked.config, question.asked.model->training_context, free, question.asked.estimator);
  Reach reach{.longest_context = limit_of(found.longest_context),
              .whole_context = found.whole_context,
              .most_sequences = limit_of(found.most_sequences),
              .settings = {},
              .quantizations = {}};
  for (const auto& variant : found.settings) {
    reach.settings.push_back({.name = variant.name,
                              .as_asked = variant.as_asked,
                              .needed_bytes = variant.needed,
                              .fits = variant.fits,
                              .longest_context = value_of(variant.longest_context),
                              .config = to_dto(variant.config)});
  }
  for (const auto& other : question.others) {
    const auto longest = planner::longest_context(other.config, other.model->training_context, free, other.estimator);
    reach.quantizations.push_back({.name = other.model->name,
                                   .path = other.model->path,
                                   .quantization = other.model->quantization,
                                   .file_bytes = other.model->weights.files,
                                   .needed_bytes = other.estimate.total,
                                   .fits = other.estimate.total <= free,
                                   .longest_context = value_of(longest)});
  }
  std::ranges::sort(reach.quantizations, std::greater{}, &QuantizationOption::file_bytes);
  return reach;
}

/// The plan to name in the verdict: the recommended one, else the first that fits.
std::optional<Plan> best_of(const planner::Plans& plans) {
  auto found = std::ranges::find(plans.plans, true, &planner::Plan::recommended);
  if (found == plans.plans.end()) found = std::ranges::find(plans.plans, true, &planner::Plan::fits);
  if (found == plans.plans.end()) return std::nullopt;
  return to_dto(*found);
}

}  // namespace

Result<std::optional<GivenHost>> read_given_host(const std::optional<std::string>& host,
                                                 const std::optional<std::string>& free) {
  if (host && free) {
    return fail("bad_field", "host, free: give the memory of a host or what is free of it, not both", {}, "free");
  }
  if (!host && !free) return std::nullopt;
  const auto size = host ? read_size("host", *host) : read_size("free", *free);
  if (!size) return fail(size.error());
  return host ? GivenHost{.mem_total = *size, .free = {}} : GivenHost{.mem_total = {}, .free = *size};
}

void FitQuestion::place(const GivenHost& given, const settings::Settings& settings) {
  const auto limits = settings.budget();
  // Nothing runs there, so that all but the margins is free.
  const auto total = given.mem_total ? *given.mem_total : *given.free + limits.safety_margin + limits.os_reserve;
  situation = {.mem_total = total,
               .mem_available = total,
               .budget_settings = limits,
               .deployments = {},
               .config = {},
               .min_headroom = gib_from_decimal(settings.min_headroom_gib)};
  if (given.free) {
    host = fmt::format("given: {} free", format_bytes(*given.free));
    return;
  }
  host = fmt::format("given: a host of {} with a GPU in the same memory and nothing running", format_bytes(total));
  budget = to_dto(memory::compute_budget(total, total, {}, limits));
  budget->source = host;
}

Result<Fit> make_fit(FitQuestion question) {
  question.situation.config = question.asked.config;
  question.situation.quantization = question.asked.model->quantization;
  for (const auto& other : question.others) {
    question.situation.quantizations.push_back({.name = other.model->name,
                                                .path = other.model->path,
                                                .quantization = other.model->quantization,
                                                .file_bytes = other.model->weights.files,
                                                .config = other.config,
                                                .estimator = other.estimator});
  }
  const auto plans = planner::make_plans(question.situation, question.asked.estimator);
  if (!plans) return fail(plans.error());
  const auto free = plans->free_for_new;
  const auto left = free - question.asked.estimate.total;
  auto after = best_of(*plans);
  auto estimate = to_dto(question.asked.estimate);
  return Fit{.verdict = plans->fits_now ? "fits"
                        : after         ? "fits_after"
                                        : "does_not_fit",
             .total_bytes = estimate.total_bytes,
             .formula_bytes = estimate.formula_bytes,
             .confidence = estimate.confidence,
             .total_source = estimate.total_source,
             .parts = std::move(estimate.parts),
             .missing_fields = std::move(estimate.missing_fields),
             .contradictions = std::move(estimate.contradictions),
             .free_for_new_bytes = free,
             .left_bytes = left,
             .shortfall_bytes = std::max(-left, Bytes{}),
             .after = std::move(after),
             .reach = make_reach(question, free),
             .model = to_dto(*question.asked.model),
             .config = to_dto(question.asked.config),
             .host = std::move(question.host),
             .budget = std::move(question.budget),
             .notes = notes_of(*question.asked.model, question.asked.config)};
}

}  // namespace dgxmm::dto
