#include "cli/commands.h"
#include "cli/report.h"
#include "cli/waiting.h"

namespace dgxmm::cli {

int run(const DeployCommand& command, Context& context) {
  const auto request = with_whole_paths(command.request);
  const auto deployment = context.api.post<dto::Deployment>("/deployments", to_json(request));
  if (!deployment) return finish_refused(context, deployment.error(), command.yes, command.wait);
  return finish_start(context, *deployment, command.wait);
}

}  // namespace dgxmm::cli
