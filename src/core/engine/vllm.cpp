#include "core/engine/vllm.h"

#include "base/json_codec.h"
#include "base/masking.h"
#include "core/engine/guard.h"
#include "core/engine/log_marks.h"
#include "core/engine/prometheus.h"
#include "core/engine/runtime_choice.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace dgxmm::engine {
namespace {

enum class Phase : std::uint8_t { starting, reading_weights, profiling, creating_cache, capturing_graphs, serving };

/// For people.
std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::starting: return "starting";
    case Phase::reading_weights: return "reading weights";
    case Phase::profiling: return "profiling a full step";
    case Phase::creating_cache: return "creating KV cache";
    case Phase::capturing_graphs: return "capturing graphs";
    case Phase::serving: return "serving";
  }
  return "starting";
}

/// A line of the log that tells how far the start has come.
using PhaseMark = LogMark<Phase>;
constexpr std::array kPhaseMarks{
    PhaseMark{"Starting to load model", Phase::reading_weights},
    PhaseMark{"Loading safetensors checkpoint shards", Phase::reading_weights},
    PhaseMark{"Checkpoint size:", Phase::reading_weights},
    PhaseMark{"Model loading took", Phase::profiling},
    PhaseMark{"Loading model weights took", Phase::profiling},  // V0
    PhaseMark{"Profiling CUDA graph memory", Phase::profiling},
    PhaseMark{"Available KV cache memory:", Phase::creating_cache},
    PhaseMark{"memory for KV Cache as specified", Phase::creating_cache},
    PhaseMark{"KV cache size:", Phase::creating_cache},
    PhaseMark{"Capturing CUDA graph", Phase::capturing_graphs},
    PhaseMark{"Graph capturing finished", Phase::capturing_graphs},
    PhaseMark{"Starting vLLM", Phase::serving},
    PhaseMark{"Application startup complete", Phase::serving},
};

/// The number that follows `text` in the line, with spaces between and `unit` behind it.
std::optional<double> number_after(std::string_view line, std::string_view text, std::string_view unit = {}) {
  const auto at = line.find(text);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + text.size());
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  double value = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value, std::chars_format::fixed);
  if (parsed.ec != std::errc{}) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(parsed.ptr - line.data()));
  if (!line.starts_with(unit)) return std::nullopt;
  return value;
}

/// "… took 56.93 GiB memory": GiB with a number before it, as vLLM prints sizes. Negative ones are its own mistakes on
/// hosts whose page cache moves (vLLM issue 44740).
std::optional<Bytes> gib_after(std::string_view line, std::string_view text) {
  constexpr double kMostGib = 1 << 20;
  const auto value = number_after(line, text, " G");  // "GiB", in old versions "GB"
  if (!value || *value < 0 || *value > kMostGib) return std::nullopt;
  return Bytes{std::llround(*value * 1024 * 1024 * 1024)};
}

enum class Cause {
  not_enough_free,
  pool_too_small,
  pool_too_small_v0,
  no_room_for_cache,
  memory_freed_meanwhile,
  out_of_memory,
  out_of_memory_warming_up,
  woke_or_slept_wrong,
  no_gpu,
  port_taken,
  bad_model_file,
  bad_option,
  cannot_sleep,
  unsupported,
  ended,
};

constexpr std::string_view kRefused = "validation error for";

