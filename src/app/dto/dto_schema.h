#pragma once
// What the schemas of the DTOs say beyond their types: the words that a text can be. Include it wherever json::schema
// is used with them.
#include "app/dto/dto_json.h"
#include "base/json_schema.h"

#include <array>
#include <string_view>

namespace dgxmm::dto {

inline constexpr std::array<std::string_view, 4> kConfidences{"low", "estimated", "calibrated", "measured"};
inline constexpr std::array<std::string_view, 2> kEngines{"llama.cpp", "vllm"};
inline constexpr std::array<std::string_view, 9> kCacheTypes{"f32",  "f16",  "bf16", "q8_0",  "q5_1",
                                                             "q5_0", "q4_1", "q4_0", "iq4_nl"};
inline constexpr std::array<std::string_view, 3> kFlashAttention{"auto", "on", "off"};
inline constexpr std::array<std::string_view, 3> kSpecTypes{"none", "draft-simple", "draft-mtp"};
inline constexpr std::array<std::string_view, 8> kStates{"starting", "loading", "ready",  "sleeping",
                                                         "stopping", "stopped", "failed", "unknown"};
inline constexpr std::array<std::string_view, 2> kRuntimes{"process", "docker"};

}  // namespace dgxmm::dto

namespace dgxmm::json {

template <>
inline constexpr std::array<std::string_view, 6> words<&dto::Part::name>{"weights",     "kv",      "state",
                                                                         "activations", "runtime", "margin"};
template <>
inline constexpr std::array<std::string_view, 6> words<&dto::Part::source>{"file_size", "formula",    "engine_default",
                                                                           "setting",   "calibrated", "measured"};
template <>
inline constexpr auto words<&dto::Estimate::confidence> = dto::kConfidences;
template <>
inline constexpr auto words<&dto::Config::engine> = dto::kEngines;
template <>
inline constexpr auto words<&dto::Config::cache_type_k> = dto::kCacheTypes;
template <>
inline constexpr auto words<&dto::Config::cache_type_v> = dto::kCacheTypes;
template <>
inline constexpr auto words<&dto::Config::cache_type_k_draft> = dto::kCacheTypes;
template <>
inline constexpr auto words<&dto::Config::cache_type_v_draft> = dto::kCacheTypes;
template <>
inline constexpr auto words<&dto::Config::flash_attn> = dto::kFlashAttention;
template <>
inline constexpr auto words<&dto::Config::spec_type> = dto::kSpecTypes;
template <>
inline constexpr auto words<&dto::Deployment::state> = dto::kStates;
template <>
inline constexpr auto words<&dto::Deployment::runtime> = dto::kRuntimes;
template <>
inline constexpr std::array<std::string_view, 2> words<&dto::Warning::severity>{"warning", "note"};
template <>
inline constexpr auto words<&dto::BudgetDeployment::state> = dto::kStates;
template <>
inline constexpr std::array<std::string_view, 7> words<&dto::Budget::host_class>{
    "none", "integrated", "coherent", "discrete", "mixed", "unknown", ""};  // "": a host that is only described
template <>
inline constexpr std::array<std::string_view, 7> words<&dto::Plan::kind>{"kv",  "ctx",   "seqs", "quant",
                                                                         "mix", "sleep", "stop"};
template <>
inline constexpr auto words<&dto::Plan::confidence> = dto::kConfidences;
template <>
inline constexpr std::array<std::string_view, 2> words<&dto::ModelInfo::format>{"gguf", "safetensors"};
template <>
inline constexpr std::array<std::string_view, 3> words<&dto::Fit::verdict>{"fits", "fits_after", "does_not_fit"};
template <>
inline constexpr auto words<&dto::Fit::confidence> = dto::kConfidences;
template <>
inline constexpr std::array<std::string_view, 3> words<&dto::CatalogModel::format>{"gguf", "safetensors", ""};
template <>
inline constexpr std::array<std::string_view, 3> words<&dto::CatalogModel::engine>{"llama.cpp", "vllm", ""};
template <>
inline constexpr std::array<std::string_view, 7> words<&dto::OperationStep::state>{
    "waiting", "running", "done", "failed", "undoing", "undone", "undo_failed"};
template <>
inline constexpr std::array<std::string_view, 4> words<&dto::Operation::state>{"running", "succeeded", "failed",
                                                                               "cancelled"};
template <>
inline constexpr std::array<std::string_view, 2> words<&dto::QueueEntry::queue>{"admission", "start"};
template <>
inline constexpr auto words<&dto::Orphan::runtime> = dto::kRuntimes;
template <>
inline constexpr std::array<std::string_view, 4> words<&dto::Duration::action>{"load", "stop", "sleep", "wake"};
template <>
inline constexpr std::array<std::string_view, 2> words<&dto::Health::status>{"ok", "trouble"};

template <>
inline constexpr auto words<&engine::DeployRequest::cache_type_k> = dto::kCacheTypes;
template <>
inline constexpr auto words<&engine::DeployRequest::cache_type_v> = dto::kCacheTypes;
template <>
inline constexpr auto words<&engine::DeployRequest::cache_type_k_draft> = dto::kCacheTypes;
template <>
inline constexpr auto words<&engine::DeployRequest::cache_type_v_draft> = dto::kCacheTypes;
template <>
inline constexpr auto words<&engine::DeployRequest::flash_attn> = dto::kFlashAttention;
template <>
inline constexpr auto words<&engine::DeployRequest::spec_type> = dto::kSpecTypes;
template <>
inline constexpr auto words<&engine::DeployRequest::runtime> = dto::kRuntimes;

}  // namespace dgxmm::json
