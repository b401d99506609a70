#pragma once
#include "base/clock.h"
#include "cli/api_client.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/console.h"
#include "cli/exit_codes.h"
#include "core/settings/settings.h"

// One function and one file for each command; each returns the exit code.
namespace dgxmm::cli {

/// What every command may use.
struct Context {
  Console& console;
  const ApiClient& api;
  const settings::Settings& settings;
  const Composition& composition;
  const Clock& clock;
  bool json = false;
};

int run(const ServeCommand& command, Context& context);
int run(const FitCommand& command, Context& context);
int run(const BudgetCommand& command, Context& context);
int run(const ModelsCommand& command, Context& context);
int run(const DeployCommand& command, Context& context);
int run(const PsCommand& command, Context& context);
int run(const StopCommand& command, Context& context);
int run(const StartCommand& command, Context& context);
int run(const SleepCommand& command, Context& context);
int run(const WakeCommand& command, Context& context);
int run(const RemoveCommand& command, Context& context);
int run(const LogsCommand& command, Context& context);
int run(const PlanCommand& command, Context& context);
int run(const ScenarioCommand& command, Context& context);
int run(const ApplyCommand& command, Context& context);
int run(const CancelCommand& command, Context& context);
int run(const QueueCommand& command, Context& context);
int run(const EventsCommand& command, Context& context);
int run(const DoctorCommand& command, Context& context);
int run(const MemoryCommand& command, Context& context);
int run(const TopCommand& command, Context& context);
int run(const ProcessesCommand& command, Context& context);
int run(const OrphansCommand& command, Context& context);
int run(const CalibrationCommand& command, Context& context);
int run(const VersionCommand& command, Context& context);
int run(const CompletionCommand& command, Context& context);
int run(const HelpCommand& command, Context& context);

}  // namespace dgxmm::cli
