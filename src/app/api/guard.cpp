#include "app/api/guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace dgxmm::api {
namespace {

std::string_view header(const ports::HttpRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string_view{} : std::string_view{found->second};
}

bool is_port(std::string_view text) {
  return text.starts_with(':') && std::ranges::all_of(text.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

/// "localhost:8484" -> "localhost", "[::1]:8484" -> "::1"; nothing when it is not a host with or without a port.
std::string_view host_name(std::string_view host) {
  const bool bracketed = host.starts_with('[');
  const auto end = bracketed ? host.find(']') : host.find(':');
  if (bracketed && end == std::string_view::npos) return {};
  const auto rest = bracketed ? host.substr(end + 1) : host.substr(std::min(end, host.size()));
  if (!rest.empty() && !is_port(rest)) return {};
  return bracketed ? host.substr(1, end - 1) : host.substr(0, end);
}

bool is_loopback_name(std::string_view name) {
  if (name == "localhost" || name == "::1") return true;
  // An address, not a name that begins like one: 127.0.0.1.evil.example is somebody else's.
  return name.starts_with("127.") &&
         std::ranges::all_of(name, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

/// Takes as long for a wrong token as for the right one.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? '\0' : b[i % b.size()]);
  }
  return difference == 0;
}

/// "Application/JSON ; charset=utf-8" is JSON.
bool is_json(std::string_view content_type) {
  auto type = std::string{content_type.substr(0, content_type.find(';'))};
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  std::ranges::transform(type, type.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return type == "application/json";
}

bool has_body_method(std::string_view method) { return method == "POST" || method == "PUT" || method == "PATCH"; }

}  // namespace

std::optional<Error> check_access(const ports::HttpRequest& request, const settings::Settings& settings,
                                  bool needs_token) {
  const auto host = header(request, "host");
  // With a token, a rebound name gains nothing: the page does not have it.
  if (settings.token.empty() && !is_loopback_name(host_name(host))) {
    return Error{"bad_host", fmt::format("this is not '{}'", host), "use 127.0.0.1 or localhost", "Host"};
  }
  if (const auto origin = header(request, "origin"); !origin.empty()) {
    if (origin != fmt::format("http://{}", host) && origin != fmt::format("https://{}", host)) {
      return Error{"bad_origin", fmt::format("pages of {} may not use this API", origin), {}, "Origin"};
    }
  }
  if (!settings.token.empty() && needs_token) {
    constexpr std::string_view kScheme = "Bearer ";
    const auto authorization = header(request, "authorization");
    if (!authorization.starts_with(kScheme) ||
        !equal_in_constant_time(authorization.substr(kScheme.size()), settings.token)) {
      return Error{"unauthorized", "this API needs its token",
                   "send it as 'Authorization: Bearer …', or use `dgxmm --token`", "Authorization"};
    }
  }
  if (has_body_method(request.method) && !request.body.empty()) {
    if (!is_json(header(request, "content-type"))) {
      return Error{"unsupported_media_type", "the body must be JSON", "send 'Content-Type: application/json'",
                   "Content-Type"};
    }
  }
  return std::nullopt;
}

}  // namespace dgxmm::api