using FailureMark = LogMark<Cause>;
/// The first line that matches is the root cause, the ones after it its consequences; but `ended` only stands in for
/// one.
constexpr std::array kFailureMarks{
    FailureMark{"on startup is less than desired", Cause::not_enough_free},
    FailureMark{"To serve at least one request with the model", Cause::pool_too_small},
    FailureMark{"is larger than the maximum number of tokens that can be stored in KV cache", Cause::pool_too_small_v0},
    FailureMark{"No available memory for the cache blocks", Cause::no_room_for_cache},
    FailureMark{"Cannot auto-fit max_model_len", Cause::no_room_for_cache},
    FailureMark{"Error in memory profiling", Cause::memory_freed_meanwhile},
    FailureMark{"not enough GPU memory", Cause::out_of_memory},
    FailureMark{"CUDA out of memory occurred when warming up", Cause::out_of_memory_warming_up},
    FailureMark{"CUDA out of memory", Cause::out_of_memory},
    FailureMark{"CUDA Error: out of memory", Cause::out_of_memory},
    FailureMark{"DefaultCPUAllocator: not enough memory", Cause::out_of_memory},
    FailureMark{"Memory usage increased after sleeping", Cause::woke_or_slept_wrong},
    FailureMark{"No CUDA GPUs are available", Cause::no_gpu},
    FailureMark{"Failed to infer device type", Cause::no_gpu},
    FailureMark{"CUDA driver version is insufficient", Cause::no_gpu},
    FailureMark{"no kernel image is available for execution", Cause::no_gpu},
    FailureMark{"Address already in use", Cause::port_taken},
    FailureMark{"address already in use", Cause::port_taken},
    FailureMark{"error: unrecognized arguments", Cause::bad_option},
    FailureMark{"error: argument", Cause::bad_option},
    FailureMark{"does not recognize this architecture", Cause::unsupported},
    FailureMark{"page size is not divisible", Cause::unsupported},
    FailureMark{"Model architectures [", Cause::unsupported},
    FailureMark{"Sleep mode is not supported on current platform", Cause::cannot_sleep},
    FailureMark{kRefused, Cause::bad_option},
    FailureMark{"Value error, ", Cause::bad_option},
    FailureMark{"Cannot find any model weights", Cause::bad_model_file},
    FailureMark{"weights were not initialized from checkpoint", Cause::bad_model_file},
    FailureMark{"SafetensorError", Cause::bad_model_file},
    FailureMark{"Can't load the configuration of", Cause::bad_model_file},
    FailureMark{"Invalid repository ID or local directory", Cause::bad_model_file},
    FailureMark{"Engine core initialization failed", Cause::ended},
    FailureMark{"EngineCore failed to start", Cause::ended},
    FailureMark{"WorkerProc failed to start", Cause::ended},
    FailureMark{"EngineCore encountered a fatal error", Cause::ended},
};

/// "[(EngineCore pid=7) ]ERROR 11-30 02:10:11 [core.py:1] ValueError: message" -> "ValueError: message"
std::string quoted(std::string_view line, std::string_view mark) { return quoted_from(line, mark, "] "); }

/// "(62.3/121.69 GiB)" behind `text`: what is free of what there is.
std::string free_of(std::string_view line, std::string_view text) {
  const auto at = line.find(text);
  const auto open = at == std::string_view::npos ? at : line.find('(', at);
  const auto close = open == std::string_view::npos ? open : line.find(')', open);
  if (close == std::string_view::npos) return {};
  const auto inside = line.substr(open + 1, close - open - 1);
  const auto slash = inside.find('/');
  if (slash == std::string_view::npos) return {};
  return printable(fmt::format("{} of {}", inside.substr(0, slash), inside.substr(slash + 1)));
}

