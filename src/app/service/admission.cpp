#include "app/service/admission.h"

#include "core/memory/sleep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <ranges>
#include <set>
#include <utility>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRememberedPlanSets = 64;

bool is_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::chrono::milliseconds seconds_of(double s) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(s * 1000)};
}

Error shutting_down() {
  return {"shutting_down", "dgxmm is shutting down", "try again when it has been restarted", {}};
}

bool is_among(std::span<const DeploymentId> ids, DeploymentId id) { return std::ranges::find(ids, id) != ids.end(); }

/// "SmolLM2-135M-Instruct Q4_1" -> "smollm2-135m-instruct-q4_1"
std::string slug(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool keep = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (keep) {
      result += c;
    } else if (c >= 'A' && c <= 'Z') {
      result += static_cast<char>(c - 'A' + 'a');
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
    if (result.size() == 48) break;
  }
  while (!result.empty() && (result.back() == '-' || result.back() == '.')) result.pop_back();
  while (!result.empty() && (result.front() == '-' || result.front() == '.')) result.erase(0, 1);
  // A name of digits alone would be taken for the id of a deployment.
  return is_digits(result) ? "model" + (result.empty() ? result : "-" + result) : result;
}

Result<void> check_name(const engine::DeployRequest& request) {
  if (!request.name) return {};
  const std::string_view name = *request.name;
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  if (name.empty() || name.size() > 63 || !plain || name.front() == '-' || name.front() == '.') {
    return fail("bad_field", "name: must be 1 to 63 letters, digits, '.', '_' or '-', beginning with a letter or digit",
                {}, "name");
  }
  if (is_digits(name)) {
    return fail("bad_field", "name: must not be a number: that would be taken for an id", {}, "name");
  }
  return {};
}

}  // namespace

Admission::Admission(Estimates& estimates, Sampler& sampler, DeploymentTable& table, ports::TcpPorts& tcp_ports,
                     Clock& clock, ports::EventLoop& loop)
    : estimates_(estimates),
      sampler_(sampler),
      table_(table),
      tcp_ports_(tcp_ports),
      clock_(clock),
      loop_(loop),
      turns_("admission", seconds_of(estimates.settings().queue_limit_s), loop, clock),
      sets_(kRememberedPlanSets) {}

ports::Task<Result<Prepared>> Admission::prepare(engine::DeployRequest request) {
  if (auto valid = check_name(request); !valid) co_return fail(valid.error());
  auto prepared = co_await estimates_.prepare(std::move(request));
  if (prepared && loop_.stopping()) co_return fail(shutting_down());
  co_return prepared;
}

ports::Task<Result<Decision>> Admission::admit(engine::DeployRequest request) {
  const TurnQueue::Claim claim{.what = "deploy " + request.name.value_or(request.model),
                               .priority = request.priority.value_or(0)};
  auto prepared = co_await prepare(std::move(request));
  if (!prepared) co_return fail(prepared.error());
  for (bool complete = false;; complete = true) {
    {
      const auto turn = co_await turns_.take(claim);
      if (!turn) co_return fail(turn.error());
      // What refused it the first time is not read again when the newest reading, which may be a later one, refuses it
      // too.
      auto snapshot = sampler_.latest();
      if (!complete || fits(*prepared, *snapshot)) snapshot = sampler_.refresh();
      if (complete || fits(*prepared, *snapshot)) co_return decide(std::move(*prepared), *snapshot);
    }
    const auto room = sampler_.latest()->budget.free_for_new;
    prepared->quantizations = co_await estimates_.prepare_smaller_quantizations(*prepared, room);
  }
}

/// With what was learned since it was prepared, while others had the turn.
Result<Prepared> Admission::sized_anew(Prepared prepared) const {
  auto estimate = estimates_.estimator_of(prepared)(prepared.config);
  if (!estimate) return fail(estimate.error());
  prepared.estimate = std::move(*estimate);
  return prepared;
}

bool Admission::fits(const Prepared& prepared, const HostSnapshot& snapshot) const {
  const auto sized = sized_anew(prepared);
  return sized && sized->estimate.total <= snapshot.budget.free_for_new;
}

Result<Decision> Admission::admit_in_turn(Prepared prepared) {
  return decide(std::move(prepared), *sampler_.refresh());
}

