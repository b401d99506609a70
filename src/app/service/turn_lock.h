#pragma once
#include "ports/event_loop.h"

#include <cstdint>
#include <memory>
#include <utility>

namespace dgxmm::service {

/// One at a time, in the order of asking. Loop thread only.
class TurnLock {
 public:
  /// Holds the turn until destroyed.
  class Turn {
   public:
    explicit Turn(TurnLock& lock) : lock_(&lock) {}
    Turn(Turn&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Turn& operator=(Turn&&) = delete;
    ~Turn() { release(); }
    void release() {
      if (auto* lock = std::exchange(lock_, nullptr)) lock->next();
    }

   private:
    TurnLock* lock_;
  };

  explicit TurnLock(ports::EventLoop& loop) : loop_(loop), changed_(loop.make_wakeup()) {}

  /// When the loop stops, waiting ends at once: look at `stopping()` before acting.
  ports::Task<Turn> take() {
    const auto ticket = issued_++;
    while (serving_ != ticket && !loop_.stopping()) co_await changed_->wait_for(std::chrono::hours{1});
    co_return Turn{*this};
  }

 private:
  void next() {
    ++serving_;
    changed_->notify_all();
  }

  ports::EventLoop& loop_;
  std::unique_ptr<ports::Wakeup> changed_;
  std::uint64_t issued_ = 0;
  std::uint64_t serving_ = 0;
};

}  // namespace dgxmm::service
