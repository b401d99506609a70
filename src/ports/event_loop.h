#pragma once
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace dgxmm::ports {

/// A coroutine on the loop's thread.
template <class T = void>
using Task = boost::asio::awaitable<T>;

/// Wakes coroutines that wait for something to change. Loop thread only.
class Wakeup {
 public:
  virtual ~Wakeup() = default;
  virtual void notify_all() = 0;
  /// Returns after the next notify_all, after `timeout`, or when the loop stops.
  virtual Task<> wait_for(std::chrono::milliseconds timeout) = 0;
};

/// The one thread that owns all state. Everything but `post` is called on that thread.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  /// Runs a task to its end. An exception ends that task alone and is logged with `what`.
  virtual void spawn(std::string what, Task<> task) = 0;
  /// Returns early when the loop stops: look at `stopping()` after it.
  virtual Task<> sleep_for(std::chrono::milliseconds duration) = 0;
  /// From any thread: runs `work` on the loop's thread.
  virtual void post(std::function<void()> work) = 0;
  /// Runs blocking `work` on a small pool; returns when it is done. Exceptions come back to the awaiting task.
  virtual Task<> on_pool(std::function<void()> work) = 0;
  [[nodiscard]] virtual bool stopping() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Wakeup> make_wakeup() = 0;
};

}  // namespace dgxmm::ports
