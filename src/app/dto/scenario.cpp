#include "app/dto/scenario.h"

#include "app/dto/dto_schema.h"
#include "core/model/gguf_hyper_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::model {

BOOST_DESCRIBE_ENUM(Format, gguf, safetensors)
BOOST_DESCRIBE_ENUM(AttentionKind, full, sliding_window, chunked, mla, bidirectional)
BOOST_DESCRIBE_ENUM(RecurrentKind, mamba, mamba2, gated_delta_net, kda, short_conv, lightning, rwkv)
BOOST_DESCRIBE_STRUCT(Attention, (),
                      (kind, n_head, n_head_kv, key_length, value_length, window, kv_lora_rank, rope_length,
                       mla_key_length, mla_value_length, indexer_key_length, compress_ratio, shares_kv, keeps_values,
                       gates_query))
BOOST_DESCRIBE_STRUCT(RecurrentState, (),
                      (kind, conv_elements, state_elements, projected, convolved, inner, shares, groups,
                       group_convolved, conv_keeps_drafts, keeps_float32))
BOOST_DESCRIBE_STRUCT(Layer, (), (attention, recurrent, cross_attention, feed_forward_length))
BOOST_DESCRIBE_STRUCT(Experts, (), (count, used_count, feed_forward_length, shared_feed_forward_length))
BOOST_DESCRIBE_STRUCT(Encoder, (), (input, width, item_patches, item_tokens))
BOOST_DESCRIBE_STRUCT(WeightFile, (), (path, size))
BOOST_DESCRIBE_STRUCT(WeightSummary, (),
                      (files, tensors, input_tensors, token_embedding, nextn_tensors, float32_tensors, expert_tensors,
                       vision_tensors, unused_output, nextn_copies, speaking_tensors, replicated_tensors,
                       linear_tensors, tied_embeddings))
BOOST_DESCRIBE_STRUCT(Fingerprint, (), (digest))
// The layers are beside it, those that are alike together.
BOOST_DESCRIBE_STRUCT(ModelDescription, (),
                      (format, name, architecture, base_model, quantization, embedding_length, layer_embedding_length,
                       hyper_connections, vocabulary, training_context, experts, encoders, tokenizer, kv_cache_dtype,
                       weight_dtype, files, weights, fingerprint, missing_fields, contradictions))

}  // namespace dgxmm::model

namespace dgxmm::deployment {
BOOST_DESCRIBE_ENUM(State, starting, loading, ready, sleeping, stopping, stopped, failed, unknown)
}  // namespace dgxmm::deployment

namespace dgxmm::memory {
BOOST_DESCRIBE_ENUM(Placement, gpu, cpu)
}  // namespace dgxmm::memory

namespace dgxmm::json::detail {
template <>
inline constexpr bool is_all_optional<model::Attention> = true;
template <>
inline constexpr bool is_all_optional<model::RecurrentState> = true;
template <>
inline constexpr bool is_all_optional<model::Layer> = true;
template <>
inline constexpr bool is_all_optional<model::Experts> = true;
template <>
inline constexpr bool is_all_optional<model::Encoder> = true;
template <>
inline constexpr bool is_all_optional<model::WeightFile> = true;
template <>
inline constexpr bool is_all_optional<model::WeightSummary> = true;
template <>
inline constexpr bool is_all_optional<model::Fingerprint> = true;
template <>
inline constexpr bool is_all_optional<model::ModelDescription> = true;
}  // namespace dgxmm::json::detail

