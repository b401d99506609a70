#pragma once
#include "adapters/docker/docker_client.h"
#include "ports/container_names.h"
#include "ports/event_loop.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace dgxmm::docker {

/// What the Docker Engine calls its containers. An answer is kept for a moment, a failure for longer: an Engine that
/// hangs is asked beside whoever wants to know.
class DockerNames final : public ports::ContainerNames {
 public:
  /// Both outlive this object, and it outlives the loop's run().
  DockerNames(ports::EventLoop& loop, ports::HttpClient& http, std::string socket);

  ports::Task<Result<std::vector<container::ListedContainer>>> running() override;

 private:
  ports::Task<> ask();

  ports::EventLoop& loop_;
  DockerClient client_;
  std::unique_ptr<ports::Wakeup> answered_;
  bool asking_ = false;
  bool agreed_ = false;  // on a version of the API
  Result<std::vector<container::ListedContainer>> last_;
  std::chrono::steady_clock::time_point good_until_;
};

}  // namespace dgxmm::docker
