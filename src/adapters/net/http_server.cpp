#include "adapters/net/http_server.h"

#include "adapters/net/http_message.h"
#include "adapters/net/http_text.h"
#include "adapters/net/listener.h"
#include "adapters/net/stream.h"
#include "base/log.h"

#include <boost/asio/buffer.hpp>
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace dgxmm::net {

using ports::Task;
using std::chrono::steady_clock;

namespace {

using Step = MessageReader::Step;

ports::HttpResponse problem(const Error& error) {
  const auto status = status_of(error.code);
  ports::HttpResponse response;
  response.status = status;
  response.headers.emplace_back("Content-Type", "application/problem+json");
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.insert(response.headers.end(), ports::kProtectiveHeaders.begin(), ports::kProtectiveHeaders.end());
  response.body = problem_document(status, error.code, error.message);
  return response;
}

/// Decodes a head into what the handler gets.
Result<ports::HttpRequest> request_of(const MessageHead& head) {
  auto target = parse_target(head.target);
  if (!target) return fail(target.error());
  ports::HttpRequest request;
  request.method = head.method == "HEAD" ? "GET" : head.method;
  request.path = std::move(target->path);
  request.query = std::move(target->query);
  for (const auto& [name, value] : head.headers) {
    const auto [place, is_new] = request.headers.emplace(name, value);
    if (!is_new) place->second += ", " + value;
  }
  return request;
}

}  // namespace

struct HttpServer::Shared : std::enable_shared_from_this<Shared> {
  Shared(AsioEventLoop& event_loop, ports::HttpHandler& request_handler, HttpServerLimits server_limits)
      : loop(event_loop),
        handler(request_handler),
        limits(server_limits),
        listener(loop, [this](Socket socket) { welcome(std::move(socket)); }, limits.accept_backoff) {}

  void stop();
  void welcome(Socket socket);

  AsioEventLoop& loop;
  ports::HttpHandler& handler;
  HttpServerLimits limits;
  bool stopping = false;
  bool full = false;
  std::unordered_set<Connection*> connections;
  Listener listener;
};

/// One client. Its task holds it, and so does the task that watches for its leaving.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> server, Socket socket)
      : server_(std::move(server)),
        stream_(std::make_shared<Stream>(std::move(socket))),
        reader_(MessageReader::Role::request) {
    server_->connections.insert(this);
  }
  ~Connection() { server_->connections.erase(this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static void start(const std::shared_ptr<Connection>& self) {
    self->task_ = self->server_->loop.spawn_cancellable("http connection", serve(self));
  }

  void stop() {
    if (phase_ == Phase::reading) stream_->abort();
    if (phase_ == Phase::streaming) task_.cancel();
  }

 private:
  enum class Phase { reading, answering, streaming, over };

  static Task<> serve(std::shared_ptr<Connection> self);
  static Task<> watch(std::shared_ptr<Connection> self);

  Task<bool> serve_one();
  Task<Result<std::optional<ports::HttpRequest>>> read_request();
  Task<Result<void>> accept_body(std::size_t limit);
  Task<ports::HttpResponse> answer(ports::HttpRequest request);
  Task<bool> send(ports::HttpResponse response, bool keep_alive);
  Task<> send_stream(std::unique_ptr<ports::BodyStream> body, Framing framing);
  Task<> linger();
  [[nodiscard]] Deadline write_deadline() const { return steady_clock::now() + server_->limits.write; }

  std::shared_ptr<Shared> server_;
  std::shared_ptr<Stream> stream_;
  MessageReader reader_;
  TaskHandle task_;
  Phase phase_ = Phase::reading;
};

Task<> HttpServer::Connection::serve(std::shared_ptr<Connection> self) {
  bool open = true;
  while (open && !self->server_->stopping) open = co_await self->serve_one();
  self->phase_ = Phase::over;
  self->stream_->close();
}

/// One request and its answer; false: the connection is to be closed.
Task<bool> HttpServer::Connection::serve_one() {
  phase_ = Phase::reading;
  auto request = co_await read_request();
  phase_ = Phase::answering;
  if (!request) {
    // What follows a request that could not be read cannot be told from its rest.
    co_await send(problem(request.error()), false);
    co_await linger();
    co_return false;
  }
  if (!*request) co_return false;
  auto response = co_await answer(std::move(**request));
  const bool sent = co_await send(std::move(response), reader_.head().keep_alive && !server_->stopping);
  co_return sent;
}

/// An error is for the client; nothing: there is nobody to answer.
Task<Result<std::optional<ports::HttpRequest>>> HttpServer::Connection::read_request() {
  const std::optional<ports::HttpRequest> nobody;
  const auto idle_deadline = steady_clock::now() + server_->limits.idle;
  std::optional<Deadline> request_deadline;
  std::size_t limit = 0;
  ports::HttpRequest request;
  for (;;) {
    const auto step = reader_.next();
    if (!step) co_return fail(step.error());
    switch (*step) {
      case Step::need_more: {
        const auto idle = !request_deadline && reader_.between_messages();
        if (!idle && !request_deadline) request_deadline = steady_clock::now() + server_->limits.request;
        const auto count = co_await stream_->read(&reader_, idle ? idle_deadline : *request_deadline);
        if (!count && !idle && count.error().code == "deadline_exceeded") {
          co_return fail("request_timeout", "the request did not arrive completely in time");
        }
        if (!count || *count == 0) co_return nobody;
        break;
      }
      case Step::head: {
        auto decoded = request_of(reader_.head());
        if (!decoded) co_return fail(decoded.error());
        request = std::move(*decoded);
        limit = server_->handler.body_limit(request.method, request.path);
        const auto accepted = co_await accept_body(limit);
        if (!accepted) co_return fail(accepted.error());
        break;
      }
      case Step::body:
        if (reader_.piece().size() > limit - request.body.size()) {
          co_return fail("body_too_large", fmt::format("the body of this request may have {} bytes", limit));
        }
        request.body += reader_.piece();
        break;
      case Step::end: {
        std::optional<ports::HttpRequest> complete{std::move(request)};
        co_return complete;
      }
    }
  }
}

/// Decides on the head alone whether the body is wanted, and says so to a client that asks first.
Task<Result<void>> HttpServer::Connection::accept_body(std::size_t limit) {
  const auto& head = reader_.head();
  if (head.content_length && *head.content_length > limit) {
    co_return fail("body_too_large", fmt::format("the body of this request may have {} bytes", limit));
  }
  const auto expect = head.header("expect");
  if (!expect || head.http_1_0) co_return Result<void>{};
  if (to_lower(*expect) != "100-continue") {
    co_return fail("expectation_failed", "only the expectation 100-continue is supported");
  }
  const auto body_follows = head.chunked || head.content_length.value_or(0) > 0;
  if (body_follows && !reader_.has_unread()) {
    // Not sent: the next read tells.
    co_await stream_->write("HTTP/1.1 100 Continue\r\n\r\n", write_deadline());
  }
  co_return Result<void>{};
}

Task<ports::HttpResponse> HttpServer::Connection::answer(ports::HttpRequest request) {
  std::string failure;
  try {
    auto response = co_await server_->handler.handle(std::move(request));
    co_return response;
  } catch (const std::exception& error) {
    failure = error.what();
  }
  log::error("request {} {}: {}", reader_.head().method, reader_.head().target, failure);
  const Error error{"internal_error", "the request failed unexpectedly; the log of the daemon says why", {}, {}};
  co_return problem(error);
}

/// True: the connection can take another request.
Task<bool> HttpServer::Connection::send(ports::HttpResponse response, bool keep_alive) {
  const auto& request = reader_.head();
  const auto is_head = request.method == "HEAD";
  if (response.stream) {
    keep_alive = false;
    const auto framing = request.http_1_0 ? Framing::until_close : Framing::chunked;
    const auto head = response_head(response.status, response.headers, framing, 0, keep_alive);
    const auto sent = co_await stream_->write(head, write_deadline());
    if (sent && !is_head) co_await send_stream(std::move(response.stream), framing);
    co_return false;
  }
  const auto framing = has_no_body(response.status) ? Framing::none : Framing::length;
  auto text = response_head(response.status, response.headers, framing, response.body.size(), keep_alive);
  if (framing == Framing::length && !is_head) text += response.body;
  const auto sent = co_await stream_->write(text, write_deadline());
  co_return sent&& keep_alive;
}

Task<> HttpServer::Connection::send_stream(std::unique_ptr<ports::BodyStream> body, Framing framing) {
  phase_ = Phase::streaming;
  server_->loop.spawn("http connection, watching for its end", watch(shared_from_this()));
  try {
    for (;;) {
      const auto piece = co_await body->next();
      if (!piece) break;
      if (piece->empty()) continue;
      const auto text = framing == Framing::chunked ? chunk(*piece) : *piece;
      const auto sent = co_await stream_->write(text, write_deadline());
      if (!sent) co_return;
    }
    if (framing == Framing::chunked) {
      const auto sent = co_await stream_->write(kLastChunk, write_deadline());
      if (!sent) co_return;
    }
    phase_ = Phase::over;
    stream_->end_writing();
  } catch (const std::exception& error) {
    // After a cancel this is how next() ends. Otherwise the missing last chunk tells the client.
    if (phase_ == Phase::streaming && !server_->stopping) log::error("body stream: {}", error.what());
  }
}

/// Ends the connection's task when its client leaves while next() waits.
Task<> HttpServer::Connection::watch(std::shared_ptr<Connection> self) {
  for (;;) {
    const auto count = co_await self->stream_->discard(std::nullopt);
    if (!count || *count == 0) break;
  }
  if (self->phase_ != Phase::streaming) co_return;
  self->phase_ = Phase::over;
  self->task_.cancel();
}

/// Closing with bytes unread would reset the connection, and the client might lose the answer.
Task<> HttpServer::Connection::linger() {
  stream_->end_writing();
  const auto deadline = steady_clock::now() + server_->limits.linger;
  for (;;) {
    const auto count = co_await stream_->discard(deadline);
    if (!count || *count == 0) co_return;
  }
}

void HttpServer::Shared::stop() {
  if (std::exchange(stopping, true)) return;
  listener.stop();
  for (auto* connection : connections) connection->stop();
}

void HttpServer::Shared::welcome(Socket socket) {
  if (connections.size() < limits.connections) {
    full = false;
    Connection::start(std::make_shared<Connection>(shared_from_this(), std::move(socket)));
    return;
  }
  if (!std::exchange(full, true)) log::warning("{} connections: further ones are refused", connections.size());
  const auto text = problem_answer({"too_many_connections", "too many clients are connected", {}, {}});
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(boost::asio::buffer(text), ignored);
}

HttpServer::HttpServer(AsioEventLoop& loop, ports::HttpHandler& handler, HttpServerLimits limits)
    : shared_(std::make_shared<Shared>(loop, handler, limits)),
      stop_hook_(loop.on_stop([shared = shared_.get()] { shared->stop(); })) {}

HttpServer::~HttpServer() { shared_->stop(); }

Result<std::uint16_t> HttpServer::listen_tcp(const std::string& address, std::uint16_t port) {
  return shared_->listener.listen_tcp(address, port);
}

Result<void> HttpServer::listen_unix(const std::string& path) { return shared_->listener.listen_unix(path); }

void HttpServer::stop() { shared_->stop(); }

std::size_t HttpServer::connections() const { return shared_->connections.size(); }

}  // namespace dgxmm::net
