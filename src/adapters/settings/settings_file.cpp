#include "adapters/settings/settings_file.h"

#include "base/masking.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace dgxmm::settings_file {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string{} : std::string{value};
}

std::string below_home(const char* xdg_variable, const char* fallback) {
  if (const auto xdg = environment(xdg_variable); xdg.starts_with('/')) return xdg + "/dgxmm";
  if (const auto home = environment("HOME"); !home.empty()) return home + "/" + fallback + "/dgxmm";
  return {};
}

/// A scalar as the text that the settings table reads; nothing for what no setting can be.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  return std::nullopt;
}

}  // namespace

Result<std::vector<settings::Assignment>> read_file(const std::string& path) {
  std::error_code ignored;
  std::ifstream file{path};
  // A folder can be opened, and reads like an empty file.
  if (!file || std::filesystem::is_directory(path, ignored))
    return fail("settings_not_found", fmt::format("cannot read the settings file {}", path), {}, path);
  std::stringstream text;
  text << file.rdbuf();

  toml::table table;
  try {
    table = toml::parse(text.str(), path);
  } catch (const toml::parse_error& error) {
    const auto where = fmt::format("{}:{}", path, error.source().begin.line);
    return fail("bad_setting", fmt::format("{}: not valid TOML: {}", where, error.description()), {}, where);
  }

  std::vector<settings::Assignment> assignments;
  for (const auto& [key, node] : table) {
    settings::Assignment assignment{std::string{key.str()}, {}, fmt::format("{}:{}", path, node.source().begin.line)};
    const auto bad = [&] {
      return fail(
          "bad_setting",
          fmt::format("{}: '{}' must be a number, a text or a list of texts", assignment.where, assignment.name),
          "settings are not grouped in tables", assignment.where);
    };
    if (const auto* array = node.as_array()) {
      for (const auto& item : *array) {
        auto value = scalar_text(item);
        if (!value) return bad();
        assignment.values.push_back(std::move(*value));
      }
    } else if (auto value = scalar_text(node)) {
      assignment.values.push_back(std::move(*value));
    } else {
      return bad();
    }
    assignments.push_back(std::move(assignment));
  }
  return assignments;
}

std::vector<settings::Assignment> read_environment() {
  std::vector<settings::Assignment> assignments;
  for (const auto& definition : settings::definitions()) {
    const auto variable = settings::environment_name(definition.name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr) continue;
    settings::Assignment assignment{std::string{definition.name}, {}, variable};
    if (definition.kind == settings::Kind::list) {
      std::stringstream items{value};
      for (std::string item; std::getline(items, item, ':');) {
        if (!item.empty()) assignment.values.push_back(item);
      }
    } else {
      assignment.values.emplace_back(value);
    }
    assignments.push_back(std::move(assignment));
  }
  return assignments;
}

std::vector<std::string> mistyped_variables() {
  constexpr std::string_view kPrefix = "DGXMM_";
  std::vector<std::string> warnings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable{*entry};
    const auto name = variable.substr(0, variable.find('='));
    if (!name.starts_with(kPrefix)) continue;
    std::string setting{name.substr(kPrefix.size())};
    std::ranges::transform(setting, setting.begin(),
                           [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
    const auto meant = settings::nearest_name(setting);
    if (!meant || settings::environment_name(*meant) == name) continue;
    warnings.push_back(
        fmt::format("{} is no setting: did you mean {}?", printable(name), settings::environment_name(*meant)));
  }
  std::ranges::sort(warnings);
  return warnings;
}

bool readable_by_others(const std::string& path) {
  std::error_code error;
  const auto permissions = std::filesystem::status(path, error).permissions();
  return !error && (permissions & std::filesystem::perms::others_read) != std::filesystem::perms::none;
}

std::string default_path() {
  for (const auto& folder : {below_home("XDG_CONFIG_HOME", ".config"), std::string{"/etc/dgxmm"}}) {
    if (folder.empty()) continue;
    std::error_code error;
    if (const auto path = folder + "/settings.toml"; std::filesystem::exists(path, error)) return path;
  }
  return {};
}

std::string default_hugging_face_cache() {
  const auto home = environment("HOME");
  const auto folder_in = [&](const char* variable) {
    auto value = environment(variable);
    if (value == "~" || value.starts_with("~/")) value = home.empty() ? std::string{} : home + value.substr(1);
    return value;
  };
  for (const auto* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (auto folder = folder_in(variable); !folder.empty()) return folder;
  }
  if (const auto folder = folder_in("HF_HOME"); !folder.empty()) return folder + "/hub";
  if (const auto folder = folder_in("XDG_CACHE_HOME"); !folder.empty()) return folder + "/huggingface/hub";
  return home.empty() ? std::string{} : home + "/.cache/huggingface/hub";
}

std::string default_state_dir() { return below_home("XDG_STATE_HOME", ".local/state"); }

}  // namespace dgxmm::settings_file
