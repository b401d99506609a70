#pragma once
#include "app/api/api.h"
#include "app/service/service.h"
#include "unit/app/support/fake_ports.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace dgxmm::testing {

/// What is there whether the daemon runs or not.
struct World {
  World();

  ManualClock clock;
  MemoryStore store;
  FakeStartRecord start_record;
  FakeEngineLogs logs;
  FakeRuntime runtime{clock, logs};
  FakeHostProbe host{runtime};
  FakeGpuProbe gpu{runtime};
  FakeMemoryGroups memory_groups;
  FakeContainerNames container_names;
  FakeModelFiles models;  ///< /models/a.gguf and /models/b.gguf
};

/// An answer that may not have come yet.
using PendingResponse = std::shared_ptr<std::optional<ports::HttpResponse>>;

/// One run of the daemon in a world: the services and the API, on a simulated loop.
class Daemon {
 public:
  explicit Daemon(World& the_world, settings::Settings the_settings = {}, std::span<const api::PageFile> page = {});
  /// Ends it in order, unless it was killed.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Like kill -9.
  void kill();

  /// Sends a request and waits for its answer.
  ports::HttpResponse request(std::string method, std::string target, std::string body = {});
  /// Sends a request; the answer comes while the loop runs.
  PendingResponse send(std::string method, std::string target, std::string body = {});
  ports::HttpResponse handle(ports::HttpRequest request);

  /// Deploys with a body of "model" and further members, and expects that it is taken.
  DeploymentId deploy(const std::string& members = R"("model": "/models/a.gguf")");
  /// The same, and waits until it is ready.
  DeploymentId deploy_ready(const std::string& members = R"("model": "/models/a.gguf")");
  /// Waits for a state; a test failure when it does not come.
  void expect_state(DeploymentId id, deployment::State state);

  service::Deployment& at(DeploymentId id) { return *service->table.find(id); }
  memory::Budget budget() { return service->sampler.refresh()->budget; }
  /// "type: message" of all events after an id.
  std::vector<std::string> events(std::int64_t after = 0);

  World& world;
  const settings::Settings settings;
  std::unique_ptr<SimulatedLoop> loop;
  FakeHttpClient http;
  FakeTcpPorts tcp_ports;
  FakeFolderWatch folder_watch;
  std::unique_ptr<service::Service> service;
  std::unique_ptr<ports::HttpHandler> api;

 private:
  bool killed_ = false;
};

/// "/api/v1/deployments/7" + rest
std::string path_of(DeploymentId id, const std::string& rest = {});
ports::HttpRequest make_request(std::string method, std::string target, std::string body = {});
boost::json::value json_of(const ports::HttpResponse& response);
/// The member of a problem document, "" when it has none.
std::string member(const ports::HttpResponse& response, std::string_view name);
std::string header(const ports::HttpResponse& response, std::string_view name);

/// A deployment's life until the daemon is killed at a moment of it, with whatever `world.runtime.next` says of its
/// engine: it is started, and after 3 seconds, when the moment is later than that, asked to stop.
struct BrokenLife {
  DeploymentId id;
  bool stops = false;
};
BrokenLife break_off(World& world, const settings::Settings& settings, const std::string& members,
                     std::chrono::milliseconds moment);

/// Why a daemon cannot start in this world; a test failure when it can.
Error error_at_start(World& world);

}  // namespace dgxmm::testing
