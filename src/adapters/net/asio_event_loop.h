#pragma once
#include "ports/event_loop.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}

namespace dgxmm::net {

/// Ends one task early: what it waits for returns at once, and the next co_await throws.
class TaskHandle {
 public:
  TaskHandle() = default;
  void cancel() const;

 private:
  friend class AsioEventLoop;
  struct Record;
  std::weak_ptr<Record> record_;
};

/// Keeps a function registered for the moment the loop stops.
class StopHook {
 public:
  StopHook() = default;
  StopHook(StopHook&&) = default;
  StopHook& operator=(StopHook&&) = default;
  ~StopHook() = default;

 private:
  friend class AsioEventLoop;
  std::shared_ptr<void> registration_;
};

/// The event loop of the process. Outlives everything that was given a reference to it.
class AsioEventLoop final : public ports::EventLoop {
 public:
  /// `on_signal` gets SIGTERM and SIGINT on the loop's thread; without it they keep their usual effect.
  /// `stop_limit`: how long tasks may take to end by themselves once the loop stops, before they are cancelled.
  explicit AsioEventLoop(std::function<void(int)> on_signal = {},
                         std::chrono::milliseconds stop_limit = std::chrono::seconds{10});
  ~AsioEventLoop() override;
  AsioEventLoop(const AsioEventLoop&) = delete;
  AsioEventLoop& operator=(const AsioEventLoop&) = delete;

  /// Makes the calling thread the loop's; returns after `stop`, when every task has ended or was given up. Once.
  void run();
  /// From any thread, any number of times.
  void stop();

  void spawn(std::string what, ports::Task<> task) override;
  /// Like `spawn`; the task starts after the caller has the handle.
  TaskHandle spawn_cancellable(std::string what, ports::Task<> task);
  ports::Task<> sleep_for(std::chrono::milliseconds duration) override;
  void post(std::function<void()> work) override;
  ports::Task<> on_pool(std::function<void()> work) override;
  [[nodiscard]] bool stopping() const override;
  [[nodiscard]] std::unique_ptr<ports::Wakeup> make_wakeup() override;

  /// Runs `action` when the loop begins to stop, unless the hook is gone by then.
  [[nodiscard]] StopHook on_stop(std::function<void()> action);

  /// For adapters that wait on file descriptors of their own.
  [[nodiscard]] boost::asio::io_context& context();

 private:
  struct State;
  class LoopWakeup;
  std::unique_ptr<State> state_;
};

}  // namespace dgxmm::net
