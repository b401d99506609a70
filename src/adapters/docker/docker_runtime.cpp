#include "adapters/docker/docker_runtime.h"

#include "base/files.h"
#include "base/log.h"
#include "base/masking.h"
#include "core/container/archive.h"
#include "core/container/ending.h"
#include "core/container/pull.h"
#include "core/host/stuck.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace dgxmm::docker {
namespace {

using container::Container;
using ports::Instance;
using ports::Task;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::string_view kRuntimeName = "docker";
constexpr auto kFirstRetry = 200ms;
constexpr auto kPoll = 100ms;
constexpr auto kKillAgain = 5s;
/// So much later than Docker should have, its processes are killed without it: it hangs when memory runs out.
constexpr auto kDockerPatience = 1s;
/// How long a start waits for an engine that does not answer at the moment.
constexpr auto kStartPatience = 3s;
constexpr auto kRemovePatience = 5s;
/// For the last lines of a log, after the end of what wrote them.
constexpr auto kLogPatience = 5s;
/// What has ended, and nobody asked about: left behind by an earlier daemon.
constexpr auto kLeftoverAge = std::chrono::minutes{10};
/// Events may be older than the list that they are compared with, never younger: the clocks may differ a little.
constexpr auto kEventOverlap = 2s;
constexpr std::size_t kTrimEvery = 1024 * 1024;
constexpr std::size_t kOutputLimit = 1024 * 1024;

Error shutting_down() {
  return {"shutting_down", "dgxmm is shutting down", "the next `dgxmm serve` goes on from here", {}};
}

std::string label_of(const Container& container, std::string_view name) {
  const auto found = container.labels.find(std::string{name});
  return found == container.labels.end() ? std::string{} : found->second;
}

bool may_hold_memory(const Container& container) {
  return !container.ended() && container.status != container::Status::created;
}

/// Takes an id out of a set however the task ends.
class Membership {
 public:
  Membership(std::set<std::string>& set, std::string id) : set_(set), id_(std::move(id)) { set_.insert(id_); }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership() { set_.erase(id_); }

 private:
  std::set<std::string>& set_;
  std::string id_;
};

/// A task that ends with its owner.
class KillDirectly {
 public:
  KillDirectly(net::AsioEventLoop& loop, Task<> task)
      : task_(loop.spawn_cancellable("kill a container's processes", std::move(task))) {}
  KillDirectly(const KillDirectly&) = delete;
  KillDirectly& operator=(const KillDirectly&) = delete;
  ~KillDirectly() { task_.cancel(); }

 private:
  net::TaskHandle task_;
};

}  // namespace

struct DockerRuntime::EventStream {
  container::JsonLines lines;
  container::EngineTime since;
  bool ended = false;
};

struct DockerRuntime::LogCopy {
  std::string id;
  std::string path;
  bool tty = false;
  bool done = false;
  std::optional<container::EngineTime> last;
  std::size_t untrimmed_bytes = 0;
};

struct DockerRuntime::Pull {
  std::string reference;
  container::JsonLines lines;
  container::PullProgress progress;
  Result<void> outcome;
  bool ended = false;
};

DockerRuntime::DockerRuntime(net::AsioEventLoop& loop, ports::HttpClient& http, const ports::MemoryGroups& groups,
                             ports::EngineLogs& logs, DockerRuntimeOptions options)
    : loop_(loop),
      groups_(groups),
      logs_(logs),
      options_(std::move(options)),
      client_(http, options_.socket, options_.call_deadline),
      processes_(options_.root),
      changed_(loop.make_wakeup()),
      attention_(loop.make_wakeup()) {}

// --- the connection

void DockerRuntime::begin() { loop_.spawn("keep the connection to Docker", keep_connected()); }

Task<> DockerRuntime::keep_connected() {
  milliseconds pause = kFirstRetry;
  while (!loop_.stopping()) {
    const auto connected = co_await connect();
    if (loop_.stopping()) co_return;
    if (connected) {
      pause = kFirstRetry;
      co_await serve_connection();
    } else {
      set_down(connected.error());
      co_await attention_->wait_for(pause);
      pause = std::min(pause * 2, options_.longest_retry);
    }
  }
}

