#pragma once
#include "base/result.h"
#include "ports/event_loop.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::ports {

/// Where to connect: a Unix socket when `unix_socket` is set, else TCP.
struct HttpTarget {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::string unix_socket;
};

struct HttpCall {
  HttpTarget target;
  std::string method = "GET";
  std::string path;  ///< with the query, already encoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::chrono::milliseconds deadline{5000};  ///< for the whole call; for `stream`, until the head has arrived
  std::size_t body_limit = 16 * 1024 * 1024;
};

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

/// Errors: `connection_refused`, `connection_failed`, `deadline_exceeded`, `bad_response`, `cancelled`.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual Task<Result<HttpReply>> call(HttpCall request) = 0;
  /// Hands over each piece of the body as it arrives; stops when `on_piece` returns false or the server closes.
  virtual Task<Result<HttpReply>> stream(HttpCall request, std::function<bool(std::string_view)> on_piece) = 0;
};

}  // namespace dgxmm::ports
