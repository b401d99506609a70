#pragma once
#include "core/memory/estimate.h"
#include "core/model/layout.h"

#include <string>
#include <vector>

namespace dgxmm::memory {

/// What an engine's rules say; the names are given by `assemble`.
struct Figures {
  Part weights, kv, state, activations, runtime;
  std::vector<std::string> missing_fields = {};  ///< of what is loaded beside the model
  std::vector<std::string> contradictions = {};  ///< likewise
};

/// E1: the six parts in their order, with the margin, the sum and the confidence.
Estimate assemble(const model::ModelDescription& model, Figures figures);

/// The attention of a model in words: "32 layers x 8 KV heads x 128".
std::string describe_attention(const model::ModelDescription& model);

/// "1 file", "3 files".
std::string describe_files(const model::ModelDescription& model);

}  // namespace dgxmm::memory
