#include "core/memory/llamacpp_companions.h"

#include "core/memory/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace dgxmm::memory::llamacpp {
namespace {

using engine::SpecType;

/// An architecture whose layers for multi-token prediction llama.cpp can run (graph_mtp in src/models/*.cpp, b11669).
struct MtpArchitecture {
  std::string_view name;
  bool single = false;  ///< it ends with a failed assertion when there is more than one such layer
};
constexpr auto kMtpArchitectures = std::to_array<MtpArchitecture>({{"bailingmoe3"},
                                                                   {"cohere2moe", true},
                                                                   {"deepseek2", true},
                                                                   {"deepseek32", true},
                                                                   {"deepseek4", true},
                                                                   {"dots3note"},
                                                                   {"glm-dsa", true},
                                                                   {"glm4moe", true},
                                                                   {"hy_v3"},
                                                                   {"mimo2"},
                                                                   {"nemotron_h_moe", true},
                                                                   {"qwen35", true},
                                                                   {"qwen35moe", true},
                                                                   {"qwen3next", true},
                                                                   {"step35"}});

std::unexpected<Error> refused(std::string message, std::string hint, std::string_view field) {
  return fail("bad_configuration", std::move(message), std::move(hint), std::string{field});
}

Result<void> check_mtp(const model::ModelDescription& model) {
  constexpr std::string_view kField = "spec_type";
  if (model.nextn_layers.empty()) {
    return refused(fmt::format("llama.cpp refuses draft-mtp: {} has no layers for multi-token prediction", model.name),
                   "name a smaller model with draft_model, or convert the model again with these layers", kField);
  }
  const auto known = std::ranges::find(kMtpArchitectures, model.architecture, &MtpArchitecture::name);
  if (known == kMtpArchitectures.end()) {
    return refused(
        fmt::format("llama.cpp cannot run the layers for multi-token prediction of '{}'", model.architecture),
        "name a smaller model with draft_model", kField);
  }
  if (known->single && model.nextn_layers.size() > 1) {
    return refused(fmt::format("llama.cpp runs one layer for multi-token prediction of '{}', and {} has {}",
                               model.architecture, model.name, model.nextn_layers.size()),
                   "name a smaller model with draft_model", kField);
  }
  return {};
}

/// llama_vocab_type, as far as `tokenizer.ggml.model` tells it (src/llama-vocab.cpp).
std::string_view vocabulary_type(std::string_view tokenizer) {
  return tokenizer == "gemma4" ? std::string_view{"gpt2"} : tokenizer;
}

/// common_speculative_are_compatible: the server would load the draft model, and not draft with it. The texts of the
/// tokens, which it compares too, are not read here.
Result<void> check_vocabularies(const model::ModelDescription& model, const model::ModelDescription& draft) {
  constexpr std::int64_t kMostDifference = 128;  // SPEC_VOCAB_MAX_SIZE_DIFFERENCE
  constexpr std::string_view kField = "draft_model";
  const std::string hint = "choose a draft model of the same family";
  const auto of_model = vocabulary_type(model.tokenizer);
  const auto of_draft = vocabulary_type(draft.tokenizer);
  if (!of_model.empty() && !of_draft.empty() && of_model != of_draft) {
    return refused(fmt::format("llama.cpp would not draft with {}: its tokenizer is '{}', and that of {} is '{}'",
                               draft.name, draft.tokenizer, model.name, model.tokenizer),
                   hint, kField);
  }
  if (std::abs(model.vocabulary - draft.vocabulary) > kMostDifference) {
    return refused(fmt::format("llama.cpp would not draft with {}: its vocabulary of {} tokens differs from the {} of "
                               "{} by more than {}",
                               draft.name, draft.vocabulary, model.vocabulary, model.name, kMostDifference),
                   hint, kField);
  }
  return {};
}

}  // namespace

Result<void> check_companions(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                              const model::Companions& companions) {
  if (config.spec_type == SpecType::draft_mtp) {
    if (auto ok = check_mtp(model); !ok) return ok;
  }
  const bool drafts = config.spec_type == SpecType::draft_simple;
  if (drafts != companions.draft.has_value() || config.mmproj.empty() == companions.projector.has_value()) {
    return refused("what is to be loaded beside the model was not read", {},
                   drafts != companions.draft.has_value() ? "draft_model" : "mmproj");
  }
  if (companions.projector && (companions.projector->file > kMaxFiles || companions.projector->tensors > kMaxFiles)) {
    return refused(fmt::format("{} has a size that no projector has", companions.projector->path), {}, "mmproj");
  }
  if (!drafts) return {};
  const auto& draft = *companions.draft;
  if (draft.format != model::Format::gguf) {
    return refused(
        fmt::format("{} is a folder with safetensors files, and llama.cpp drafts with GGUF files", draft.name),
        "name a GGUF file", "draft_model");
  }
  if (auto countable = check_countable(draft); !countable) return countable;
  return check_vocabularies(model, draft);
}

engine::LlamaCppConfig draft_config(const engine::LlamaCppConfig& config, const Context& context) {
  auto draft = config;
  draft.ctx_size = std::min(context.cells * context.streams, kMaxContext);
  draft.cache_type_k = config.cache_type_k_draft;
  draft.cache_type_v = config.cache_type_v_draft;
  draft.spec_type = SpecType::none;
  return draft;
}

Bytes handed_over(const model::ModelDescription& model, const engine::LlamaCppConfig& config, const Context& context) {
  constexpr std::int64_t kF32 = 4;
  if (config.spec_type != SpecType::draft_mtp) return Bytes{};
  return Bytes{2 * context.batch * model.embedding_length * kF32};
}

Bytes projector_buffers(const model::Projector& projector) { return std::max(mib(512), projector.tensors * 2); }

}  // namespace dgxmm::memory::llamacpp
