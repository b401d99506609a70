#include "cli/top/state.h"

#include "cli/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace dgxmm::cli::top {
namespace {

bool has_ended(const dto::Deployment& deployment) {
  return deployment.state == "stopped" || deployment.state == "failed";
}

Bytes held_by(const dto::Deployment& deployment) {
  return deployment.measured ? deployment.measured->total_bytes : Bytes{};
}

std::string id_of(const dto::Deployment& deployment) { return std::to_string(deployment.id.value); }

/// The place `by` rows further in a list of that size.
std::size_t moved(std::size_t at, std::ptrdiff_t by, std::size_t size) {
  const auto last = static_cast<std::ptrdiff_t>(size) - 1;
  return static_cast<std::size_t>(std::clamp(static_cast<std::ptrdiff_t>(at) + by, std::ptrdiff_t{0}, last));
}

constexpr std::ptrdiff_t kPage = 10;
constexpr std::ptrdiff_t kFar = 1'000'000;

}  // namespace

void State::take(dto::Memory now) {
  memory = std::move(now);
  lost.clear();
}

void State::take(std::vector<dto::Deployment> all) {
  deployments = std::move(all);
  std::erase_if(deployments, has_ended);
  sort();
}

void State::take(dto::Processes all) {
  processes = std::move(all.processes);
  sort();
}

const dto::Deployment* State::chosen_deployment() const {
  const auto found = std::ranges::find(deployments, selected_deployment, id_of);
  return found == deployments.end() ? nullptr : &*found;
}

const dto::Process* State::chosen_process() const {
  const auto found = std::ranges::find(processes, selected_process, &dto::Process::pid);
  return found == processes.end() ? nullptr : &*found;
}

void State::sort() {
  std::ranges::sort(deployments, [this](const dto::Deployment& a, const dto::Deployment& b) {
    switch (deployment_order) {
      case DeploymentOrder::name: return std::tie(a.name, a.id.value) < std::tie(b.name, b.id.value);
      case DeploymentOrder::state: return std::tie(a.state, a.id.value) < std::tie(b.state, b.id.value);
      case DeploymentOrder::memory: break;
    }
    return std::tuple{held_by(b), a.id.value} < std::tuple{held_by(a), b.id.value};
  });
  std::ranges::sort(processes, [this](const dto::Process& a, const dto::Process& b) {
    const auto rank = [](const dto::Process& process) { return process.orphan_id.empty() && !process.orphan; };
    if (rank(a) != rank(b)) return rank(a) < rank(b);  // D1: what holds memory for nobody comes first
    switch (process_order) {
      case ProcessOrder::gpu:
        return std::tuple{b.gpu_bytes.value_or(Bytes{}), a.pid} < std::tuple{a.gpu_bytes.value_or(Bytes{}), b.pid};
      case ProcessOrder::user: return std::tie(a.user, a.pid) < std::tie(b.user, b.pid);
      case ProcessOrder::held: break;
    }
    return std::tuple{b.held_bytes, a.pid} < std::tuple{a.held_bytes, b.pid};
  });
  if (chosen_deployment() == nullptr) selected_deployment = deployments.empty() ? "" : id_of(deployments.front());
  if (chosen_process() == nullptr) selected_process = processes.empty() ? 0 : processes.front().pid;
}

void State::move(std::ptrdiff_t by) {
  if (list == List::deployments && !deployments.empty()) {
    const auto at = static_cast<std::size_t>(chosen_deployment() - deployments.data());
    selected_deployment = id_of(deployments[moved(at, by, deployments.size())]);
  }
  if (list == List::processes && !processes.empty()) {
    const auto at = static_cast<std::size_t>(chosen_process() - processes.data());
    selected_process = processes[moved(at, by, processes.size())].pid;
  }
}