Task<Result<void>> DockerRuntime::connect() {
  const auto api = co_await client_.negotiate();
  if (!api) co_return fail(api.error());
  if (!api->warning.empty() && api->warning != api_warning_) log::warning("{}", api->warning);
  api_warning_ = api->warning;
  auto info = co_await client_.info();
  if (!info) co_return fail(info.error());
  info_ = std::move(*info);
  auto synchronised = co_await resynchronise();
  co_return synchronised;
}

Task<Result<void>> DockerRuntime::resynchronise() {
  dirty_.clear();
  listed_at_ = std::chrono::system_clock::now();
  auto label = fmt::format("{}={}", container::kOwnerLabel, options_.owned_prefix);
  const auto rows = co_await client_.list(std::move(label));
  if (!rows) co_return fail(rows.error());
  std::set<std::string> gone;
  for (const auto& [id, ignored] : owned_) gone.insert(id);
  for (const auto& row : *rows) {
    gone.erase(row.id);
    auto looked = co_await refresh(row.id);
    if (!looked) co_return looked;
  }
  for (const auto& id : gone) drop(id);
  const bool was_down = link_ != Link::up;
  link_ = Link::up;
  known_ = true;
  problem_.reset();
  if (was_down)
    log::info("Docker {} at {}: {} of our containers", info_->server_version, options_.socket, rows->size());

  if (leftovers_may_go_) remove_leftovers();
  changed();
  co_return Result<void>{};
}

void DockerRuntime::remove_leftovers() {
  leftovers_may_go_ = true;
  const auto now = std::chrono::system_clock::now();
  for (const auto& [id, container] : owned_) {
    const auto& since = container.finished_at;
    const bool leftover = container.ended() && !awaited_.contains(id) && since && now - *since > kLeftoverAge;
    if (leftover) loop_.spawn("remove an old container", remove_later(id, false));
  }
}

Task<> DockerRuntime::serve_connection() {
  auto stream = std::make_shared<EventStream>();
  stream->since = listed_at_ - kEventOverlap;
  const auto events = loop_.spawn_cancellable("follow the events of Docker", follow_events(stream));
  auto next_ping = steady_clock::now() + options_.ping_interval;
  while (!loop_.stopping() && !stream->ended) {
    Result<void> answered;
    if (!dirty_.empty()) {
      answered = co_await look_at_changed();
    } else if (steady_clock::now() >= next_ping) {
      answered = co_await client_.ping(options_.ping_deadline);
      next_ping = steady_clock::now() + options_.ping_interval;
      if (answered) remove_never_started();
    } else {
      co_await attention_->wait_for(std::chrono::ceil<milliseconds>(next_ping - steady_clock::now()));
    }
    if (!answered) {
      if (!loop_.stopping()) set_down(answered.error());
      break;
    }
  }
  events.cancel();
}

Task<> DockerRuntime::follow_events(std::shared_ptr<EventStream> stream) {
  auto label = fmt::format("{}={}", container::kOwnerLabel, options_.owned_prefix);
  std::function<bool(std::string_view)> on_piece = [this, stream](std::string_view bytes) {
    const auto lines = stream->lines.put(bytes);
    if (!lines) return false;
    for (const auto& line : *lines) {
      const auto event = container::parse_event(line);
      if (event && !event->id.empty()) dirty_.insert(event->id);
    }
    attention_->notify_all();
    return true;
  };
  const auto ended = co_await client_.events(stream->since, std::move(label), std::move(on_piece));
  if (!ended && !loop_.stopping()) log::debug("Docker's events: {}", ended.error().message);
  stream->ended = true;
  attention_->notify_all();
}

Task<Result<void>> DockerRuntime::look_at_changed() {
  const auto ids = std::exchange(dirty_, {});
  for (const auto& id : ids) {
    auto looked = co_await refresh(id);
    if (!looked) co_return looked;
  }
  co_return Result<void>{};
}

Task<Result<void>> DockerRuntime::refresh(std::string id) {
  auto found = co_await client_.inspect(id);
  if (found) {
    take_in(std::move(*found));
  } else if (found.error().code == "container_not_found") {
    drop(id);
  } else if (found.error().code != "docker_refused") {
    co_return fail(found.error());
  }
  co_return Result<void>{};
}

