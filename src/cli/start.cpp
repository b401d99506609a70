#include "adapters/net/http_text.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/waiting.h"

namespace dgxmm::cli {

int run(const StartCommand& command, Context& context) {
  const auto path = "/deployments/" + net::percent_encode(command.deployment) + "/start";
  const auto deployment = context.api.post<dto::Deployment>(path);
  if (!deployment) return finish_refused(context, deployment.error(), command.yes, command.wait);
  return finish_start(context, *deployment, command.wait);
}

}  // namespace dgxmm::cli
