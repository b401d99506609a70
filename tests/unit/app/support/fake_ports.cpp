#include "unit/app/support/fake_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <stdexcept>

namespace dgxmm::testing {

using std::chrono::milliseconds;

// --- MemoryStore

void MemoryStore::write() const {
  if (fail_writes) throw std::runtime_error("/state/dgxmm.db: the disk is full");
}

DeploymentId MemoryStore::add_deployment(const std::string& name, const std::string& document) {
  write();
  const DeploymentId id{++last_deployment_};
  deployments_[id] = {id, name, document};
  return id;
}

void MemoryStore::update_deployment(const ports::StoredDeployment& deployment) {
  write();
  deployments_.at(deployment.id) = deployment;
}

void MemoryStore::remove_deployment(DeploymentId id) {
  write();
  deployments_.erase(id);
}

std::vector<ports::StoredDeployment> MemoryStore::deployments() {
  std::vector<ports::StoredDeployment> result;
  for (const auto& [id, deployment] : deployments_) result.push_back(deployment);
  return result;
}

std::int64_t MemoryStore::add_event(const ports::StoredEvent& event) {
  write();
  events_.push_back(event);
  events_.back().id = ++last_event_;
  return last_event_;
}

std::vector<ports::StoredEvent> MemoryStore::events_after(std::int64_t id, std::size_t limit) {
  std::vector<ports::StoredEvent> result;
  for (const auto& event : events_) {
    if (event.id > id && result.size() < limit) result.push_back(event);
  }
  return result;
}

std::int64_t MemoryStore::add_operation(const std::string& document) {
  write();
  operations_[++last_operation_] = document;
  return last_operation_;
}

void MemoryStore::update_operation(const ports::StoredOperation& operation) {
  write();
  operations_.at(operation.id) = operation.document;
}

void MemoryStore::remove_operation(std::int64_t id) {
  write();
  operations_.erase(id);
}

std::vector<ports::StoredOperation> MemoryStore::operations() {
  std::vector<ports::StoredOperation> result;
  for (const auto& [id, document] : operations_) result.push_back({id, document});
  return result;
}

void MemoryStore::add_calibration(const memory::CalibrationRecord& record) {
  write();
  calibrations_.push_back(record);
}

void MemoryStore::put_oom_floor(const memory::OomFloor& floor) {
  write();
  std::erase_if(floors_, [&](const auto& other) {
    return other.fingerprint == floor.fingerprint && other.configuration_key == floor.configuration_key;
  });
  floors_.push_back(floor);
}

void MemoryStore::put_sleep_record(const memory::SleepRecord& record) {
  write();
  std::erase_if(sleep_records_, [&](const auto& other) {
    return other.fingerprint == record.fingerprint && other.configuration_key == record.configuration_key &&
           other.level == record.level;
  });
  sleep_records_.push_back(record);
}

void MemoryStore::put_duration(const planner::DurationRecord& record) {
  write();
  std::erase_if(durations_, [&](const auto& other) {
    return other.fingerprint == record.fingerprint && other.action == record.action && other.level == record.level;
  });
  durations_.push_back(record);
}

void MemoryStore::forget(const ports::Learned& those) {
  write();
  for (const auto& record : those.records) {
    std::erase_if(calibrations_, [&](const auto& other) {
      return other.fingerprint == record.fingerprint && other.configuration_key == record.configuration_key &&
             other.recorded_at == record.recorded_at;
    });
  }
  for (const auto& floor : those.oom_floors) {
    std::erase_if(floors_, [&](const auto& other) {
      return other.fingerprint == floor.fingerprint && other.configuration_key == floor.configuration_key;
    });
  }
  for (const auto& record : those.sleep_records) {
    std::erase_if(sleep_records_, [&](const auto& other) {
      return other.fingerprint == record.fingerprint && other.configuration_key == record.configuration_key &&
             other.level == record.level;
    });
  }
  for (const auto& record : those.durations) {
    std::erase_if(durations_, [&](const auto& other) {
      return other.fingerprint == record.fingerprint && other.action == record.action && other.level == record.level;
    });
  }
}

// --- FakeEngineLogs

namespace {

class Follower final : public ports::LogFollower {
 public:
  Follower(FakeEngineLogs& logs, std::string path, std::size_t position)
      : logs_(logs),
        path_(std::move(path)),
        position_(position) {}

