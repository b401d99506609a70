#include "adapters/docker/docker_client.h"

#include "adapters/net/http_text.h"
#include "core/container/create.h"
#include "core/container/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dgxmm::docker {
namespace {

using container::error_message;
using ports::HttpReply;
using ports::Task;

constexpr int kNotModified = 304;
constexpr int kBadRequest = 400;
constexpr int kNotFound = 404;
constexpr int kConflict = 409;

bool is_success(const HttpReply& reply) { return reply.status / 100 == 2; }

/// What the HTTP client could not do, as the runtime's own failure.
Error transport_error(const Error& error, const std::string& socket) {
  if (error.code == "cancelled") return error;
  return {"docker_unreachable", fmt::format("the Docker Engine at {} does not answer: {}", socket, error.message),
          error.code == "connection_refused" ? "is it running? (`systemctl status docker`)" : "", socket};
}

std::unexpected<Error> refused(const HttpReply& reply, const std::string& what) {
  // The engine's own trouble (a wedged containerd, say) is no verdict on what was asked.
  return fail("docker_refused", fmt::format("Docker: {}", error_message(reply.body)), {}, what);
}

std::unexpected<Error> container_missing(const std::string& id) {
  return fail("container_not_found", "the container does not exist", {}, id.substr(0, 12));
}

/// A reply that could not be understood comes from something that is no Docker Engine, or from one that is breaking.
template <class T>
Result<T> understood(Result<T> parsed, const std::string& socket) {
  if (parsed) return parsed;
  return fail("docker_unreachable",
              fmt::format("the Docker Engine at {} gives no sensible answer: {}", socket, parsed.error().message), {},
              socket);
}

std::string label_filter(const std::string& label) {
  return net::percent_encode(fmt::format(R"({{"label":["{}"]}})", label));
}

Error start_error(const HttpReply& reply, const std::string& id) {
  const auto message = error_message(reply.body);
  switch (container::classify_start_error(message)) {
    case container::StartProblem::port_taken:
      return {"port_taken", "the port is taken: " + message, "choose another port, or leave it to dgxmm",
              id.substr(0, 12)};
    case container::StartProblem::no_gpu_driver:
      return {"gpu_not_available", "Docker cannot hand over the GPU: " + message,
              "install the NVIDIA container toolkit and make its CDI specification (`nvidia-ctk cdi generate`)",
              id.substr(0, 12)};
    case container::StartProblem::program_missing:
      return {"engine_not_found", "the image has no such program: " + message,
              "use an image whose entrypoint is the engine's server", id.substr(0, 12)};
    case container::StartProblem::other: break;
  }
  return {"start_failed", "Docker could not start the container: " + message, {}, id.substr(0, 12)};
}

}  // namespace

ports::HttpCall DockerClient::call_of(Request request) const {
  ports::HttpCall call;
  call.target.unix_socket = socket_;
  call.method = std::move(request.method);
  call.path = (request.newest_version ? std::string{} : prefix_) + request.path;
  if (!request.body.empty()) call.headers.emplace_back("Content-Type", "application/json");
  call.body = std::move(request.body);
  call.deadline = request.deadline.value_or(deadline_);
  return call;
}

Task<Result<HttpReply>> DockerClient::send(Request request) {
  auto call = call_of(std::move(request));
  auto reply = co_await http_.call(std::move(call));
  if (!reply) co_return fail(transport_error(reply.error(), socket_));
  co_return reply;
}

Task<Result<void>> DockerClient::ping(std::chrono::milliseconds deadline) {
  Request request{.path = "/_ping", .deadline = deadline};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (!is_success(*reply))
    co_return fail("docker_unreachable", "the Docker Engine is not well: " + error_message(reply->body));
  co_return Result<void>{};
}

Task<Result<container::ChosenApi>> DockerClient::negotiate() {
  prefix_.clear();
  Request request{.path = "/version"};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (!is_success(*reply)) co_return refused(*reply, socket_);
  const auto range = understood(container::parse_api_range(reply->body), socket_);
  if (!range) co_return fail(range.error());
  auto chosen = container::choose_api(range->least, range->most);
  if (!chosen) co_return fail(chosen.error());
  prefix_ = "/v" + container::to_text(chosen->version);
  co_return chosen;
}