void DockerRuntime::set_down(const Error& error) {
  if (link_ != Link::down) {
    log::write(options_.expected || known_ ? log::Level::warning : log::Level::debug, error.message);
  }
  link_ = Link::down;
  problem_ = error;
  changed();
}

void DockerRuntime::take_in(Container container) {
  if (!container::is_owned(container.labels, options_.owned_prefix)) return;
  auto& known = owned_[container.id];
  known = std::move(container);
  const auto first = known.pid ? processes_.find(*known.pid) : std::nullopt;
  if (first) {
    first_.insert_or_assign(known.id, *first);
  } else {
    first_.erase(known.id);
  }
  if (known.alive() || awaited_.contains(known.id)) copy_log(known);
  changed();
}

void DockerRuntime::drop(const std::string& id) {
  owned_.erase(id);
  first_.erase(id);
  oom_kills_.erase(id);
  if (const auto copy = copies_.find(id); copy != copies_.end() && copy->second->done) copies_.erase(copy);
  changed();
}

Task<> DockerRuntime::until_known() {
  while (!known_ && !loop_.stopping()) co_await changed_->wait_for(1s);
}

Task<Result<void>> DockerRuntime::until_connected() {
  const auto give_up_at = steady_clock::now() + kStartPatience;
  attention_->notify_all();
  while (link_ != Link::up && steady_clock::now() < give_up_at && !loop_.stopping()) co_await changed_->wait_for(kPoll);
  if (loop_.stopping()) co_return fail(shutting_down());
  if (link_ == Link::up) co_return Result<void>{};
  co_return fail(problem_.value_or(Error{"docker_unreachable",
                                         fmt::format("the Docker Engine at {} has not answered yet", options_.socket),
                                         "is it running? (`systemctl status docker`)", options_.socket}));
}

// --- images

Task<Result<container::Image>> DockerRuntime::provide_image(std::string reference, ports::PullWatcher watcher) {
  const auto connected = co_await until_connected();
  if (!connected) co_return fail(connected.error());
  auto image = co_await find_image(reference);
  const bool missing = !image && image.error().code == "image_not_found";
  if (!missing || !watcher || container::is_image_id(reference)) co_return image;
  const auto pulled = co_await pull(reference, std::move(watcher));
  if (!pulled) co_return fail(pulled.error());
  image = co_await find_image(std::move(reference));
  co_return image;
}

Task<Result<container::Image>> DockerRuntime::find_image(std::string reference) {
  auto image = co_await client_.inspect_image(reference);
  if (image && info_ && !container::runs_on(image->architecture, info_->architecture)) {
    co_return fail("image_wrong_platform",
                   fmt::format("the image {} is made for {}, this host is {}", printable(reference),
                               printable(image->architecture), printable(info_->architecture)),
                   "choose an image for this host's kind of processor", reference);
  }
  co_return image;
}

Task<Result<void>> DockerRuntime::pull(std::string reference, ports::PullWatcher watcher) {
  log::info("the image {} is not here: pulling it", printable(reference));
  auto pull = std::make_shared<Pull>();
  pull->reference = std::move(reference);
  const auto task = loop_.spawn_cancellable("pull an image", run_pull(pull));
  auto steps = pull->progress.steps();
  auto got_on_at = steady_clock::now();
  while (!pull->ended) {
    if (loop_.stopping()) co_return fail(shutting_down());
    const auto now = steady_clock::now();
    if (pull->progress.steps() != steps) {
      steps = pull->progress.steps();
      got_on_at = now;
    }
    Result<void> broken_off;
    if (!watcher(pull->progress.phase())) {
      broken_off = fail("cancelled", "the pull was broken off");
    } else if (now - got_on_at > options_.pull_patience) {
      broken_off = fail("pull_stalled",
                        fmt::format("the pull of {} has not got on for {} s", printable(pull->reference),
                                    std::chrono::duration_cast<std::chrono::seconds>(options_.pull_patience).count()),
                        "look at the network, then start it again: what has arrived is kept", pull->reference);
    }
    if (!broken_off) {
      task.cancel();  // the Engine ends a pull that nobody listens to
      co_return broken_off;
    }
    co_await loop_.sleep_for(kPoll);
  }
  co_return pull->outcome;
}

