#include "e2e/support/daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <unistd.h>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNobodyListens = "127.0.0.1:1";
constexpr const char* kMark = "E2E_DAEMON";  // passed on to the engines
constexpr auto kHeldByOthers = kGib;         // on a host with a given room

void end_engine(pid_t pid) {
  const auto cgroup = memory_cgroup_of(pid);
  ::kill(pid, SIGKILL);
  eventually([&] { return !process_runs(pid); });
  std::error_code ignored;
  if (cgroup && cgroup->filename().string().starts_with("dgxmm-")) {
    eventually([&] { return ::rmdir(cgroup->c_str()) == 0 || !fs::exists(*cgroup, ignored); }, 5s);
  }
}

std::optional<std::uint16_t> port_in(const std::string& log) {
  constexpr std::string_view kBefore = "listening on http://127.0.0.1:";
  const auto begin = log.find(kBefore);
  if (begin == std::string::npos || log.find('\n', begin) == std::string::npos) return std::nullopt;
  return static_cast<std::uint16_t>(std::stoi(log.substr(begin + kBefore.size())));
}

/// The real engine, behind a script that waits while a file is there.
std::string gated_engine(const fs::path& gate) {
  return fmt::format(
      "#!/bin/sh\nif [ \"$1\" != --help ]; then while [ -e '{}' ]; do sleep 0.02; done; fi\nexec '{}' \"$@\"\n",
      gate.string(), environment().llama_server.string());
}

std::int64_t meminfo_bytes(std::string_view wanted) {
  std::ifstream meminfo{"/proc/meminfo"};
  for (std::string name; meminfo >> name;) {
    std::int64_t kibibytes = 0;
    meminfo >> kibibytes;
    if (name == fmt::format("{}:", wanted)) return kibibytes * 1024;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  throw std::runtime_error(fmt::format("no {}", wanted));
}

}  // namespace

const boost::json::value& at(const boost::json::value& document, std::string_view name) {
  const auto* found = document.as_object().if_contains(name);
  if (found == nullptr) throw std::runtime_error(fmt::format("no '{}' in {}", name, boost::json::serialize(document)));
  return *found;
}

std::int64_t number(const boost::json::value& document, std::string_view name) { return at(document, name).as_int64(); }

std::string text(const boost::json::value& document, std::string_view name) {
  return std::string{at(document, name).as_string()};
}

std::string Request::body() const {
  const boost::json::object fields{{"name", name},
                                   {"model", model.string()},
                                   {"ctx_size", ctx_size},
                                   {"parallel", 1},
                                   {"cache_ram_mib", cache_ram_mib}};
  return boost::json::serialize(fields);
}

