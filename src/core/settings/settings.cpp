#include "core/settings/settings.h"

#include "base/numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <variant>

namespace dgxmm::settings {
namespace {

constexpr double kMaxGib = 1'000'000;
constexpr double kMaxSeconds = 86'400;

// name, kind, default, minimum, maximum, secret, description
constexpr std::array kDefinitions{
    Definition{"safety_margin_gib", Kind::number, "8", 0, kMaxGib, false,
               "memory never promised to a model, for spikes (GiB)"},
    Definition{"os_reserve_gib", Kind::number, "4", 0, kMaxGib, false, "memory kept for the operating system (GiB)"},
    Definition{"min_headroom_gib", Kind::number, "2", 0, kMaxGib, false,
               "a plan that leaves less than this is marked unsafe (GiB)"},
    Definition{"budget_interval_s", Kind::number, "2", 0.05, kMaxSeconds, false,
               "seconds between two readings of the host"},
    Definition{"calibration_delay_s", Kind::number, "15", 0, kMaxSeconds, false,
               "seconds after ready when a deployment's footprint is recorded"},
    Definition{"vllm_runtime_fixed_gib", Kind::number, "3", 0, kMaxGib, false,
               "vLLM: CUDA context, libraries and host processes (GiB)"},
    Definition{"vllm_cuda_graph_gib", Kind::number, "1.5", 0, kMaxGib, false, "vLLM: CUDA graphs, unless eager (GiB)"},
    Definition{"llamacpp_runtime_fixed_gib", Kind::number, "0.5", 0, kMaxGib, false,
               "llama.cpp: context, libraries and process (GiB)"},
    Definition{"llamacpp_cache_ram_mib", Kind::integer, "1024", 0, 1'048'576, false,
               "llama.cpp: bound of the prompt cache when a deployment sets none (MiB; llama-server's own: 8192)"},
    Definition{"llama_server", Kind::text, "llama-server", 0, 0, false,
               "the llama-server program: a path, or a name on the PATH"},
    Definition{"vllm", Kind::text, "vllm", 0, 0, false, "the vllm program: a path, or a name on the PATH"},
    Definition{"nvml_library", Kind::text, "libnvidia-ml.so.1", 0, 0, false,
               "NVIDIA's management library, a name or a path; empty: not used, and GPU memory is unknown"},
    Definition{
        "host_class", Kind::text, "auto", 0, 0, false,
        "what GPU this host has when that cannot be told (else nothing is started then): integrated (CPU and GPU "
        "share one memory), none (engines do not use the GPU), or auto"},
    Definition{
        "runtime", Kind::text, "auto", 0, 0, false,
        "where engines run when a deployment does not say: process, docker, or auto (docker if an image is named)"},
    Definition{"llamacpp_image", Kind::text, "", 0, 0, false,
               "the image of llama.cpp's server for containers; its entrypoint is llama-server"},
    Definition{"vllm_image", Kind::text, "", 0, 0, false,
               "the image of vLLM for containers: vllm/vllm-openai, NVIDIA's, or another with vllm on its PATH"},
    Definition{"docker_socket", Kind::text, "/var/run/docker.sock", 0, 0, false, "the Docker Engine's Unix socket"},
    Definition{
        "docker_network", Kind::text, "", 0, 0, false,
        "the Docker network that containers get; empty = one of dgxmm's own, in which they do not reach each other"},
    Definition{"model_folders", Kind::list, "", 0, 0, false, "folders searched for models"},
    Definition{
        "hugging_face_cache", Kind::text, "auto", 0, 0, false,
        "the Hugging Face cache, searched as well: a folder, `off`, or `auto` for where huggingface_hub keeps it "
        "(`HF_HUB_CACHE`, `HF_HOME/hub`, `~/.cache/huggingface/hub`)"},
    Definition{"catalog_rescan_s", Kind::number, "60", 1, kMaxSeconds, false,
               "seconds between two looks at all model folders; what the system tells of is seen at once"},
    Definition{"listen", Kind::text, "127.0.0.1:8484", 0, 0, false,
               "address of the API; anything but loopback needs a token"},
    Definition{"token", Kind::text, "", 0, 0, true,
               "bearer token that API clients must send; empty = none, loopback only"},
    Definition{"state_dir", Kind::text, "", 0, 0, false,
               "folder of the database and the engines' logs (default: $XDG_STATE_HOME/dgxmm)"},
    Definition{"stop_grace_s", Kind::number, "10", 0, kMaxSeconds, false,
               "seconds between SIGTERM and SIGKILL when an engine is stopped"},
    Definition{"ready_timeout_s", Kind::number, "600", 1, kMaxSeconds, false,
               "seconds that a start may take at least; large models get 10 s per GiB"},
    Definition{"start_floor_gib", Kind::number, "4", 0, kMaxGib, false,
               "a start is ended when less than this is left on the host, or will be within two seconds (GiB)"},
    Definition{"queue_limit_s", Kind::number, "3600", 1, kMaxSeconds, false,
               "the longest that a request waits for its turn, or a start for those before it, before it is given up"},
    Definition{"restore_after_reboot", Kind::text, "on", 0, 0, false,
               "start what ran before a restart of the host again, one after the other: on or off"},
    Definition{"engine_log_mib", Kind::integer, "8", 1, 4096, false, "size at which an engine's log is trimmed (MiB)"},
    Definition{"log_level", Kind::text, "info", 0, 0, false, "debug, info, warning or error"},
};

using Member = std::variant<double Settings::*, std::int64_t Settings::*, std::string Settings::*,
                            std::vector<std::string> Settings::*>;

Member member_of(std::string_view name) {
  static const std::map<std::string_view, Member> kMembers{
      {"safety_margin_gib", &Settings::safety_margin_gib},
      {"os_reserve_gib", &Settings::os_reserve_gib},
      {"min_headroom_gib", &Settings::min_headroom_gib},
      {"budget_interval_s", &Settings::budget_interval_s},
      {"calibration_delay_s", &Settings::calibration_delay_s},
      {"vllm_runtime_fixed_gib", &Settings::vllm_runtime_fixed_gib},
      {"vllm_cuda_graph_gib", &Settings::vllm_cuda_graph_gib},
      {"llamacpp_runtime_fixed_gib", &Settings::llamacpp_runtime_fixed_gib},
      {"llamacpp_cache_ram_mib", &Settings::llamacpp_cache_ram_mib},
      {"llama_server", &Settings::llama_server},
      {"vllm", &Settings::vllm},
      {"nvml_library", &Settings::nvml_library},
      {"host_class", &Settings::host_class},
      {"runtime", &Settings::runtime},
      {"llamacpp_image", &Settings::llamacpp_image},
      {"vllm_image", &Settings::vllm_image},
      {"docker_socket", &Settings::docker_socket},
      {"docker_network", &Settings::docker_network},
      {"model_folders", &Settings::model_folders},
      {"hugging_face_cache", &Settings::hugging_face_cache},
      {"catalog_rescan_s", &Settings::catalog_rescan_s},
      {"listen", &Settings::listen},
      {"token", &Settings::token},
      {"state_dir", &Settings::state_dir},
      {"stop_grace_s", &Settings::stop_grace_s},
      {"ready_timeout_s", &Settings::ready_timeout_s},
      {"start_floor_gib", &Settings::start_floor_gib},
      {"queue_limit_s", &Settings::queue_limit_s},
      {"restore_after_reboot", &Settings::restore_after_reboot},
      {"engine_log_mib", &Settings::engine_log_mib},
      {"log_level", &Settings::log_level},
  };
  return kMembers.at(name);
}

/// A text that is one of a few words.
struct Choice {
  std::string_view name;
  std::array<std::string_view, 4> values;
  std::string_view shown;
};
constexpr std::array kChoices{
    Choice{"log_level", {"debug", "info", "warning", "error"}, "debug, info, warning or error"},
    Choice{"runtime", {"process", "docker", "auto", "auto"}, "process, docker or auto"},
    Choice{"restore_after_reboot", {"on", "off", "on", "off"}, "on or off"},
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

Error unknown_name(const Assignment& assignment) {
  const auto nearest = nearest_name(assignment.name);
  return Error{
      "bad_setting", fmt::format("{}: there is no setting '{}'", assignment.where, assignment.name),
      nearest ? fmt::format("did you mean '{}'?", *nearest) : std::string{"`dgxmm serve --help` lists them all"},
      assignment.where};
}

std::optional<Error> assign(Settings& settings, const Definition& definition, const Assignment& assignment) {
  const auto wrong = [&](std::string expected) {
    return Error{
        "bad_setting",
        fmt::format("{}: '{}' must be {}, not '{}'", assignment.where, definition.name, expected,
                    definition.secret ? std::string{"***"} : fmt::format("{}", fmt::join(assignment.values, ", "))),
        {},
        assignment.where};
  };
  if (definition.kind != Kind::list && assignment.values.size() != 1) return wrong("a single value");
  const auto member = member_of(definition.name);
  if (const auto* number = std::get_if<double Settings::*>(&member)) {
    const auto value = parse_number<double>(assignment.values.front());
    if (!value || !std::isfinite(*value) || *value < definition.minimum || *value > definition.maximum) {
      return wrong(fmt::format("a number from {} to {}", definition.minimum, definition.maximum));
    }
    settings.*(*number) = *value;
  } else if (const auto* integer = std::get_if<std::int64_t Settings::*>(&member)) {
    const auto value = parse_number<std::int64_t>(assignment.values.front());
    if (!value || static_cast<double>(*value) < definition.minimum ||
        static_cast<double>(*value) > definition.maximum) {
      return wrong(fmt::format("a whole number from {} to {}", definition.minimum, definition.maximum));
    }
    settings.*(*integer) = *value;
  } else if (const auto* text = std::get_if<std::string Settings::*>(&member)) {
    settings.*(*text) = assignment.values.front();
  } else {
    settings.*std::get<std::vector<std::string> Settings::*>(member) = assignment.values;
  }
  settings.sources[assignment.name] = assignment.where;
  return std::nullopt;
}

std::string where_of(const Settings& settings, const std::string& name) {
  const auto found = settings.sources.find(name);
  return found == settings.sources.end() ? "default" : found->second;
}

}  // namespace

memory::BudgetSettings Settings::budget() const {
  return {.safety_margin = gib_from_decimal(safety_margin_gib), .os_reserve = gib_from_decimal(os_reserve_gib)};
}

memory::EstimateSettings Settings::estimate() const {
  return {.vllm_runtime_fixed = gib_from_decimal(vllm_runtime_fixed_gib),
          .vllm_cuda_graph = gib_from_decimal(vllm_cuda_graph_gib),
          .llamacpp_runtime_fixed = gib_from_decimal(llamacpp_runtime_fixed_gib)};
}

engine::ConfigDefaults Settings::config_defaults() const { return {.llamacpp_cache_ram_mib = llamacpp_cache_ram_mib}; }

std::vector<model::SearchedFolder> Settings::searched_folders() const {
  std::vector<model::SearchedFolder> folders;
  for (const auto& folder : model_folders) folders.push_back({.path = folder});
  if (!hugging_face_cache.empty() && hugging_face_cache != kAutomatic && hugging_face_cache != kOff) {
    folders.push_back({.path = hugging_face_cache, .may_be_missing = !sources.contains("hugging_face_cache")});
  }
  return folders;
}

engine::RuntimeDefaults Settings::runtime_defaults(engine::EngineKind kind) const {
  return {.runtime = runtime, .image = kind == engine::EngineKind::llamacpp ? llamacpp_image : vllm_image};
}

std::span<const Definition> definitions() { return kDefinitions; }

std::optional<std::string_view> nearest_name(std::string_view mistyped) {
  std::optional<std::string_view> nearest;
  // Further away is no typing mistake; a short name is another word sooner, as "model" is beside "token".
  std::size_t distance = mistyped.size() < 8 ? 3 : 4;
  for (const auto& definition : kDefinitions) {
    const auto d = edit_distance(mistyped, definition.name);
    if (d >= distance) continue;
    distance = d;
    nearest = definition.name;
  }
  return nearest;
}

Result<Settings> apply(std::span<const Assignment> assignments) {
  Settings settings;
  for (const auto& assignment : assignments) {
    const auto* definition = std::ranges::find(kDefinitions, assignment.name, &Definition::name);
    if (definition == kDefinitions.end()) return fail(unknown_name(assignment));
    if (auto error = assign(settings, *definition, assignment)) return fail(std::move(*error));
  }
  for (const auto& choice : kChoices) {
    const auto& value = settings.*std::get<std::string Settings::*>(member_of(choice.name));
    if (std::ranges::find(choice.values, value) != choice.values.end()) continue;
    const auto where = where_of(settings, std::string{choice.name});
    return fail("bad_setting", fmt::format("{}: '{}' must be {}, not '{}'", where, choice.name, choice.shown, value),
                {}, where);
  }
  constexpr std::array<std::string_view, 3> kHostClasses{"auto", "integrated", "none"};
  if (std::ranges::find(kHostClasses, settings.host_class) == kHostClasses.end()) {
    const auto where = where_of(settings, "host_class");
    return fail("bad_setting",
                fmt::format("{}: 'host_class' must be auto, integrated or none, not '{}'", where, settings.host_class),
                {}, where);
  }
  const auto listen = parse_listen(settings.listen);
  const auto listen_where = where_of(settings, "listen");
  if (!listen)
    return fail("bad_setting", fmt::format("{}: {}", listen_where, listen.error().message), listen.error().hint,
                listen_where);
  if (!listen->loopback() && settings.token.empty()) {
    return fail("bad_setting", fmt::format("{}: listening on {} needs a token", listen_where, settings.listen),
                "set `token`, or listen on 127.0.0.1: whoever reaches the API can start and stop engines",
                listen_where);
  }
  return settings;
}

std::string environment_name(std::string_view name) {
  std::string result = "DGXMM_";
  for (const char c : name) result += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return result;
}

std::string flag_name(std::string_view name) {
  std::string result = "--" + std::string{name};
  std::ranges::replace(result, '_', '-');
  return result;
}

bool ListenAddress::loopback() const {
  if (host == "localhost" || host == "::1") return true;
  // An address, not a name that begins like one.
  return host.starts_with("127.") &&
         std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

Result<ListenAddress> parse_listen(std::string_view text) {
  const auto colon = text.rfind(':');
  const auto bad = [&] {
    return fail("bad_setting", fmt::format("'listen' must be ADDRESS:PORT, not '{}'", text),
                "for example 127.0.0.1:8484");
  };
  if (colon == std::string_view::npos) return bad();
  auto host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1));
  if (host.empty() || !port) return bad();
  return ListenAddress{std::string{host}, *port};
}

std::string value_text(const Settings& settings, std::string_view name) {
  const auto* definition = std::ranges::find(kDefinitions, name, &Definition::name);
  if (definition == kDefinitions.end()) return {};
  return std::visit(
      [&](auto member) -> std::string {
        const auto& value = settings.*member;
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return fmt::format("{}", fmt::join(value, ", "));
        } else if constexpr (std::is_same_v<Value, std::string>) {
          return definition->secret && !value.empty() ? "***" : value;
        } else {
          return fmt::format("{}", value);
        }
      },
      member_of(name));
}