Task<> DockerRuntime::run_pull(std::shared_ptr<Pull> pull) {
  std::function<bool(std::string_view)> on_piece = [pull](std::string_view bytes) {
    const auto lines = pull->lines.put(bytes);
    if (!lines) return false;
    for (const auto& line : *lines) {
      const auto taken = pull->progress.take(line);
      if (taken) continue;
      pull->outcome = fail(container::explain_pull_error(pull->reference, taken.error().message));
      return false;
    }
    return true;
  };
  // Its own deadline comes after ours: what it would say is about the Engine, which is well.
  const auto ended = co_await client_.pull(pull->reference, 2 * options_.pull_patience, std::move(on_piece));
  if (!ended) pull->outcome = fail(ended.error());
  pull->ended = true;
}

// --- starting

std::string DockerRuntime::network() const {
  return options_.network.empty() ? options_.owned_prefix + "engines" : options_.network;
}

/// On the volume, as a container's own root cannot be written to.
static std::string module_folder(const container::Settings& settings) { return settings.cache_folder + "/modules"; }

Result<container::CreateRequest> DockerRuntime::request_of(const ports::InstanceSpec& spec,
                                                           const container::Image& image) const {
  container::CreateRequest request{.settings = *spec.container,
                                   .owner = options_.owned_prefix,
                                   .name = spec.name,
                                   .deployment = spec.deployment,
                                   .arguments = spec.arguments,
                                   .lasting_arguments = spec.lasting_arguments,
                                   .environment = spec.environment,
                                   .image_id = image.id,
                                   .gpu = container::GpuAccess::none,
                                   .log_path = spec.log_path,
                                   .log_limit = options_.log_limit,
                                   .network = network()};
  if (spec.module) {
    request.environment.emplace_back("PYTHONPATH",
                                     engine::python_path(module_folder(*spec.container), image.python_path));
  }
  if (!spec.container->gpu) return request;
  if (info_) request.gpu = container::gpu_access(*info_);
  request.lock_memory = info_ && !info_->rootless;
  if (request.gpu == container::GpuAccess::none) {
    return fail("gpu_not_available", "Docker has no way to hand over this host's GPU",
                "install the NVIDIA container toolkit and make its CDI specification (`nvidia-ctk cdi generate`)");
  }
  return request;
}

bool DockerRuntime::is_as_specified(const Instance& instance, const ports::InstanceSpec& spec,
                                    const container::Image& image) {
  const auto found = owned_.find(instance.container_id);
  if (link_ != Link::up || found == owned_.end() || !spec.container) return true;
  const auto request = request_of(spec, image);
  return !request || label_of(found->second, container::kSpecLabel) == container::spec_digest(*request);
}

Task<Result<Instance>> DockerRuntime::start(ports::InstanceSpec spec) {
  if (!spec.container || spec.arguments.empty()) {
    co_return fail("start_failed", "a container needs an image and a command line");
  }
  const auto connected = co_await until_connected();
  if (!connected) co_return fail(connected.error());
  const auto image = co_await find_image(spec.container->image);
  if (!image) co_return fail(image.error());
  if (spec.arguments.front().empty() && image->entrypoint.empty()) {
    co_return fail("engine_not_found",
                   fmt::format("the image {} does not say which program it runs", spec.container->image),
                   "use an image whose entrypoint is the engine's server", spec.container->image);
  }
  auto request = request_of(spec, *image);
  if (!request) co_return fail(request.error());
  if (options_.network.empty()) {
    auto name = network();
    auto owner = options_.owned_prefix;
    const auto provided = co_await client_.provide_network(std::move(name), std::move(owner));
    if (!provided) co_return fail(provided.error());
  }
  auto id = co_await create(std::move(*request));
  if (!id) co_return fail(id.error());
  if (spec.module) {
    auto archive = container::tar_of(fmt::format("modules/{}.py", spec.module->name), spec.module->source);
    auto folder = spec.container->cache_folder;
    const auto put = co_await client_.put_archive(*id, std::move(folder), std::move(archive));
    if (!put) {
      co_await remove_now(*id);
      co_return fail(put.error());
    }
  }
  auto started = co_await start_created(std::move(*id), std::move(spec));
  co_return started;
}

