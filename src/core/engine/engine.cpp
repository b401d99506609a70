#include "core/engine/engine.h"

#include "base/json_codec.h"
#include "core/engine/llamacpp.h"
#include "core/engine/vllm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace dgxmm::engine {

bool is_routine_line(std::string_view line) {
  if (line.ends_with("update_slots: all slots are idle")) return true;  // tools/server/server-context.cpp, b11669
  // uvicorn's line of a request, as vLLM has it write them.
  constexpr std::array kAsked{kHealthPath, kModelsPath, kMetricsPath, kIsSleepingPath};
  return line.starts_with("INFO:     127.0.0.1:") && line.ends_with(" HTTP/1.1\" 200 OK") &&
         std::ranges::any_of(kAsked, [&](std::string_view path) {
           return line.find(fmt::format("\"GET {} HTTP", path)) != std::string_view::npos;
         });
}
namespace {

bool is_flag(std::string_view word) {
  const auto name = word.find_first_not_of('-');
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return (name == 1 || name == 2) && is_letter(word[name]);
}

/// The left column of a help line: up to two spaces that do not follow a comma ("-m,    --model FNAME    model path").
std::string_view option_column(std::string_view line) {
  for (auto at = line.find("  "); at != std::string_view::npos; at = line.find("  ", at)) {
    if (at > 0 && line[at - 1] != ',') return line.substr(0, at);
    at = std::min(line.find_first_not_of(' ', at), line.size());
  }
  return line;
}

/// Does an entry of /v1/models, `{"id": …, "aliases": […]}`, go by this name? vLLM has no aliases.
bool entry_has_name(const json::bj::value& entry, std::string_view name) {
  const auto* object = entry.if_object();
  if (object == nullptr) return false;
  const auto is_name = [&](const json::bj::value& value) {
    const auto* text = value.if_string();
    return text != nullptr && std::string_view{*text} == name;
  };
  if (const auto* id = object->if_contains("id"); id != nullptr && is_name(*id)) return true;
  const auto* aliases = object->if_contains("aliases");
  const auto* list = aliases == nullptr ? nullptr : aliases->if_array();
  return list != nullptr && std::ranges::any_of(*list, is_name);
}

}  // namespace

std::set<std::string, std::less<>> parse_help_flags(std::string_view help) {
  // Descriptions are indented further, and mention other flags.
  constexpr std::size_t kDeepestOption = 4;
  std::set<std::string, std::less<>> flags;
  while (!help.empty()) {
    const auto end = help.find('\n');
    auto line = help.substr(0, end);
    help.remove_prefix(end == std::string_view::npos ? help.size() : end + 1);

    const auto indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos || indent > kDeepestOption || line[indent] != '-') continue;
    line.remove_prefix(indent);
    if (line.find("argument has been removed") != std::string_view::npos) continue;
    auto column = option_column(line);
    while (!column.empty()) {
      const auto space = column.find(' ');
      auto word = column.substr(0, space);
      column.remove_prefix(space == std::string_view::npos ? column.size() : space + 1);
      if (word.ends_with(',')) word.remove_suffix(1);
      if (is_flag(word)) flags.emplace(word);
    }
  }
  return flags;
}

std::optional<bool> Activity::busy() const {
  if (requests_running.value_or(0) > 0 || requests_waiting.value_or(0) > 0) return true;
  // One silent half does not make the engine idle.
  if (!requests_running || !requests_waiting) return std::nullopt;
  return false;
}

std::optional<std::int64_t> Activity::requests() const {
  if (!requests_running || !requests_waiting) return std::nullopt;
  return *requests_running + *requests_waiting;
}

std::unique_ptr<LogReader> make_log_reader(EngineKind kind) {
  return kind == EngineKind::llamacpp ? make_llamacpp_log_reader() : make_vllm_log_reader();
}

Command make_command(const LaunchSpec& spec) {
  return kind_of(spec.config) == EngineKind::llamacpp ? make_llamacpp_command(spec) : make_vllm_command(spec);
}

Result<bool> names_model(std::string_view models_json, std::string_view served_name) {
  const auto document = json::parse(models_json);
  if (!document) return fail(document.error());
  const auto* object = document->if_object();
  const auto* data = object == nullptr ? nullptr : object->if_contains("data");
  const auto* entries = data == nullptr ? nullptr : data->if_array();
  if (entries == nullptr) return false;
  return std::ranges::any_of(*entries, [&](const auto& entry) { return entry_has_name(entry, served_name); });
}

Activity parse_activity(EngineKind kind, std::string_view metrics_text) {
  return kind == EngineKind::llamacpp ? parse_llamacpp_activity(metrics_text) : parse_vllm_activity(metrics_text);
}

}  // namespace dgxmm::engine
