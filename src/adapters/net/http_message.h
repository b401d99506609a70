#pragma once
#include "adapters/net/http_text.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dgxmm::net {

/// Largest head, and largest piece of framing (chunk sizes, trailers) inside a body.
inline constexpr std::size_t kHeadLimit = 16 * 1024;

/// A message up to its body. Frozen when its last byte has arrived: trailers after the body never reach it.
struct MessageHead {
  std::string method;  ///< of a request
  std::string target;  ///< of a request, as received
  int status = 0;      ///< of a response
  bool http_1_0 = false;
  HeaderList headers;  ///< names in lower case, in the order of arrival
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = false;

  /// The value of a header that occurs once, or of its first occurrence.
  [[nodiscard]] std::optional<std::string_view> header(std::string_view lower_case_name) const;
};

/// Reads HTTP/1.x messages out of a stream of bytes, one after the other, however the bytes are cut.
///
/// Stricter than the parser below it, because two readers of one head must never disagree: no bare line feeds, no
/// folded lines, no control bytes; Transfer-Encoding is exactly `chunked`, once, not in HTTP/1.0 and not beside
/// Content-Length; a request has exactly one Host and at most one Content-Length.
class MessageReader {
 public:
  enum class Role { request, response };
  enum class Step {
    need_more,  ///< put() more bytes
    head,       ///< head() is complete
    body,       ///< piece() holds the next bytes of the body
    end         ///< the message is complete; next() goes on with the one after it
  };

  explicit MessageReader(Role role);
  ~MessageReader();
  MessageReader(const MessageReader&) = delete;
  MessageReader& operator=(const MessageReader&) = delete;

  void put(std::string_view bytes);
  /// Errors of requests: `bad_request`, `head_too_large`, `unsupported_encoding`; of responses: `bad_response`. Final:
  /// what follows in the stream has no meaning.
  Result<Step> next();
  /// The stream has ended: an error unless that completes the current response.
  Result<void> finish();

  /// No byte of the next message has arrived.
  [[nodiscard]] bool between_messages() const { return state_ == State::head && unread().empty(); }
  [[nodiscard]] bool has_unread() const { return !unread().empty(); }
  /// Of the current message, or of the last one until the next begins.
  [[nodiscard]] const MessageHead& head() const { return head_; }
  [[nodiscard]] std::string_view piece() const { return piece_; }
  /// The next response answers a HEAD: it has no body, whatever its head says.
  void expect_no_body() { no_body_ = true; }

 private:
  class Parser;
  template <bool IsRequest>
  class BeastParser;
  enum class State { head, body };

  [[nodiscard]] std::string_view unread() const { return std::string_view{buffer_}.substr(used_); }
  void consume(std::size_t count);
  void start_next();
  Result<std::optional<std::size_t>> find_end_of_head();
  Result<Step> read_head();
  [[nodiscard]] Result<void> check_head() const;
  [[nodiscard]] std::unexpected<Error> bad(std::string what) const;

  Role role_;
  State state_ = State::head;
  bool no_body_ = false;
  std::string buffer_;
  std::size_t used_ = 0;        // of buffer_
  std::size_t scanned_ = 0;     // of unread(), while looking for the end of the head
  std::size_t line_start_ = 0;  // of unread()
  MessageHead head_;
  std::string piece_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace dgxmm::net
