#include "core/engine/llamacpp.h"

#include "core/engine/log_marks.h"
#include "core/engine/prometheus.h"
#include "core/engine/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace dgxmm::engine {
namespace {

enum class Phase : std::uint8_t { starting, reading_weights, creating_cache, warming_up, serving };

/// For people.
std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::starting: return "starting";
    case Phase::reading_weights: return "reading weights";
    case Phase::creating_cache: return "creating KV cache";
    case Phase::warming_up: return "warming up";
    case Phase::serving: return "serving";
  }
  return "starting";
}

/// A line of the log that tells how far the start has come.
using PhaseMark = LogMark<Phase>;
constexpr std::array kPhaseMarks{
    PhaseMark{"loading model '", Phase::reading_weights},            // server
    PhaseMark{"loading model tensors", Phase::reading_weights},      // library
    PhaseMark{"constructing llama_context", Phase::creating_cache},  // since 2025-03
    PhaseMark{"KV buffer size =", Phase::creating_cache},            // all
    PhaseMark{"warming up the model", Phase::warming_up},
    PhaseMark{"listening on http", Phase::serving},  // the older "HTTP server is listening" comes before the model
};

/// "<function>: <device> <kind> buffer size = <number> MiB"
struct BufferLine {
  std::string_view device;
  std::string_view kind;
  Bytes size;
};

/// "  15.64 MiB", and what follows it.
std::optional<Bytes> parse_mebibytes(std::string_view number) {
  number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
  constexpr double kLargestMib = 1e7;  // more than any host has
  double mebibytes = 0;
  const auto parsed =
      std::from_chars(number.data(), number.data() + number.size(), mebibytes, std::chars_format::fixed);
  const std::string_view unit{parsed.ptr, static_cast<std::size_t>(number.data() + number.size() - parsed.ptr)};
  if (parsed.ec != std::errc{} || !unit.starts_with(" MiB") || !(mebibytes >= 0 && mebibytes <= kLargestMib)) {
    return std::nullopt;
  }
  return Bytes{std::llround(mebibytes * 1024 * 1024)};
}

std::optional<BufferLine> parse_buffer_line(std::string_view line) {
  constexpr std::string_view kMark = " buffer size =";
  constexpr std::size_t kLongestDevice = 64;
  const auto mark = line.find(kMark);
  // The first ": " ends the function's name, whatever it is called in this build; a device may hold colons and spaces.
  const auto colon = line.find(": ");
  if (mark == std::string_view::npos || colon == std::string_view::npos || colon > mark) return std::nullopt;

  auto subject = line.substr(colon + 1, mark - colon - 1);
  subject.remove_prefix(std::min(subject.find_first_not_of(' '), subject.size()));

  BufferLine buffer;
  static constexpr std::array<std::string_view, 8> kKinds{
      "model", "KV", "RS", "compute", "output", "DSV4 csa state", "DSV4 hca state", "DSV4 lid state"};
  for (const auto kind : kKinds) {
    if (subject.size() > kind.size() && subject.ends_with(kind) && subject[subject.size() - kind.size() - 1] == ' ') {
      buffer.kind = kind;
      buffer.device = subject.substr(0, subject.size() - kind.size());
    }
  }
  buffer.device = buffer.device.substr(0, buffer.device.find_last_not_of(' ') + 1);
  // A model's metadata and a client's request are printed too, and may look like anything.
  if (buffer.device.empty() || buffer.device.size() > kLongestDevice ||
      buffer.device.find_first_of("=\"'{}|") != std::string_view::npos) {
    return std::nullopt;
  }

  const auto size = parse_mebibytes(line.substr(mark + kMark.size()));
  if (!size) return std::nullopt;
  buffer.size = *size;
  return buffer;
}

/// "reserve_compute_meta: … compute buffer size = …" ("alloc_compute_meta" before), not that of a context.
bool is_of_projector(std::string_view line) { return line.substr(0, line.find(": ")).ends_with("_compute_meta"); }

/// CPU, CPU_Mapped, CPU_REPACK and pinned memory such as CUDA_Host.
bool is_host_buffer(std::string_view device) { return device.starts_with("CPU") || device.ends_with("_Host"); }