FailureReason explain(Cause cause, std::string_view line, std::string_view mark, std::string_view phase) {
  switch (cause) {
    case Cause::not_enough_free: {
      const auto free = free_of(line, "Free memory on device");
      const auto utilization = number_after(line, "desired GPU memory utilization (");
      auto message = free.empty() ? std::string{"vLLM found less memory free than it was to use"}
                                  : fmt::format("vLLM found {} free, less than it was to use", free);
      if (utilization) message += fmt::format(" (gpu_memory_utilization {})", *utilization);
      return {"not_enough_free", std::move(message),
              "something else took memory while it started: see `dgxmm processes`, then start it again"};
    }
    case Cause::pool_too_small: {
      const auto length = number_after(line, "max seq len (");
      const auto needed = number_after(line, "), (");
      const auto there = number_after(line, "available KV cache memory (");
      const auto longest = number_after(line, "estimated maximum model length is");
      if (!length || !needed || !there) break;
      auto message = fmt::format("one request of {:.0f} tokens needs {} GiB of KV cache, {} GiB are there", *length,
                                 *needed, *there);
      auto hint = longest ? fmt::format("set max_model_len to at most {:.0f}, or kv_tokens to more", *longest)
                          : std::string{"set a smaller max_model_len, or more kv_tokens"};
      return {"kv_cache_too_small", std::move(message), std::move(hint)};
    }
    case Cause::pool_too_small_v0: {
      const auto length = number_after(line, "max seq len (");
      const auto there = number_after(line, "stored in KV cache (");
      if (!length || !there) break;
      return {"kv_cache_too_small",
              fmt::format("one request of {:.0f} tokens needs more KV cache than there is, which holds {:.0f}", *length,
                          *there),
              fmt::format("set max_model_len to at most {:.0f}, or kv_tokens to more", *there)};
    }
    case Cause::no_room_for_cache:
      return {"kv_cache_too_small", "vLLM had no memory left for its KV cache",
              "ask for less (max_num_batched_tokens, max_num_seqs), or free memory first"};
    case Cause::memory_freed_meanwhile:
      return {"memory_moved", "another program gave memory back while vLLM measured its own, which it does not bear",
              "start it again, with nothing else starting or ending beside it"};
    case Cause::out_of_memory:
      return {"out_of_memory", fmt::format("vLLM ran out of memory while {}: {}", phase, quoted(line, mark)),
              "ask for less (max_model_len, max_num_seqs, max_num_batched_tokens, fp8 KV) or stop something"};
    case Cause::out_of_memory_warming_up: {
      const auto requests = number_after(line, " with ");
      return {"out_of_memory", fmt::format("vLLM ran out of memory while warming up: {}", quoted(line, mark)),
              requests ? fmt::format("set max_num_seqs below {:.0f}", *requests)
                       : std::string{"set a smaller max_num_seqs"}};
    }
    case Cause::woke_or_slept_wrong:
      return {"sleep_failed", "something else took memory while it fell asleep, which vLLM does not bear",
              "start it again; put it to sleep when nothing else starts"};
    case Cause::no_gpu:
      return {"gpu_not_available", fmt::format("vLLM cannot use this host's GPU: {}", quoted(line, mark)),
              "check `nvidia-smi`, and that this vLLM is built for this GPU and driver"};
    case Cause::port_taken:
      return {"port_taken", "another program uses the port",
              "choose another port, or leave it open and a free one is taken"};
    case Cause::bad_model_file:
      return {"bad_model_file", fmt::format("vLLM cannot use the model's files: {}", quoted(line, mark)),
              "check that the folder is complete and readable"};
    case Cause::bad_option:
      return {"bad_option", fmt::format("vLLM refused an option: {}", quoted(line, mark)),
              "change the setting that it names"};
    case Cause::cannot_sleep:
      return {"bad_option", "this vLLM cannot put a model to sleep on this host", "leave sleep_mode out"};
    case Cause::unsupported:
      return {"bad_model_file", fmt::format("this vLLM cannot serve the model: {}", quoted(line, mark)),
              "a newer vLLM may; its release notes name the models"};
    case Cause::ended: break;
  }
  return {"engine_died", fmt::format("vLLM ended while {}", phase), "the last lines of its log say why"};
}

class VllmLogReader final : public LogReader {
 public:
  void read_line(std::string_view line) override {
    constexpr std::size_t kLongestLine = 4096;
    line = line.substr(0, kLongestLine);
    phase_ = phase_after(phase_, line, kPhaseMarks);
    on_host_ = on_host_ || line.find("[cpu_worker.py") != std::string_view::npos ||
               line.find("[cpu_model_runner.py") != std::string_view::npos ||
               line.find("detected platform cpu") != std::string_view::npos;
    read_sizes(line);
    read_failure(line);
  }

  [[nodiscard]] Progress progress() const override { return {std::string{name_of(phase_)}}; }

  [[nodiscard]] std::optional<EngineAccounting> accounting() const override {
    if (!weights_) return std::nullopt;
    EngineAccounting sum;
    sum.weights = weights_;
    sum.kv = kv_;
    if (activations_ || graphs_) sum.compute = activations_.value_or(Bytes{}) + graphs_.value_or(Bytes{});
    const auto all = *weights_ + kv_.value_or(Bytes{}) + sum.compute.value_or(Bytes{});
    (on_host_ ? sum.host : sum.device) = all;
    return sum;
  }

  [[nodiscard]] std::optional<FailureReason> failure() const override { return root_cause_.reason(); }

  [[nodiscard]] std::optional<Bytes> first_seen_free() const override { return first_seen_free_; }

