#pragma once
#include "base/ids.h"
#include "base/result.h"
#include "core/container/container.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::container {

/// Labels by which a container is known again; together with inspect they are all that adoption needs.
inline constexpr std::string_view kOwnerLabel = "dgxmm.instance";         ///< of which installation
inline constexpr std::string_view kNameLabel = "dgxmm.name";              ///< InstanceSpec::name
inline constexpr std::string_view kDeploymentLabel = "dgxmm.deployment";  ///< its id
inline constexpr std::string_view kSpecLabel = "dgxmm.spec";              ///< digest of what it was made from (D8)
inline constexpr std::string_view kLogLabel = "dgxmm.log";                ///< the file that its log is copied to

/// How the GPU is asked for on this engine: CDI where it has found devices of NVIDIA's, else NVIDIA's own runtime, else
/// not at all.
GpuAccess gpu_access(const EngineInfo& info);

struct CreateRequest {
  Settings settings;
  std::string owner;  ///< kOwnerLabel
  std::string name;
  DeploymentId deployment;
  /// argv. An empty first argument stands for the image's own entrypoint; no shell is involved either way.
  std::vector<std::string> arguments;
  /// The same without what differs from one start to the next; of this the digest is made. Empty: as `arguments`.
  std::vector<std::string> lasting_arguments = {};
  std::vector<std::pair<std::string, std::string>> environment;
  std::string image_id;  ///< what `settings.image` is today
  GpuAccess gpu = GpuAccess::none;
  /// It may lock as much memory as it wants, as what is shared with a GPU is; an engine without root cannot allow that.
  bool lock_memory = false;
  std::string log_path;      ///< kLogLabel; empty: its log is not copied
  Bytes log_limit = mib(8);  ///< of the file that the engine keeps; it has two of them
  std::string network;       ///< empty: the engine's default
};

/// 16 hexadecimal digits, equal exactly when the containers would be (D8).
std::string spec_digest(const CreateRequest& request);

/// The body of `POST /containers/create`. It never sets a memory limit: none would bound what CUDA takes (C10), and the
/// host part is what the budget is for. No restart policy: starting is admission's business (C8).
std::string create_body(const CreateRequest& request);

/// The body of `POST /networks/create`: containers in it reach the outside and are reached through their published
/// ports, but not by each other. An engine that may sleep has calls that control it.
std::string network_body(std::string_view name, std::string_view owner);

/// Is it one of this installation's, and made for this instance?
bool is_owned(const std::map<std::string, std::string>& labels, std::string_view owner);

/// Why an engine refused to create or start a container.
enum class StartProblem { port_taken, no_gpu_driver, program_missing, other };
StartProblem classify_start_error(std::string_view message);

}  // namespace dgxmm::container
