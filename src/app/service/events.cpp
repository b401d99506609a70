#include "app/service/events.h"

#include "app/dto/dto_json.h"
#include "base/log.h"

#include <exception>

namespace dgxmm::service {
namespace {

// Enough for any listener that reconnects at once; what is older is read from the store.
constexpr std::size_t kRecentEvents = 256;

}  // namespace

EventLog::EventLog(ports::Store& store, const Clock& clock, ports::EventLoop& loop)
    : store_(store),
      clock_(clock),
      recent_(kRecentEvents),
      last_id_(store.last_event_id()),
      changed_(loop.make_wakeup()) {}

void EventLog::publish(std::string type, std::optional<DeploymentId> deployment, std::string message,
                       std::map<std::string, std::string> data) {
  const auto now = clock_.wall();
  dto::Event event{.id = 0,
                   .time = format_time(now),
                   .type = std::move(type),
                   .deployment = deployment,
                   .message = std::move(message),
                   .data = std::move(data)};
  log::info("{}", event.message);
  try {
    event.id = store_.add_event(
        {.id = 0, .time = now, .type = event.type, .deployment = deployment, .document = json::encode(event)});
    last_id_ = event.id;
    recent_.push(std::move(event));
  } catch (const std::exception& error) {
    log::error("this event is lost, it could not be stored: {}", error.what());
  }
  changed_->notify_all();
}

std::vector<dto::Event> EventLog::after(std::int64_t id, std::size_t limit) const {
  std::vector<dto::Event> result;
  if (id >= last_id_) return result;
  if (!recent_.items().empty() && recent_.items().front().id <= id + 1) {
    for (const auto& event : recent_.items()) {
      if (event.id > id && result.size() < limit) result.push_back(event);
    }
    return result;
  }
  for (const auto& stored : store_.events_after(id, limit)) {
    const auto parsed = json::parse(stored.document);
    auto event =
        parsed ? json::decode<dto::Event>(*parsed, json::Unknown::ignore) : Result<dto::Event>{fail(parsed.error())};
    if (!event) {
      event = dto::Event{.id = stored.id,
                         .time = format_time(stored.time),
                         .type = stored.type,
                         .deployment = stored.deployment,
                         .message = "(unreadable event)",
                         .data = {}};
    }
    event->id = stored.id;
    result.push_back(std::move(*event));
  }
  return result;
}

}  // namespace dgxmm::service
