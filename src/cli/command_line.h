#pragma once
#include "base/result.h"
#include "core/engine/request.h"
#include "core/settings/settings.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// What was typed, as values.
namespace dgxmm::cli {

/// Options that stand before or after any command.
struct GlobalOptions {
  bool json = false;
  bool no_color = false;
  std::optional<std::string> address;
  std::optional<std::string> token;
  std::optional<std::string> config;
};

struct ServeCommand {
  std::vector<settings::Assignment> assignments;
};
struct FitCommand {
  std::vector<std::string> models;
  engine::DeployRequest request;    ///< of each of the models
  std::optional<std::string> host;  ///< a size, instead of this host
  std::optional<std::string> free;  ///< a size, instead of what is free here
};
struct BudgetCommand {};
struct ModelsCommand {
  bool flat = false;  ///< one row a model, not by base model
};
struct DeployCommand {
  engine::DeployRequest request;
  bool wait = true;
  bool yes = false;  ///< carry out the recommended plan when it does not fit, as for the next ones
};
struct PsCommand {
  bool all = false;
};
struct StopCommand {
  std::vector<std::string> deployments;  ///< ids or names
  bool all = false;
};
struct StartCommand {
  std::string deployment;
  bool wait = true;
  bool yes = false;
};
struct SleepCommand {
  std::string deployment;
  std::optional<std::int64_t> level;
  bool force = false;
};
struct WakeCommand {
  std::string deployment;
  bool wait = true;
  bool yes = false;
};
struct RemoveCommand {
  std::vector<std::string> deployments;
};
struct LogsCommand {
  std::string deployment;
  bool follow = false;
  std::optional<std::int64_t> tail;
};
struct PlanCommand {
  engine::DeployRequest request;
  std::optional<std::string> scenario;  ///< a file, instead of this host
};
struct ScenarioCommand {
  std::string action;  ///< export
  engine::DeployRequest request;
};
struct ApplyCommand {
  std::string plan;  ///< "stop:3", or "SET/stop:3"
  bool even_if_busy = false;
  bool wait = true;
};
struct CancelCommand {
  std::string id;  ///< of an operation, or of one that waits
};
struct QueueCommand {};
struct EventsCommand {
  bool follow = false;
  bool all = false;
  std::optional<std::int64_t> after;
  std::optional<std::int64_t> tail;
};
struct DoctorCommand {};
struct MemoryCommand {};
struct TopCommand {};
struct ProcessesCommand {};
struct OrphansCommand {
  std::vector<std::string> stop;  ///< ids
  bool stop_all = false;
};
struct CalibrationCommand {
  std::vector<std::string> forget;  ///< ids or fingerprints
  bool oom_floors_too = false;
};
struct VersionCommand {};
struct CompletionCommand {
  std::string shell;  ///< bash, zsh or fish
};
struct HelpCommand {
  std::string text;
};

using Command =
    std::variant<ServeCommand, FitCommand, BudgetCommand, ModelsCommand, DeployCommand, PsCommand, StopCommand,
                 StartCommand, SleepCommand, WakeCommand, RemoveCommand, LogsCommand, PlanCommand, ScenarioCommand,
                 ApplyCommand, CancelCommand, QueueCommand, EventsCommand, MemoryCommand, TopCommand, ProcessesCommand,
                 OrphansCommand, CalibrationCommand, DoctorCommand, VersionCommand, CompletionCommand, HelpCommand>;

struct Invocation {
  GlobalOptions global;
  Command command;
};

/// `arguments` without the program's name. Errors: `usage`.
Result<Invocation> parse_command_line(std::vector<std::string> arguments);

struct OptionGrammar {
  std::vector<std::string> names;  ///< with their dashes
  bool takes_value = false;
  std::vector<std::string> choices;  ///< the only values; empty = any
  std::string description;
};

struct CommandGrammar {
  std::string name;
  std::string description;
  std::vector<OptionGrammar> options;
  bool takes_files = false;          ///< as arguments: models
  std::vector<std::string> choices;  ///< the only arguments; empty = any, or none
};

struct Grammar {
  std::vector<OptionGrammar> global_options;
  std::vector<CommandGrammar> commands;
};

/// The same as the parser sees it, for shell completion.
Grammar grammar();

}  // namespace dgxmm::cli
