#pragma once
// Server-sent events as text (https://html.spec.whatwg.org/multipage/server-sent-events.html).
#include "base/result.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::net {

struct SseEvent {
  std::string id;     ///< empty: none
  std::string event;  ///< type; empty: "message"
  std::string data;

  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

/// The event as it is sent. Line breaks in `data` are kept (as LF); control bytes in `id` and `event` are left out, as
/// they would begin another field.
std::string to_sse(const SseEvent& event);

/// Sent now and then, so that both sides notice a connection that has died.
inline constexpr std::string_view kSseHeartbeat = ":\n\n";

/// Reads events out of a stream, however its bytes are cut. Comments, `retry` and unknown fields are skipped; an event
/// that the stream breaks off is dropped.
class SseParser {
 public:
  /// The events that are complete now; `id` is the last one seen, also of earlier events. Errors: `bad_event_stream`
  /// when a line or event has more than `limit` bytes; the stream is of no use then.
  Result<std::vector<SseEvent>> put(std::string_view bytes);

  explicit SseParser(std::size_t limit = 1024 * 1024) : limit_(limit) {}

 private:
  void take_line(std::vector<SseEvent>& events);

  std::size_t limit_;
  std::string line_;
  bool after_return_ = false;
  bool first_line_ = true;
  bool has_data_ = false;
  std::string last_id_;
  SseEvent event_;
};

}  // namespace dgxmm::net