namespace dgxmm::dto {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMostDeployments = 1000;
constexpr std::size_t kMostModels = 1000;
constexpr std::int64_t kMostLayers = 4096;
/// Of any number: sums of thousands of them stay countable.
constexpr std::int64_t kLargest = std::int64_t{1} << 50;
constexpr std::int64_t kMostPriority = 1'000'000;

struct ScenarioHost {
  Bytes mem_total_bytes, mem_available_bytes;
  std::optional<Bytes> safety_margin_bytes, os_reserve_bytes, min_headroom_bytes;
  std::optional<memory::Placement> placement;
  std::optional<Bytes> vllm_runtime_fixed_bytes, vllm_cuda_graph_bytes, llamacpp_runtime_fixed_bytes;
  std::optional<std::int64_t> llamacpp_cache_ram_mib;
};

struct ScenarioMeasured {
  std::optional<Bytes> anon_bytes, kernel_bytes, shmem_bytes, gpu_bytes;
};

struct ScenarioSleepLevel {
  std::int64_t level = 1;
  Bytes size_asleep_bytes;
  bool learned = false;
  Bytes wake_peak_bytes;
  std::optional<std::int64_t> sleep_s, wake_s;
};

struct ScenarioDeployment {
  DeploymentId id;
  std::string name;
  deployment::State state = deployment::State::ready;
  Bytes reserved_bytes;
  std::optional<ScenarioMeasured> measured;
  std::optional<bool> holds_memory;
  std::optional<std::string> engine;
  std::optional<std::int64_t> priority;
  bool pinned = false;
  std::optional<bool> busy;
  std::optional<std::int64_t> requests, idle_s, load_s, stop_s;
  std::optional<Bytes> weights_bytes;
  std::vector<ScenarioSleepLevel> sleep_levels;
};

struct ScenarioLayers {
  std::optional<std::int64_t> times;
  model::Layer layer;
};

struct ScenarioModel {
  std::optional<std::string> path;
  std::optional<model::ModelDescription> description;
  std::vector<ScenarioLayers> layers, nextn_layers;
};

struct ScenarioProjector {
  std::string path;
  Bytes file_bytes, tensors_bytes;
  std::string fingerprint;
};

struct ScenarioDuration {
  std::string fingerprint, action;
  std::optional<std::int64_t> level;
  std::int64_t took_s = 0;
};

struct ScenarioRecord {
  std::string fingerprint, configuration;
  Bytes measured_bytes, formula_bytes;
};

struct ScenarioFloor {
  std::string fingerprint, configuration;
  Bytes killed_bytes;
  std::int64_t kills = 1;
};

struct ScenarioDocument {
  std::int64_t scenario = kVersion;
  ScenarioHost host;
  std::vector<ScenarioDeployment> deployments;
  std::vector<ScenarioModel> models;
  std::vector<ScenarioProjector> projectors;
  std::vector<ScenarioRecord> records;
  std::vector<ScenarioFloor> oom_floors;
  std::vector<ScenarioDuration> durations;
  std::optional<engine::DeployRequest> request;
};

BOOST_DESCRIBE_STRUCT(ScenarioHost, (),
                      (mem_total_bytes, mem_available_bytes, safety_margin_bytes, os_reserve_bytes, min_headroom_bytes,
                       placement, vllm_runtime_fixed_bytes, vllm_cuda_graph_bytes, llamacpp_runtime_fixed_bytes,
                       llamacpp_cache_ram_mib))
BOOST_DESCRIBE_STRUCT(ScenarioMeasured, (), (anon_bytes, kernel_bytes, shmem_bytes, gpu_bytes))
BOOST_DESCRIBE_STRUCT(ScenarioSleepLevel, (), (level, size_asleep_bytes, learned, wake_peak_bytes, sleep_s, wake_s))
BOOST_DESCRIBE_STRUCT(ScenarioDeployment, (),
                      (id, name, state, reserved_bytes, measured, holds_memory, engine, priority, pinned, busy,
                       requests, idle_s, load_s, stop_s, weights_bytes, sleep_levels))
BOOST_DESCRIBE_STRUCT(ScenarioLayers, (), (times, layer))
BOOST_DESCRIBE_STRUCT(ScenarioModel, (), (path, description, layers, nextn_layers))
BOOST_DESCRIBE_STRUCT(ScenarioProjector, (), (path, file_bytes, tensors_bytes, fingerprint))
BOOST_DESCRIBE_STRUCT(ScenarioDuration, (), (fingerprint, action, level, took_s))
BOOST_DESCRIBE_STRUCT(ScenarioRecord, (), (fingerprint, configuration, measured_bytes, formula_bytes))
BOOST_DESCRIBE_STRUCT(ScenarioFloor, (), (fingerprint, configuration, killed_bytes, kills))
BOOST_DESCRIBE_STRUCT(ScenarioDocument, (),
                      (scenario, host, deployments, models, projectors, records, oom_floors, durations, request))

// ---- Reading

/// The most that a number of a model may be, as in a GGUF file; larger ones are signs of damage, and their products
/// could not be counted. Sizes in bytes are bounded like everywhere.
std::int64_t most_of_model(std::string_view path) {
  const auto name = path.substr(path.rfind('.') + 1);
  if (path.find(".files") != std::string_view::npos || path.find(".weights") != std::string_view::npos) return kLargest;
  if (name.starts_with("n_head") || name == "groups") return model::kMaxGgufHeads;
  if (name == "count" || name == "used_count") return model::kMaxGgufExperts;
  if (name == "training_context" || name == "window") return model::kMostContext;
  if (name == "vocabulary") return model::kMaxGgufVocabulary;
  if (name.ends_with("elements")) return std::int64_t{1} << 31;
  return model::kMaxGgufLength * 16;
}

/// Every number that a scenario has is an amount; only a priority may be below 0.
Result<void> check_numbers(const json::bj::value& value, const std::string& path) {
  if (const auto* array = value.if_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (auto good = check_numbers((*array)[i], fmt::format("{}[{}]", path, i)); !good) return good;
    }
  } else if (const auto* object = value.if_object()) {
    for (const auto& [key, member] : *object) {
      if (auto good = check_numbers(member, json::detail::join(path, key)); !good) return good;
    }
  } else if (value.is_uint64()) {
    return fail("bad_field", path + ": is too large", {}, path);
  } else if (const auto* number = value.if_int64()) {
    const bool is_priority = path.ends_with("priority");
    const auto least = is_priority ? -kMostPriority : 0;
    const auto most = is_priority ? kMostPriority : path.starts_with("models[") ? most_of_model(path) : kLargest;
    if (*number < least || *number > most) {
      return fail("bad_field", fmt::format("{}: must be {} to {}", path, least, most), {}, path);
    }
  }
  return {};
}