Task<Result<std::string>> DockerRuntime::create(container::CreateRequest request) {
  const auto body = container::create_body(request);
  auto name = request.name;
  for (int tries = 0; tries < 3; ++tries) {
    auto created = co_await client_.create(name, body);
    if (created) {
      for (const auto& warning : created->warnings) log::warning("{}: Docker warns: {}", name, printable(warning));
      co_return created->id;
    }
    if (created.error().code != "name_taken") co_return fail(created.error());
    const auto freed = co_await make_room_for_name(name);
    if (!freed) co_return fail(freed.error());
    std::random_device random;
    if (!*freed) name = fmt::format("{}-{:08x}", request.name, random());
  }
  co_return fail("name_taken", fmt::format("Docker has containers named like {} already", request.name),
                 "remove or rename them", request.name);
}

/// True: the name is free now. False: it belongs to somebody else, who keeps it.
Task<Result<bool>> DockerRuntime::make_room_for_name(std::string name) {
  const auto other = co_await client_.inspect(name);
  if (!other) {
    if (other.error().code == "container_not_found") co_return true;
    co_return fail(other.error());
  }
  if (!container::is_owned(other->labels, options_.owned_prefix)) {
    log::warning("the container name {} is taken by one that is not ours, which is left alone", name);
    co_return false;
  }
  if (other->alive()) {
    co_return fail("already_running", fmt::format("container {} of this deployment runs already", name),
                   fmt::format("end it with `docker stop {}`, or restart dgxmm, which adopts it", name), name);
  }
  co_await remove_now(other->id);
  co_return true;
}

Task<Result<Instance>> DockerRuntime::start_created(std::string id, ports::InstanceSpec spec) {
  const Membership starting{starting_, id};
  if (spec.before_start) spec.before_start();
  const auto started = co_await client_.start(id);
  Container container{.id = id, .name = spec.name};
  if (!started) {
    const auto& code = started.error().code;
    // It may run by now, or soon: it exists, and counts, until the Engine says otherwise.
    if (code == "docker_unreachable" || code == "cancelled") co_return instance_of(container);
    co_await remove_now(id);
    co_return fail(started.error());
  }
  auto found = co_await client_.inspect(id);
  if (found) {
    container = *found;
    take_in(std::move(*found));
  } else {
    dirty_.insert(id);
    attention_->notify_all();
  }
  co_return instance_of(container);
}

/// Returns when it is gone; what takes longer goes on beside.
Task<> DockerRuntime::remove_now(std::string id) {
  const auto give_up_at = steady_clock::now() + kRemovePatience;
  while (!loop_.stopping() && steady_clock::now() < give_up_at) {
    const auto removed = co_await client_.remove(id, true);
    const auto left = co_await client_.inspect(id);
    if (!left && left.error().code == "container_not_found") {
      drop(id);
      co_return;
    }
    if (!removed && removed.error().code == "docker_unreachable") break;
    co_await loop_.sleep_for(kPoll);
  }
  loop_.spawn("remove a container that did not start", remove_later(id, true));
}

void DockerRuntime::remove_never_started() {
  const auto now = std::chrono::system_clock::now();
  for (const auto& [id, container] : owned_) {
    const bool left_behind = container.status == container::Status::created && container.created_at &&
                             now - *container.created_at > options_.never_started_limit;
    if (!left_behind || starting_.contains(id) || awaited_.contains(id) || removing_.contains(id)) continue;
    loop_.spawn("remove a container that was never started", remove_later(id, false));
  }
}

Task<> DockerRuntime::remove_later(std::string id, bool force) {
  const Membership removing{removing_, id};
  co_await until_copied(id);
  while (!loop_.stopping()) {
    const auto removed = co_await client_.remove(id, force);
    if (removed) {  // or under way: its name, its port and its cgroup are free when it is not there any more
      const auto left = co_await client_.inspect(id);
      if (!left && left.error().code == "container_not_found") {
        drop(id);
        co_return;
      }
    } else if (removed.error().code == "docker_refused") {
      log::warning("container {}: {}", id.substr(0, 12), removed.error().message);
      co_return;
    }
    co_await changed_->wait_for(options_.longest_retry);
  }
}