/// "n_seq_max   = 4" is printed once by every context, in all builds.
bool starts_context(std::string_view line) {
  constexpr std::string_view kName = ": n_seq_max";
  const auto at = line.find(kName);
  if (at == std::string_view::npos) return false;
  const auto next = line.find_first_not_of(' ', at + kName.size());
  return next != std::string_view::npos && line[next] == '=';
}

enum class Cause { port_taken, out_of_memory, bad_model_file, bad_option, broken_installation, gpu_fault, ended };

using FailureMark = LogMark<Cause>;
/// What real servers print; the first line that matches is the root cause, the ones after it its consequences.
constexpr std::array kFailureMarks{
    FailureMark{"couldn't bind", Cause::port_taken},
    FailureMark{"cudaMalloc failed: out of memory", Cause::out_of_memory},
    FailureMark{"CUDA error: out of memory", Cause::out_of_memory},
    FailureMark{"insufficient memory (attempted to allocate", Cause::out_of_memory},
    FailureMark{"failed to allocate buffer for", Cause::out_of_memory},
    FailureMark{"failed to allocate compute", Cause::out_of_memory},
    FailureMark{"unable to allocate", Cause::out_of_memory},
    FailureMark{"invalid argument:", Cause::bad_option},
    FailureMark{"error while handling argument", Cause::bad_option},
    FailureMark{"quantized V cache requires flash_attn", Cause::bad_option},
    FailureMark{"V cache quantization requires flash_attn", Cause::bad_option},
    FailureMark{"does not divide n_embd_head", Cause::bad_option},
    FailureMark{"model does not support different K", Cause::bad_option},
    FailureMark{"n_seq_max must be", Cause::bad_option},
    FailureMark{"failed to create MTP context", Cause::bad_option},
    FailureMark{"invalid magic characters", Cause::bad_model_file},
    FailureMark{"failed to open GGUF file", Cause::bad_model_file},
    FailureMark{"error loading model:", Cause::bad_model_file},
    FailureMark{"Failed to load CLIP model", Cause::bad_model_file},
    FailureMark{"error while loading shared libraries", Cause::broken_installation},
    FailureMark{"CUDA error:", Cause::gpu_fault},
    FailureMark{"exiting due to", Cause::ended},
};

/// Back to the function's name, for what the message says before the mark ("K cache type q8_0 with … does not").
std::string quoted(std::string_view line, std::string_view mark) { return quoted_from(line, mark, ": "); }

FailureReason explain(Cause cause, std::string_view line, std::string_view mark, std::string_view phase) {
  switch (cause) {
    case Cause::port_taken: {
      const auto digits = line.find_last_of("0123456789");
      const auto before = digits == std::string_view::npos ? digits : line.find_last_not_of("0123456789", digits);
      const auto port =
          digits == std::string_view::npos ? std::string_view{"chosen"} : line.substr(before + 1, digits - before);
      return {"port_taken", fmt::format("another program uses port {}", port),
              "choose another port, or leave it open and a free one is taken"};
    }
    case Cause::out_of_memory:
      return {"out_of_memory", fmt::format("llama-server ran out of memory while {}", phase),
              "ask for less (context, slots, a smaller cache type) or stop something; the plans say what fits"};
    case Cause::bad_model_file: {
      const auto words = quoted(line, mark);
      const bool is_new = line.find("unknown model architecture") != std::string_view::npos;
      return {"bad_model_file", fmt::format("llama-server cannot use the model file: {}", words),
              is_new ? "this llama-server does not know the model yet: install a newer one"
                     : "check that the file is complete (its size against where it came from) and readable"};
    }
    case Cause::bad_option:
      return {"bad_option", fmt::format("llama-server refused an option: {}", quoted(line, mark)),
              "change the setting that it names"};
    case Cause::broken_installation:
      return {"engine_died", fmt::format("llama-server cannot start: {}", quoted(line, mark)),
              "install llama-server again, or set the path of another one"};
    case Cause::gpu_fault:
      return {"engine_died", fmt::format("the GPU driver reported a fault: {}", quoted(line, mark)),
              "the kernel's log (dmesg) has the driver's side of it"};
    case Cause::ended: break;
  }
  return {"engine_died", fmt::format("llama-server ended while {}", phase), "the last lines of its log say why"};
}

