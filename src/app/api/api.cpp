#include "app/api/api.h"

#include "app/api/guard.h"
#include "app/api/respond.h"
#include "app/api/streams.h"
#include "app/api/views.h"
#include "app/dto/convert.h"
#include "app/dto/dto_json.h"
#include "app/dto/fit.h"
#include "app/dto/scenario.h"
#include "base/masking.h"
#include "base/numbers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace dgxmm::api {
namespace {

using ports::HttpRequest;
using ports::HttpResponse;
using ports::Task;

constexpr std::size_t kBodyLimit = std::size_t{64} * 1024;
constexpr std::size_t kDefaultLogLines = 200;
constexpr std::size_t kMaxLogLines = 10'000;
constexpr std::size_t kProcessRows = 25;
constexpr std::size_t kHolderRows = 10;

/// What a route gets: the request and the parts of the path that its pattern names.
struct Call {
  HttpRequest request;
  std::vector<std::string> parameters;
};

template <class T>
HttpResponse document(const T& value, int status = 200) {
  return json_response(status, json::encode(value));
}

template <class T>
Result<T> read_body(const HttpRequest& request) {
  if (request.body.empty()) {
    return fail("bad_json", "the request has no body",
                R"(send a JSON object, for example {"model": "/models/m.gguf"})");
  }
  const auto parsed = json::parse(request.body);
  if (!parsed) return fail(parsed.error());
  return json::decode<T>(*parsed, json::Unknown::reject);
}

Error nameless_label() { return {"bad_field", "labels: a label needs a name", {}, "labels"}; }

Result<engine::DeployRequest> read_deploy_request(const HttpRequest& request) {
  auto result = read_body<engine::DeployRequest>(request);
  if (result && result->labels.contains("")) return fail(nameless_label());
  return result;
}

std::optional<std::string> query_value(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? std::nullopt : std::optional{found->second};
}

std::string labels_text(const std::map<std::string, std::string>& labels) {
  std::vector<std::string> words;
  for (const auto& [name, value] : labels) words.push_back(name + "=" + value);
  return words.empty() ? "no labels" : fmt::format("labels {}", fmt::join(words, " "));
}

/// What ails the GPU while the daemon itself is well (B8).
std::string gpu_trouble(const host::GpuReading& gpu) {
  if (!gpu.unavailable.empty()) return gpu.unavailable;
  return gpu.warnings.empty() ? std::string{} : gpu.warnings.front();
}

class Api final : public ports::HttpHandler {
 public:
  Api(service::Service& service, BuildInfo build) : service_(service), build_(std::move(build)) {}

  Task<HttpResponse> handle(HttpRequest request) override {
    if (const auto denied = check_access(request, service_.settings)) co_return problem(*denied);
    const auto method = request.method;  // a HEAD comes as a GET, and the server leaves the body out
    std::string allowed;
    for (const auto& route : kRoutes) {
      auto parameters = match(route.pattern, request.path);
      if (!parameters) continue;
      allowed += (allowed.empty() ? "" : ", ") + std::string{route.method};
      if (route.method != method) continue;
      Call call{std::move(request), std::move(*parameters)};
      auto response = co_await (this->*route.handler)(std::move(call));
      co_return response;
    }
    if (!allowed.empty()) {
      auto response =
          problem(Error{"method_not_allowed", fmt::format("{} cannot be done here", method), {}, request.path});
      response.headers.emplace_back("Allow", allowed);
      co_return response;
    }
    co_return problem(Error{"not_found", fmt::format("there is no {}", request.path), "docs/api.md lists what there is",
                            request.path});
  }

  [[nodiscard]] std::size_t body_limit(const std::string& method, const std::string& path) const override {
    static_cast<void>(method);
    static_cast<void>(path);
    return kBodyLimit;
  }

 private:
  using Handler = Task<HttpResponse> (Api::*)(Call);
  struct Route {
    std::string_view method;
    std::string_view pattern;  ///< "{}" stands for one part of the path
    Handler handler;
  };
  static const std::array<Route, 33> kRoutes;