Result<Decision> Admission::decide(Prepared prepared, const HostSnapshot& snapshot) {
  auto sized = sized_anew(std::move(prepared));
  if (!sized) return fail(sized.error());
  if (auto startable = check_startable(sized->request, sized->config); !startable) return fail(startable.error());
  if (snapshot.problem) return fail(*snapshot.problem);
  Decision decision;
  if (sized->estimate.total > snapshot.budget.free_for_new) {
    const Wanted wanted{.prepared = std::move(*sized)};
    auto set = plan_wanted(wanted, snapshot);
    if (!set) return fail(set.error());
    decision.refused = std::move(*set);
    return decision;
  }
  auto reserved = reserve(*sized);
  if (!reserved) return fail(reserved.error());
  decision.admitted = *reserved;
  return decision;
}

Result<void> Admission::check_startable(const engine::DeployRequest& request, const engine::EngineConfig& config,
                                        std::span<const DeploymentId> leaving) {
  if (const auto refused = sampler_.gpu_now().no_starts) return fail(*refused);
  if (auto valid = engine::check(config); !valid) return valid;
  const auto placed = engine::with_runtime(request, estimates_.settings().runtime_defaults(engine::kind_of(config)));
  if (!placed) return fail(placed.error());
  if (request.name) {
    if (auto free = check_name_is_free(*request.name, leaving); !free) return free;
  }
  if (!request.port) return {};
  const auto wanted = static_cast<std::uint16_t>(*request.port);
  // The engine that still listens on it leaves with its deployment.
  if (const auto* owner = owner_of(wanted); owner != nullptr && is_among(leaving, owner->id)) return {};
  const auto port = hold_port(wanted);
  if (!port) return fail(port.error());
  tcp_ports_.release(*port);
  return {};
}

Result<void> Admission::check_name_is_free(const std::string& name, std::span<const DeploymentId> leaving) {
  for (const auto* other : table_.all()) {
    if (other->name != name || deployment::is_final(other->state) || is_among(leaving, other->id)) continue;
    return fail("name_taken", fmt::format("there is a deployment named '{}' already", name),
                "choose another name, or stop that one first", "name");
  }
  return {};
}

Result<DeploymentId> Admission::reserve(const Prepared& prepared) {
  // From now on it stays where it is, whatever the settings say later.
  const auto placed =
      engine::with_runtime(prepared.request, estimates_.settings().runtime_defaults(engine::kind_of(prepared.config)));
  if (!placed) return fail(placed.error());
  const auto& request = *placed;
  std::optional<std::uint16_t> wanted_port;
  if (request.port) wanted_port = static_cast<std::uint16_t>(*request.port);
  const auto port = hold_port(wanted_port);
  if (!port) return fail(port.error());

  Deployment deployment;
  deployment.name = request.name ? *request.name : table_.unique_name(slug(prepared.model->name));
  deployment.request = request;
  deployment.request.name = deployment.name;
  deployment.config = prepared.config;
  deployment.model_path = model::load_path(*prepared.model);
  deployment.model_name = prepared.model->name;
  deployment.fingerprint = prepared.fingerprint;
  deployment.estimate = prepared.estimate;
  deployment.served_name = request.served_name.value_or(deployment.name);
  deployment.port = *port;
  deployment.priority = request.priority.value_or(0);
  deployment.pinned = request.pinned.value_or(false);
  deployment.labels = request.labels;
  try {
    const auto id = table_.add(std::move(deployment)).id;
    sampler_.refresh();
    return id;
  } catch (...) {
    tcp_ports_.release(*port);
    throw;
  }
}

const Deployment* Admission::owner_of(std::uint16_t port) {
  // An engine binds its port a while after it was started: until then the port looks free.
  for (const auto* other : table_.all()) {
    if (other->port == port && !deployment::is_final(other->state)) return other;
  }
  return nullptr;
}

