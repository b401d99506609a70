#include "app/api/respond.h"

#include "app/dto/dto_json.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace dgxmm::api {
namespace {

std::string title_of(int status) {
  switch (status) {
    case 400: return "Bad request";
    case 401: return "Not authorized";
    case 403: return "Forbidden";
    case 404: return "Not found";
    case 405: return "Method not allowed";
    case 409: return "Conflict";
    case 415: return "Unsupported media type";
    case 422: return "Cannot be used";
    case 501: return "Not supported yet";
    case 503: return "Not available";
    default: return "Internal error";
  }
}

}  // namespace

ports::HttpResponse json_response(int status, std::string body) {
  return text_response(status, std::move(body), "application/json");
}

ports::HttpResponse text_response(int status, std::string body, std::string content_type) {
  ports::HttpResponse response;
  response.status = status;
  response.headers.emplace_back("Content-Type", std::move(content_type));
  response.headers.emplace_back("Cache-Control", "no-store");
  response.body = std::move(body);
  return response;
}

void protect(ports::HttpResponse& response) {
  for (const auto& [name, value] : ports::kProtectiveHeaders) {
    const auto has_name = [&](const auto& header) { return header.first == name; };
    if (std::ranges::none_of(response.headers, has_name)) response.headers.emplace_back(name, value);
  }
}

int status_of(const std::string& code) {
  static const std::map<std::string_view, int> kStatus{
      {"bad_json", 400},
      {"bad_field", 400},
      {"not_supported", 400},
      {"missing_field", 400},
      {"unknown_field", 400},
      {"unauthorized", 401},
      {"bad_host", 403},
      {"bad_origin", 403},
      {"not_found", 404},
      {"deployment_not_found", 404},
      {"plan_not_found", 404},
      {"plan_ambiguous", 409},
      {"plan_unsafe", 409},
      {"orphan_not_found", 404},
      {"operation_not_found", 404},
      {"queue_entry_not_found", 404},
      {"calibration_not_found", 404},
      {"oom_floor_kept", 409},
      {"model_not_found", 404},
      {"method_not_allowed", 405},
      {"does_not_fit", 409},
      {"plan_changed", 409},
      {"name_taken", 409},
      {"port_taken", 409},
      {"model_ambiguous", 409},
      {"already_running", 409},
      {"still_running", 409},
      {"memory_not_released", 409},
      {"cannot_sleep", 409},
      {"not_ready", 409},
      {"not_sleeping", 409},
      {"busy", 409},
      {"sleep_failed", 409},
      {"cancelled", 409},
      {"operation_ended", 409},
      {"unsupported_media_type", 415},
      {"bad_model_file", 422},
      {"model_incomplete", 422},
      {"model_not_supported", 422},
      {"bad_configuration", 422},
      {"engine_not_supported_yet", 501},
      {"host_not_supported", 501},
      {"gpu_failed", 503},
      {"host_class_unknown", 503},
      {"gpu_driver_updated", 503},
      {"catalog_not_ready", 503},
      {"meminfo_unusable", 503},
      {"queue_timeout", 503},
      {"shutting_down", 503},
  };
  const auto found = kStatus.find(code);
  return found == kStatus.end() ? 500 : found->second;
}

ports::HttpResponse problem(const Error& error) {
  dto::Problem document;
  document.status = status_of(error.code);
  document.detail = error.message;
  document.code = error.code;
  document.hint = error.hint;
  document.where = error.where;
  return problem(std::move(document));
}

ports::HttpResponse problem(dto::Problem document) {
  const auto status = static_cast<int>(document.status.value_or(500));
  if (document.title.empty()) document.title = title_of(status);
  auto response = text_response(status, json::encode(document), "application/problem+json");
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace dgxmm::api
