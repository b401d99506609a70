#pragma once
#include "base/result.h"

#include <string_view>

namespace dgxmm::engine {

/// May a request with this target, as received, reach a vLLM in developer mode from anybody on this host? Only calls
/// that serve models, and those that tell how it is, may; whatever a version adds elsewhere may not. Errors:
/// `bad_request` (a target that two readers could take for different paths), `path_not_passed_on`.
Result<void> check_public_path(std::string_view target);

}  // namespace dgxmm::engine
