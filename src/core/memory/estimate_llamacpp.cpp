#include "base/counted.h"
#include "core/engine/request.h"
#include "core/memory/assemble.h"
#include "core/memory/estimate.h"
#include "core/memory/limits.h"
#include "core/memory/llamacpp_cache.h"
#include "core/memory/llamacpp_companions.h"
#include "core/memory/llamacpp_compute.h"
#include "core/memory/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::memory {
namespace {

using engine::LlamaCppConfig;

/// Bounds the sum with everything else below 2^63.
constexpr std::int64_t kMaxCacheRamMib = std::int64_t{1} << 30;
/// Of one checkpoint; far above anything that exists, and times all of them below 2^62.
constexpr Bytes kMaxCheckpoint{std::int64_t{1} << 50};

/// Models that name their output before their embedding, and so load one tensor twice wherever it is
/// (src/models/gemma4.cpp; seen on b11669).
bool always_copies_embedding(const model::ModelDescription& model) {
  return model.architecture == "gemma3n" || model.architecture == "gemma4";
}

/// One context of the server, and what it allocates.
struct Load {
  const model::ModelDescription* model = nullptr;
  LlamaCppConfig config;
  llamacpp::Context context;
  std::vector<llamacpp::Cache> caches;
  Bytes state;
  llamacpp::ComputeBuffers buffers;
};

Result<Load> load(const model::ModelDescription& model, LlamaCppConfig config, Placement placement, bool is_mtp) {
  auto context = llamacpp::resolve_context(model, config, placement);
  if (!context) return fail(context.error());
  context->is_mtp = is_mtp;
  auto caches = llamacpp::kv_caches(model, config, *context);
  if (!caches) return fail(caches.error());
  const auto buffers = llamacpp::compute_buffers(model, config, *context, *caches, placement);
  return Load{.model = &model,
              .config = std::move(config),
              .context = *context,
              .caches = std::move(*caches),
              .state = llamacpp::recurrent_state(model, *context),
              .buffers = buffers};
}

/// The second context, when something drafts. Errors name the draft's own settings.
Result<std::optional<Load>> load_draft(const Load& main, const model::Companions& companions, Placement placement) {
  if (main.config.spec_type == engine::SpecType::none) return std::nullopt;
  const bool is_mtp = main.config.spec_type == engine::SpecType::draft_mtp;
  const auto& model = is_mtp ? *main.model : *companions.draft;
  auto draft = load(model, llamacpp::draft_config(main.config, main.context), placement, is_mtp);
  if (draft) return std::move(*draft);
  auto error = std::move(draft.error());
  if (error.where == "cache_type_k" || error.where == "cache_type_v") {
    error.where += "_draft";
    error.hint = "choose other cache_type_k_draft and cache_type_v_draft; f16 works for every model";
  }
  error.message = "the draft: " + error.message;
  return fail(std::move(error));
}

/// E2, and what differs from the file (llama_model::load_tensors, src/llama-model.cpp, b10587): layers that predict
/// more than one token are left out unless they draft, and on a GPU the token embedding stays on the host, so one that
/// is tied to the output is loaded a second time on the device.
Part model_weights(const model::ModelDescription& model, bool drafts_itself, Placement placement) {
  Part part{.size = model.weights.files, .source = Source::file_size, .detail = describe_files(model)};
  if (model.weights.nextn_tensors > Bytes{} && drafts_itself) {
    part.detail +=
        fmt::format(" with the layers for multi-token prediction ({})", format_bytes(model.weights.nextn_tensors));
  } else if (model.weights.nextn_tensors > Bytes{}) {
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

Part weights(const model::ModelDescription& model, const LlamaCppConfig& config, const model::Companions& companions,
             Placement placement) {
  auto part = model_weights(model, config.spec_type == engine::SpecType::draft_mtp, placement);
  if (companions.draft) {
    const auto draft = model_weights(*companions.draft, false, placement);
    part.size += draft.size;
    part.detail +=
        fmt::format(" + {} of the draft model {}: {}", format_bytes(draft.size), companions.draft->name, draft.detail);
  }
  if (companions.projector) {
    part.size += companions.projector->file;
    part.detail += fmt::format(" + {} of the projector", format_bytes(companions.projector->file));
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
    text += fmt::format("{}{}{} x {} cells", text.empty() ? "" : " + ", counted(cache.layers, "layer"),
                        name_of(cache.kind), cache.cells);
  }
  return text;
}

Part caches_part(const Load& load) {
  if (load.caches.empty()) return {.source = Source::formula, .detail = "none: no layer keeps tokens"};
  const auto type_k = engine::name_of(load.config.cache_type_k);
  const auto type_v = engine::name_of(load.config.cache_type_v);
  Part part{.source = Source::formula};
  for (const auto& cache : load.caches) part.size += cache.size;
  const bool with_heads = is_plain(*load.model);
  part.detail = fmt::format("{}, {}", describe_caches(*load.model, load.caches),
                            type_k == type_v ? std::string{type_k} : fmt::format("{} / {}", type_k, type_v));
  if (with_heads) part.detail += fmt::format(", {} cells", load.context.cells);
  if (load.caches.front().streams > 1) part.detail += fmt::format(" x {} slots", load.caches.front().streams);
  return part;
}

/// "…; to draft 30.0 MiB: …".
void add_draft(Part& part, const Part& draft) {
  part.size += draft.size;
  part.detail += fmt::format("; to draft {}: {}", format_bytes(draft.size), draft.detail);
}

Part kv_part(const Load& main, const std::optional<Load>& draft) {
  auto part = caches_part(main);
  if (draft) add_draft(part, caches_part(*draft));
  return part;
}

/// E4.
Part context_state(const Load& load) {
  if (load.state == Bytes{}) return {.source = Source::formula, .detail = "none: no layer is recurrent"};
  const auto layers = std::ranges::count_if(load.model->layers, [](const auto& layer) {
    return layer.recurrent || (layer.attention && layer.attention->compress_ratio.value_or(0) > 0);
  });
  Part part{.size = load.state,
            .source = Source::formula,
            .detail = fmt::format("{}, f32, {}", counted(layers, "recurrent layer"),
                                  counted(load.context.sequences, "slot"))};
  if (const auto older = load.context.rollback_states; older > 0 && llamacpp::rolls_back(*load.model)) {
    part.detail += fmt::format(" x {} to take drafts back", 1 + older);
  }
  return part;
}

Part state_part(const Load& main, const std::optional<Load>& draft) {
  auto part = context_state(main);
  if (draft && draft->state > Bytes{}) add_draft(part, context_state(*draft));
  return part;
}

Part activations(const Load& main, const std::optional<Load>& draft, const model::Companions& companions) {
  const auto& context = main.context;
  const auto& buffers = main.buffers;
  Part part{.size = buffers.total(), .source = Source::formula};
  part.detail = fmt::format("compute buffers for {} tokens {} flash attention", context.ubatch,
                            context.flash_attention ? "with" : "without");
  if (buffers.scratch > Bytes{}) part.detail += fmt::format(", {} to convert the cache", format_bytes(buffers.scratch));
  part.detail += fmt::format(", {} of logits", format_bytes(buffers.output));
  if (draft) {
    part.size += draft->buffers.total();
    part.detail += fmt::format("; {} to draft", format_bytes(draft->buffers.total()));
  }
  if (const auto handed_over = llamacpp::handed_over(*main.model, main.config, context); handed_over > Bytes{}) {
    part.size += handed_over;
    part.detail += fmt::format(" + {} of hidden states for it", format_bytes(handed_over));
  }
  if (companions.projector) {
    const auto buffer = llamacpp::projector_buffers(*companions.projector);
    part.size += buffer;
    part.detail += fmt::format("; up to {} for pictures or sound", format_bytes(buffer));
  }
  return part;
}

/// E6. The prompt cache and the checkpoints of live slots grow in host memory while serving, up to the bounds that the
/// engine is started with. A checkpoint holds the whole cache of the draft as well, and a slot whose state cannot be
/// taken back has one more, from before its draft (server_context, tools/server/server-context.cpp).
Part runtime(const EstimateSettings& settings, const Load& main, const std::optional<Load>& draft) {
  const Bytes prompt_cache = mib(main.config.cache_ram_mib);
  Part part{.size = settings.llamacpp_runtime_fixed + prompt_cache,
            .source = Source::setting,
            .detail = fmt::format("{} fixed + prompt cache of up to {}", format_bytes(settings.llamacpp_runtime_fixed),
                                  format_bytes(prompt_cache))};
  auto size = llamacpp::checkpoint_size(*main.model, main.config, main.context);
  if (size == Bytes{}) return part;
  const auto slots = main.context.sequences;
  const bool goes_back = main.context.rollback_states > 0 && llamacpp::rolls_back(*main.model);
  const auto count = slots * (engine::kContextCheckpoints + (draft && !goes_back ? 1 : 0));
  if (draft) {
    // Its slots share the cells, or each has its part of them.
    Bytes whole = draft->state;
    for (const auto& cache : draft->caches) whole += cache.size;
    size += Bytes{ceil_div(whole.count(), slots)};
  }
  size = std::min(size, kMaxCheckpoint);
  part.size += size * count;
  part.detail += fmt::format(" + up to {} checkpoints of {}", count, format_bytes(size));
  if (draft) part.detail += " with the draft's cache";
  return part;
}

}  // namespace

Result<Estimate> estimate_llamacpp(const model::ModelDescription& model, const LlamaCppConfig& config,
                                   const EstimateSettings& settings, Placement placement,
                                   const model::Companions& companions) {
  if (auto countable = check_countable(model); !countable) return fail(countable.error());
  // -1 would lift the bound, and with it the meaning of the estimate.
  if (auto ok = check_setting("cache_ram_mib", config.cache_ram_mib, 0, kMaxCacheRamMib); !ok) return fail(ok.error());
  if (auto ok = check_setting("spec_draft_n_max", config.spec_draft_n_max, 1, engine::kMostDrafted); !ok) {
    return fail(ok.error());
  }
  if (auto ok = llamacpp::check_companions(model, config, companions); !ok) return fail(ok.error());
  const auto main = load(model, config, placement, false);
  if (!main) return fail(main.error());
  const auto draft = load_draft(*main, companions, placement);
  if (!draft) return fail(draft.error());
  return assemble(
      model, {
                 .weights = weights(model, config, companions, placement),
                 .kv = kv_part(*main, *draft),
                 .state = state_part(*main, *draft),
                 .activations = activations(*main, *draft, companions),
                 .runtime = runtime(settings, *main, *draft),
                 .missing_fields = companions.draft ? companions.draft->missing_fields : std::vector<std::string>{},
             });
}

}  // namespace dgxmm::memory
