#pragma once
#include "app/dto/dto.h"
#include "base/clock.h"
#include "base/ring.h"
#include "ports/event_loop.h"
#include "ports/store.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dgxmm::service {

/// Everything that happened, in order: stored, kept in memory for listeners, and announced.
class EventLog {
 public:
  EventLog(ports::Store& store, const Clock& clock, ports::EventLoop& loop);

  /// `message` is one sentence for people; `data` what a program needs. Never fails: what happened has happened, so an
  /// event that cannot be stored is lost, and whoever waits for changes is woken all the same.
  void publish(std::string type, std::optional<DeploymentId> deployment, std::string message,
               std::map<std::string, std::string> data = {});

  /// The events after that id, oldest first, at most `limit`.
  [[nodiscard]] std::vector<dto::Event> after(std::int64_t id, std::size_t limit) const;
  [[nodiscard]] std::int64_t last_id() const { return last_id_; }

  /// Notified after each event.
  ports::Wakeup& changed() { return *changed_; }

 private:
  ports::Store& store_;
  const Clock& clock_;
  Ring<dto::Event> recent_;
  std::int64_t last_id_;
  std::unique_ptr<ports::Wakeup> changed_;
};

}  // namespace dgxmm::service