Instance DockerRuntime::instance_of(const Container& container) const {
  Instance instance;
  instance.runtime = kRuntimeName;
  instance.pid = container.pid.value_or(0);
  instance.command_digest = label_of(container, container::kSpecLabel);
  instance.container_id = container.id;
  if (!container.image.empty()) instance.image = container.image;
  if (container.published.size() == 1) instance.published_port = container.published.begin()->second;
  if (const auto group = find_group(container)) {
    instance.cgroup = group->path;
    instance.cgroup_version = group->version;
  }
  return instance;
}

Task<Result<std::string>> DockerRuntime::output_of(std::vector<std::string> arguments, milliseconds deadline,
                                                   std::string image_name) {
  if (arguments.empty()) co_return fail("start_failed", "the command line is empty");
  const auto give_up_at = steady_clock::now() + deadline;
  const auto connected = co_await until_connected();
  if (!connected) co_return fail(connected.error());
  const auto image = co_await client_.inspect_image(image_name);
  if (!image) co_return fail(image.error());
  container::CreateRequest request;
  request.owner = options_.owned_prefix;
  request.arguments = std::move(arguments);
  request.image_id = image->id;
  request.log_limit = options_.log_limit;
  request.network = "none";
  const auto created = co_await client_.create({}, container::create_body(request));
  if (!created) co_return fail(created.error());
  const auto id = created->id;
  const Membership starting{starting_, id};
  auto outcome = co_await client_.start(id);
  while (outcome) {
    const auto found = co_await client_.inspect(id);
    if (!found) outcome = fail(found.error());
    if (found && !found->alive()) break;
    if (steady_clock::now() > give_up_at) {
      outcome = fail("deadline_exceeded", fmt::format("{} did not end within {} ms", image_name, deadline.count()), {},
                     image_name);
    }
    if (loop_.stopping()) outcome = fail(shutting_down());
    if (outcome) co_await loop_.sleep_for(kPoll);
  }
  std::string text;
  if (outcome) text = co_await whole_log(id);
  loop_.spawn("remove a container that has done its work", remove_later(id, true));
  if (!outcome) co_return fail(outcome.error());
  co_return text;
}

Task<std::string> DockerRuntime::whole_log(std::string id) {
  container::LogStream stream{false};
  std::string text;
  std::function<bool(std::string_view)> on_piece = [&](std::string_view bytes) {
    const auto lines = stream.put(bytes);
    if (!lines) return false;
    for (const auto& line : *lines) text += line.text + "\n";
    return text.size() < kOutputLimit;
  };
  const auto read = co_await client_.logs(std::move(id), std::nullopt, false, std::move(on_piece));
  if (!read) log::warning("{}", read.error().message);
  co_return text;
}

// --- watching

ports::Presence DockerRuntime::presence(const Instance& instance) {
  if (link_ != Link::up) return ports::Presence::unreachable;
  const auto found = owned_.find(instance.container_id);
  if (found == owned_.end() || found->second.ended()) return ports::Presence::gone;
  return ports::Presence::running;
}

std::vector<std::pair<std::string, Instance>> DockerRuntime::find_owned() {
  std::vector<const Container*> alive;
  for (const auto& [id, container] : owned_) {
    if (container.alive() && !label_of(container, container::kNameLabel).empty()) alive.push_back(&container);
  }
  std::ranges::sort(alive, std::ranges::greater{}, &Container::created_at);
  std::vector<std::pair<std::string, Instance>> found;
  for (const auto* container : alive) {
    found.emplace_back(label_of(*container, container::kNameLabel), instance_of(*container));
  }
  return found;
}

Task<ports::ExitStatus> DockerRuntime::wait(Instance instance) {
  const auto& id = instance.container_id;
  const Membership awaited{awaited_, id};
  dirty_.insert(id);
  attention_->notify_all();
  while (!loop_.stopping()) {
    if (link_ == Link::up && !dirty_.contains(id)) {
      const auto found = owned_.find(id);
      if (found == owned_.end()) co_return ports::ExitStatus{};
      // One that was made and never started: the Engine went away in between.
      if (!may_hold_memory(found->second)) {
        copy_log(found->second);
        const auto status = exit_of(found->second);
        co_await until_copied(id);
        co_return status;
      }
    }
    co_await changed_->wait_for(1s);
  }
  co_return ports::ExitStatus{};
}

