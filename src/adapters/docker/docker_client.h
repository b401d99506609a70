#pragma once
#include "core/container/api_version.h"
#include "core/container/container.h"
#include "core/container/documents.h"
#include "core/container/log_stream.h"
#include "ports/http_client.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::docker {

/// The calls of the Docker Engine's API over its Unix socket, typed. Each has a deadline; the two streams have one
/// until they have begun. Errors of all: `docker_unreachable` (nobody listens, or no sensible answer in time),
/// `cancelled` (the loop stops), `docker_refused` with what the engine says, and those that are named.
class DockerClient {
 public:
  /// The client outlives this object.
  DockerClient(ports::HttpClient& http, std::string socket, std::chrono::milliseconds deadline)
      : http_(http),
        socket_(std::move(socket)),
        deadline_(deadline) {}

  [[nodiscard]] const std::string& socket() const { return socket_; }

  /// Is somebody there?
  ports::Task<Result<void>> ping(std::chrono::milliseconds deadline);
  /// Agrees on a version of the API, which the other calls then use. Errors: `engine_too_old`.
  ports::Task<Result<container::ChosenApi>> negotiate();
  ports::Task<Result<container::EngineInfo>> info();

  /// Unpacks a tar archive into a folder of a container, which need not run. Errors: `container_not_found`.
  ports::Task<Result<void>> put_archive(std::string id, std::string folder, std::string archive);

  ports::Task<Result<std::vector<container::Image>>> images();
  /// Errors: `image_not_found`.
  ports::Task<Result<container::Image>> inspect_image(std::string reference);

  /// Pulls it, and hands over the messages of that (container::PullProgress) until it has ended, or `on_piece` returns
  /// false. `deadline`: until the first message. Errors: those of container::explain_pull_error.
  ports::Task<Result<void>> pull(std::string reference, std::chrono::milliseconds deadline,
                                 std::function<bool(std::string_view)> on_piece);

  /// A network of that name, made if there is none, in which containers do not reach each other. Errors:
  /// `docker_refused` (no address is left for one, say).
  ports::Task<Result<void>> provide_network(std::string name, std::string owner);

  /// An empty name lets the engine choose one. Errors: `name_taken`, `image_not_found`.
  ports::Task<Result<container::Created>> create(std::string name, std::string body);
  /// Errors: `container_not_found`, `port_taken`, `gpu_not_available`, `engine_not_found` (its program).
  ports::Task<Result<void>> start(std::string id);
  /// SIGTERM, and SIGKILL after `grace`; returns when it has ended, and at once when it had. `container_not_found`.
  ports::Task<Result<void>> stop(std::string id, std::chrono::seconds grace, std::chrono::milliseconds deadline);
  /// `container_not_found`; one that does not run is no error.
  ports::Task<Result<void>> kill(std::string id, std::string signal);
  /// One that is gone, or about to go, is no error. Without `force` a running one stays: `docker_refused`.
  ports::Task<Result<void>> remove(std::string id, bool force);
  /// By id or name. Errors: `container_not_found`.
  ports::Task<Result<container::Container>> inspect(std::string id);
  /// Those with this label (`name=value`), in any state.
  ports::Task<Result<std::vector<container::ListedContainer>>> list(std::string label);

  /// Those that run, whoever started them.
  ports::Task<Result<std::vector<container::ListedContainer>>> list_running();

  /// Hands over the log's bytes (container::LogStream, with times) from `since` on; `follow` goes on until the
  /// container has ended. Stops when `on_piece` returns false. Errors: `container_not_found`.
  ports::Task<Result<void>> logs(std::string id, std::optional<container::EngineTime> since, bool follow,
                                 std::function<bool(std::string_view)> on_piece);
  /// Hands over events of containers (container::JsonLines) from `since` on, until the engine ends or `on_piece`
  /// returns false.
  ports::Task<Result<void>> events(container::EngineTime since, std::string label,
                                   std::function<bool(std::string_view)> on_piece);

 private:
  struct Request {
    std::string method = "GET";
    std::string path;  ///< below the version
    std::string body;
    std::optional<std::chrono::milliseconds> deadline;
    bool newest_version = false;  ///< asked in the engine's own version of the API, not the one agreed on
  };
  [[nodiscard]] ports::HttpCall call_of(Request request) const;
  ports::Task<Result<ports::HttpReply>> send(Request request);

  ports::HttpClient& http_;
  std::string socket_;
  std::chrono::milliseconds deadline_;
  std::string prefix_;  // "/v1.44"
};

}  // namespace dgxmm::docker
