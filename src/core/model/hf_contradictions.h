#pragma once
#include "base/result.h"
#include "core/model/hf_config.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::model {

/// What config.json says against what its tensors are (E9). Gives the contradictions that vLLM may go on with, or that
/// an architecture may have good reasons for. Errors: `bad_model_file` for one that stops vLLM at its start: layers
/// without tensors, a vocabulary or an embedding of another size (VocabParallelEmbedding.weight_loader), heads that no
/// layer's projections have (QKVParallelLinear.weight_loader; 017e9f44). What a quantization has packed is not
/// compared.
Result<std::vector<std::string>> find_contradictions(std::string_view path, const HfConfig& config,
                                                     std::span<const SafetensorsPart> parts);

}  // namespace dgxmm::model
