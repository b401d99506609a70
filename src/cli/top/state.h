#pragma once
#include "app/dto/dto.h"
#include "base/clock.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::cli::top {

/// Keys that mean something, whatever the terminal sends for them.
enum class Key { none, up, down, page_up, page_down, home, end, tab, enter, escape };
struct Press {
  Key key = Key::none;
  char letter = 0;  ///< when `key` is none
};

/// What the daemon is to be asked for.
struct Action {
  enum class Kind { none, quit, stop, sleep, wake, stop_orphan, show_log };
  Kind kind = Kind::none;
  std::string target;  ///< id of a deployment or an orphan
  std::string name;    ///< for people
};

enum class List { deployments, processes };
enum class DeploymentOrder { memory, name, state };
enum class ProcessOrder { held, gpu, user };

/// Everything that the screen shows, and what was chosen. Pure: no terminal, no network.
struct State {
  // What the daemon said:
  std::string address;
  std::optional<dto::Memory> memory;
  std::vector<dto::Deployment> deployments;  ///< that have not ended, in the order shown
  std::vector<dto::Process> processes;       ///< likewise; orphans first
  std::string lost;                          ///< why there is no connection; empty: there is one

  // What the person does:
  List list = List::deployments;
  std::string selected_deployment;  ///< its id: rows move
  std::int64_t selected_process = 0;
  DeploymentOrder deployment_order = DeploymentOrder::memory;
  ProcessOrder process_order = ProcessOrder::held;
  bool help = false;
  std::optional<Action> asked;  ///< waits for yes or no
  std::string log_of;           ///< id of the deployment whose log is shown
  std::vector<std::string> log;
  std::string message;  ///< how the last action went

  void take(dto::Memory memory);
  void take(std::vector<dto::Deployment> all);
  void take(dto::Processes all);

  /// What is to be done after a key.
  Action press(Press press);

  [[nodiscard]] const dto::Deployment* chosen_deployment() const;
  [[nodiscard]] const dto::Process* chosen_process() const;

 private:
  void sort();
  void move(std::ptrdiff_t by);
  Action answer(Press press);
  /// Of a deployment, or why not.
  void ask(Action::Kind kind);
  void ask_orphan();
};

/// "stop chat, which is answering requests? y/n"
std::string question(const State& state, const Action& action);

}  // namespace dgxmm::cli::top
