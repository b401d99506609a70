#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

/// Returns what it was: the daemon has nothing left to say about it.
Answer<dto::Deployment> remove(const ApiClient& api, const std::string& name) {
  auto deployment = api.get<dto::Deployment>("/deployments/" + net::percent_encode(name));
  if (!deployment) return deployment;
  // By its number, so that another deployment which takes the name in between is not hit.
  const auto removed = api.remove(fmt::format("/deployments/{}", deployment->id.value));
  if (!removed) return refuse(removed.error());
  return deployment;
}

}  // namespace

int run(const RemoveCommand& command, Context& context) {
  std::vector<dto::Deployment> removed;
  int exit_code = kExitOk;
  for (const auto& name : command.deployments) {
    auto deployment = remove(context.api, name);
    if (!deployment) {
      exit_code = report(context, deployment.error());
      if (context.json) return exit_code;
      continue;
    }
    if (!context.json) {
      context.console.out << fmt::format("removed {} (id {})\n", printable(deployment->name), deployment->id.value);
    }
    removed.push_back(std::move(*deployment));
  }
  if (context.json) removed.size() == 1 ? print_json(context, removed.front()) : print_json(context, removed);
  return exit_code;
}

}  // namespace dgxmm::cli
