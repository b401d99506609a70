#pragma once
#include "base/result.h"
#include "core/engine/request.h"
#include "core/engine/runtime_choice.h"
#include "core/memory/budget.h"
#include "core/memory/estimate.h"
#include "core/model/catalog.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::settings {

/// Everything that can be set, checked; the names are those of the settings file.
struct Settings {
  double safety_margin_gib = 8;
  double os_reserve_gib = 4;
  double min_headroom_gib = 2;
  double budget_interval_s = 2;
  double calibration_delay_s = 15;
  double vllm_runtime_fixed_gib = 3;
  double vllm_cuda_graph_gib = 1.5;
  double llamacpp_runtime_fixed_gib = 0.5;
  std::int64_t llamacpp_cache_ram_mib = 1024;
  std::string llama_server = "llama-server";
  std::string vllm = "vllm";
  std::string nvml_library = "libnvidia-ml.so.1";
  std::string host_class = "auto";
  std::string runtime = "auto";
  std::string llamacpp_image;
  std::string vllm_image;
  std::string docker_socket = "/var/run/docker.sock";
  std::string docker_network;
  std::vector<std::string> model_folders;
  std::string hugging_face_cache = "auto";
  double catalog_rescan_s = 60;
  std::string listen = "127.0.0.1:8484";
  std::string token;
  std::string state_dir;
  double stop_grace_s = 10;
  double ready_timeout_s = 600;
  double start_floor_gib = 4;
  double queue_limit_s = 3600;
  std::string restore_after_reboot = "on";
  std::int64_t engine_log_mib = 8;
  std::string log_level = "info";

  /// Which of them did not come from the defaults, and from where: "settings.toml:3", "DGXMM_LISTEN", "--listen".
  std::map<std::string, std::string> sources;

  [[nodiscard]] memory::BudgetSettings budget() const;
  [[nodiscard]] memory::EstimateSettings estimate() const;
  [[nodiscard]] engine::ConfigDefaults config_defaults() const;
  /// The model folders, and the Hugging Face cache when it is known where it is.
  [[nodiscard]] std::vector<model::SearchedFolder> searched_folders() const;
  [[nodiscard]] engine::RuntimeDefaults runtime_defaults(engine::EngineKind kind) const;
};

enum class Kind { number, integer, text, list };

/// One row of the table that everything else is made from: parsing, `--help`, the reference page, the error texts.
struct Definition {
  std::string_view name;
  Kind kind;
  std::string_view default_text;
  double minimum = 0;  ///< for numbers
  double maximum = 0;
  bool secret = false;
  std::string_view description;
};

std::span<const Definition> definitions();

/// The setting that was meant by a name which is none; absent when the name is like none of them.
std::optional<std::string_view> nearest_name(std::string_view mistyped);

/// Values of `hugging_face_cache` that are no folder.
inline constexpr std::string_view kAutomatic = "auto";
inline constexpr std::string_view kOff = "off";

/// A value on its way into the settings. `where` names the line, variable or flag, for error messages.
struct Assignment {
  std::string name;
  std::vector<std::string> values;  ///< one text, or the items of a list
  std::string where;
};

/// The defaults changed by the assignments, later ones winning. Errors: `bad_setting` with `where`: an unknown name
/// (and the nearest known one), a value of the wrong kind or out of range, a listen address that needs a token.
Result<Settings> apply(std::span<const Assignment> assignments);

/// "DGXMM_SAFETY_MARGIN_GIB"
std::string environment_name(std::string_view name);
/// "--safety-margin-gib"
std::string flag_name(std::string_view name);

struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
  [[nodiscard]] bool loopback() const;
};
Result<ListenAddress> parse_listen(std::string_view text);

/// Set fields by name, as text for people and for the API; secrets are masked.
std::string value_text(const Settings& settings, std::string_view name);

/// docs/settings.md, from the table.
std::string reference_page();

}  // namespace dgxmm::settings
