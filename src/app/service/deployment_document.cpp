#include "app/service/deployment_document.h"

#include "app/dto/convert.h"
#include "app/dto/dto_json.h"

#include <array>

namespace dgxmm::ports {

BOOST_DESCRIBE_STRUCT(Instance, (),
                      (runtime, pid, start_time_ticks, boot_id, command_digest, cgroup, cgroup_version, container_id,
                       image))

}  // namespace dgxmm::ports

namespace dgxmm::service {
namespace {

/// What is stored. A field added later must be optional: rows of earlier versions do not have it.
struct Document {
  std::string name;
  engine::DeployRequest request;
  dto::Config config;
  std::string model_path, model_name, fingerprint;
  dto::Estimate estimate;
  std::string state;
  std::int64_t created_at_ms = 0, state_since_ms = 0;
  std::optional<std::int64_t> ready_at_ms;
  std::string served_name;
  std::uint16_t port = 0;
  std::int64_t priority = 0;
  bool pinned = false;
  std::map<std::string, std::string> labels;
  std::optional<ports::Instance> instance;
  std::optional<Bytes> engine_device_bytes, footprint_bytes;
  std::optional<std::int64_t> load_took_s;
  std::optional<std::int64_t> sleep_level;
  std::optional<Bytes> asleep_bytes, sleep_freed_bytes, taken_first_bytes;
  std::optional<bool> ended_with_host;
  std::optional<std::string> guard_secret;
  std::optional<dto::Failure> failure;
  std::optional<std::int64_t> idle_since_ms, work_done;
};

BOOST_DESCRIBE_STRUCT(Document, (),
                      (name, request, config, model_path, model_name, fingerprint, estimate, state, created_at_ms,
                       state_since_ms, ready_at_ms, served_name, port, priority, pinned, labels, instance,
                       engine_device_bytes, footprint_bytes, load_took_s, sleep_level, asleep_bytes, sleep_freed_bytes,
                       taken_first_bytes, ended_with_host, guard_secret, failure, idle_since_ms, work_done))

std::int64_t to_ms(WallTime time) { return time.time_since_epoch().count(); }
WallTime from_ms(std::int64_t ms) { return WallTime{std::chrono::milliseconds{ms}}; }

std::optional<deployment::State> parse_state(const std::string& text) {
  using deployment::State;
  for (const auto state : {State::starting, State::loading, State::ready, State::sleeping, State::stopping,
                           State::stopped, State::failed, State::unknown}) {
    if (deployment::name_of(state) == text) return state;
  }
  return std::nullopt;
}

}  // namespace

std::string to_document(const Deployment& deployment) {
  Document document;
  document.name = deployment.name;
  document.request = deployment.request;
  document.config = dto::to_dto(deployment.config);
  document.model_path = deployment.model_path;
  document.model_name = deployment.model_name;
  document.fingerprint = deployment.fingerprint;
  document.estimate = dto::to_dto(deployment.estimate);
  document.state = deployment::name_of(deployment.state);
  document.created_at_ms = to_ms(deployment.created_at);
  document.state_since_ms = to_ms(deployment.state_since);
  if (deployment.ready_at) document.ready_at_ms = to_ms(*deployment.ready_at);
  document.served_name = deployment.served_name;
  document.port = deployment.port;
  document.priority = deployment.priority;
  document.pinned = deployment.pinned;
  document.labels = deployment.labels;
  document.instance = deployment.instance;
  document.engine_device_bytes = deployment.engine_device_bytes;
  document.footprint_bytes = deployment.footprint;
  if (deployment.load_took) document.load_took_s = deployment.load_took->count();
  document.sleep_level = deployment.sleep_level;
  document.asleep_bytes = deployment.asleep;
  document.sleep_freed_bytes = deployment.sleep_freed;
  document.taken_first_bytes = deployment.taken_first;
  if (!deployment.guard_secret.empty()) document.guard_secret = deployment.guard_secret;
  if (deployment.ended_with_host) document.ended_with_host = true;
  if (const auto& failure = deployment.failure) {
    document.failure = dto::Failure{failure->code, failure->message, failure->hint, failure->last_lines};
  }
  if (const auto& idle = deployment.idle) {
    document.idle_since_ms = to_ms(idle->since);
    document.work_done = idle->work_done;
  }
  return json::encode(document);
}

Result<Deployment> from_document(DeploymentId id, const std::string& document) {
  const auto parsed = json::parse(document);
  if (!parsed) return fail(parsed.error());
  auto stored = json::decode<Document>(*parsed, json::Unknown::ignore);
  if (!stored) return fail(stored.error());
  const auto state = parse_state(stored->state);
  if (!state) return fail("bad_field", "state: unknown value '" + stored->state + "'", {}, "state");
  auto config = dto::from_dto(stored->config);
  if (!config) return fail(config.error());
  auto estimate = dto::from_dto(stored->estimate);
  if (!estimate) return fail(estimate.error());

  Deployment result;
  result.id = id;
  result.name = std::move(stored->name);
  result.request = std::move(stored->request);
  result.config = *config;
  result.model_path = std::move(stored->model_path);
  result.model_name = std::move(stored->model_name);
  result.fingerprint = std::move(stored->fingerprint);
  result.estimate = std::move(*estimate);
  result.state = *state;
  result.created_at = from_ms(stored->created_at_ms);
  result.state_since = from_ms(stored->state_since_ms);
  if (stored->ready_at_ms) result.ready_at = from_ms(*stored->ready_at_ms);
  result.served_name = std::move(stored->served_name);
  result.port = stored->port;
  result.priority = stored->priority;
  result.pinned = stored->pinned;
  result.labels = std::move(stored->labels);
  result.instance = std::move(stored->instance);
  result.engine_device_bytes = stored->engine_device_bytes;
  result.footprint = stored->footprint_bytes;
  if (stored->load_took_s) result.load_took = std::chrono::seconds{*stored->load_took_s};
  if (stored->sleep_level) result.sleep_level = *stored->sleep_level == 2 ? 2 : 1;
  result.asleep = stored->asleep_bytes;
  result.sleep_freed = stored->sleep_freed_bytes;
  result.taken_first = stored->taken_first_bytes;
  result.guard_secret = std::move(stored->guard_secret).value_or("");
  result.ended_with_host = stored->ended_with_host.value_or(false);
  if (auto& failure = stored->failure) {
    result.failure = Failure{failure->code, failure->message, failure->hint, std::move(failure->last_lines)};
  }
  if (stored->idle_since_ms) {  // until its engine has said that nothing was done since
    result.idle =
        engine::Idle{.since = from_ms(*stored->idle_since_ms), .work_done = stored->work_done, .watched = false};
  }
  return result;
}

}  // namespace dgxmm::service
