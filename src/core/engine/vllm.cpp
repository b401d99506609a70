#include "core/engine/vllm.h"

#include "core/engine/prometheus.h"

#include <string>
#include <variant>

namespace dgxmm::engine {
namespace {

class VllmLogReader final : public LogReader {
 public:
  void read_line(std::string_view) override {}
  [[nodiscard]] Progress progress() const override { return {"starting"}; }
  [[nodiscard]] std::optional<EngineAccounting> accounting() const override { return std::nullopt; }
  [[nodiscard]] std::optional<FailureReason> failure() const override { return std::nullopt; }
};

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
  return command;
}

std::unique_ptr<LogReader> make_vllm_log_reader() { return std::make_unique<VllmLogReader>(); }

Activity parse_vllm_activity(std::string_view metrics_text) {
  return {.requests_running = sum_samples(metrics_text, "vllm:num_requests_running"),
          .requests_waiting = sum_samples(metrics_text, "vllm:num_requests_waiting")};
}

}  // namespace dgxmm::engine
