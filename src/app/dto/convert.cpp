#include "app/dto/convert.h"

#include "base/masking.h"
#include "core/engine/request.h"
#include "core/memory/ledger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

namespace dgxmm::dto {
namespace {

using memory::Confidence;
using memory::Source;

constexpr std::array<std::pair<Confidence, const char*>, 4> kConfidences{{{Confidence::low, "low"},
                                                                          {Confidence::estimated, "estimated"},
                                                                          {Confidence::calibrated, "calibrated"},
                                                                          {Confidence::measured, "measured"}}};
constexpr std::array<std::pair<Source, const char*>, 6> kSources{{{Source::file_size, "file_size"},
                                                                  {Source::formula, "formula"},
                                                                  {Source::engine_default, "engine_default"},
                                                                  {Source::setting, "setting"},
                                                                  {Source::calibrated, "calibrated"},
                                                                  {Source::measured, "measured"}}};
constexpr std::array<std::pair<engine::FlashAttention, const char*>, 3> kFlashAttention{
    {{engine::FlashAttention::automatic, "auto"},
     {engine::FlashAttention::on, "on"},
     {engine::FlashAttention::off, "off"}}};

template <class Table, class Value>
std::string word_of(const Table& table, Value value) {
  const auto found = std::ranges::find(table, value, [](const auto& row) { return row.first; });
  return found == table.end() ? "unknown" : found->second;
}

template <class Table>
auto value_of(const Table& table, const std::string& text) -> std::optional<decltype(table[0].first)> {
  const auto found = std::ranges::find(table, text, [](const auto& row) { return std::string{row.second}; });
  if (found == table.end()) return std::nullopt;
  return found->first;
}

std::optional<std::string> if_any(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace

std::string word(Confidence confidence) { return word_of(kConfidences, confidence); }
std::string word(Source source) { return word_of(kSources, source); }
std::string word(model::Format format) { return format == model::Format::gguf ? "gguf" : "safetensors"; }

std::string word(planner::PlanKind kind) {
  switch (kind) {
    case planner::PlanKind::kv: return "kv";
    case planner::PlanKind::ctx: return "ctx";
    case planner::PlanKind::seqs: return "seqs";
    case planner::PlanKind::quant: return "quant";
    case planner::PlanKind::mix: return "mix";
    case planner::PlanKind::sleep: return "sleep";
    case planner::PlanKind::stop: return "stop";
  }
  return "unknown";
}

Estimate to_dto(const memory::Estimate& estimate) {
  Estimate result{.total_bytes = estimate.total,
                  .formula_bytes = estimate.formula,
                  .confidence = word(estimate.confidence),
                  .total_source = estimate.total_source,
                  .parts = {},
                  .missing_fields = estimate.missing_fields,
                  .contradictions = estimate.contradictions};
  for (const auto& part : estimate.parts) {
    result.parts.push_back({part.name, part.size, word(part.source), part.detail});
  }
  result.null_block_bytes = estimate.null_block;
  return result;
}

Config to_dto(const engine::EngineConfig& config) {
  Config result;
  result.engine = engine::display_name(engine::kind_of(config));
  if (const auto* llamacpp = std::get_if<engine::LlamaCppConfig>(&config)) {
    result.ctx_size = llamacpp->ctx_size;
    result.parallel = llamacpp->parallel;
    result.batch = llamacpp->batch;
    result.ubatch = llamacpp->ubatch;
    result.cache_ram_mib = llamacpp->cache_ram_mib;
    result.kv_unified = llamacpp->kv_unified;
    result.swa_full = llamacpp->swa_full;
    result.cache_type_k = engine::name_of(llamacpp->cache_type_k);
    result.cache_type_v = engine::name_of(llamacpp->cache_type_v);
    result.flash_attn = word_of(kFlashAttention, llamacpp->flash_attn);
    result.mmproj = if_any(llamacpp->mmproj);
    result.draft_model = if_any(llamacpp->draft_model);
    if (llamacpp->spec_type != engine::SpecType::none) {
      result.spec_type = engine::name_of(llamacpp->spec_type);
      result.spec_draft_n_max = llamacpp->spec_draft_n_max;
      result.cache_type_k_draft = engine::name_of(llamacpp->cache_type_k_draft);
      result.cache_type_v_draft = engine::name_of(llamacpp->cache_type_v_draft);
    }
  } else {
    const auto& vllm = std::get<engine::VllmConfig>(config);
    result.max_model_len = vllm.max_model_len;
    result.max_num_seqs = vllm.max_num_seqs;
    result.max_num_batched_tokens = vllm.max_num_batched_tokens;
    result.kv_tokens = vllm.kv_tokens;
    result.kv_cache_dtype = vllm.kv_cache_dtype;
    result.enforce_eager = vllm.enforce_eager;
    result.draft_model = if_any(vllm.draft_model);
    result.tensor_parallel_size = vllm.tensor_parallel_size;
    if (!vllm.quantization.empty()) result.quantization = vllm.quantization;
    if (!vllm.spec_method.empty()) {
      result.spec_method = vllm.spec_method;
      result.num_speculative_tokens = vllm.num_speculative_tokens;
    }
    result.enable_lora = vllm.enable_lora;
    if (vllm.enable_lora) {
      result.max_loras = vllm.max_loras;
      result.max_lora_rank = vllm.max_lora_rank;
    }
    result.language_model_only = vllm.language_model_only;
    result.limit_mm_per_prompt = vllm.limit_mm_per_prompt;
    result.mm_processor_cache_gb = vllm.mm_processor_cache_gb;
    result.sleep_mode = vllm.sleep_mode;
  }
  return result;
}

std::optional<Bytes> at_least(std::optional<Bytes> whole, Bytes known) {
  return whole || known == Bytes{} ? std::nullopt : std::optional{known};
}

Measured to_dto(const memory::Measured& measured) {
  return {.total_bytes = measured.total(),
          .anon_bytes = measured.anon,
          .kernel_bytes = measured.kernel,
          .shmem_bytes = measured.shmem,
          .gpu_bytes = measured.gpu,
          .gpu_at_least_bytes = at_least(measured.gpu, measured.gpu_at_least),
          .approximate = measured.approximate,
          .complete = measured.anon && measured.kernel && measured.shmem && measured.gpu};
}

Budget to_dto(const memory::Budget& budget) {
  Budget result;
  result.mem_total_bytes = budget.mem_total;
  result.mem_available_bytes = budget.mem_available;
  result.safety_margin_bytes = budget.safety_margin;
  result.os_reserve_bytes = budget.os_reserve;
  result.usable_bytes = budget.usable;
  result.committed_bytes = budget.committed;
  result.used_bytes = budget.used;
  result.measured_by_managed_bytes = budget.measured_by_managed;
  result.ready_gap_bytes = budget.ready_gap;
  result.external_bytes = budget.external;
  result.free_for_new_bytes = budget.free_for_new;
  return result;
}

void add_host_figures(Budget& budget, const host::Meminfo& meminfo, const host::Pressure& pressure) {
  const auto available = memory::available_parts(meminfo.mem_available, meminfo.mem_free);
  budget.page_cache_bytes = available.page_cache;
  budget.free_bytes = available.free;
  budget.swap_total_bytes = meminfo.swap_total;
  budget.swap_used_bytes = meminfo.swap_used();
  budget.pressure_some_avg10_permyriad = pressure.some_avg10_permyriad;
  budget.pressure_full_avg10_permyriad = pressure.full_avg10_permyriad;
}

History to_dto(const std::vector<memory::HistoryPoint>& points, std::chrono::milliseconds interval,
               std::optional<Bytes> mem_total) {
  using std::chrono::seconds;
  History history{.interval_s = std::chrono::ceil<seconds>(interval).count(), .mem_total_bytes = mem_total};
  for (const auto& point : points) {
    history.time_s.push_back(std::chrono::floor<seconds>(point.time).time_since_epoch().count());
    history.deployments_bytes.push_back(point.deployments);
    history.ready_gap_bytes.push_back(point.ready_gap);
    history.external_bytes.push_back(point.external);
    history.page_cache_bytes.push_back(point.page_cache);
    history.free_bytes.push_back(point.free);
    history.committed_bytes.push_back(point.committed);
    history.swap_used_bytes.push_back(point.swap_used);
    history.pressure_some_avg10_permyriad.push_back(point.pressure_some_avg10_permyriad);
  }
  return history;
}

Plan to_dto(const planner::Plan& plan) {
  Plan result{.id = plan.id,
              .kind = word(plan.kind),
              .title = plan.title,
              .fits = plan.fits,
              .recommended = plan.recommended,
              .unsafe = planner::reasons_of(plan),
              .needed_bytes = plan.needed,
              .free_before_bytes = plan.free_before,
              .free_after_bytes = plan.free_after,
              .shortfall_bytes = plan.shortfall,
              .left_bytes = plan.left,
              .confidence = word(plan.confidence),
              .config = to_dto(plan.config),
              .stops = plan.stops,
              .frees_bytes = plan.frees,
              .model = if_any(plan.model_path),
              .sleeps = {},
              .takes_s = plan.takes.value.count(),
              .takes_measured = plan.takes.measured,
              .costs = plan.costs,
              .why = if_any(plan.why)};
  for (const auto& sleep : plan.sleeps) result.sleeps.push_back({.id = sleep.id, .level = sleep.level});
  return result;
}

Plans to_dto(const planner::Plans& plans) {
  Plans result{.plan_set = {},
               .fits_now = plans.fits_now,
               .needed_bytes = plans.needed,
               .free_for_new_bytes = plans.free_for_new,
               .shortfall_bytes = plans.shortfall,
               .summary = plans.summary,
               .plans = {},
               .missing_without_all_bytes = plans.missing_without_all};
  for (const auto& plan : plans.plans) result.plans.push_back(to_dto(plan));
  return result;
}

ModelInfo to_dto(const model::ModelDescription& model) {
  return {.name = model.name,
          .path = model.path,
          .format = word(model.format),
          .architecture = model.architecture,
          .quantization = model.quantization,
          .file_bytes = model.weights.files,
          .training_context = model.training_context};
}

CatalogModel to_dto(const model::CatalogEntry& entry) {
  CatalogModel result{
      .name = entry.name,
      .path = entry.path,
      .format = entry.format ? word(*entry.format) : std::string{},
      .architecture = printable(entry.architecture),
      .quantization = printable(entry.quantization),
      .base_model = printable(entry.base_model),
      .file_bytes = entry.size > Bytes{} ? std::optional{entry.size} : std::nullopt,
      .training_context = entry.training_context > 0 ? std::optional{entry.training_context} : std::nullopt,
      .problem = entry.problem};
  result.group = printable(entry.group);
  if (entry.format) result.engine = *entry.format == model::Format::gguf ? "llama.cpp" : "vllm";
  result.repository = printable(entry.repository);
  result.revision = printable(entry.revision);
  return result;
}

Process to_dto(const host::ProcessRow& row) {
  return {.pid = row.pid,
          .user = row.user,
          .command = row.command,
          .container = row.container,
          .held_bytes = row.held,
          .rss_bytes = row.rss,
          .gpu_bytes = row.gpu,
          .orphan = row.orphan == host::Orphanhood::certain,
          .parent_ended = row.orphan != host::Orphanhood::none};
}

Warning to_dto(const host::Warning& warning) {
  return {.code = warning.code,
          .message = warning.message,
          .hint = warning.hint,
          .severity = std::string{host::name_of(warning.severity)}};
}

std::vector<Warning> to_dto(const std::vector<host::Warning>& warnings) {
  std::vector<Warning> result;
  for (const auto& warning : warnings) result.push_back(to_dto(warning));
  return result;
}

Result<engine::EngineConfig> from_dto(const Config& config) {
  const auto kind = engine::parse_engine(config.engine);
  if (!kind) return fail(kind.error());
  if (*kind == engine::EngineKind::vllm) {
    const engine::VllmConfig defaults;
    return engine::VllmConfig{
        .max_model_len = config.max_model_len.value_or(0),
        .max_num_seqs = config.max_num_seqs.value_or(0),
        .max_num_batched_tokens = config.max_num_batched_tokens.value_or(0),
        .kv_cache_dtype = config.kv_cache_dtype.value_or("auto"),
        .kv_tokens = config.kv_tokens,
        .enforce_eager = config.enforce_eager.value_or(false),
        .draft_model = config.draft_model.value_or(""),
        .tensor_parallel_size = config.tensor_parallel_size.value_or(defaults.tensor_parallel_size),
        .quantization = config.quantization.value_or(""),
        .spec_method = config.spec_method.value_or(""),
        .num_speculative_tokens = config.num_speculative_tokens.value_or(0),
        .enable_lora = config.enable_lora.value_or(false),
        .max_loras = config.max_loras.value_or(defaults.max_loras),
        .max_lora_rank = config.max_lora_rank.value_or(defaults.max_lora_rank),
        .language_model_only = config.language_model_only.value_or(false),
        .limit_mm_per_prompt = config.limit_mm_per_prompt,
        .mm_processor_cache_gb = config.mm_processor_cache_gb,
        .sleep_mode = config.sleep_mode.value_or(false)};
  }
  const auto type_k = engine::parse_cache_type(config.cache_type_k.value_or("f16"));
  const auto type_v = engine::parse_cache_type(config.cache_type_v.value_or("f16"));
  const auto flash_attn = value_of(kFlashAttention, config.flash_attn.value_or("auto"));
  if (!type_k) return fail(type_k.error());
  if (!type_v) return fail(type_v.error());
  if (!flash_attn) return fail("bad_field", "flash_attn: expected auto, on or off", {}, "flash_attn");
  const auto spec_type = engine::parse_spec_type(config.spec_type.value_or("none"));
  const auto type_k_draft = engine::parse_cache_type(config.cache_type_k_draft.value_or("f16"));
  const auto type_v_draft = engine::parse_cache_type(config.cache_type_v_draft.value_or("f16"));
  if (!spec_type) return fail(spec_type.error());
  if (!type_k_draft) return fail(type_k_draft.error());
  if (!type_v_draft) return fail(type_v_draft.error());
  const engine::LlamaCppConfig defaults;
  return engine::LlamaCppConfig{.ctx_size = config.ctx_size.value_or(defaults.ctx_size),
                                .parallel = config.parallel.value_or(defaults.parallel),
                                .kv_unified = config.kv_unified.value_or(defaults.kv_unified),
                                .cache_type_k = *type_k,
                                .cache_type_v = *type_v,
                                .batch = config.batch.value_or(defaults.batch),
                                .ubatch = config.ubatch.value_or(defaults.ubatch),
                                .flash_attn = *flash_attn,
                                .swa_full = config.swa_full.value_or(defaults.swa_full),
                                .cache_ram_mib = config.cache_ram_mib.value_or(defaults.cache_ram_mib),
                                .spec_type = *spec_type,
                                .draft_model = config.draft_model.value_or(""),
                                .spec_draft_n_max = config.spec_draft_n_max.value_or(defaults.spec_draft_n_max),
                                .cache_type_k_draft = *type_k_draft,
                                .cache_type_v_draft = *type_v_draft,
                                .mmproj = config.mmproj.value_or("")};
}

Result<memory::Estimate> from_dto(const Estimate& estimate) {
  memory::Estimate result;
  for (const auto& part : estimate.parts) {
    const auto source = value_of(kSources, part.source);
    if (!source) return fail("bad_field", "estimate.parts: unknown source '" + part.source + "'");
    result.parts.push_back({part.name, part.bytes, *source, part.detail});
  }
  const auto confidence = value_of(kConfidences, estimate.confidence);
  if (!confidence) return fail("bad_field", "estimate.confidence: unknown value '" + estimate.confidence + "'");
  result.total = estimate.total_bytes;
  result.formula = estimate.formula_bytes;
  result.confidence = *confidence;
  result.missing_fields = estimate.missing_fields;
  result.contradictions = estimate.contradictions;
  result.total_source = estimate.total_source;
  result.null_block = estimate.null_block_bytes;
  return result;
}

std::string forgotten_text(const Calibrations& forgotten) {
  constexpr std::size_t kShownDigits = 12;  // of a fingerprint: enough to tell models apart
  std::string of;
  std::vector<std::string> what;
  const auto add = [&](const auto& things, std::string_view one, std::string_view many) {
    if (things.empty()) return;
    const auto& first = things.front();
    of = first.model.empty() ? "weights " + first.fingerprint.substr(0, kShownDigits) : first.model;
    what.push_back(fmt::format("{} {}", things.size(), things.size() == 1 ? one : many));
  };
  add(forgotten.records, "measurement", "measurements");
  add(forgotten.oom_floors, "size that ran out of memory", "sizes that ran out of memory");
  if (!forgotten.oom_floors.empty()) {
    std::vector<std::string> sizes;
    for (const auto& floor : forgotten.oom_floors) sizes.push_back(format_bytes(floor.killed_bytes));
    what.back() += fmt::format(" ({})", fmt::join(sizes, ", "));
  }
  add(forgotten.asleep, "size asleep", "sizes asleep");
  add(forgotten.durations, "duration", "durations");
  std::string list;
  for (std::size_t i = 0; i < what.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == what.size() ? " and " : ", ") + what[i];
  }
  return fmt::format("{}: forgot {}", of, list);
}

}  // namespace dgxmm::dto
