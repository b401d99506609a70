#pragma once
#include "core/engine/config.h"

#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::engine {

/// Known trouble with what is asked for that an engine does not refuse, or refuses late: a sentence each, with what to
/// do instead. `checkpoint_kv_dtype`: what the model's files ask the cache to be where the configuration leaves it to
/// them.
std::vector<std::string> cautions(const EngineConfig& config, std::string_view checkpoint_kv_dtype = {});

}  // namespace dgxmm::engine
