#include "cli/report.h"

#include "base/masking.h"
#include "cli/format.h"
#include "cli/table.h"
#include "core/model/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace dgxmm::cli {
namespace {

std::string sentence_of(const dto::Problem& problem) { return problem.detail.empty() ? problem.title : problem.detail; }

void print_problem(Console& console, const dto::Problem& problem) {
  const bool has_plans = problem.plans && !problem.plans->plans.empty() && !problem.plans->plan_set.empty();
  console.err << paint(console.err_colour, Colour::red, "error:") << ' ' << printable(sentence_of(problem)) << '\n';
  // The daemon's hint speaks of its API; the table below says how to carry out a plan from here.
  if (!problem.hint.empty() && !has_plans) console.err << "hint: " << printable(problem.hint) << '\n';
  if (problem.failure && !problem.failure->last_lines.empty()) {
    console.err << "last lines of the engine:\n";
    for (const auto& line : problem.failure->last_lines) console.err << "  " << printable(line) << '\n';
  }
}

std::string whole_path(const std::string& argument) {
  std::error_code error;
  const bool is_path = std::filesystem::exists(argument, error) ||
                       (argument.find('/') != std::string::npos && !model::is_repository_name(argument));
  if (!is_path) return argument;
  const auto absolute = std::filesystem::absolute(argument, error);
  return error ? argument : absolute.lexically_normal().string();
}

/// "25 s", or "~25 s" when it is estimated by size.
std::string takes_text(const dto::Plan& plan) {
  if (!plan.takes_s) return {};
  return (plan.takes_measured ? "" : "~") + duration_text(std::chrono::seconds{*plan.takes_s});
}

/// How far the sizes of all plans are to be trusted, when that is the same for all; else "".
std::string shared_confidence(const dto::Plans& plans) {
  const auto& first = plans.plans.front().confidence;
  return std::ranges::all_of(plans.plans, [&](const auto& plan) { return plan.confidence == first; }) ? first : "";
}

}  // namespace

int exit_code_of(const dto::Problem& problem) {
  static constexpr std::array<std::string_view, 10> kWrongUsage{
      "usage",         "bad_setting",       "settings_not_found", "bad_field",    "missing_field",
      "unknown_field", "bad_configuration", "bad_size",           "bad_scenario", "scenario_not_found"};
  if (problem.code == "does_not_fit") return kExitDoesNotFit;
  return std::ranges::find(kWrongUsage, problem.code) == kWrongUsage.end() ? kExitError : kExitUsage;
}

int report(Console& console, bool json, const dto::Problem& problem) {
  if (json) {
    console.out << to_json(problem) << '\n';
    return exit_code_of(problem);
  }
  print_problem(console, problem);
  if (problem.plans && !problem.plans->plans.empty()) console.out << plans_text(*problem.plans, console.width);
  console.out << holders_text(problem.holders, console.width);
  return exit_code_of(problem);
}

int report(Context& context, const dto::Problem& problem) { return report(context.console, context.json, problem); }

std::string warnings_text(const std::vector<dto::Warning>& warnings, const Console& console) {
  std::string result;
  for (const auto& warning : warnings) {
    const bool is_note = warning.severity == "note";
    const std::string label = is_note ? "note: " : "warning: ";
    const auto hint = warning.hint.empty() ? std::string{} : "; " + warning.hint;
    auto lines = wrap_beside(label, printable(warning.message + hint), console.width);
    // The label alone is coloured, after the lines were broken by their width.
    lines.replace(0, label.size(), paint(console.colour, is_note ? Colour::dim : Colour::yellow, label));
    result += lines;
  }
  return result;
}

std::string orphan_note(const dto::Process& process) {
  if (!process.orphan_id.empty()) {
    return fmt::format("an engine of dgxmm that no deployment knows: `dgxmm orphans --stop {}` ends it",
                       process.orphan_id);
  }
  if (process.orphan) {
    return fmt::format("holds GPU memory for nobody: what it worked for has ended; `kill {}` gives it back",
                       process.pid);
  }
  return process.parent_ended ? "its parent has ended; it may still be in use" : "";
}

std::string holders_text(const std::vector<dto::Process>& holders, std::size_t width) {
  if (holders.empty()) return {};
  Table table{{{"HELD BY OTHERS", Align::right},
               {"PID", Align::right},
               {"USER", Align::left, 8},
               {"CONTAINER", Align::left, 9},
               {"COMMAND", Align::left, 16}}};
  for (const auto& holder : holders) {
    table.add({format_bytes(holder.held_bytes), fmt::format("{}", holder.pid), holder.user, place_text(holder),
               holder.command});
    if (const auto note = orphan_note(holder); !note.empty()) table.add_note(note);
  }
  return "\n" + table.render(width);
}

std::string place_text(const dto::Process& process) {
  constexpr std::size_t kShortId = 12;
  constexpr std::size_t kWholeId = 64;
  if (!process.container_name.empty()) return process.container_name;
  return process.container.size() == kWholeId ? process.container.substr(0, kShortId) : process.container;
}

std::string plans_text(const dto::Plans& plans, std::size_t width) {
  if (plans.plans.empty()) return {};
  Table table{{{""},
               {"PLAN", Align::left, 12},
               {"FITS"},
               {"NEEDS", Align::right},
               {"LEAVES", Align::right},
               {"TAKES", Align::right}}};
  const auto confidence = shared_confidence(plans);
  const dto::Plan* recommended = nullptr;
  bool any_fits = false;
  for (const auto& plan : plans.plans) {
    const auto left =
        plan.left_bytes < Bytes{0} ? "short " + format_bytes(-plan.left_bytes) : format_bytes(plan.left_bytes);
    table.add({plan.recommended ? "*" : "", plan.id, plan.fits ? "yes" : "no", format_bytes(plan.needed_bytes), left,
               takes_text(plan)});
    table.add_note(plan.title);
    if (!plan.stops.empty() || !plan.sleeps.empty()) {
      table.add_note(fmt::format("memory: {} free for it then", format_bytes(plan.free_after_bytes)));
    }
    if (confidence.empty() && !plan.confidence.empty()) table.add_note(confidence_text(plan.confidence));
    for (const auto& cost : plan.costs) table.add_note(cost);
    if (plan.why) table.add_note("recommended: " + *plan.why);
    for (const auto& reason : plan.unsafe) table.add_note("unsafe: " + reason);
    if (plan.recommended) recommended = &plan;
    any_fits = any_fits || plan.fits;
  }
  auto text = table.render(width);
  if (recommended != nullptr) text += "* recommended\n";
  if (!confidence.empty()) text += wrap("sizes are " + confidence_text(confidence), width);
  if (plans.plan_set.empty() || !any_fits) return text;
  // An unsafe plan is never the next thing to paste.
  text += recommended != nullptr
              ? printable(fmt::format("to carry one out: dgxmm apply {}/{}", plans.plan_set, recommended->id))
              : printable(fmt::format("none of them is safe; `dgxmm apply {}/PLAN` carries one out all the same",
                                      plans.plan_set));
  text += '\n';
  return text;
}

engine::DeployRequest with_whole_paths(engine::DeployRequest request) {
  request.model = whole_path(request.model);
  if (request.draft_model) request.draft_model = whole_path(*request.draft_model);
  if (request.mmproj && *request.mmproj != "none") request.mmproj = whole_path(*request.mmproj);
  return request;
}

}  // namespace dgxmm::cli
