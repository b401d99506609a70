#pragma once
#include "base/bytes.h"
#include "base/result.h"
#include "core/engine/config.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::engine {

/// Everything needed to write an engine's command line.
struct LaunchSpec {
  std::string executable;  ///< llama-server or vllm; empty: the entrypoint of a container's image
  /// Of a container: what its image runs by itself, with whatever arguments follow.
  std::optional<std::vector<std::string>> image_entrypoint;
  std::string model_path;  ///< first split of a GGUF, or a folder
  std::string served_name;
  std::string host = "127.0.0.1";  ///< where it listens
  std::uint16_t port = 0;
  EngineConfig config;
  /// The flags that this build's --help names; empty = not known, then those of the current build are used.
  std::set<std::string, std::less<>> supported_flags;
  std::string guard_secret;  ///< of vLLM that may sleep: what its guard asks for (guard.h)
  // Of vLLM alone, which sizes itself by the host unless it is told:
  std::optional<Bytes> kv_cache;                 ///< the whole pool, states included
  std::optional<double> gpu_memory_utilization;  ///< what its start-up check may ask for
};

/// Every "-x" and "--long" flag named in an engine's --help.
std::set<std::string, std::less<>> parse_help_flags(std::string_view help);

struct Command {
  std::vector<std::string> arguments;  ///< argv, the executable first
  std::vector<std::pair<std::string, std::string>> environment;
};

/// Loading, as far as the log tells it.
struct Progress {
  std::string phase;  ///< "starting", "reading weights", "creating KV cache", "warming up", "serving"
  friend bool operator==(const Progress&, const Progress&) = default;
};

/// The engine's own accounting of its buffers, collected from its log.
struct EngineAccounting {
  Bytes device;  ///< buffers on a GPU
  Bytes host;    ///< buffers in host memory
  std::optional<Bytes> weights, kv, state, compute, output;
  friend bool operator==(const EngineAccounting&, const EngineAccounting&) = default;
};

/// Requests in flight, from the engine's metrics or slots; absent = the engine did not say.
struct Activity {
  std::optional<std::int64_t> requests_running;
  std::optional<std::int64_t> requests_waiting;
  /// Of all requests since it started, its counters added up: one that came and went since the last look has moved it.
  std::optional<std::int64_t> work_done;
  std::optional<int> sleep_level;  ///< of vLLM: 1 or 2 while it sleeps, else 0
  [[nodiscard]] std::optional<bool> busy() const;
  /// Running and waiting together; absent when one of them is.
  [[nodiscard]] std::optional<std::int64_t> requests() const;
};

/// Why a start failed, in one sentence with the fix, recognised from the log.
struct FailureReason {
  std::string code;  ///< "out_of_memory", "port_taken", "bad_model_file", "bad_option", "engine_died"
  std::string message;
  std::string hint;
};

/// Reads an engine's log line by line. One per start.
class LogReader {
 public:
  virtual ~LogReader() = default;
  virtual void read_line(std::string_view line) = 0;
  [[nodiscard]] virtual Progress progress() const = 0;
  [[nodiscard]] virtual std::optional<EngineAccounting> accounting() const = 0;
  [[nodiscard]] virtual std::optional<FailureReason> failure() const = 0;
  /// What it found free when it looked first, its own process and context being there already.
  [[nodiscard]] virtual std::optional<Bytes> first_seen_free() const { return std::nullopt; }
  /// It says that it is over, whatever its server still answers (D10). Then `failure` says why.
  [[nodiscard]] virtual bool is_over() const { return false; }
};

std::unique_ptr<LogReader> make_log_reader(EngineKind kind);

/// A line that an engine writes each time its metrics are asked for, and that tells nothing: not shown to people.
bool is_routine_line(std::string_view line);

/// The engine's command line. Pure.
Command make_command(const LaunchSpec& spec);

/// Path on the engine's port that says whether it serves, and the one that names its models.
inline constexpr std::string_view kHealthPath = "/health";
inline constexpr std::string_view kModelsPath = "/v1/models";
inline constexpr std::string_view kMetricsPath = "/metrics";
inline constexpr std::string_view kIsSleepingPath = "/is_sleeping";  ///< of vLLM that may sleep

/// Does the answer of /v1/models name `served_name`? Errors: `bad_json`.
Result<bool> names_model(std::string_view models_json, std::string_view served_name);
/// Prometheus text of either engine.
Activity parse_activity(EngineKind kind, std::string_view metrics_text);

}  // namespace dgxmm::engine