  [[nodiscard]] bool is_over() const override { return over_; }

 private:
  static void take(std::optional<Bytes>& value, std::optional<Bytes> read) {
    if (read) value = read;
  }

  void read_sizes(std::string_view line) {
    take(first_seen_free_, gib_after(line, "Initial free memory"));
    if (line.find("on startup") != std::string_view::npos) take(first_seen_free_, free_on_device(line));
    take(weights_, gib_after(line, "Model loading took"));
    take(weights_, gib_after(line, "Loading model weights took"));
    take(kv_, gib_after(line, "Available KV cache memory:"));
    if (line.find("memory for KV Cache") != std::string_view::npos) take(kv_, gib_after(line, ", reserved"));
    take(kv_, gib_after(line, "Current kv cache memory in use is"));
    // The line that sums up a start names its parts with the figure in front: "3.86 GiB for peak activation".
    if (const auto peak = figure_before(line, " GiB for peak activation")) activations_ = peak;
    take(graphs_, gib_after(line, "CUDA graph pool memory:"));
    if (line.find("Graph capturing finished") != std::string_view::npos) take(graphs_, gib_after(line, "secs, took"));
  }

  /// "Free memory on device cuda:0 (62.3/121.69 GiB) on startup"
  static std::optional<Bytes> free_on_device(std::string_view line) {
    const auto at = line.find("Free memory on device");
    if (at == std::string_view::npos) return std::nullopt;
    const auto value = number_after(line.substr(at), "(", "/");
    return value && *value >= 0 ? std::optional{gib_from_decimal(*value)} : std::nullopt;
  }

  static std::optional<Bytes> figure_before(std::string_view line, std::string_view text) {
    const auto at = line.find(text);
    if (at == std::string_view::npos) return std::nullopt;
    const auto begin = line.substr(0, at).find_last_not_of("0123456789.-");
    return gib_after(line.substr(begin == std::string_view::npos ? 0 : begin + 1), "");
  }

  void read_failure(std::string_view line) {
    using Weight = RootCause::Weight;
    over_ = over_ || std::ranges::any_of(kFailureMarks, [line](const auto& mark) {
              return mark.meaning == Cause::ended && line.find(mark.text) != std::string_view::npos;
            });
    if (root_cause_.is_certain()) return;
    const auto* mark = find_mark(line, kFailureMarks);
    if (mark == nullptr) return;
    const auto weight = mark->meaning == Cause::ended ? Weight::ended
                        : mark->text == kRefused      ? Weight::vague  // what is wrong stands in the line behind it
                                                      : Weight::certain;
    root_cause_.take(explain(mark->meaning, line, mark->text, name_of(phase_)), weight);
  }

  Phase phase_ = Phase::starting;
  bool on_host_ = false;
  bool over_ = false;
  std::optional<Bytes> weights_, kv_, activations_, graphs_, first_seen_free_;
  RootCause root_cause_;
};

bool is_program(std::string_view word, std::string_view name) {
  const auto slash = word.rfind('/');
  return word.substr(slash == std::string_view::npos ? 0 : slash + 1) == name;
}

/// "ENTRYPOINT vllm serve …" in a Dockerfile: takes no arguments.
bool is_shell_line(const std::vector<std::string>& entrypoint) {
  return entrypoint.size() > 1 && entrypoint[1] == "-c" &&
         (is_program(entrypoint[0], "sh") || is_program(entrypoint[0], "bash"));
}

/// Everything up to the first option. In a container the image's entrypoint says some of it already: `vllm serve` in
/// vllm/vllm-openai, the module of its server in older ones (which has the model as an option); NVIDIA's, and others,
/// run whatever arguments they get.
std::vector<std::string> first_words(const LaunchSpec& spec) {
  if (!spec.image_entrypoint) return {spec.executable, "serve", spec.model_path};
  const auto& entrypoint = *spec.image_entrypoint;
  if (entrypoint.empty() || is_shell_line(entrypoint)) return {"vllm", "serve", spec.model_path};
  const auto& last = entrypoint.back();
  if (last == "vllm.entrypoints.openai.api_server" || is_program(last, "api_server.py")) {
    return {"", "--model", spec.model_path};
  }
  if (is_program(last, "vllm")) return {"", "serve", spec.model_path};
  if (last == "serve" && entrypoint.size() > 1 && is_program(entrypoint[entrypoint.size() - 2], "vllm")) {
    return {"", spec.model_path};
  }
  return {"", "vllm", "serve", spec.model_path};
}

