#pragma once
#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "ports/event_loop.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::service {

/// One at a time: the highest priority first, then in the order of asking. Who waits can be seen, taken out, and waits
/// no longer than the limit. Loop thread only.
class TurnQueue {
 public:
  /// Who asks for a turn, and how urgently.
  struct Claim {
    std::string what;  ///< for people: "deploy m.gguf"
    std::int64_t priority = 0;
    std::optional<DeploymentId> deployment = {};
    std::string operation = {};  ///< its id
    bool patient = false;        ///< waits however long it takes, and cannot be taken out
  };

  /// One that waits, as it is shown.
  struct Waiting {
    std::string id;  ///< "admission-7"
    Claim claim;
    std::int64_t place = 1;  ///< 1: the next
    WallTime since;
  };

  /// Holds the turn until destroyed.
  class Turn {
   public:
    explicit Turn(TurnQueue& queue) : queue_(&queue) {}
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Turn& operator=(Turn&&) = delete;
    ~Turn() { release(); }
    void release() {
      if (auto* queue = std::exchange(queue_, nullptr)) queue->give_back();
    }

   private:
    TurnQueue* queue_;
  };

  /// `name`: the beginning of the ids that it gives. `limit`: the longest that anyone waits.
  TurnQueue(std::string name, std::chrono::milliseconds limit, ports::EventLoop& loop, const Clock& clock);

  /// Waits for the turn. Errors: `queue_timeout`, `cancelled` (taken out), `shutting_down`.
  ports::Task<Result<Turn>> take(Claim claim);

  /// Takes one out. False: none of that id waits, or it may not be taken out.
  bool cancel(const std::string& id);
  /// Whatever waits for a deployment, or for an operation.
  void cancel(DeploymentId deployment);
  void cancel_operation(const std::string& operation);

  /// In the order of their turns.
  [[nodiscard]] std::vector<Waiting> waiting() const;
  /// 1: the next; nothing when nothing of it waits.
  [[nodiscard]] std::optional<std::int64_t> place_of(DeploymentId deployment) const;
  [[nodiscard]] std::optional<std::int64_t> place_of_operation(const std::string& operation) const;
  /// Who has the turn.
  [[nodiscard]] const std::optional<Claim>& holder() const { return holder_; }

  /// Nothing while it moves; else a sentence: the first in it has waited longer than it may, or the turn is free and
  /// the first has not taken it.
  [[nodiscard]] std::optional<std::string> trouble() const;

  /// Called whenever who waits has changed.
  void on_change(std::function<void()> tell) { tell_ = std::move(tell); }
  /// Counts those changes.
  [[nodiscard]] std::int64_t revision() const { return revision_; }

 private:
  struct Entry {
    std::int64_t number = 0;
    Claim claim;
    WallTime since;
    SteadyTime asked_at;
    bool granted = false;
    bool taken_out = false;
  };
  using Entries = std::list<std::shared_ptr<Entry>>;
  class Place;

  std::shared_ptr<Entry> enter(Claim claim);
  void leave(const std::shared_ptr<Entry>& entry);
  void give_back();
  void hand_over();
  void take_out(const std::function<bool(const Claim&)>& chosen);
  void changed();
  [[nodiscard]] std::string id_of(const Entry& entry) const;

  std::string name_;
  std::chrono::milliseconds limit_;
  ports::EventLoop& loop_;
  const Clock& clock_;
  std::unique_ptr<ports::Wakeup> wakeup_;
  std::function<void()> tell_;
  Entries entries_;  ///< in the order of their turns
  std::optional<Claim> holder_;
  SteadyTime held_since_;
  bool stalled_ = false;  ///< somebody at the front has left because the turn did not come, and it still has not moved
  std::int64_t entered_ = 0;
  std::int64_t revision_ = 0;
};

}  // namespace dgxmm::service
