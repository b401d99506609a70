#include "app/api/api.h"

#include "app/api/guard.h"
#include "app/api/handlers.h"
#include "app/api/respond.h"
#include "app/api/routes.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

namespace dgxmm::api {
namespace {

using ports::HttpRequest;
using ports::HttpResponse;

constexpr std::size_t kBodyLimit = std::size_t{64} * 1024;

class Api final : public ports::HttpHandler {
 public:
  Api(service::Service& service, BuildInfo build, std::span<const PageFile> page)
      : settings_(service.settings),
        handlers_(service, std::move(build)),
        page_(page) {}

  ports::Task<HttpResponse> handle(HttpRequest request) override {
    auto response = co_await answer(std::move(request));
    protect(response);
    co_return response;
  }

  [[nodiscard]] std::size_t body_limit(const std::string& method, const std::string& path) const override {
    static_cast<void>(method);
    static_cast<void>(path);
    return kBodyLimit;
  }

 private:
  ports::Task<HttpResponse> answer(HttpRequest request) {
    const bool is_page = page_.has(request.path);
    const bool needs_token = !is_page && request.path != "/healthz";  // the page asks its user for the token
    if (const auto denied = check_access(request, settings_, needs_token)) co_return problem(*denied);
    if (is_page) co_return page_.answer(request);
    const auto method = request.method;  // a HEAD comes as a GET, and the server leaves the body out
    std::string allowed;
    for (const auto& route : routes()) {
      auto parameters = match(route.pattern, request.path);
      if (!parameters) continue;
      allowed += (allowed.empty() ? "" : ", ") + std::string{route.method};
      if (route.method != method) continue;
      Call call{std::move(request), std::move(*parameters)};
      auto response = co_await (handlers_.*route.handler)(std::move(call));
      co_return response;
    }
    if (!allowed.empty()) {
      auto response =
          problem(Error{"method_not_allowed", fmt::format("{} cannot be done here", method), {}, request.path});
      response.headers.emplace_back("Allow", allowed);
      co_return response;
    }
    co_return problem(Error{"not_found", fmt::format("there is no {}", request.path), "docs/api.md lists what there is",
                            request.path});
  }

  const settings::Settings& settings_;
  Handlers handlers_;
  Page page_;
};

}  // namespace

std::unique_ptr<ports::HttpHandler> make_api(service::Service& service, BuildInfo build,
                                             std::span<const PageFile> page) {
  return std::make_unique<Api>(service, std::move(build), page);
}

}  // namespace dgxmm::api