/// What is off, or left to the model, by default.
void add_optional(const VllmConfig& config, std::vector<std::string>& arguments) {
  const auto add = [&arguments](std::string_view flag, const std::string& value) {
    arguments.emplace_back(flag);
    arguments.push_back(value);
  };
  if (config.tensor_parallel_size != 1) add("--tensor-parallel-size", std::to_string(config.tensor_parallel_size));
  if (!config.quantization.empty()) add("--quantization", config.quantization);
  if (!config.spec_method.empty()) {
    boost::json::object speculation{{"method", config.spec_method},
                                    {"num_speculative_tokens", config.num_speculative_tokens}};
    if (!config.draft_model.empty()) speculation["model"] = config.draft_model;
    add("--speculative-config", boost::json::serialize(speculation));
  }
  if (config.enable_lora) {
    arguments.emplace_back("--enable-lora");
    add("--max-loras", std::to_string(config.max_loras));
    add("--max-lora-rank", std::to_string(config.max_lora_rank));
  }
  if (config.language_model_only) arguments.emplace_back("--language-model-only");
  if (const auto& limit = config.limit_mm_per_prompt) {
    add("--limit-mm-per-prompt", fmt::format(R"({{"image":{0},"video":{0},"audio":{0}}})", *limit));
  }
  if (const auto& cache = config.mm_processor_cache_gb) add("--mm-processor-cache-gb", std::to_string(*cache));
}

/// `vllm:engine_sleep_state`: one sample of each state, 1 for the one that it is in (vllm/v1/metrics/loggers.py, 0.32).
std::optional<int> sleep_level_in(std::string_view metrics_text) {
  const auto is_in = [&](std::string_view state) {
    return sum_samples(metrics_text, "vllm:engine_sleep_state", fmt::format("sleep_state=\"{}\"", state));
  };
  const auto offloaded = is_in("weights_offloaded");
  const auto discarded = is_in("discard_all");
  if (!offloaded || !discarded) return std::nullopt;
  if (*discarded > 0) return 2;
  return *offloaded > 0 ? 1 : 0;
}

}  // namespace

Bytes taken_before_the_first_look(std::optional<Bytes> most_measured) {
  constexpr Bytes kTypical = gib(3);
  constexpr Bytes kScatter = mib(512);
  return most_measured ? std::max(*most_measured + kScatter, kTypical) : kTypical;
}

double gpu_memory_utilization(Bytes reserved, Bytes mem_total, Bytes seen_free, Bytes taken_first) {
  const auto most = std::max(seen_free - taken_first, Bytes{});
  const auto wanted = std::min(reserved, most);
  const auto hundredths = mem_total > Bytes{} ? wanted.count() / (mem_total.count() / 100 + 1) : 0;
  return static_cast<double>(std::clamp<std::int64_t>(hundredths, 1, 99)) / 100;
}

Bytes seen_free(Bytes mem_available, std::optional<Bytes> mem_free, bool pool_is_given) {
  return pool_is_given && mem_free ? std::min(mem_available, *mem_free) : mem_available;
}

