#pragma once
#include "app/dto/dto.h"
#include "base/result.h"
#include "ports/http_handler.h"

#include <string>

// Answers: documents and problems.
namespace dgxmm::api {

ports::HttpResponse json_response(int status, std::string body);
ports::HttpResponse text_response(int status, std::string body, std::string content_type = "text/plain; charset=utf-8");

/// Adds those of ports::kProtectiveHeaders that it does not have.
void protect(ports::HttpResponse& response);

/// The HTTP status of an error code; 500 for a code that nobody listed.
int status_of(const std::string& code);

/// application/problem+json, status by the error's code.
ports::HttpResponse problem(const Error& error);
ports::HttpResponse problem(dto::Problem document);

}  // namespace dgxmm::api