Words Request::ask(const std::string& command, const Words& options) const {
  Words words{command,       model.string(),
              "--ctx-size",  std::to_string(ctx_size),
              "--parallel",  "1",
              "--cache-ram", std::to_string(cache_ram_mib)};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

Words Request::deploy(const Words& options) const {
  auto words = ask("deploy", {"--name", name});
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::int64_t Request::estimate_bytes() const {
  const auto fit = run_dgxmm(ask("fit", {"--json", "--address", kNobodyListens}));
  return number(boost::json::parse(fit.out), "total_bytes");
}

Request& Request::resize_to(std::int64_t bytes) {
  cache_ram_mib = 0;
  cache_ram_mib = std::max<std::int64_t>(bytes - estimate_bytes(), 0) / kMib;
  return *this;
}

std::int64_t mem_available_bytes() { return meminfo_bytes("MemAvailable"); }

Run run_dgxmm(const Words& arguments) {
  const TempDir home;
  Words command{environment().dgxmm.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command, {{"HOME", home.path().string()}});
}

Daemon::Daemon(const Options& options) : variables_(options.variables) {
  auto llama_server = environment().llama_server;
  if (options.gated_engines) {
    std::ofstream{gate()} << "\n";
    llama_server = folder_.write("gated-llama-server", gated_engine(gate()));
    fs::permissions(llama_server, fs::perms::owner_all);
  }
  // Others of this host take and give back gigabytes meanwhile, which the budget rightly follows.
  const auto for_engines = meminfo_bytes("MemTotal") - kHeldByOthers;
  const auto margin_bytes = options.room_bytes ? for_engines - *options.room_bytes : 0;
  if (options.room_bytes) lasting_variables_ = {{"DGXMM_TEST_OTHERS_HOLD", std::to_string(kHeldByOthers)}};
  const auto margin_gib = static_cast<double>(std::max<std::int64_t>(margin_bytes, 0)) / static_cast<double>(kGib);
  command_ = {environment().dgxmm.string(),
              "serve",
              "--state-dir",
              state_dir().string(),
              "--listen",
              "127.0.0.1:0",
              "--llama-server",
              llama_server.string(),
              "--safety-margin-gib",
              fmt::format("{:.6f}", margin_gib),
              "--os-reserve-gib",
              "0",
              "--budget-interval-s",
              "0.2",
              "--calibration-delay-s",
              "0.2"};
  command_.insert(command_.end(), options.flags.begin(), options.flags.end());
  start();
}

Daemon::~Daemon() {
  if (process_) kill_hard();
  for (const auto pid : children()) end_engine(pid);
}

void Daemon::start() {
  Variables variables{{"HOME", state_dir().string()}, {kMark, state_dir().string()}};
  variables.insert(variables.end(), lasting_variables_.begin(), lasting_variables_.end());
  variables.insert(variables.end(), variables_.begin(), variables_.end());
  process_ = std::make_unique<Subprocess>(command_, variables);
  std::optional<std::uint16_t> port;
  eventually([&] {
    port = port_in(process_->err());
    return port || process_->wait(0ms);
  });
  if (!port) throw std::runtime_error("the daemon did not come up: " + process_->err());
  port_ = *port;
}

void Daemon::kill_hard() {
  process_->signal(SIGKILL);
  process_->wait();
  process_.reset();
}

int Daemon::end() {
  process_->signal(SIGTERM);
  const auto exit_code = process_->wait().value_or(-1);
  last_log_ = process_->err();
  process_.reset();
  return exit_code;
}

void Daemon::open_gate() const { fs::remove(gate()); }

void Daemon::close_gate() const { std::ofstream{gate()} << "\n"; }

Words Daemon::client_command(const Words& arguments) const {
  Words command{environment().dgxmm.string(), "--address", fmt::format("127.0.0.1:{}", port_)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Run Daemon::run(const Words& arguments) const {
  return run_program(client_command(arguments), {{"HOME", state_dir().string()}});
}

Run Daemon::run_on_terminal(const Words& arguments, unsigned short columns) const {
  return e2e::run_on_terminal(client_command(arguments), {{"HOME", state_dir().string()}, {"NO_COLOR", "1"}}, columns);
}

std::unique_ptr<Subprocess> Daemon::spawn(const Words& arguments) const {
  return std::make_unique<Subprocess>(client_command(arguments), Variables{{"HOME", state_dir().string()}});
}

HttpAnswer Daemon::get(const std::string& path) const { return http(port_, "GET", "/api/v1" + path); }

HttpAnswer Daemon::post(const std::string& path, const std::string& body) const {
  return http(port_, "POST", "/api/v1" + path, body);
}

boost::json::value Daemon::document(const std::string& path) const {
  const auto answer = get(path);
  if (answer.status != 200) throw std::runtime_error(fmt::format("{}: {}", path, answer.body));
  return answer.json();
}

boost::json::value Daemon::deployment(const std::string& name) const { return document("/deployments/" + name); }

bool Daemon::becomes(const std::string& name, const std::string& state) const {
  return eventually([&] { return state_of(name) == state; });
}

std::vector<pid_t> Daemon::children() const {
  auto pids = processes_with(fmt::format("{}={}", kMark, state_dir().string()));
  if (process_) std::erase(pids, process_->pid());
  return pids;
}

std::vector<pid_t> Daemon::engines() const {
  auto pids = children();
  // What an engine starts inherits this variable, with the engine's number in it.
  std::erase_if(pids, [](pid_t pid) { return !has_variable(pid, fmt::format("DGXMM_ENGINE={}:", pid)); });
  return pids;
}

MemoryForOne::MemoryForOne(Daemon::Options options) {
  // The more, the less it matters what other programs take and give back meanwhile.
  first.resize_to(std::min(mem_available_bytes() / 2, 12 * kGib));
  first_bytes = first.estimate_bytes();
  options.room_bytes = first_bytes * 3 / 2;
  daemon = std::make_unique<Daemon>(options);
}

Request MemoryForOne::request_in_place_of_first(const std::string& name, const fs::path& model) const {
  const auto budget = daemon->document("/budget");
  const auto others =
      std::max<std::int64_t>(number(budget, "used_bytes") - number(budget, "measured_by_managed_bytes"), 0);
  const auto free_without_first = number(budget, "usable_bytes") - others;
  Request request{.name = name, .model = model};
  request.resize_to(std::midpoint(number(budget, "free_for_new_bytes"), free_without_first));
  return request;
}

HttpAnswer chat(const std::string& url, const std::string& model) {
  const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  const auto question = fmt::format(
      R"({{"model": "{}", "max_tokens": 4, "messages": [{{"role": "user", "content": "Say hello"}}]}})", model);
  return http(port, "POST", "/v1/chat/completions", question);
}

}  // namespace dgxmm::e2e
