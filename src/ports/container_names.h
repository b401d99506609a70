#pragma once
#include "base/result.h"
#include "core/container/container.h"
#include "ports/event_loop.h"

#include <vector>

namespace dgxmm::ports {

/// The containers that run on this host, whoever started them, as the engine that runs them calls them.
class ContainerNames {
 public:
  virtual ~ContainerNames() = default;
  /// A few seconds old at most. Never waits long for an engine that does not answer. Errors: `docker_unreachable`,
  /// `docker_refused`, `engine_too_old`.
  virtual Task<Result<std::vector<container::ListedContainer>>> running() = 0;
};

}  // namespace dgxmm::ports