Result<std::uint16_t> Admission::hold_port(std::optional<std::uint16_t> wanted) {
  if (const auto* owner = wanted ? owner_of(*wanted) : nullptr) {
    return fail("port_taken", fmt::format("port {} belongs to {}", *wanted, owner->name),
                "choose another port, or leave it to dgxmm", "port");
  }
  if (wanted) return tcp_ports_.hold(wanted);
  std::vector<std::uint16_t> owned;
  auto port = tcp_ports_.hold(std::nullopt);
  while (port && owner_of(*port) != nullptr) {
    owned.push_back(*port);
    port = tcp_ports_.hold(std::nullopt);
  }
  for (const auto other : owned) tcp_ports_.release(other);
  return port;
}

Result<Deployment*> Admission::find_startable(DeploymentId id) {
  auto* deployment = table_.find(id);
  if (deployment == nullptr) return fail("deployment_not_found", fmt::format("there is no deployment {}", id.value));
  if (!deployment::is_final(deployment->state)) {
    return fail("already_running", fmt::format("{} is {}", deployment->name, deployment::name_of(deployment->state)));
  }
  if (auto free = check_name_is_free(deployment->name); !free) return fail(free.error());
  return deployment;
}

ports::Task<Result<Prepared>> Admission::prepare_again(DeploymentId id) {
  const auto ended = find_startable(id);
  if (!ended) co_return fail(ended.error());
  auto request = engine::with_config((*ended)->request, (*ended)->config);
  auto prepared = co_await estimates_.prepare(std::move(request));
  if (prepared && loop_.stopping()) co_return fail(shutting_down());
  co_return prepared;
}

ports::Task<Result<void>> Admission::readmit_in_turn(DeploymentId id) {
  const auto prepared = co_await prepare_again(id);
  if (!prepared) co_return fail(prepared.error());
  co_return readmit_prepared(id, *prepared, *sampler_.refresh());
}

Result<void> Admission::readmit_prepared(DeploymentId id, const Prepared& prepared, const HostSnapshot& snapshot) {
  const auto sized = sized_anew(prepared);
  if (!sized) return fail(sized.error());
  const auto found = find_startable(id);
  if (!found) return fail(found.error());
  auto& deployment = **found;

  if (snapshot.problem) return fail(*snapshot.problem);
  if (snapshot.gpu.no_starts) return fail(*snapshot.gpu.no_starts);
  const auto needed = sized->estimate.total;
  if (needed > snapshot.budget.free_for_new) {
    return fail("does_not_fit", fmt::format("{} needs {}, {} is free", deployment.name, format_bytes(needed),
                                            format_bytes(snapshot.budget.free_for_new)));
  }
  auto port = hold_port(deployment.port);
  std::string message = "starting again";
  if (!port && deployment.request.port) {  // its clients know it by this port
    return fail(port.error().code, port.error().message, "stop what has it, or deploy again with another port",
                port.error().where);
  }
  if (!port) {
    port = hold_port(std::nullopt);
    if (!port) return fail(port.error());
    message = fmt::format("starting again on port {}: its port {} is taken by now", *port, deployment.port);
  }

  const auto before = deployment;
  try {
    deployment.estimate = sized->estimate;
    deployment.fingerprint = sized->fingerprint;
    deployment.port = *port;
    deployment.instance.reset();
    deployment.failure.reset();
    deployment.ended_with_host = false;
    deployment.ready_at.reset();
    deployment.idle.reset();
    deployment.engine_device_bytes.reset();
    deployment.footprint.reset();  // C1: every start is measured
    table_.apply(deployment, deployment::Event::start_requested, std::move(message));
  } catch (...) {
    deployment = before;
    tcp_ports_.release(*port);
    throw;
  }
  sampler_.refresh();
  return {};
}

ports::Task<Result<Decision>> Admission::readmit(DeploymentId id) {
  const auto* asked = table_.find(id);
  if (asked == nullptr) co_return fail("deployment_not_found", fmt::format("there is no deployment {}", id.value));
  TurnQueue::Claim claim{.what = "start " + asked->name, .priority = asked->priority, .deployment = id};
  auto prepared = co_await prepare_again(id);
  if (!prepared) co_return fail(prepared.error());
  const auto turn = co_await turns_.take(std::move(claim));
  if (!turn) co_return fail(turn.error());
  Decision decision;
  const auto snapshot = sampler_.refresh();
  const auto readmitted = readmit_prepared(id, *prepared, *snapshot);
  if (readmitted) {
    decision.admitted = id;
    co_return decision;
  }
  if (readmitted.error().code != "does_not_fit") co_return fail(readmitted.error());
  const Wanted wanted{.prepared = std::move(*prepared), .returns = id};
  auto set = plan_wanted(wanted, *snapshot);
  if (!set) co_return fail(set.error());
  decision.refused = std::move(*set);
  co_return decision;
}

