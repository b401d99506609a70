#include "adapters/net/stream.h"

#include "adapters/net/http_message.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <fcntl.h>
#include <utility>

namespace dgxmm::net {

namespace asio = boost::asio;
using boost::system::error_code;
using ports::Task;

namespace {

// On the stack of a plain function, never in the frame of a coroutine.
using ReadBuffer = std::array<char, 16 * 1024>;

// Left to itself the kernel keeps up to 4 MiB for every peer that does not read; with a thousand listeners that counts.
constexpr int kSendBufferBytes = 64 * 1024;

/// Reads what is there, without waiting; `sink` may be null.
std::size_t read_now(Socket& socket, MessageReader* sink, error_code& error) {
  ReadBuffer buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): written by read_some
  const auto count = socket.read_some(asio::buffer(buffer), error);
  if (sink != nullptr) sink->put({buffer.data(), count});
  return count;
}

}  // namespace

void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

Stream::Stream(Socket socket) : socket_(std::move(socket)), timer_(socket_.get_executor()) {
  if (socket_.is_open()) adopt_options();
}

std::shared_ptr<Stream> Stream::unconnected(asio::io_context& context) {
  return std::make_shared<Stream>(Socket(context));
}

void Stream::adopt_options() {
  close_on_exec(socket_.native_handle());
  error_code ignored;  // Unix sockets have no such delay
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  socket_.non_blocking(true, ignored);
}

Task<Result<void>> Stream::connect(Endpoint endpoint, Deadline deadline) {
  if (aborted_) co_return fail("cancelled", "cancelled");
  error_code error;
  socket_.close(error);
  socket_.open(endpoint.protocol(), error);
  if (error) co_return result_of(error);
  adopt_options();
  arm(deadline);
  co_await socket_.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
  deadline_.reset();
  co_return result_of(error);
}

Task<Result<std::size_t>> Stream::read(MessageReader* reader, std::optional<Deadline> deadline) {
  for (;;) {
    // Waits even when bytes are there already: a peer that never stops must not keep others from their turn.
    const auto ready = co_await wait(asio::socket_base::wait_read, deadline);
    if (!ready) co_return fail(ready.error());
    error_code error;
    const auto count = read_now(socket_, reader, error);
    if (!error) co_return count;
    if (error == asio::error::eof) co_return std::size_t{0};
    if (error != asio::error::would_block) co_return fail(result_of(error).error());
  }
}

Task<Result<std::size_t>> Stream::discard(std::optional<Deadline> deadline) { return read(nullptr, deadline); }

Task<Result<void>> Stream::write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto ready = co_await wait(asio::socket_base::wait_write, deadline);
    if (!ready) co_return ready;
    error_code error;
    bytes.remove_prefix(socket_.write_some(asio::buffer(bytes), error));
    if (error && error != asio::error::would_block) co_return result_of(error);
  }
  co_return Result<void>{};
}

void Stream::abort() {
  aborted_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

void Stream::end_writing() {
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
}

void Stream::close() {
  error_code ignored;
  socket_.close(ignored);
}

Task<Result<void>> Stream::wait(WaitType type, std::optional<Deadline> deadline) {
  if (aborted_) co_return fail("cancelled", "cancelled");
  if (deadline) arm(*deadline);
  error_code error;
  co_await socket_.async_wait(type, asio::redirect_error(asio::use_awaitable, error));
  if (deadline) deadline_.reset();
  co_return result_of(error);
}

void Stream::arm(Deadline deadline) {
  timed_out_ = false;
  deadline_ = deadline;
  timer_.expires_at(deadline);
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    // The timer may have fired just before the operation ended or the next one began: only a passed deadline counts.
    if (error || !self || !self->deadline_ || *self->deadline_ > std::chrono::steady_clock::now()) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

Result<void> Stream::result_of(const error_code& error) {
  const auto timed_out = std::exchange(timed_out_, false);
  if (!error) return {};
  if (aborted_) return fail("cancelled", "cancelled");
  if (timed_out) return fail("deadline_exceeded", "no answer in time");
  if (error == asio::error::connection_refused || error == boost::system::errc::no_such_file_or_directory) {
    return fail("connection_refused", "nothing listens there: " + error.message());
  }
  return fail("connection_failed", "the connection failed: " + error.message());
}

}  // namespace dgxmm::net
