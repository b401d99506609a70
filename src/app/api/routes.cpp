#include "app/api/routes.h"

#include "app/dto/dto_schema.h"
#include "app/dto/scenario.h"

#include <array>

namespace dgxmm::api {
namespace {

using In = Parameter::In;
using Type = Parameter::Type;

constexpr Success kText{200, "text/plain"};
constexpr Success kDone{204, {}};

/// The documents of the events become components: they are what the data of an event is.
json::bj::value event_stream_schema(json::Components& components) {
  schema_as_written<dto::Event>(components);
  schema_as_written<dto::Budget>(components);
  schema_as_written<dto::Queue>(components);
  schema_as_written<dto::Activity>(components);
  schema_as_written<dto::History>(components);
  json::bj::object schema;
  schema.emplace("type", "string");
  schema.emplace(
      "description",
      "Of `event: budget` the data is a Budget, of `event: queue` a Queue, of `event: activity` an array of Activity, of "
      "`event: history` a History with the new entries, of every other event an Event.");
  return schema;
}
constexpr Success kEventStream{200, "text/event-stream", &event_stream_schema};

/// The document that says this.
json::bj::value any_object(json::Components&) {
  json::bj::object schema;
  schema.emplace("type", "object");
  return schema;
}
constexpr Success kDescription{200, "application/json", &any_object};

constexpr Success kScenario{200, "application/json", &dto::scenario_schema};

constexpr Parameter kDeployment{In::path, "id", Type::text,
                                "Its number, or its name: the running one of that name first"};
constexpr Parameter kOrphan{In::path, "id", Type::text, "From the list of orphans"};
constexpr Parameter kPlanSet{In::path, "set", Type::text, "The plan_set of the plans"};
constexpr Parameter kOperation{In::path, "id", Type::text, "From the list of operations"};
constexpr Parameter kLearned{In::path, "id", Type::text,
                             "From the list of what was learned; the fingerprint of a model: all of it"};
constexpr Parameter kQueueEntry{In::path, "id", Type::text, "From the queue"};

constexpr std::array kOfDeployment{kDeployment};
constexpr std::array kOfOrphan{kOrphan};
constexpr std::array kOfPlanSet{kPlanSet};
constexpr std::array kOfOperation{kOperation};
constexpr std::array kOfQueueEntry{kQueueEntry};
constexpr std::array kOfForget{kLearned,
                               Parameter{In::query, "oom_floors", Type::one,
                                         "Also sizes that ran out of memory, which keep the next start larger"}};
constexpr std::array kOfProcesses{
    Parameter{In::query, "limit", Type::whole_number, "So many of them, at most 1000; 25 when not given"}};
constexpr std::array kOfFit{
    Parameter{In::query, "host", Type::text,
              "On a host with that much memory, a GPU in the same pool and nothing running: 121.69GiB"},
    Parameter{In::query, "free", Type::text, "If that much were free: 40GiB"}};
constexpr std::array kOfSleep{
    kDeployment,
    Parameter{In::query, "level", Type::whole_number,
              "1 (the default) drops the KV cache and keeps the weights as copies in the same memory, 2 drops both"},
    Parameter{In::query, "force", Type::one, "Also with requests in flight: they are finished first"}};
constexpr std::array kOfLogs{
    kDeployment, Parameter{In::query, "tail", Type::whole_number, "So many of the last lines; 200 when not given"},
    Parameter{In::query, "follow", Type::one, "New lines as they come, until the deployment has ended"}};
constexpr std::array kOfApply{
    Parameter{In::path, "set", Type::text, "The plan_set of the plans; latest: where only one request has that plan"},
    Parameter{In::path, "plan", Type::text, "The id of the plan, such as stop:1"},
    Parameter{In::query, "even_if_busy", Type::one, "Also when a victim has got requests in flight since"}};
constexpr std::array kOfEvents{
    Parameter{In::header, "Last-Event-ID", Type::whole_number, "Begins after that event"},
    Parameter{In::query, "after", Type::whole_number, "The same, for clients that cannot send the header"},
    Parameter{In::query, "tail", Type::whole_number, "Begins with so many of the newest events"}};

constexpr std::string_view kDoesNotFit = "It does not fit: plans to make it fit, and who else holds memory";

constexpr std::array kRoutes{
    Route{"GET",
          "/healthz",
          &Handlers::healthz,
          "getHealth",
          "Whether the daemon is well; needs no token. 503 with the same document when it is not",
          kNothing,
          answers<dto::Health>(),
          {},
          {},
          503},
    Route{"GET", "/metrics", &Handlers::metrics, "getMetrics", "Metrics as Prometheus text", kNothing, kText},
    Route{"GET", "/api/v1/openapi.json", &Handlers::openapi, "getOpenApi", "This document", kNothing, kDescription},
    Route{"GET", "/api/v1/version", &Handlers::version, "getVersion", "The version of the daemon and of its API",
          kNothing, answers<dto::Version>()},
    Route{"GET", "/api/v1/settings", &Handlers::settings, "listSettings",
          "Every setting with its value and where it came from; secrets masked", kNothing,
          answers<std::vector<dto::Setting>>()},
    Route{"GET", "/api/v1/budget", &Handlers::budget, "getBudget",
          "The host's memory now: every quantity of the budget, each deployment's share, and what kind of host this is",
          kNothing, answers<dto::Budget>()},
    Route{"GET", "/api/v1/memory", &Handlers::memory, "getMemory",
          "Who holds the memory: MemTotal in parts that add up to it", kNothing, answers<dto::Memory>()},
    Route{"GET", "/api/v1/history", &Handlers::history, "getHistory",
          "The last hour of the host's memory, column by column: the n-th entries of all lists are of one moment, and "
          "one that knows nothing is a gap",
          kNothing, answers<dto::History>()},
    Route{"GET", "/api/v1/processes", &Handlers::processes, "getProcesses",
          "The largest processes that dgxmm does not manage, and what nobody holds", kNothing,
          answers<dto::Processes>(), kOfProcesses},
    Route{"GET", "/api/v1/orphans", &Handlers::list_orphans, "listOrphans",
          "Engines of this installation that no deployment knows any more", kNothing,
          answers<std::vector<dto::Orphan>>()},
    Route{"POST", "/api/v1/orphans/{id}/stop", &Handlers::stop_orphan, "stopOrphan",
          "Ends an orphan and removes its container; answers when it is gone", kNothing, answers<dto::Orphan>(),
          kOfOrphan},
    Route{"GET", "/api/v1/models", &Handlers::models, "getModels",
          "The catalog: models in the model folders and the Hugging Face cache", kNothing, answers<dto::Models>()},
    Route{"POST", "/api/v1/fit", &Handlers::fit, "fit", "Will it fit? Starts nothing", takes<engine::DeployRequest>(),
          answers<dto::Fit>(), kOfFit},
    Route{"GET", "/api/v1/calibration", &Handlers::calibration, "getCalibrations",
          "What was learned: footprints, sizes that ran out of memory, and how long things took", kNothing,
          answers<dto::Calibrations>()},
    Route{
        "DELETE", "/api/v1/calibration/{id}", &Handlers::forget_calibration, "forgetCalibration",
        "Forgets one thing that was learned, or all of a model; answers with what that was. 409 oom_floor_kept unless "
        "sizes that ran out of memory are to be forgotten too",
        kNothing, answers<dto::Calibrations>(), kOfForget},
    Route{"GET", "/api/v1/deployments", &Handlers::list_deployments, "listDeployments",
          "All deployments, those that have ended too", kNothing, answers<std::vector<dto::Deployment>>()},
    Route{"POST",
          "/api/v1/deployments",
          &Handlers::deploy,
          "deploy",
          "Reserves the memory of a deployment and starts it; answers while it is starting",
          takes<engine::DeployRequest>(),
          answers<dto::Deployment>(201),
          {},
          kDoesNotFit},
    Route{"GET", "/api/v1/deployments/{id}", &Handlers::show_deployment, "getDeployment", "One deployment", kNothing,
          answers<dto::Deployment>(), kOfDeployment},
    Route{"PATCH", "/api/v1/deployments/{id}", &Handlers::change_deployment, "changeDeployment",
          "Changes its priority, its labels, or whether it is pinned", takes<dto::DeploymentChange>(),
          answers<dto::Deployment>(), kOfDeployment},
    Route{"DELETE", "/api/v1/deployments/{id}", &Handlers::remove_deployment, "removeDeployment",
          "Forgets one that has ended", kNothing, kDone, kOfDeployment},
    Route{"POST", "/api/v1/deployments/{id}/stop", &Handlers::stop_deployment, "stopDeployment",
          "Stops it; answers when its memory is back", kNothing, answers<dto::Deployment>(), kOfDeployment},
    Route{"POST", "/api/v1/deployments/{id}/start", &Handlers::start_deployment, "startDeployment",
          "Starts an ended one once more, with its configuration; answers while it is starting", kNothing,
          answers<dto::Deployment>(202), kOfDeployment, kDoesNotFit},
    Route{"POST", "/api/v1/deployments/{id}/sleep", &Handlers::sleep_deployment, "sleepDeployment",
          "Puts a vLLM that was deployed with sleep_mode to sleep; answers when it sleeps", kNothing,
          answers<dto::Deployment>(), kOfSleep},
    Route{"POST", "/api/v1/deployments/{id}/wake", &Handlers::wake_deployment, "wakeDeployment",
          "Wakes one that sleeps; answers while it is waking up", kNothing, answers<dto::Deployment>(202),
          kOfDeployment, kDoesNotFit},
    Route{"GET", "/api/v1/deployments/{id}/logs", &Handlers::logs, "getLogs", "What its engine printed, masked",
          kNothing, kText, kOfLogs},
    Route{"GET", "/api/v1/scenario", &Handlers::show_scenario, "getScenario",
          "This host as a file that `dgxmm plan --scenario` answers, masked", kNothing, kScenario},
    Route{"POST", "/api/v1/scenario", &Handlers::show_scenario, "getScenarioOfRequest",
          "The same with a request, its model and that one's other quantizations", takes<engine::DeployRequest>(),
          kScenario},
    Route{"POST", "/api/v1/plans", &Handlers::make_plans, "makePlans", "How could it be made to fit? Starts nothing",
          takes<engine::DeployRequest>(), answers<dto::Plans>()},
    Route{"GET", "/api/v1/plans/{set}", &Handlers::show_plans, "getPlans", "Plans that were shown", kNothing,
          answers<dto::Plans>(), kOfPlanSet},
    Route{"POST", "/api/v1/plans/{set}/{plan}/apply", &Handlers::apply_plan, "applyPlan",
          "Carries out a plan as it was shown; answers with the operation that does", kNothing,
          answers<dto::Operation>(202), kOfApply,
          "The plan no longer holds, or something speaks against it that was not shown: new plans"},
    Route{"GET", "/api/v1/operations", &Handlers::list_operations, "listOperations",
          "Plans being carried out or ended, and their steps", kNothing, answers<std::vector<dto::Operation>>()},
    Route{"GET", "/api/v1/operations/{id}", &Handlers::show_operation, "getOperation", "One operation", kNothing,
          answers<dto::Operation>(), kOfOperation},
    Route{"POST", "/api/v1/operations/{id}/cancel", &Handlers::cancel_operation, "cancelOperation",
          "Undoes what an operation did, then it is cancelled; answers at once", kNothing, answers<dto::Operation>(202),
          kOfOperation},
    Route{"GET", "/api/v1/queue", &Handlers::show_queue, "getQueue",
          "Who waits for a decision or for others to load, in the order of their turns, and who has the turn", kNothing,
          answers<dto::Queue>()},
    Route{"DELETE", "/api/v1/queue/{id}", &Handlers::leave_queue, "leaveQueue",
          "Takes one out: a request is answered with 409 cancelled, a start fails", kNothing, kDone, kOfQueueEntry},
    Route{"GET", "/api/v1/events", &Handlers::events, "getEvents",
          "Events as they happen, and the budget and the queue whenever they have changed", kNothing, kEventStream,
          kOfEvents},
};

}  // namespace

std::span<const Route> routes() { return kRoutes; }

std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
  std::vector<std::string> parameters;
  while (true) {
    const auto pattern_end = pattern.find('/', 1);
    const auto path_end = path.find('/', 1);
    const auto expected = pattern.substr(0, pattern_end);
    const auto actual = path.substr(0, path_end);
    if (expected.starts_with("/{")) {
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

}  // namespace dgxmm::api
