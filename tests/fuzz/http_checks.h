#pragma once
// What must hold for every stream of bytes that reaches the HTTP server; for the fuzzer and for tests.
#include "adapters/net/http_message.h"
#include "adapters/net/http_text.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::testing {

inline void must(bool holds) {
  if (!holds) std::abort();
}

struct ReadRequest {
  net::MessageHead head;
  std::string body;
};

/// The complete requests in `pieces`, up to the first error.
inline std::vector<ReadRequest> read_requests(const std::vector<std::string_view>& pieces) {
  using Step = net::MessageReader::Step;
  net::MessageReader reader(net::MessageReader::Role::request);
  std::vector<ReadRequest> requests;
  ReadRequest current;
  for (const auto piece : pieces) {
    reader.put(piece);
    for (;;) {
      const auto step = reader.next();
      if (!step) return requests;
      if (*step == Step::need_more) break;
      if (*step == Step::head) current = {.head = reader.head(), .body = {}};
      if (*step == Step::body) current.body += reader.piece();
      if (*step == Step::end) requests.push_back(current);
    }
  }
  return requests;
}

inline void check_request(const ReadRequest& request) {
  const auto& head = request.head;
  const auto count = [&head](std::string_view name) {
    return std::ranges::count_if(head.headers, [name](const auto& header) { return header.first == name; });
  };
  must(count("host") == 1);
  must(count("content-length") + count("transfer-encoding") <= 1);
  must(head.chunked == (count("transfer-encoding") == 1));
  must(head.chunked || request.body.size() == head.content_length.value_or(0));
  for (const auto& [name, value] : head.headers) {
    must(!name.empty() && name == net::to_lower(name));
    must(value.find_first_of("\r\n") == std::string::npos && value.find('\0') == std::string::npos);
  }
  if (const auto target = net::parse_target(head.target)) {
    must(target->path.starts_with('/'));
    must(std::ranges::none_of(target->path, [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
  }
}

/// However the bytes are cut, the same requests are read from them.
inline void check_http_requests(std::string_view bytes) {
  const auto whole = read_requests({bytes});
  for (const auto& request : whole) check_request(request);
  if (bytes.size() > net::kHeadLimit) return;  // how far framing may grow depends on what has arrived
  const auto same = [&whole](const std::vector<ReadRequest>& other) {
    return std::ranges::equal(whole, other, [](const ReadRequest& a, const ReadRequest& b) {
      return a.head.target == b.head.target && a.head.headers == b.head.headers && a.body == b.body;
    });
  };
  const auto middle = bytes.size() / 2;
  must(same(read_requests({bytes.substr(0, middle), bytes.substr(middle)})));
  std::vector<std::string_view> single;
  for (std::size_t i = 0; i < bytes.size(); ++i) single.push_back(bytes.substr(i, 1));
  must(same(read_requests(single)));
}

}  // namespace dgxmm::testing