  /// The parts that stand where the pattern has {}, or nothing when the path is another one.
  static std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
    std::vector<std::string> parameters;
    while (true) {
      const auto pattern_end = pattern.find('/', 1);
      const auto path_end = path.find('/', 1);
      const auto expected = pattern.substr(0, pattern_end);
      const auto actual = path.substr(0, path_end);
      if (expected == "/{}") {
        if (actual.size() < 2) return std::nullopt;
        parameters.emplace_back(actual.substr(1));
      } else if (expected != actual) {
        return std::nullopt;
      }
      if ((pattern_end == std::string_view::npos) != (path_end == std::string_view::npos)) return std::nullopt;
      if (pattern_end == std::string_view::npos) return parameters;
      pattern.remove_prefix(pattern_end);
      path.remove_prefix(path_end);
    }
  }

  /// 409: the plans, and who holds the memory that is missing (A7, D1).
  Task<HttpResponse> refusal(std::string code, service::PlanSet set, std::string what = {}) {
    dto::Problem document;
    document.status = 409;
    document.title = code == "plan_changed" ? "The plan no longer holds" : "Does not fit";
    document.detail = (what.empty() ? "" : what + ": ") + set.plans.summary;
    document.code = std::move(code);
    if (set.plans.fits_now) {
      document.hint = "no plan is needed any more: deploy it as it is";
    } else if (set.plans.plans.empty()) {
      document.hint = "stop something that dgxmm does not manage, or choose a smaller model";
    } else {
      document.hint = fmt::format("carry out one of the plans: POST /api/v1/plans/{}/PLAN/apply", set.id);
    }
    document.plans = plans_view(set);
    const auto reading = co_await service_.ledger.read(kHolderRows);
    document.holders = holders_view(reading);
    co_return problem(std::move(document));
  }

  service::Deployment* find(const Call& call) { return service_.table.find(call.parameters.at(0)); }

  static HttpResponse no_such_deployment(const Call& call) {
    return problem(Error{"deployment_not_found", fmt::format("there is no deployment '{}'", call.parameters.at(0)),
                         "`dgxmm ps --all` lists them", "id"});
  }

  /// How it is now, or that it is gone.
  HttpResponse shown(DeploymentId id, const Call& call) {
    const auto* deployment = service_.table.find(id);
    return deployment == nullptr ? no_such_deployment(call) : document(deployment_view(service_, *deployment));
  }

  /// "stop it first", and with which ids those of its name that have ended can be removed.
  std::string removal_hint(const service::Deployment& running) {
    std::vector<std::int64_t> ended;
    for (const auto* other : service_.table.all()) {
      if (other->name == running.name && deployment::is_final(other->state)) ended.push_back(other->id.value);
    }
    if (ended.empty()) return "stop it first";
    return fmt::format("stop it first; those of that name that have ended have the ids {}", fmt::join(ended, ", "));
  }

  // --- the daemon itself

  Task<HttpResponse> healthz(Call) {
    const auto trouble = service_.trouble();
    auto response = json_response(trouble ? 503 : 200,
                                  json::encode(std::map<std::string, std::string>{
                                      {"status", trouble ? "trouble" : "ok"},
                                      {"detail", trouble.value_or(gpu_trouble(service_.sampler.latest()->gpu))}}));
    co_return response;
  }

  Task<HttpResponse> metrics(Call) {
    co_return text_response(200, metrics_page(service_, build_.version), "text/plain; version=0.0.4; charset=utf-8");
  }

  Task<HttpResponse> version(Call) {
    co_return document(dto::Version{.version = build_.version, .commit = build_.commit});
  }

  Task<HttpResponse> settings(Call) {
    std::vector<std::map<std::string, std::string>> rows;
    for (const auto& definition : settings::definitions()) {
      const auto source = service_.settings.sources.find(std::string{definition.name});
      rows.push_back({{"name", std::string{definition.name}},
                      {"value", settings::value_text(service_.settings, definition.name)},
                      {"source", source == service_.settings.sources.end() ? "default" : source->second},
                      {"description", std::string{definition.description}}});
    }
    co_return document(rows);
  }