class LlamaCppLogReader final : public LogReader {
 public:
  void read_line(std::string_view line) override {
    constexpr std::size_t kLongestLine = 4096;  // what matters is at the front
    line = line.substr(0, kLongestLine);
    phase_ = phase_after(phase_, line, kPhaseMarks);
    read_buffer(line);
    read_failure(line);
  }

  [[nodiscard]] Progress progress() const override { return {std::string{name_of(phase_)}}; }

  [[nodiscard]] std::optional<EngineAccounting> accounting() const override {
    if (buffers_.empty()) return std::nullopt;
    EngineAccounting sum;
    for (const auto& [key, size] : buffers_) {
      const auto& [context, kind, device] = key;
      (is_host_buffer(device) ? sum.host : sum.device) += size;
      auto& part = part_of(sum, kind);
      part = part.value_or(Bytes{}) + size;
    }
    return sum;
  }

  [[nodiscard]] std::optional<FailureReason> failure() const override { return root_cause_.reason(); }

 private:
  using Key = std::tuple<int, std::string, std::string>;  ///< context, kind, device

  static std::optional<Bytes>& part_of(EngineAccounting& sum, std::string_view kind) {
    if (kind == "model") return sum.weights;
    if (kind == "KV") return sum.kv;
    if (kind == "compute") return sum.compute;
    if (kind == "output") return sum.output;
    return sum.state;  // RS, DSV4 … state
  }

  void read_buffer(std::string_view line) {
    // Asleep, the engine has given everything back; waking up prints all lines again.
    if (line.find("server is entering sleeping state") != std::string_view::npos) {
      buffers_.clear();
      context_ = 0;
      projector_ = 0;
      return;
    }
    if (starts_context(line)) {
      ++context_;
      return;
    }
    if (read_projector(line)) return;
    const auto buffer = parse_buffer_line(line);
    if (!buffer) return;
    const int owner = is_of_projector(line) ? projector_ : context_;
    auto& size = buffers_[Key{owner, std::string{buffer->kind}, std::string{buffer->device}}];
    // These two are reserved anew when the graph changes, in place of the old one. A model buffer and the caches of a
    // model with windows are printed in several lines, which add up.
    const bool replaces = buffer->kind == "compute" || buffer->kind == "output";
    size = replaces ? buffer->size : size + buffer->size;
  }

  /// A projector names its backend first ("clip_ctx: CLIP using CUDA0 backend"), and then the size of its weights.
  /// There may be one for pictures and one for sound.
  bool read_projector(std::string_view line) {
    constexpr std::string_view kBackend = "CLIP using ";
    constexpr std::string_view kSize = "model size:";
    constexpr std::size_t kLongestDevice = 64;
    if (const auto at = line.find(kBackend); at != std::string_view::npos) {
      const auto device = line.substr(at + kBackend.size());
      const auto end = device.find(" backend");
      if (end == std::string_view::npos || end > kLongestDevice) return false;
      projector_device_ = device.substr(0, end);
      --projector_;
      return true;
    }
    const auto at = line.find(kSize);
    if (projector_device_.empty() || at == std::string_view::npos) return false;
    const auto size = parse_mebibytes(line.substr(at + kSize.size()));
    if (size) buffers_[Key{projector_, "model", projector_device_}] = *size;
    projector_device_.clear();
    return size.has_value();
  }

  void read_failure(std::string_view line) {
    using Weight = RootCause::Weight;
    if (root_cause_.is_certain()) return;
    const auto* mark = find_mark(line, kFailureMarks);
    if (mark == nullptr) return;
    root_cause_.take(explain(mark->meaning, line, mark->text, name_of(phase_)),
                     mark->meaning == Cause::ended ? Weight::ended : Weight::certain);
  }

  Phase phase_ = Phase::starting;
  int context_ = 0;
  int projector_ = 0;             ///< counted downwards, to be told from contexts
  std::string projector_device_;  ///< until the size of its weights is known
  std::map<Key, Bytes> buffers_;
  RootCause root_cause_;
};

