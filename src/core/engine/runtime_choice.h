#pragma once
#include "base/result.h"
#include "core/container/container.h"
#include "core/engine/config.h"
#include "core/engine/request.h"

#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::engine {

/// What the settings say about where engines run.
struct RuntimeDefaults {
  std::string runtime = "auto";  ///< "process", "docker" or "auto": in a container whenever an image is named
  std::string image;             ///< of the engine that is asked for; empty: none
};

/// The request with `runtime` and `image` filled in, so that a later start is the same. Errors: `bad_field` naming
/// `runtime` (an unknown word, or one that contradicts `image`) or `image` (a container without one).
Result<DeployRequest> with_runtime(DeployRequest request, const RuntimeDefaults& defaults);

/// Will it run in a container? Of a request from `with_runtime`.
bool in_container(const DeployRequest& request);

/// The port that an engine listens on inside of its container: each has its own network.
inline constexpr std::uint16_t kContainerPort = 8080;

/// The folder inside of a container that its engine may write and finds again at its next start; its home.
inline constexpr std::string_view kContainerHome = "/var/cache/dgxmm";

/// Of a container's /dev/shm: a limit, not a reservation. Docker's own 64 MiB are too few for vLLM, whose processes
/// pass requests and prepared pictures to each other there.
Bytes shared_memory_limit(const EngineConfig& config);

/// The models that a deployment reads: its own, and a draft's.
std::vector<std::string> models_of(std::string_view model_path, const EngineConfig& config);

/// What the container of a deployment may read: the files of the model (all parts of a split one) and those beside it,
/// at the paths that they have on the host. Of a folder the folder itself.
std::vector<container::Mount> model_mounts(std::string_view model_path, const EngineConfig& config);

}  // namespace dgxmm::engine
