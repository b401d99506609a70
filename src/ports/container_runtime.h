#pragma once
#include "base/ids.h"
#include "base/result.h"
#include "core/container/container.h"
#include "core/engine/guard.h"
#include "core/memory/budget.h"
#include "ports/event_loop.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::ports {

/// What is started; the same for a process and a container.
struct InstanceSpec {
  DeploymentId deployment;
  std::string name;  ///< unique among all state folders, safe for a cgroup or container name
  std::vector<std::string> arguments;
  /// The same without what differs from one start to the next; empty: nothing does.
  std::vector<std::string> lasting_arguments = {};
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to the runtime's own
  std::string log_path;                                          ///< where stdout and stderr go, appended
  std::function<void()> before_start;  ///< called once, right before its program may bind its port; may be empty
  /// That the program can import; absent: none.
  std::optional<engine::PythonModule> module = {};
  std::optional<container::Settings> container;  ///< absent: a plain process. Else an empty first argument means the
                                                 ///< image's own entrypoint
};

/// One running engine; its identity survives both the daemon and the reuse of pids and names. Stored as it is.
struct Instance {
  std::string runtime;   ///< "process" or "docker"
  std::int64_t pid = 0;  ///< of its first process, seen from the host; 0: not known (of a container)
  std::uint64_t start_time_ticks = 0;
  std::string boot_id;
  std::string command_digest;  ///< of the argument vector
  std::string cgroup;          ///< path below the mount; empty: measured by its process tree
  int cgroup_version = 0;
  std::string container_id;                          ///< of a container runtime
  std::optional<std::string> image;                  ///< id of the image that a container was made from
  std::optional<std::uint16_t> published_port = {};  ///< of the host, that leads to a container now; not stored

  [[nodiscard]] bool is_container() const { return !container_id.empty(); }
  /// For messages: "pid 4711" or "container ef9356f82c90".
  [[nodiscard]] std::string shown() const {
    return is_container() ? "container " + container_id.substr(0, 12) : "pid " + std::to_string(pid);
  }
  friend bool operator==(const Instance&, const Instance&) = default;
};

struct ExitStatus {
  std::optional<int> exit_code;  ///< absent: killed by a signal, or not our child (adopted)
  std::optional<int> signal;
  bool oom_killed = false;  ///< proven by the cgroup's counter, never by a bare SIGKILL (C5)
  std::string evidence;     ///< for oom_killed
};

enum class Presence { running, gone, unreachable };

/// How far an image has come that is being pulled, for people. Returns false to break it off; also called when nothing
/// has changed, some times a second.
using PullWatcher = std::function<bool(const std::string& phase)>;

/// Starts, finds again, measures and ends engines. All on the loop's thread; every call has its own deadline.
class ContainerRuntime {
 public:
  virtual ~ContainerRuntime() = default;
  /// The image of that name on this host; one that is not there is pulled, as long as that gets on. Without a watcher
  /// nothing is pulled. Errors: `image_not_found`, `image_wrong_platform`, `docker_unreachable`, `docker_refused`,
  /// `cancelled` (by the watcher), `shutting_down`; of a pull `registry_denied`, `registry_busy`,
  /// `registry_unreachable`, `disk_full`, `pull_stalled`, `pull_failed`.
  virtual Task<Result<container::Image>> provide_image(std::string reference, PullWatcher watcher) = 0;
  /// Was it started as `spec` says, from that image (D8)? Also when that is not known; always of a process.
  virtual bool is_as_specified(const Instance& instance, const InstanceSpec& spec, const container::Image& image) = 0;
  /// The instance exists when this returns. Errors: `engine_not_found`, `start_failed`; of containers also
  /// `docker_unreachable`, `docker_refused`, `image_not_found`, `gpu_not_available`, `port_taken` (nothing was left
  /// behind), `name_taken`, `already_running`.
  virtual Task<Result<Instance>> start(InstanceSpec spec) = 0;
  /// Runs a short command to its end and returns what it printed (an engine's --help); in a container of `image`, or,
  /// with none, as a process. Errors: `engine_not_found`, `start_failed`, `deadline_exceeded`, `shutting_down`; of
  /// containers also those of `start`.
  virtual Task<Result<std::string>> output_of(std::vector<std::string> arguments, std::chrono::milliseconds deadline,
                                              std::string image) = 0;
  /// Is it still the same one (pid, start time, command; of a container its id)? `unreachable` as long as nobody can
  /// say.
  virtual Presence presence(const Instance& instance) = 0;
  /// Returns when `find_owned` is complete, which for containers takes an answer of their engine, or when the loop
  /// stops.
  virtual Task<> until_known() = 0;
  /// Every running engine that was started for a deployment of this state folder, found without the store: by its
  /// cgroup's name, else by the DGXMM_INSTANCE mark ("<InstanceSpec::name>") in its environment; a container by its
  /// labels. So an engine that was started just before the daemon was killed is neither lost nor started twice. Of
  /// several of one name the newest is first: that one is of the last start.
  virtual std::vector<std::pair<std::string, Instance>> find_owned() = 0;
  /// The same, and what is left of engines whose first process has ended (D1); each can be measured and stopped.
  virtual std::vector<std::pair<std::string, Instance>> find_remains() { return find_owned(); }
  /// Returns when the instance has ended, or, with nothing known, when the loop stops.
  virtual Task<ExitStatus> wait(Instance instance) = 0;
  /// Asks it to end, then kills it after `grace`; returns when it is gone, with everything it had started.
  /// Errors: `still_running` (stuck in the kernel), `docker_unreachable`, `shutting_down` (it was asked, and the loop
  /// stopped before the end).
  virtual Task<Result<void>> stop(Instance instance, std::chrono::milliseconds grace) = 0;
  /// The pids of the instance.
  virtual std::vector<std::int64_t> pids(const Instance& instance) = 0;
  /// B6 without its GPU part, which `GpuProbe` knows; parts that cannot be read are absent. Nothing when the instance
  /// is gone and holds nothing. `pids`: what the function of that name has just said; to find them may mean to look at
  /// every process of the host.
  virtual std::optional<memory::Measured> measure(const Instance& instance, const std::vector<std::int64_t>& pids) = 0;
  /// Removes what an ended instance leaves behind (its empty cgroup, its container).
  virtual void forget(const Instance& instance) = 0;
  /// Removes what is left of ended instances that nobody has asked about. To be called once everything that is still
  /// known was asked about: what is left behind is the proof of how an engine ended.
  virtual void remove_leftovers() = 0;
};

}  // namespace dgxmm::ports
