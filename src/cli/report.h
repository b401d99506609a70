#pragma once
#include "app/dto/dto.h"
#include "cli/commands.h"
#include "cli/documents.h"

#include <string>
#include <vector>

// Ends of commands that more than one of them has.
namespace dgxmm::cli {

/// The exit code for a problem.
int exit_code_of(const dto::Problem& problem);

/// Shows a problem: with --json the document on stdout, else on stderr its sentence, hint, the engine's last lines and
/// the plans. Returns the exit code.
int report(Context& context, const dto::Problem& problem);

/// The same before there is a context.
int report(Console& console, bool json, const dto::Problem& problem);

/// The document as one line of JSON.
template <class T>
void print_json(Context& context, const T& document) {
  context.console.out << to_json(document) << '\n';
}

/// A line for each warning, coloured on a terminal.
std::string warnings_text(const std::vector<dto::Warning>& warnings, const Console& console);

/// A table of plans and the line to run next.
/// Who else holds memory, under the plans; empty when nobody is known.
std::string holders_text(const std::vector<dto::Process>& holders, std::size_t width);
/// The container or unit of a process, as people know it.
std::string place_text(const dto::Process& process);
/// What is to be said of a process that is, or may be, an orphan; empty: nothing.
std::string orphan_note(const dto::Process& process);
std::string plans_text(const dto::Plans& plans, std::size_t width);

/// The request as the daemon understands it: paths are made absolute. A name, with or without "ORG/", is a path when
/// something here is called so, else it is a name of the catalog.
engine::DeployRequest with_whole_paths(engine::DeployRequest request);

}  // namespace dgxmm::cli