std::optional<std::chrono::seconds> seconds_of(std::optional<std::int64_t> seconds) {
  // A thousand years; more could not be added up.
  if (seconds) return std::chrono::seconds{std::min(*seconds, std::int64_t{31'536'000'000})};
  return std::nullopt;
}

Result<planner::Candidate> read(const ScenarioDeployment& given, const std::string& where) {
  const auto kind = engine::parse_engine(given.engine.value_or("llama.cpp"));
  if (!kind) return fail("bad_field", where + ".engine: expected llama.cpp or vllm", {}, where + ".engine");
  planner::Candidate candidate{.memory = {.id = given.id,
                                          .state = given.state,
                                          .reserved = given.reserved_bytes,
                                          .measured = {},
                                          .holds_memory = given.holds_memory.value_or(true)},
                               .name = given.name,
                               .priority = given.priority.value_or(0),
                               .pinned = given.pinned,
                               .busy = given.busy,
                               .idle_since = seconds_of(given.idle_s),
                               .requests = given.requests,
                               .weights = given.weights_bytes.value_or(Bytes{}),
                               .engine = *kind,
                               .load_takes = seconds_of(given.load_s),
                               .stop_takes = seconds_of(given.stop_s)};
  if (const auto& measured = given.measured) {
    candidate.memory.measured = memory::Measured{.anon = measured->anon_bytes,
                                                 .kernel = measured->kernel_bytes,
                                                 .shmem = measured->shmem_bytes,
                                                 .gpu = measured->gpu_bytes};
  }
  for (const auto& level : given.sleep_levels) {
    candidate.sleep_levels.push_back({.level = level.level,
                                      .size_asleep = level.size_asleep_bytes,
                                      .learned = level.learned,
                                      .wake_peak = level.wake_peak_bytes,
                                      .sleep_takes = seconds_of(level.sleep_s),
                                      .wake_takes = seconds_of(level.wake_s)});
  }
  return candidate;
}

Result<std::vector<model::Layer>> read(const std::vector<ScenarioLayers>& given, const std::string& where) {
  std::vector<model::Layer> layers;
  for (const auto& alike : given) {
    const auto times = alike.times.value_or(1);
    if (times > kMostLayers - static_cast<std::int64_t>(layers.size())) {
      return fail("bad_field", fmt::format("{}: more than {} layers", where, kMostLayers), {}, where);
    }
    layers.insert(layers.end(), static_cast<std::size_t>(times), alike.layer);
  }
  return layers;
}

Result<model::ModelDescription> read(ScenarioModel given, const std::string& where, const DescribeModel& describe) {
  if (!given.description) {
    if (given.path) return describe(*given.path);
    return fail("missing_field", where + ": needs a description, or the path of a model on this disk", {}, where);
  }
  auto model = std::move(*given.description);
  model.path = given.path.value_or("");
  auto layers = read(given.layers, where + ".layers");
  if (!layers) return fail(layers.error());
  auto nextn_layers = read(given.nextn_layers, where + ".nextn_layers");
  if (!nextn_layers) return fail(nextn_layers.error());
  model.layers = std::move(*layers);
  model.nextn_layers = std::move(*nextn_layers);
  return model;
}

void read_host(const ScenarioHost& given, planner::Scenario& scenario) {
  auto& host = scenario.host;
  host.mem_total = given.mem_total_bytes;
  host.mem_available = given.mem_available_bytes;
  auto& budget = host.budget_settings;
  budget.safety_margin = given.safety_margin_bytes.value_or(budget.safety_margin);
  budget.os_reserve = given.os_reserve_bytes.value_or(budget.os_reserve);
  host.min_headroom = given.min_headroom_bytes.value_or(host.min_headroom);
  scenario.placement = given.placement.value_or(scenario.placement);
  auto& estimate = scenario.estimate_settings;
  estimate.vllm_runtime_fixed = given.vllm_runtime_fixed_bytes.value_or(estimate.vllm_runtime_fixed);
  estimate.vllm_cuda_graph = given.vllm_cuda_graph_bytes.value_or(estimate.vllm_cuda_graph);
  estimate.llamacpp_runtime_fixed = given.llamacpp_runtime_fixed_bytes.value_or(estimate.llamacpp_runtime_fixed);
  scenario.defaults.llamacpp_cache_ram_mib =
      given.llamacpp_cache_ram_mib.value_or(scenario.defaults.llamacpp_cache_ram_mib);
}

std::unexpected<Error> bad_scenario(std::string message, std::string where) {
  return fail("bad_scenario", std::move(message), {}, std::move(where));
}

Result<planner::Scenario> read(ScenarioDocument given, const DescribeModel& describe) {
  if (given.scenario != kVersion) {
    return bad_scenario(fmt::format("scenario: version {} is not known", given.scenario), "scenario");
  }
  if (given.host.mem_available_bytes > given.host.mem_total_bytes) {
    return bad_scenario("host.mem_available_bytes: more than mem_total_bytes", "host.mem_available_bytes");
  }
  if (given.deployments.size() > kMostDeployments) return bad_scenario("deployments: too many", "deployments");
  if (given.models.size() > kMostModels) return bad_scenario("models: too many", "models");
  if (given.projectors.size() > kMostModels) return bad_scenario("projectors: too many", "projectors");

  planner::Scenario scenario;
  read_host(given.host, scenario);
  std::set<DeploymentId> ids;
  for (std::size_t i = 0; i < given.deployments.size(); ++i) {
    const auto where = fmt::format("deployments[{}]", i);
    if (!ids.insert(given.deployments[i].id).second) return bad_scenario(where + ".id: is there twice", where + ".id");
    auto candidate = read(given.deployments[i], where);
    if (!candidate) return fail(candidate.error());
    scenario.host.deployments.push_back(std::move(*candidate));
  }
  for (std::size_t i = 0; i < given.models.size(); ++i) {
    auto model = read(std::move(given.models[i]), fmt::format("models[{}]", i), describe);
    if (!model) return fail(model.error());
    scenario.models.push_back(std::move(*model));
  }
  for (auto& record : given.records) {
    scenario.records.push_back({.fingerprint = std::move(record.fingerprint),
                                .configuration_key = std::move(record.configuration),
                                .measured = record.measured_bytes,
                                .formula = record.formula_bytes,
                                .recorded_at = {},
                                .image = {}});
  }
  for (auto& floor : given.oom_floors) {
    scenario.floors.push_back({.fingerprint = std::move(floor.fingerprint),
                               .configuration_key = std::move(floor.configuration),
                               .killed_size = floor.killed_bytes,
                               .kills = floor.kills,
                               .evidence = {},
                               .recorded_at = {}});
  }
  for (auto& projector : given.projectors) {
    scenario.projectors.push_back({.path = std::move(projector.path),
                                   .file = projector.file_bytes,
                                   .tensors = projector.tensors_bytes,
                                   .fingerprint = {.digest = std::move(projector.fingerprint)}});
  }
  for (std::size_t i = 0; i < given.durations.size(); ++i) {
    auto& duration = given.durations[i];
    const auto action = planner::parse_action(duration.action);
    const auto where = fmt::format("durations[{}].action", i);
    if (!action) return fail("bad_field", where + ": expected load, stop, sleep or wake", {}, where);
    const auto level = duration.level.value_or(0);
    if (level > 2) return fail("bad_field", fmt::format("durations[{}].level: expected 1 or 2", i), {}, where);
    scenario.durations.push_back({.fingerprint = std::move(duration.fingerprint),
                                  .action = *action,
                                  .level = static_cast<int>(level),
                                  .took = seconds_of(duration.took_s).value_or(std::chrono::seconds{}),
                                  .recorded_at = {}});
  }
  scenario.request = std::move(given.request);
  return scenario;
}

// ---- Writing

std::optional<std::int64_t> count_of(std::optional<std::chrono::seconds> seconds) {
  return seconds ? std::optional<std::int64_t>{seconds->count()} : std::nullopt;
}

ScenarioDeployment write(const planner::Candidate& candidate) {
  const auto& memory = candidate.memory;
  ScenarioDeployment result{.id = memory.id,
                            .name = candidate.name,
                            .state = memory.state,
                            .reserved_bytes = memory.reserved,
                            .measured = {},
                            .holds_memory = memory.holds_memory,
                            .engine = std::string{engine::display_name(candidate.engine)},
                            .priority = candidate.priority,
                            .pinned = candidate.pinned,
                            .busy = candidate.busy,
                            .requests = candidate.requests,
                            .idle_s = count_of(candidate.idle_since),
                            .load_s = count_of(candidate.load_takes),
                            .stop_s = count_of(candidate.stop_takes),
                            .weights_bytes = candidate.weights,
                            .sleep_levels = {}};
  if (const auto& measured = memory.measured) {
    result.measured = ScenarioMeasured{.anon_bytes = measured->anon,
                                       .kernel_bytes = measured->kernel,
                                       .shmem_bytes = measured->shmem,
                                       .gpu_bytes = measured->gpu};
  }
  for (const auto& level : candidate.sleep_levels) {
    result.sleep_levels.push_back({.level = level.level,
                                   .size_asleep_bytes = level.size_asleep,
                                   .learned = level.learned,
                                   .wake_peak_bytes = level.wake_peak,
                                   .sleep_s = count_of(level.sleep_takes),
                                   .wake_s = count_of(level.wake_takes)});
  }
  return result;
}

std::vector<ScenarioLayers> write(const std::vector<model::Layer>& layers) {
  std::vector<ScenarioLayers> result;
  for (const auto& layer : layers) {
    if (!result.empty() && result.back().layer == layer) {
      ++*result.back().times;
    } else {
      result.push_back({.times = 1, .layer = layer});
    }
  }
  return result;
}

/// Absent and null mean the same; so do an absent list and an empty one.
void leave_out_unknown(json::bj::value& value) {
  if (auto* array = value.if_array()) {
    for (auto& item : *array) leave_out_unknown(item);
  } else if (auto* object = value.if_object()) {
    for (auto member = object->begin(); member != object->end();) {
      leave_out_unknown(member->value());
      const auto* list = member->value().if_array();
      const bool is_nothing = member->value().is_null() || (list != nullptr && list->empty());
      member = is_nothing ? object->stable_erase(member) : member + 1;
    }
  }
}

}  // namespace

Result<planner::Scenario> read_scenario(std::string_view text, const DescribeModel& describe) {
  const auto value = json::parse(text);
  if (!value) return fail(value.error());
  if (auto good = check_numbers(*value, {}); !good) return fail(good.error());
  auto document = json::decode<ScenarioDocument>(*value, json::Unknown::reject);
  if (!document) return fail(document.error());
  return read(std::move(*document), describe);
}

std::string write_scenario(const planner::Scenario& scenario) {
  const auto& host = scenario.host;
  const auto& estimate = scenario.estimate_settings;
  ScenarioDocument document{.host = {.mem_total_bytes = host.mem_total,
                                     .mem_available_bytes = host.mem_available,
                                     .safety_margin_bytes = host.budget_settings.safety_margin,
                                     .os_reserve_bytes = host.budget_settings.os_reserve,
                                     .min_headroom_bytes = host.min_headroom,
                                     .placement = scenario.placement,
                                     .vllm_runtime_fixed_bytes = estimate.vllm_runtime_fixed,
                                     .vllm_cuda_graph_bytes = estimate.vllm_cuda_graph,
                                     .llamacpp_runtime_fixed_bytes = estimate.llamacpp_runtime_fixed,
                                     .llamacpp_cache_ram_mib = scenario.defaults.llamacpp_cache_ram_mib},
                            .request = scenario.request};
  for (const auto& candidate : host.deployments) document.deployments.push_back(write(candidate));
  for (const auto& model : scenario.models) {
    ScenarioModel written{.path = {}, .description = model, .layers = write(model.layers), .nextn_layers = {}};
    written.nextn_layers = write(model.nextn_layers);
    if (!model.path.empty()) written.path = model.path;
    document.models.push_back(std::move(written));
  }
  for (const auto& record : scenario.records) {
    document.records.push_back({record.fingerprint, record.configuration_key, record.measured, record.formula});
  }
  for (const auto& floor : scenario.floors) {
    document.oom_floors.push_back({floor.fingerprint, floor.configuration_key, floor.killed_size, floor.kills});
  }
  for (const auto& projector : scenario.projectors) {
    document.projectors.push_back({projector.path, projector.file, projector.tensors, projector.fingerprint.digest});
  }
  for (const auto& duration : scenario.durations) {
    ScenarioDuration written{.fingerprint = duration.fingerprint,
                             .action = std::string{planner::name_of(duration.action)},
                             .level = {},
                             .took_s = duration.took.count()};
    if (duration.level > 0) written.level = duration.level;
    document.durations.push_back(std::move(written));
  }
  auto value = json::to_value(document);
  leave_out_unknown(value);
  return json::bj::serialize(value);
}

boost::json::value scenario_schema(json::Components& components) {
  return json::schema<ScenarioDocument>(json::Side::read, components);
}

}  // namespace dgxmm::dto
