#pragma once
#include "base/bytes.h"
#include "base/result.h"
#include "core/engine/config.h"
#include "core/memory/llamacpp_cache.h"
#include "core/model/companions.h"
#include "core/model/layout.h"

namespace dgxmm::memory::llamacpp {

// What llama-server loads beside the model: who drafts tokens (common/speculative.cpp), and a projector (tools/mtmd).
// b10587, and b11669 where it says more.

/// Does `config` ask for what was read, and would the server draft with it? Errors: `bad_configuration` naming the
/// field, with the server's rule.
Result<void> check_companions(const model::ModelDescription& model, const engine::LlamaCppConfig& config,
                              const model::Companions& companions);

/// The settings of the context that drafts: as large as the model's own (`context`), with cache types of its own.
engine::LlamaCppConfig draft_config(const engine::LlamaCppConfig& config, const Context& context);

/// Hidden states that the model hands to its layers for multi-token prediction: a batch of them in each of the two
/// contexts. None for other ways of drafting.
Bytes handed_over(const model::ModelDescription& model, const engine::LlamaCppConfig& config, const Context& context);

/// Buffers of a projector: an upper bound to plan with; they are sized by its largest picture, which no formula tells.
Bytes projector_buffers(const model::Projector& projector);

}  // namespace dgxmm::memory::llamacpp
