#include "unit/app/support/daemon.h"

#include "app/api/openapi.h"
#include "base/log.h"
#include "support/api_description.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace dgxmm::testing {
namespace {

/// Every answer in every test is what docs/openapi.json says.
void expect_as_described(const std::string& method, const std::string& path, const ports::HttpResponse& response) {
  static const ApiDescription kDescription{api::openapi_document()};
  const auto faults =
      kDescription.faults_of_answer(method, path, response.status, header(response, "Content-Type"), response.body);
  for (const auto& fault : faults) ADD_FAILURE() << method << " " << path << ": " << fault;
}

ports::Task<> answer(ports::HttpHandler& api, ports::HttpRequest request, PendingResponse response) {
  const auto method = request.method;
  const auto path = request.path;
  auto answered = co_await api.handle(std::move(request));
  expect_as_described(method, path, answered);
  response->emplace(std::move(answered));
}

}  // namespace

World::World() {
  log::set_level(log::Level::error);
  for (const auto* path : {"/models/a.gguf", "/models/b.gguf"}) models.models[path] = small_model(path);
}

Daemon::Daemon(World& the_world, settings::Settings the_settings, std::span<const api::PageFile> page)
    : world(the_world),
      settings(std::move(the_settings)),
      loop(std::make_unique<SimulatedLoop>(world.clock)),
      http(world.runtime, world.clock, *loop) {
  world.runtime.attach(*loop);
  const service::Supervisor::World engines{.runtime = world.runtime,
                                           .http = http,
                                           .logs = world.logs,
                                           .tcp_ports = tcp_ports,
                                           .loop = *loop,
                                           .clock = world.clock};
  const service::Service::Ports ports{.host = world.host,
                                      .gpu = world.gpu,
                                      .memory_groups = world.memory_groups,
                                      .container_names = world.container_names,
                                      .model_files = world.models,
                                      .folder_watch = folder_watch,
                                      .store = world.store,
                                      .start_record = world.start_record,
                                      .world = engines};
  service = std::make_unique<service::Service>(ports, settings,
                                               service::Identity{"/state", world.runtime.boot_id, "dgxmm-test-"});
  api = api::make_api(*service, {.version = "1.2.3", .commit = "abc", .host = "spark-1"}, page);
  const auto begun = service->begin();
  EXPECT_TRUE(begun) << begun.error().message;
}

Daemon::~Daemon() {
  if (killed_) return;
  EXPECT_TRUE(loop->stop()) << "a task does not end when the daemon stops";
  world.runtime.detach();
}

void Daemon::kill() {
  world.start_record.dead = true;
  loop->kill();
  world.start_record.dead = false;
  world.runtime.detach();
  killed_ = true;
}

ports::HttpResponse Daemon::handle(ports::HttpRequest request) {
  auto response = std::make_shared<std::optional<ports::HttpResponse>>();
  loop->spawn("request", answer(*api, std::move(request), response));
  const auto failures = loop->failures().size();
  EXPECT_TRUE(loop->run_until([&] { return response->has_value() || loop->failures().size() > failures; }));
  if (!response->has_value()) {  // what the server makes of an exception
    ports::HttpResponse failed;
    failed.status = 500;
    return failed;
  }
  return std::move(**response);
}

ports::HttpResponse Daemon::request(std::string method, std::string target, std::string body) {
  return handle(make_request(std::move(method), std::move(target), std::move(body)));
}

PendingResponse Daemon::send(std::string method, std::string target, std::string body) {
  auto response = std::make_shared<std::optional<ports::HttpResponse>>();
  loop->spawn("request", answer(*api, make_request(std::move(method), std::move(target), std::move(body)), response));
  return response;
}

DeploymentId Daemon::deploy(const std::string& members) {
  const auto response = request("POST", "/api/v1/deployments", "{" + members + "}");
  EXPECT_EQ(response.status, 201) << response.body;
  if (response.status != 201) return {};
  return {json_of(response).at("id").to_number<std::int64_t>()};
}

