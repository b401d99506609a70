#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

struct NamedPlan {
  std::string set;  ///< empty: of the one request that has it
  std::string id;
};

/// "SET/PLAN", or "PLAN". A plan's id may name a model, with a slash in it.
NamedPlan named_plan(const std::string& text) {
  const auto slash = text.find('/');
  const bool has_set = slash != std::string::npos && text.find(':') > slash;
  if (!has_set) return {.set = {}, .id = text};
  return {.set = text.substr(0, slash), .id = text.substr(slash + 1)};
}

std::string path_to_apply(const NamedPlan& plan, bool even_if_busy) {
  return fmt::format("/plans/{}/{}/apply{}", net::percent_encode(plan.set.empty() ? "latest" : plan.set),
                     net::percent_encode(plan.id), even_if_busy ? "?even_if_busy=1" : "");
}

void show_lines(Console& console, std::string_view label, const std::vector<std::string>& lines) {
  for (const auto& line : lines) console.err << printable(fmt::format("{}{}", label, line)) << '\n';
}

/// What will be done and what that costs, before it is asked for. False: nobody knows that plan, and asking for it says
/// why.
bool show_before(Context& context, const NamedPlan& named) {
  if (named.set.empty()) return false;
  const auto plans = context.api.get<dto::Plans>("/plans/" + net::percent_encode(named.set));
  if (!plans) return false;
  const auto plan = std::ranges::find(plans->plans, named.id, &dto::Plan::id);
  if (plan == plans->plans.end()) return false;
  context.console.err << printable(fmt::format("plan {}/{}: {}", named.set, named.id, plan->title)) << '\n';
  show_lines(context.console, "", plan->costs);
  show_lines(context.console, "unsafe: ", plan->unsafe);
  context.console.err << std::flush;
  return true;
}

/// Whose plan it is, which "stop:3" alone does not say, and what speaks against it.
void show_plan(Console& console, const dto::Operation& operation) {
  console.err << printable(fmt::format("plan {}/{} for {}: {}", operation.plan_set, operation.plan, operation.model,
                                       operation.title))
              << '\n';
  show_lines(console, "unsafe: ", operation.unsafe);
  console.err << std::flush;
}

}  // namespace

int run(const ApplyCommand& command, Context& context) {
  const auto named = named_plan(command.plan);
  const bool shown = show_before(context, named);
  const auto begun = context.api.post<dto::Operation>(path_to_apply(named, command.even_if_busy));
  if (!begun) return report(context, begun.error());
  if (!shown) show_plan(context.console, *begun);
  if (!command.wait) {
    if (context.json) {
      print_json(context, *begun);
    } else {
      context.console.out
          << printable(fmt::format(
                 "operation {} has begun: `dgxmm events -f` shows its steps, `dgxmm cancel {}` ends it and undoes them",
                 begun->id, begun->id))
          << '\n';
    }
    return kExitOk;
  }
  const auto operation = wait_until_done(context, *begun);
  if (!operation) return report(context, operation.error());
  const bool succeeded = operation->state == "succeeded";
  if (context.json) {
    print_json(context, *operation);
    return succeeded ? kExitOk : kExitError;
  }
  if (!succeeded) {
    const dto::Failure unexplained{"operation_failed", "the plan could not be carried out", {}, {}};
    auto problem = problem_of(operation->failure.value_or(unexplained));
    if (operation->new_plan_set) {
      auto plans = context.api.get<dto::Plans>("/plans/" + net::percent_encode(*operation->new_plan_set));
      if (plans) problem.plans = std::move(*plans);
    }
    report(context, problem);
    return kExitError;
  }
  if (operation->deployment) {
    const auto deployment =
        context.api.get<dto::Deployment>(fmt::format("/deployments/{}", operation->deployment->value));
    if (!deployment) return report(context, deployment.error());
    print_started(context, *deployment);
  }
  return kExitOk;
}

}  // namespace dgxmm::cli