  std::vector<std::string> read_new() override {
    const auto found = logs_.files.find(path_);
    if (found == logs_.files.end()) {
      position_ = 0;
      return {};
    }
    const auto& lines = found->second;
    position_ = std::min(position_, lines.size());
    std::vector<std::string> result(lines.begin() + static_cast<std::ptrdiff_t>(position_), lines.end());
    position_ = lines.size();
    return result;
  }

 private:
  FakeEngineLogs& logs_;
  std::string path_;
  std::size_t position_;
};

}  // namespace

std::unique_ptr<ports::LogFollower> FakeEngineLogs::follow(const std::string& path, bool from_start) {
  const auto found = files.find(path);
  const auto position = from_start || found == files.end() ? 0 : found->second.size();
  return std::make_unique<Follower>(*this, path, position);
}

Result<void> FakeEngineLogs::append(const std::string& path, std::string_view lines) {
  files[path].emplace_back(lines);
  return {};
}

std::vector<std::string> FakeEngineLogs::tail(const std::string& path, std::size_t lines) {
  const auto found = files.find(path);
  if (found == files.end()) return {};
  const auto count = std::min(lines, found->second.size());
  return {found->second.end() - static_cast<std::ptrdiff_t>(count), found->second.end()};
}

// --- FakeRuntime

void FakeRuntime::attach(SimulatedLoop& loop) {
  loop_ = &loop;
  changed_ = loop.make_wakeup();
}

void FakeRuntime::detach() {
  changed_.reset();
  loop_ = nullptr;
}

std::vector<FakeRuntime::Engine*> FakeRuntime::engines() {
  std::vector<Engine*> result;
  for (auto& [pid, engine] : engines_) result.push_back(&engine);
  return result;
}

FakeRuntime::Engine* FakeRuntime::newest(DeploymentId id) {
  Engine* result = nullptr;
  for (auto& [pid, engine] : engines_) {
    if (engine.spec.deployment == id) result = &engine;
  }
  return result;
}

std::size_t FakeRuntime::running_count() {
  let_die();
  return static_cast<std::size_t>(std::ranges::count_if(engines_, [](const auto& row) { return !row.second.ended; }));
}

FakeRuntime::Engine* FakeRuntime::listening_on(std::uint16_t port) {
  let_die();
  for (auto& [pid, engine] : engines_) {
    if (engine.ended) continue;
    if (engine.spec.container) {
      if (engine.spec.container->host_port == port) return &engine;
      continue;
    }
    const auto& arguments = engine.spec.arguments;
    const auto flag = std::ranges::find(arguments, "--port");
    if (flag != arguments.end() && *std::next(flag) == std::to_string(port)) return &engine;
  }
  return nullptr;
}

void FakeRuntime::end(std::int64_t pid, ports::ExitStatus status) {
  auto& engine = engines_.at(pid);
  if (engine.ended) return;
  engine.ended = clock_.steady();
  engine.status = std::move(status);
  if (changed_) changed_->notify_all();
}

void FakeRuntime::let_die() {
  for (auto& [pid, engine] : engines_) {
    const auto after = engine.script.dies_after;
    if (after.count() >= 0 && clock_.steady() >= engine.started + after) end(pid, engine.script.death);
  }
}

void FakeRuntime::reboot() {
  for (auto& [pid, engine] : engines_) {
    if (!engine.ended) end(pid, {.exit_code = {}, .signal = {}, .evidence = {}});
  }
  boot_id += "'";
}

void FakeRuntime::remove_leftovers() {
  for (auto& [pid, engine] : engines_) {
    if (engine.ended) engine.status = {};
  }
}

Bytes FakeRuntime::held() {
  Bytes sum;
  for (const auto& [pid, engine] : engines_) {
    if (const auto measured = measure(engine.instance, {})) sum += measured->total();
  }
  return sum;
}

std::string FakeRuntime::id_of_image(const std::string& reference) const {
  const auto found = images.ids.find(reference);
  return found == images.ids.end() ? "sha256:" + reference : found->second;
}

ports::Task<Result<container::Image>> FakeRuntime::provide_image(std::string reference, ports::PullWatcher watcher) {
  co_await loop_->sleep_for(milliseconds{5});
  if (!containers_answer) co_return fail("docker_unreachable", "Docker does not answer");
  if (images.pull_takes.count() > 0 && !watcher) co_return fail("image_not_found", "it is not here");
  const auto arrives = clock_.steady() + images.pull_takes;
  while (clock_.steady() < arrives) {
    if (!watcher("pulling the image, 1.0 of 2.0 GiB")) {
      ++pulls_broken_off;
      co_return fail("cancelled", "the pull was broken off");
    }
    co_await loop_->sleep_for(milliseconds{100});
  }
  if (images.error) co_return fail(*images.error);
  images.pull_takes = milliseconds{0};
  container::Image image;
  image.id = id_of_image(reference);
  image.entrypoint = images.entrypoint;
  co_return image;
}

bool FakeRuntime::is_as_specified(const ports::Instance& /*instance*/, const ports::InstanceSpec& /*spec*/,
                                  const container::Image& /*image*/) {
  return images.as_specified;
}

Bytes FakeRuntime::kept_by_driver() const {
  Bytes sum;
  for (const auto& [pid, engine] : engines_) {
    for (const auto& [until, kept] : engine.script.driver_keeps) {
      if (!engine.ended || clock_.steady() >= *engine.ended + until) continue;
      sum += kept;
      break;
    }
  }
  return sum;
}

ports::Task<Result<ports::Instance>> FakeRuntime::start(ports::InstanceSpec spec) {
  if (start_throws) throw std::runtime_error("the runtime fails in a way that nobody foresaw");
  const auto script = next;
  co_await loop_->sleep_for(script.start_takes);
  if (spec.container && !containers_answer) co_return fail("docker_unreachable", "Docker does not answer");
  if (spec.before_start) spec.before_start();
  if (script.start_error && next.start_errors-- > 0) co_return fail(*script.start_error);
  const auto pid = ++last_pid_;
  ports::Instance instance;
  instance.runtime = "process";
  instance.pid = pid;
  instance.start_time_ticks = static_cast<std::uint64_t>(pid) * 100;
  instance.boot_id = boot_id;
  if (spec.container) {
    instance.boot_id.clear();  // Docker does not know it
    instance.runtime = "docker";
    instance.container_id = fmt::format("{:064x}", pid);
    instance.image = id_of_image(spec.container->image);
  }
  auto& lines = logs_.files[spec.log_path];
  lines.insert(lines.end(), script.log.begin(), script.log.end());
  Engine engine;
  engine.spec = std::move(spec);
  engine.instance = instance;
  engine.script = script;
  engine.started = clock_.steady();
  engines_[pid] = std::move(engine);
  if (script.start_returns_after.count() > 0) co_await loop_->sleep_for(script.start_returns_after);
  co_return instance;
}

ports::Task<Result<std::string>> FakeRuntime::output_of(std::vector<std::string> arguments, milliseconds deadline,
                                                        std::string /*image*/) {
  static_cast<void>(arguments);
  static_cast<void>(deadline);
  co_await loop_->sleep_for(milliseconds{5});
  co_return std::string{"--model FNAME  --kv-unified  --cache-ram N"};
}

bool FakeRuntime::is_same(const Engine& engine, const ports::Instance& instance) {
  if (instance.is_container()) return engine.instance.container_id == instance.container_id;
  return engine.instance == instance;
}

ports::Presence FakeRuntime::presence(const ports::Instance& instance) {
  let_die();
  const auto found = engines_.find(instance.pid);
  if (instance.is_container() && !containers_answer) return ports::Presence::unreachable;
  const bool same = found != engines_.end() && is_same(found->second, instance);
  return same && !found->second.ended ? ports::Presence::running : ports::Presence::gone;
}

ports::Task<> FakeRuntime::until_known() {
  while (!containers_answer && !loop_->stopping()) co_await loop_->sleep_for(milliseconds{100});
}

std::vector<std::pair<std::string, ports::Instance>> FakeRuntime::find_owned() {
  let_die();
  std::vector<std::pair<std::string, ports::Instance>> result;
  for (const auto& [pid, engine] : engines_) {
    if (engine.instance.is_container() && !containers_answer) continue;
    if (!engine.ended) result.emplace_back(engine.spec.name, engine.instance);
  }
  std::ranges::reverse(result);  // the newest first
  return result;
}

ports::Task<ports::ExitStatus> FakeRuntime::wait(ports::Instance instance) {
  while (!loop_->stopping()) {
    let_die();
    const auto& engine = engines_.at(instance.pid);
    const bool seen = containers_answer || !instance.is_container();
    if (!seen) {
      co_await loop_->sleep_for(milliseconds{100});
      continue;
    }
    if (!is_same(engine, instance)) co_return ports::ExitStatus{};
    if (engine.ended) {
      auto status = engine.status;
      co_return status;
    }
    auto until_death = std::chrono::duration_cast<milliseconds>(std::chrono::hours{1000});
    if (engine.script.dies_after.count() >= 0) {
      until_death =
          std::chrono::duration_cast<milliseconds>(engine.started + engine.script.dies_after - clock_.steady());
    }
    co_await changed_->wait_for(until_death);
  }
  co_return ports::ExitStatus{};
}

ports::Task<Result<void>> FakeRuntime::stop(ports::Instance instance, milliseconds grace) {
  auto& engine = engines_.at(instance.pid);
  if (!is_same(engine, instance)) co_return Result<void>{};
  if (instance.is_container() && !containers_answer && !killed_without_docker) {
    co_await loop_->sleep_for(grace);
    co_return fail("docker_unreachable", "Docker does not answer");
  }
  ++engine.stops;
  if (engine.ended) co_return Result<void>{};
  if (engine.script.survives_stop) {
    co_await loop_->sleep_for(grace);
    co_return fail("still_running", "it does not end", "the kernel holds it; only a reboot helps");
  }
  co_await loop_->sleep_for(engine.script.stop_takes);
  ports::ExitStatus status;
  status.signal = 15;
  end(instance.pid, status);
  co_return Result<void>{};
}

std::optional<memory::Measured> FakeRuntime::measure(const ports::Instance& instance,
                                                     const std::vector<std::int64_t>& /*pids*/) {
  const auto found = engines_.find(instance.pid);
  if (found == engines_.end() || !is_same(found->second, instance)) return std::nullopt;
  const auto& engine = found->second;
  if (engine.ended && clock_.steady() >= *engine.ended + engine.script.memory_lingers) return std::nullopt;
  return engine.asleep.empty() ? engine.script.holds : engine.script.holds_asleep;
}

// --- FakeHttpClient

namespace {

bool is_vllm(const FakeRuntime::Engine& engine) {
  return engine.spec.arguments.size() > 1 && engine.spec.arguments[1] == "serve";
}

}  // namespace

// As the middleware that the engine loads decides (engine/guard.h).
static bool has_its_secret(const ports::InstanceSpec& spec, const ports::HttpCall& call) {
  const auto secret =
      std::ranges::find(spec.environment, engine::kGuardVariable, &std::pair<std::string, std::string>::first);
  return secret != spec.environment.end() && !secret->second.empty() &&
         std::ranges::find(call.headers, std::pair{std::string{engine::kGuardHeader}, secret->second}) !=
             call.headers.end();
}

ports::Task<Result<ports::HttpReply>> FakeHttpClient::call(ports::HttpCall request) {
  const auto port = request.target.port;
  const auto* engine = runtime_.listening_on(port);
  if (engine == nullptr || engine->script.answers == EngineScript::Answers::refuses) {
    co_return fail("connection_refused", fmt::format("127.0.0.1:{} refuses connections", port));
  }
  if (engine->script.answers == EngineScript::Answers::never) {
    co_await loop_.sleep_for(request.deadline);
    co_return fail("deadline_exceeded", fmt::format("127.0.0.1:{} does not answer", port));
  }
  co_await loop_.sleep_for(milliseconds{1});
  engine = runtime_.listening_on(port);  // it may have ended meanwhile
  if (engine == nullptr) co_return fail("connection_failed", "the connection was closed");
  ports::HttpReply reply;
  reply.status = 200;
  if (clock_.steady() < engine->started + engine->script.loading_takes) {
    reply.status = 503;
    reply.body = R"({"error":{"message":"Loading model"}})";
  } else if (request.path == "/health" && !engine->script.healthy) {
    reply.status = 503;
  } else if (request.path == "/health") {
    reply.body = R"({"status":"ok"})";
  } else if (request.path == "/v1/models" && engine->script.answers == EngineScript::Answers::with_a_key) {
    reply.status = 401;
  } else if (request.path == "/v1/models") {
    const auto alias = std::ranges::find_if(engine->spec.arguments, [](const std::string& word) {
      return word == "--alias" || word == "--served-model-name";
    });
    const bool other = engine->script.answers == EngineScript::Answers::as_another;
    reply.body = fmt::format(R"({{"object":"list","data":[{{"id":"{}"}}]}})", other ? "another" : *std::next(alias));
  } else if (is_vllm(*engine) && request.path == "/metrics") {
    reply.body = fmt::format(
        "vllm:num_requests_running {}\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total {}\n"
        "vllm:engine_sleep_state{{sleep_state=\"awake\"}} {}\n"
        "vllm:engine_sleep_state{{sleep_state=\"weights_offloaded\"}} {}\n"
        "vllm:engine_sleep_state{{sleep_state=\"discard_all\"}} {}\n",
        engine->script.requests, engine->script.work_done, engine->asleep.empty() ? 1 : 0,
        engine->sleep_level == 1 ? 1 : 0, engine->sleep_level == 2 ? 1 : 0);
  } else if (is_vllm(*engine)) {
    auto answer = co_await sleep_call(engine->instance.pid, std::move(request));
    co_return answer;
  } else if (request.path == "/metrics") {
    reply.body = fmt::format(
        "llamacpp:requests_processing {}\nllamacpp:requests_deferred 0\nllamacpp:tokens_predicted_total {}\n",
        engine->script.requests, engine->script.work_done);
  } else {
    reply.status = 404;
  }
  co_return reply;
}

ports::Task<Result<ports::HttpReply>> FakeHttpClient::sleep_call(std::int64_t pid, ports::HttpCall request) {
  auto& engine = runtime_.engine(pid);
  const auto& path = request.path;
  ports::HttpReply reply;
  reply.status = 200;
  if (engine.script.guarded && !has_its_secret(engine.spec, request)) {
    reply.status = 403;
    co_return reply;
  }
  if (path == "/is_sleeping") {
    reply.body = engine.asleep.empty() ? R"({"is_sleeping":false})" : R"({"is_sleeping":true})";
    co_return reply;
  }
  engine.sleep_calls.push_back(path);
  const bool sleep = path.starts_with("/sleep");
  const auto calls = sleep ? engine.script.sleep_calls : engine.script.wake_calls;
  if (calls == EngineScript::Calls::never_answered && path != "/wake_up?tags=scheduling") {
    co_await loop_.sleep_for(request.deadline);
    co_return fail("deadline_exceeded", "it does not answer");
  }
  co_await loop_.sleep_for(sleep ? engine.script.sleep_takes : engine.script.wake_takes);
  if (engine.ended) co_return fail("connection_failed", "the connection was closed");
  if (calls == EngineScript::Calls::deadly) {
    runtime_.end(pid, engine.script.death);
    co_return fail("connection_failed", "the connection was closed");
  }
  if (calls == EngineScript::Calls::refused) {
    reply.status = 500;
  } else if (sleep) {
    engine.asleep = {"weights", "kv_cache"};
    engine.sleep_level = path.find("level=2") == std::string::npos ? 1 : 2;
  } else if (path.starts_with("/wake_up?tags=")) {
    engine.asleep.erase(path.substr(path.find('=') + 1));
    if (engine.asleep.empty()) engine.sleep_level = 0;
  }
  co_return reply;
}

ports::Task<Result<ports::HttpReply>> FakeHttpClient::stream(ports::HttpCall request,
                                                             std::function<bool(std::string_view)> on_piece) {
  auto reply = co_await call(std::move(request));
  if (reply) on_piece(reply->body);
  co_return reply;
}

// --- FakeHostProbe

host::ExaminedHost FakeHostProbe::healthy_facts() {
  host::ExaminedHost facts;
  facts.cgroup = host::CgroupPath{.version = 2, .path = "/system.slice/dgxmm.service"};
  facts.memory_controller = true;
  facts.kernel_log = true;
  facts.buddyinfo = "Node 0, zone   Normal   10 10 10 10 10 10 10 10 10 10 9000\n";
  return facts;
}

Result<host::Meminfo> FakeHostProbe::meminfo() {
  ++readings;
  if (broken) return fail("meminfo_unusable", "/proc/meminfo has no MemAvailable", {}, "/proc/meminfo");
  host::Meminfo meminfo;
  meminfo.mem_total = mem_total;
  meminfo.mem_available = mem_total - held_by_others - held_by_the_kernel - runtime_.held() - runtime_.kept_by_driver();
  if (unlisted) {
    meminfo.mem_free = mem_total - *unlisted;
    for (auto* line : {&meminfo.active_anon, &meminfo.inactive_anon, &meminfo.active_file, &meminfo.inactive_file,
                       &meminfo.unevictable, &meminfo.slab, &meminfo.kernel_stack, &meminfo.page_tables}) {
      *line = Bytes{0};
    }
  }
  if (page_cache) meminfo.mem_free = meminfo.mem_available - *page_cache;
  meminfo.swap_total = swap_total;
  if (swap_total && swap_used) meminfo.swap_free = *swap_total - *swap_used;
  meminfo.shmem = shmem;
  meminfo.hugetlb = Bytes{0};
  return meminfo;
}

host::ProcessList FakeHostProbe::processes(std::size_t limit, const std::vector<std::int64_t>& exclude_pids,
                                           const host::GpuReading& gpu) {
  static_cast<void>(gpu);
  last_excluded = exclude_pids;
  host::ProcessList list;
  list.rows = rows;
  list.groups = groups;
  list.left_out = left_out;
  list.groups.push_back({.owner = {}, .processes = 1, .user = "jo", .anon = held_by_others, .gpu = Bytes{}});
  if (limit > 0) {
    list.rows.push_back({.pid = 77,
                         .user = "jo",
                         .command = "python train.py",
                         .container = {},
                         .held = held_by_others,
                         .rss = {},
                         .gpu = {}});
  }
  return list;
}

std::vector<host::ProcessRow> FakeHostProbe::rows_of(const std::vector<std::int64_t>& pids,
                                                     const host::GpuReading& gpu) {
  static_cast<void>(gpu);
  std::vector<host::ProcessRow> result;
  std::ranges::copy_if(rows, std::back_inserter(result),
                       [&](const auto& row) { return std::ranges::find(pids, row.pid) != pids.end(); });
  return result;
}

// --- FakeGpuProbe

host::GpuReading FakeGpuProbe::latest() {
  auto result = reading;
  if (!result.processes) return result;
  for (const auto* engine : runtime_.engines()) {
    const auto holds = runtime_.measure(engine->instance, {});
    if (holds && holds->gpu != Bytes{0}) {
      result.processes->push_back(
          {.pid = engine->instance.pid, .start_time_ticks = engine->instance.start_time_ticks, .used = holds->gpu});
    }
  }
  return result;
}

// --- FakeModelFiles

std::optional<host::CgroupMemory> FakeMemoryGroups::read(const host::CgroupPath& group) const {
  const auto found = groups.find(group.path);
  if (found == groups.end()) return std::nullopt;
  return found->second;
}

std::vector<std::int64_t> FakeMemoryGroups::members(const host::CgroupPath& /*group*/) const { return {}; }

ports::Task<Result<std::vector<container::ListedContainer>>> FakeContainerNames::running() { co_return answer; }

Result<model::ModelDescription> FakeModelFiles::describe(const std::string& path) {
  const auto found = models.find(path);
  if (found == models.end()) return fail("model_not_found", fmt::format("{}: there is no such file", path), {}, path);
  return found->second;
}

Result<model::Projector> FakeModelFiles::describe_projector(const std::string& path) {
  const auto found = projectors.find(path);
  if (found == projectors.end())
    return fail("model_not_found", fmt::format("{}: there is no such file", path), {}, path);
  return found->second;
}

std::vector<ports::LinkedFile> FakeModelFiles::linked_files(const std::string& folder) {
  const auto found = links.find(folder);
  return found == links.end() ? std::vector<ports::LinkedFile>{} : found->second;
}

std::vector<ports::CatalogEntry> FakeModelFiles::quantizations_of(const model::ModelDescription& model,
                                                                  const std::vector<ports::SearchedFolder>& folders) {
  std::vector<ports::CatalogEntry> found;
  const auto scanned = scan(folders);
  for (const auto* entry : model::other_quantizations(scanned.models, model)) found.push_back(*entry);
  return found;
}

ports::Catalog FakeModelFiles::scan(const std::vector<ports::SearchedFolder>& folders) {
  static_cast<void>(folders);
  ++scans;
  on_scan();
  return catalog;
}

// --- FakeFolderWatch

ports::FolderWatch::Coverage FakeFolderWatch::watch(const std::vector<std::string>& folders) {
  Coverage coverage{.added = 0, .problem = problem};
  if (!problem.empty()) return coverage;
  std::set<std::string> now{folders.begin(), folders.end()};
  for (const auto& folder : now) coverage.added += watched.contains(folder) ? 0 : 1;
  watched = std::move(now);
  return coverage;
}

// --- FakeTcpPorts

Result<std::uint16_t> FakeTcpPorts::hold(std::optional<std::uint16_t> wanted) {
  const auto port = wanted ? *wanted : next_++;
  if (taken.contains(port) || !held.insert(port).second) {
    return fail("port_taken", fmt::format("port {} cannot be used", port), "choose another port", "port");
  }
  return port;
}

model::ModelDescription small_model(const std::string& path) {
  model::ModelDescription model;
  model.format = model::Format::gguf;
  model.path = path;
  model.name = std::filesystem::path{path}.stem();
  model.architecture = "llama";
  model.quantization = "Q4_K_M";
  model::Attention attention;
  attention.n_head = 32;
  attention.n_head_kv = 8;
  attention.key_length = 128;
  attention.value_length = 128;
  model::Layer layer;
  layer.attention = attention;
  layer.feed_forward_length = 14336;
  model.layers.assign(32, layer);
  model.embedding_length = 4096;
  model.vocabulary = 128256;
  model.training_context = 8192;
  model.weight_dtype = "Q4_K";
  model.files = {{path, gib(4)}};
  model.weights.files = gib(4);
  model.weights.tensors = gib(4);
  model.weights.input_tensors = mib(282);
  model.weights.token_embedding = mib(282);
  model.fingerprint.digest = "digest of " + path;
  return model;
}

}  // namespace dgxmm::testing