Task<Result<container::EngineInfo>> DockerClient::info() {
  // Before 1.50 the answer leaves out the CDI devices (moby, daemon/server/router/system/system_routes.go).
  Request request{.path = "/info", .newest_version = true};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (!is_success(*reply)) co_return refused(*reply, socket_);
  auto info = understood(container::parse_info(reply->body), socket_);
  co_return info;
}

Task<Result<std::vector<container::Image>>> DockerClient::images() {
  Request request{.path = "/images/json"};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (!is_success(*reply)) co_return refused(*reply, socket_);
  auto images = understood(container::parse_image_list(reply->body), socket_);
  co_return images;
}

Task<Result<container::Image>> DockerClient::inspect_image(std::string reference) {
  Request request{.path = fmt::format("/images/{}/json", net::percent_encode(reference))};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (reply->status == kNotFound || reply->status == kBadRequest) {
    co_return fail("image_not_found", fmt::format("the image {} is not on this host", reference),
                   fmt::format("get it with `docker pull {}`", reference), reference);
  }
  if (!is_success(*reply)) co_return refused(*reply, reference);
  auto image = understood(container::parse_image(reply->body), socket_);
  co_return image;
}

Task<Result<void>> DockerClient::pull(std::string reference, std::chrono::milliseconds deadline,
                                      std::function<bool(std::string_view)> on_piece) {
  const auto wanted = container::parse_reference(reference);
  Request request{.method = "POST",
                  .path = fmt::format("/images/create?fromImage={}&tag={}", net::percent_encode(wanted.name),
                                      net::percent_encode(wanted.tag)),
                  .deadline = deadline};
  auto call = call_of(std::move(request));
  const auto reply = co_await http_.stream(std::move(call), std::move(on_piece));
  if (!reply) co_return fail(transport_error(reply.error(), socket_));
  if (!is_success(*reply)) co_return fail(container::explain_pull_error(reference, error_message(reply->body)));
  co_return Result<void>{};
}

Task<Result<void>> DockerClient::provide_network(std::string name, std::string owner) {
  Request look{.path = "/networks/" + net::percent_encode(name)};
  const auto found = co_await send(std::move(look));
  if (!found) co_return fail(found.error());
  if (is_success(*found)) co_return Result<void>{};
  Request make{.method = "POST", .path = "/networks/create", .body = container::network_body(name, owner)};
  const auto made = co_await send(std::move(make));
  if (!made) co_return fail(made.error());
  if (is_success(*made) || made->status == kConflict) co_return Result<void>{};  // somebody was faster
  co_return fail("docker_refused",
                 fmt::format("Docker cannot make a network for engines: {}", error_message(made->body)),
                 "remove networks that are not used (`docker network prune`), or set `docker_network`", name);
}

Task<Result<container::Created>> DockerClient::create(std::string name, std::string body) {
  Request request{.method = "POST",
                  .path = "/containers/create" + (name.empty() ? std::string{} : "?name=" + net::percent_encode(name)),
                  .body = std::move(body)};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (reply->status == kConflict) {
    co_return fail("name_taken", fmt::format("there is a container named {} already", name), {}, name);
  }
  if (reply->status == kNotFound) {
    co_return fail("image_not_found", fmt::format("Docker: {}", error_message(reply->body)), {}, name);
  }
  if (!is_success(*reply)) co_return refused(*reply, name);
  auto created = understood(container::parse_created(reply->body), socket_);
  co_return created;
}

Task<Result<void>> DockerClient::start(std::string id) {
  Request request{.method = "POST", .path = fmt::format("/containers/{}/start", id)};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (is_success(*reply) || reply->status == kNotModified) co_return Result<void>{};
  co_return fail(start_error(*reply, id));
}

