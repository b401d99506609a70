#include "core/engine/request.h"
#include "core/memory/assemble.h"
#include "core/memory/estimate.h"
#include "core/memory/limits.h"
#include "core/memory/llamacpp_cache.h"
#include "core/memory/llamacpp_compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::memory {
namespace {

using engine::LlamaCppConfig;

/// Bounds the sum with everything else below 2^63.
constexpr std::int64_t kMaxCacheRamMib = std::int64_t{1} << 30;

/// Models that name their output before their embedding, and so load one tensor twice wherever it is
/// (src/models/gemma4.cpp; seen on b11669).
bool always_copies_embedding(const model::ModelDescription& model) {
  return model.architecture == "gemma3n" || model.architecture == "gemma4";
}

/// E2, and what differs from the file (llama_model::load_tensors, src/llama-model.cpp, b10587): layers that predict
/// more than one token are left out, and on a GPU the token embedding stays on the host, so one that is tied to the
/// output is loaded a second time on the device.
Part weights(const model::ModelDescription& model, Placement placement) {
  Part part{.size = model.weights.files, .source = Source::file_size, .detail = describe_files(model)};
  if (model.weights.nextn_tensors > Bytes{}) {
    part.size -= model.weights.nextn_tensors;
    part.detail += fmt::format(" of {} without the layers for multi-token prediction ({})",
                               format_bytes(model.weights.files), format_bytes(model.weights.nextn_tensors));
  }
  if (model.weights.tied_embeddings && (placement == Placement::gpu || always_copies_embedding(model))) {
    part.size += model.weights.token_embedding;
    part.detail += fmt::format(" + the token embedding ({}) a second time as output layer",
                               format_bytes(model.weights.token_embedding));
  }
  return part;
}

std::string_view name_of(llamacpp::CacheKind kind) {
  switch (kind) {
    case llamacpp::CacheKind::full: return "";
    case llamacpp::CacheKind::window: return " with a window";
    case llamacpp::CacheKind::indexer: return " of an indexer";
    case llamacpp::CacheKind::compressed: return " of compressed tokens";
  }
  return "";
}

bool is_plain(const model::ModelDescription& model) {
  return model.nextn_layers.empty() && std::ranges::all_of(model.layers, [](const auto& layer) {
           return layer.attention && layer.attention->kind == model::AttentionKind::full &&
                  !layer.attention->shares_kv && !layer.attention->indexer_key_length && !layer.recurrent;
         });
}

/// "5 layers x 8192 cells + 25 layers with a window x 1536 cells"; of plain models the heads too.
std::string describe_caches(const model::ModelDescription& model, const std::vector<llamacpp::Cache>& caches) {
  if (is_plain(model)) return describe_attention(model);
  std::string text;
  for (const auto& cache : caches) {
    text += fmt::format("{}{} layers{} x {} cells", text.empty() ? "" : " + ", cache.layers, name_of(cache.kind),
                        cache.cells);
  }
  return text;
}

Part kv_part(const model::ModelDescription& model, const LlamaCppConfig& config, const llamacpp::Context& context,
             const std::vector<llamacpp::Cache>& caches) {
  if (caches.empty()) return {.source = Source::formula, .detail = "none: no layer keeps tokens"};
  const auto type_k = engine::name_of(config.cache_type_k);
  const auto type_v = engine::name_of(config.cache_type_v);
  Part part{.source = Source::formula};
  for (const auto& cache : caches) part.size += cache.size;
  part.detail = fmt::format("{}, {}", describe_caches(model, caches),
                            type_k == type_v ? std::string{type_k} : fmt::format("{} / {}", type_k, type_v));
  if (is_plain(model)) part.detail += fmt::format(", {} cells", context.cells);
  if (caches.front().streams > 1) part.detail += fmt::format(" x {} slots", caches.front().streams);
  return part;
}

/// E4.
Part state_part(const model::ModelDescription& model, const llamacpp::Context& context) {
  const auto layers = std::ranges::count_if(model.layers, [](const auto& layer) {
    return layer.recurrent || (layer.attention && layer.attention->compress_ratio.value_or(0) > 0);
  });
  if (layers == 0) return {.source = Source::formula, .detail = "none: no layer is recurrent"};
  return {.size = llamacpp::recurrent_state(model, context),
          .source = Source::formula,
          .detail = fmt::format("{} recurrent layers, f32, {} slots", layers, context.sequences)};
}

Part activations(const llamacpp::Context& context, const llamacpp::ComputeBuffers& buffers) {
  Part part{.size = buffers.total(), .source = Source::formula};
  part.detail = fmt::format("compute buffers for {} tokens {} flash attention", context.ubatch,
                            context.flash_attention ? "with" : "without");
  if (buffers.scratch > Bytes{}) part.detail += fmt::format(", {} to convert the cache", format_bytes(buffers.scratch));
  part.detail += fmt::format(", {} of logits", format_bytes(buffers.output));
  return part;
}

/// E6. The prompt cache and the checkpoints of live slots grow in host memory while serving, up to the bounds that the
/// engine is started with.
Part runtime(const LlamaCppConfig& config, const EstimateSettings& settings, const llamacpp::Context& context,
             Bytes checkpoint) {
  const Bytes prompt_cache = mib(config.cache_ram_mib);
  Part part{.size = settings.llamacpp_runtime_fixed + prompt_cache,
            .source = Source::setting,
            .detail = fmt::format("{} fixed + prompt cache of up to {}", format_bytes(settings.llamacpp_runtime_fixed),
                                  format_bytes(prompt_cache))};
  if (checkpoint > Bytes{}) {
    const auto count = context.sequences * engine::kContextCheckpoints;
    part.size += checkpoint * count;
    part.detail += fmt::format(" + up to {} checkpoints of {}", count, format_bytes(checkpoint));
  }
  return part;
}

}  // namespace

Result<Estimate> estimate_llamacpp(const model::ModelDescription& model, const LlamaCppConfig& config,
                                   const EstimateSettings& settings, Placement placement,
                                   const model::Companions& companions) {
  if (companions.draft || companions.projector || config.spec_type != engine::SpecType::none) {
    return fail("bad_configuration", "draft models, draft-mtp and projectors are not estimated yet", "leave them out",
                "draft_model");
  }
  if (auto countable = check_countable(model); !countable) return fail(countable.error());
  // -1 would lift the bound, and with it the meaning of the estimate.
  if (auto ok = check_setting("cache_ram_mib", config.cache_ram_mib, 0, kMaxCacheRamMib); !ok) return fail(ok.error());
  const auto context = llamacpp::resolve_context(model, config, placement);
  if (!context) return fail(context.error());
  const auto caches = llamacpp::kv_caches(model, config, *context);
  if (!caches) return fail(caches.error());
  const auto buffers = llamacpp::compute_buffers(model, config, *context, *caches, placement);
  return assemble(
      model, {
                 .weights = weights(model, placement),
                 .kv = kv_part(model, config, *context, *caches),
                 .state = state_part(model, *context),
                 .activations = activations(*context, buffers),
                 .runtime = runtime(config, settings, *context, llamacpp::checkpoint_size(model, config, *context)),
             });
}

}  // namespace dgxmm::memory
