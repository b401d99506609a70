#include "adapters/net/http_relay.h"

#include "adapters/net/http_text.h"
#include "adapters/net/listener.h"
#include "adapters/net/stream.h"
#include "base/log.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace dgxmm::net {

using ports::Task;
using std::chrono::steady_clock;

namespace {

using Step = MessageReader::Step;

std::unexpected<Error> unreachable(std::string what) { return fail("engine_unreachable", std::move(what)); }

/// What the head of the request that is passed on says.
Result<std::string> head_behind(const MessageHead& request) {
  const auto length = request.content_length;
  const auto framing = request.chunked ? Framing::chunked : length ? Framing::length : Framing::none;
  const auto host = std::string{request.header("host").value_or("")};
  return request_head(request.method, request.target, host, end_to_end(request.headers), framing, length.value_or(0));
}

}  // namespace

struct HttpRelay::Shared : std::enable_shared_from_this<Shared> {
  Shared(AsioEventLoop& event_loop, std::string path, Check may_pass, HttpRelayLimits relay_limits)
      : loop(event_loop),
        socket_path(std::move(path)),
        check(std::move(may_pass)),
        limits(relay_limits),
        listener(loop, [this](Socket socket) { welcome(std::move(socket)); }, limits.accept_backoff) {}

  void welcome(Socket socket);
  void stop();
  [[nodiscard]] Endpoint behind() const { return boost::asio::local::stream_protocol::endpoint(socket_path); }

  AsioEventLoop& loop;
  std::string socket_path;
  Check check;
  HttpRelayLimits limits;
  bool full = false;
  std::unordered_set<Connection*> connections;
  Listener listener;
};