ports::Task<Result<Decision>> Admission::admit_wake(DeploymentId id) {
  const auto* asked = table_.find(id);
  if (asked == nullptr) co_return fail("deployment_not_found", fmt::format("there is no deployment {}", id.value));
  TurnQueue::Claim claim{.what = "wake " + asked->name, .priority = asked->priority, .deployment = id};
  const auto turn = co_await turns_.take(std::move(claim));
  if (!turn) co_return fail(turn.error());
  Decision decision;
  const auto snapshot = sampler_.refresh();
  const auto admitted = let_wake(id, *snapshot);
  if (admitted) {
    decision.admitted = id;
    co_return decision;
  }
  const auto* deployment = table_.find(id);
  if (admitted.error().code != "does_not_fit" || deployment == nullptr) co_return fail(admitted.error());
  Wanted waking{.returns = id};
  waking.prepared.config = deployment->config;
  waking.prepared.request.priority = deployment->priority;
  auto set = plan_wanted(waking, *snapshot);
  if (!set) co_return fail(set.error());
  decision.refused = std::move(*set);
  co_return decision;
}

Bytes Admission::needed_to_wake(const Deployment& deployment, const HostSnapshot& snapshot) {
  const auto* entry = snapshot.find(deployment.id);
  const auto measured = entry != nullptr && entry->measured ? *entry->measured : memory::Measured{};
  return memory::needed_to_wake(deployment.estimate, deployment.sleep_level.value_or(1), measured.complete_total(),
                                measured.total());
}

std::optional<WakeNeed> Admission::wake_need(const Deployment& deployment) {
  if (deployment.state != deployment::State::sleeping) return std::nullopt;
  const auto& snapshot = *sampler_.latest();
  WakeNeed need{.size = needed_to_wake(deployment, snapshot), .is_free = {}};
  if (!snapshot.problem) need.is_free = !snapshot.gpu.no_starts && need.size <= snapshot.budget.free_for_new;
  return need;
}

Result<void> Admission::admit_wake_in_turn(DeploymentId id) { return let_wake(id, *sampler_.refresh()); }

Result<void> Admission::let_wake(DeploymentId id, const HostSnapshot& snapshot) {
  if (loop_.stopping()) return fail(shutting_down());
  auto* deployment = table_.find(id);
  if (deployment == nullptr) return fail("deployment_not_found", fmt::format("there is no deployment {}", id.value));
  if (deployment->state != deployment::State::sleeping) {
    return fail("not_sleeping", fmt::format("{} is {}", deployment->name, deployment::name_of(deployment->state)),
                "only one that sleeps can be woken");
  }
  if (snapshot.problem) return fail(*snapshot.problem);
  if (snapshot.gpu.no_starts) return fail(*snapshot.gpu.no_starts);
  const auto needed = needed_to_wake(*deployment, snapshot);
  if (needed > snapshot.budget.free_for_new) {
    return fail("does_not_fit", fmt::format("waking {} up needs {}, {} is free", deployment->name, format_bytes(needed),
                                            format_bytes(snapshot.budget.free_for_new)));
  }
  const auto* entry = snapshot.find(id);
  const auto measured = entry != nullptr && entry->measured ? *entry->measured : memory::Measured{};
  deployment->wake_peak =
      memory::wake_peak(deployment->estimate, deployment->sleep_level.value_or(1), measured.complete_total());
  table_.apply(*deployment, deployment::Event::wake_requested,
               fmt::format("waking up, which takes up to {} more", format_bytes(needed)));
  sampler_.refresh();
  return {};
}

