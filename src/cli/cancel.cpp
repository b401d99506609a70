#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/waiting.h"

#include <fmt/format.h>

namespace dgxmm::cli {
namespace {

int leave_queue(const std::string& id, Context& context) {
  const auto removed = context.api.remove("/queue/" + net::percent_encode(id));
  if (!removed) return report(context, removed.error());
  if (!context.json) context.console.out << printable(fmt::format("{} waits no longer", id)) << '\n';
  return kExitOk;
}

}  // namespace

int run(const CancelCommand& command, Context& context) {
  if (command.id.find('-') != std::string::npos) return leave_queue(command.id, context);
  const auto begun =
      context.api.post<dto::Operation>(fmt::format("/operations/{}/cancel", net::percent_encode(command.id)));
  if (!begun) return report(context, begun.error());
  const auto operation = wait_until_done(context, *begun);
  if (!operation) return report(context, operation.error());
  if (context.json) {
    print_json(context, *operation);
  } else if (operation->state == "cancelled") {
    context.console.out << printable(fmt::format("plan {}: {}", operation->plan,
                                                 operation->failure ? operation->failure->message : "cancelled"))
                        << '\n';
    if (operation->failure && !operation->failure->hint.empty()) {
      note(context.console, operation->failure->hint);
    }
  } else {  // it had begun to fail, or was done, just before
    context.console.out << printable(fmt::format("plan {} had ended before: {}", operation->plan, operation->state))
                        << '\n';
  }
  return operation->state == "cancelled" ? kExitOk : kExitError;
}

}  // namespace dgxmm::cli
