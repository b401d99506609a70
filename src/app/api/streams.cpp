#include "app/api/streams.h"

#include "app/api/views.h"
#include "app/dto/dto_json.h"

#include <fmt/format.h>

namespace dgxmm::api {
namespace {

using namespace std::chrono_literals;

constexpr auto kHeartbeat = 15s;
constexpr std::size_t kEventsAtOnce = 100;
constexpr auto kLogPoll = 250ms;

std::string sse_message(std::string_view id, std::string_view type, std::string_view data) {
  auto text = id.empty() ? std::string{} : fmt::format("id: {}\n", id);
  text += fmt::format("event: {}\ndata: {}\n\n", type, data);
  return text;
}

class EventStream final : public ports::BodyStream {
 public:
  EventStream(service::Service& service, std::int64_t last_id) : service_(service), last_id_(last_id) {}

  ports::Task<std::optional<std::string>> next() override {
    if (!greeted_) {  // the client learns at once that it is connected
      greeted_ = true;
      co_return ": dgxmm\n\n";
    }
    bool waited = false;
    while (!service_.loop.stopping()) {
      std::string text;
      for (const auto& event : service_.events.after(last_id_, kEventsAtOnce)) {
        text += sse_message(std::to_string(event.id), event.type, json::encode(event));
        last_id_ = event.id;
      }
      if (const auto snapshot = service_.sampler.latest(); snapshot && snapshot->revision != revision_) {  // B8
        revision_ = snapshot->revision;
        text += sse_message({}, "budget", json::encode(budget_view(service_, *snapshot)));
      }
      const auto queue_revision =
          service_.admission.turns().revision() + service_.supervisor.starts().revision();  // both only grow
      if (queue_revision != queue_revision_) {
        queue_revision_ = queue_revision;
        text += sse_message({}, "queue", json::encode(queue_view(service_)));
      }
      auto activity = json::encode(activities_view(service_));
      if (activity != activity_) {
        activity_ = std::move(activity);
        text += sse_message({}, "activity", activity_);
      }
      if (service_.history.count() != history_count_) {
        text += sse_message({}, "history", json::encode(history_view(service_, history_count_)));
        history_count_ = service_.history.count();
      }
      if (!text.empty()) co_return text;
      if (waited) co_return ": still here\n\n";
      // The sampler refreshes on every change of state, so its wake-up covers events too; `events` covers the rest.
      co_await service_.events.changed().wait_for(waiting_time());
      waited = heartbeat_due();
    }
    co_return std::nullopt;
  }

 private:
  std::chrono::milliseconds waiting_time() {
    const auto interval =
        std::chrono::milliseconds{static_cast<std::int64_t>(service_.settings.budget_interval_s * 1000)};
    return std::min<std::chrono::milliseconds>(interval, kHeartbeat);
  }
  bool heartbeat_due() {
    const auto now = service_.clock.steady();
    if (now - last_heartbeat_ < kHeartbeat) return false;
    last_heartbeat_ = now;
    return true;
  }

  service::Service& service_;
  std::int64_t last_id_;
  std::int64_t revision_ = 0;
  std::int64_t queue_revision_ = 0;                        ///< nobody has waited yet
  std::int64_t history_count_ = service_.history.count();  ///< what was before, a listener asks for
  std::string activity_ = "[]";                            ///< nobody serves yet
  bool greeted_ = false;
  SteadyTime last_heartbeat_ = service_.clock.steady();
};

class LogStream final : public ports::BodyStream {
 public:
  LogStream(service::Service& service, DeploymentId id, std::size_t tail) : service_(service), id_(id) {
    for (const auto& line : service.supervisor.log_tail(id, tail)) pending_ += line + "\n";
    follower_ = service.supervisor.logs().follow(service.supervisor.identity().log_path(id), false);
  }

  ports::Task<std::optional<std::string>> next() override {
    while (!service_.loop.stopping()) {
      const auto* deployment = service_.table.find(id_);
      const bool ended = deployment == nullptr || deployment::is_final(deployment->state);
      for (const auto& line : follower_->read_new()) {
        if (const auto shown = service::Supervisor::shown_line(line)) pending_ += *shown + "\n";
      }
      if (!pending_.empty()) co_return std::exchange(pending_, {});
      if (ended) co_return std::nullopt;
      co_await service_.loop.sleep_for(kLogPoll);
    }
    co_return std::nullopt;
  }

 private:
  service::Service& service_;
  DeploymentId id_;
  std::string pending_;
  std::unique_ptr<ports::LogFollower> follower_;
};

}  // namespace

std::unique_ptr<ports::BodyStream> event_stream(service::Service& service, std::int64_t last_id) {
  return std::make_unique<EventStream>(service, last_id);
}

std::unique_ptr<ports::BodyStream> log_stream(service::Service& service, DeploymentId id, std::size_t tail) {
  return std::make_unique<LogStream>(service, id, tail);
}

}  // namespace dgxmm::api
