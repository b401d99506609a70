#include "e2e/support/http.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace dgxmm::e2e {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

const sockaddr* as_sockaddr(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

HttpAnswer parse_answer(const std::string& text) {
  const auto head_end = text.find("\r\n\r\n");
  if (!text.starts_with("HTTP/1.") || head_end == std::string::npos)
    throw std::runtime_error("no HTTP answer: " + text);
  HttpAnswer answer;
  std::istringstream head{text.substr(0, head_end)};
  std::string line;
  std::getline(head, line);
  answer.status = std::stoi(line.substr(line.find(' ')));
  while (std::getline(head, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const auto colon = line.find(':');
    if (colon == std::string::npos) throw std::runtime_error("not a header: " + line);
    const auto begin = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    answer.headers[lower(line.substr(0, colon))] = line.substr(begin);
  }
  answer.body = text.substr(head_end + 4);
  return answer;
}

}  // namespace

boost::json::value HttpAnswer::json() const { return boost::json::parse(body); }

HttpConnection::HttpConnection(std::uint16_t port) : port_(port) {
  const auto address = loopback(port);
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0 || ::connect(socket_, as_sockaddr(address), sizeof address) != 0) {
    if (socket_ >= 0) ::close(socket_);
    throw std::runtime_error("nobody listens on port " + std::to_string(port));
  }
}

HttpConnection::~HttpConnection() { ::close(socket_); }

void HttpConnection::send(const std::string& method, const std::string& path, const std::string& body,
                          const Headers& headers) const {
  auto all = headers;
  all.try_emplace("Host", "127.0.0.1:" + std::to_string(port_));
  if (!body.empty()) {
    all.try_emplace("Content-Type", "application/json");
    all.try_emplace("Content-Length", std::to_string(body.size()));
  } else if (method != "GET") {
    all.try_emplace("Content-Length", "0");
  }
  std::string text = method + " " + path + " HTTP/1.0\r\n";
  for (const auto& [name, value] : all) text += name + ": " + value + "\r\n";
  text += "\r\n" + body;
  std::size_t sent = 0;
  while (sent < text.size()) {
    const auto count = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;  // it may have answered before it has read everything
    sent += static_cast<std::size_t>(count);
  }
}

std::string HttpConnection::receive(std::chrono::milliseconds limit) const {
  pollfd waiting{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) throw std::runtime_error("no answer in time");
  std::string piece(64 * 1024, '\0');
  const auto got = ::recv(socket_, piece.data(), piece.size(), 0);
  piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return piece;
}

HttpAnswer http(std::uint16_t port, const std::string& method, const std::string& path, const std::string& body,
                const Headers& headers) {
  const HttpConnection connection{port};
  connection.send(method, path, body, headers);
  std::string text;
  for (auto piece = connection.receive(); !piece.empty(); piece = connection.receive()) text += piece;
  return parse_answer(text);
}

EventListener::EventListener(std::uint16_t port, std::optional<std::int64_t> last_event_id) : connection_(port) {
  Headers headers;
  if (last_event_id) headers["Last-Event-ID"] = std::to_string(*last_event_id);
  connection_.send("GET", "/api/v1/events", {}, headers);
  while (unread_.find("\r\n\r\n") == std::string::npos) {
    const auto piece = connection_.receive();
    if (piece.empty()) throw std::runtime_error("the stream of events ended in its head");
    unread_ += piece;
  }
  const auto head_end = unread_.find("\r\n\r\n");
  if (parse_answer(unread_.substr(0, head_end + 4)).status != 200) throw std::runtime_error("refused: " + unread_);
  unread_.erase(0, head_end + 4);
}

SseMessage EventListener::next() {
  for (;;) {
    const auto end = unread_.find("\n\n");
    if (end == std::string::npos) {
      const auto piece = connection_.receive();
      if (piece.empty()) throw std::runtime_error("the stream of events ended");
      unread_ += piece;
      continue;
    }
    std::istringstream lines{unread_.substr(0, end)};
    unread_.erase(0, end + 2);
    SseMessage message;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("id: ")) message.id = std::stoll(line.substr(4));
      if (line.starts_with("event: ")) message.type = line.substr(7);
      if (line.starts_with("data: ")) message.data += line.substr(6);
    }
    if (!message.type.empty()) return message;  // else a comment, sent to keep the connection alive
  }
}

TakenPort::TakenPort() {
  auto address = loopback(0);
  socklen_t size = sizeof address;
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool taken = ::bind(socket_, as_sockaddr(address), size) == 0 && ::listen(socket_, 1) == 0 &&
                     ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!taken) throw std::runtime_error("cannot take a port");
  number_ = ntohs(address.sin_port);
}

TakenPort::~TakenPort() { ::close(socket_); }

}  // namespace dgxmm::e2e
