#pragma once
#include "app/dto/dto.h"
#include "cli/documents.h"
#include "core/settings/settings.h"
#include "ports/http_client.h"

#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace dgxmm::cli {

/// What the daemon answered: a document, or its problem. What goes wrong on the way is a problem too, without a status.
template <class T>
using Answer = std::expected<T, dto::Problem>;

dto::Problem problem_of(const Error& error);
inline std::unexpected<dto::Problem> refuse(dto::Problem problem) { return std::unexpected(std::move(problem)); }
inline std::unexpected<dto::Problem> refuse(const Error& error) { return refuse(problem_of(error)); }

/// Code of the problem when nobody listens at the daemon's address.
inline constexpr std::string_view kNoDaemon = "no_daemon";

/// The daemon's API. Each call blocks until it is answered.
class ApiClient {
 public:
  ApiClient(settings::ListenAddress address, std::string token);

  /// "127.0.0.1:8484"
  [[nodiscard]] const std::string& address() const { return shown_address_; }
  /// The daemon is on this machine, so what it would say can be read here as well.
  [[nodiscard]] bool is_local() const { return address_.loopback(); }

  /// Paths are given without "/api/v1".
  template <class T>
  [[nodiscard]] Answer<T> get(const std::string& path) const {
    return read<T>(call("GET", path, {}));
  }
  template <class T>
  [[nodiscard]] Answer<T> post(const std::string& path, std::string body = {}) const {
    return read<T>(call("POST", path, std::move(body)));
  }
  [[nodiscard]] Answer<std::string> get_text(const std::string& path) const { return call("GET", path, {}); }
  [[nodiscard]] Answer<std::string> post_text(const std::string& path, std::string body) const {
    return call("POST", path, std::move(body));
  }
  [[nodiscard]] Answer<std::string> remove(const std::string& path) const { return call("DELETE", path, {}); }
  template <class T>
  [[nodiscard]] Answer<T> remove(const std::string& path) const {
    return read<T>(call("DELETE", path, {}));
  }

  /// The parts of a call for who makes it on a loop of his own: what to send, and what the reply means.
  [[nodiscard]] ports::HttpCall request(std::string method, const std::string& path, std::string body = {}) const;
  template <class T>
  [[nodiscard]] Answer<T> understand(Result<ports::HttpReply> reply) const {
    return read<T>(body_of(std::move(reply)));
  }
  [[nodiscard]] Answer<std::string> body_of(Result<ports::HttpReply> reply) const;

  /// Hands over a body as it arrives, until `on_piece` returns false or the daemon ends it.
  [[nodiscard]] Answer<void> stream(const std::string& path, std::function<bool(std::string_view)> on_piece) const;

 private:
  [[nodiscard]] Answer<std::string> call(std::string method, const std::string& path, std::string body) const;
  [[nodiscard]] Answer<std::string> send(std::string method, const std::string& path, std::string body,
                                         std::function<bool(std::string_view)> on_piece) const;
  [[nodiscard]] dto::Problem unreachable(const Error& error) const;
  [[nodiscard]] dto::Problem unreadable(const Error& error) const;

  template <class T>
  [[nodiscard]] Answer<T> read(const Answer<std::string>& body) const {
    if (!body) return refuse(body.error());
    auto document = from_json<T>(*body);
    if (!document) return refuse(unreadable(document.error()));
    return std::move(*document);
  }

  settings::ListenAddress address_;
  std::string shown_address_;
  std::string token_;
};

}  // namespace dgxmm::cli
