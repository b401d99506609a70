#pragma once
#include "core/memory/estimate.h"
#include "core/model/layout.h"

namespace dgxmm::memory::vllm {

/// E2: the tensors of the files, corrected by what is not loaded and by what grows; the detail names each correction.
Part weights(const model::ModelDescription& model);

}  // namespace dgxmm::memory::vllm
