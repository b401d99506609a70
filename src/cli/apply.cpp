#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/waiting.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace dgxmm::cli {
namespace {

/// "SET/PLAN", or a plan that only one request has. A plan's id may name a model, with a slash in it.
std::string path_to_apply(const std::string& plan, bool even_if_busy) {
  const auto slash = plan.find('/');
  const bool has_set = slash != std::string::npos && plan.find(':') > slash;
  const auto set = has_set ? plan.substr(0, slash) : std::string{"latest"};
  const auto id = has_set ? plan.substr(slash + 1) : plan;
  return fmt::format("/plans/{}/{}/apply{}", net::percent_encode(set), net::percent_encode(id),
                     even_if_busy ? "?even_if_busy=1" : "");
}

/// Whose plan it is, which "stop:3" alone does not say, and what speaks against it.
void show_plan(Console& console, const dto::Operation& operation) {
  console.err << printable(fmt::format("plan {}/{} for {}: {}", operation.plan_set, operation.plan, operation.model,
                                       operation.title))
              << '\n';
  for (const auto& reason : operation.unsafe) console.err << printable("unsafe: " + reason) << '\n';
  console.err << std::flush;
}

}  // namespace

int run(const ApplyCommand& command, Context& context) {
  const auto begun = context.api.post<dto::Operation>(path_to_apply(command.plan, command.even_if_busy));
  if (!begun) return report(context, begun.error());
  show_plan(context.console, *begun);
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
