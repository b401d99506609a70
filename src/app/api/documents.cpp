#include "app/api/documents.h"

namespace dgxmm::api {

Result<engine::DeployRequest> read_deploy_request(const ports::HttpRequest& request) {
  auto result = read_body<engine::DeployRequest>(request);
  if (result && result->labels.contains("")) return fail(nameless_label());
  return result;
}

Error nameless_label() { return {"bad_field", "labels: a label needs a name", {}, "labels"}; }

std::optional<std::string> query_value(const ports::HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace dgxmm::api
