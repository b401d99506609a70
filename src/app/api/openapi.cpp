#include "app/api/openapi.h"

#include "app/api/routes.h"
#include "app/dto/dto_schema.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace dgxmm::api {
namespace {

namespace bj = boost::json;

/// An object with one member.
bj::object holding(std::string_view name, bj::value value) {
  bj::object result;
  result.emplace(name, std::move(value));
  return result;
}

bj::object content(std::string_view type, bj::value schema) {
  return holding(type, holding("schema", std::move(schema)));
}

bj::object response(std::string_view description, bj::object content) {
  bj::object result;
  result.emplace("description", description);
  if (!content.empty()) result.emplace("content", std::move(content));
  return result;
}

bj::object problem_response(std::string_view description, json::Components& components) {
  return response(description, content("application/problem+json", schema_as_written<dto::Problem>(components)));
}

bj::object parameter_schema(Parameter::Type type) {
  auto schema = holding("type", type == Parameter::Type::whole_number ? "integer" : "string");
  if (type == Parameter::Type::one) schema.emplace("enum", bj::array{"1"});
  if (type == Parameter::Type::whole_number) schema.emplace("minimum", 0);
  return schema;
}

bj::object describe(const Parameter& parameter) {
  const auto in = parameter.in == Parameter::In::path    ? "path"
                  : parameter.in == Parameter::In::query ? "query"
                                                         : "header";
  bj::object result;
  result.emplace("name", parameter.name);
  result.emplace("in", in);
  result.emplace("description", parameter.meaning.text());
  if (parameter.in == Parameter::In::path) result.emplace("required", true);
  result.emplace("schema", parameter_schema(parameter.type));
  return result;
}

/// "/api/v1/deployments/{id}" belongs to "deployments", "/healthz" to "daemon".
std::string_view tag_of(const Route& route) {
  constexpr std::string_view kApi = "/api/v1/";
  if (!route.pattern.starts_with(kApi)) return "daemon";
  const auto rest = route.pattern.substr(kApi.size());
  return rest.substr(0, rest.find_first_of("/."));
}

bj::object responses_of(const Route& route, json::Components& components) {
  const auto& success = route.success;
  const auto body = [&]() -> bj::object {
    if (success.content_type.empty()) return {};
    if (success.schema == nullptr) return content(success.content_type, holding("type", "string"));
    return content(success.content_type, success.schema(components));
  };
  bj::object result;
  result.emplace(std::to_string(success.status), response("Done", body()));
  if (route.also != 0) result.emplace(std::to_string(route.also), response("In trouble", body()));
  if (!route.refusal.empty()) result.emplace("409", problem_response(route.refusal, components));
  result.emplace("default", problem_response("What is wrong, with a stable code", components));
  return result;
}

bj::object describe(const Route& route, json::Components& components) {
  bj::object result;
  result.emplace("operationId", route.id.text());
  result.emplace("summary", route.summary.text());
  result.emplace("tags", bj::array{tag_of(route)});
  if (!route.parameters.empty()) {
    bj::array parameters;
    for (const auto& parameter : route.parameters) parameters.emplace_back(describe(parameter));
    result.emplace("parameters", std::move(parameters));
  }
  if (route.body.schema != nullptr) {
    auto body = holding("required", true);
    body.emplace("content", content("application/json", route.body.schema(components)));
    result.emplace("requestBody", std::move(body));
  }
  result.emplace("responses", responses_of(route, components));
  return result;
}

std::string lower(std::string_view method) {
  std::string result{method};
  for (auto& letter : result) letter = static_cast<char>(letter - 'A' + 'a');
  return result;
}

}  // namespace

bj::value openapi_document() {
  json::Components components;
  bj::object paths;
  for (const auto& route : routes()) {
    auto& path = paths[route.pattern];
    if (!path.is_object()) path.emplace_object();
    path.as_object().emplace(lower(route.method), describe(route, components));
  }

  bj::object info;
  info.emplace("title", "dgxmm");
  info.emplace("version", dto::Version{}.api);
  info.emplace("description",
               "Will one more language model fit into the memory that CPU and GPU share? Sizes are whole bytes in "
               "members named …_bytes; what is not known is null, never 0.");
  info.emplace("license", holding("name", "Apache-2.0"));

  bj::object schemas;
  for (const auto& [name, schema] : components.schemas()) schemas.emplace(name, schema);
  bj::object token;
  token.emplace("type", "http");
  token.emplace("scheme", "bearer");
  token.emplace("description", "Wanted when the setting `token` is set");
  auto all_components = holding("schemas", std::move(schemas));
  all_components.emplace("securitySchemes", holding("token", std::move(token)));

  bj::object document;
  document.emplace("openapi", "3.1.0");
  document.emplace("info", std::move(info));
  bj::array security;
  security.emplace_back(bj::object{});  // without a token, when none is set
  security.emplace_back(holding("token", bj::array{}));
  document.emplace("security", std::move(security));
  document.emplace("paths", std::move(paths));
  document.emplace("components", std::move(all_components));
  return document;
}

}  // namespace dgxmm::api