/// One client and its request. Two tasks hold it: one passes the answer back, the other the body on, and notices when
/// the client leaves. Of each socket one reads and the other writes.
class HttpRelay::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> relay, Socket socket)
      : relay_(std::move(relay)),
        client_(std::make_shared<Stream>(std::move(socket))),
        server_(Stream::unconnected(relay_->loop.context())),
        reader_(MessageReader::Role::request) {
    relay_->connections.insert(this);
  }
  ~Connection() { relay_->connections.erase(this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  static Task<> serve(std::shared_ptr<Connection> self);

  /// Both tasks end.
  void abort() {
    client_->abort();
    server_->abort();
  }

 private:
  static Task<> pass_on_body(std::shared_ptr<Connection> self);

  /// The request cannot be passed on to its end.
  void end_with(Error error) {
    request_error_ = std::move(error);
    server_->abort();
  }

  Task<Result<bool>> read_head();
  Task<Result<void>> pass_on_head();
  Task<Result<void>> pass_back();
  Task<Result<bool>> pass_back_head(const MessageHead& answer);
  Task<bool> pass_back_piece(std::string_view piece);
  Task<> refuse(Error error);
  Task<> linger();
  [[nodiscard]] Deadline after(std::chrono::milliseconds limit) const { return steady_clock::now() + limit; }

  std::shared_ptr<Shared> relay_;
  std::shared_ptr<Stream> client_;
  std::shared_ptr<Stream> server_;
  MessageReader reader_;
  MessageHead request_;
  Framing framing_ = Framing::none;  // of the answer, towards the client
  bool answering_ = false;           // its head is with the client
  bool body_task_ = false;           // has begun
  bool body_taken_ = false;          // the request has arrived completely
  std::optional<Error> request_error_;
};

Task<> HttpRelay::Connection::serve(std::shared_ptr<Connection> self) {
  auto wanted = co_await self->read_head();
  Result<void> passed;
  if (!wanted) passed = fail(wanted.error());
  if (wanted && *wanted) passed = co_await self->pass_on_head();
  if (passed && wanted && *wanted) {
    self->body_task_ = true;
    self->relay_->loop.spawn("relayed request", pass_on_body(self));
    passed = co_await self->pass_back();
  }
  if (!passed && self->request_error_) passed = fail(*self->request_error_);
  if (!passed && !self->answering_) co_await self->refuse(std::move(passed.error()));
  if (!self->body_taken_) co_await self->linger();
  self->abort();  // the other task, if it still waits
  self->client_->close();
  self->server_->close();
}

/// False: there is nobody to answer.
Task<Result<bool>> HttpRelay::Connection::read_head() {
  const auto deadline = after(relay_->limits.head);
  for (;;) {
    const auto step = reader_.next();
    if (!step) co_return fail(step.error());
    if (*step == Step::head) break;
    const auto count = co_await client_->read(&reader_, deadline);
    if (!count && count.error().code == "deadline_exceeded" && !reader_.between_messages()) {
      co_return fail("request_timeout", "the head of the request did not arrive completely in time");
    }
    if (!count || *count == 0) {
      body_taken_ = true;
      co_return false;
    }
  }
  request_ = reader_.head();
  // A copy of the text that is sent on: whoever reads it behind reads the same.
  const auto allowed = relay_->check(request_);
  if (!allowed) co_return fail(allowed.error());
  if (const auto upgrade = request_.header("upgrade"); upgrade && to_lower(*upgrade) == "websocket") {
    co_return fail("upgrade_not_supported", "WebSockets are not passed on to this engine");
  }
  co_return true;
}

Task<Result<void>> HttpRelay::Connection::pass_on_head() {
  const auto head = head_behind(request_);
  if (!head) co_return fail(head.error());
  const auto endpoint = relay_->behind();
  const auto connected = co_await server_->connect(endpoint, after(relay_->limits.connect));
  if (!connected) co_return unreachable("the engine does not answer: it is loading, or has ended");
  const auto expect = request_.header("expect");
  const bool body_follows = request_.chunked || request_.content_length.value_or(0) > 0;
  if (expect && to_lower(*expect) == "100-continue" && !request_.http_1_0 && body_follows && !reader_.has_unread()) {
    // Not sent: the next read tells.
    co_await client_->write("HTTP/1.1 100 Continue\r\n\r\n", after(relay_->limits.stall));
  }
  const auto sent = co_await server_->write(*head, after(relay_->limits.stall));
  if (!sent) co_return unreachable("the engine does not take requests");
  co_return Result<void>{};
}

Task<> HttpRelay::Connection::pass_on_body(std::shared_ptr<Connection> self) {
  bool server_takes = true;
  while (!self->body_taken_) {
    const auto step = self->reader_.next();
    if (!step) co_return self->end_with(step.error());
    std::string text;
    switch (*step) {
      case Step::need_more: {
        const auto count = co_await self->client_->read(&self->reader_, self->after(self->relay_->limits.stall));
        if (!count && count.error().code == "deadline_exceeded") {
          co_return self->end_with({"request_timeout", "the body of the request has not got on for too long", {}, {}});
        }
        if (!count || *count == 0) co_return self->abort();
        break;
      }
      case Step::head: break;
      case Step::body:
        text = self->request_.chunked ? chunk(self->reader_.piece()) : std::string{self->reader_.piece()};
        break;
      case Step::end:
        self->body_taken_ = true;
        if (self->request_.chunked) text = kLastChunk;
        break;
    }
    if (text.empty() || !server_takes) continue;
    // A server may answer before it has read all of a body that it does not want.
    const auto sent = co_await self->server_->write(text, self->after(self->relay_->limits.stall));
    server_takes = sent.has_value();
  }
  // What follows the request is nobody's.
  for (;;) {
    const auto count = co_await self->client_->discard(std::nullopt);
    if (!count || *count == 0) co_return self->abort();
  }
}

/// An error is the client's answer as long as none has begun.
Task<Result<void>> HttpRelay::Connection::pass_back() {
  MessageReader reader(MessageReader::Role::response);
  const bool answers_head = request_.method == "HEAD";
  if (answers_head) reader.expect_no_body();
  bool interim = false;
  for (;;) {
    const auto step = reader.next();
    if (!step) co_return unreachable("the engine's answer cannot be read");
    switch (*step) {
      case Step::need_more: {
        const auto count = co_await server_->read(&reader, std::nullopt);
        if (count && *count > 0) break;
        const bool complete = count && answering_ && reader.finish().has_value();
        if (!complete) co_return unreachable("the engine ended, or closed the connection, before it had answered");
        if (framing_ == Framing::chunked) co_await client_->write(kLastChunk, after(relay_->limits.stall));
        co_return Result<void>{};
      }
      case Step::head: {
        auto sent = co_await pass_back_head(reader.head());
        if (!sent) co_return fail(sent.error());
        interim = !*sent;
        break;
      }
      case Step::body: {
        const auto taken = co_await pass_back_piece(reader.piece());
        if (!taken) co_return Result<void>{};
        break;
      }
      case Step::end:
        if (interim) {
          if (answers_head) reader.expect_no_body();
          break;
        }
        if (framing_ == Framing::chunked) co_await client_->write(kLastChunk, after(relay_->limits.stall));
        co_return Result<void>{};
    }
  }
}

/// False: it was an interim one, which is not passed on.
Task<Result<bool>> HttpRelay::Connection::pass_back_head(const MessageHead& answer) {
  if (answer.status == 101) co_return unreachable("the engine changed the protocol unasked");
  if (answer.status < 200) co_return false;
  const bool no_body = has_no_body(answer.status);
  framing_ = no_body                     ? Framing::none
             : answer.content_length     ? Framing::length
             : request_.http_1_0         ? Framing::until_close
             : request_.method == "HEAD" ? Framing::none
                                         : Framing::chunked;
  const auto text =
      response_head(answer.status, end_to_end(answer.headers), framing_, answer.content_length.value_or(0), false);
  answering_ = true;
  const auto sent = co_await client_->write(text, after(relay_->limits.stall));
  if (!sent) abort();
  co_return true;
}

Task<bool> HttpRelay::Connection::pass_back_piece(std::string_view piece) {
  const auto text = framing_ == Framing::chunked ? chunk(piece) : std::string{piece};
  const auto sent = co_await client_->write(text, after(relay_->limits.stall));
  co_return sent.has_value();
}

Task<> HttpRelay::Connection::refuse(Error error) {
  const auto text = problem_answer(error);
  co_await client_->write(text, after(relay_->limits.linger));
}

/// Closing with bytes unread would reset the connection, and the client might lose the answer.
Task<> HttpRelay::Connection::linger() {
  client_->end_writing();
  if (body_task_) {  // it takes what comes
    co_await relay_->loop.sleep_for(relay_->limits.linger);
    co_return;
  }
  const auto deadline = after(relay_->limits.linger);
  for (;;) {
    const auto count = co_await client_->discard(deadline);
    if (!count || *count == 0) co_return;
  }
}

void HttpRelay::Shared::welcome(Socket socket) {
  if (connections.size() < limits.connections) {
    full = false;
    loop.spawn("relayed connection",
               Connection::serve(std::make_shared<Connection>(shared_from_this(), std::move(socket))));
    return;
  }
  if (!std::exchange(full, true)) log::warning("{} connections: further ones are refused", connections.size());
  const auto text = problem_answer({"too_many_connections", "too many clients are connected", {}, {}});
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(boost::asio::buffer(text), ignored);
}

void HttpRelay::Shared::stop() {
  listener.stop();
  for (auto* connection : connections) connection->abort();
}

HttpRelay::HttpRelay(AsioEventLoop& loop, std::string socket_path, Check check, HttpRelayLimits limits)
    : shared_(std::make_shared<Shared>(loop, std::move(socket_path), std::move(check), limits)),
      stop_hook_(loop.on_stop([shared = shared_.get()] { shared->stop(); })) {}

HttpRelay::~HttpRelay() { shared_->stop(); }

Result<std::uint16_t> HttpRelay::listen_tcp(const std::string& address, std::uint16_t port) {
  return shared_->listener.listen_tcp(address, port);
}

Task<std::optional<bool>> HttpRelay::probe() {
  const auto stream = Stream::unconnected(shared_->loop.context());
  const auto endpoint = shared_->behind();
  const auto connected = co_await stream->connect(endpoint, steady_clock::now() + shared_->limits.connect);
  stream->close();
  std::optional<bool> there;
  if (connected) there = true;
  if (!connected && connected.error().code == "connection_refused") there = false;
  co_return there;
}

}  // namespace dgxmm::net
