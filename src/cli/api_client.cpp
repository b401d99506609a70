#include "cli/api_client.h"

#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_client.h"
#include "cli/format.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

namespace dgxmm::cli {
namespace {

using namespace std::chrono_literals;
using OnPiece = std::function<bool(std::string_view)>;

constexpr auto kReadDeadline = 30s;
// A stop waits for the engine's grace time and for its memory; the daemon has deadlines of its own.
constexpr auto kActionDeadline = 15min;

/// As the daemon's own titles begin.
std::string title_of(std::string_view code) {
  if (code == "usage") return "Wrong usage";
  auto title = words(code);
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

/// Nobody can connect to "every address".
std::string connectable(const std::string& host) {
  if (host == "0.0.0.0" || host == "*") return "127.0.0.1";
  if (host == "::") return "::1";
  return host;
}

ports::Task<> exchange(net::AsioEventLoop* loop, ports::HttpCall request, OnPiece on_piece,
                       Result<ports::HttpReply>* result) {
  // An exception that left this task would leave the loop running for ever.
  try {
    net::AsioHttpClient client{*loop};
    if (on_piece) {
      *result = co_await client.stream(std::move(request), std::move(on_piece));
    } else {
      *result = co_await client.call(std::move(request));
    }
  } catch (const std::exception& error) {
    *result = fail("connection_failed", error.what());
  }
  loop->stop();
}

/// A loop of its own for each call: commands are plain functions, and a call is all that they wait for.
Result<ports::HttpReply> exchange(ports::HttpCall request, OnPiece on_piece) {
  Result<ports::HttpReply> result = fail("cancelled", "cancelled");
  net::AsioEventLoop loop;
  loop.spawn("request to the daemon", exchange(&loop, std::move(request), std::move(on_piece), &result));
  loop.run();
  return result;
}

}  // namespace

dto::Problem problem_of(const Error& error) {
  dto::Problem problem;
  problem.title = title_of(error.code);
  problem.detail = error.message;
  problem.code = error.code;
  problem.hint = error.hint;
  problem.where = error.where;
  return problem;
}

ApiClient::ApiClient(settings::ListenAddress address, std::string token)
    : address_(std::move(address)),
      token_(std::move(token)) {
  address_.host = connectable(address_.host);
  const bool ipv6 = address_.host.find(':') != std::string::npos;
  shown_address_ =
      ipv6 ? fmt::format("[{}]:{}", address_.host, address_.port) : fmt::format("{}:{}", address_.host, address_.port);
}

Answer<std::string> ApiClient::call(std::string method, const std::string& path, std::string body) const {
  return send(std::move(method), path, std::move(body), {});
}

Answer<void> ApiClient::stream(const std::string& path, OnPiece on_piece) const {
  const auto end = send("GET", path, {}, std::move(on_piece));
  if (!end) return refuse(end.error());
  return {};
}

ports::HttpCall ApiClient::request(std::string method, const std::string& path, std::string body) const {
  ports::HttpCall request;
  request.target = {.host = address_.host, .port = address_.port, .unix_socket = {}};
  request.deadline = method == "GET" ? kReadDeadline : kActionDeadline;
  request.method = std::move(method);
  request.path = "/api/v1" + path;
  if (!token_.empty()) request.headers.emplace_back("Authorization", "Bearer " + token_);
  if (!body.empty()) request.headers.emplace_back("Content-Type", "application/json");
  request.body = std::move(body);
  return request;
}

Answer<std::string> ApiClient::body_of(Result<ports::HttpReply> reply) const {
  if (!reply) return refuse(unreachable(reply.error()));
  if (reply->status / 100 == 2) return std::move(reply->body);
  auto problem = from_json<dto::Problem>(reply->body);
  if (problem) return refuse(std::move(*problem));
  return refuse(unreadable({"bad_response", fmt::format("status {}", reply->status), {}, {}}));
}

Answer<std::string> ApiClient::send(std::string method, const std::string& path, std::string body,
                                    OnPiece on_piece) const {
  return body_of(exchange(request(std::move(method), path, std::move(body)), std::move(on_piece)));
}

dto::Problem ApiClient::unreachable(const Error& error) const {
  if (error.code == "connection_refused") {
    return problem_of({std::string{kNoDaemon}, fmt::format("no daemon at {}", shown_address_),
                       "start one with `dgxmm serve`", shown_address_});
  }
  if (error.code == "bad_response") return unreadable(error);
  return problem_of(
      {error.code, fmt::format("the daemon at {}: {}", shown_address_, error.message), error.hint, shown_address_});
}

dto::Problem ApiClient::unreadable(const Error& error) const {
  return problem_of({"bad_response",
                     fmt::format("what {} answered is not from dgxmm: {}", shown_address_, error.message),
                     "is another program listening there? `--address` chooses the daemon", shown_address_});
}

}  // namespace dgxmm::cli