Command make_vllm_command(const LaunchSpec& spec) {
  const auto& config = std::get<VllmConfig>(spec.config);
  Command command;
  // Everything that has a default is written out: vLLM's defaults depend on the GPU and move between releases.
  command.arguments = first_words(spec);
  const std::vector<std::string> options{
      "--served-model-name",
      spec.served_name,
      "--host",
      spec.host,
      "--port",
      std::to_string(spec.port),
      "--max-model-len",
      std::to_string(config.max_model_len),
      "--max-num-seqs",
      std::to_string(config.max_num_seqs),
      "--max-num-batched-tokens",
      std::to_string(config.max_num_batched_tokens),
      "--kv-cache-dtype",
      config.kv_cache_dtype,
  };
  command.arguments.insert(command.arguments.end(), options.begin(), options.end());
  if (spec.kv_cache) {
    command.arguments.emplace_back("--kv-cache-memory-bytes");
    command.arguments.push_back(std::to_string(spec.kv_cache->count()));
  }
  if (spec.gpu_memory_utilization) {
    command.arguments.emplace_back("--gpu-memory-utilization");
    command.arguments.push_back(fmt::format("{:.2f}", *spec.gpu_memory_utilization));
  }
  if (config.enforce_eager) command.arguments.emplace_back("--enforce-eager");
  if (config.sleep_mode) command.arguments.emplace_back("--enable-sleep-mode");
  add_optional(config, command.arguments);
  command.environment = {
      // On GB10 it has been off by 100 GiB in both directions (vLLM issues 44740, 53013); graphs are in the
      // reservation.
      {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0"},
      {"VLLM_NO_USAGE_STATS", "1"},
      {"HF_HUB_OFFLINE", "1"},  // the model is a folder on this disk
      {"TRANSFORMERS_OFFLINE", "1"},
      // The first start of a model may compile kernels: each compiler takes GiB of the same pool.
      {"MAX_JOBS", "4"},
  };
  if (spec.image_entrypoint) {
    // Images set some of these to places that a container of ours cannot write, or that end with it.
    const std::string home{kContainerHome};
    for (const auto& [name, folder] : {std::pair{"XDG_CACHE_HOME", "/cache"},
                                       {"HF_HOME", "/huggingface"},
                                       {"VLLM_CACHE_ROOT", "/vllm"},
                                       {"TRITON_CACHE_DIR", "/triton"},
                                       {"TORCHINDUCTOR_CACHE_DIR", "/torchinductor"},
                                       {"FLASHINFER_WORKSPACE_BASE", "/flashinfer"}}) {
      command.environment.emplace_back(name, home + folder);
    }
  }
  if (config.sleep_mode) {
    // The routes for sleeping, and others; its port is open on this host alone, and the guard keeps them for dgxmm.
    command.environment.emplace_back("VLLM_SERVER_DEV_MODE", "1");
    command.environment.emplace_back(kGuardVariable, spec.guard_secret);
    command.arguments.emplace_back("--middleware");
    command.arguments.emplace_back(kGuardOption);
    // Expandable segments, which the daemon's environment may ask for, exclude the allocator that sleeps.
    command.environment.emplace_back("PYTORCH_CUDA_ALLOC_CONF", "");
  }
  return command;
}

std::unique_ptr<LogReader> make_vllm_log_reader() { return std::make_unique<VllmLogReader>(); }

EngineCall sleep_call(int level) { return {.path = fmt::format("/sleep?level={}&mode=wait", level), .body = {}}; }

EngineCall wake_call(std::string_view tag) { return {.path = fmt::format("/wake_up?tags={}", tag), .body = {}}; }

EngineCall reload_weights_call() { return {.path = "/collective_rpc", .body = R"({"method": "reload_weights"})"}; }

Result<bool> parse_is_sleeping(std::string_view body) {
  const auto document = json::parse(body);
  if (!document) return fail(document.error());
  const auto* object = document->if_object();
  const auto* found = object == nullptr ? nullptr : object->if_contains("is_sleeping");
  if (found == nullptr || !found->is_bool()) {
    return fail("bad_field", "is_sleeping: expected true or false", {}, "is_sleeping");
  }
  return found->get_bool();
}

std::optional<SleepFreed> parse_sleep_line(std::string_view line) {
  constexpr std::string_view kLine = "CuMemAllocator: sleep freed";
  const auto total = gib_after(line, kLine);
  const auto kept = gib_after(line, "memory in total, of which");
  if (!total || !kept || *kept > *total) return std::nullopt;
  return SleepFreed{.total = *total, .backed_up = *kept};
}

Activity parse_vllm_activity(std::string_view metrics_text) {
  return {.requests_running = sum_samples(metrics_text, "vllm:num_requests_running"),
          .requests_waiting = sum_samples(metrics_text, "vllm:num_requests_waiting"),
          .work_done = sum_metrics(metrics_text, {"vllm:prompt_tokens_total", "vllm:generation_tokens_total"}),
          .sleep_level = sleep_level_in(metrics_text)};
}

}  // namespace dgxmm::engine