  // --- memory

  Task<HttpResponse> budget(Call) {
    const auto snapshot = service_.sampler.refresh();
    if (snapshot->problem) co_return problem(*snapshot->problem);
    co_return document(budget_view(service_, *snapshot));
  }

  Task<HttpResponse> memory(Call) {
    const auto reading = co_await service_.ledger.read(0);
    if (reading.snapshot->problem) co_return problem(*reading.snapshot->problem);
    co_return document(memory_view(service_, reading));
  }

  Task<HttpResponse> processes(Call) {
    const auto reading = co_await service_.ledger.read(kProcessRows);
    co_return document(processes_view(reading));
  }

  Task<HttpResponse> list_orphans(Call) {
    std::vector<dto::Orphan> result;
    for (const auto& orphan : service_.orphans.find()) result.push_back(orphan_view(orphan));
    co_return document(result);
  }

  Task<HttpResponse> stop_orphan(Call call) {
    const auto stopped = co_await service_.orphans.stop(call.parameters.at(0));
    if (!stopped) co_return problem(stopped.error());
    co_return document(orphan_view(*stopped));
  }

  // --- models and estimates

  Task<HttpResponse> models(Call) {
    const auto snapshot = co_await service_.catalog.latest();
    if (!snapshot) co_return problem(snapshot.error());
    const auto& found = (*snapshot)->found;
    dto::Models result{.folders = {}, .models = {}, .warnings = found.problems};
    for (const auto& folder : service_.settings.searched_folders()) result.folders.push_back(folder.path);
    for (const auto& entry : found.models) result.models.push_back(dto::to_dto(entry));
    result.scanned_at = format_time((*snapshot)->time);
    result.age_s =
        std::chrono::duration_cast<std::chrono::seconds>(service_.clock.steady() - (*snapshot)->finished).count();
    co_return document(result);
  }

  Task<HttpResponse> fit(Call call) {
    auto request = read_deploy_request(call.request);
    if (!request) co_return problem(request.error());
    const auto given = dto::read_given_host(query_value(call.request, "host"), query_value(call.request, "free"));
    if (!given) co_return problem(given.error());
    const auto where = *given && (*given)->mem_total ? service::Where::elsewhere : service::Where::here;
    const auto prepared = co_await service_.estimates.prepare(std::move(*request), where);
    if (!prepared) co_return problem(prepared.error());
    const auto larger = co_await service_.estimates.prepare_larger_quantizations(*prepared);
    const auto smaller = co_await service_.estimates.prepare_smaller_quantizations(*prepared, std::nullopt);

    const auto sized = [&](const service::Prepared& model) -> dto::SizedModel {
      return {model.model, model.config, model.estimate, service_.estimates.estimator_of(model)};
    };
    dto::FitQuestion question{.asked = sized(*prepared), .others = {}, .situation = {}, .budget = {}};
    if (*given) {
      question.place(**given, service_.settings);
    } else {
      const auto snapshot = service_.sampler.refresh();
      if (snapshot->problem) co_return problem(*snapshot->problem);
      question.situation = service_.admission.situation_of(*prepared);
      question.budget = budget_view(service_, *snapshot);
    }
    std::ranges::transform(larger, std::back_inserter(question.others), sized);
    std::ranges::transform(smaller, std::back_inserter(question.others), sized);
    auto fit = dto::make_fit(std::move(question));
    if (!fit) co_return problem(fit.error());
    if (const auto& refused = service_.sampler.latest()->gpu.no_starts; refused && !*given) {
      fit->notes.push_back("it could not be started here: " + refused->message);
    }
    co_return document(*fit);
  }

  Task<HttpResponse> calibration(Call) { co_return document(calibrations_view(service_)); }

  // --- deployments

  Task<HttpResponse> list_deployments(Call) {
    std::vector<dto::Deployment> result;
    for (const auto* deployment : service_.table.all()) result.push_back(deployment_view(service_, *deployment));
    co_return document(result);
  }