DeploymentId Daemon::deploy_ready(const std::string& members) {
  const auto id = deploy(members);
  expect_state(id, deployment::State::ready);
  return id;
}

void Daemon::expect_state(DeploymentId id, deployment::State state) {
  const auto reached = loop->run_until([&] {
    const auto* deployment = service->table.find(id);
    return deployment != nullptr && deployment->state == state;
  });
  const auto* deployment = service->table.find(id);
  EXPECT_TRUE(reached) << "it is " << (deployment == nullptr ? "removed" : deployment::name_of(deployment->state))
                       << ", not " << deployment::name_of(state);
}

std::vector<std::string> Daemon::events(std::int64_t after) {
  std::vector<std::string> result;
  for (const auto& event : service->events.after(after, 1000)) result.push_back(event.type + ": " + event.message);
  return result;
}

std::string path_of(DeploymentId id, const std::string& rest) {
  return "/api/v1/deployments/" + std::to_string(id.value) + rest;
}

ports::HttpRequest make_request(std::string method, std::string target, std::string body) {
  ports::HttpRequest request;
  request.method = std::move(method);
  const auto question = target.find('?');
  request.path = target.substr(0, question);
  while (question != std::string::npos && target.size() > question + 1) {
    const auto begin = target.find_last_of("?&") + 1;
    const auto equals = target.find('=', begin);
    request.query[target.substr(begin, equals - begin)] = equals == std::string::npos ? "" : target.substr(equals + 1);
    target.resize(begin - 1);
  }
  request.headers["host"] = "127.0.0.1:8484";
  if (!body.empty()) request.headers["content-type"] = "application/json";
  request.body = std::move(body);
  return request;
}

boost::json::value json_of(const ports::HttpResponse& response) {
  boost::system::error_code error;
  auto value = boost::json::parse(response.body, error);
  EXPECT_FALSE(error) << response.body;
  return value;
}

std::string member(const ports::HttpResponse& response, std::string_view name) {
  const auto value = json_of(response);
  const auto* object = value.if_object();
  const auto* found = object == nullptr ? nullptr : object->if_contains(name);
  return found != nullptr && found->is_string() ? std::string{found->get_string()} : std::string{};
}

std::string header(const ports::HttpResponse& response, std::string_view name) {
  const auto found = std::ranges::find(response.headers, name, [](const auto& row) { return row.first; });
  return found == response.headers.end() ? std::string{} : found->second;
}

BrokenLife break_off(World& world, const settings::Settings& settings, const std::string& members,
                     std::chrono::milliseconds moment) {
  constexpr std::chrono::seconds kStopAfter{3};
  Daemon daemon{world, settings};
  BrokenLife life{.id = daemon.deploy(members), .stops = moment > kStopAfter};
  const auto end = world.clock.steady() + moment;
  if (life.stops) {
    daemon.loop->run_for(kStopAfter);
    daemon.send("POST", path_of(life.id, "/stop"));
  }
  daemon.loop->run_for(std::chrono::duration_cast<std::chrono::milliseconds>(end - world.clock.steady()));
  daemon.kill();
  return life;
}

Error error_at_start(World& world) {
  SimulatedLoop loop{world.clock};
  world.runtime.attach(loop);
  FakeHttpClient http{world.runtime, world.clock, loop};
  FakeTcpPorts tcp_ports;
  FakeFolderWatch folder_watch;
  const settings::Settings settings;
  service::Service service{{.host = world.host,
                            .gpu = world.gpu,
                            .memory_groups = world.memory_groups,
                            .container_names = world.container_names,
                            .model_files = world.models,
                            .folder_watch = folder_watch,
                            .store = world.store,
                            .start_record = world.start_record,
                            .world = {world.runtime, http, world.logs, tcp_ports, loop, world.clock}},
                           settings,
                           {"/state", world.runtime.boot_id, "dgxmm-test-"}};
  const auto begun = service.begin();
  EXPECT_FALSE(begun);
  world.runtime.detach();
  return begun ? Error{} : begun.error();
}

}  // namespace dgxmm::testing