Task<Result<void>> DockerClient::put_archive(std::string id, std::string folder, std::string archive) {
  Request request{.method = "PUT",
                  .path = fmt::format("/containers/{}/archive?path={}", id, net::percent_encode(folder)),
                  .body = std::move(archive)};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (is_success(*reply)) co_return Result<void>{};
  if (reply->status == kNotFound) co_return container_missing(id);
  co_return refused(*reply, id);
}

Task<Result<void>> DockerClient::stop(std::string id, std::chrono::seconds grace, std::chrono::milliseconds deadline) {
  Request request{
      .method = "POST", .path = fmt::format("/containers/{}/stop?t={}", id, grace.count()), .deadline = deadline};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (reply->status == kNotFound) co_return container_missing(id);
  if (is_success(*reply) || reply->status == kNotModified) co_return Result<void>{};
  co_return refused(*reply, id);
}

Task<Result<void>> DockerClient::kill(std::string id, std::string signal) {
  Request request{.method = "POST", .path = fmt::format("/containers/{}/kill?signal={}", id, signal)};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (reply->status == kNotFound) co_return container_missing(id);
  if (is_success(*reply) || reply->status == kConflict) co_return Result<void>{};
  co_return refused(*reply, id);
}

Task<Result<void>> DockerClient::remove(std::string id, bool force) {
  Request request{.method = "DELETE", .path = fmt::format("/containers/{}?v=1&force={}", id, force ? 1 : 0)};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (is_success(*reply) || reply->status == kNotFound) co_return Result<void>{};
  const bool under_way = reply->status == kConflict && reply->body.find("already in progress") != std::string::npos;
  if (under_way) co_return Result<void>{};
  co_return refused(*reply, id);
}

Task<Result<container::Container>> DockerClient::inspect(std::string id) {
  Request request{.path = fmt::format("/containers/{}/json", net::percent_encode(id))};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (reply->status == kNotFound) co_return container_missing(id);
  if (!is_success(*reply)) co_return refused(*reply, id);
  auto found = understood(container::parse_container(reply->body), socket_);
  co_return found;
}

Task<Result<std::vector<container::ListedContainer>>> DockerClient::list(std::string label) {
  Request request{.path = "/containers/json?all=1&filters=" + label_filter(label)};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (!is_success(*reply)) co_return refused(*reply, socket_);
  auto rows = understood(container::parse_container_list(reply->body), socket_);
  co_return rows;
}

Task<Result<std::vector<container::ListedContainer>>> DockerClient::list_running() {
  Request request{.path = "/containers/json"};
  const auto reply = co_await send(std::move(request));
  if (!reply) co_return fail(reply.error());
  if (!is_success(*reply)) co_return refused(*reply, socket_);
  auto rows = understood(container::parse_container_list(reply->body), socket_);
  co_return rows;
}

Task<Result<void>> DockerClient::logs(std::string id, std::optional<container::EngineTime> since, bool follow,
                                      std::function<bool(std::string_view)> on_piece) {
  Request request{.path =
                      fmt::format("/containers/{}/logs?stdout=1&stderr=1&timestamps=1&follow={}{}", id, follow ? 1 : 0,
                                  since ? "&since=" + container::since_parameter(*since) : std::string{})};
  auto call = call_of(std::move(request));
  const auto reply = co_await http_.stream(std::move(call), std::move(on_piece));
  if (!reply) co_return fail(transport_error(reply.error(), socket_));
  if (reply->status == kNotFound) co_return container_missing(id);
  if (!is_success(*reply)) co_return refused(*reply, id);
  co_return Result<void>{};
}

Task<Result<void>> DockerClient::events(container::EngineTime since, std::string label,
                                        std::function<bool(std::string_view)> on_piece) {
  const auto filters = net::percent_encode(fmt::format(R"({{"type":["container"],"label":["{}"]}})", label));
  Request request{.path = fmt::format("/events?since={}&filters={}", container::since_parameter(since), filters)};
  auto call = call_of(std::move(request));
  const auto reply = co_await http_.stream(std::move(call), std::move(on_piece));
  if (!reply) co_return fail(transport_error(reply.error(), socket_));
  if (!is_success(*reply)) co_return refused(*reply, socket_);
  co_return Result<void>{};
}

}  // namespace dgxmm::docker
