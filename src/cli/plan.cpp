#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"

#include <algorithm>

namespace dgxmm::cli {

int run(const PlanCommand& command, Context& context) {
  const auto request = with_whole_paths(command.request);
  const auto plans = context.api.post<dto::Plans>("/plans", to_json(request));
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
    if (!plans->fits_now) console.out << plans_text(*plans, console.width);
  }
  return possible ? kExitOk : kExitDoesNotFit;
}

}  // namespace dgxmm::cli
