#pragma once
#include "base/result.h"
#include "ports/event_loop.h"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

namespace dgxmm::net {

class MessageReader;

using Socket = boost::asio::generic::stream_protocol::socket;
using Endpoint = boost::asio::generic::stream_protocol::endpoint;
using Deadline = std::chrono::steady_clock::time_point;

/// Engines that outlive the daemon must not inherit its sockets, or the port would stay taken; Asio does not see to
/// that.
void close_on_exec(int descriptor);

/// One connection, TCP or Unix. Loop thread only. It holds no buffers: what waits for a peer costs little.
/// Errors: `deadline_exceeded`, `connection_refused`, `connection_failed`, `cancelled`.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(Socket socket);

  static std::shared_ptr<Stream> unconnected(boost::asio::io_context& context);

  ports::Task<Result<void>> connect(Endpoint endpoint, Deadline deadline);
  /// Waits for bytes and puts them into `reader`; returns how many, 0 at the end of the stream.
  ports::Task<Result<std::size_t>> read(MessageReader* reader, std::optional<Deadline> deadline);
  /// The same, for bytes that nobody wants.
  ports::Task<Result<std::size_t>> discard(std::optional<Deadline> deadline);
  /// `bytes` must stay until it returns. One writer at a time.
  ports::Task<Result<void>> write(std::string_view bytes, Deadline deadline);

  /// Everything that waits, now or later, ends with `cancelled`.
  void abort();
  /// Tells the peer that nothing more will come.
  void end_writing();
  void close();

 private:
  using WaitType = boost::asio::socket_base::wait_type;

  ports::Task<Result<void>> wait(WaitType type, std::optional<Deadline> deadline);
  void adopt_options();
  void arm(Deadline deadline);
  Result<void> result_of(const boost::system::error_code& error);

  Socket socket_;
  boost::asio::steady_timer timer_;
  std::optional<Deadline> deadline_;  // of the operation that is under way
  bool timed_out_ = false;
  bool aborted_ = false;
};

}  // namespace dgxmm::net