std::string reference_page() {
  std::string page =
      "# Settings\n\n"
      "Made from the table in `src/core/settings/settings.cpp`; a test compares the two.\n\n"
      "Each setting can stand in the settings file (TOML; `--config FILE`, else `$XDG_CONFIG_HOME/dgxmm/settings.toml`,\n"
      "`~/.config/dgxmm/settings.toml` or `/etc/dgxmm/settings.toml`), in the environment (`DGXMM_` and the name in\n"
      "capitals; lists are separated by `:`) and as a flag of `dgxmm serve` (`--` and the name with `-`). Flags win over the\n"
      "environment, the environment over the file. A wrong value is an error that names its line, variable or flag, and\n"
      "so is an unknown name in the file or as a flag. Of the variables that begin with `DGXMM_`, one that looks like a\n"
      "mistyped setting is warned about; the others are left to whoever set them.\n\n"
      "A flag's value can be read by every user of the host in the process list: give the token in the file, readable by\n"
      "the daemon's user alone, or as `DGXMM_TOKEN`.\n\n"
      "| setting | default | what |\n| --- | --- | --- |\n";
  for (const auto& definition : kDefinitions) {
    page += fmt::format("| `{}` | {} | {} |\n", definition.name,
                        definition.default_text.empty() ? std::string{} : fmt::format("`{}`", definition.default_text),
                        definition.description);
  }
  page +=
      "\n```toml\n"
      "# /etc/dgxmm/settings.toml\n"
      "model_folders = [\"/models\"]\n"
      "llama_server = \"/usr/local/bin/llama-server\"\n"
      "safety_margin_gib = 8\n"
      "```\n";
  return page;
}

}  // namespace dgxmm::settings
