#pragma once
#include "base/clock.h"
#include "ports/event_loop.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::testing {

/// Time that passes only when a test lets it.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override {
    return WallTime{std::chrono::milliseconds{1'700'000'000'000}} + elapsed_ + shifted_;
  }
  [[nodiscard]] SteadyTime steady() const override { return SteadyTime{} + std::chrono::hours{1} + elapsed_; }
  void advance_to(SteadyTime time) {
    elapsed_ += std::chrono::duration_cast<std::chrono::milliseconds>(std::max(time, steady()) - steady());
  }
  /// The time of day alone goes on, as while a host is suspended.
  void shift_wall(std::chrono::milliseconds by) { shifted_ += by; }

 private:
  std::chrono::milliseconds elapsed_{0};
  std::chrono::milliseconds shifted_{0};
};

/// An event loop whose time is simulated: when nothing is ready, the clock jumps to the next sleep that ends. So a test
/// of minutes takes milliseconds, and always happens in the same order.
class SimulatedLoop final : public ports::EventLoop {
 public:
  explicit SimulatedLoop(ManualClock& clock);
  ~SimulatedLoop() override;
  SimulatedLoop(const SimulatedLoop&) = delete;
  SimulatedLoop& operator=(const SimulatedLoop&) = delete;

  void spawn(std::string what, ports::Task<> task) override;
  ports::Task<> sleep_for(std::chrono::milliseconds duration) override;
  void post(std::function<void()> work) override;
  ports::Task<> on_pool(std::function<void()> work) override;
  [[nodiscard]] bool stopping() const override { return stopping_; }
  [[nodiscard]] std::unique_ptr<ports::Wakeup> make_wakeup() override;

  /// Runs what is ready, without letting time pass.
  void run_ready();
  /// Lets that much time pass.
  void run_for(std::chrono::milliseconds duration);
  /// Runs until `done`; false when it still is not after `limit`.
  [[nodiscard]] bool run_until(const std::function<bool()>& done,
                               std::chrono::milliseconds limit = std::chrono::minutes{30});
  /// Runs a task to its end and returns what it returns; throws when it does not end.
  template <class T>
  T run(ports::Task<T> task) {
    auto result = std::make_shared<std::optional<T>>();
    spawn("test", keep(std::move(task), result));
    finish([&] { return result->has_value(); });
    return std::move(**result);
  }

  std::chrono::milliseconds pool_takes{0};  ///< as on a disk that is slow, or hangs

  /// Like SIGTERM: every sleep ends at once, and every task is run to its end. False: one does not end.
  [[nodiscard]] bool stop();
  /// Like SIGKILL: no task ever goes on; the frames of all are destroyed.
  void kill();

  /// What ended by an exception: "what: message".
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }

 private:
  struct Sleeper {
    SteadyTime until;
    boost::asio::steady_timer* timer;
  };
  using Sleepers = std::list<Sleeper>;
  class SimulatedWakeup;

  template <class T>
  static ports::Task<> keep(ports::Task<T> task, std::shared_ptr<std::optional<T>> result) {
    auto value = co_await std::move(task);
    result->emplace(std::move(value));
  }
  void finish(const std::function<bool()>& done);
  void end_sleeps();
  ports::Task<> sleep_until(SteadyTime time, std::shared_ptr<std::list<boost::asio::steady_timer*>> also_listed);

  ManualClock& clock_;
  std::shared_ptr<Sleepers> sleepers_ = std::make_shared<Sleepers>();
  std::vector<std::string> failures_;
  std::size_t running_ = 0;
  bool stopping_ = false;
  std::unique_ptr<boost::asio::io_context> context_;
};

}  // namespace dgxmm::testing
