#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"
#include "cli/waiting.h"

#include <fmt/format.h>

namespace dgxmm::cli {

int run(const SleepCommand& command, Context& context) {
  const auto path = fmt::format("/deployments/{}/sleep?level={}{}", net::percent_encode(command.deployment),
                                command.level.value_or(1), command.force ? "&force=1" : "");
  const auto deployment = [&] {
    Progress progress{context.console};
    progress.show(fmt::format("{} falls asleep", command.deployment));
    return context.api.post<dto::Deployment>(path);
  }();
  if (!deployment) return report(context, deployment.error());
  if (context.json) {
    print_json(context, *deployment);
    return kExitOk;
  }
  const auto& freed = deployment->sleep_freed_bytes;
  const auto gave =
      !freed ? std::string{"what it gave back is not known"} : fmt::format("{} given back", format_bytes(*freed));
  context.console.out << fmt::format("{} sleeps (id {}, level {}); {}\n", printable(deployment->name),
                                     deployment->id.value, deployment->sleep_level.value_or(0), gave);
  if (!deployment->can_wake_now.value_or(true)) {
    context.console.out << wrap("warning: " + wake_text(*deployment), context.console.width);
  }
  return kExitOk;
}

int run(const WakeCommand& command, Context& context) {
  const auto path = "/deployments/" + net::percent_encode(command.deployment) + "/wake";
  const auto deployment = context.api.post<dto::Deployment>(path);
  if (!deployment) return finish_refused(context, deployment.error(), command.yes, command.wait);
  return finish_start(context, *deployment, command.wait);
}

}  // namespace dgxmm::cli
