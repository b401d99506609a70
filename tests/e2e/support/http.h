#pragma once
#include "e2e/support/environment.h"

#include <boost/json.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::e2e {

/// Headers by name; those that a client usually sends are added unless they are given.
using Headers = std::map<std::string, std::string>;

struct HttpAnswer {
  int status = 0;
  Headers headers;  ///< names in lower case
  std::string body;

  /// The body. Throws when it is not JSON.
  [[nodiscard]] boost::json::value json() const;
};

/// A connection to a server on this machine: plain blocking sockets, and nothing of dgxmm's own HTTP, so that it can
/// send what no well-behaved client would. HTTP/1.0, as then a body ends where the connection does.
class HttpConnection {
 public:
  explicit HttpConnection(std::uint16_t port);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  ~HttpConnection();

  void send(const std::string& method, const std::string& path, const std::string& body, const Headers& headers) const;
  /// What has come after `limit` at most; empty at the end. Throws when nothing came.
  [[nodiscard]] std::string receive(std::chrono::milliseconds limit = kPatience) const;

 private:
  std::uint16_t port_;
  int socket_ = -1;
};

/// One call. Throws std::runtime_error when there is no answer.
HttpAnswer http(std::uint16_t port, const std::string& method, const std::string& path, const std::string& body = {},
                const Headers& headers = {});

/// An event as a browser would see it.
struct SseMessage {
  std::optional<std::int64_t> id;
  std::string type;
  std::string data;
};

/// A connection to /api/v1/events.
class EventListener {
 public:
  EventListener(std::uint16_t port, std::optional<std::int64_t> last_event_id);
  /// Throws when none comes.
  SseMessage next();

 private:
  HttpConnection connection_;
  std::string unread_;
};

/// A TCP port that somebody else has.
class TakenPort {
 public:
  TakenPort();
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  ~TakenPort();
  [[nodiscard]] std::uint16_t number() const { return number_; }

 private:
  int socket_ = -1;
  std::uint16_t number_ = 0;
};

}  // namespace dgxmm::e2e