  Task<HttpResponse> deploy(Call call) {
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

  Task<HttpResponse> show_deployment(Call call) {
    const auto* deployment = find(call);
    co_return deployment == nullptr ? no_such_deployment(call) : document(deployment_view(service_, *deployment));
  }

  Task<HttpResponse> change_deployment(Call call) {
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

  Task<HttpResponse> remove_deployment(Call call) {
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

  Task<HttpResponse> stop_deployment(Call call) {
    const auto* deployment = find(call);
    if (deployment == nullptr) co_return no_such_deployment(call);
    const auto id = deployment->id;
    const auto stopped = co_await service_.supervisor.stop(id);
    if (!stopped) co_return problem(stopped.error());
    co_return shown(id, call);
  }

  Task<HttpResponse> start_deployment(Call call) {
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

  Task<HttpResponse> sleep_deployment(Call call) {
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

  Task<HttpResponse> wake_deployment(Call call) {
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

  Task<HttpResponse> logs(Call call) {
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

  // --- plans

  Task<HttpResponse> make_plans(Call call) {
    auto request = read_deploy_request(call.request);
    if (!request) co_return problem(request.error());
    const auto set = co_await service_.admission.plan(std::move(*request));
    if (!set) co_return problem(set.error());
    co_return document(plans_view(*set));
  }

  Task<HttpResponse> show_scenario(Call call) {
    std::optional<engine::DeployRequest> wanted;
    if (call.request.method == "POST") {
      auto request = read_deploy_request(call.request);
      if (!request) co_return problem(request.error());
      wanted = std::move(*request);
    }
    auto scenario = co_await service_.admission.describe_host(std::move(wanted));
    if (!scenario) co_return problem(scenario.error());
    co_return json_response(200, dto::write_scenario(planner::masked(std::move(*scenario))));
  }

  Task<HttpResponse> show_plans(Call call) {
    const auto* set = service_.admission.find_set(call.parameters.at(0));
    if (set == nullptr)
      co_return problem(Error{"plan_not_found", fmt::format("there are no plans '{}'", call.parameters.at(0)),
                              "ask for them again", "set"});
    co_return document(plans_view(*set));
  }

  Task<HttpResponse> apply_plan(Call call) {
    const auto& set = call.parameters.at(0);
    const bool even_if_busy = query_value(call.request, "even_if_busy") == "1";
    const auto begun =
        service_.operations.apply(set == "latest" ? std::string{} : set, call.parameters.at(1), even_if_busy);
    if (!begun) co_return problem(begun.error());
    if (begun->changed) co_return co_await refusal("plan_changed", *begun->changed, begun->what_changed);
    co_return document(operation_view(service_, *begun->operation), 202);
  }

  Task<HttpResponse> list_operations(Call) {
    std::vector<dto::Operation> result;
    for (const auto& operation : service_.operations.all()) result.push_back(operation_view(service_, *operation));
    co_return document(result);
  }

  Task<HttpResponse> show_operation(Call call) {
    const auto operation = service_.operations.find(call.parameters.at(0));
    if (!operation)
      co_return problem(
          Error{"operation_not_found", fmt::format("there is no operation '{}'", call.parameters.at(0)), {}, "id"});
    co_return document(operation_view(service_, *operation));
  }

  Task<HttpResponse> cancel_operation(Call call) {
    const auto operation = service_.operations.cancel(call.parameters.at(0));
    if (!operation) co_return problem(operation.error());
    co_return document(operation_view(service_, **operation), 202);
  }

  // --- who waits

  Task<HttpResponse> show_queue(Call) { co_return document(queue_view(service_)); }

  Task<HttpResponse> leave_queue(Call call) {
    const auto& id = call.parameters.at(0);
    if (service_.admission.turns().cancel(id) || service_.supervisor.starts().cancel(id)) {
      co_return text_response(204, {});
    }
    co_return problem(Error{"queue_entry_not_found",
                            fmt::format("nothing waits as '{}', or it cannot be taken out", id),
                            "`dgxmm queue` lists what waits", "id"});
  }

  // --- events

  Task<HttpResponse> events(Call call) {
    // From now on, unless the client says what it has seen.
    auto last_id = service_.events.last_id();
    const auto header = call.request.headers.find("last-event-id");
    const auto query = call.request.query.find("after");
    const auto given = header != call.request.headers.end() ? header->second
                       : query != call.request.query.end()  ? query->second
                                                            : std::string{};
    if (const auto tail = call.request.query.find("tail"); given.empty() && tail != call.request.query.end()) {
      const auto number = parse_number(tail->second);
      if (!number || *number < 0) co_return problem(Error{"bad_field", "tail: expected a whole number", {}, "tail"});
      last_id -= std::min(*number, last_id);  // ids have no gaps
    }
    if (!given.empty()) {
      const auto number = parse_number(given);
      if (!number || *number < 0)
        co_return problem(Error{"bad_field", "Last-Event-ID: expected the id of an event", {}, "Last-Event-ID"});
      // An id that was never given is from another state folder: nothing that it says was seen here.
      last_id = std::min(*number, last_id);
    }
    auto response = text_response(200, {}, "text/event-stream");
    response.stream = event_stream(service_, last_id);
    co_return response;
  }

  service::Service& service_;
  BuildInfo build_;
};

const std::array<Api::Route, 33> Api::kRoutes{{
    {"GET", "/healthz", &Api::healthz},
    {"GET", "/metrics", &Api::metrics},
    {"GET", "/api/v1/version", &Api::version},
    {"GET", "/api/v1/settings", &Api::settings},
    {"GET", "/api/v1/budget", &Api::budget},
    {"GET", "/api/v1/memory", &Api::memory},
    {"GET", "/api/v1/processes", &Api::processes},
    {"GET", "/api/v1/orphans", &Api::list_orphans},
    {"POST", "/api/v1/orphans/{}/stop", &Api::stop_orphan},
    {"GET", "/api/v1/models", &Api::models},
    {"POST", "/api/v1/fit", &Api::fit},
    {"GET", "/api/v1/calibration", &Api::calibration},
    {"GET", "/api/v1/deployments", &Api::list_deployments},
    {"POST", "/api/v1/deployments", &Api::deploy},
    {"GET", "/api/v1/deployments/{}", &Api::show_deployment},
    {"PATCH", "/api/v1/deployments/{}", &Api::change_deployment},
    {"DELETE", "/api/v1/deployments/{}", &Api::remove_deployment},
    {"POST", "/api/v1/deployments/{}/stop", &Api::stop_deployment},
    {"POST", "/api/v1/deployments/{}/start", &Api::start_deployment},
    {"POST", "/api/v1/deployments/{}/sleep", &Api::sleep_deployment},
    {"POST", "/api/v1/deployments/{}/wake", &Api::wake_deployment},
    {"GET", "/api/v1/deployments/{}/logs", &Api::logs},
    {"GET", "/api/v1/scenario", &Api::show_scenario},
    {"POST", "/api/v1/scenario", &Api::show_scenario},
    {"POST", "/api/v1/plans", &Api::make_plans},
    {"GET", "/api/v1/plans/{}", &Api::show_plans},
    {"POST", "/api/v1/plans/{}/{}/apply", &Api::apply_plan},
    {"GET", "/api/v1/operations", &Api::list_operations},
    {"GET", "/api/v1/operations/{}", &Api::show_operation},
    {"POST", "/api/v1/operations/{}/cancel", &Api::cancel_operation},
    {"GET", "/api/v1/queue", &Api::show_queue},
    {"DELETE", "/api/v1/queue/{}", &Api::leave_queue},
    {"GET", "/api/v1/events", &Api::events},
}};

}  // namespace

std::unique_ptr<ports::HttpHandler> make_api(service::Service& service, BuildInfo build) {
  return std::make_unique<Api>(service, std::move(build));
}

}  // namespace dgxmm::api
