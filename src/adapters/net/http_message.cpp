#include "adapters/net/http_message.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dgxmm::net {

namespace http = boost::beast::http;
using boost::beast::error_code;

/// What is used of Beast, for both kinds of message.
class MessageReader::Parser {
 public:
  virtual ~Parser() = default;
  virtual std::size_t put(std::string_view bytes, error_code& error) = 0;
  virtual void put_eof(error_code& error) = 0;
  [[nodiscard]] virtual bool is_done() const = 0;
};

template <bool IsRequest>
class MessageReader::BeastParser final : public Parser, private http::basic_parser<IsRequest> {
  using Base = http::basic_parser<IsRequest>;
  using StringView = boost::beast::string_view;
  using Length = boost::optional<std::uint64_t>;

 public:
  BeastParser(MessageHead* head, std::string* piece, bool no_body) : head_(head), piece_(piece) {
    Base::header_limit(kHeadLimit);
    // The limit of a body depends on its route, which is known after the head.
    Base::body_limit(boost::none);
    Base::skip(no_body);
  }

  std::size_t put(std::string_view bytes, error_code& error) override {
    return Base::put(boost::asio::buffer(bytes), error);
  }
  void put_eof(error_code& error) override { Base::put_eof(error); }
  bool is_done() const override { return Base::is_done(); }

 private:
  void set_version(int version) { head_->http_1_0 = version == 10; }

  void on_request_impl(http::verb /*verb*/, StringView method, StringView target, int version,
                       error_code& /*error*/) override {
    head_->method = method;
    head_->target = target;
    set_version(version);
  }
  void on_response_impl(int status, StringView /*reason*/, int version, error_code& /*error*/) override {
    head_->status = status;
    set_version(version);
  }
  void on_field_impl(http::field /*field*/, StringView name, StringView value, error_code& /*error*/) override {
    if (Base::is_header_done()) return;  // a trailer
    head_->headers.emplace_back(to_lower({name.data(), name.size()}), value);
  }
  void on_header_impl(error_code& /*error*/) override {
    head_->chunked = Base::chunked();
    if (const auto length = Base::content_length()) head_->content_length = *length;
    head_->keep_alive = Base::keep_alive();
  }
  void on_body_init_impl(const Length& /*length*/, error_code& /*error*/) override {}
  std::size_t on_body_impl(StringView bytes, error_code& /*error*/) override {
    piece_->assign(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, StringView /*extensions*/, error_code& /*error*/) override {}
  std::size_t on_chunk_body_impl(std::uint64_t /*remaining*/, StringView bytes, error_code& /*error*/) override {
    piece_->assign(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(error_code& /*error*/) override {}

  MessageHead* head_;
  std::string* piece_;
};

std::optional<std::string_view> MessageHead::header(std::string_view lower_case_name) const {
  const auto found = std::ranges::find(headers, lower_case_name, [](const auto& header) { return header.first; });
  if (found == headers.end()) return std::nullopt;
  return found->second;
}

MessageReader::MessageReader(Role role) : role_(role) {}
MessageReader::~MessageReader() = default;

void MessageReader::put(std::string_view bytes) {
  buffer_.erase(0, std::exchange(used_, 0));
  buffer_ += bytes;
}

void MessageReader::consume(std::size_t count) {
  used_ += count;
  if (used_ < buffer_.size()) return;
  // An idle connection keeps no buffer.
  buffer_ = {};
  used_ = 0;
}

void MessageReader::start_next() {
  state_ = State::head;
  parser_.reset();
  scanned_ = 0;
  line_start_ = 0;
  no_body_ = false;
}

std::unexpected<Error> MessageReader::bad(std::string what) const {
  return fail(role_ == Role::request ? "bad_request" : "bad_response", std::move(what));
}

/// Goes through the head byte by byte before Beast sees it, so that a hostile one is refused at its first wrong byte.
Result<std::optional<std::size_t>> MessageReader::find_end_of_head() {
  const auto bytes = unread();
  for (; scanned_ < bytes.size(); ++scanned_) {
    const auto c = bytes[scanned_];
    const auto after_return = scanned_ > 0 && bytes[scanned_ - 1] == '\r';
    if (scanned_ >= kHeadLimit) {
      return role_ == Role::request
                 ? fail("head_too_large", fmt::format("the head of the request has more than {} bytes", kHeadLimit))
                 : bad(fmt::format("the head of the answer has more than {} bytes", kHeadLimit));
    }
    if (after_return != (c == '\n')) return bad("a line of the head does not end with CR LF");
    if (c == '\n') {
      const auto empty = scanned_ == line_start_ + 1;
      if (empty && line_start_ == 0) return bad("the head begins with an empty line");
      line_start_ = scanned_ + 1;
      if (empty) return scanned_ + 1;
    } else if (c != '\r' && c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) {
      return bad("the head has a control character");
    } else if (scanned_ == line_start_ && (c == ' ' || c == '\t')) {
      return bad("a line of the head begins with a space");
    }
  }
  return std::nullopt;
}

Result<void> MessageReader::check_head() const {
  const auto count = [this](std::string_view name) {
    return std::ranges::count(head_.headers, name, [](const auto& header) { return std::string_view{header.first}; });
  };
  if (const auto encoding = head_.header("transfer-encoding")) {
    if (to_lower(*encoding) != "chunked" || count("transfer-encoding") > 1) {
      constexpr auto kText = "only the transfer encoding `chunked` is supported";
      return role_ == Role::request ? fail("unsupported_encoding", kText) : bad(kText);
    }
    if (head_.http_1_0) return bad("HTTP/1.0 has no transfer encodings");
  }
  if (role_ == Role::response) return {};
  if (count("host") != 1) return bad("a request needs exactly one Host header");
  if (count("content-length") > 1) return bad("a request has at most one Content-Length header");
  return {};
}

Result<MessageReader::Step> MessageReader::read_head() {
  if (!unread().empty() && scanned_ == 0) head_ = {};
  const auto size = find_end_of_head();
  if (!size) return fail(size.error());
  if (!*size) return Step::need_more;
  if (role_ == Role::request) {
    parser_ = std::make_unique<BeastParser<true>>(&head_, &piece_, no_body_);
  } else {
    parser_ = std::make_unique<BeastParser<false>>(&head_, &piece_, no_body_);
  }
  error_code error;
  const auto used = parser_->put(unread().substr(0, **size), error);
  if (error || used != **size) return bad("the head cannot be read: " + error.message());
  consume(used);
  if (const auto checked = check_head(); !checked) return fail(checked.error());
  state_ = State::body;
  return Step::head;
}

Result<MessageReader::Step> MessageReader::next() {
  piece_.clear();
  if (state_ == State::head) return read_head();
  while (!parser_->is_done()) {
    if (unread().empty()) return Step::need_more;
    error_code error;
    consume(parser_->put(unread(), error));
    if (error == http::error::need_more) {
      if (unread().size() > kHeadLimit) return bad("the framing of the body is too large");
      return Step::need_more;
    }
    if (error) return bad("the body cannot be read: " + error.message());
    if (!piece_.empty()) return Step::body;
  }
  start_next();
  return Step::end;
}

Result<void> MessageReader::finish() {
  if (state_ == State::head) return bad("the connection ended before the message did");
  error_code error;
  if (!parser_->is_done()) parser_->put_eof(error);
  if (error) return bad("the connection ended before the message did");
  start_next();
  return {};
}

}  // namespace dgxmm::net
