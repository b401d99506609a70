#include "core/engine/vllm.h"

#include "core/engine/prometheus.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dgxmm::engine {
namespace {

class VllmLogReader final : public LogReader {
 public:
  void read_line(std::string_view) override {}
  [[nodiscard]] Progress progress() const override { return {"starting"}; }
  [[nodiscard]] std::optional<EngineAccounting> accounting() const override { return std::nullopt; }
  [[nodiscard]] std::optional<FailureReason> failure() const override { return std::nullopt; }
};

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

}  // namespace

Command make_vllm_command(const LaunchSpec& spec) {
  const auto& config = std::get<VllmConfig>(spec.config);
  Command command;
  // Everything that has a default is written out: vLLM's defaults depend on the GPU and move between releases.
  command.arguments = {
      spec.executable,
      "serve",
      spec.model_path,
      "--served-model-name",
      spec.served_name,
      "--host",
      "127.0.0.1",
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
  if (config.enforce_eager) command.arguments.emplace_back("--enforce-eager");
  add_optional(config, command.arguments);
  return command;
}

std::unique_ptr<LogReader> make_vllm_log_reader() { return std::make_unique<VllmLogReader>(); }

Activity parse_vllm_activity(std::string_view metrics_text) {
  return {.requests_running = sum_samples(metrics_text, "vllm:num_requests_running"),
          .requests_waiting = sum_samples(metrics_text, "vllm:num_requests_waiting")};
}

}  // namespace dgxmm::engine
