#include "cli/cli.h"

#include "adapters/settings/settings_file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/session.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dgxmm::cli {
namespace {

void append(std::vector<settings::Assignment>& all, std::vector<settings::Assignment> more) {
  std::ranges::move(more, std::back_inserter(all));
}

/// File, environment, flags: the later wins.
Result<settings::Settings> load_settings(const Invocation& invocation, Console& console) {
  std::vector<settings::Assignment> assignments;
  const auto path = invocation.global.config.value_or(settings_file::default_path());
  if (!path.empty()) {
    auto from_file = settings_file::read_file(path);
    if (!from_file) return fail(from_file.error());
    const bool has_token = std::ranges::find(*from_file, "token", &settings::Assignment::name) != from_file->end();
    if (has_token && settings_file::readable_by_others(path)) {
      warn(console, fmt::format("{} holds the token and every user can read it: `chmod o-r` it", path));
    }
    append(assignments, std::move(*from_file));
  }
  for (const auto& warning : settings_file::mistyped_variables()) warn(console, warning);
  append(assignments, settings_file::read_environment());
  if (const auto* serve = std::get_if<ServeCommand>(&invocation.command)) append(assignments, serve->assignments);
  if (const auto& token = invocation.global.token) assignments.push_back({"token", {*token}, "--token"});
  auto settings = settings::apply(assignments);
  if (settings && settings->hugging_face_cache == settings::kAutomatic) {
    settings->hugging_face_cache = settings_file::default_hugging_face_cache();
  }
  return settings;
}

Result<settings::ListenAddress> daemon_address(const GlobalOptions& global, const settings::Settings& settings) {
  if (!global.address) return settings::parse_listen(settings.listen);
  auto address = settings::parse_listen(*global.address);
  if (!address) {
    return fail("usage", "--address: expected HOST:PORT, not '" + *global.address + "'", "for example 127.0.0.1:8484");
  }
  return address;
}

/// These work even when the settings do not.
bool needs_settings(const Command& command) {
  return !std::holds_alternative<HelpCommand>(command) && !std::holds_alternative<CompletionCommand>(command);
}

int run_invocation(const Invocation& invocation, const Composition& composition, Console& console, const Clock& clock) {
  const bool json = invocation.global.json;
  settings::Settings settings;
  if (needs_settings(invocation.command)) {
    auto loaded = load_settings(invocation, console);
    if (!loaded) return report(console, json, problem_of(loaded.error()));
    settings = std::move(*loaded);
  }
  const auto address = daemon_address(invocation.global, settings);
  if (!address) return report(console, json, problem_of(address.error()));
  const ApiClient api{*address, settings.token};
  Context context{
      .console = console, .api = api, .settings = settings, .composition = composition, .clock = clock, .json = json};
  return std::visit([&context](const auto& command) { return run(command, context); }, invocation.command);
}

int run_checked(std::vector<std::string> arguments, const Composition& composition, Console& console,
                const Clock& clock) {
  const bool json = std::ranges::find(arguments, "--json") != arguments.end();
  auto invocation = parse_command_line(std::move(arguments));
  if (!invocation) return report(console, json, problem_of(invocation.error()));
  if (invocation->global.no_color) console.colour = console.err_colour = false;
  return run_invocation(*invocation, composition, console, clock);
}

}  // namespace

int run(const ServeCommand& /*command*/, Context& context) {
  // Whoever reads the log may go; engines get the usual effect back when they are started.
  std::signal(SIGPIPE, SIG_IGN);
  return context.composition.serve(context.settings);
}

int run(const HelpCommand& command, Context& context) {
  // A pipe has no width: its reader may be a pager, or a page of documentation.
  constexpr std::size_t kUsualWidth = 80;
  const auto width = context.console.width == 0 ? kUsualWidth : context.console.width;
  std::istringstream lines{command.text};
  bool after_blank = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() && after_blank) continue;
    after_blank = line.empty();
    if (width_of(line) <= width) {
      context.console.out << line << '\n';
      continue;
    }
    // Two columns: an option and, behind at least two spaces, what it does.
    const auto first = std::min(line.find_first_not_of(' '), line.size());
    const auto gap = line.find("  ", first);
    const auto text = gap == std::string::npos ? first : line.find_first_not_of(' ', gap);
    const std::string_view view{line};
    context.console.out << wrap_beside(view.substr(0, text), view.substr(text), width);
  }
  return kExitOk;
}

int run(std::vector<std::string> arguments, const Composition& composition, Console console, const Clock& clock) {
  int exit_code = kExitError;
  try {
    exit_code = run_checked(std::move(arguments), composition, console, clock);
  } catch (const std::exception& error) {
    report(console, false, problem_of(Error{"internal", error.what(), {}, {}}));
  }
  console.out.flush();
  if (!console.out && exit_code == kExitOk) {
    report(console, false, problem_of(Error{"write_failed", "the answer could not be written to stdout", {}, {}}));
    return kExitError;
  }
  return exit_code;
}

int run(int argc, char** argv, const Composition& composition) {
  // A reader that has enough, like `head`, ends the command without a word, even where a parent ignored the signal.
  std::signal(SIGPIPE, SIG_DFL);
  const auto arguments = std::span{argv, static_cast<std::size_t>(argc)}.subspan(argc > 0 ? 1 : 0);
  return run(std::vector<std::string>{arguments.begin(), arguments.end()}, composition, standard_console(),
             SystemClock{});
}

}  // namespace dgxmm::cli
