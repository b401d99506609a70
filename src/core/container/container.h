#pragma once
// Containers as values: what one is made from, and what the Docker Engine says about it. Pure.
#include "base/bytes.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::container {

/// A file or folder of the host, read-only in the container.
struct Mount {
  std::string source;
  std::string target;
  friend bool operator==(const Mount&, const Mount&) = default;
};

/// What a container needs that a plain process does not.
struct Settings {
  std::string image;  ///< a name with tag or digest, or an id
  std::vector<Mount> mounts;
  bool gpu = false;                  ///< asks for every GPU that the engine can hand over
  Bytes shm_size = gib(1);           ///< of the container's own /dev/shm: a limit, not a reservation
  std::uint16_t host_port = 0;       ///< published on 127.0.0.1 only
  std::uint16_t container_port = 0;  ///< where the program listens inside
  /// A folder inside that may be written and outlives the container, one volume for all of an installation: what
  /// engines compile at their first start. Empty: none.
  std::string cache_folder = {};
  friend bool operator==(const Settings&, const Settings&) = default;
};

/// How a container is given the GPU.
enum class GpuAccess { none, cdi, nvidia_runtime };

/// Of `GET /info`: what dgxmm needs to know about the engine.
struct EngineInfo {
  std::string server_version;
  std::string cgroup_driver;  ///< "systemd" or "cgroupfs"
  int cgroup_version = 0;     ///< 0: it does not say (before 20.10: v1)
  std::string root_dir;
  std::string storage_driver;
  std::string default_runtime;
  std::string architecture;              ///< of the host: "aarch64", "x86_64", …
  std::vector<std::string> runtimes;     ///< names, sorted
  std::vector<std::string> cdi_devices;  ///< "nvidia.com/gpu=all", …
  bool rootless = false;
  bool live_restore = false;
  friend bool operator==(const EngineInfo&, const EngineInfo&) = default;
};

enum class Status { created, running, paused, restarting, removing, exited, dead, other };

using EngineTime = std::chrono::sys_time<std::chrono::nanoseconds>;

/// Of `GET /containers/{id}/json`. Absent = not said.
struct Container {
  std::string id;
  std::string name;   ///< without the leading slash
  std::string image;  ///< id of the image it was made from
  Status status = Status::other;
  std::optional<std::int64_t> pid;  ///< of its first process, while there is one
  std::optional<int> exit_code;     ///< once it has run and ended
  bool oom_killed = false;          ///< some process of it was, since its last start
  std::string error;                ///< why it could not be started
  std::optional<EngineTime> created_at, started_at, finished_at;
  bool tty = false;  ///< its log is raw, not framed
  std::map<std::string, std::string> labels;
  /// The ports of the host that are really published now, by container port ("8080/tcp"), of 127.0.0.1 only.
  std::map<std::string, std::uint16_t> published;

  /// Has a process, as far as the engine knows.
  [[nodiscard]] bool alive() const {
    return status == Status::running || status == Status::paused || status == Status::restarting;
  }
  /// Has ended; nothing of it runs any more.
  [[nodiscard]] bool ended() const { return status == Status::exited || status == Status::dead; }
  friend bool operator==(const Container&, const Container&) = default;
};

/// One row of `GET /containers/json`.
struct ListedContainer {
  std::string id;
  std::vector<std::string> names;
  std::string image;  ///< as it was asked for
  std::map<std::string, std::string> labels;
  friend bool operator==(const ListedContainer&, const ListedContainer&) = default;
};

struct Image {
  std::string id;  ///< "sha256:…": a digest of its configuration
  std::vector<std::string> tags;
  std::vector<std::string> digests;  ///< "name@sha256:…" of the registries that it came from
  std::vector<std::string> entrypoint;
  std::string architecture;  ///< "arm64", "amd64", …
  std::string python_path;   ///< PYTHONPATH in its environment; empty: not set
  friend bool operator==(const Image&, const Image&) = default;
};

/// One message of `GET /events`.
struct Event {
  std::string type;    ///< "container", …
  std::string action;  ///< "die", "start", …; without what follows a colon ("exec_create: …")
  std::string id;
  std::optional<int> exit_code;
  std::optional<EngineTime> time;
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace dgxmm::container
