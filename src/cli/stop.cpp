#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

Answer<std::vector<std::string>> running(const ApiClient& api) {
  const auto deployments = api.get<std::vector<dto::Deployment>>("/deployments");
  if (!deployments) return refuse(deployments.error());
  std::vector<std::string> ids;
  for (const auto& deployment : *deployments) {
    if (deployment.state != "stopped" && deployment.state != "failed")
      ids.push_back(std::to_string(deployment.id.value));
  }
  return ids;
}

Answer<dto::Deployment> stop(Context& context, const std::string& deployment) {
  Progress progress{context.console};
  progress.show(fmt::format("stopping {}", deployment));
  return context.api.post<dto::Deployment>("/deployments/" + net::percent_encode(deployment) + "/stop");
}

}  // namespace

int run(const StopCommand& command, Context& context) {
  auto names = command.deployments;
  if (command.all) {
    auto all = running(context.api);
    if (!all) return report(context, all.error());
    names = std::move(*all);
    if (names.empty() && !context.json) note(context.console, "nothing is running");
  }
  std::vector<dto::Deployment> stopped;
  int exit_code = kExitOk;
  for (const auto& name : names) {
    auto deployment = stop(context, name);
    if (!deployment) {
      exit_code = report(context, deployment.error());
      if (context.json) return exit_code;
      continue;
    }
    if (!context.json) {
      context.console.out << fmt::format("stopped {} (id {}); its memory is back\n", printable(deployment->name),
                                         deployment->id.value)
                          << std::flush;
    }
    stopped.push_back(std::move(*deployment));
  }
  if (context.json) {
    const bool one = !command.all && names.size() == 1;
    one ? print_json(context, stopped.front()) : print_json(context, stopped);
  }
  return exit_code;
}

}  // namespace dgxmm::cli
