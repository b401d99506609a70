// The composition root: the only place that knows both the services and what they run on.
#include "adapters/docker/docker_client.h"
#include "adapters/docker/docker_names.h"
#include "adapters/docker/docker_runtime.h"
#include "adapters/host/examiner.h"
#include "adapters/host/kernel_log.h"
#include "adapters/host/proc_host_probe.h"
#include "adapters/host/quiet_host.h"
#include "adapters/modelfs/inotify_watch.h"
#include "adapters/modelfs/model_files.h"
#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_client.h"
#include "adapters/net/http_server.h"
#include "adapters/nvml/nvml_probe.h"
#include "adapters/process/launch.h"
#include "adapters/process/log_file.h"
#include "adapters/process/process_runtime.h"
#include "adapters/process/process_table.h"
#include "adapters/settings/settings_file.h"
#include "adapters/store/dying_store.h"
#include "adapters/store/sqlite_store.h"
#include "adapters/store/start_record_file.h"
#include "adapters/system/process_environment.h"
#include "adapters/system/tcp_ports.h"
#include "app/api/api.h"
#include "app/service/runtimes.h"
#include "app/service/service.h"
#include "base/log.h"
#include "base/masking.h"
#include "cli/cli.h"
#include "page/embedded_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>

namespace {

using namespace dgxmm;

constexpr std::chrono::seconds kFirstGpuReading{5};

int report(const Error& error) {
  fmt::print(stderr, "error: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "hint: {}\n", error.hint);
  return 1;
}

log::Level parse_level(const std::string& text) {
  if (text == "debug") return log::Level::debug;
  if (text == "warning") return log::Level::warning;
  if (text == "error") return log::Level::error;
  return log::Level::info;
}

/// Tells the engines of this state folder from those of another one on the same host.
std::string instance_prefix(const std::filesystem::path& state_dir) {
  std::uint32_t digest = 2166136261U;  // FNV-1a
  for (const char c : std::filesystem::weakly_canonical(state_dir).string()) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return fmt::format("dgxmm-{:08x}-", digest);
}

/// What starts but cannot do its work yet; it may come later, so it is no error.
void warn_of_missing_parts(const settings::Settings& settings) {
  for (const auto& folder : settings.searched_folders()) {
    const auto problem = modelfs::folder_problem(folder.path);
    if (problem && !folder.may_be_missing) log::warning("model folder {}", *problem);
  }
  if (!system::program_exists(settings.llama_server)) {
    log::warning("the engine {} is not there: models can be estimated, but not started; set `llama_server`",
                 printable(settings.llama_server));
  }
}

nvml::NvmlOptions nvml_options(const settings::Settings& settings, bool driver_loaded) {
  nvml::NvmlOptions options;
  options.library = settings.nvml_library;
  // Who names a file says that there is a GPU.
  options.driver_loaded = driver_loaded || settings.nvml_library.contains('/');
  options.given_class = host::parse_given_class(settings.host_class);
  const auto interval = std::chrono::milliseconds{static_cast<std::int64_t>(settings.budget_interval_s * 1000)};
  options.interval = std::min(interval, options.interval);
  return options;
}

void report_gpu(const host::GpuReading& gpu) {
  log::info("host class {}: {}", host::name_of(gpu.host_class), printable(gpu.evidence));
  if (gpu.no_starts) log::warning("no engine can be started here: {}", printable(gpu.no_starts->message));
  if (!gpu.unavailable.empty()) log::warning("{}", printable(gpu.unavailable));  // B7
  for (const auto& warning : gpu.warnings) log::warning("{}", printable(warning));
}

docker::DockerRuntimeOptions docker_options(const settings::Settings& settings,
                                            const process::ProcessRuntimeOptions& processes) {
  docker::DockerRuntimeOptions options;
  options.socket = settings.docker_socket;
  options.expected = settings.runtime == "docker" || !settings.llamacpp_image.empty() || !settings.vllm_image.empty();
  options.owned_prefix = processes.owned_prefix;
  options.log_limit = mib(settings.engine_log_mib);
  options.network = settings.docker_network;
  options.kernel_log = host::read_kernel_log;
  return options;
}

/// What all engines of this installation hold that run as processes.
Bytes held_by_all(process::ProcessRuntime& processes) {
  Bytes sum;
  for (const auto& [name, instance] : processes.find_remains()) {
    if (const auto measured = processes.measure(instance, processes.pids(instance))) sum += measured->total();
  }
  return sum;
}

int serve(settings::Settings settings, const api::BuildInfo& build) {
  log::set_level(parse_level(settings.log_level));
  system::allow_many_descriptors();
  if (settings.state_dir.empty()) settings.state_dir = settings_file::default_state_dir();
  if (settings.state_dir.empty()) {
    return report(
        {"state_unusable", "there is no place for the state: HOME is not set", "give --state-dir FOLDER", {}});
  }
  const auto store = store::SqliteStore::open(settings.state_dir);
  if (!store) return report(store.error());
  ports::Store* used_store = store->get();
  std::unique_ptr<store::DyingStore> dying_store;
  if (const auto write = store::write_to_die_at()) {
    dying_store = std::make_unique<store::DyingStore>(**store, *write);
    used_store = dying_store.get();
  }
  store::StartRecordFile start_record{settings.state_dir + "/start-under-way.json"};
  std::error_code error;
  std::filesystem::create_directories(settings.state_dir + "/logs", error);
  if (error)
    return report({"state_unusable",
                   fmt::format("cannot make {}/logs: {}", settings.state_dir, error.message()),
                   {},
                   settings.state_dir});

  // Everything below is destroyed before the loop: its tasks have ended by then.
  net::AsioEventLoop* running_loop = nullptr;
  net::AsioEventLoop loop{[&](int) { running_loop->stop(); }};
  running_loop = &loop;
  SystemClock clock;
  host::ProcHostProbe probe;
  nvml::NvmlProbe gpu{nvml_options(settings, probe.has_nvidia_driver()), clock};
  modelfs::FileSystemModels models;
  modelfs::InotifyWatch folder_watch{loop.context()};
  process::ProcessRuntimeOptions options;
  options.owned_prefix = instance_prefix(settings.state_dir);
  options.kernel_log = host::read_kernel_log;
  options.module_folder = std::filesystem::path{settings.state_dir} / "engine-modules";
  process::ProcessRuntime processes{loop.context(), options};
  const auto waits_end = loop.on_stop([&processes] { processes.end_waits(); });
  net::AsioHttpClient http{loop};
  process::FileEngineLogs logs{settings.engine_log_mib * 1024 * 1024};
  system::HeldTcpPorts tcp_ports;
  const process::MemoryCgroups cgroups;
  docker::DockerRuntime containers{loop, http, cgroups, logs, docker_options(settings, options)};
  if (settings.runtime != "process") containers.begin();
  docker::DockerNames container_names{loop, http, settings.docker_socket};
  service::Runtimes runtime{processes, containers};
  ports::HostProbe* used_probe = &probe;
  std::unique_ptr<host::QuietHost> quiet_host;
  if (const auto others = host::held_by_others_in_tests()) {
    quiet_host = std::make_unique<host::QuietHost>(probe, *others, [&processes] { return held_by_all(processes); });
    used_probe = quiet_host.get();
  }
  service::Service service{
      {.host = *used_probe,
       .gpu = gpu,
       .memory_groups = cgroups,
       .container_names = container_names,
       .model_files = models,
       .folder_watch = folder_watch,
       .store = *used_store,
       .start_record = start_record,
       .world = {.runtime = runtime,
                 .http = http,
                 .logs = logs,
                 .tcp_ports = tcp_ports,
                 .loop = loop,
                 .clock = clock,
                 .gpu_present = probe.has_nvidia_driver()}},
      settings,
      {.state_dir = settings.state_dir, .boot_id = process::boot_id(), .instance_prefix = options.owned_prefix}};
  const auto handler = api::make_api(service, build, page::embedded_page());
  net::HttpServer server{loop, *handler};

  const auto address = settings::parse_listen(settings.listen);
  if (!address) return report(address.error());
  const auto port = server.listen_tcp(address->host == "localhost" ? "127.0.0.1" : address->host, address->port);
  if (!port) return report(port.error());
  // Loading the driver's state takes seconds on some hosts; one that hangs must not keep the daemon from coming up.
  gpu.wait_for_first(kFirstGpuReading);
  if (const auto begun = service.begin(); !begun) return report(begun.error());
  report_gpu(gpu.latest());
  warn_of_missing_parts(settings);
  log::info("listening on http://{}:{}", address->host, *port);
  system::notify_ready();
  loop.run();
  system::notify_stopping();
  log::info("stopped; engines keep running, the next `dgxmm serve` takes them over");
  return 0;
}

host::Fact engine_fact(std::string name, const std::string& program, const std::string& setting) {
  if (system::program_exists(program)) return {.code = setting, .name = std::move(name), .value = printable(program)};
  return {setting, std::move(name), fmt::format("{} is not there", printable(program)), host::Fact::State::unknown,
          fmt::format("needed to start models with it: install it, or set `{}`", setting)};
}

ports::Task<host::Fact> image_fact(docker::DockerClient* client, std::string engine, std::string image) {
  using State = host::Fact::State;
  const auto found = co_await client->inspect_image(image);
  host::Fact fact{"image", engine + " image", printable(image), State::good, {}};
  if (!found) {
    const bool missing = found.error().code == "image_not_found";
    fact.value = missing ? fmt::format("{} is not on this host", printable(image)) : printable(found.error().message);
    fact.state = State::unknown;
    fact.advice = missing ? "it is pulled at the first start that needs it" : "";
  }
  co_return fact;
}

/// Docker, and the images that the settings name.
std::vector<host::Fact> docker_facts(const settings::Settings& settings) {
  using State = host::Fact::State;
  constexpr std::chrono::seconds kDeadline{3};
  std::vector<host::Fact> facts;
  net::AsioEventLoop loop;
  net::AsioHttpClient http{loop};
  docker::DockerClient client{http, settings.docker_socket, kDeadline};
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): it lives until the loop has ended
  const auto ask = [&]() -> ports::Task<> {
    const auto api = co_await client.negotiate();
    if (!api) {
      facts.push_back({"docker", "Docker", printable(api.error().message), State::unknown,
                       "needed only for engines in containers"});
    } else if (const auto info = co_await client.info(); info) {
      facts.push_back({.code = "docker",
                       .name = "Docker",
                       .value = fmt::format("{}, API {}, cgroup driver {}{}", printable(info->server_version),
                                            container::to_text(api->version), printable(info->cgroup_driver),
                                            info->rootless ? ", rootless" : "")});
      if (!api->warning.empty()) facts.back().state = State::warning, facts.back().advice = printable(api->warning);
      if (!settings.llamacpp_image.empty()) {
        facts.push_back(co_await image_fact(&client, "llama.cpp", settings.llamacpp_image));
      }
      if (!settings.vllm_image.empty()) facts.push_back(co_await image_fact(&client, "vLLM", settings.vllm_image));
    }
    loop.stop();
  };
  loop.spawn("ask Docker", ask());
  loop.run();
  if (facts.empty()) facts.push_back({"docker", "Docker", "does not answer", State::unknown, {}});
  return facts;
}

std::vector<host::Fact> examine(const settings::Settings& settings) {
  auto examined = host::read_examined_host();
  examined.safety_margin = gib_from_decimal(settings.safety_margin_gib);
  SystemClock clock;
  nvml::NvmlProbe gpu{nvml_options(settings, host::ProcHostProbe{}.has_nvidia_driver()), clock};
  gpu.wait_for_first(kFirstGpuReading);
  examined.gpu = gpu.latest();
  auto facts = host::examine(examined);
  std::ranges::move(docker_facts(settings), std::back_inserter(facts));
  if (settings.runtime != "docker") {
    facts.push_back(engine_fact("llama-server", settings.llama_server, "llama_server"));
    facts.push_back(engine_fact("vLLM", settings.vllm, "vllm"));
  }
  for (const auto& folder : settings.searched_folders()) {
    const auto problem = modelfs::folder_problem(folder.path);
    if (!problem) facts.push_back({.code = "models", .name = "models", .value = printable(folder.path)});
    if (problem && !folder.may_be_missing) {
      facts.push_back({"models", "models", printable(*problem), host::Fact::State::warning, "set `model_folders`"});
    }
  }
  return facts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == process::kLaunchCommand) return process::launch_engine(argc, argv);
  const api::BuildInfo build{DGXMM_VERSION, DGXMM_COMMIT, system::host_name()};
  cli::Composition composition;
  composition.serve = [&](const settings::Settings& settings) { return serve(settings, build); };
  composition.offline = [] {
    return cli::OfflineParts{std::make_unique<modelfs::FileSystemModels>(), std::make_unique<host::ProcHostProbe>()};
  };
  composition.examine = examine;
  composition.version = build.version;
  composition.commit = build.commit;
  return cli::run(argc, argv, composition);
}
