#include "adapters/net/sse.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dgxmm::net {

namespace {

std::string without_control_bytes(std::string_view text) {
  std::string clean;
  std::ranges::copy_if(text, std::back_inserter(clean), [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
  return clean;
}

}  // namespace

std::string to_sse(const SseEvent& event) {
  std::string text;
  if (!event.id.empty()) text += fmt::format("id: {}\n", without_control_bytes(event.id));
  if (!event.event.empty()) text += fmt::format("event: {}\n", without_control_bytes(event.event));
  std::string_view rest = event.data;
  for (;;) {
    const auto end = rest.find_first_of("\r\n");
    text += fmt::format("data: {}\n", rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(rest.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  }
  text += '\n';
  return text;
}

Result<std::vector<SseEvent>> SseParser::put(std::string_view bytes) {
  std::vector<SseEvent> events;
  for (const char c : bytes) {
    // A line ends with CR, LF or both; the LF of both may come later.
    const auto second_half = c == '\n' && after_return_;
    after_return_ = c == '\r';
    if (second_half) continue;
    if (c == '\r' || c == '\n') {
      take_line(events);
    } else {
      line_ += c;
      if (line_.size() + event_.data.size() > limit_) {
        return fail("bad_event_stream", fmt::format("an event has more than {} bytes", limit_));
      }
    }
  }
  return events;
}

void SseParser::take_line(std::vector<SseEvent>& events) {
  const auto whole = std::exchange(line_, {});
  std::string_view line = whole;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (std::exchange(first_line_, false) && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (line.empty()) {
    auto event = std::exchange(event_, {});
    if (!std::exchange(has_data_, false)) return;
    event.id = last_id_;
    events.push_back(std::move(event));
    return;
  }
  const auto colon = line.find(':');
  const auto name = line.substr(0, colon);
  auto value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (std::exchange(has_data_, true)) event_.data += '\n';
    event_.data += value;
  } else if (name == "event") {
    event_.event = value;
  } else if (name == "id" && value.find('\0') == std::string_view::npos) {
    last_id_ = value;
  }
}

}  // namespace dgxmm::net
