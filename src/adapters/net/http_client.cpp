#include "adapters/net/http_client.h"

#include "adapters/net/http_message.h"
#include "adapters/net/http_text.h"
#include "adapters/net/stream.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <sys/un.h>
#include <utility>
#include <vector>

namespace dgxmm::net {

namespace asio = boost::asio;
using boost::system::error_code;
using ports::HttpCall;
using ports::HttpReply;
using ports::HttpTarget;
using ports::Task;
using std::chrono::steady_clock;

namespace {

using Step = MessageReader::Step;
using OnPiece = std::function<bool(std::string_view)>;

std::string shown(const HttpTarget& target) {
  if (!target.unix_socket.empty()) return target.unix_socket;
  // An IPv6 address needs brackets before a port.
  const auto* form = target.host.find(':') == std::string::npos ? "{}:{}" : "[{}]:{}";
  return fmt::format(fmt::runtime(form), target.host, target.port);
}

Result<std::vector<Endpoint>> look_up(const HttpTarget& target) {
  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  error_code error;
  const auto found = resolver.resolve(target.host, std::to_string(target.port), error);
  if (error) return fail("connection_failed", "cannot find the host " + target.host + ": " + error.message());
  std::vector<Endpoint> endpoints;
  for (const auto& entry : found) endpoints.emplace_back(entry.endpoint());
  return endpoints;
}

Task<Result<std::vector<Endpoint>>> endpoints_of(AsioEventLoop* loop, HttpTarget target) {
  std::vector<Endpoint> endpoints;
  if (!target.unix_socket.empty()) {
    if (target.unix_socket.size() >= sizeof(sockaddr_un::sun_path)) {
      co_return fail("connection_failed", "the path of the socket is too long", {}, target.unix_socket);
    }
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(target.unix_socket));
    co_return endpoints;
  }
  error_code not_numeric;
  const auto address = asio::ip::make_address(target.host, not_numeric);
  if (!not_numeric) {
    endpoints.emplace_back(asio::ip::tcp::endpoint(address, target.port));
    co_return endpoints;
  }
  Result<std::vector<Endpoint>> found;
  std::function<void()> work = [&found, &target] { found = look_up(target); };
  co_await loop->on_pool(std::move(work));
  co_return found;
}

/// One call on a connection of its own. Lives in the frame of the coroutine that runs it.
class Exchange {
 public:
  Exchange(AsioEventLoop* loop, HttpCall request, OnPiece on_piece)
      : loop_(loop),
        request_(std::move(request)),
        on_piece_(std::move(on_piece)),
        stream_(Stream::unconnected(loop->context())),
        stop_hook_(loop->on_stop([stream = stream_.get()] { stream->abort(); })),
        deadline_(steady_clock::now() + request_.deadline) {}

  Task<Result<HttpReply>> run() {
    auto reply = co_await try_run();
    stream_->close();
    if (reply) co_return reply;
    auto error = reply.error();
    error.where = shown(request_.target);
    co_return fail(std::move(error));
  }

 private:
  Task<Result<HttpReply>> try_run() {
    if (loop_->stopping()) co_return fail("cancelled", "cancelled");
    auto text = request_head(request_.method, request_.path,
                             request_.target.unix_socket.empty() ? shown(request_.target) : "localhost",
                             request_.headers, request_.body.size());
    if (!text) co_return fail(text.error());
    *text += request_.body;
    auto connected = co_await connect();
    if (!connected) co_return fail(connected.error());
    const auto sent = co_await stream_->write(*text, deadline_);
    // A server may answer, and close, before it has read all of a body that it does not want.
    if (!sent && sent.error().code != "connection_failed") co_return fail(sent.error());
    auto reply = co_await read_reply();
    co_return reply;
  }

  Task<Result<void>> connect() {
    const auto endpoints = co_await endpoints_of(loop_, request_.target);
    if (!endpoints) co_return fail(endpoints.error());
    Result<void> connected = fail("connection_failed", "the host has no address");
    for (const auto& endpoint : *endpoints) {
      connected = co_await stream_->connect(endpoint, deadline_);
      if (connected) break;
    }
    co_return connected;
  }

  Task<Result<HttpReply>> read_reply() {
    MessageReader reader(MessageReader::Role::response);
    const auto answers_head = request_.method == "HEAD";
    if (answers_head) reader.expect_no_body();
    std::optional<Deadline> deadline = deadline_;
    HttpReply reply;
    bool interim = false;
    for (;;) {
      const auto step = reader.next();
      if (!step) co_return fail(step.error());
      switch (*step) {
        case Step::need_more: {
          const auto count = co_await stream_->read(&reader, deadline);
          if (!count) co_return fail(count.error());
          if (*count > 0) break;
          if (reply.status == 0)
            co_return fail("connection_failed", "the server closed the connection without an answer");
          if (!reader.finish()) co_return fail("connection_failed", "the server closed the connection in its answer");
          co_return reply;
        }
        case Step::head: {
          const auto& head = reader.head();
          if (head.status == 101) co_return fail("bad_response", "the server changed the protocol unasked");
          interim = head.status < 200;
          if (interim) break;
          reply.status = head.status;
          reply.headers = head.headers;
          if (streams(reply)) deadline.reset();
          break;
        }
        case Step::body:
          if (streams(reply)) {
            if (!on_piece_(reader.piece())) co_return reply;
            break;
          }
          if (reader.piece().size() > request_.body_limit - reply.body.size()) {
            co_return fail("body_too_large", fmt::format("the answer has more than {} bytes", request_.body_limit));
          }
          reply.body += reader.piece();
          break;
        case Step::end:
          if (!interim) co_return reply;
          if (answers_head) reader.expect_no_body();
          break;
      }
    }
  }

  [[nodiscard]] bool streams(const HttpReply& reply) const { return on_piece_ && reply.status / 100 == 2; }

  AsioEventLoop* loop_;
  HttpCall request_;
  OnPiece on_piece_;
  std::shared_ptr<Stream> stream_;
  StopHook stop_hook_;
  Deadline deadline_;
};

Task<Result<HttpReply>> exchange(AsioEventLoop* loop, HttpCall request, OnPiece on_piece) {
  Exchange one(loop, std::move(request), std::move(on_piece));
  auto reply = co_await one.run();
  co_return reply;
}

}  // namespace

Task<Result<HttpReply>> AsioHttpClient::call(HttpCall request) { return exchange(&loop_, std::move(request), {}); }

Task<Result<HttpReply>> AsioHttpClient::stream(HttpCall request, OnPiece on_piece) {
  return exchange(&loop_, std::move(request), std::move(on_piece));
}

}  // namespace dgxmm::net
