#pragma once
#include "base/result.h"
#include "core/host/readings.h"

#include <string>
#include <vector>

namespace dgxmm::host {

/// D4: why an engine is still there after SIGKILL, `still_running`. `left`: its processes and their threads; one of
/// them in state D waits inside the kernel, on a GB10 nearly always in the GPU's driver, and only a reboot ends it. The
/// first process may look well meanwhile: it waits for the others.
Error still_running(const std::vector<ProcessStat>& left, std::string where);

}  // namespace dgxmm::host