void State::ask(Action::Kind kind) {
  const auto* deployment = list == List::deployments ? chosen_deployment() : nullptr;
  if (deployment == nullptr) {
    message = deployments.empty() ? "there is no deployment" : "choose a deployment first (Tab changes the list)";
    return;
  }
  if (kind == Action::Kind::sleep && deployment->state != "ready") {
    message = fmt::format("{} is {}: only one that is ready can sleep", deployment->name, deployment->state);
    return;
  }
  if (kind == Action::Kind::wake && deployment->state != "sleeping") {
    message = fmt::format("{} is {}, it does not sleep", deployment->name, deployment->state);
    return;
  }
  asked = Action{.kind = kind, .target = id_of(*deployment), .name = deployment->name};
}

void State::ask_orphan() {
  const auto* process = chosen_process();
  if (process == nullptr) return;
  if (process->orphan_id.empty()) {
    message = fmt::format("process {} is not dgxmm's to stop", process->pid);
    return;
  }
  asked = Action{.kind = Action::Kind::stop_orphan, .target = process->orphan_id, .name = process->command};
}

Action State::answer(Press press) {
  auto action = *std::exchange(asked, std::nullopt);
  if (press.letter == 'y' || press.letter == 'Y') return action;
  message = "nothing was done";
  return {};
}

Action State::press(Press press) {
  using Kind = Action::Kind;
  message.clear();
  if (asked) return answer(press);
  if (help) {
    help = false;
    return {};
  }
  if (!log_of.empty()) {
    if (press.letter == 'q' || press.letter == 'l' || press.key == Key::escape) log_of.clear();
    return {};
  }
  switch (press.key) {
    case Key::up: move(-1); return {};
    case Key::down: move(1); return {};
    case Key::page_up: move(-kPage); return {};
    case Key::page_down: move(kPage); return {};
    case Key::home: move(-kFar); return {};
    case Key::end: move(kFar); return {};
    case Key::tab: list = list == List::deployments ? List::processes : List::deployments; return {};
    case Key::enter: press.letter = 'l'; break;
    case Key::escape:
    case Key::none: break;
  }
  switch (press.letter) {
    case 'q': return {.kind = Kind::quit, .target = {}, .name = {}};
    case '?':
    case 'h': help = true; break;
    case 'k': move(-1); break;
    case 'j': move(1); break;
    case 's': list == List::deployments ? ask(Kind::stop) : ask_orphan(); break;
    case 'z': ask(Kind::sleep); break;
    case 'w': ask(Kind::wake); break;
    case 'o':
      if (list == List::deployments) {
        deployment_order = static_cast<DeploymentOrder>((static_cast<int>(deployment_order) + 1) % 3);
      } else {
        process_order = static_cast<ProcessOrder>((static_cast<int>(process_order) + 1) % 3);
      }
      sort();
      break;
    case 'l':
      if (const auto* deployment = list == List::deployments ? chosen_deployment() : nullptr) {
        log_of = id_of(*deployment);
        log.clear();
        return {.kind = Kind::show_log, .target = log_of, .name = deployment->name};
      }
      message = "only deployments have a log here";
      break;
    default: break;
  }
  return {};
}

std::string question(const State& state, const Action& action) {
  const auto* deployment = state.chosen_deployment();
  const bool is_it = deployment != nullptr && std::to_string(deployment->id.value) == action.target;
  const bool busy = is_it && deployment->busy.value_or(false);
  const auto wake = is_it ? wake_text(*deployment) : std::string{};
  const std::string and_busy = busy ? ", which is answering requests" : "";
  switch (action.kind) {
    case Action::Kind::stop: return fmt::format("stop {}{}? y/n", action.name, and_busy);
    case Action::Kind::sleep: return fmt::format("put {}{} to sleep, level 1? y/n", action.name, and_busy);
    case Action::Kind::wake: return fmt::format("wake {}{}? y/n", action.name, wake.empty() ? "" : " (" + wake + ")");
    case Action::Kind::stop_orphan: return fmt::format("end the orphan {} ({})? y/n", action.target, action.name);
    case Action::Kind::show_log:
    case Action::Kind::quit:
    case Action::Kind::none: break;
  }
  return {};
}

}  // namespace dgxmm::cli::top