ports::ExitStatus DockerRuntime::exit_of(const Container& container) {
  std::string kernel_line;
  // However it ended: one that was killed in it may have taken the others along, with any code.
  if (options_.kernel_log && container.ended()) {
    kernel_line = host::find_oom_kill(options_.kernel_log(), container.id);
  }
  const auto counted = oom_kills_.find(container.id);
  const auto kills = counted == oom_kills_.end() ? std::nullopt : std::optional{counted->second};
  const auto ending = container::explain_ending(container, kills, kernel_line);
  return {.exit_code = ending.exit_code,
          .signal = ending.signal,
          .oom_killed = ending.oom_killed,
          .evidence = ending.evidence};
}

Task<> DockerRuntime::kill_after(Instance instance, milliseconds patience) {
  co_await loop_.sleep_for(patience);
  while (!loop_.stopping()) {
    const auto group = group_of(instance);
    if (!group || groups_.members(*group).empty()) co_return;
    groups_.kill(*group);
    co_await loop_.sleep_for(kKillAgain);
  }
}

Task<Result<void>> DockerRuntime::stop(Instance instance, milliseconds grace) {
  const auto& id = instance.container_id;
  if (presence(instance) == ports::Presence::gone) co_return Result<void>{};
  const auto give_up_at = steady_clock::now() + grace + options_.kill_limit;
  const KillDirectly killing{loop_, kill_after(instance, grace + (link_ == Link::up ? kDockerPatience : 0ms))};
  const auto asked =
      co_await client_.stop(id, std::chrono::ceil<std::chrono::seconds>(grace), grace + options_.call_deadline);
  if (!asked) log::warning("container {}: {}", id.substr(0, 12), asked.error().message);
  auto kill_at = steady_clock::now();
  for (;;) {
    if (loop_.stopping()) co_return fail(shutting_down());
    auto found = co_await client_.inspect(id);
    if (!found && found.error().code == "container_not_found") {
      drop(id);
      co_return Result<void>{};
    }
    if (found) take_in(*found);
    if (found && !may_hold_memory(*found)) co_return Result<void>{};
    // Docker does not say so, and need not: nothing of it is left.
    if (!found && group_of(instance) && pids(instance).empty()) co_return Result<void>{};
    if (steady_clock::now() >= give_up_at) {
      if (!found) co_return fail(found.error());
      co_return fail(host::still_running(threads_of(*found), fmt::format("container {}", id.substr(0, 12))));
    }
    if (found && steady_clock::now() >= kill_at) {
      const auto killed = co_await client_.kill(id, "SIGKILL");
      if (!killed) log::warning("container {}: {}", id.substr(0, 12), killed.error().message);
      kill_at = steady_clock::now() + kKillAgain;
    }
    co_await loop_.sleep_for(kPoll);
  }
}

void DockerRuntime::forget(const Instance& instance) {
  loop_.spawn("remove a container", remove_later(instance.container_id, true));
}

// --- what is measured

std::optional<host::CgroupPath> DockerRuntime::find_group(const Container& container) const {
  if (!container.pid) return std::nullopt;
  const auto text = read_text_file(options_.root / fmt::format("proc/{}/cgroup", *container.pid)).value_or("");
  const auto path = host::parse_proc_cgroup(text);
  const auto group = path ? host::container_group(path->path) : std::nullopt;
  if (group && group->id == container.id && group->below_mount) return host::CgroupPath{path->version, group->path};
  // From another cgroup namespace the path is not to be seen; where Docker makes it is known all the same.
  if (!info_) return std::nullopt;
  const auto expected = host::container_group_path(info_->cgroup_driver, {}, container.id, info_->rootless);
  if (!expected) return std::nullopt;
  host::CgroupPath guess{info_->cgroup_version == 2 ? 2 : 1, *expected};
  if (!groups_.read(guess)) return std::nullopt;
  return guess;
}

std::vector<host::ProcessStat> DockerRuntime::threads_of(const Container& container) const {
  const auto group = find_group(container);
  auto pids = group ? groups_.members(*group) : std::vector<std::int64_t>{};
  if (pids.empty() && container.pid) pids.push_back(*container.pid);
  return processes_.threads_of(pids);
}

