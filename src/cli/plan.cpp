#include "app/dto/convert.h"
#include "app/dto/scenario.h"
#include "base/files.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace dgxmm::cli {
namespace {

constexpr std::size_t kMostScenarioBytes = std::size_t{64} * 1024 * 1024;

Result<dto::Plans> plans_of_scenario(const PlanCommand& command, const Composition& composition) {
  const auto& file = command.scenario.value();
  const auto text = read_text_file(file, kMostScenarioBytes);
  if (!text) return fail("scenario_not_found", fmt::format("{}: cannot be read", printable(file)), {}, file);
  const auto parts = composition.offline();
  const auto scenario = dto::read_scenario(*text, [&](const std::string& path) { return parts.files->describe(path); });
  if (!scenario) {
    auto error = scenario.error();
    if (error.code == "bad_json") error.code = "bad_scenario";
    error.message = fmt::format("{}: {}", printable(file), error.message);
    return fail(std::move(error));
  }
  auto request = command.request;
  if (request.model.empty()) {
    if (!scenario->request) {
      return fail("bad_scenario", fmt::format("{}: has no request", printable(file)), "name a model of its `models`",
                  "request");
    }
    request = *scenario->request;
  }
  const auto plans = planner::plans_of(*scenario, request);
  if (!plans) return fail(plans.error());
  return dto::to_dto(*plans);
}

Answer<dto::Plans> answer(const PlanCommand& command, Context& context) {
  if (!command.scenario) return context.api.post<dto::Plans>("/plans", to_json(with_whole_paths(command.request)));
  auto plans = plans_of_scenario(command, context.composition);
  if (!plans) return refuse(plans.error());
  return std::move(*plans);
}

}  // namespace

int run(const PlanCommand& command, Context& context) {
  const auto plans = answer(command, context);
  if (!plans) return report(context, plans.error());
  const bool possible = plans->fits_now || std::ranges::any_of(plans->plans, &dto::Plan::fits);
  if (context.json) {
    print_json(context, *plans);
  } else {
    auto& console = context.console;
    console.out << paint(console.colour, plans->fits_now ? Colour::green : Colour::red,
                         plans->fits_now ? "fits now:" : "does not fit:")
                << ' ' << verdict_text(plans->needed_bytes, plans->free_for_new_bytes) << '\n';
    if (!possible) console.out << "no plan makes it fit\n";
    if (!possible && plans->missing_without_all_bytes) {
      console.out << fmt::format("with everything stopped it would still be {} too little\n",
                                 format_bytes(*plans->missing_without_all_bytes));
    }
    if (!plans->fits_now) console.out << plans_text(*plans, console.width);
  }
  return possible ? kExitOk : kExitDoesNotFit;
}

}  // namespace dgxmm::cli
