#include "adapters/net/http_text.h"

#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace dgxmm::net {

namespace {

constexpr bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

bool has_control(std::string_view text) { return std::ranges::any_of(text, is_control); }

// RFC 9110 5.6.2
constexpr bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"!#$%&'*+-.^_`|~"}.contains(c);
}

bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_char); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool is_ours(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{"connection", "content-length", "keep-alive", "trailer",
                                                   "transfer-encoding"};
  return std::ranges::find(kNames, to_lower(name)) != kNames.end();
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

struct ErrorStatus {
  std::string_view code;
  int status;
};

// Every error that a server answers by itself, before its handler or the next server has seen the request.
constexpr auto kErrorStatuses = std::to_array<ErrorStatus>({{"bad_request", 400},
                                                            {"path_not_passed_on", 404},
                                                            {"request_timeout", 408},
                                                            {"body_too_large", 413},
                                                            {"expectation_failed", 417},
                                                            {"head_too_large", 431},
                                                            {"internal_error", 500},
                                                            {"unsupported_encoding", 501},
                                                            {"upgrade_not_supported", 501},
                                                            {"engine_unreachable", 502},
                                                            {"too_many_connections", 503}});

enum class Plus { literal, space };

Result<std::string> percent_decode(std::string_view text, Plus plus) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const auto high = i + 1 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
      const auto low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
      if (!high || !low) return fail("bad_request", "the address has a % without two hexadecimal digits");
      c = static_cast<char>(*high * 16 + *low);
      i += 2;
    } else if (c == '+' && plus == Plus::space) {
      c = ' ';
    }
    if (is_control(c)) return fail("bad_request", "the address has a control character");
    decoded += c;
  }
  // It ends up in JSON, in answers and logs.
  if (valid_utf8(decoded) != decoded) return fail("bad_request", "the address is not UTF-8");
  return decoded;
}

Result<void> parse_query(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const auto end = text.find('&');
    const auto field = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (field.empty()) continue;
    const auto equals = field.find('=');
    auto name = percent_decode(field.substr(0, equals), Plus::space);
    if (!name) return fail(name.error());
    auto value = percent_decode(equals == std::string_view::npos ? "" : field.substr(equals + 1), Plus::space);
    if (!value) return fail(value.error());
    if (!query.emplace(std::move(*name), std::move(*value)).second) {
      return fail("bad_request", "the address gives a query parameter twice");
    }
  }
  return {};
}

}  // namespace

std::string to_lower(std::string_view text) {
  std::string lower{text};
  // Not std::tolower: that depends on the locale.
  for (auto& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Result<RequestTarget> parse_target(std::string_view target) {
  if (!target.starts_with('/')) return fail("bad_request", "the address of the request does not begin with /");
  if (std::ranges::any_of(target, [](char c) { return is_control(c) || c == ' ' || c == '#' || (c & 0x80) != 0; })) {
    return fail("bad_request", "the address of the request has a character that must be percent-encoded");
  }
  const auto question = target.find('?');
  auto path = percent_decode(target.substr(0, question), Plus::literal);
  if (!path) return fail(path.error());
  RequestTarget result{.path = std::move(*path), .query = {}};
  if (question != std::string_view::npos) {
    if (auto query = parse_query(target.substr(question + 1), result.query); !query) return fail(query.error());
  }
  return result;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kUnreserved = "-._~";
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kUnreserved.find(c) != std::string_view::npos;
    result += plain ? std::string{c} : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

std::string response_head(int status, const HeaderList& headers, Framing framing, std::size_t length, bool keep_alive) {
  auto head = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  for (const auto& [name, value] : headers) {
    if (!is_token(name) || has_control(value) || is_ours(name)) continue;
    head += fmt::format("{}: {}\r\n", name, value);
  }
  if (framing == Framing::length) head += fmt::format("Content-Length: {}\r\n", length);
  if (framing == Framing::chunked) head += "Transfer-Encoding: chunked\r\n";
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

HeaderList end_to_end(const HeaderList& headers) {
  constexpr std::array<std::string_view, 7> kOfOneConnection{
      "expect", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "upgrade", "http2-settings"};
  std::vector<std::string> named;
  for (const auto& [name, value] : headers) {
    if (to_lower(name) != "connection") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(','), rest.size());
      named.push_back(to_lower(trimmed(rest.substr(0, end))));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  HeaderList kept;
  for (const auto& [name, value] : headers) {
    auto lower = to_lower(name);
    const bool dropped = is_ours(lower) || std::ranges::find(kOfOneConnection, lower) != kOfOneConnection.end() ||
                         std::ranges::find(named, lower) != named.end();
    if (!dropped) kept.emplace_back(std::move(lower), value);
  }
  return kept;
}

Result<std::string> request_head(const std::string& method, const std::string& path, const std::string& host,
                                 const HeaderList& headers, std::size_t length) {
  const bool has_body = length > 0 || method == "POST" || method == "PUT" || method == "PATCH";
  return request_head(method, path, host, headers, has_body ? Framing::length : Framing::none, length);
}

Result<std::string> request_head(const std::string& method, const std::string& path, const std::string& host,
                                 const HeaderList& headers, Framing framing, std::size_t length) {
  const auto breaks_line = [](char c) { return is_control(c) || c == ' '; };
  if (!is_token(method) || !path.starts_with('/') || std::ranges::any_of(path, breaks_line) ||
      std::ranges::any_of(host, breaks_line)) {
    return fail("bad_request", "the method, path or host cannot be sent", "percent-encode the path");
  }
  auto head = fmt::format("{} {} HTTP/1.1\r\n", method, path);
  bool has_host = false;
  for (const auto& [name, value] : headers) {
    if (!is_token(name) || has_control(value)) return fail("bad_request", "a header cannot be sent", {}, name);
    if (is_ours(name)) continue;
    has_host = has_host || to_lower(name) == "host";
    head += fmt::format("{}: {}\r\n", name, value);
  }
  if (!has_host) head += fmt::format("Host: {}\r\n", host);
  if (framing == Framing::length) head += fmt::format("Content-Length: {}\r\n", length);
  if (framing == Framing::chunked) head += "Transfer-Encoding: chunked\r\n";
  head += "Connection: close\r\n\r\n";
  return head;
}

std::string chunk(std::string_view piece) {
  return piece.empty() ? std::string{} : fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

// The texts are the server's own: nothing from outside is in them, so nothing needs to be escaped.
std::string problem_document(int status, std::string_view code, std::string_view detail) {
  return fmt::format(R"({{"type":"about:blank","title":"{}","status":{},"detail":"{}","code":"{}"}})",
                     reason_phrase(status), status, detail, code);
}

int status_of(std::string_view code) {
  const auto* found = std::ranges::find(kErrorStatuses, code, &ErrorStatus::code);
  return found == kErrorStatuses.end() ? 500 : found->status;
}

std::string problem_answer(const Error& error) {
  const auto status = status_of(error.code);
  const auto body = problem_document(status, error.code, error.message);
  const HeaderList headers{{"Content-Type", "application/problem+json"}};
  return response_head(status, headers, Framing::length, body.size(), false) + body;
}

}  // namespace dgxmm::net
