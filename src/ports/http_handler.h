#pragma once
#include "ports/event_loop.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::ports {

/// A request as the server hands it over: complete, its head frozen, its body within the limit of its route.
struct HttpRequest {
  std::string method;
  std::string path;                            ///< percent-decoded, without the query
  std::map<std::string, std::string> query;    ///< percent-decoded
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

/// A body that is produced piece by piece; destroyed when the client has gone.
class BodyStream {
 public:
  virtual ~BodyStream() = default;
  /// The next piece, or nothing at the end. May wait as long as it likes; an empty piece is not sent.
  virtual Task<std::optional<std::string>> next() = 0;
};

struct HttpResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::unique_ptr<BodyStream> stream;  ///< when set, sent chunked instead of `body`
};

/// What every answer of dgxmm's own tells a browser: it is what it says it is, loads nothing, is shown in nobody's
/// frame, and is for no other site. A page replaces the Content-Security-Policy by its own.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kProtectiveHeaders{
    {{"X-Content-Type-Options", "nosniff"},
     {"Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
     {"Referrer-Policy", "no-referrer"},
     {"Cross-Origin-Resource-Policy", "same-origin"},
     {"Cross-Origin-Opener-Policy", "same-origin"}}};

/// What the server calls for each request. Must not throw for bad input; an exception becomes a 500.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual Task<HttpResponse> handle(HttpRequest request) = 0;
  /// Largest body accepted for a request, asked when its head is complete.
  [[nodiscard]] virtual std::size_t body_limit(const std::string& method, const std::string& path) const = 0;
};

}  // namespace dgxmm::ports