Result<planner::Plans> Admission::plans_to_return(const Wanted& wanted, const HostSnapshot& snapshot) {
  const auto* deployment = table_.find(wanted.returns.value());
  const bool sleeps = deployment != nullptr && deployment->state == deployment::State::sleeping;
  if (deployment == nullptr || (!sleeps && !deployment::is_final(deployment->state))) {
    return fail("plan_changed", deployment == nullptr ? std::string{"the deployment has been removed"}
                                                      : fmt::format("{} is {} by now", deployment->name,
                                                                    deployment::name_of(deployment->state)));
  }
  auto input = situation_of(wanted.prepared, snapshot);
  for (auto& candidate : input.deployments) candidate.returns = candidate.memory.id == deployment->id;
  auto estimate = deployment->estimate;
  if (sleeps) {
    estimate.total = needed_to_wake(*deployment, snapshot);
  } else {
    auto sized = sized_anew(wanted.prepared);
    if (!sized) return fail(sized.error());
    estimate = std::move(sized->estimate);
  }
  const auto only_as_it_is = [&](const engine::EngineConfig& config) -> Result<memory::Estimate> {
    if (config != wanted.prepared.config) return fail("bad_configuration", "it keeps its configuration");
    return estimate;
  };
  return planner::make_plans(input, only_as_it_is);
}

ports::Task<Result<PlanSet>> Admission::plan(engine::DeployRequest request) {
  if (auto valid = check_name(request); !valid) co_return fail(valid.error());
  auto prepared = co_await estimates_.prepare(std::move(request));
  if (!prepared) co_return fail(prepared.error());
  const auto room = sampler_.refresh()->budget.free_for_new;
  prepared->quantizations = co_await estimates_.prepare_smaller_quantizations(*prepared, room);
  const auto snapshot = sampler_.latest();  // that one, or a later one if the disk was slow
  if (snapshot->problem) co_return fail(*snapshot->problem);
  const Wanted wanted{.prepared = std::move(*prepared)};
  auto set = plan_wanted(wanted, *snapshot);
  co_return set;
}

std::vector<planner::SleepLevel> Admission::sleep_levels_of(const Deployment& deployment) {
  const auto* vllm = std::get_if<engine::VllmConfig>(&deployment.config);
  if (vllm == nullptr || !vllm->sleep_mode) return {};
  std::vector<planner::SleepLevel> levels;
  for (const int level : {1, 2}) {
    const auto learned = estimates_.measured_asleep(deployment.fingerprint, deployment.config, level);
    levels.push_back(
        {.level = level,
         .size_asleep = memory::size_asleep(deployment.estimate, level, learned),
         .learned = learned.has_value(),
         .wake_peak = memory::wake_peak(deployment.estimate, level, learned),
         .sleep_takes = estimates_.measured_duration(deployment.fingerprint, planner::Action::sleep, level),
         .wake_takes = estimates_.measured_duration(deployment.fingerprint, planner::Action::wake, level)});
  }
  return levels;
}

planner::PlanInput Admission::situation_of(const Prepared& prepared, const HostSnapshot& snapshot) {
  planner::PlanInput input{.mem_total = snapshot.mem_total,
                           .mem_available = snapshot.mem_available,
                           .budget_settings = estimates_.settings().budget(),
                           .deployments = {},
                           .config = prepared.config,
                           .priority = prepared.request.priority.value_or(0),
                           .min_headroom = gib_from_decimal(estimates_.settings().min_headroom_gib)};
  if (prepared.model) input.quantization = prepared.model->quantization;
  input.load_takes = estimates_.measured_duration(prepared.fingerprint, planner::Action::load);
  for (const auto& other : prepared.quantizations) {
    input.quantizations.push_back(
        {.name = other.model->name,
         .path = other.model->path,
         .quantization = other.model->quantization,
         .file_bytes = other.model->weights.files,
         .config = other.config,
         .estimator = estimates_.estimator_of(other),
         .load_takes = estimates_.measured_duration(other.fingerprint, planner::Action::load)});
  }
  for (const auto& entry : snapshot.deployments) {
    const auto* deployment = table_.find(entry.id);
    if (deployment == nullptr) continue;
    planner::Candidate candidate{
        .memory = entry,
        .name = deployment->name,
        .priority = deployment->priority,
        .pinned = deployment->pinned,
        .busy = deployment->activity.busy(),
        .idle_since = {},
        .requests = deployment->activity.requests(),
        .weights = deployment->estimate.part("weights"),
        .engine = engine::kind_of(deployment->config),
        .load_takes = deployment->load_took,
        .stop_takes = estimates_.measured_duration(deployment->fingerprint, planner::Action::stop)};
    if (!candidate.load_takes) {
      candidate.load_takes = estimates_.measured_duration(deployment->fingerprint, planner::Action::load);
    }
    candidate.sleep_levels = sleep_levels_of(*deployment);
    if (const auto since = deployment->idle_since()) {
      const auto idle = std::max(clock_.wall() - *since, 0ms);  // the clock may have been set back
      candidate.idle_since = std::chrono::duration_cast<std::chrono::seconds>(idle);
    }
    input.deployments.push_back(std::move(candidate));
  }
  return input;
}

