#include "app/api/documents.h"
#include "app/api/handlers.h"
#include "app/api/streams.h"
#include "app/api/views.h"
#include "base/masking.h"
#include "base/numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace dgxmm::api {
namespace {

using ports::HttpResponse;
constexpr std::size_t kDefaultLogLines = 200;
constexpr std::size_t kMaxLogLines = 10'000;

std::string labels_text(const std::map<std::string, std::string>& labels) {
  std::vector<std::string> words;
  for (const auto& [name, value] : labels) words.push_back(name + "=" + value);
  return words.empty() ? "no labels" : fmt::format("labels {}", fmt::join(words, " "));
}

HttpResponse no_such_deployment(const Call& call) {
  return problem(Error{"deployment_not_found", fmt::format("there is no deployment '{}'", call.parameters.at(0)),
                       "`dgxmm ps --all` lists them", "id"});
}

}  // namespace

service::Deployment* Handlers::find(const Call& call) { return service_.table.find(call.parameters.at(0)); }

ports::HttpResponse Handlers::shown(DeploymentId id, const Call& call) {
  const auto* deployment = service_.table.find(id);
  return deployment == nullptr ? no_such_deployment(call) : document(deployment_view(service_, *deployment));
}

std::string Handlers::removal_hint(const service::Deployment& running) {
  std::vector<std::int64_t> ended;
  for (const auto* other : service_.table.all()) {
    if (other->name == running.name && deployment::is_final(other->state)) ended.push_back(other->id.value);
  }
  if (ended.empty()) return "stop it first";
  return fmt::format("stop it first; those of that name that have ended have the ids {}", fmt::join(ended, ", "));
}

Handlers::Answer Handlers::list_deployments(Call) {
  std::vector<dto::Deployment> result;
  for (const auto* deployment : service_.table.all()) result.push_back(deployment_view(service_, *deployment));
  co_return document(result);
}

Handlers::Answer Handlers::deploy(Call call) {
  auto request = read_deploy_request(call.request);
  if (!request) co_return problem(request.error());
  const auto decision = co_await service_.admission.admit(std::move(*request));
  if (!decision) co_return problem(decision.error());
  if (decision->refused) co_return co_await refusal("does_not_fit", *decision->refused);
  service_.supervisor.start(*decision->admitted);
  auto response = document(deployment_view(service_, *service_.table.find(*decision->admitted)), 201);
  response.headers.emplace_back("Location", fmt::format("/api/v1/deployments/{}", decision->admitted->value));
  co_return response;
}

Handlers::Answer Handlers::show_deployment(Call call) {
  const auto* deployment = find(call);
  co_return deployment == nullptr ? no_such_deployment(call) : document(deployment_view(service_, *deployment));
}

Handlers::Answer Handlers::change_deployment(Call call) {
  const auto change = read_body<dto::DeploymentChange>(call.request);
  if (!change) co_return problem(change.error());
  if (change->labels && change->labels->contains("")) co_return problem(nameless_label());
  const auto* deployment = find(call);
  if (deployment == nullptr) co_return no_such_deployment(call);
  auto changed = *deployment;
  std::vector<std::string> changes;
  if (change->priority && *change->priority != changed.priority) {
    changed.priority = *change->priority;
    changes.push_back(fmt::format("priority {}", changed.priority));
  }
  if (change->pinned && *change->pinned != changed.pinned) {
    changed.pinned = *change->pinned;
    changes.emplace_back(changed.pinned ? "pinned" : "not pinned");
  }
  if (change->labels && *change->labels != changed.labels) {
    changed.labels = *change->labels;
    changes.push_back(printable(labels_text(changed.labels)));
  }
  if (!changes.empty()) {
    service_.table.replace(std::move(changed));
    service_.events.publish("deployment.changed", deployment->id,
                            fmt::format("{}: {}", deployment->name, fmt::join(changes, ", ")),
                            {{"name", deployment->name}});
  }
  co_return document(deployment_view(service_, *deployment));
}

Handlers::Answer Handlers::remove_deployment(Call call) {
  const auto* deployment = find(call);
  if (deployment == nullptr) co_return no_such_deployment(call);
  if (!deployment::is_final(deployment->state)) {
    co_return problem(Error{"already_running",
                            fmt::format("{} is {}", deployment->name, deployment::name_of(deployment->state)),
                            removal_hint(*deployment), "id"});
  }
  const auto id = deployment->id;
  service_.table.remove(id);
  service_.supervisor.logs().remove(service_.supervisor.identity().log_path(id));
  co_return text_response(204, {});
}

Handlers::Answer Handlers::stop_deployment(Call call) {
  const auto* deployment = find(call);
  if (deployment == nullptr) co_return no_such_deployment(call);
  const auto id = deployment->id;
  const auto stopped = co_await service_.supervisor.stop(id);
  if (!stopped) co_return problem(stopped.error());
  co_return shown(id, call);
}

Handlers::Answer Handlers::start_deployment(Call call) {
  const auto* deployment = find(call);
  if (deployment == nullptr) co_return no_such_deployment(call);
  const auto id = deployment->id;
  const auto decision = co_await service_.admission.readmit(id);
  if (!decision) co_return problem(decision.error());
  if (decision->refused) {
    co_return co_await refusal("does_not_fit", *decision->refused, "starting again");
  }
  service_.supervisor.start(id);
  co_return document(deployment_view(service_, *service_.table.find(id)), 202);
}

Handlers::Answer Handlers::sleep_deployment(Call call) {
  const auto* deployment = find(call);
  if (deployment == nullptr) co_return no_such_deployment(call);
  const auto level = query_value(call.request, "level").value_or("1");
  if (level != "1" && level != "2") {
    co_return problem(Error{"bad_field", "level: expected 1 or 2", "1 keeps the weights, 2 drops them", "level"});
  }
  const auto id = deployment->id;
  const bool force = query_value(call.request, "force") == "1";
  const auto slept = co_await service_.supervisor.sleep(id, level == "2" ? 2 : 1, force);
  if (!slept) co_return problem(slept.error());
  co_return shown(id, call);
}

Handlers::Answer Handlers::wake_deployment(Call call) {
  const auto* deployment = find(call);
  if (deployment == nullptr) co_return no_such_deployment(call);
  const auto id = deployment->id;
  const auto decision = co_await service_.admission.admit_wake(id);
  if (!decision) co_return problem(decision.error());
  if (decision->refused) {
    co_return co_await refusal("does_not_fit", *decision->refused, "waking up");
  }
  service_.supervisor.wake(id);
  co_return document(deployment_view(service_, *service_.table.find(id)), 202);
}

Handlers::Answer Handlers::logs(Call call) {
  const auto* deployment = find(call);
  if (deployment == nullptr) co_return no_such_deployment(call);
  auto lines = kDefaultLogLines;
  if (const auto tail = call.request.query.find("tail"); tail != call.request.query.end()) {
    const auto number = parse_number(tail->second);
    if (!number || *number < 0) co_return problem(Error{"bad_field", "tail: expected a whole number", {}, "tail"});
    lines = std::min(static_cast<std::size_t>(*number), kMaxLogLines);
  }
  const auto follow = call.request.query.find("follow");
  if (follow != call.request.query.end() && follow->second == "1") {
    auto response = text_response(200, {});
    response.stream = log_stream(service_, deployment->id, lines);
    co_return response;
  }
  std::string text;
  for (const auto& line : service_.supervisor.log_tail(deployment->id, lines)) text += line + "\n";
  co_return text_response(200, std::move(text));
}

}  // namespace dgxmm::api
