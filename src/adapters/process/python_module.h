#pragma once
#include "base/result.h"
#include "core/engine/guard.h"

#include <filesystem>

namespace dgxmm::process {

/// Writes "<name>.py" into the folder, which is made (0700) when it is not there, in place of an older one. Engines run
/// as the same user. Errors: `state_unusable`.
Result<void> write_module(const std::filesystem::path& folder, const engine::PythonModule& module);

}  // namespace dgxmm::process