ports::Task<Result<planner::Scenario>> Admission::describe_host(std::optional<engine::DeployRequest> request) {
  Prepared prepared;
  planner::Scenario scenario;
  if (request) {
    auto asked = co_await estimates_.prepare(std::move(*request));
    if (!asked) co_return fail(asked.error());
    prepared = std::move(*asked);
    // Of any size: the scenario may be asked about a host with more or less memory.
    prepared.quantizations = co_await estimates_.prepare_smaller_quantizations(prepared, std::nullopt);
    scenario.request = prepared.request;
    scenario.models.push_back(*prepared.model);
    for (const auto& other : prepared.quantizations) scenario.models.push_back(*other.model);
    if (const auto& draft = prepared.companions.draft) scenario.models.push_back(*draft);
    if (const auto& projector = prepared.companions.projector) {
      scenario.projectors.push_back(*projector);
      scenario.request->mmproj = projector->path;
    }
  }
  const auto snapshot = sampler_.refresh();
  if (snapshot->problem) co_return fail(*snapshot->problem);
  const auto& settings = estimates_.settings();
  scenario.host = situation_of(prepared, *snapshot);
  scenario.placement = estimates_.placement();
  scenario.estimate_settings = settings.estimate();
  scenario.defaults = settings.config_defaults();
  std::set<std::string> fingerprints{prepared.fingerprint};
  for (const auto& other : prepared.quantizations) fingerprints.insert(other.fingerprint);
  std::ranges::copy_if(estimates_.records(), std::back_inserter(scenario.records),
                       [&](const auto& record) { return fingerprints.contains(record.fingerprint); });
  std::ranges::copy_if(estimates_.floors(), std::back_inserter(scenario.floors),
                       [&](const auto& floor) { return fingerprints.contains(floor.fingerprint); });
  std::ranges::copy_if(estimates_.durations(), std::back_inserter(scenario.durations),
                       [&](const auto& record) { return fingerprints.contains(record.fingerprint); });
  co_return scenario;
}

Result<planner::Plans> Admission::plans_for(const Wanted& wanted, const HostSnapshot& snapshot) {
  if (wanted.returns) return plans_to_return(wanted, snapshot);
  return planner::make_plans(situation_of(wanted.prepared, snapshot), estimates_.estimator_of(wanted.prepared));
}

Result<PlanSet> Admission::plan_wanted(const Wanted& wanted, const HostSnapshot& snapshot) {
  auto plans = plans_for(wanted, snapshot);
  if (!plans) return fail(plans.error());
  PlanSet set{.id = fmt::format("{}", ++sets_made_),
              .wanted = wanted,
              .plans = std::move(*plans),
              .revision = snapshot.revision};
  sets_.push(set);
  return set;
}

const PlanSet* Admission::find_set(const std::string& id) const {
  const auto& sets = sets_.items();
  const auto found = std::ranges::find(sets, id, &PlanSet::id);
  return found == sets.end() ? nullptr : &*found;
}

std::vector<const PlanSet*> Admission::newest_sets_with(const std::string& plan_id) const {
  const auto has_plan = [&](const PlanSet& set) {
    return std::ranges::any_of(set.plans.plans, [&](const auto& plan) { return plan.id == plan_id; });
  };
  std::vector<const PlanSet*> newest;
  for (const auto& set : std::views::reverse(sets_.items())) {
    const auto same_request = [&](const PlanSet* other) {
      return other->wanted.returns == set.wanted.returns &&
             other->wanted.prepared.request == set.wanted.prepared.request;
    };
    if (has_plan(set) && std::ranges::none_of(newest, same_request)) newest.push_back(&set);
  }
  return newest;
}

}  // namespace dgxmm::service