/// What drafts tokens, by the names that this build has for it; those of the current build come first.
std::vector<std::string> draft_arguments(const LlamaCppConfig& config, const LaunchSpec& spec) {
  if (config.spec_type == SpecType::none) return {};
  std::vector<std::string> arguments;
  const auto add = [&](std::initializer_list<std::string_view> names, std::string_view value) {
    const auto known = std::ranges::find_if(names, [&](auto name) { return spec.supported_flags.contains(name); });
    if (known == names.end() && !spec.supported_flags.empty()) return;
    arguments.emplace_back(known == names.end() ? *names.begin() : *known);
    arguments.emplace_back(value);
  };
  // A build without --spec-type drafts with whatever draft model it is given, and has to refuse draft-mtp.
  if (config.spec_type == SpecType::draft_mtp || spec.supported_flags.empty() ||
      spec.supported_flags.contains("--spec-type")) {
    arguments = {"--spec-type", std::string{name_of(config.spec_type)}};
  }
  if (!config.draft_model.empty()) add({"--spec-draft-model", "--model-draft"}, config.draft_model);
  // Current builds still name --draft-max, only to say that it is gone.
  add({"--spec-draft-n-max", "--draft-max"}, std::to_string(config.spec_draft_n_max));
  add({"--spec-draft-type-k", "--cache-type-k-draft"}, name_of(config.cache_type_k_draft));
  add({"--spec-draft-type-v", "--cache-type-v-draft"}, name_of(config.cache_type_v_draft));
  return arguments;
}

}  // namespace

Command make_llamacpp_command(const LaunchSpec& spec) {
  const auto& config = std::get<LlamaCppConfig>(spec.config);
  const auto knows = [&](std::string_view flag) {
    return spec.supported_flags.empty() || spec.supported_flags.contains(flag);
  };
  Command command;
  auto& arguments = command.arguments;
  arguments = {
      spec.executable,
      "--model",
      spec.model_path,
      "--alias",
      spec.served_name,
      "--host",
      spec.host,
      "--port",
      std::to_string(spec.port),
      "--ctx-size",
      std::to_string(config.ctx_size),
      "--parallel",
      std::to_string(config.parallel),
      "--cache-type-k",
      std::string{name_of(config.cache_type_k)},
      "--cache-type-v",
      std::string{name_of(config.cache_type_v)},
      "--batch-size",
      std::to_string(config.batch),
      "--ubatch-size",
      std::to_string(config.ubatch),
      "--flash-attn",
      std::string{name_of(config.flash_attn)},
      "--metrics",
  };
  const auto add = [&](std::string_view flag, std::string_view value = {}) {
    if (!knows(flag)) return;
    arguments.emplace_back(flag);
    if (!value.empty()) arguments.emplace_back(value);
  };
  add(config.kv_unified ? "--kv-unified" : "--no-kv-unified");
  if (config.swa_full) add("--swa-full");
  for (auto& argument : draft_arguments(config, spec)) arguments.push_back(std::move(argument));
  if (!config.mmproj.empty()) {
    arguments.emplace_back("--mmproj");
    arguments.emplace_back(config.mmproj);
  }
  add("--cache-ram", std::to_string(config.cache_ram_mib));
  add("--ctx-checkpoints", std::to_string(kContextCheckpoints));
  // Weights belong where they are measured: in the engine's own memory, not in reclaimable page cache.
  if (knows("--load-mode")) {
    add("--load-mode", "none");
  } else {
    add("--no-mmap");
  }
  add("--fit", "off");          // or it would lower what was asked for, and what was planned with
  add("--log-verbosity", "4");  // below it the buffer sizes are not printed (since b9151)
  add(knows("--no-ui") ? "--no-ui" : "--no-webui");
  add("--offline");
  return command;
}

std::unique_ptr<LogReader> make_llamacpp_log_reader() { return std::make_unique<LlamaCppLogReader>(); }

Activity parse_llamacpp_activity(std::string_view metrics_text) {
  return {.requests_running = sum_samples(metrics_text, "llamacpp:requests_processing"),
          .requests_waiting = sum_samples(metrics_text, "llamacpp:requests_deferred"),
          // The last is moved by embeddings too.
          .work_done = sum_metrics(metrics_text, {"llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total",
                                                  "llamacpp:n_decode_total"}),
          .sleep_level = {}};
}

}  // namespace dgxmm::engine
