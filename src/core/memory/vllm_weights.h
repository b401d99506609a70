#pragma once
#include "core/engine/config.h"
#include "core/memory/estimate.h"
#include "core/model/layout.h"

namespace dgxmm::memory::vllm {

/// Are the encoders for pictures and sound loaded? Without them a model takes text only. An encoder that a decoder
/// attends to (Whisper) is part of the model.
bool loads_encoders(const model::ModelDescription& model, const engine::VllmConfig& config);

/// E2: the tensors of the files, corrected by what is not loaded, by what grows and by what is added for LoRA adapters;
/// the detail names each correction. `rank`: the layers of one rank of `model`, whose share of the tensors it is.
/// Errors: `bad_configuration` for a quantization of a checkpoint that is quantized in another way already, and for
/// drafting by layers whose tensors the files do not hold.
Result<Part> weights(const model::ModelDescription& model, const model::ModelDescription& rank,
                     const engine::VllmConfig& config);

}  // namespace dgxmm::memory::vllm