std::optional<host::CgroupPath> DockerRuntime::group_of(const Instance& instance) const {
  if (!instance.cgroup.empty()) return host::CgroupPath{instance.cgroup_version, instance.cgroup};
  const auto found = owned_.find(instance.container_id);
  return found == owned_.end() ? std::nullopt : find_group(found->second);
}

std::optional<memory::Measured> DockerRuntime::measure(const Instance& instance,
                                                       const std::vector<std::int64_t>& pids) {
  const auto group = group_of(instance);
  const auto memory = group ? groups_.read(*group) : std::nullopt;
  if (!memory) return processes_.measure(pids);
  if (memory->oom_kills) oom_kills_[instance.container_id] = *memory->oom_kills;
  return memory::Measured{.anon = memory->anon, .kernel = memory->kernel, .shmem = memory->shmem, .gpu = {}};  // B6
}

std::vector<std::int64_t> DockerRuntime::pids(const Instance& instance) {
  const auto group = group_of(instance);
  auto members = group ? groups_.members(*group) : std::vector<std::int64_t>{};
  if (!members.empty() || (group && groups_.read(*group))) return members;
  const auto first = first_.find(instance.container_id);
  return first == first_.end() ? std::vector<std::int64_t>{} : processes_.tree_of(first->second);
}

// --- logs

void DockerRuntime::copy_log(const Container& container) {
  auto path = label_of(container, container::kLogLabel);
  if (path.empty()) return;
  auto& copy = copies_[container.id];
  if (copy && (!copy->done || !container.alive())) return;
  if (copy) {  // it was started again, by somebody else
    copy->done = false;
  } else {
    // Whatever an earlier daemon had copied, the Engine has kept, and the rest.
    logs_.remove(path);
    copy = std::make_shared<LogCopy>();
    copy->id = container.id;
    copy->path = std::move(path);
    copy->tty = container.tty;
  }
  loop_.spawn("copy the log of a container", run_copy(copy));
}

Task<> DockerRuntime::run_copy(std::shared_ptr<LogCopy> copy) {
  bool complaints = false;
  while (!loop_.stopping()) {
    container::LogStream stream{copy->tty};
    const auto resumed_after = copy->last;
    const auto write = [&](const std::vector<container::LogLine>& lines) {
      std::string text;
      for (const auto& line : lines) {
        if (line.time && resumed_after && *line.time <= *resumed_after) continue;
        if (line.time) copy->last = line.time;
        text += line.text + "\n";
      }
      if (text.empty()) return;
      const auto appended = logs_.append(copy->path, text);
      if (!appended && !std::exchange(complaints, true)) log::warning("{}", appended.error().message);
      copy->untrimmed_bytes += text.size();
      if (copy->untrimmed_bytes < kTrimEvery) return;
      copy->untrimmed_bytes = 0;
      logs_.trim(copy->path);
    };
    std::function<bool(std::string_view)> on_piece = [&](std::string_view bytes) {
      const auto lines = stream.put(bytes);
      if (lines) write(*lines);
      if (!lines && !std::exchange(complaints, true)) {
        log::warning("container {}: {}", copy->id.substr(0, 12), lines.error().message);
      }
      return lines.has_value();
    };
    const auto ended = co_await client_.logs(copy->id, copy->last, true, std::move(on_piece));
    write(stream.finish());
    if (loop_.stopping() || (!ended && ended.error().code == "container_not_found")) break;
    if (!ended && ended.error().code == "docker_refused") {
      log::warning("the log of container {}: {}", copy->id.substr(0, 12), ended.error().message);
      break;
    }
    if (ended) {
      const auto looked = co_await refresh(copy->id);
      const auto found = owned_.find(copy->id);
      if (looked && (found == owned_.end() || !found->second.alive())) break;
    }
    co_await changed_->wait_for(kFirstRetry);
  }
  copy->done = true;
  changed();
}

Task<> DockerRuntime::until_copied(std::string id) {
  const auto give_up_at = steady_clock::now() + kLogPatience;
  while (!loop_.stopping() && steady_clock::now() < give_up_at) {
    const auto copy = copies_.find(id);
    if (copy == copies_.end() || copy->second->done) co_return;
    co_await changed_->wait_for(kPoll);
  }
}

}  // namespace dgxmm::docker
