#pragma once
// Bodies of requests and answers. Slow to compile: only for handlers.
#include "app/api/respond.h"
#include "app/dto/dto_json.h"
#include "core/engine/request.h"
#include "ports/http_handler.h"

#include <optional>
#include <string>

namespace dgxmm::api {

template <class T>
ports::HttpResponse document(const T& value, int status = 200) {
  return json_response(status, json::encode(value));
}

/// A body that must be there. Errors: `bad_json`, and those of json::decode.
template <class T>
Result<T> read_body(const ports::HttpRequest& request) {
  if (request.body.empty()) {
    return fail("bad_json", "the request has no body",
                R"(send a JSON object, for example {"model": "/models/m.gguf"})");
  }
  const auto parsed = json::parse(request.body);
  if (!parsed) return fail(parsed.error());
  return json::decode<T>(*parsed, json::Unknown::reject);
}

Result<engine::DeployRequest> read_deploy_request(const ports::HttpRequest& request);

Error nameless_label();

std::optional<std::string> query_value(const ports::HttpRequest& request, const std::string& name);

}  // namespace dgxmm::api
