#include "core/engine/request.h"
#include "core/memory/assemble.h"
#include "core/memory/estimate.h"
#include "core/memory/limits.h"
#include "core/memory/llamacpp_cache.h"
#include "core/memory/llamacpp_compute.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dgxmm::memory {
namespace {

using engine::LlamaCppConfig;

/// Bounds the sum with everything else below 2^63.
constexpr std::int64_t kMaxCacheRamMib = std::int64_t{1} << 30;

/// E2, and what a GPU adds: the token embedding stays on the host, so one that is tied to the output is loaded a second
/// time on the device (llama_model::load_tensors, src/llama-model.cpp, b10587).
Part weights(const model::ModelDescription& model, Placement placement) {
  Part part{.size = model.weights.files, .source = Source::file_size, .detail = describe_files(model)};
  if (placement == Placement::gpu && model.weights.tied_embeddings) {
    part.size += model.weights.token_embedding;
    part.detail += fmt::format(" + the token embedding ({}) a second time as output layer",
                               format_bytes(model.weights.token_embedding));
  }
  return part;
}

Part kv_part(const model::ModelDescription& model, const LlamaCppConfig& config, const llamacpp::Context& context,
             const std::vector<llamacpp::Cache>& caches) {
  const auto type_k = engine::name_of(config.cache_type_k);
  const auto type_v = engine::name_of(config.cache_type_v);
  Part part{.source = Source::formula};
  for (const auto& cache : caches) part.size += cache.size;
  part.detail = fmt::format("{}, {}, {} cells{}", describe_attention(model),
                            type_k == type_v ? std::string{type_k} : fmt::format("{} / {}", type_k, type_v),
                            context.cells, context.streams > 1 ? fmt::format(" x {} slots", context.streams) : "");
  return part;
}

Part activations(const llamacpp::Context& context, const llamacpp::ComputeBuffers& buffers) {
  Part part{.size = buffers.total(), .source = Source::formula};
  part.detail = fmt::format("compute buffers for {} tokens {} flash attention", context.ubatch,
                            context.flash_attention ? "with" : "without");
  if (buffers.scratch > Bytes{}) part.detail += fmt::format(", {} to convert the cache", format_bytes(buffers.scratch));
  part.detail += fmt::format(", {} of logits", format_bytes(buffers.output));
  return part;
}

/// E6. The prompt cache grows in host memory while serving, up to the bound that the engine is started with.
Part runtime(const LlamaCppConfig& config, const EstimateSettings& settings) {
  const Bytes prompt_cache = mib(config.cache_ram_mib);
  return {.size = settings.llamacpp_runtime_fixed + prompt_cache,
          .source = Source::setting,
          .detail = fmt::format("{} fixed + prompt cache of up to {}", format_bytes(settings.llamacpp_runtime_fixed),
                                format_bytes(prompt_cache))};
}

}  // namespace

Result<Estimate> estimate_llamacpp(const model::ModelDescription& model, const LlamaCppConfig& config,
                                   const EstimateSettings& settings, Placement placement) {
  if (auto supported = check_supported(model); !supported) return fail(supported.error());
  // -1 would lift the bound, and with it the meaning of the estimate.
  if (auto ok = check_setting("cache_ram_mib", config.cache_ram_mib, 0, kMaxCacheRamMib); !ok) return fail(ok.error());
  const auto context = llamacpp::resolve_context(model, config, placement);
  if (!context) return fail(context.error());
  const auto caches = llamacpp::kv_caches(model, config, *context);
  if (!caches) return fail(caches.error());
  const auto buffers = llamacpp::compute_buffers(model, config, *context, *caches, placement);
  return assemble(model, {
                             .weights = weights(model, placement),
                             .kv = kv_part(model, config, *context, *caches),
                             // Checkpoints are made for windows and recurrent state only: none here either.
                             .state = {.source = Source::formula, .detail = "none: every layer is plain attention"},
                             .activations = activations(*context, buffers),
                             .runtime = runtime(config, settings),
                         });
}

}  // namespace dgxmm::memory
